//! Bootstrap policies of the daemon: which NodePool's nodes boot with which text, what is held while
//! one gives no answer, and what a restart remembers.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use longshore_core::policy::Policies as _;
use longshore_ec2::bootstrap::Joins;
use longshore_ec2::launch::boot;
use longshore_ec2::userdata::Cluster;
use longshore_live::policies::{BOOTS, LiveBootstrap, Setup};
use longshore_xtask::guests::plugin;
use serde_json::{Value, json};

use crate::bootstrap::{Ec2, cluster, ec2, hostile_component};
use crate::scene::{Scene, setup};

/// A daemon's policies in a folder, the EC2NodeClass `default`, and NodePools of it.
struct Nodes {
    scene: Scene,
    boots: LiveBootstrap,
    ec2: Ec2,
    cluster: Cluster,
}

/// What a node of a NodePool boots with, the built-in user data, or why none is launched.
#[derive(Debug, PartialEq)]
enum Boots {
    With(String),
    BuiltIn,
    Not(String),
}

fn folder(name: &str, config: &str) -> PathBuf {
    let name = format!("longshore-boots-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("longshore.toml"), config).unwrap();
    std::fs::copy(plugin("bootstrap-template"), folder.join("template.wasm")).unwrap();
    std::fs::copy(hostile_component(), folder.join("hostile.wasm")).unwrap();
    folder
}

impl Nodes {
    /// A process with these NodePools. A policy that failed is asked again after `pause`.
    fn begin(folder: &Path, pools: &[&str], pause: Duration) -> Self {
        let scene = Scene::with(folder.to_owned(), |folder| Setup {
            copies: Some(folder.join("copies")),
            boots: true,
            limits: longshore_policy::Limits::default(),
            ..setup(folder)
        });
        let node_class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {"role": "r", "amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}],
                "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        });
        let boots = LiveBootstrap::asking_again(scene.manager.clone(), pause);
        let nodes = Nodes {
            scene,
            boots,
            ec2: ec2(&node_class, |name| {
                ["m5.large", "m5.xlarge"].contains(&name)
            }),
            cluster: cluster(),
        };
        pools.iter().for_each(|pool| nodes.note(pool, &json!({})));
        nodes
    }

    fn note(&self, pool: &str, labels: &Value) {
        let class =
            json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool},
            "spec": {"template": {
                "metadata": {"labels": labels},
                "spec": {"nodeClassRef": class, "requirements": []}}},
        });
        self.boots.note_pool(pool, Some(&object.to_string()));
    }

    /// What a node of a NodePool boots with once the catalogue was made.
    fn boots(&self, pool: &str) -> Boots {
        self.boots_marked(pool, None)
    }

    /// What one boots with whose NodeClaim is marked with the next version of a policy.
    fn boots_marked(&self, pool: &str, mark: Option<&str>) -> Boots {
        let joins = Joins {
            cluster: &self.cluster,
            kubernetes: "1.35",
        };
        let (region, object) = (&self.ec2.region, &self.ec2.object);
        let mut class = self.ec2.class.clone();
        self.boots.count(region, &mut class, object, &joins);
        let labels = [("karpenter.sh/nodepool".to_owned(), pool.to_owned())];
        let boot = boot(object, &self.cluster, labels.into(), Vec::new());
        let mark = mark.map(|mark| (BOOTS.to_owned(), mark.to_owned()));
        let marks = mark.into_iter().collect();
        let boots = &self.boots;
        match boots.render(region, &class, object, &joins, &boot, &marks) {
            Ok(Some(made)) => Boots::With(made.texts[made.of[0] as usize].clone()),
            Ok(None) => Boots::BuiltIn,
            Err(why) => Boots::Not(why),
        }
    }

    fn says(&self, pool: &str) -> String {
        self.says_marked(pool, None)
    }

    fn says_marked(&self, pool: &str, mark: Option<&str>) -> String {
        match self.boots_marked(pool, mark) {
            Boots::With(text) => {
                let line = text.lines().find_map(|line| line.strip_prefix("echo "));
                line.unwrap().to_owned()
            }
            Boots::BuiltIn => "built-in".to_owned(),
            Boots::Not(why) => why,
        }
    }

    /// Whether anything may be bought for a NodePool, and what is in the way.
    fn bought(&self, pool: &str) -> Option<String> {
        let world = &self.scene.snapshot.world;
        let mut names = world.names.clone();
        let pool = names.intern(pool);
        let live = self.scene.manager.take();
        live.begin_round(1_700_000_000);
        let scores = live.score(&world.catalogue, &names, pool);
        scores.excluded_by(0).map(|policy| policy.to_string())
    }
}

/// A policy that prints a word on a node of each NodePool, and its settings.
fn template(name: &str, more: &str, word: &str, settings: &str) -> String {
    format!(
        "[[policy]]\nname = '{name}'\npath = 'template.wasm'\ngrants = ['bootstrap']\n{more}\n\
         [policy.settings]\ntemplate = \"#!/bin/sh\\necho {word} {{{{ node-pool }}}}\\n\"\n{settings}\n"
    )
}

fn broken(name: &str, more: &str) -> String {
    format!(
        "[[policy]]\nname = '{name}'\npath = 'hostile.wasm'\ngrants = ['bootstrap']\n{more}\n\
         [policy.settings]\nmode = 'no-join'\n"
    )
}

#[test]
fn a_held_launch_goes_on_when_the_policy_answers_again() {
    let hold = "on-failure = 'hold'\nnodepools = ['default']";
    let folder = folder("held", &broken("boot", hold));
    let mut nodes = Nodes::begin(&folder, &["default", "other"], Duration::ZERO);
    let why = nodes.says("default");
    let begins = "bootstrap policy boot does not say what the node boots with: boot 6.6.6: ";
    assert!(why.starts_with(begins), "{why}");
    assert!(why.ends_with("no node is launched"), "{why}");
    // Nothing is bought for it, and for the other NodePool of the class as ever.
    let reason = "boot (it gives no answer: `on-failure` counts)";
    assert_eq!(nodes.bought("default").as_deref(), Some(reason));
    assert_eq!(
        (nodes.says("other"), nodes.bought("other")),
        ("built-in".to_owned(), None)
    );
    // It is asked again, though nothing has changed.
    let before = nodes.boots.version();
    nodes.boots("default");
    assert!(nodes.boots.version() > before);

    let config = template("boot", hold, "hello", "");
    nodes.scene.rename("longshore.toml", config.as_bytes());
    nodes.scene.settle();
    nodes.scene.manager.take();
    assert_eq!(nodes.says("default"), "hello default");
    assert_eq!(nodes.bought("default"), None);
    let settled = nodes.boots.version();
    nodes.boots("default");
    assert_eq!(nodes.boots.version(), settled, "nothing is held any more");
}

/// A canary of a policy that prints a word, for all NodePools at once.
fn canary(word: &str, settings: &str) -> String {
    format!(
        "[policy.canary]\npath = 'template.wasm'\n[policy.canary.settings]\n\
         template = \"#!/bin/sh\\necho {word} {{{{ node-pool }}}}\\n\"\n{settings}\n"
    )
}

/// What NodeClaims are marked with whose nodes boot with the next version.
fn mark(nodes: &Nodes) -> String {
    let boots = nodes.scene.manager.boots();
    let mut nexts = boots.iter().filter_map(|slot| slot.next.as_ref());
    nexts.next().expect("a next version").0.clone()
}

#[test]
fn a_node_boots_with_the_next_version_if_its_nodeclaim_is_marked_for_it() {
    let config = [template("boot", "", "old", ""), canary("new", "")].concat();
    let folder = folder("next", &config);
    let nodes = Nodes::begin(&folder, &["a"], Duration::ZERO);
    let own = mark(&nodes);
    assert_eq!(nodes.says("a"), "old a");
    assert_eq!(nodes.says_marked("a", Some(&own)), "new a");
    assert_eq!(nodes.says("a"), "old a", "the others as before");
    let other = "boot@0123456789abcdef";
    assert_eq!(nodes.says_marked("a", Some(other)), "old a");
    assert!(nodes.scene.manager.take_sightings().is_empty());
}

#[test]
fn a_next_version_that_says_nothing_useful_is_no_text_and_a_fault() {
    let hostile = |mode: &str| {
        format!("[policy.canary]\npath = 'hostile.wasm'\nsettings = {{ mode = '{mode}' }}\n")
    };
    let overhead = "[policy.canary.settings.overhead]\nmax-pods = 20";
    for (name, next, says) in [
        (
            "no-join",
            hostile("no-join"),
            "the API server's URL is missing",
        ),
        ("panic", hostile("panic"), "trap"),
        (
            "other",
            canary("new", overhead),
            "other amounts than are counted with",
        ),
    ] {
        let config = [template("boot", "", "old", ""), next].concat();
        let folder = folder(&format!("next-{name}"), &config);
        let nodes = Nodes::begin(&folder, &["a"], Duration::from_secs(3600));
        let own = mark(&nodes);
        let why = nodes.says_marked("a", Some(&own));
        let begins =
            "next version of bootstrap policy boot does not say what the node boots with: ";
        assert!(
            why.starts_with(begins) && why.contains(says),
            "{name}: {why}"
        );
        assert_eq!(nodes.says("a"), "old a", "{name}");
        let seen = nodes.scene.manager.take_sightings();
        let [(policy, version, facts)] = &seen[..] else {
            panic!("{name}: {seen:?}")
        };
        assert_eq!(format!("{policy}@{version}"), own, "{name}");
        assert!(facts.fault.is_some(), "{name}");
        // It is not asked again at once.
        nodes.boots_marked("a", Some(&own));
        assert!(nodes.scene.manager.take_sightings().is_empty(), "{name}");
    }
}

#[test]
fn what_is_held_is_asked_again_only_after_a_pause() {
    let folder = folder("pause", &broken("boot", "on-failure = 'hold'"));
    let nodes = Nodes::begin(&folder, &["default"], Duration::from_secs(3600));
    assert!(matches!(nodes.boots("default"), Boots::Not(_)));
    let version = nodes.boots.version();
    assert_eq!(
        (nodes.boots.version(), nodes.boots.version()),
        (version, version)
    );
}

#[test]
fn the_last_text_outlives_the_process_for_the_same_question_only() {
    let folder = folder("restart", &template("boot", "", "hello", ""));
    {
        let mut nodes = Nodes::begin(&folder, &["default"], Duration::ZERO);
        assert_eq!(nodes.says("default"), "hello default");
        let later = SystemTime::now() + Duration::from_secs(120);
        nodes.scene.watcher.step(later);
        // The folder stays.
        nodes.scene.folder = folder.join("gone");
    }
    std::fs::write(folder.join("longshore.toml"), broken("boot", "")).unwrap();
    {
        let mut nodes = Nodes::begin(&folder, &["default", "new"], Duration::ZERO);
        assert_eq!(nodes.says("default"), "hello default");
        let held = nodes.says("new");
        assert!(held.contains("it never answered this question"), "{held}");
        assert!(nodes.bought("new").is_some() && nodes.bought("default").is_none());
        // The same NodePool with another label is another question.
        nodes.note("default", &json!({"team": "a"}));
        nodes.boots("default");
        assert!(nodes.bought("default").is_some());
        nodes.scene.folder = folder.join("gone");
    }
    let texts = std::fs::read_dir(folder.join("copies")).unwrap();
    let mut texts = texts.map(|entry| entry.unwrap().path());
    let texts = texts.find(|path| path.to_string_lossy().contains("texts-"));
    let texts = texts.expect("a file of last texts");
    let known = std::fs::read(&texts).unwrap();
    std::fs::write(&texts, &known[..known.len() / 2]).unwrap();
    let nodes = Nodes::begin(&folder, &["default"], Duration::ZERO);
    assert!(
        matches!(nodes.boots("default"), Boots::Not(_)),
        "it is damaged"
    );
}

#[test]
fn node_pools_of_one_class_boot_with_the_text_of_their_own_policy() {
    let a = template("one", "nodepools = ['a']", "one", "");
    let b = template("two", "nodepools = ['b']", "two", "");
    let folder = folder("several", &[a.clone(), b].concat());
    let mut nodes = Nodes::begin(&folder, &["a", "b", "c"], Duration::ZERO);
    let says = |nodes: &Nodes| ["a", "b", "c"].map(|pool| nodes.says(pool));
    assert_eq!(says(&nodes), ["one a", "two b", "built-in"]);

    // Nodes of one would keep back more than is counted for the class.
    let mut with = |more: &str| {
        let more = format!("nodepools = ['b']\n{more}");
        let b = template(
            "two",
            &more,
            "two",
            "[policy.settings.overhead]\nmax-pods = 20",
        );
        let config = [a.clone(), b].concat();
        nodes.scene.rename("longshore.toml", config.as_bytes());
        nodes.scene.settle();
        nodes.scene.manager.take();
        says(&nodes)
    };
    let [a, b, c] = with("");
    assert_eq!([&*a, &*c], ["one a", "built-in"]);
    assert!(b.contains("other amounts than are counted with"), "{b}");
    assert!(b.ends_with("no node is launched"), "{b}");
    let [a, b, c] = with("on-failure = 'price'");
    assert_eq!([&*a, &*b, &*c], ["one a", "built-in", "built-in"]);
}

#[test]
fn where_all_nodes_of_a_class_keep_back_the_same_that_is_counted() {
    let more = "[policy.settings.overhead]\nmax-pods = 20";
    let folder = folder("same", &template("boot", "", "hello", more));
    let nodes = Nodes::begin(&folder, &["a", "b"], Duration::ZERO);
    assert_eq!(
        ["a", "b"].map(|pool| nodes.says(pool)),
        ["hello a", "hello b"]
    );
}

#[test]
fn a_dry_run_of_a_class_boots_with_what_its_nodes_do() {
    let folder = folder("dry-run", &template("boot", "", "hello", ""));
    let nodes = Nodes::begin(&folder, &["a"], Duration::ZERO);
    assert_eq!(nodes.says("dry-run"), "hello dry-run");
    let without = Nodes::begin(&folder, &[], Duration::ZERO);
    assert_eq!(without.says("dry-run"), "built-in");
}
