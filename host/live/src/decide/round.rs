//! One round: plans a snapshot.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore_core::disrupt::methods::TerminateFirst;
use longshore_core::model::{ClusterObjects, Settings};
use longshore_core::plan::Plan;
use longshore_core::planner::{self, Rejected};
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::claims::NominationPlan;
use super::round_input::RoundInput;
use crate::decide::deadline::{self, Deadline, TIME_LIMIT};
use crate::observe::offers::Offers;
use crate::observe::overlays::{CatalogueOverlays, OverlaySet};
use crate::observe::unavailable_offerings::UnavailableOfferings;
use crate::policies::{ActivePolicies, PolicyReloader};
use crate::process::clock::Clock;
use longshore_fail_points::fail_point;
use longshore_journal::{Decided, Journal};
use longshore_report::explained::{Explained, NoExplanation};
use longshore_report::pod_explanation::{self, ExplainInput};

pub struct RoundConfig {
    /// What can be bought.
    pub catalogue: Arc<dyn Offers>,
    /// Applies NodeOverlays to it; nothing where they are not watched (gate NodeOverlay).
    pub overlays: Option<Arc<CatalogueOverlays>>,
    /// Its offerings that are unavailable now.
    pub unavailable: Arc<UnavailableOfferings>,
    /// Settings of the environment; the configuration wins.
    pub settings: Settings,
    /// The policies that score, and what the configuration says of planning.
    pub policies: PolicyReloader,
    /// Where all of it is written down.
    pub journal: Journal,
    /// Whether looks for disruption are made at all.
    pub disrupts: bool,
    /// Spot nodes may be replaced by spot nodes (gate SpotToSpotConsolidation).
    pub spot_to_spot: bool,
    /// Which nodes may be deleted before their replacement is there (gates TerminateFirstDrift and
    /// TerminateFirstRepair).
    pub terminate_first: TerminateFirst,
    /// Plans on the loop's own thread, so that nothing depends on the order of threads: for
    /// simulations.
    pub inline: bool,
    /// How long a look for disruption takes on the loop's own thread: the loop goes on meanwhile.
    pub look_takes: Duration,
    /// Whose threads compute; those of the loop's runtime if nothing.
    pub computing: Option<Handle>,
}

impl RoundConfig {
    /// Computes on a thread: rounds, looks for disruption and explanations, one of each at a time.
    pub fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        match &self.computing {
            Some(threads) => threads.spawn_blocking(work),
            None => tokio::task::spawn_blocking(work),
        }
    }
}

/// A round that has been decided.
pub struct Round {
    /// The joined objects that the plan is for.
    pub snapshot: Snapshot,
    /// The result, or the rules that even the first-fit plan breaks.
    pub plan: Result<Plan, String>,
    /// What is to be known of its pods besides.
    pub nomination_plan: NominationPlan,
    /// What NodeClaims of NodePools are marked with, where next versions of policies decided.
    pub canary_marks: BTreeMap<String, String>,
    /// Time that the thread took to decide.
    pub took: Duration,
}

/// How long a round may plan before the answer of a lesser effort is taken.
pub fn time_limit(live: &ActivePolicies) -> Duration {
    live.planning().time_limit.unwrap_or(TIME_LIMIT)
}

/// A snapshot for the current policies, configuration and NodeOverlays, with planning options and
/// the time limit. The world's catalogue is what the cloud offers.
pub fn build_snapshot(
    how: &RoundConfig,
    live: &ActivePolicies,
    mut world: ClusterObjects,
    overlays: &OverlaySet,
) -> (Snapshot, planner::PlanOptions, Option<Duration>) {
    live.begin_round(world.now);
    let planning = live.planning();
    world.settings = how.settings.clone();
    world.settings.preferences = planning.preferences.unwrap_or(how.settings.preferences);
    world.settings.min_values = planning.min_values.unwrap_or(how.settings.min_values);
    world.settings.node_cost = planning.node_cost.unwrap_or(how.settings.node_cost);
    let options = planner::PlanOptions {
        effort: planning.improve.unwrap_or_default(),
        seed: planning.seed.unwrap_or(0),
    };
    // Nothing in a simulation depends on how long something takes.
    let limit = (!how.inline).then(|| time_limit(live));
    let offers = std::mem::take(&mut world.catalogue);
    let catalogue = match &how.overlays {
        None => offers,
        Some(known) => {
            let applied = known.apply(&offers, overlays, &world.pools, &mut world.names);
            applied.catalogue
        }
    };
    world.catalogue = how
        .unavailable
        .without_unavailable(&catalogue, &world.names, world.now);
    (Snapshot::new(Arc::new(world)), options, limit)
}

/// Explains what would become of a pod, `namespace/name`, if a round were made now. `live` has no
/// other caller.
///
/// # Errors
/// Why there is nothing to explain.
pub fn explain(
    how: &RoundConfig,
    live: &ActivePolicies,
    input: RoundInput,
    pod: &str,
) -> Result<Explained, NoExplanation> {
    let overlays = input.overlays();
    let (snapshot, options, limit) = build_snapshot(how, live, input.world(), &overlays);
    let deadline = Deadline::after(limit);
    let is_over = || deadline.is_over();
    let stop = Stop::when(&is_over);
    let plan = planner::plan_until(&snapshot, live, options, stop)
        .map_err(|rejected| rejected_by_check(&rejected))?;
    let case = ExplainInput {
        snapshot: &snapshot,
        policies: live,
        options,
        plan: &plan,
        stop,
    };
    Ok(pod_explanation::explain(&case, pod)?)
}

/// A plan that may not be carried out explains nothing.
fn rejected_by_check(rejected: &Rejected) -> NoExplanation {
    let broken: Vec<String> = rejected
        .violations
        .iter()
        .map(ToString::to_string)
        .collect();
    NoExplanation::Defect(format!(
        "check rejects the plan, a defect of Longshore, please report it: {}",
        broken.join("; ")
    ))
}

/// Plans with the current policies and records the result. A careful round does
/// not improve its plan.
pub fn decide(
    how: &RoundConfig,
    clock: &Clock,
    number: u64,
    careful: bool,
    input: RoundInput,
) -> Round {
    fail_point("plan");
    let begun = Instant::now();
    let live = how.policies.take();
    let overlays = input.overlays();
    let (snapshot, mut options, limit) = build_snapshot(how, &live, input.world(), &overlays);
    if careful {
        options.effort = longshore_core::plan::Effort::None;
    }
    let deadline = Deadline::after(limit);
    let is_over = || deadline.is_over();
    let stop = Stop::when(&is_over);
    let plan = planner::plan_until(&snapshot, &*live, options, stop);
    if let (
        Ok(Plan {
            cut_short: Some(used),
            ..
        }),
        Some(limit),
    ) = (&plan, limit)
    {
        tracing::warn!(
            pods = snapshot.pending.len(),
            "{}",
            deadline::words(limit, *used)
        );
    }
    if let Ok(plan) = &plan {
        how.policies.finish(&live, &snapshot, options, plan);
    }
    let time = clock.now().as_millisecond();
    let violations = match &plan {
        Ok(plan) => plan.left_out.as_slice(),
        Err(rejected) => rejected.violations.as_slice(),
    };
    let rejected = plan.iter().flat_map(|plan| &plan.rejected_candidates);
    let broken = rejected.chain(violations).next();
    let broken = broken.map(ToString::to_string);
    how.policies.round_ended(&live, broken.as_deref());
    if !violations.is_empty() {
        how.journal.defect(time, number, &snapshot, violations);
    }
    let plan = plan.map_err(|rejected| format!("{:?}", rejected.violations));
    how.journal.decided(Decided {
        time,
        round: number,
        signals: live.signals(),
        answers: live.answered(),
        failed: live.failed(),
        snapshot: &snapshot,
        options,
        plan: plan.as_ref().map_err(String::as_str),
        took: begun.elapsed(),
    });
    let nomination_plan = plan
        .as_ref()
        .map(|plan| NominationPlan::of(&snapshot, plan))
        .unwrap_or_default();
    Round {
        snapshot,
        plan,
        nomination_plan,
        canary_marks: live.canary_marks(),
        took: begun.elapsed(),
    }
}
