//! The moments at which a process can be killed or a call struck, and what happens there.

use std::fmt;

/// Something that the daemon does to the outside, in the order of doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// A call of the cloud's API; a write to the API server otherwise.
    pub call: bool,
    /// In words, as `patch nodeclaims/status default-abcde`.
    pub what: String,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.call { "call " } else { "" }, self.what)
    }
}

/// When a process is killed, as seen from a write or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing of it has been done.
    Before,
    /// It has been sent and will be carried out.
    During,
    /// It has been carried out, and the answer was not read.
    After,
}

/// The death of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Number of the write or call, from 0.
    pub point: usize,
    /// Before or after.
    pub when: When,
}

/// What strikes a call of the cloud's API whose process lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The connection ends before the cloud has read it.
    RequestLost,
    /// It is carried out, and the connection ends without a reply.
    ReplyLost,
    /// An error of the cloud; nothing was done.
    ErrorBefore,
    /// An error of the cloud; everything was done.
    ErrorAfter,
}
