//! Runs a scenario: its events happen in a world with the daemon, and the result is counted.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use longshore_live::error::Failure;

use super::acts::text;
use super::policy::{Policy, PolicySlot};
use super::{Scenario, ScenarioEvent};
use crate::harness::{Harness, Setup};
use crate::stats::{Note, Sample, Stats, Totals, What};
use longshore_simcluster::cloud::Running;
use longshore_simcluster::keyed_rng::KeyedRng;
use longshore_simcluster::world::{self, paused};

/// A scenario under way.
pub struct Play {
    /// The world with the daemon in it.
    pub harness: Harness,
    pub slot: PolicySlot,
    /// What has been counted so far.
    pub stats: Stats,
    scenario: Scenario,
    acts: VecDeque<(Duration, ScenarioEvent)>,
    every: Duration,
    next: Duration,
}

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioOutcome {
    pub name: String,
    pub seed: u64,
    /// Who scored at the beginning.
    pub policy: String,
    /// The time of day when it began.
    pub begins: k8s_openapi::jiff::Timestamp,
    /// How much time a row of the timeline stands for.
    pub step: Duration,
    /// One after the other.
    pub samples: Vec<Sample>,
    pub notes: Vec<Note>,
    /// Sums.
    pub totals: Totals,
    /// What went wrong with writing it down.
    pub trouble: Vec<String>,
}

/// Plays a scenario to its end, in a runtime of its own, as fast as it goes.
///
/// # Errors
/// A policy that is refused, a manifest that the API server refuses, a folder that cannot be
/// written to.
pub fn play(
    scenario: &Scenario,
    policy: &Policy,
    journal: Option<&Path>,
) -> Result<ScenarioOutcome, Failure> {
    let slot = PolicySlot::new(policy, journal)?;
    let simulated = paused(async {
        let mut play = Play::begin(scenario.clone(), slot)?;
        play.until(scenario.duration).await;
        Ok(play.end(policy.label()))
    });
    simulated.map_err(|error| usage(format!("no runtime: {error}"), ""))?
}

fn usage(message: String, hint: &str) -> Failure {
    Failure::Usage {
        message,
        hint: hint.to_owned(),
    }
}

impl Play {
    /// Puts everything up. Inside a runtime only.
    ///
    /// # Errors
    /// A manifest that the API server refuses.
    pub fn begin(scenario: Scenario, slot: PolicySlot) -> Result<Self, Failure> {
        let options = world::WorldOptions {
            cloud: scenario.cloud.clone(),
            types: Some(scenario.types.clone()),
            begins: scenario.begins,
            ..world::WorldOptions::default()
        };
        let setup = Setup {
            world: options,
            replicas: scenario.daemon.replicas,
            window: scenario.daemon.window,
            restart: scenario.daemon.restart,
            keeps_requests: false,
            disrupts: true,
            ..Setup::beginning(scenario.seed, slot.begin())
        };
        #[cfg(feature = "aws")]
        let setup = match scenario.ec2.clone() {
            Some(ec2) => setup.on_ec2(crate::harness::aws::Account::new(scenario.seed, ec2)),
            None => setup,
        };
        let harness = Harness::new(setup);
        let first = scenario.at_first();
        for mut object in scenario.objects.clone() {
            let field = |field: &str| {
                object["metadata"][field]
                    .as_str()
                    .unwrap_or("default")
                    .to_owned()
            };
            let (kind, namespace, name) = (
                object["kind"].as_str().unwrap_or_default().to_owned(),
                field("namespace"),
                field("name"),
            );
            if let Some(replicas) = first.get(&(kind.as_str(), namespace.as_str(), name.as_str())) {
                object["spec"]["replicas"] = (*replicas).into();
            }
            harness.world.apply_object(object).map_err(|error| {
                usage(
                    error.to_string(),
                    "the simulated API server refuses it, as a real one would",
                )
            })?;
        }
        let tally = Stats::new(&harness);
        let acts = scenario.acts().into();
        let every = every(scenario.duration);
        Ok(Play {
            harness,
            slot,
            stats: tally,
            scenario,
            acts,
            every,
            next: Duration::ZERO,
        })
    }

    /// Goes on until a time after the beginning: what is due then has happened and was looked at.
    pub async fn until(&mut self, end: Duration) {
        loop {
            let act = self.acts.front().map_or(Duration::MAX, |(at, _)| *at);
            let due = act.min(self.next);
            let pause = due
                .min(end)
                .saturating_sub(self.harness.world.clock.elapsed());
            if !pause.is_zero() {
                self.harness.world.run_for(pause).await;
            }
            if due > end {
                return;
            }
            if act > self.next {
                self.sample();
                self.next += self.every;
            } else if let Some((_, act)) = self.acts.pop_front() {
                self.happen(&act);
            }
        }
    }

    /// The time of day when it began.
    pub fn begins(&self) -> k8s_openapi::jiff::Timestamp {
        self.scenario.begins
    }

    fn sample(&mut self) {
        self.slot.flush();
        let at = self.harness.world.clock.elapsed();
        for notice in self.slot.notices() {
            self.stats.note(at, What::Policy, notice.message);
        }
        self.stats.sample(&self.harness);
    }

    /// Lets something happen now.
    pub fn happen(&mut self, act: &ScenarioEvent) {
        let Play {
            harness,
            slot,
            stats: tally,
            scenario,
            ..
        } = self;
        let world = &harness.world;
        let now = world.clock.elapsed();
        let what = match act {
            ScenarioEvent::Apply { objects, .. }
                if objects.iter().all(|object| object["kind"] == "Job") =>
            {
                Some(What::Job)
            }
            ScenarioEvent::Policy(_) => Some(What::Policy),
            // The cloud reports it.
            ScenarioEvent::Scale { .. } | ScenarioEvent::Shortage { .. } => None,
            _ => Some(What::Event),
        };
        if let Some(what) = what {
            tally.note(now, what, act.to_string());
            world.log.say(world.clock, format!("scenario: {act}"));
        }
        match act {
            ScenarioEvent::Apply { objects, .. } => {
                for object in objects {
                    if let Err(error) = world.apply_object(object.clone()) {
                        tally.note(now, What::Event, format!("refused: {error}"));
                    }
                }
            }
            ScenarioEvent::Delete {
                kind,
                namespace,
                name,
            } => {
                if !world.delete(kind, namespace, name) {
                    tally.note(
                        now,
                        What::Event,
                        format!("there is no {kind} {name} to delete"),
                    );
                }
            }
            ScenarioEvent::Scale { load, replicas } => {
                let load = &scenario.loads[*load];
                world.scale(&load.kind, &load.namespace, &load.name, *replicas);
            }
            ScenarioEvent::Policy(policy) => slot.switch(policy),
            ScenarioEvent::KillDaemon => drop(harness.kill(0)),
            ScenarioEvent::CutLease(length) => harness.cut_lease(*length),
            ScenarioEvent::DropWatches => world.server.drop_watches(),
            ScenarioEvent::StallWatches(length) => harness.stall_watches(*length),
            ScenarioEvent::ForgetHistory => world.server.compact(),
            ScenarioEvent::Shortage { offerings, length } => {
                world.cloud.capacity_outage(offerings, *length)
            }
            ScenarioEvent::Interrupt { offerings, share } => {
                let running = matching(world.cloud.running(), offerings);
                let spot: Vec<&Running> = running
                    .iter()
                    .filter(|i| i.capacity_type == "spot")
                    .collect();
                let most = (share * spot.len() as f64).ceil() as usize;
                for instance in random_sample(&spot, scenario.seed, now)
                    .into_iter()
                    .take(most)
                {
                    world.cloud.interrupt(&instance.provider_id);
                }
            }
            ScenarioEvent::Break { offerings, nodes } => {
                let running = matching(world.cloud.running(), offerings);
                let all: Vec<&Running> = running.iter().collect();
                for instance in random_sample(&all, scenario.seed, now)
                    .into_iter()
                    .take(*nodes as usize)
                {
                    world.cloud.kill(&instance.provider_id);
                }
            }
            ScenarioEvent::Prices { offerings, times } => {
                world.cloud.shift_prices(offerings, *times)
            }
            ScenarioEvent::Faults(faults) => {
                harness.set_faults(faults.0);
                world.cloud.set_faults(faults.1.clone());
            }
        }
    }

    /// Sums up.
    pub fn end(mut self, policy: String) -> ScenarioOutcome {
        let now = self.harness.world.clock.elapsed();
        if self.stats.samples.last().is_none_or(|last| last.at < now) {
            self.sample();
        }
        let totals = self.stats.totals(&self.harness);
        let step = self.scenario.step.unwrap_or_else(|| step(now));
        ScenarioOutcome {
            name: self.scenario.name.clone(),
            seed: self.scenario.seed,
            policy,
            begins: self.scenario.begins,
            step,
            samples: std::mem::take(&mut self.stats.samples),
            notes: std::mem::take(&mut self.stats.notes),
            totals,
            trouble: self.slot.close(),
        }
    }
}

fn matching(running: Vec<Running>, pattern: &str) -> Vec<Running> {
    let fits = |i: &Running| {
        pattern
            .split('/')
            .zip(i.offering.split('/'))
            .all(|(part, text)| part == "*" || part == text)
    };
    running.into_iter().filter(fits).collect()
}

/// In an order that the seed decides.
fn random_sample<'a>(all: &[&'a Running], seed: u64, now: Duration) -> Vec<&'a Running> {
    let mut all = all.to_vec();
    let moment = text(now);
    all.sort_by_cached_key(|i| KeyedRng(seed).draw(&moment, &i.provider_id));
    all
}

/// Steps that people are used to, seconds.
const STEPS: [u64; 14] = [
    10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
];

fn round_step(at_least: f64) -> Duration {
    let step = STEPS.iter().find(|step| **step as f64 >= at_least).copied();
    Duration::from_secs(step.unwrap_or(7 * 86_400))
}

/// How often it is looked: about a thousand times, every quarter of an hour at least.
fn every(duration: Duration) -> Duration {
    round_step(duration.as_secs_f64() / 1500.0).min(Duration::from_secs(900))
}

/// How much time a row stands for: at most 32 rows.
fn step(duration: Duration) -> Duration {
    round_step(duration.as_secs_f64() / 32.0)
}
