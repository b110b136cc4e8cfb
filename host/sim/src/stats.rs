//! Statistics of a scenario: samples over time, events, totals.
//!
//! Pods are counted at every change ([`pods`]), so that none is missed. Nodes and prices are read
//! at every sample. Cost comes from the cloud's ledger. Nothing here changes the world.

mod pods;
mod totals;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::harness::Harness;
use longshore_simcluster::cloud;
use pods::Pods;
pub use totals::{Money, Totals, Waits};

/// A moment of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Since the beginning.
    pub at: Duration,
    /// Pods that are ready.
    pub running: usize,
    /// Pods without a node, now.
    pub pending: usize,
    /// Most pods without a node at once, since the sample before.
    pub most_pending: usize,
    /// Instances that are paid for, by kind.
    pub nodes: BTreeMap<InstanceGroup, usize>,
    /// What they cost, USD per hour.
    pub usd_per_hour: f64,
    /// Pods that have had to leave a node that was drained, since the beginning.
    pub evicted: u64,
}

/// The properties that instances are grouped by.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceGroup {
    /// NodePool.
    pub pool: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// First part of the type's name.
    pub family: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Since the beginning.
    pub at: Duration,
    /// What sort of thing.
    pub what: What,
    /// How often, where the same happened several times at once.
    pub times: u64,
    /// In words; with `times` before it for what is counted.
    pub words: String,
}

/// Sorts of things that happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The scenario says so.
    Event,
    /// Jobs, which come and go.
    Job,
    /// The cloud's disturbances.
    CapacityOutage,
    /// Instances were given notice.
    Interruption,
    /// Machines were taken back or died.
    Loss,
    /// Launches that failed.
    Launch,
    /// A process of the daemon began again.
    Daemon,
    /// Another policy, or trouble with one.
    Policy,
    /// A safety check failed.
    Violation,
}

impl What {
    /// As programs read it.
    pub fn word(self) -> &'static str {
        match self {
            What::Event => "event",
            What::Job => "job",
            What::CapacityOutage => "storm",
            What::Interruption => "interruption",
            What::Loss => "loss",
            What::Launch => "launch-failed",
            What::Daemon => "daemon",
            What::Policy => "policy",
            What::Violation => "violation",
        }
    }
}

impl Sample {
    /// Instances of all kinds.
    pub fn all_nodes(&self) -> usize {
        self.nodes.values().sum()
    }
}

/// Counts what comes of a run while it goes on.
pub struct Stats {
    /// One after the other.
    pub samples: Vec<Sample>,
    /// By time.
    pub notes: Vec<Note>,
    pods: Arc<Mutex<Pods>>,
    counting: JoinHandle<()>,
    /// As they were when they were looked at last.
    cloud: cloud::Stats,
    processes: u32,
    violations: usize,
}

impl Drop for Stats {
    fn drop(&mut self) {
        self.counting.abort();
    }
}

impl Stats {
    /// Counts from now on. Inside a runtime only.
    pub fn new(harness: &Harness) -> Self {
        let pods = Arc::new(Mutex::new(Pods::default()));
        let counting = pods::count(
            harness.world.server.clone(),
            harness.world.clock,
            pods.clone(),
        );
        Stats {
            samples: Vec::new(),
            notes: Vec::new(),
            pods,
            counting: tokio::spawn(counting),
            cloud: cloud::Stats::default(),
            processes: 0,
            violations: 0,
        }
    }

    pub fn note(&mut self, at: Duration, what: What, words: String) {
        self.notes.push(Note {
            at,
            what,
            times: 1,
            words,
        });
    }

    /// Looks at everything once.
    pub fn sample(&mut self, harness: &Harness) {
        let at = harness.world.clock.elapsed();
        self.news(harness, at);
        let mut sample = Sample {
            at,
            ..Sample::default()
        };
        for instance in harness.world.cloud.running() {
            let family = instance
                .instance_type
                .split(['.', '-'])
                .next()
                .unwrap_or_default()
                .to_owned();
            let kind = InstanceGroup {
                pool: instance.node_pool,
                capacity_type: instance.capacity_type,
                family,
            };
            *sample.nodes.entry(kind).or_default() += 1;
            sample.usd_per_hour += instance.price;
        }
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        (sample.running, sample.pending) = (pods.running, pods.pending);
        sample.most_pending = pods.take_most_pending();
        sample.evicted = pods.evicted;
        drop(pods);
        self.samples.push(sample);
    }

    /// What has happened by itself since it was looked at last.
    fn news(&mut self, harness: &Harness, at: Duration) {
        let cloud = harness.world.cloud.stats();
        for (at, words) in cloud
            .capacity_outages
            .iter()
            .skip(self.cloud.capacity_outages.len())
        {
            self.notes.push(Note {
                at: *at,
                what: What::CapacityOutage,
                times: 1,
                words: words.clone(),
            });
        }
        let counted = [
            (
                What::Interruption,
                cloud.interruptions - self.cloud.interruptions,
                "spot nodes given notice",
            ),
            (
                What::Loss,
                cloud.taken_back - self.cloud.taken_back,
                "nodes taken back or dead",
            ),
            (
                What::Launch,
                cloud.failed - self.cloud.failed,
                "launches failed",
            ),
        ];
        for (what, times, words) in counted.into_iter().filter(|(_, times, _)| *times > 0) {
            self.notes.push(Note {
                at,
                what,
                times,
                words: words.to_owned(),
            });
        }
        self.cloud = cloud;
        let processes = harness.processes();
        // The first ones are no news.
        if self.processes > 0 && processes > self.processes {
            let times = u64::from(processes - self.processes);
            self.notes.push(Note {
                at,
                what: What::Daemon,
                times,
                words: format!("daemon#{processes} begins"),
            });
        }
        self.processes = processes;
        let violations = harness.violations();
        for words in violations.iter().skip(self.violations) {
            self.note(at, What::Violation, words.clone());
        }
        self.violations = violations.len();
    }

    /// All of it together, at the end.
    pub fn totals(&self, harness: &Harness) -> Totals {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        Totals::new(harness, &pods, &self.samples)
    }
}
