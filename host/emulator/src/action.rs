//! An action of a service: what it needs beside its parameters, and what comes of it.

use crate::time::Time;
use crate::wire::{Refusal, Reply, Xml};
use crate::world::queue::Poll;

/// What an action needs beside its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub now: Time,
    /// Reads show this moment.
    pub as_of: Time,
    pub action: String,
    /// The address that the client called, for URLs in replies.
    pub host: String,
}

/// The result of an action.
pub(crate) enum Answer {
    Xml(Vec<Xml>),
    Json(serde_json::Value),
    /// A reply from before, for a token that comes again.
    Again(Reply),
    Poll(Poll, Time),
}

/// The inside of a reply.
pub(crate) type Found = Result<Vec<Xml>, Refusal>;
