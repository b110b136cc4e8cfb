//! What a look finds for nodes one by one: proposals of static drift, replaced by a node of the same
//! NodePool, and commands that need no place for pods. Which nodes are taken is decided in `core`;
//! here only what has changed since is left to the next look.

use longshore_api::crd::NodePool;
use longshore_core::disrupt::methods::Act;
use longshore_core::disrupt::static_capacity::Scale;
use longshore_core::disrupt::verdicts::Method;
use std::collections::BTreeSet;

use super::Controller;
use crate::act::disruption::step::NewCommand;
use crate::act::launch::static_pools;
use crate::decide::command::{Candidate, candidate_of};
use crate::decide::disruption::Decision;
use crate::observe::node_claim::pool_of;

impl Controller {
    /// Begins to replace the nodes that a look has found.
    pub(super) fn replace_static(&mut self, decision: &Decision) {
        if !self.ctx.static_capacity.enabled {
            return;
        }
        let nodes: Vec<String> = decision
            .now
            .iter()
            .filter(|proposal| proposal.method == Method::StaticDrift)
            .flat_map(|proposal| self.node_names(&decision.snapshot, proposal))
            .collect();
        let commands: Vec<NewCommand> = nodes
            .iter()
            .filter_map(|node| self.alone(node, Method::StaticDrift, true))
            .collect();
        commands
            .into_iter()
            .for_each(|command| self.begin_alone(command));
    }

    /// Begins what a look has found for single nodes.
    pub(super) fn begin_singles(&mut self, decision: &Decision) {
        for single in &decision.singles {
            let name = decision.snapshot.nodes[single.node.0 as usize].name;
            let name = decision.snapshot.world.names.text(name);
            let command = match single.act {
                Act::Reboot => {
                    self.reboot(name);
                    continue;
                }
                Act::ReplaceStatic => self.alone(name, single.method, true),
                Act::TerminateFirst(why) => {
                    let command = self.alone(name, single.method, false);
                    command.map(|command| command.goes_first(why))
                }
            };
            let repaired = Controller::repaired(decision, single.node);
            let repaired = repaired.filter(|_| single.method == Method::Repair);
            if let Some(command) = command {
                self.begin_alone(command.repairs(repaired));
            }
        }
    }

    fn begin_alone(&mut self, command: NewCommand) {
        tracing::info!(
            command = command.id,
            method = command.command.method,
            reason = command.command.reason.name(),
            nodes = 1,
            replacements = command.replacements.len(),
            first = command.command.first,
            "disrupting"
        );
        if let [candidate] = command.candidates.as_slice() {
            let pool = pool_of(&candidate.claim);
            let metrics = &self.ctx.metrics.disruption;
            metrics.goes_first(pool, &command.command);
        }
        self.begin(command);
    }

    /// A command on one node, which is replaced by another of its static NodePool, or by nothing.
    fn alone(&self, node: &str, method: Method, replaced: bool) -> Option<NewCommand> {
        let (node, claim) = self.node_and_claim(node)?;
        if candidate_of(&claim).is_some() {
            return None;
        }
        let now = self.ctx.now().as_second();
        let id = format!("{now}-static-{}", claim.metadata.name.as_deref()?);
        let pool = self.state.pools.get(pool_of(&claim))?;
        let is_static = pool.spec.replicas.is_some();
        if is_static && !self.may_replace(pool) {
            return None;
        }
        let wanted = match replaced {
            true => vec![static_pools::replacement(pool, &id)],
            false => Vec::new(),
        };
        let candidate = Candidate {
            claim,
            nodes: vec![node],
        };
        let what = (method.name(), method.reason());
        let candidates = vec![candidate];
        let failures = self.failures_of(&BTreeSet::from([pool_of(&candidates[0].claim)]));
        Some(NewCommand::new(id, what, now, candidates, wanted).after(failures))
    }

    /// Whether a static NodePool has what it should have: a NodeClaim may have come or gone since the
    /// look.
    fn may_replace(&self, pool: &NodePool) -> bool {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let own = self.state.claims.values().map(|claim| &**claim);
        let own = own.filter(|claim| pool_of(claim) == name);
        let stands = static_pools::due(pool, own) == Some(Scale::Stands);
        let stays = pool.metadata.deletion_timestamp.is_none();
        self.ctx.static_capacity.enabled && stands && stays
    }
}
