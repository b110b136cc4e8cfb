//! Next versions of policies take over, or are taken back: good ones and bad ones, with the leader
//! killed at every step.
//!
//! Each seed is one version. The judge of NodeClaims (`harness/judges/canaries.rs`) sees to it that none
//! is obeyed beyond its step. `LONGSHORE_SEEDS` says how many there are.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use longshore_journal::Journal;
use longshore_live::config;
use longshore_live::policies::{PolicyReloader, Setup as Policies, Shadows, Watcher};
use longshore_live::process::mutants;
use longshore_sim::harness::{Harness, ProcessInputs, Setup};
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;
use longshore_simcluster::world::{World, paused};
use serde_json::Value;

/// A version, and how it has to end.
struct Version {
    name: &'static str,
    /// Keys of its `[policy.canary]`.
    keys: fn() -> String,
    /// Why it is taken back, as the ConfigMap has it; none for one that is promoted.
    why: Option<&'static str>,
    /// Whether it may decide any NodeClaim at all.
    decides: bool,
}

const VERSIONS: [Version; 6] = [
    Version {
        name: "good",
        keys: || "cel = 'cost * 0.9'".to_owned(),
        why: None,
        decides: true,
    },
    Version {
        name: "traps",
        keys: || hostile("panic"),
        why: Some("no-answer"),
        decides: false,
    },
    Version {
        name: "answers two ways",
        keys: || hostile("two-answers"),
        why: Some("two-answers"),
        decides: false,
    },
    Version {
        name: "is too cheap",
        keys: || "cel = 'cost * 0.01'".to_owned(),
        why: Some("discount"),
        decides: false,
    },
    Version {
        name: "leaves pods over",
        keys: || "cel = 'cpu_millicores > 1000 ? infinity : cost'".to_owned(),
        why: Some("pods-left-over"),
        decides: false,
    },
    Version {
        name: "doubles the cost",
        keys: || "cel = 'cpu_millicores >= 4000 ? cost * 0.2 : cost'".to_owned(),
        why: Some("dearer"),
        decides: true,
    },
];

fn hostile(mode: &str) -> String {
    static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
        longshore_xtask::guests::build_hostile().unwrap_or_else(|error| panic!("{error}"))
    });
    format!("path = {:?}\nsettings = {{ mode = '{mode}' }}", *FILE)
}

const POOLS: [&str; 3] = ["dev", "batch", "web"];

fn manifests() -> String {
    let mut all = "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: \
                   default}\nspec: {}\n"
        .to_owned();
    for pool in POOLS {
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
    let keys = (version.keys)();
    let text = format!(
        "[[policy]]\nname = 'cost'\ncel = 'cost'\ngrants = ['scorer', 'commitments']\n\
         [policy.canary]\n{keys}\norder = [['dev'], \
         ['batch'], ['*']]\nhold = '2m'\npromote = 'auto'\n"
    );
    let parsed = config::parse(Path::new("longshore.toml"), &text);
    let inline = parsed.unwrap_or_else(|faults| panic!("{faults:?}"));
    let comparing = comparing.clone();
    let begin = move |_: u32| {
        let setup = Policies {
            inline: inline.clone(),
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

fn decided(world: &World) -> usize {
    let claims = world.server.list(resources::NODE_CLAIM);
    let mark = "longshore.dev/policy-canary";
    claims
        .iter()
        .filter(|claim| fields::annotation(claim, mark).is_some())
        .count()
}

/// A minute of a story is three rounds.
const MINUTES: u32 = 60;

/// Tells one story; what is wrong with it.
fn story(seed: u64, version: &Version, mutant: Option<&str>) -> Vec<String> {
    assert!(mutants::switch(mutant));
    let comparing = Comparing::default();
    let setup = setup(seed, version, &comparing);
    let told = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        world.apply(&manifests()).expect("manifests");
        let (mut last, mut marked, mut replicas) = (Value::Null, 0, 0);
        for turn in 0..MINUTES * 3 {
            replicas += 1;
            for pool in POOLS {
                world.scale("Deployment", "default", pool, replicas);
            }
            for _ in 0..10 {
                world.run_for(Duration::from_secs(2)).await;
                comparing.step();
                marked = marked.max(decided(world));
            }
            let now = written(world);
            if (&now["step"], &now["phase"]) != (&last["step"], &last["phase"]) {
                // Whoever leads: at every step, and at its end. Another moment for each seed.
                world.run_for(Duration::from_millis(seed * 37 % 3000)).await;
                harness.kill(0);
                harness.kill(1);
                last = now;
            }
            let is_over = !last.is_null() && last["phase"] != "running";
            if is_over && turn > 20 {
                break;
            }
        }
        // What was taken back stays so.
        world.run_for(Duration::from_secs(120)).await;
        let mut wrong = harness.violations();
        let phase = written(world)["phase"].clone();
        let is_as_meant = match version.why {
            None => phase == "promoted",
            Some(why) => phase["rolled-back"].to_string().contains(why),
        };
        if !is_as_meant {
            wrong.push(format!("it ended as {phase}, and not {:?}", version.why));
        }
        if marked == 0 && version.decides {
            wrong.push("it decided no NodeClaim".to_owned());
        }
        if marked > 0 && !version.decides {
            wrong.push(format!("it decided {marked} NodeClaims"));
        }
        wrong
    });
    mutants::switch(None);
    told.expect("a runtime")
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
    for seed in 0..seeds() {
        let version = &VERSIONS[seed as usize % VERSIONS.len()];
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
