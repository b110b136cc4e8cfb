//! Unhealthy nodes as a look for disruption sees them, and what becomes of those that it leaves.

use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::NodeClaim;
use longshore_core::disrupt::verdicts::{Method, Reason, Stays};
use longshore_core::ids::NodeIx;

use super::{Controller, Done};
use crate::act::catch_panics::guarded;
use crate::act::disruption::events;
use crate::act::repair::reboot;
use crate::decide::command::Repaired;
use crate::decide::disruption::Decision;
use crate::decide::round_input::UnhealthyHost;
use crate::observe::node::NodeView;
use crate::observe::node_claim::pool_of;
use longshore_report::disruption::Messages;

impl Controller {
    /// Nodes that the cloud calls unhealthy, where they are repaired within budgets, and how long
    /// until one more is due.
    pub(super) fn unhealthy_hosts(&self) -> (Vec<UnhealthyHost>, Option<Duration>) {
        let (mut hosts, mut next) = (Vec::new(), None::<Duration>);
        let Some(policies) = self.ctx.repairs.within_budgets() else {
            return (hosts, next);
        };
        let now = self.ctx.now().as_second();
        for node in self.state.nodes.values() {
            if !self.state.manages(node) {
                continue;
            }
            let claims = self.state.claim_of(node);
            let claim = match claims.as_slice() {
                [claim] => Some(&**claim),
                _ => None,
            };
            let rebooted = claim.and_then(reboot::phase::ended);
            let Some(unhealthy) = policies.of(node, rebooted, now) else {
                continue;
            };
            let soon = unhealthy.tolerated(now);
            next = next.into_iter().chain(soon).min();
            let due = unhealthy.repair(node, claim, now);
            hosts.push(UnhealthyHost {
                node: node.name.clone(),
                condition: unhealthy.text(),
                due,
            });
        }
        (hosts, next)
    }

    /// What a look repairs by removing a node.
    pub(super) fn repaired(decision: &Decision, node: NodeIx) -> Option<Repaired> {
        let world = &decision.snapshot.world;
        let name = decision.snapshot.nodes[node.0 as usize].name;
        let unhealthy = world.unhealthy.iter().find(|of| of.node == name)?;
        let condition = world.names.text(unhealthy.condition);
        let condition = condition
            .split_once('=')
            .map_or(condition, |(kind, _)| kind);
        Some(Repaired {
            condition: condition.to_owned(),
            grace: unhealthy.due?.grace,
        })
    }

    /// Begins to reboot a node.
    pub(super) fn reboot(&mut self, node: &str) {
        let Some((node, claim)) = self.node_and_claim(node) else {
            return;
        };
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let id = format!("reboot-{name}");
        self.disruption.begins(id.clone(), Vec::new());
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            if let Some(policies) = ctx.repairs.within_budgets() {
                let commit = reboot::commit(&ctx, policies, &claim, &node);
                let begun = guarded(&ctx.metrics, "disruption", commit).await;
                if let Some(Err(error)) = begun {
                    tracing::warn!(node = node.name, %error, "beginning reboot failed");
                }
            }
            let _ = done.send(Done::Begun(id, true)).await;
        });
    }

    /// A node and its only NodeClaim, unless that is being deleted.
    pub(super) fn node_and_claim(&self, node: &str) -> Option<(Arc<NodeView>, Arc<NodeClaim>)> {
        let node = self.state.nodes.get(node)?;
        let claims = self.state.claim_of(node);
        let [claim] = claims.as_slice() else {
            return None;
        };
        let stays = claim.metadata.deletion_timestamp.is_none();
        stays.then(|| (node.clone(), claim.clone()))
    }

    /// Says of unhealthy nodes that are not repaired what is in the way.
    pub(super) fn report_repairs(&self, decision: &Decision) {
        let world = &decision.snapshot.world;
        let due = world.unhealthy.iter().filter(|of| of.due.is_some());
        for unhealthy in due {
            let nodes = decision.snapshot.nodes.iter();
            let Some(at) = nodes.clone().position(|node| node.name == unhealthy.node) else {
                continue;
            };
            let at = NodeIx(at as u32);
            let Some(why) = in_the_way(decision, at) else {
                continue;
            };
            let messages = Messages {
                snapshot: &decision.snapshot,
            };
            let name = world.names.text(unhealthy.node);
            let condition = world.names.text(unhealthy.condition);
            self.report_repair(
                name,
                why,
                &format!("{condition}: {}", messages.stays(at, why)),
            );
        }
    }

    fn report_repair(&self, node: &str, why: &Stays, message: &str) {
        let claim = self.node_and_claim(node).map(|(_, claim)| claim);
        let pool = claim.as_deref().map(pool_of);
        let pool = pool.and_then(|name| self.state.pools.get(name).cloned());
        let (ctx, node, message) = (self.ctx.clone(), node.to_owned(), message.to_owned());
        match why {
            Stays::TooManyUnhealthy(..) => drop(tokio::spawn(async move {
                events::repair_blocked(
                    &ctx.events,
                    &node,
                    claim.as_deref(),
                    pool.as_deref(),
                    &message,
                )
                .await;
            })),
            Stays::NodePoolBudget(_) => drop(tokio::spawn(async move {
                if let Some(pool) = pool {
                    events::blocked(&ctx.events, &pool, Reason::Unhealthy.name(), 0).await;
                }
            })),
            _ => drop(tokio::spawn(async move {
                events::node_blocked(&ctx.events, &node, claim.as_deref(), &message).await;
            })),
        }
    }
}

/// What keeps a node from being repaired; nothing if it is, or is on its way already.
fn in_the_way(decision: &Decision, node: NodeIx) -> Option<&Stays> {
    let round = &decision.round;
    let refusal = round.candidates[node.0 as usize].refusal(Method::Repair);
    let found = || {
        let mut stays = round.stays.iter();
        stays.find(|(at, _)| *at == node).map(|(_, why)| why)
    };
    let repaired = round.singles.iter().any(|single| single.node == node)
        || round.proposals.iter().any(|(p, _)| p.nodes.contains(&node));
    let why = refusal.or_else(|| found().filter(|_| !repaired))?;
    let passes = matches!(
        why,
        Stays::Disrupting | Stays::Rebooting | Stays::Nominated(_)
    );
    (!passes).then_some(why)
}
