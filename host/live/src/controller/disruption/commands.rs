//! Commands of disruption: what a proposal becomes, and which steps carry it on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longshore_api::crd::{NodeClaim, NodePool};
use longshore_core::disrupt::proposals::{Proposal, To};
use longshore_core::disrupt::verdicts::Reason;
use longshore_core::ids::NodeIx;
use longshore_core::model::Failures;
use longshore_core::plan::Plan;
use longshore_core::snapshot::{Snapshot, moves};
use tokio::time::Instant;

use crate::act::catch_panics::guarded;
use crate::act::disruption::step;
use crate::act::disruption::step::NewCommand;
use crate::act::end::termination::disrupted;
use crate::act::work_queue::Lane;
use crate::controller::reconcile::Work;
use crate::controller::{Controller, Done};
use crate::decide::claims::{NominationPlan, new_node_claims, pod_name};
use crate::decide::command::{
    Candidate, CommandView, Replacement, Worth, candidate_of, destinations,
};
use crate::observe::node_claim;
use crate::observe::state::WorkItem;
use crate::process::mutants::mutant;
use longshore_report::disruption::Messages;

impl Controller {
    /// A proposal as a command; nothing if one of its objects is not there any more.
    pub(super) fn command(
        &self,
        snapshot: &Snapshot,
        proposal: &Proposal,
        at: usize,
    ) -> Option<NewCommand> {
        let mut candidates = Vec::new();
        for name in self.node_names(snapshot, proposal) {
            let node = self.state.nodes.get(&name)?;
            let claims = self.state.claim_of(node);
            let [claim] = claims.as_slice() else {
                return None;
            };
            let again = candidate_of(claim).is_some() && !mutant("forgets-under-way");
            if claim.metadata.deletion_timestamp.is_some() || again {
                return None;
            }
            candidates.push(Candidate {
                claim: claim.clone(),
                nodes: vec![node.clone()],
            });
        }
        let now = self.ctx.now().as_second();
        let first = candidates.first()?.claim.metadata.name.clone()?;
        let id = format!("{now}-{at}-{first}");
        let bought = Plan {
            claims: proposal
                .replacements
                .iter()
                .map(|of| of.claim.clone())
                .collect(),
            ..Plan::default()
        };
        let no_nominations = NominationPlan::default();
        let wanted = new_node_claims(snapshot, &bought, &no_nominations, &self.state.pools, &id);
        if wanted.len() < proposal.replacements.len() {
            return None;
        }
        let bought: Vec<&str> = wanted.iter().map(|claim| claim.name.as_str()).collect();
        let moves = self.moves_by_claim(snapshot, proposal, &bought);
        let what = (proposal.method.name(), proposal.reason);
        let names: BTreeSet<&str> = wanted.iter().map(|want| &*want.pool).collect();
        let failures = self.failures_of(&names);
        let new = NewCommand::new(id, what, now, candidates, wanted);
        let consolidates = matches!(proposal.reason, Reason::Empty | Reason::Underutilized);
        let worth = consolidates.then(|| Worth {
            text: Messages { snapshot }.worth(proposal),
            is_approved: proposal.decision.is_some(),
        });
        let new = new.moves(moves).after(failures).worth(worth);
        tracing::info!(
            command = new.id,
            method = new.command.method,
            reason = new.command.reason.name(),
            nodes = new.command.candidates,
            replacements = new.command.replacements.len(),
            pods = proposal.moves.len(),
            savings = proposal.savings,
            "disrupting"
        );
        Some(new)
    }

    /// What is known of failed commands that bought from NodePools: of several, the most.
    pub(in crate::controller) fn failures_of(&self, pools: &BTreeSet<&str>) -> Option<Failures> {
        let pools = pools.iter().filter_map(|name| self.state.pools.get(*name));
        let known = pools.filter_map(|pool| self.ctx.memory.disruption.failures.of(pool));
        known.max_by_key(|of| of.count)
    }

    /// NodePools that a command buys from.
    fn pools_of(&self, view: &CommandView) -> Vec<Arc<NodePool>> {
        let said = view.command().map(|command| command.pools);
        let said = said.unwrap_or_default();
        match said.is_empty() {
            true => view.own_pools.clone(),
            false => self.pools_by_name(said.iter().map(String::as_str)),
        }
    }

    /// NodePools that are there, each once.
    fn pools_by_name<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<Arc<NodePool>> {
        let names: BTreeSet<&str> = names.collect();
        let known = names.into_iter();
        let known = known.filter_map(|name| self.state.pools.get(name));
        known.cloned().collect()
    }

    /// Where the pods of each candidate go, as the annotation of its NodeClaim has it. `bought` are
    /// the names of the replacements.
    fn moves_by_claim(
        &self,
        snapshot: &Snapshot,
        proposal: &Proposal,
        bought: &[&str],
    ) -> BTreeMap<String, String> {
        let world = &snapshot.world;
        let mut by_node: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
        for moved in &proposal.moves {
            let to = match moved.to {
                To::Node(node) => world.names.text(snapshot.nodes[node.0 as usize].name),
                To::Replacement(at) => bought[at],
            };
            // A pod that is nominated to a node is on none yet.
            let on = |node: &&NodeIx| {
                let pods = &snapshot.nodes[node.0 as usize].pods;
                pods.contains(&moved.pod)
            };
            let expected = || proposal.nodes.iter().find(on);
            let from = world.pods[moved.pod.0 as usize].node;
            let from = from.or_else(|| Some(snapshot.nodes[expected()?.0 as usize].name));
            let of = by_node.entry(from.map_or("", |node| world.names.text(node)));
            let pods = of.or_default().entry(to).or_default();
            pods.push(pod_name(world, moved.pod));
        }
        let claim_of = |node: &str| {
            let (_, claim) = self.node_and_claim(node)?;
            claim.metadata.name.clone()
        };
        let text = |of: &BTreeMap<&str, Vec<String>>| {
            moves::write(of.iter().map(|(to, pods)| (*to, &pods[..])))
        };
        let all = by_node.iter();
        all.filter_map(|(node, of)| Some((claim_of(node)?, text(of))))
            .collect()
    }

    /// Has a command begun.
    pub(in crate::controller) fn begin(&mut self, new: NewCommand) {
        self.ctx.metrics.disruption.begun(&new.command);
        self.disruption
            .begins(new.id.clone(), new.replacements.clone());
        let (ctx, done, id) = (self.ctx.clone(), self.done.clone(), new.id.clone());
        tokio::spawn(async move {
            let begun = guarded(&ctx.metrics, "disruption", step::begin(&ctx, new)).await;
            let mut buys = true;
            if let Some(Err(failed)) = begun {
                let error = failed.error;
                tracing::warn!(command = id, %error, "beginning disruption failed; taken back");
                buys = failed.buys;
            }
            let _ = done.send(Done::Begun(id, buys)).await;
        });
    }

    /// A command has been begun, or has failed to. `buys` says whether something may have been bought.
    pub(in crate::controller) fn begun(&mut self, id: String, buys: bool) {
        let now = Instant::now();
        self.disruption.beginning.remove(&id);
        if !buys {
            self.disruption.unbegun.insert(id.clone());
        }
        self.work(WorkItem::Command(id), Lane::Disruption, now);
    }

    pub(in crate::controller) fn work_on_command(&mut self, id: &str) -> Option<Work> {
        if self.disruption.beginning.contains_key(id) {
            return None;
        }
        let Some(names) = self.disruption.commands.get(id) else {
            self.disruption.unbegun.remove(id);
            return None;
        };
        let claims: Vec<_> = names
            .iter()
            .filter_map(|name| self.state.claims.get(name).cloned())
            .collect();
        let (candidates, replacements): (Vec<_>, Vec<_>) = claims
            .into_iter()
            .partition(|claim| candidate_of(claim) == Some(id));
        let nodes = |claim: &Arc<_>| match node_claim::provider_id(claim) {
            "" => Vec::new(),
            provider_id => self.state.nodes_of(provider_id),
        };
        let replacements = replacements.into_iter().map(|claim| Replacement {
            nodes: nodes(&claim),
            is_awaited: self.is_expected_on(&claim),
            claim,
        });
        let replacements: Vec<Replacement> = replacements.collect();
        if candidates.is_empty() {
            let (ctx, id) = (self.ctx.clone(), id.to_owned());
            return Some(Box::pin(async move {
                step::left_over(&ctx, &id, &replacements).await
            }));
        }
        let candidates = candidates
            .into_iter()
            .map(|claim| Candidate {
                nodes: nodes(&claim),
                claim,
            })
            .collect::<Vec<_>>();
        let has_places = candidates.iter().all(|one: &Candidate| {
            let mut to = destinations(&one.claim);
            to.all(|to| self.stays(to))
        });
        let mut view = CommandView {
            id: id.to_owned(),
            has_places,
            replacements,
            pools: Vec::new(),
            own_pools: self
                .pools_by_name(candidates.iter().map(|one| node_claim::pool_of(&one.claim))),
            is_unbegun: self.disruption.unbegun.contains(id),
            candidates,
        };
        view.pools = self.pools_of(&view);
        let ctx = self.ctx.clone();
        Some(Box::pin(async move {
            let now = ctx.now().as_second();
            step::step(&ctx, &view, now).await
        }))
    }

    /// Whether a pod that waits is planned for a claim whose node can still take it.
    fn is_expected_on(&self, claim: &NodeClaim) -> bool {
        let Some(name) = claim.metadata.name.as_deref() else {
            return false;
        };
        let mut waiting = self.state.pods.waiting();
        self.planned_host(name, claim).is_some()
            && waiting.any(|pod| self.purchases.plans.owner(pod) == Some(name))
    }

    /// Whether there is a node of a name, or a NodeClaim, that is not on its way out.
    pub(super) fn stays(&self, name: &str) -> bool {
        let going = |claim: &Arc<NodeClaim>| claim.metadata.deletion_timestamp.is_some();
        match self.state.nodes.get(name) {
            Some(node) => node.deletion.is_none() && !self.state.claim_of(node).iter().any(going),
            None => (self.state.claims.get(name)).is_some_and(|claim| !going(claim)),
        }
    }

    /// Nodes that have the taint and are in no command, as another controller may leave them.
    pub(super) fn open_left_over(&self) {
        for node in self.state.nodes.values() {
            if node.deletion.is_some() || disrupted(node).is_none() {
                continue;
            }
            let claims = self.state.claim_of(node);
            let [claim] = claims.as_slice() else { continue };
            if claim.metadata.deletion_timestamp.is_some() || candidate_of(claim).is_some() {
                continue;
            }
            let (ctx, claim, node) = (self.ctx.clone(), claim.clone(), node.clone());
            tokio::spawn(async move {
                tracing::info!(
                    node = node.name,
                    "removed the taint of a disruption that is over"
                );
                if let Err(error) = step::open(&ctx, &claim, &[node]).await {
                    tracing::debug!(%error, "removing a taint failed; retrying in the next look");
                }
            });
        }
    }
}
