//! Bootstrap policies: a session that tells one the [facts], asks it, and checks its [answers].
//!
//! What user data must hold is checked by the cloud's crate.

pub(crate) mod answers;
pub(crate) mod facts;
pub(crate) mod functions;
pub(crate) mod interfaces;

use std::sync::Arc;

use crate::call::Instance;
use crate::call::answer::CallError;
use crate::imports::state::Message;
use crate::loaded::LoadedPolicy;
use answers::{NodeKind, Overheads, UserData};
use facts::BootFacts;
use functions::BootFunctions;

/// A bootstrap policy called directly, without a substitute.
pub struct BootSession {
    instance: Instance,
    functions: BootFunctions,
    machines: usize,
}

impl LoadedPolicy {
    /// Whether it is a bootstrap policy.
    pub fn is_bootstrap(&self) -> bool {
        self.0.exports.overheads.is_some() && self.0.exports.user_data.is_some()
    }
}

impl BootSession {
    /// A fresh instance that gets `facts`. Fails on a policy that does not export `bootstrap`.
    pub fn new(policy: &LoadedPolicy, facts: Arc<BootFacts>) -> Result<Self, CallError> {
        let machines = facts.machines.instance_types.len();
        let mut instance = policy.instantiate()?;
        let (functions, state) = instance.boot();
        state.boot = facts;
        let functions = functions.ok_or_else(|| CallError::Answer {
            asked: "bootstrap",
            problem: "the policy does not export `bootstrap`".to_owned(),
        })?;
        Ok(BootSession {
            instance,
            functions,
            machines,
        })
    }

    /// What the kubelet keeps back: checked for rows, and for amounts that are finite and 0 or more.
    /// After an error the session is of no use any more.
    pub fn overheads(&mut self) -> Result<Overheads, CallError> {
        let asked = "overheads";
        let overheads = self.functions.overheads;
        let answer = self
            .instance
            .ask_with(asked, overheads, (), self.machines)?;
        let facts = self.instance.boot().1.boot.clone();
        Overheads::of_columns(answer, &facts.built_in, self.machines)
            .map_err(|problem| CallError::Answer { asked, problem })
    }

    /// User data of nodes of a kind on some machines: checked for rows and indices. Equal texts are
    /// one. `built_in` is what the host would say. After an error the session is of no use any more.
    pub fn user_data(
        &mut self,
        kind: &NodeKind,
        machines: &[u32],
        built_in: Arc<UserData>,
    ) -> Result<UserData, CallError> {
        let asked = "user-data";
        let state = self.instance.boot().1;
        (state.built_in, state.kind) = (built_in, Arc::new(kind.clone()));
        let with = (machines.to_vec(),);
        let user_data = self.functions.user_data;
        let answer = self
            .instance
            .ask_with(asked, user_data, with, machines.len())?;
        let state = self.instance.boot().1;
        (state.built_in, state.kind) = Default::default();
        answer
            .grouped(machines.len())
            .map_err(|problem| CallError::Answer { asked, problem })
    }

    /// What the policy has said since last asked.
    pub fn messages(&mut self) -> Vec<Message> {
        self.instance.take_messages()
    }
}
