//! Runs the scenario of a seed to its end, and reports the result.

use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Symbols};
use longshore_live::policies::PolicyReloader;

#[cfg(feature = "aws")]
use super::aws::Account;
use super::generated::{GeneratedScenario, HOUR, ScenarioEvent};
use super::setup::Setup;
use super::{Harness, foreign};
use longshore_simcluster::cloud;
use longshore_simcluster::faults::RequestFaults;
use longshore_simcluster::world::paused;

/// Time for a cluster to converge after the last fault. A claim without a node is given up after 15
/// min, its successor needs a few minutes, and backoffs last a minute at most.
pub const CONVERGENCE_TIME: Duration = Duration::from_secs(40 * 60);

/// So long no offering is asked for again that has no capacity; the provider counts whole seconds.
#[cfg(feature = "aws")]
const UNAVAILABLE_TTL: Duration = Duration::from_secs(179);

/// How long nothing happens in the end, while the daemon has to rest as well.
const REST_TIME: Duration = Duration::from_secs(15 * 60);

/// What came of a seed.
#[derive(Clone, Debug, Default)]
pub struct SeedResult {
    pub seed: u64,
    /// Rules that were broken, and what was not as it must be in the end; empty if all is well.
    pub wrong: Vec<String>,
    /// Most instances that ran at once, as of every minute.
    pub busiest: usize,
    /// Instances ever made.
    pub bought: usize,
    /// Processes of the daemon.
    pub processes: u32,
    /// Requests of the daemon.
    pub requests: u64,
    /// Everything that happened, if it was asked for.
    pub transcript: String,
}

/// Tells a scenario in a runtime of its own, on this thread.
///
/// # Errors
/// If the system has no resources for a runtime.
pub fn run_scenario(
    story: &GeneratedScenario,
    reloader: PolicyReloader,
    transcript: bool,
) -> std::io::Result<SeedResult> {
    paused(run_now(story, reloader, transcript))
}

/// Runs the generated scenario of a seed.
///
/// # Errors
/// If the system has no resources for a runtime.
pub fn run_seed(
    seed: u64,
    size: u32,
    types: &Arc<(Catalogue, Symbols)>,
    reloader: PolicyReloader,
    transcript: bool,
) -> std::io::Result<SeedResult> {
    run_scenario(
        &GeneratedScenario::new(seed, size, types.clone()),
        reloader,
        transcript,
    )
}

/// Whether another provider has objects in the cluster.
fn is_shared(story: &GeneratedScenario) -> bool {
    #[cfg(feature = "aws")]
    if story.ec2.is_some() {
        return false;
    }
    foreign::are_in(story.seed)
}

async fn run_now(
    story: &GeneratedScenario,
    reloader: PolicyReloader,
    transcript: bool,
) -> SeedResult {
    let setup = Setup {
        world: story.world.clone(),
        replicas: story.replicas,
        elects: story.elects,
        faults: story.faults,
        // The seeds that found a defect ran so.
        sees_prices: false,
        repairs: story.repairs,
        disrupts: story.disrupts,
        jumps: story.jumps.clone(),
        ..Setup::with(story.seed, reloader)
    };
    #[cfg(feature = "aws")]
    let account = (story.ec2.clone()).map(|options| Account::new(story.seed, options));
    #[cfg(feature = "aws")]
    let setup = match &account {
        Some(account) => setup.on_ec2(account.clone()),
        None => setup,
    };
    let harness = Harness::new(setup);
    let world = &harness.world;
    let mut wrong = Vec::new();
    if let Err(error) = world.apply(&story.base) {
        wrong.push(error.to_string());
    }
    if is_shared(story)
        && let Err(error) = foreign::begin(world)
    {
        wrong.push(error.to_string());
    }
    let mut busiest = 0;
    for (at, act) in &story.acts {
        world
            .run_for(at.saturating_sub(world.clock.elapsed()))
            .await;
        world.log.say(
            world.clock,
            format!("story: {act:?}").chars().take(200).collect(),
        );
        act.happen(&harness);
        if *act == ScenarioEvent::Minute {
            busiest = busiest.max(world.cloud.ledger().running().count());
        }
    }
    world
        .run_for(HOUR.saturating_sub(world.clock.elapsed()))
        .await;
    harness.set_faults(RequestFaults::default());
    world.cloud.set_faults(cloud::LaunchFaults::default());
    world.cloud.set_disturbances(cloud::Disturbances::default());
    world.make_well();
    world
        .log
        .say(world.clock, "story: faults have stopped".to_owned());
    let end = world.clock.elapsed() + CONVERGENCE_TIME;
    let mut left = harness.settle(Duration::from_secs(60)).await;
    while !left.is_empty() && world.clock.elapsed() < end {
        story.operator.iter().for_each(|act| act.happen(&harness));
        left = harness.settle(Duration::from_secs(60)).await;
    }
    if left.is_empty() {
        harness.rest(REST_TIME).await;
    }
    wrong.extend(harness.violations());
    #[cfg(feature = "aws")]
    wrong.extend(
        account
            .iter()
            .flat_map(|own| own.fleet_faults(UNAVAILABLE_TTL)),
    );
    wrong.extend(left.into_iter().map(|line| format!("in the end: {line}")));
    SeedResult {
        seed: story.seed,
        wrong,
        busiest,
        bought: world.cloud.ledger().entries.len(),
        processes: harness.processes(),
        requests: world.server.requests().total,
        transcript: if transcript {
            harness.transcript()
        } else {
            String::new()
        },
    }
}
