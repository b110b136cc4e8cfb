//! One round: a snapshot is planned for, and the claims that come of it are written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::{Api, PostParams};
use longshore_api::crd::NodeClaim;
use longshore_cloud::Launch;
use longshore_core::model::{Catalogue, Settings, World};
use longshore_core::plan::Plan;
use longshore_core::planner;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;

use super::claims::{Marks, Wanted};
use super::clock::Clock;
use super::context::Context;
use super::journal::{Decided, Journal};
use super::lifecycle::launch_of;
use super::mutants::mutant;
use super::policies::{Live, Manager};
use super::shortages::Shortages;
use crate::deadline::{self, Deadline, TIME_LIMIT};
use crate::explain::{self, Case, Explained};

/// What can be bought now: asked once at the beginning of each round, so it answers from memory. While prices stay, it
/// is the same catalogue (by [`Catalogue::number`]). All that it ever says is written in one table of names.
pub type Offers = Arc<dyn Fn() -> Catalogue + Send + Sync>;

/// How rounds are made.
pub struct How {
    /// What can be bought now.
    pub catalogue: Offers,
    /// What of it could not be had a moment ago.
    pub shortages: Arc<Shortages>,
    /// What the environment says; the configuration's own words win.
    pub settings: Settings,
    /// Who scores, and what the configuration says of planning.
    pub manager: Manager,
    /// Where all of it is written down.
    pub journal: Journal,
    /// Plans on the loop's own thread, so that nothing depends on the order of threads: for simulations.
    pub inline: bool,
}

/// A round that has been decided.
pub struct Round {
    /// What was planned for.
    pub snapshot: Snapshot,
    /// What came of it, or the rules that even the floor breaks.
    pub plan: Result<Plan, String>,
    /// What is to be known of its pods besides.
    pub marks: Marks,
    /// How long deciding took.
    pub took: Duration,
}

/// How long a round may plan before its first-fit answer is taken.
pub fn time_limit(live: &Live) -> Duration {
    live.planning().time_limit.unwrap_or(TIME_LIMIT)
}

/// A snapshot of a world as the policies that serve now and the configuration want it, how it is planned, and how long
/// that may take.
fn prepare(how: &How, live: &Live, mut world: World) -> (Snapshot, planner::Options, Option<Duration>) {
    live.begin_round(world.now);
    let planning = live.planning();
    world.settings = how.settings.clone();
    world.settings.preferences = planning.preferences.unwrap_or(how.settings.preferences);
    world.settings.min_values = planning.min_values.unwrap_or(how.settings.min_values);
    world.settings.node_cost = planning.node_cost.unwrap_or(how.settings.node_cost);
    let options = planner::Options { effort: planning.improve.unwrap_or_default(), seed: planning.seed.unwrap_or(0) };
    // Nothing in a simulation depends on how long something takes.
    let limit = (!how.inline).then(|| time_limit(live));
    world.catalogue = how.shortages.leave_out(&(how.catalogue)(), &world.names, world.now);
    (Snapshot::new(Arc::new(world)), options, limit)
}

/// Explains what would become of a pod, `namespace/name`, if a round were made now. `live` is asked by nobody else.
///
/// # Errors
/// Why there is nothing to explain.
pub fn explain(how: &How, live: &Live, world: World, pod: &str) -> Result<Explained, String> {
    let (snapshot, options, limit) = prepare(how, live, world);
    let deadline = Deadline::after(limit);
    let is_over = || deadline.is_over();
    let stop = Stop::when(&is_over);
    let plan =
        planner::plan_until(&snapshot, live, options, stop).map_err(|rejected| format!("{:?}", rejected.violations))?;
    let case = Case { snapshot: &snapshot, policies: live, how: options, plan: &plan };
    explain::explain(&case, pod).map_err(|failure| failure.to_string())
}

/// Plans with whoever serves as policy now, and writes down what came of it.
pub fn decide(how: &How, clock: Clock, number: u64, world: World) -> Round {
    let begun = Instant::now();
    let live = how.manager.take();
    let (snapshot, options, limit) = prepare(how, &live, world);
    let deadline = Deadline::after(limit);
    let is_over = || deadline.is_over();
    let stop = Stop::when(&is_over);
    let plan = planner::plan_until(&snapshot, &*live, options, stop);
    if let (Ok(Plan { cut_short: true, .. }), Some(limit)) = (&plan, limit) {
        tracing::warn!(pods = snapshot.pending.len(), "{}", deadline::words(limit));
    }
    if let Ok(plan) = &plan {
        how.manager.finish(&live, &snapshot, plan);
    }
    let plan = plan.map_err(|rejected| format!("{:?}", rejected.violations));
    how.journal.decided(Decided {
        time: clock.now().as_millisecond(),
        round: number,
        live: &live,
        snapshot: &snapshot,
        options,
        plan: plan.as_ref().map_err(String::as_str),
        took: begun.elapsed(),
    });
    let marks = plan.as_ref().map(|plan| Marks::of(&snapshot, plan, stop)).unwrap_or_default();
    Round { snapshot, plan, marks, took: begun.elapsed() }
}

/// Creates claims, several at a time. Returns those created with their pods, and how many failed.
pub async fn write_all(ctx: &Arc<Context>, wanted: Vec<Wanted>) -> (Vec<(String, Vec<String>)>, usize) {
    let total = wanted.len();
    let one = |want: Wanted| async move {
        ctx.may_write().ok()?;
        let api: Api<NodeClaim> = Api::all(ctx.client.clone());
        let object: NodeClaim = serde_json::from_value(want.object).ok()?;
        if mutant("launch-first") {
            let launch = Launch { uid: want.pods.join(","), ..launch_of(&object) };
            let _ = ctx.provider.create(&launch).await;
        }
        match api.create(&PostParams::default(), &object).await {
            Ok(made) => {
                let name = made.metadata.name.unwrap_or_default();
                tracing::info!(
                    nodeclaim = name,
                    nodepool = want.pool,
                    pods = want.pods.len(),
                    want.words,
                    "created NodeClaim"
                );
                ctx.metrics.claim_created(&want.pool, want.relaxed);
                Some((name, want.pods))
            }
            Err(error) => {
                tracing::error!(nodepool = want.pool, %error, "a NodeClaim could not be created");
                None
            }
        }
    };
    let made: Vec<_> = futures::stream::iter(wanted).map(one).buffer_unordered(16).collect().await;
    let made: Vec<(String, Vec<String>)> = made.into_iter().flatten().collect();
    let failed = total - made.len();
    (made, failed)
}
