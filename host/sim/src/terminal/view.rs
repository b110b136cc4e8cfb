//! The data shown of a cluster at one moment.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use longshore_api::quantity::Quantity;
use serde_json::Value;

use crate::scenario::play::Play;
use crate::show;
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;

/// Most points of a sparkline.
const MAX_POINTS: usize = 60;
/// Most events that are kept.
const MAX_EVENTS: usize = 200;

/// A moment of a cluster, and a little of what came before.
#[derive(Clone, Debug)]
pub struct View {
    /// Of the scenario.
    pub name: String,
    /// Virtual seconds in one on the wall.
    pub speed: f64,
    /// Since the beginning.
    pub now: Duration,
    pub end: Duration,
    begins: Timestamp,
    /// Pods that run.
    pub running: usize,
    /// Pods without a node.
    pub pending: usize,
    /// Machines, in the order of their launch.
    pub nodes: Vec<Node>,
    /// What they cost.
    pub usd_per_hour: f64,
    /// What has been paid.
    pub usd: f64,
    /// Costs and running pods over time, oldest first.
    pub costs: VecDeque<f64>,
    /// Of running pods.
    pub pods: VecDeque<f64>,
    next: Duration,
    /// The policies that score.
    pub policy: String,
    /// What can be edited.
    pub policy_file: PathBuf,
    /// How often the daemon has begun again.
    pub restarts: u32,
    /// What happened, oldest first.
    pub events: VecDeque<Event>,
    seen: (usize, usize),
    paid: Duration,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// First part of its type's name.
    pub family: String,
    /// Its capacity type is spot.
    pub spot: bool,
    /// Share of its CPU that pods have asked for.
    pub fill: f64,
    /// Where it is in its life.
    pub state: MachineState,
}

/// Where a machine is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It boots, or is not ready.
    Coming,
    Ready,
    /// It is being drained.
    Going,
}

/// A line of what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Duration,
    /// How it is shown.
    pub tone: Severity,
    pub words: String,
}

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Everyday.
    Quiet,
    /// Something goes wrong.
    Bad,
    /// Somebody has done something.
    News,
}

impl View {
    /// Of nothing yet.
    pub fn new(name: String, speed: f64, end: Duration, policy_file: &Path) -> Self {
        View {
            name,
            speed,
            now: Duration::ZERO,
            end,
            begins: Timestamp::UNIX_EPOCH,
            running: 0,
            pending: 0,
            nodes: Vec::new(),
            usd_per_hour: 0.0,
            usd: 0.0,
            costs: VecDeque::new(),
            pods: VecDeque::new(),
            next: Duration::ZERO,
            policy: "price".into(),
            policy_file: policy_file.to_owned(),
            restarts: 0,
            events: VecDeque::new(),
            seen: (0, 0),
            paid: Duration::ZERO,
        }
    }

    /// Looks at a run.
    pub fn look(&mut self, play: &Play) {
        let world = &play.harness.world;
        self.now = world.clock.elapsed();
        self.begins = play.begins();
        self.policy = play.slot.active();
        self.restarts = play.harness.restarts();
        let pods = world.pods();
        let mut asked: BTreeMap<&str, i64> = BTreeMap::new();
        (self.running, self.pending) = (0, 0);
        for pod in pods.iter().filter(|pod| !fields::ended(pod)) {
            let daemon = fields::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet");
            match fields::text(pod, "/spec/nodeName") {
                "" => self.pending += usize::from(!fields::deleting(pod) && !daemon),
                node => *asked.entry(node).or_default() += cpu_of(pod),
            }
            self.running += usize::from(fields::ready(pod) && !fields::deleting(pod) && !daemon);
        }
        let objects = world.server.list(resources::NODE);
        let by_name: BTreeMap<&str, &Value> = objects
            .iter()
            .map(|node| (fields::name(node), &**node))
            .collect();
        let running = world.cloud.running();
        self.usd_per_hour = running
            .iter()
            .fold(0.0, |all, instance| all + instance.price);
        self.usd += self.usd_per_hour * self.now.saturating_sub(self.paid).as_secs_f64() / 3600.0;
        self.paid = self.now;
        let node = |instance: &longshore_simcluster::cloud::Running| {
            let object = by_name.get(instance.node.as_str());
            let has = object.map_or(0, |node| {
                milli(fields::text(node, "/status/allocatable/cpu"))
            });
            let asked = asked.get(instance.node.as_str()).copied().unwrap_or(0);
            let state = match object {
                Some(node) if fields::deleting(node) => MachineState::Going,
                Some(node) if fields::condition(node, "Ready") == "True" => MachineState::Ready,
                _ => MachineState::Coming,
            };
            Node {
                family: instance
                    .instance_type
                    .split(['.', '-'])
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
                spot: instance.capacity_type == "spot",
                fill: if has > 0 {
                    asked as f64 / has as f64
                } else {
                    0.0
                },
                state,
            }
        };
        self.nodes = running.iter().map(node).collect();
        if self.now >= self.next {
            self.next = self.now + self.end / MAX_POINTS as u32;
            for (points, value) in [
                (&mut self.costs, self.usd_per_hour),
                (&mut self.pods, self.running as f64),
            ] {
                points.push_back(value);
                if points.len() > MAX_POINTS {
                    points.pop_front();
                }
            }
        }
        self.on_log(play);
    }

    /// What has happened since it was asked last.
    fn on_log(&mut self, play: &Play) {
        let world = &play.harness.world;
        let lines = world.log.since(self.seen.0);
        self.seen.0 += lines.len();
        let mut events: Vec<Event> = lines
            .into_iter()
            .filter_map(|(at, words)| heard(at, words))
            .collect();
        let notes = &play.stats.notes[self.seen.1.min(play.stats.notes.len())..];
        self.seen.1 = play.stats.notes.len();
        let policies = notes
            .iter()
            .filter(|note| note.what == crate::stats::What::Policy);
        events.extend(policies.map(|note| Event {
            at: note.at,
            tone: Severity::News,
            words: note.words.clone(),
        }));
        events.sort_by_key(|event| event.at);
        self.events.extend(events);
        while self.events.len() > MAX_EVENTS {
            self.events.pop_front();
        }
    }

    /// `Mon 14:32`.
    pub fn moment(&self, at: Duration) -> String {
        show::moment(self.begins, at, Duration::ZERO)
    }

    /// All of it in a line.
    pub fn line(&self) -> String {
        let spot = self.nodes.iter().filter(|node| node.spot).count();
        format!(
            "{}  {:>4} pods, {:>3} wait  {:>3} nodes, {:>3} spot  {:>8.3} USD/h  {}",
            self.moment(self.now),
            self.running,
            self.pending,
            self.nodes.len(),
            spot,
            self.usd_per_hour,
            self.policy
        )
    }
}

/// A line of the log, if it is worth showing.
fn heard(at: Duration, words: String) -> Option<Event> {
    let bad = [
        "VIOLATION",
        "is killed",
        "notice of its",
        "taken back",
        "fails",
        "no capacity",
        "run short",
        "never",
        "are short",
    ];
    let news = ["scenario: ", "begins", "policy"];
    let quiet = [" is launched", " joins", " is ended"];
    let any = |of: &[&str]| of.iter().any(|part| words.contains(part));
    let tone = match () {
        () if any(&bad) => Severity::Bad,
        () if any(&news) => Severity::News,
        () if any(&quiet) => Severity::Quiet,
        () => return None,
    };
    Some(Event {
        at,
        tone,
        words: short(words.trim_start_matches("scenario: ")),
    })
}

/// Without what a machine was made for: a line has 80 columns.
fn short(words: &str) -> String {
    match (words.find(", for "), words.find(") ")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &words[..from], &words[to..]),
        _ => words.to_owned(),
    }
}

/// What a pod asks for, milli-CPUs.
fn cpu_of(pod: &Value) -> i64 {
    let containers = fields::items(pod, "/spec/containers").iter();
    containers
        .map(|container| milli(fields::text(container, "/resources/requests/cpu")))
        .sum()
}

fn milli(text: &str) -> i64 {
    Quantity::parse(text)
        .and_then(|quantity| quantity.milli())
        .unwrap_or(0)
}
