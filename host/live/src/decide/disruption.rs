//! Decides what to disrupt: a round of [`longshore_core::disrupt`] on a copy of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore_core::check::Violation;
use longshore_core::disrupt::checked::{self, without_refused};
use longshore_core::disrupt::consolidation::DisruptionPolicies as _;
use longshore_core::disrupt::methods::{self, Explain, Question, Round, RoundOptions, Single};
use longshore_core::disrupt::proposals::{Proposal, Rules};
use longshore_core::disrupt::search::Effort;
use longshore_core::disrupt::verdicts::COMMAND;
use longshore_core::model::pod::DoNotDisrupt;
use longshore_core::model::{ClusterObjects, Labels, NodeClaim, NodeRecord};
use longshore_core::planner;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use longshore_policy::Signals;

use super::round::{RoundConfig, build_snapshot};
use super::round_input::RoundInput;
use super::staying::{self, ReportTimes, Staying};
use crate::decide::deadline::Deadline;
use longshore_journal::Looked;
use longshore_journal::look::Look;
use longshore_report::disruption;
use longshore_report::explained::{Explained, alike_text};

use crate::observe::overlays::OverlaySet;
use crate::observe::protection;
use crate::policies::ActivePolicies;
use crate::process::clock::Clock;
use crate::process::mutants::mutant;
use crate::status::parts::Held;
use longshore_core::model::conditions::INITIALIZED;
use longshore_fail_points::fail_point;

pub struct Decision {
    pub snapshot: Snapshot,
    pub round: Round,
    /// Proposals that may be carried out now, all together: `check` has passed them. What it refuses is in
    /// `round`.
    pub now: Vec<Proposal>,
    /// The same for commands on one node.
    pub singles: Vec<Single>,
    /// What is to be said of nodes that stay.
    pub stays: Vec<Staying>,
    /// Nodes that a budget or an annotation keeps, for the status.
    pub held: Vec<Held>,
    /// Events for pods whose protection has ended.
    pub elapsed: Vec<protection::ProtectionEvent>,
    /// Consolidation only looked at one node after the other.
    pub swept: bool,
    /// Time from the beginning of the look to its decision.
    pub took: Duration,
}

/// A look that found nothing to do. The same question about the same cluster has the same answer.
#[derive(Clone)]
pub struct IdleLook {
    /// When it was looked at, seconds since 1970.
    at: i64,
    catalogue: u64,
    policies: Arc<ActivePolicies>,
    signals: Arc<Signals>,
    question: Question,
}

/// The last whole search that found nothing. While little has changed since, a look only sweeps: one
/// node after the other.
#[derive(Clone)]
pub struct Rested {
    look: IdleLook,
    /// The version of the state that it looked at.
    revision: u64,
    /// So many later changes of objects are few.
    few: u64,
}

/// Changes are few up to this share of the nodes and pods. A pod that comes is about four changes.
const FEW_CHANGES_SHARE: f64 = 0.05;

impl Rested {
    /// What a look at a version of the state found, if it was a whole search and has nothing to do.
    pub fn of(decision: &Decision, idle: Option<&IdleLook>, revision: u64) -> Option<Self> {
        let look = idle.filter(|_| !decision.swept)?.clone();
        let world = &decision.snapshot.world;
        let objects = world.nodes.len() + world.pods.len();
        Some(Rested {
            look,
            revision,
            few: (objects as f64 * FEW_CHANGES_SHARE) as u64,
        })
    }

    /// It, if a version of the state differs little from what it looked at.
    pub fn near(&self, revision: u64) -> Option<&IdleLook> {
        (revision - self.revision <= self.few).then_some(&self.look)
    }
}

/// What earlier looks found.
#[derive(Clone, Copy)]
pub struct Before<'b> {
    /// A look at the same state that found nothing to do.
    pub idle: Option<&'b IdleLook>,
    /// A whole search that found nothing in a state that hardly differs.
    pub rested: Option<&'b IdleLook>,
    /// When it was last reported of each node that it stays.
    pub last_reported: &'b ReportTimes,
}

/// An answer is trusted for so long, seconds: eviction costs shrink as nodes near their expiry.
const IDLE_ANSWER_LIFETIME_SECONDS: i64 = 600;

impl IdleLook {
    /// What a look found, if it has nothing to do and depends on nothing but the cluster, prices
    /// and the clock. Consolidation policies may depend on more.
    pub fn of(decision: &Decision, policies: &Arc<ActivePolicies>) -> Option<Self> {
        let world = &decision.snapshot.world;
        let idle = decision.round.refused.is_empty()
            && decision.now.is_empty()
            && decision.singles.is_empty()
            && world.unhealthy.is_empty()
            && decision.snapshot.pending.is_empty()
            && decision.stays.len() < staying::MAX_NODES_PER_LOOK
            && policies.consolidation().is_none();
        idle.then(|| IdleLook {
            at: world.now,
            catalogue: world.catalogue.number(),
            policies: policies.clone(),
            signals: policies.signals(),
            question: decision.round.question.clone(),
        })
    }

    fn holds(&self, world: &ClusterObjects, policies: &Arc<ActivePolicies>) -> bool {
        world.unhealthy.is_empty()
            && (self.at..self.at + IDLE_ANSWER_LIFETIME_SECONDS).contains(&world.now)
            && self.catalogue == world.catalogue.number()
            && Arc::ptr_eq(&self.policies, policies)
            && Arc::ptr_eq(&self.signals, &policies.signals())
    }
}

/// Looks once for nodes to disrupt, and records under a number what it finds. Nothing is returned
/// where this look would find nothing, as the one before. Nodes in `last_reported` are not
/// reported again. `live` has no other caller and was made from `policies`.
pub fn decide(
    how: &RoundConfig,
    (policies, live): (&Arc<ActivePolicies>, &ActivePolicies),
    input: RoundInput,
    before: Before<'_>,
    (clock, number): (&Clock, u64),
) -> Option<Decision> {
    fail_point("decide-disruption");
    let begun = Instant::now();
    let known: BTreeSet<String> = before.last_reported.keys().cloned().collect();
    let explain = Explain::Some(staying::MAX_NODES_PER_LOOK, &known);
    let overlays = input.overlays();
    let Prepared {
        snapshot,
        mut options,
        planning,
        limit,
    } = prepare(how, live, (input.world(), &overlays), explain);
    let holds = |look: &&IdleLook| look.holds(&snapshot.world, policies);
    options.effort.sweep_only = before.rested.filter(holds).is_some();
    let deadline = Deadline::after(limit);
    let is_over = || deadline.is_over();
    let stop = Stop::when(&is_over);
    live.keep_judge_records();
    let round = match before.idle.filter(holds) {
        Some(idle) => {
            let new = methods::round_if_new(&snapshot, live, options, stop, &idle.question);
            let Some(new) = new else {
                let time = clock.now().as_millisecond();
                how.journal.looked_the_same(time, number);
                return None;
            };
            new
        }
        None => methods::round(&snapshot, live, options, stop),
    };
    let round = without_refused(&snapshot, live, options, stop, round);
    how.policies.finish_look(live);
    let stays = staying::to_report(&snapshot, &round, |node| known.contains(node));
    let held = staying::held(&snapshot, &round);
    let elapsed = protection::elapsed(&snapshot.world);
    let (now, singles) = (round.now(), round.singles.clone());
    let refused = round.refused.iter().flat_map(|of| of.violations.clone());
    let refused: Vec<Violation> = refused.collect();
    if !refused.is_empty() {
        let time = clock.now().as_millisecond();
        how.journal.defect(time, number, &snapshot, &refused);
    }
    how.journal.looked(Looked {
        time: clock.now().as_millisecond(),
        number,
        signals: live.signals(),
        answers: live.answered(),
        failed: live.failed(),
        judged: live.take_judge_records(),
        snapshot: &snapshot,
        planning,
        look: Look::new(&options, &snapshot.world, live.consolidation().is_some()),
        found: &round,
        cut_short: limit.is_some() && deadline.is_over(),
        took: begun.elapsed(),
    });
    Some(Decision {
        snapshot,
        round,
        now,
        singles,
        stays,
        held,
        elapsed,
        swept: options.effort.sweep_only,
        took: begun.elapsed(),
    })
}

/// Explains what a look would do with a node now, where unhealthy nodes are repaired or not. `live`
/// has no other caller.
///
/// # Errors
/// There is no such node.
pub fn explain(
    how: &RoundConfig,
    live: &ActivePolicies,
    input: RoundInput,
    (node, repairs_off): (&str, bool),
) -> Result<Explained, String> {
    let overlays = input.overlays();
    let world = input.world();
    if let Some(going) = disruption::explain_going(&world, node)? {
        return Ok(going);
    }
    let found = prepare(how, live, (world, &overlays), Explain::All);
    let deadline = Deadline::after(found.limit);
    let is_over = || deadline.is_over();
    let stop = Stop::when(&is_over);
    let round = checked::round(&found.snapshot, live, found.options, stop);
    let mut explained = disruption::explain(&found.snapshot, &round, node, repairs_off)?;
    explained.text += &alike_text(live);
    Ok(explained)
}

/// What a look searches, how, and how long.
struct Prepared<'e> {
    snapshot: Snapshot,
    options: RoundOptions<'e>,
    planning: planner::PlanOptions,
    limit: Option<Duration>,
}

fn prepare<'e>(
    how: &RoundConfig,
    live: &ActivePolicies,
    (mut world, overlays): (ClusterObjects, &OverlaySet),
    explain: Explain<'e>,
) -> Prepared<'e> {
    count_commands(&mut world);
    break_rules(&mut world);
    let (snapshot, planning, limit) = build_snapshot(how, live, world, overlays);
    let options = RoundOptions {
        move_cost: live.disruption().move_cost,
        rules: Rules {
            spot_to_spot: how.spot_to_spot,
        },
        effort: Effort {
            seed: planning.seed,
            ..Effort::default()
        },
        explain,
        terminate_first: how.terminate_first,
        ..RoundOptions::default()
    };
    Prepared {
        snapshot,
        options,
        planning,
        limit,
    }
}

/// Nodes of commands that are under way count as going: their pods need places, and they take a
/// share of the budgets.
pub fn count_commands(world: &mut ClusterObjects) {
    let Some(key) = world.names.get(COMMAND) else {
        return;
    };
    for claim in world.claims.iter_mut() {
        if claim.annotations.get(key).is_some() {
            claim.deleting = true;
            if mutant("forgets-under-way") {
                (claim.deleting, claim.annotations) = (false, Labels::default());
            }
        }
    }
}

/// Only mutants change anything here.
fn break_rules(world: &mut ClusterObjects) {
    if mutant("disrupts-held") {
        let pods = world.pods.iter_mut();
        pods.for_each(|pod| pod.do_not_disrupt = DoNotDisrupt::No);
    }
    if mutant("forgets-coming-nodes") {
        let initialized = world.names.get(INITIALIZED);
        let is_ready = |claim: &NodeClaim| {
            initialized.is_some_and(|of| claim.conditions.contains(&of)) || claim.deleting
        };
        let coming: Vec<_> = world
            .claims
            .iter()
            .filter(|claim| !is_ready(claim))
            .collect();
        let ids: Vec<_> = coming
            .iter()
            .filter_map(|claim| claim.provider_id)
            .collect();
        let names: Vec<_> = coming.iter().map(|claim| claim.name).collect();
        let stays = |claim: &NodeClaim| !names.contains(&claim.name);
        let claims: Vec<_> = world
            .claims
            .iter()
            .filter(|of| stays(of))
            .cloned()
            .collect();
        world.claims = claims.into();
        let is_here = |node: &&NodeRecord| node.provider_id.is_none_or(|id| !ids.contains(&id));
        let nodes: Vec<_> = world.nodes.iter().filter(is_here).cloned().collect();
        world.nodes = nodes.into();
    }
    if mutant("ignores-node-budgets") {
        world.pools.iter_mut().for_each(|pool| pool.budgets.clear());
    }
}
