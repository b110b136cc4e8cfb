//! A scenario: an hour or a month of a cluster, written in TOML.
//!
//! It is read once ([`read`]), with an error for everything invalid; the types here hold its exact
//! meaning. Loads are curves ([`curve`]), workloads become objects ([`objects`]), and every event
//! is an act at a time ([`acts`]). [`play`] runs it in a world, and [`stats`](crate::stats) counts
//! the result.
//!
//! Absent on purpose: a language. Whatever the file has no key for goes into manifests.

pub mod acts;
pub mod curve;
pub mod objects;
pub mod play;
pub mod policy;
pub mod read;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use longshore_core::model::{Catalogue, Symbols};
use serde_json::Value;

pub use acts::ScenarioEvent;
pub use curve::Curve;
use longshore_simcluster::cloud;
use longshore_simcluster::faults::RequestFaults;
pub use policy::Policy;

/// The version of the format that is read.
pub const VERSION: u64 = 1;

/// A scenario, read.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where it was read from.
    pub file: PathBuf,
    pub name: String,
    /// How long it lasts.
    pub duration: Duration,
    /// The time of day when it begins.
    pub begins: Timestamp,
    /// Decides everything that chance decides.
    pub seed: u64,
    /// How much time a row of the timeline stands for, where the file says so.
    pub step: Option<Duration>,
    /// What the simulated cloud sells.
    pub types: Arc<(Catalogue, Symbols)>,
    /// The account of AWS that nodes come from; nothing for the simulated cloud.
    #[cfg(feature = "aws")]
    pub ec2: Option<crate::harness::aws::AccountOptions>,
    /// What is there from the beginning.
    pub objects: Vec<Value>,
    /// Loads of Deployments and their like.
    pub loads: Vec<Load>,
    /// The cloud and its disturbances.
    pub cloud: cloud::CloudOptions,
    /// The daemon's processes.
    pub daemon: Daemon,
    /// The policies that score at the beginning.
    pub policy: Policy,
    /// What goes wrong, from when until when.
    pub faults: Vec<Window>,
    /// What happens, by time.
    pub events: Vec<(Duration, ScenarioEvent)>,
}

/// A load on a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Kind, as `Deployment`.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Replicas over time.
    pub curve: Curve,
    /// How often replicas follow it.
    pub adjusts: Duration,
}

/// How the daemon runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Daemon {
    /// Number of processes; a Lease decides which one acts.
    pub replicas: u32,
    /// How long it takes until one that was killed has a successor.
    pub restart: Duration,
    /// How long a batch of pods waits for one more, and at most.
    pub window: (Duration, Duration),
}

impl Default for Daemon {
    fn default() -> Self {
        Daemon {
            replicas: 1,
            restart: Duration::from_secs(5),
            window: (Duration::from_secs(1), Duration::from_secs(10)),
        }
    }
}

/// A time in which things go wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// From then, since the beginning.
    pub from: Duration,
    /// Until then.
    pub to: Duration,
    /// On the way to the API server.
    pub server: RequestFaults,
    pub cloud: cloud::LaunchFaults,
}

impl Scenario {
    /// Ends earlier: what would happen later does not.
    pub fn cut(&mut self, duration: Duration) {
        self.duration = self.duration.min(duration);
    }
}
