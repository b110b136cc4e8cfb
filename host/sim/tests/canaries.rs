//! Next versions of policies take over, or are taken back: good ones and bad ones, with the leader
//! killed at every step.
//!
//! Each seed is one version. The judge of NodeClaims (`harness/judges/canaries.rs`) sees to it that none
//! is obeyed beyond its step. `LONGSHORE_SEEDS` says how many there are, `LONGSHORE_VERSION` which version
//! alone is tried.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use longshore_journal::Journal;
use longshore_live::config;
use longshore_live::policies::{PolicyReloader, Setup as Policies, Shadows, Watcher};
use longshore_live::process::mutants;
use longshore_sim::harness::{Harness, ProcessInputs, Setup};
use longshore_simcluster::cloud::LaunchFaults;
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;
use longshore_simcluster::world::{World, paused};
use serde_json::Value;

/// A version, and how it has to end.
struct Version {
    name: &'static str,
    /// The entry of its policy, without `[policy.canary]`.
    policy: fn() -> String,
    /// Keys of its `[policy.canary]`.
    keys: fn() -> String,
    /// Why it is taken back, as the ConfigMap has it; none for one that is promoted.
    why: Option<&'static str>,
    /// Whether it may decide anything at all: NodeClaims, or that nodes are disrupted.
    decides: bool,
    /// Whether nodes are disrupted; the version at work has none of them go.
    disrupts: bool,
    /// Pods of each NodePool, by turn.
    pods: fn(u32) -> u32,
    /// Whether each pod has a node of its own.
    alone: bool,
    /// What nodes boot with, and not what is bought.
    boots: bool,
    /// What the cloud does.
    cloud: fn(&World),
}

const SCORER: Version = Version {
    name: "",
    policy: || "cel = 'cost'\ngrants = ['scorer', 'commitments']".to_owned(),
    keys: String::new,
    why: None,
    decides: false,
    disrupts: false,
    pods: |turn| turn + 1,
    alone: false,
    boots: false,
    cloud: |_| {},
};

/// Nodes are emptied now and then.
const JUDGE: Version = Version {
    policy: || format!("grants = ['consolidation']\n{}", judge("rejects")),
    disrupts: true,
    pods: |turn| if turn % 6 < 3 { 3 } else { 1 },
    alone: true,
    ..SCORER
};

/// Each node boots with a text.
const BOOTSTRAP: Version = Version {
    policy: || format!("grants = ['bootstrap']\n{}", text("old")),
    boots: true,
    alone: true,
    ..SCORER
};

const VERSIONS: [Version; 13] = [
    Version {
        name: "good",
        keys: || "cel = 'cost * 0.9'".to_owned(),
        decides: true,
        ..SCORER
    },
    Version {
        name: "traps",
        keys: || hostile("panic"),
        why: Some("no-answer"),
        ..SCORER
    },
    Version {
        name: "answers two ways",
        keys: || hostile("two-answers"),
        why: Some("two-answers"),
        ..SCORER
    },
    Version {
        name: "is too cheap",
        keys: || "cel = 'cost * 0.01'".to_owned(),
        why: Some("discount"),
        ..SCORER
    },
    Version {
        name: "leaves pods over",
        keys: || "cel = 'cpu_millicores > 1000 ? infinity : cost'".to_owned(),
        why: Some("pods-left-over"),
        ..SCORER
    },
    Version {
        name: "doubles the cost",
        keys: || "cel = 'cpu_millicores >= 4000 ? cost * 0.2 : cost'".to_owned(),
        why: Some("dearer"),
        decides: true,
        ..SCORER
    },
    Version {
        name: "buys what is short",
        keys: only_family,
        why: Some("launches-fail"),
        decides: true,
        pods: |turn| 4 * turn + 4,
        alone: true,
        cloud: |world| {
            for offerings in offerings_of_family(world) {
                let length = Duration::from_secs(86_400);
                world.cloud.capacity_outage(&offerings, length);
            }
        },
        ..SCORER
    },
    Version {
        name: "buys nodes that never join",
        keys: only_family,
        why: Some("launches-fail"),
        decides: true,
        alone: true,
        cloud: |world| {
            world.cloud.set_faults(LaunchFaults {
                never_register_offerings: offerings_of_family(world),
                ..LaunchFaults::default()
            });
        },
        ..SCORER
    },
    Version {
        name: "lets nodes go",
        keys: || judge("approves"),
        decides: true,
        ..JUDGE
    },
    Version {
        name: "traps in a look",
        keys: || judge("weigh-traps"),
        why: Some("no-answer"),
        ..JUDGE
    },
    Version {
        name: "weighs two ways",
        keys: || judge("weigh-two-ways"),
        why: Some("two-answers"),
        ..JUDGE
    },
    Version {
        name: "has nodes boot",
        keys: || text("new"),
        decides: true,
        ..BOOTSTRAP
    },
    Version {
        name: "has nodes boot that never join",
        keys: || text("broken"),
        why: Some("first-node"),
        decides: true,
        cloud: |world| {
            world.cloud.set_faults(LaunchFaults {
                broken_boots: Some((BOOTS.to_owned(), "cost@".to_owned())),
                ..LaunchFaults::default()
            });
        },
        ..BOOTSTRAP
    },
];

/// Annotations of NodeClaims that a next version decided, and whose nodes boot with its user data.
const DECIDED: &str = "longshore.dev/policy-canary";
const BOOTS: &str = "longshore.dev/bootstrap-canary";

/// Instance types where things go wrong. Without a next version nothing is bought of them: they are
/// dearer than others.
const FAMILY: &str = "m-";

/// Buys of a family alone.
fn only_family() -> String {
    format!(
        "cel = \"instance_type.startsWith('{FAMILY}') ? cost : infinity\"\n\
         max-cost-increase = '100%'"
    )
}

/// `TYPE/*/*` for each instance type of it.
fn offerings_of_family(world: &World) -> Vec<String> {
    let (catalogue, names) = world.cloud.catalogue();
    let types = catalogue.types().iter().map(|t| names.text(t.name));
    let types = types.filter(|name| name.starts_with(FAMILY));
    let offerings: Vec<String> = types.map(|name| format!("{name}/*/*")).collect();
    assert!(!offerings.is_empty(), "no instance type {FAMILY}…");
    offerings
}

fn hostile(mode: &str) -> String {
    static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
        longshore_xtask::guests::build_hostile().unwrap_or_else(|error| panic!("{error}"))
    });
    component(&FILE, mode)
}

fn judge(mode: &str) -> String {
    static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
        longshore_xtask::guests::build_hostile_judge().unwrap_or_else(|error| panic!("{error}"))
    });
    component(&FILE, mode)
}

/// A bootstrap policy that prints a word.
fn text(word: &str) -> String {
    let file = longshore_xtask::guests::plugin("bootstrap-template");
    format!("path = {file:?}\nsettings = {{ template = \"#!/bin/sh\\necho {word}\\n\" }}")
}

fn component(file: &Path, mode: &str) -> String {
    format!("path = {file:?}\nsettings = {{ mode = '{mode}' }}")
}

const POOLS: [&str; 3] = ["dev", "batch", "web"];

fn manifests(alone: bool) -> String {
    let mut all = "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: \
                   default}\nspec: {}\n"
        .to_owned();
    for pool in POOLS {
        let apart = format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             [{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: {pool}}}}}}}]}}}}"
        );
        let apart = if alone { &*apart } else { "" };
        all += &format!(
            "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {pool}}}
spec:
  template:
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {pool}}}
spec:
  replicas: 0
  selector: {{matchLabels: {{app: {pool}}}}}
  template:
    metadata: {{labels: {{app: {pool}}}}}
    spec:
      nodeSelector: {{karpenter.sh/nodepool: {pool}}}
      {apart}
      containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: '1200m', memory: 1Gi}}}}}}]
"
        );
    }
    all
}

/// What processes of the daemon leave behind: who compares, by process.
#[derive(Clone, Default)]
struct Comparing(Arc<Mutex<Vec<(Watcher, Shadows)>>>);

impl Comparing {
    fn step(&self) {
        let all = self.0.lock().expect("no panic");
        all.iter().for_each(|(_, shadows)| shadows.step());
    }
}

fn setup(seed: u64, version: &Version, comparing: &Comparing) -> Setup {
    let (policy, keys) = ((version.policy)(), (version.keys)());
    let text = format!(
        "[[policy]]\nname = 'cost'\n{policy}\n[policy.canary]\n{keys}\norder = [['dev'], \
         ['batch'], ['*']]\nhold = '2m'\npromote = 'auto'\n"
    );
    let parsed = config::parse(Path::new("longshore.toml"), &text);
    let inline = parsed.unwrap_or_else(|faults| panic!("{faults:?}"));
    let (comparing, boots) = (comparing.clone(), version.boots);
    let begin = move |_: u32| {
        let setup = Policies {
            inline: inline.clone(),
            boots,
            cache: Some(std::env::temp_dir().join("longshore-canaries-cache")),
            ..Policies::default()
        };
        let (reloader, watcher, shadows) = PolicyReloader::manual(setup).expect("policies");
        let status = reloader.status().policies;
        let refused = status.iter().find_map(|policy| policy.error.clone());
        assert_eq!(refused, None);
        comparing
            .0
            .lock()
            .expect("no panic")
            .push((watcher, shadows));
        ProcessInputs {
            reloader,
            journal: Journal::off(),
        }
    };
    Setup {
        replicas: 2,
        elects: true,
        disrupts: version.disrupts,
        ..Setup::beginning(seed, Arc::new(begin))
    }
}

/// What is written down of the canary.
fn written(world: &World) -> Value {
    let key = fields::key(
        resources::CONFIG_MAP,
        "kube-system",
        "longshore-policy-canaries",
    );
    let map = world.server.get(&key);
    let text = map
        .as_deref()
        .and_then(|map| map.pointer("/data/cost")?.as_str());
    text.map_or(Value::Null, |text| {
        serde_json::from_str(text).expect("JSON")
    })
}

/// NodeClaims that a next version decided, or whose instance boots with its user data.
fn decided(world: &World, version: &Version) -> Vec<String> {
    let claims = world.server.list(resources::NODE_CLAIM);
    let is_one = |claim: &&Arc<Value>| match version.boots {
        true => {
            let runs = world.cloud.runs_for(fields::uid(claim)).is_some();
            runs && fields::annotation(claim, BOOTS).is_some()
        }
        false => fields::annotation(claim, DECIDED).is_some(),
    };
    let claims = claims.iter().filter(is_one);
    claims.map(|claim| fields::name(claim).to_owned()).collect()
}

/// NodePools whose NodeClaims go. The version at work has none go.
fn disrupted(world: &World) -> BTreeSet<String> {
    let claims = world.server.list(resources::NODE_CLAIM);
    let going = claims.iter().filter(|claim| fields::deleting(claim));
    let pool =
        |claim: &Arc<Value>| fields::label(claim, "karpenter.sh/nodepool").map(str::to_owned);
    going.filter_map(pool).collect()
}

/// Whether what is written down has come to a NodePool.
fn reaches(written: &Value, pool: &str) -> bool {
    let step = written["step"].as_u64().unwrap_or_default() as usize;
    let order = written["order"].as_array().into_iter().flatten();
    let mut names = order.take(step + 1).filter_map(Value::as_array).flatten();
    names.any(|name| name == pool || name == "*")
}

/// What decides whom it is obeyed for.
fn stands(written: &Value) -> [&Value; 3] {
    ["step", "phase", "first-node"].map(|key| &written[key])
}

/// A minute of a story is three rounds.
const MINUTES: u32 = 60;

/// What a story shows of a version on its way.
#[derive(Default)]
struct Shown {
    /// NodeClaims that it decided.
    marked: BTreeSet<String>,
    /// NodePools of which nodes were disrupted.
    disrupted: BTreeSet<String>,
    /// Of these, those that it had not come to.
    beyond: BTreeSet<String>,
}

impl Shown {
    fn look(&mut self, world: &World, version: &Version) {
        self.marked.extend(decided(world, version));
        if !version.disrupts {
            return;
        }
        let written = written(world);
        for pool in disrupted(world) {
            if !reaches(&written, &pool) {
                self.beyond.insert(pool.clone());
            }
            self.disrupted.insert(pool);
        }
    }

    /// What is wrong with it.
    fn wrong(&self, version: &Version) -> Vec<String> {
        let mut wrong = Vec::new();
        let decided = match version.disrupts {
            true => self.disrupted.len(),
            false => self.marked.len(),
        };
        match (decided, version.decides) {
            (0, true) => wrong.push("it decided nothing".to_owned()),
            (1.., false) => wrong.push(format!("it decided {decided} NodeClaims or NodePools")),
            _ => {}
        }
        if !self.beyond.is_empty() {
            wrong.push(format!(
                "it disrupted nodes of {:?} before its step",
                self.beyond
            ));
        }
        if version.boots && version.why.is_some() && decided > 1 {
            wrong.push(format!("{decided} nodes booted with its user data"));
        }
        if version.disrupts && version.why.is_none() && self.disrupted.len() < POOLS.len() {
            wrong.push(format!("it disrupted nodes of {:?} alone", self.disrupted));
        }
        wrong
    }
}

/// Tells one story; what is wrong with it.
fn story(seed: u64, version: &Version, mutant: Option<&str>) -> Vec<String> {
    assert!(mutants::switch(mutant));
    let comparing = Comparing::default();
    let setup = setup(seed, version, &comparing);
    let ended = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        world.apply(&manifests(version.alone)).expect("manifests");
        (version.cloud)(world);
        let (mut last, mut shown) = (Value::Null, Shown::default());
        for turn in 0..MINUTES * 3 {
            for pool in POOLS {
                world.scale("Deployment", "default", pool, (version.pods)(turn));
            }
            for _ in 0..10 {
                let has_moved = |world: &World| stands(&written(world)) != stands(&last);
                let pause = Duration::from_secs(2);
                if world.run_until(has_moved, pause).await {
                    // Whoever leads: at every step, and at its end. Another moment for each seed.
                    world.run_for(Duration::from_millis(seed * 37 % 3000)).await;
                    last = written(world);
                    harness.kill(0);
                    harness.kill(1);
                }
                comparing.step();
                shown.look(world, version);
            }
            let is_over = !last.is_null() && last["phase"] != "running";
            if is_over && turn > 20 {
                break;
            }
        }
        // What was taken back stays so.
        world.run_for(Duration::from_secs(120)).await;
        shown.look(world, version);
        let mut wrong = harness.violations();
        let phase = written(world)["phase"].clone();
        let is_as_meant = match version.why {
            None => phase == "promoted",
            Some(why) => phase["rolled-back"].to_string().contains(why),
        };
        if !is_as_meant {
            let written = written(world);
            wrong.push(format!("it ended as {written}, and not {:?}", version.why));
        }
        wrong.extend(shown.wrong(version));
        wrong
    });
    mutants::switch(None);
    ended.expect("a runtime")
}

/// How many there are; `LONGSHORE_SEEDS` says another number.
fn seeds() -> u64 {
    let said = std::env::var("LONGSHORE_SEEDS").ok();
    said.and_then(|text| text.parse().ok())
        .unwrap_or(VERSIONS.len() as u64)
}

#[test]
fn a_good_version_takes_over_and_a_bad_one_is_taken_back_within_its_step() {
    let mut failed = String::new();
    let only = std::env::var("LONGSHORE_VERSION").ok();
    for seed in 0..seeds() {
        let version = &VERSIONS[seed as usize % VERSIONS.len()];
        if only.as_deref().is_some_and(|only| only != version.name) {
            continue;
        }
        let wrong = story(seed, version, None);
        if !wrong.is_empty() {
            failed += &format!("seed {seed}, a version that {}: {wrong:#?}\n", version.name);
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn defects_that_the_table_names_are_found() {
    for line in include_str!("canaries.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let cells: Vec<&str> = line.split('\t').collect();
        let [mutant, version, says] = cells[..] else {
            panic!("not three cells: {line:?}")
        };
        let version = VERSIONS
            .iter()
            .find(|of| of.name == version)
            .expect("a version");
        let wrong = story(0, version, Some(mutant)).concat();
        assert!(wrong.contains(says), "{mutant}: {wrong}");
    }
}
