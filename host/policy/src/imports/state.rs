//! What a store holds for its guest: the request, what the guest said, and what it may still do.

use std::sync::Arc;

use wasmtime::component::{ComponentType, Lift, Lower};
use wasmtime::{StoreContextMut, Trap};

use crate::bootstrap::answers::{NodeKind, UserData};
use crate::bootstrap::facts::BootFacts;
use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::kept::Reads;
use crate::limiter::Limiter;
use crate::score_request::ScoreRequest;
use crate::signals::DeclaredSignals;

/// Fuel for a host call: about 110 ns of the host at 0.2 ns per unit of fuel.
const CALL_FUEL: u64 = 600;
/// What a message takes of the room beside its text, which may be empty.
const MESSAGE_BYTES: usize = 64;
/// Bytes copied for one unit of fuel: about 10 GB/s.
const BYTES_PER_FUEL: u64 = 2;

/// How loud a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
pub enum Level {
    /// For authors of policies.
    #[component(name = "debug")]
    Debug,
    /// For the curious.
    #[component(name = "info")]
    Info,
    /// For operators, some day.
    #[component(name = "warn")]
    Warn,
    /// For operators, now.
    #[component(name = "error")]
    Error,
}

/// A message of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Severity that the policy gave the message.
    pub level: Level,
    /// What it says; cut at 2 KiB.
    pub text: String,
}

/// The data of a store for its guest: the request, and the remaining allowance.
pub(crate) struct StoreData {
    /// The question that it is asked now.
    pub request: ScoreRequest,
    /// What it called to answer that.
    pub reads: Reads,
    /// Signals that it declares, and whether it may read them.
    pub visible: Arc<DeclaredSignals>,
    pub cluster: Arc<ClusterColumns>,
    pub proposals: Arc<ProposalColumns>,
    pub boot: Arc<BootFacts>,
    pub built_in: Arc<UserData>,
    /// The nodes that user data is for.
    pub kind: Arc<NodeKind>,
    pub limits: Limiter,
    pub host_calls: u32,
    pub log_room: usize,
    pub messages_left: u32,
    pub messages: Vec<Message>,
    /// What it said last in this call, kept or not.
    pub last_said: String,
}

impl StoreData {
    /// Keeps a message if there is room.
    pub fn say(&mut self, level: Level, text: String) {
        self.last_said.clone_from(&text);
        let room = self.log_room.checked_sub(text.len() + MESSAGE_BYTES);
        match (room, self.messages_left.checked_sub(1)) {
            (Some(room), Some(left)) => {
                (self.log_room, self.messages_left) = (room, left);
                self.messages.push(Message { level, text });
            }
            _ => (self.log_room, self.messages_left) = (0, 0),
        }
    }
}

/// The guest made more host calls than it may.
#[derive(Debug, thiserror::Error)]
#[error("too many calls of host functions")]
pub(crate) struct TooManyCalls;

/// Takes the fuel for a host call that copies `bytes`.
pub(crate) fn charge(cx: &mut StoreContextMut<StoreData>, bytes: usize) -> wasmtime::Result<()> {
    let state = cx.data_mut();
    state.host_calls = state.host_calls.checked_sub(1).ok_or(TooManyCalls)?;
    let cost = CALL_FUEL + bytes as u64 / BYTES_PER_FUEL;
    let left = cx.get_fuel()?.checked_sub(cost).ok_or(Trap::OutOfFuel)?;
    cx.set_fuel(left)
}
