//! Bootstrap policies through the host: the first-party ones, and those that mean harm.

#![allow(clippy::unwrap_used, reason = "a test ends where its input is broken")]

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use longshore_ec2::catalogue::{ClassCatalogue, Region, world};
use longshore_ec2::launch::boot;
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::Cluster;
use longshore_live::bootstrap::{Answer, BootPolicy, CatalogueMachines, Request};
use longshore_policy::{Host, HostConfig, Limits, LoadedPolicy};
use longshore_xtask::guests::plugin;
use serde_json::Value;

/// A guest without end is stopped by its fuel, however busy the machine is.
static HOST: LazyLock<Host> = LazyLock::new(|| {
    let limits = Limits {
        time: Duration::from_secs(120),
        ..Limits::default()
    };
    let config = HostConfig {
        limits,
        ..HostConfig::default()
    };
    Host::new(config).unwrap()
});

fn load(name: &str, settings: &str) -> LoadedPolicy {
    HOST.load(&plugin(name), Some(settings)).unwrap()
}

/// The component of [`hostile`].
pub fn hostile_component() -> &'static Path {
    static BUILT: LazyLock<PathBuf> =
        LazyLock::new(|| longshore_xtask::guests::build_hostile_bootstrap().unwrap());
    &BUILT
}

fn hostile(mode: &str) -> LoadedPolicy {
    HOST.load(hostile_component(), Some(&format!("mode = '{mode}'")))
        .unwrap()
}

/// All types of moto's table under a NodeClass.
struct Types {
    region: Region,
    class: ClassCatalogue,
    machines: CatalogueMachines,
}

fn types(family: &str, kubelet: Value, of: impl Fn(&str) -> bool) -> Types {
    let node_class = serde_json::json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {"role": "r", "amiFamily": family, "amiSelectorTerms": [{"id": "ami-1"}],
            "kubelet": kubelet,
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}]},
    });
    types_of(&node_class, of)
}

/// Some instance types of a region under a NodeClass.
pub struct Ec2 {
    pub region: Region,
    pub class: ClassCatalogue,
    pub object: EC2NodeClass,
}

/// The cluster that nodes join.
pub fn cluster() -> Cluster {
    Cluster {
        name: "demo".to_owned(),
        endpoint: "https://demo.eks.example".to_owned(),
        ca_bundle: "Y2EtYnVuZGxl".to_owned(),
        cidr: "10.100.0.0/16".to_owned(),
        kube_dns_ip: "10.100.0.10".to_owned(),
    }
}

fn types_of(node_class: &Value, of: impl Fn(&str) -> bool) -> Types {
    let Ec2 {
        region,
        class,
        object,
    } = ec2(node_class, of);
    let cluster = cluster();
    let labels = [("team".to_owned(), "a".to_owned())].into();
    let boot = boot(&object, &cluster, labels, Vec::new());
    let made = CatalogueMachines::new(&region, &class, &object, "1.35", &boot);
    Types {
        machines: made.unwrap(),
        region,
        class,
    }
}

/// The instance types of these names, in one zone.
pub fn ec2(node_class: &Value, of: impl Fn(&str) -> bool) -> Ec2 {
    let mut types = Vec::new();
    let packed = include_bytes!("../../ec2/data/instance_types.json.gz");
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut types)
        .unwrap();
    let all: Value = serde_json::from_slice(&types).unwrap();
    let all: Vec<&Value> = match &all {
        Value::Object(map) => map.values().collect(),
        other => other.as_array().unwrap().iter().collect(),
    };
    let all: Vec<&Value> = all
        .into_iter()
        .filter(|one| of(one["InstanceType"].as_str().unwrap()))
        .collect();
    let text = serde_json::json!({
        "region": "us-east-1", "zones": {"us-east-1a": "use1-az1"}, "nodeClass": node_class,
        "instanceTypes": all,
    });
    let (world, _) = world::read("world", text.to_string().as_bytes(), None)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let class = ClassCatalogue::new(&world.region, world.class.unwrap()).unwrap();
    Ec2 {
        region: world.region,
        class,
        object: world.object.unwrap(),
    }
}

fn ask(types: &Types, policy: &mut BootPolicy) -> Answer {
    ask_with(types, |request| policy.ask(request))
}

fn ask_with<T>(types: &Types, ask: impl FnOnce(&Request) -> T) -> T {
    let Types {
        region,
        class,
        machines,
    } = types;
    let booted = |at: usize, said: &_| machines.booted(region, class, at, said);
    ask(&machines.request(&booted).unwrap())
}

fn texts(answer: &Answer) -> Vec<&str> {
    let texts = answer
        .of
        .iter()
        .map(|&at| answer.texts[at as usize].as_str());
    texts.collect()
}

#[test]
fn the_standard_policy_is_the_built_in_for_every_type() {
    for family in ["AL2", "AL2023", "Bottlerocket", "Windows2022", "Custom"] {
        let kubelet = serde_json::json!({"systemReserved": {"cpu": "100m", "memory": "200Mi"},
            "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"}});
        let mut types = types(family, kubelet, |_| true);
        let mut policy = BootPolicy::new(load("bootstrap-standard", "")).unwrap();
        let answer = ask(&types, &mut policy);
        assert_eq!(answer.notes, [""; 0]);
        let built_in = ask_with(&types, |request| {
            let machines = request.machines.iter();
            machines
                .map(|m| (m.text.clone(), m.kept))
                .collect::<Vec<_>>()
        });
        assert!(built_in.len() > 1100);
        for (row, (text, kept)) in built_in.iter().enumerate() {
            assert_eq!(texts(&answer)[row], text, "{family} {row}");
            assert_eq!(answer.kept[row], *kept, "{family} {row}");
        }
        assert!(
            answer.texts.len() < 80,
            "{} launch templates",
            answer.texts.len()
        );
        let before: Vec<_> = (0..built_in.len())
            .map(|at| {
                types
                    .class
                    .machine(at)
                    .allocatable()
                    .map(|a| a.map(|a| a.milli))
            })
            .collect();
        let kept: Vec<_> = answer.kept.iter().map(|kept| kept.unwrap()).collect();
        types.class.keep(&kept).unwrap();
        for (at, before) in before.iter().enumerate() {
            let after = types.class.machine(at).allocatable();
            assert_eq!(&after.map(|a| a.map(|a| a.milli)), before, "{family} {at}");
        }
    }
}

/// Each way to fail, and the words of the note.
const MODES: [(&str, &str); 22] = [
    ("too-large", "16385 bytes; EC2 takes at most 16384"),
    ("huge", "user-data: the answer or a message is larger than"),
    ("not-utf8", "not UTF-8 from byte 0 on"),
    ("nul", "has a NUL character"),
    ("broken-mime", "the MIME archive ends inside part 1"),
    ("broken-yaml", "its NodeConfig is not YAML"),
    (
        "no-join",
        "the API server's URL is missing; a node would not join",
    ),
    (
        "elsewhere",
        "the API server's URL is `https://evil.example`; a node would join elsewhere",
    ),
    ("no-cidr", "AL2023 cannot boot without it"),
    (
        "no-taint",
        "the taint karpenter.sh/unregistered:NoExecute is missing",
    ),
    (
        "other-reserved",
        "kube-reserved-cpu is 0.11 in the overheads and 3 in the user data",
    ),
    ("nan", "kube-reserved-cpu of machine 1 is NaN"),
    ("negative", "kube-reserved-memory of machine 1 is -1"),
    ("infinite", "eviction-memory of machine 1 is inf"),
    (
        "beyond-capacity",
        "bytes of memory are kept back of a machine that has",
    ),
    ("other-overhead", "by the node's own agent"),
    (
        "other-pods",
        "max-pods is 30 in the overheads and 29 in the user data",
    ),
    ("overheads-short", "max-pods has 2 rows for 3 machines"),
    ("overheads-error", "overheads: no idea"),
    ("loop", "overheads: ran out of fuel"),
    (
        "other-row",
        "max-pods is 234 in the overheads and 58 in the user data",
    ),
    ("panic", "out of ideas"),
];

fn three() -> Types {
    let names = ["m5.large", "m5.xlarge", "m5.4xlarge"];
    types("AL2023", serde_json::json!({}), |name| {
        names.contains(&name)
    })
}

#[test]
fn a_hostile_policy_is_refused_with_the_reason_and_the_built_in_boots_the_node() {
    let types = three();
    let built_in = ask_with(&types, |request| {
        let machines = request.machines.iter();
        machines.map(|m| m.text.clone()).collect::<Vec<_>>()
    });
    for (mode, words) in MODES {
        let mut policy = BootPolicy::new(hostile(mode)).unwrap();
        let answer = ask(&types, &mut policy);
        let notes = answer.notes.join("\n");
        assert!(
            notes.starts_with("hostile-bootstrap 6.6.6: "),
            "{mode}: {notes}"
        );
        assert!(notes.contains(words), "{mode}: {notes}");
        assert!(
            notes.ends_with("nodes boot with the built-in user data"),
            "{mode}: {notes}"
        );
        assert_eq!(texts(&answer), built_in, "{mode}");
    }
    for (mode, words) in [
        ("row-missing", "2 texts chosen for 3 machines"),
        (
            "row-wild",
            "machine 0 boots with text 4294967295, which is not one of 3",
        ),
    ] {
        let mut policy = BootPolicy::new(hostile(mode)).unwrap();
        let notes = ask(&types, &mut policy).notes.join("\n");
        assert!(notes.contains(words), "{mode}: {notes}");
    }
}

#[test]
fn the_last_good_version_answers_before_the_built_in_does() {
    let types = three();
    let settings = "template = '''#!/bin/sh\necho {{ instance-type }} {{ labels.team }}\n'''";
    let mut policy = BootPolicy::new(load("bootstrap-template", settings)).unwrap();
    let good = ask(&types, &mut policy);
    assert_eq!(good.notes, [""; 0]);
    assert!(
        texts(&good)[2].contains("echo m5.xlarge a"),
        "{}",
        texts(&good)[2]
    );
    policy.replace(hostile("no-join")).unwrap();
    let answer = ask(&types, &mut policy);
    assert_eq!((&answer.texts, &answer.of), (&good.texts, &good.of));
    assert!(answer.notes[1].starts_with("the last good version, bootstrap-template "));
    let mut untried = BootPolicy::new(hostile("no-join")).unwrap();
    untried.replace(hostile("no-taint")).unwrap();
    let notes = ask(&types, &mut untried).notes;
    assert_eq!(
        notes.last().unwrap(),
        "nodes boot with the built-in user data"
    );
}

#[test]
fn a_template_that_keeps_more_back_is_counted_with() {
    let types = three();
    let settings = "template = '#!/bin/sh'\n[overhead]\nmax-pods = 20\nkube-reserved-cpu = 0.5\n\
                    kube-reserved-memory = 1073741824\neviction-memory = 104857600\n";
    let mut policy = BootPolicy::new(load("bootstrap-template", settings)).unwrap();
    let answer = ask(&types, &mut policy);
    assert_eq!(answer.notes, [""; 0]);
    let kept = answer.kept[0].unwrap();
    assert_eq!((kept.max_pods, kept.kube[0]), (20, 0.5));
    // A whole template that does not say so is refused: the node would keep back something else.
    let whole = format!(
        "mode = 'whole'\n{}",
        settings.replace("'#!/bin/sh'", "'{{ built-in }}'")
    );
    let mut policy = BootPolicy::new(load("bootstrap-template", &whole)).unwrap();
    let notes = ask(&types, &mut policy).notes;
    assert!(
        notes[0].contains("max-pods is 20 in the overheads"),
        "{notes:?}"
    );
}

#[test]
fn a_template_knows_the_image_of_each_machine_and_the_version_of_the_cluster() {
    let image = |id: &str, architecture: &str| {
        serde_json::json!({"id": id, "name": format!("image of {architecture}"),
            "requirements": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": [architecture]}]})
    };
    let node_class = serde_json::json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        "status": {"amis": [image("ami-1", "arm64"), image("ami-2", "amd64")]},
    });
    let names = ["m5.large", "m6g.large"];
    let types = types_of(&node_class, |name| names.contains(&name));
    let settings = "template = '''#!/bin/sh\necho {{ image }} on {{ cluster.version }}\n'''";
    let mut policy = BootPolicy::new(load("bootstrap-template", settings)).unwrap();
    let answer = ask(&types, &mut policy);
    assert_eq!(answer.notes, [""; 0]);
    for (text, architecture) in texts(&answer).into_iter().zip(["amd64", "arm64"]) {
        let expected = format!("echo image of {architecture} on 1.35\n");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn the_disks_of_each_machine_are_told_as_far_as_they_are_known() {
    let rendered = |family: &str, mappings: Value| {
        let node_class = serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {"role": "r", "amiFamily": family, "amiSelectorTerms": [{"id": "ami-1"}],
                "blockDeviceMappings": mappings,
                "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        });
        let names = ["m5.large", "m5d.24xlarge"];
        let types = types_of(&node_class, |name| names.contains(&name));
        let mut policy = BootPolicy::new(hostile("tells-disks")).unwrap();
        let notes = ask(&types, &mut policy).notes;
        let said = notes[0].split_once("overheads: ").unwrap().1.to_owned();
        said.split("; ").next().unwrap().to_owned()
    };
    let volume = |name: &str, size: Value| serde_json::json!({"deviceName": name, "ebs": size});
    let sized = |name: &str| volume(name, serde_json::json!({"volumeSize": "100Gi"}));
    let none = serde_json::json!([]);
    for (family, mappings, roots) in [
        ("AL2023", none.clone(), "[21474836480.0, 21474836480.0]"),
        ("Bottlerocket", none.clone(), "[6442450944.0, 6442450944.0]"),
        (
            "Windows2022",
            serde_json::json!([sized("/dev/sda1")]),
            "[107374182400.0, 107374182400.0]",
        ),
        (
            "AL2023",
            serde_json::json!([sized("/dev/xvdb"), sized("/dev/xvda")]),
            "[107374182400.0, 107374182400.0]",
        ),
        // The image says it: its own volume, a snapshot, or which device it is.
        (
            "AL2023",
            serde_json::json!([sized("/dev/xvdb")]),
            "[NaN, NaN]",
        ),
        (
            "AL2023",
            serde_json::json!([volume(
                "/dev/xvda",
                serde_json::json!({"snapshotID": "snap-1"})
            )]),
            "[NaN, NaN]",
        ),
        (
            "Custom",
            serde_json::json!([sized("/dev/xvda")]),
            "[NaN, NaN]",
        ),
    ] {
        let said = rendered(family, mappings.clone());
        assert_eq!(said, format!("{roots} [0, 4]"), "{family}: {mappings}");
    }
}

#[test]
fn a_policy_that_does_not_boot_is_named() {
    let error = BootPolicy::new(load("price", "")).err().unwrap();
    assert_eq!(error, "`price` does not export `bootstrap`");
}

/// `longshore render userdata` with more arguments.
fn render(nodes: &std::path::Path, more: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_longshore"))
        .args(["render", "userdata", "-f"])
        .arg(nodes)
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("longshore-boot-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_standard_policy_renders_every_vector_as_the_built_in_does() {
    let vectors = include_str!("../../ec2/vectors/userdata.jsonl");
    let nodes: Vec<String> = vectors
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["node"].to_string())
        .collect();
    let nodes = file("vectors.yaml", &nodes.join("\n---\n"));
    let standard = plugin("bootstrap-standard");
    let by_policy = ["-o", "json", "--bootstrap", standard.to_str().unwrap()];
    let built_in: Value = serde_json::from_str(&render(&nodes, &["-o", "json"])).unwrap();
    let policy: Value = serde_json::from_str(&render(&nodes, &by_policy)).unwrap();
    let (built_in, policy) = (built_in.as_array().unwrap(), policy.as_array().unwrap());
    assert!(built_in.len() >= 300 && built_in.len() == policy.len());
    for (built_in, policy) in built_in.iter().zip(policy) {
        // Notes would be a key more.
        assert_eq!(built_in, policy);
    }
}

#[test]
fn a_policy_renders_files_and_shows_what_it_changes() {
    let nodes = file(
        "nodes.yaml",
        "name: a\namiFamily: AL2\nresolve: true\nmaxPods: 29\ncluster: {name: demo, endpoint: \
         'https://e', caBundle: Y2E=}\nlabels: {topology.kubernetes.io/zone: us-east-1a}\n",
    );
    let settings = file("t.toml", "template = '''#!/bin/sh\necho {{ zone }}\n'''");
    let template = plugin("bootstrap-template");
    let policy = format!("{},{}", template.display(), settings.display());
    let diff = render(&nodes, &["--bootstrap", &policy, "--diff"]);
    assert!(
        diff.starts_with("==> a <==\n--- built-in\n+++ policy\n"),
        "{diff}"
    );
    assert!(diff.contains("\n+echo us-east-1a\n"), "{diff}");
    let whole = file("w.toml", "mode = 'whole'\ntemplate = '{{ cluster.name }}'");
    let policy = format!("{},{}", template.display(), whole.display());
    let json: Value =
        serde_json::from_str(&render(&nodes, &["--bootstrap", &policy, "-o", "json"])).unwrap();
    let notes = json[0]["notes"].as_array().unwrap();
    assert!(
        notes[0]
            .as_str()
            .unwrap()
            .contains("is neither a MIME archive nor a script")
    );
    assert_eq!(notes[1], "nodes boot with the built-in user data");
    assert!(
        json[0]["userData"]
            .as_str()
            .unwrap()
            .contains("bootstrap.sh 'demo'")
    );
    let standard = plugin("bootstrap-standard");
    let diff = render(
        &nodes,
        &["--bootstrap", standard.to_str().unwrap(), "--diff"],
    );
    assert_eq!(diff, "==> a <==\nas the built-in\n");
}
