//! A daemon without an environment, for tests: folds what a test sends, plans on request, and keeps
//! a journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longshore_core::disrupt::consolidation::DisruptionPolicies as _;
use longshore_core::disrupt::methods;
use longshore_core::disrupt::verdicts::COMMAND;
use longshore_core::model::{Catalogue, Settings, Symbols};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use serde_json::json;

use super::disruption::count_commands;
use crate::observe::state::ClusterState;
use crate::observe::watch::Change;
use crate::policies::{PolicyReloader, Setup, Shadows, Watcher};
use longshore_api::kinds::ObjectKind;
use longshore_journal::look::{BEFORE_FIRST_LOOK, Look};
use longshore_journal::round::Summary;
use longshore_journal::{Decided, Journal, Looked, Sizes};
use longshore_report::decision::Decision;

/// Large enough for every test that is not about size.
pub const LARGE: Sizes = Sizes {
    all: 1 << 30,
    segment: 1 << 28,
};

pub struct JournalFixture {
    pub folder: PathBuf,
    pub journal: Journal,
    pub watcher: Watcher,
    pub reloader: PolicyReloader,
    _shadows: Shadows,
    pub state: ClusterState,
    pub catalogue: Catalogue,
    pub rounds: u64,
    pub looks: u64,
    /// Digests of the plans, in order.
    pub digests: Vec<String>,
    /// Milliseconds since 1970.
    pub time: i64,
    chance: u64,
    pods: Vec<(u64, bool)>,
}

impl JournalFixture {
    /// `files` are written into a folder of its own; the first is `longshore.toml`. The journal is
    /// in `journal` there.
    pub fn new(name: &str, sizes: Sizes, files: &[(&str, &[u8])]) -> Self {
        let folder =
            std::env::temp_dir().join(format!("longshore-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("longshore.toml"), "").unwrap();
        files
            .iter()
            .for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
        let journal = Journal::open(&folder.join("journal"), sizes).unwrap();
        let config = Some(folder.join("longshore.toml"));
        let setup = Setup {
            config,
            journal: journal.clone(),
            ..Setup::default()
        };
        let (reloader, watcher, shadows) = PolicyReloader::manual(setup).unwrap();
        let mut names = Symbols::default();
        let types = include_bytes!("../../../daemon/tests/data/types.json");
        let (catalogue, problems) =
            longshore_kwok::catalogue::parse("types.json", types, &mut names);
        assert!(problems.list.is_empty());
        let mut scene = JournalFixture {
            folder,
            journal,
            watcher,
            reloader,
            _shadows: shadows,
            state: ClusterState::new(names),
            catalogue,
            rounds: 0,
            looks: 0,
            digests: Vec::new(),
            time: 1_793_491_200_000,
            chance: 1,
            pods: Vec::new(),
        };
        let class = json!({"metadata": {"name": "default"}, "spec": {}});
        let pool = json!({"metadata": {"name": "default"}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}}}});
        scene.observe(
            ObjectKind::KwokNodeClass,
            Change::Upsert(class.to_string().into()),
        );
        scene.observe(
            ObjectKind::NodePool,
            Change::Upsert(pool.to_string().into()),
        );
        scene
    }

    /// The folder of the journal.
    pub fn path(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// What the loop does with an observation.
    pub fn observe(&mut self, kind: ObjectKind, change: Change) {
        self.time += 7;
        let (_, refused) = self.state.fold(kind, &change);
        let what = change.recorded().expect("a change that is recorded");
        self.journal.observed(
            self.time,
            self.state.revision,
            kind,
            what,
            refused.is_some(),
        );
    }

    /// What the loop does when a round is due.
    pub fn round(&mut self) {
        self.rounds += 1;
        self.time += 1000;
        self.journal
            .began(self.time, self.rounds, self.state.revision);
        let mut world = self.state.freeze().world();
        // As if the loop had nominated nodes for some.
        for at in (0..world.pods.len()).step_by(5) {
            if world.pods[at].node.is_none() {
                world.pods[at].nominated = Some(world.names.intern("node-0"));
            }
        }
        // As if kube-scheduler had tried the last pod first.
        let last = world.pods.len() as u64;
        for at in 0..world.pods.len() {
            if world.pods[at].node.is_none() {
                world.pods[at].queued = last - at as u64;
            }
        }
        world.now = self.time / 1000;
        let live = self.reloader.take();
        live.begin_round(world.now);
        world.settings = Settings {
            node_cost: live.planning().node_cost.unwrap_or(Settings::NODE_COST),
            ..Settings::default()
        };
        world.catalogue = self.catalogue.clone();
        let options = PlanOptions {
            seed: live.planning().seed.unwrap_or(0),
            ..PlanOptions::default()
        };
        let snapshot = Snapshot::new(Arc::new(world));
        let plan = planner::plan(&snapshot, &*live, options).unwrap();
        self.digests.push(Decision::new(&snapshot, &plan).digest());
        let took = Duration::from_millis(3);
        let (time, round, plan) = (self.time + 5, self.rounds, Ok(&plan));
        self.journal.decided(Decided {
            time,
            round,
            signals: live.signals(),
            answers: live.answered(),
            failed: live.failed(),
            snapshot: &snapshot,
            options,
            plan,
            took,
        });
    }

    /// What the loop does when a look for disruption is due. Returns how many nodes may go now.
    pub fn look(&mut self) -> usize {
        self.looks += 1;
        self.time += 1000;
        let number = BEFORE_FIRST_LOOK + self.looks;
        self.journal.began(self.time, number, self.state.revision);
        let mut world = self.state.freeze().world();
        count_commands(&mut world);
        world.now = self.time / 1000;
        let live = self.reloader.take();
        live.begin_round(world.now);
        world.settings = Settings::default();
        world.catalogue = self.catalogue.clone();
        let snapshot = Snapshot::new(Arc::new(world));
        let options = methods::RoundOptions::default();
        live.keep_judge_records();
        let round = methods::round(&snapshot, &*live, options, Stop::never());
        let summary = Summary::of_look(&snapshot, &round);
        self.digests.push(summary.digest);
        self.journal.looked(Looked {
            time: self.time + 5,
            number,
            signals: live.signals(),
            answers: live.answered(),
            failed: live.failed(),
            judged: live.take_judge_records(),
            snapshot: &snapshot,
            planning: PlanOptions::default(),
            look: Look::new(&options, &snapshot.world, live.consolidation().is_some()),
            found: &round,
            cut_short: false,
            took: Duration::from_millis(3),
        });
        summary.existing
    }

    /// A node of the NodePool with its NodeClaim, in a command if one is named.
    pub fn managed(&mut self, number: u64, command: Option<&str>) {
        let name = format!("node-{number}");
        let labels = json!({"karpenter.sh/nodepool": "default", "kubernetes.io/os": "linux",
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": "us-east-1a", "kubernetes.io/hostname": name,
            "node.kubernetes.io/instance-type": "m6i.xlarge"});
        let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
        let is = |kind: &str| json!({"type": kind, "status": "True"});
        let conditions = ["Launched", "Registered", "Initialized", "Consolidatable"].map(is);
        let id = format!("kwok://{name}");
        let annotations = command.map(|command| json!({COMMAND: command}));
        let claim = json!({
            "metadata": {"name": name, "uid": name, "labels": labels, "annotations": annotations},
            "spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
            "status": {"providerID": id, "nodeName": name, "capacity": amounts,
                "allocatable": amounts, "conditions": conditions}});
        let node = json!({
            "metadata": {"name": name, "labels": labels}, "spec": {"providerID": id},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [is("Ready")]}});
        self.observe(
            ObjectKind::NodeClaim,
            Change::Upsert(claim.to_string().into()),
        );
        self.observe(ObjectKind::Node, Change::Upsert(node.to_string().into()));
    }

    /// A number below `below`, by chance.
    pub fn chance(&mut self, below: u64) -> u64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % below
    }

    /// A pod; `node` is where it is bound.
    pub fn pod(&mut self, number: u64, node: Option<u64>) {
        self.observe(ObjectKind::Pod, Change::Upsert(pod(number, node).into()));
    }

    /// A node with much room.
    pub fn node(&mut self, number: u64) {
        let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
        let node = json!({
            "metadata": {"name": format!("node-{number}"), "labels": {"kubernetes.io/os": "linux"}},
            "spec": {"providerID": format!("kwok://node-{number}")},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        });
        self.observe(ObjectKind::Node, Change::Upsert(node.to_string().into()));
    }

    /// Something happens to pods and nodes, by chance.
    pub fn churn(&mut self, steps: u64) {
        for _ in 0..steps {
            let number = self.rounds * 1000 + self.chance(1000);
            match self.chance(12) {
                0..=4 => {
                    self.pods.push((number, false));
                    self.pod(number, None);
                }
                5..=6 if !self.pods.is_empty() => {
                    let at = self.chance(self.pods.len() as u64) as usize;
                    let node = self.chance(3);
                    self.pods[at].1 = true;
                    self.pod(self.pods[at].0, Some(node));
                }
                7..=8 if !self.pods.is_empty() => {
                    let at = self.chance(self.pods.len() as u64) as usize;
                    let (gone, _) = self.pods.swap_remove(at);
                    self.observe(ObjectKind::Pod, Change::Remove(pod(gone, None).into()));
                }
                9 => {
                    let node = self.chance(3);
                    self.node(node);
                }
                // A version that cannot be read: the last good one stays.
                10 if !self.pods.is_empty() => {
                    let at = self.chance(self.pods.len() as u64) as usize;
                    let bad = pod(self.pods[at].0, None).replace("700m", "-1");
                    self.observe(ObjectKind::Pod, Change::Upsert(bad.into()));
                }
                // A list that names every second pod: the others are gone.
                11 if self.pods.len() > 6 => {
                    self.observe(ObjectKind::Pod, Change::Begin);
                    let kept: Vec<(u64, bool)> = self.pods.iter().copied().step_by(2).collect();
                    for &(number, bound) in &kept {
                        self.pod(number, bound.then_some(0));
                    }
                    self.observe(ObjectKind::Pod, Change::End);
                    self.pods = kept;
                }
                _ => self.observe(
                    ObjectKind::Pod,
                    Change::Failed("watch: the server is away".into()),
                ),
            }
        }
    }

    /// Everything is written, and nothing after it.
    pub fn close(&self) -> PathBuf {
        self.journal.close();
        self.path()
    }
}

impl Drop for JournalFixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn pod(number: u64, node: Option<u64>) -> String {
    let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "700m", "memory": "600Mi"}}}],
        "nodeName": node.map(|node| format!("node-{node}")).unwrap_or_default()});
    let waits = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    let (phase, conditions) = if node.is_some() {
        ("Running", json!([]))
    } else {
        ("Pending", waits)
    };
    json!({"metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": format!("{number:x}")},
        "spec": spec, "status": {"phase": phase, "conditions": conditions}})
    .to_string()
}

/// The segments of a folder, in order.
pub fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| longshore_journal::segment::number_of(file).is_some())
        .collect();
    files.sort();
    files
}
