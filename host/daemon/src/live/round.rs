//! One round: a snapshot is planned for, and the claims that come of it are written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::{Api, PostParams};
use longshore_api::crd::NodeClaim;
use longshore_core::model::World;
use longshore_core::plan::Plan;
use longshore_core::planner;
use longshore_core::snapshot::Snapshot;

use super::claims::Wanted;
use super::context::Context;
use super::control::How;
use super::journal::Decided;

/// A round that has been decided.
pub struct Round {
    /// What was planned for.
    pub snapshot: Snapshot,
    /// What came of it, or the rules that even the floor breaks.
    pub plan: Result<Plan, String>,
    /// How long deciding took.
    pub took: Duration,
}

/// Plans with whoever serves as policy now, and writes down that round `number` was decided.
pub fn decide(ctx: &Context, how: &How, number: u64, mut world: World) -> Round {
    let begun = Instant::now();
    let live = how.manager.take();
    live.begin_round(world.now);
    let planning = live.planning();
    world.settings = how.settings.clone();
    world.settings.preferences = planning.preferences.unwrap_or(how.settings.preferences);
    world.settings.min_values = planning.min_values.unwrap_or(how.settings.min_values);
    world.settings.node_cost = planning.node_cost.unwrap_or(how.settings.node_cost);
    let options = planner::Options { effort: planning.improve.unwrap_or_default(), seed: planning.seed.unwrap_or(0) };
    world.catalogue = how.catalogue.clone();
    let snapshot = Snapshot::new(Arc::new(world));
    let plan = planner::plan(&snapshot, &*live, options);
    if let Ok(plan) = &plan {
        how.manager.finish(&live, &snapshot, plan);
    }
    let plan = plan.map_err(|rejected| format!("{:?}", rejected.violations));
    let took = begun.elapsed();
    how.journal.decided(Decided {
        time: ctx.now().as_millisecond(),
        round: number,
        live: &live,
        snapshot: &snapshot,
        options,
        plan: plan.as_ref().map_err(String::as_str),
        took,
    });
    Round { snapshot, plan, took }
}

/// Creates claims, several at a time. Returns those created with their pods, and how many failed.
pub async fn write_all(ctx: &Arc<Context>, wanted: Vec<Wanted>) -> (Vec<(String, Vec<String>)>, usize) {
    let total = wanted.len();
    let one = |want: Wanted| async move {
        ctx.may_write().ok()?;
        let api: Api<NodeClaim> = Api::all(ctx.client.clone());
        let object: NodeClaim = serde_json::from_value(want.object).ok()?;
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
