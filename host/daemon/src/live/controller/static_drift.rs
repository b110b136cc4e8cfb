//! Proposals of static drift as commands of disruption: one node each, replaced by a node of the same
//! NodePool. Which nodes may be replaced is decided in `core`; here only what has changed since is
//! left to the next look.

use longshore_core::disrupt::static_capacity::Scale;
use longshore_core::disrupt::verdicts::Method;

use super::Controller;
use crate::live::disruption::command::{Candidate, candidate_of};
use crate::live::disruption::decide::Decision;
use crate::live::disruption::step::NewCommand;
use crate::live::lifecycle::pool_of;
use crate::live::static_pools;

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
            .filter_map(|node| self.replacement(node))
            .collect();
        for command in commands {
            tracing::info!(
                command = command.id,
                method = command.command.method,
                reason = command.command.reason,
                nodes = 1,
                replacements = 1,
                "disrupting"
            );
            self.begin(command);
        }
    }

    fn replacement(&self, node: &str) -> Option<NewCommand> {
        let node = self.state.nodes.get(node)?;
        let claims = self.state.claim_of(node);
        let [claim] = claims.as_slice() else {
            return None;
        };
        let pool = self.state.pools.get(pool_of(claim))?;
        let own = self.state.claims.values().map(|claim| &**claim);
        let own = own.filter(|other| pool_of(other) == pool_of(claim));
        // A NodeClaim may have come or gone since the look.
        if static_pools::due(pool, own) != Some(Scale::Stands)
            || pool.metadata.deletion_timestamp.is_some()
            || claim.metadata.deletion_timestamp.is_some()
            || candidate_of(claim).is_some()
        {
            return None;
        }
        let now = self.ctx.now().as_second();
        let id = format!("{now}-static-{}", claim.metadata.name.as_deref()?);
        let wanted = static_pools::replacement(pool, &id);
        let candidate = Candidate {
            claim: claim.clone(),
            nodes: vec![node.clone()],
        };
        let what = (
            Method::StaticDrift.name(),
            Method::StaticDrift.reason().name(),
        );
        Some(NewCommand::new(
            id,
            what,
            now,
            vec![candidate],
            vec![wanted],
        ))
    }
}
