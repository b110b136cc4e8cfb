//! The events of a scenario in order.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::{Policy, Scenario, Window};
use longshore_simcluster::cloud;
use longshore_simcluster::faults::RequestFaults;
use longshore_simcluster::keyed_rng::KeyedRng;

#[derive(Clone, Debug, PartialEq)]
pub enum ScenarioEvent {
    /// A user applies objects.
    Apply { what: String, objects: Vec<Value> },
    /// A user deletes an object.
    Delete {
        /// Kind, as `Deployment`.
        kind: String,
        /// Namespace, empty for a kind that has none.
        namespace: String,
        name: String,
    },
    /// A load has changed.
    Scale {
        /// The load, by number.
        load: usize,
        /// Replicas from now on.
        replicas: u32,
    },
    /// Another policy from now on.
    Policy(Box<Policy>),
    /// A process of the daemon is killed.
    KillDaemon,
    /// Who leads cannot renew its Lease for a while.
    CutLease(Duration),
    /// All watches end.
    DropWatches,
    /// Watches say nothing for a while.
    StallWatches(Duration),
    /// The server forgets the past.
    ForgetHistory,
    /// Offerings run short.
    Shortage {
        /// `TYPE/ZONE/CAPACITY-TYPE`, `*` for any.
        offerings: String,
        /// For so long.
        length: Duration,
    },
    /// Spot instances are given notice.
    Interrupt {
        offerings: String,
        /// This share of those that run.
        share: f64,
    },
    /// Machines die without notice.
    Break { offerings: String, nodes: u64 },
    /// Prices jump.
    Prices {
        offerings: String,
        /// By this factor.
        times: f64,
    },
    /// Other things go wrong from now on.
    Faults(Box<(RequestFaults, cloud::LaunchFaults)>),
}

impl fmt::Display for ScenarioEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScenarioEvent::Apply { what, .. } => write!(f, "{what}"),
            ScenarioEvent::Delete { kind, name, .. } => write!(f, "{kind} {name} is deleted"),
            ScenarioEvent::Scale { load, replicas } => write!(f, "load {load}: {replicas}"),
            ScenarioEvent::Policy(policy) => write!(f, "policy: {}", policy.label()),
            ScenarioEvent::KillDaemon => write!(f, "daemon killed"),
            ScenarioEvent::CutLease(length) => {
                write!(f, "leader cut from its Lease for {}", text(*length))
            }
            ScenarioEvent::DropWatches => write!(f, "all watches dropped"),
            ScenarioEvent::StallWatches(length) => {
                write!(f, "watches silent for {}", text(*length))
            }
            ScenarioEvent::ForgetHistory => write!(f, "API server forgets its history"),
            ScenarioEvent::Shortage { offerings, length } => {
                write!(f, "no capacity: {offerings} for {}", text(*length))
            }
            ScenarioEvent::Interrupt { offerings, share } => {
                write!(f, "{:.0} % of {offerings} interrupted", share * 100.0)
            }
            ScenarioEvent::Break { offerings, nodes } => {
                write!(f, "machines of {offerings} die: {nodes}")
            }
            ScenarioEvent::Prices { offerings, times } => {
                write!(f, "prices of {offerings} times {times}")
            }
            ScenarioEvent::Faults(faults) if **faults == Default::default() => {
                write!(f, "faults over")
            }
            ScenarioEvent::Faults(_) => write!(f, "faults begin"),
        }
    }
}

/// A duration for people: `90s`, `45m`, `2h`, `1d12h`.
pub fn text(time: Duration) -> String {
    let seconds = time.as_secs();
    joined(&[
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ])
}

/// The parts of a duration that are not 0, each with its unit.
pub(super) fn joined(parts: &[(u64, &str)]) -> String {
    let text: String = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, unit)| format!("{n}{unit}"))
        .collect();
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

impl Scenario {
    /// Everything that happens before the end, by time.
    pub fn acts(&self) -> Vec<(Duration, ScenarioEvent)> {
        let mut acts = self.events.clone();
        acts.extend(self.changes_of_faults());
        acts.extend(self.changes_of_loads());
        acts.retain(|(at, _)| *at < self.duration);
        // Stable: what happens at once happens in this order.
        acts.sort_by_key(|(at, _)| *at);
        acts
    }

    fn changes_of_faults(&self) -> Vec<(Duration, ScenarioEvent)> {
        let mut moments: Vec<Duration> = self
            .faults
            .iter()
            .flat_map(|window| [window.from, window.to])
            .collect();
        moments.sort_unstable();
        moments.dedup();
        let now = |at: Duration| {
            let windows = self
                .faults
                .iter()
                .filter(|window| window.from <= at && at < window.to);
            ScenarioEvent::Faults(Box::new(windows.fold(Default::default(), Window::over)))
        };
        moments.into_iter().map(|at| (at, now(at))).collect()
    }

    /// Loads as they are followed: only changes, and nothing at the beginning.
    fn changes_of_loads(&self) -> Vec<(Duration, ScenarioEvent)> {
        let (begins, chance) = (self.begins.as_second(), KeyedRng(self.seed));
        let mut acts = Vec::new();
        for (number, load) in self.loads.iter().enumerate() {
            let about = format!("{}/{}", load.namespace, load.name);
            let replicas = |at| load.curve.at(at, begins, chance, &about);
            let (mut at, mut last) = (load.adjusts, replicas(Duration::ZERO));
            while at < self.duration {
                let now = replicas(at);
                if now != last {
                    acts.push((
                        at,
                        ScenarioEvent::Scale {
                            load: number,
                            replicas: now,
                        },
                    ));
                }
                (at, last) = (at + load.adjusts, now);
            }
        }
        acts
    }

    /// Replicas of each load at the beginning.
    pub fn at_first(&self) -> BTreeMap<(&str, &str, &str), u32> {
        let first = |load: &super::Load| {
            let about = format!("{}/{}", load.namespace, load.name);
            load.curve.at(
                Duration::ZERO,
                self.begins.as_second(),
                KeyedRng(self.seed),
                &about,
            )
        };
        let named = |load: &'_ super::Load| first(load);
        self.loads
            .iter()
            .map(|l| ((&*l.kind, &*l.namespace, &*l.name), named(l)))
            .collect()
    }
}

impl Window {
    /// Shares of a window on top of others: the larger one holds.
    fn over(
        (server, cloud): (RequestFaults, cloud::LaunchFaults),
        window: &Window,
    ) -> (RequestFaults, cloud::LaunchFaults) {
        let (s, c) = (&window.server, &window.cloud);
        let server = RequestFaults {
            conflict: server.conflict.max(s.conflict),
            busy: server.busy.max(s.busy),
            failing: server.failing.max(s.failing),
            lost_request: server.lost_request.max(s.lost_request),
            lost_answer: server.lost_answer.max(s.lost_answer),
            late_request: server.late_request.max(s.late_request),
            stale: server.stale.max(s.stale),
            kill: server.kill.max(s.kill),
            calls: server.calls.max(s.calls),
            ..server
        };
        let cloud = cloud::LaunchFaults {
            fail: cloud.fail.max(c.fail),
            slow: cloud.slow.max(c.slow),
            lost: cloud.lost.max(c.lost),
            never_register: cloud.never_register.max(c.never_register),
            never_ready: cloud.never_ready.max(c.never_ready),
            ..cloud
        };
        (server, cloud)
    }
}
