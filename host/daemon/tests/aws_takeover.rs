//! A cluster that Karpenter made is taken over, and handed back.
//!
//! What Karpenter asks EC2 for, the NodeClaims that it makes of the answer and its hashes are
//! recorded from Karpenter's own provider (`data/takeover/record.py`). The test plays its part: it
//! sends those requests to the emulated EC2 and writes objects, conditions, labels, finalizers and
//! tags as Karpenter's controllers do. Then Longshore starts on the cluster.
//!
//! With `LONGSHORE_KARPENTER` naming a program of Karpenter's AWS controller, it makes a cluster
//! itself, and gets it back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longshore_emulator::policies::{self, karpenter::Names};
use longshore_xtask::control_plane::{self, ControlPlane};
use longshore_xtask::emulated_aws::EmulatedAws;
use serde_json::{Value, json};

use super::plane::{
    self, Daemon, Suite, deployment, get, instance_of, objects, running, until, within,
};

pub fn suite() -> Suite {
    let mut all: Vec<plane::Test> = vec![
        (
            "a_cluster_of_karpenter_1_15_is_taken_over_and_handed_back",
            || taken_over(Version::V6),
        ),
        (
            "a_cluster_of_karpenter_1_14_is_taken_over_and_handed_back",
            || taken_over(Version::V5),
        ),
    ];
    // Where there is no such program, the test that needs it is not there either.
    if karpenter().is_some() {
        all.push((
            "karpenter_itself_finds_nothing_to_do_in_what_longshore_gives_back",
            by_karpenter_itself,
        ));
    }
    Suite::new("aws_takeover", Some(1), &all, &[])
}

/// The version of Karpenter's hashes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V5,
    V6,
}

const WORLD: &str = include_str!("../../emulator/data/small.json");
const RECORDED: &str = include_str!("data/takeover/karpenter.json");
/// The certificate of the emulated cluster, as EKS says it.
const BUNDLE: &str = "Y2EtYnVuZGxl";
/// What Karpenter 1.14 would have as hash. Nothing computes it: only equality counts.
const OLD: &str = "7416823894173582954";
const CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
const CLASS_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
const POOL_HASH: &str = "karpenter.sh/nodepool-hash";
const POOL_VERSION: &str = "karpenter.sh/nodepool-hash-version";
const TAGGED: [&str; 2] = [
    "karpenter.k8s.aws/tagged",
    "compatibility.karpenter.k8s.aws/cluster-name-tagged",
];
const FINALIZER: &str = "karpenter.sh/termination";
const PROFILE: &str = "demo_4242";
/// How long nothing may happen.
const CALM: Duration = Duration::from_secs(90);
/// Calls that change what an account has. Dry runs of them change nothing.
const WRITES: [&str; 12] = [
    "CreateFleet",
    "RunInstances",
    "TerminateInstances",
    "CreateTags",
    "DeleteTags",
    "DeleteLaunchTemplate",
    "CreateInstanceProfile",
    "DeleteInstanceProfile",
    "AddRoleToInstanceProfile",
    "RemoveRoleFromInstanceProfile",
    "TagInstanceProfile",
    "RebootInstances",
];

/// The emulated account: Karpenter's images, instances that boot within seconds, and the policies of
/// a minor version of Karpenter for whoever calls. So a call that Karpenter's role does not allow is
/// refused.
fn emulator(plane: &ControlPlane, minor: u32) -> Result<EmulatedAws> {
    let names = Names {
        cluster: "demo",
        region: "us-east-1",
        account: "123456789012",
        node_role: "arn:aws:iam::123456789012:role/node",
        queue: "arn:aws:sqs:us-east-1:123456789012:demo",
    };
    let image = |id: &str, arch: &str, age: &str| {
        json!({
            "id": id, "name": format!("nodes-{arch}-{age}"), "architecture": arch,
            "created": "2026-10-01T00:00:00.000Z", "tags": {"image": age},
        })
    };
    let account = json!({
        "roles": ["node"],
        "policies": [policies::karpenter::policy(minor, names)],
        "images": [
            image("ami-0000000000000aaaa", "x86_64", "old"),
            image("ami-0000000000000bbbb", "arm64", "old"),
            image("ami-0000000000000cccc", "x86_64", "new"),
        ],
        "settings": {
            "startMilliseconds": [500, 1000], "bootMilliseconds": [1000, 2000],
            "stopMilliseconds": [1000, 2000], "lagMilliseconds": [0, 500],
        },
    });
    let world = std::env::temp_dir().join(format!("longshore-takeover-{}.json", unique()));
    let text = WORLD.replacen('{', &format!("{{\"account\": {account},"), 1);
    std::fs::write(&world, text)?;
    let longshore = Path::new(env!("CARGO_BIN_EXE_longshore"));
    let started = EmulatedAws::start(longshore, &world, plane);
    std::fs::remove_file(&world)?;
    started
}

fn unique() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!(
        "{}-{}",
        std::process::id(),
        now.unwrap_or_default().as_nanos()
    )
}

/// A foreign client of the emulated AWS: forms of the query protocol.
fn call(emulator: &EmulatedAws, form: &str) -> Result<String> {
    let host = emulator.url.strip_prefix("http://").context("a URL")?;
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{form}: {answer}");
    Ok(answer)
}

fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let one = |byte: u8| match plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

/// Parameters of a request in the names of EC2's API, as a form has them: lists are counted, and
/// some have another name there.
fn form(path: &str, value: &Value, out: &mut String) {
    let listed = |name: &str| match name {
        "Groups" => "SecurityGroupId".to_owned(),
        "LaunchTemplateConfigs" | "Overrides" => name.to_owned(),
        name => name.trim_end_matches('s').to_owned(),
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if value.is_array() {
                    listed(name)
                } else {
                    name.clone()
                };
                let path = if path.is_empty() {
                    name
                } else {
                    format!("{path}.{name}")
                };
                form(&path, value, out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                form(&format!("{path}.{}", at + 1), item, out);
            }
        }
        Value::Null => {}
        Value::String(text) => *out += &format!("&{path}={}", escaped(text)),
        other => *out += &format!("&{path}={}", escaped(&other.to_string())),
    }
}

fn request(action: &str, parameters: &Value) -> String {
    let mut out = format!("Action={action}&Version=2016-11-15");
    form("", parameters, &mut out);
    out
}

/// The text of the first element of a name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// Karpenter launches: templates, fleet. The provider ID of the instance.
fn launch(emulator: &EmulatedAws, recorded: &Value) -> Result<String> {
    for template in recorded["templates"].as_array().into_iter().flatten() {
        let mut template = template.clone();
        let data = &mut template["LaunchTemplateData"]["UserData"];
        *data = json!(STANDARD.encode(data.as_str().unwrap_or_default()));
        let made = call(emulator, &request("CreateLaunchTemplate", &template));
        // Several launches share one.
        if let Err(why) = made {
            let why = format!("{why:#}");
            ensure!(why.contains("AlreadyExists"), "{why}");
        }
    }
    let labels = &recorded["claim"]["metadata"]["labels"];
    let mut fleet = recorded["fleets"][0].clone();
    // The offering that Karpenter's answer has: the emulator must not choose another.
    let chosen = |one: &Value| {
        one["InstanceType"] == labels["node.kubernetes.io/instance-type"]
            && one["AvailabilityZone"] == labels["topology.kubernetes.io/zone"]
    };
    let configs = fleet["LaunchTemplateConfigs"]
        .as_array_mut()
        .context("configs")?;
    for config in configs.iter_mut() {
        let overrides = config["Overrides"].as_array_mut().context("overrides")?;
        overrides.retain(chosen);
    }
    configs.retain(|config| {
        config["Overrides"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    });
    ensure!(configs.len() == 1, "{fleet}");
    // EC2 sees an instance profile a while after it is made, and its role a while after that.
    let not_yet = [
        "Invalid IAM Instance Profile name",
        "has no associated IAM Roles",
    ];
    let since = Instant::now();
    let answer = loop {
        let answer = call(emulator, &request("CreateFleet", &fleet))?;
        let unseen = not_yet.iter().any(|words| answer.contains(words));
        if !unseen || since.elapsed() > Duration::from_secs(60) {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let ids = element(&answer, "instanceIds").with_context(|| answer.clone())?;
    let id = element(ids, "item").with_context(|| answer.clone())?;
    let zone = labels["topology.kubernetes.io/zone"]
        .as_str()
        .context("a zone")?;
    Ok(format!("aws:///{zone}/{id}"))
}

fn condition(type_: &str, generation: Option<i64>) -> Value {
    let mut one = json!({
        "type": type_, "status": "True", "reason": type_, "message": "",
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    });
    if let Some(generation) = generation {
        one["observedGeneration"] = json!(generation);
    }
    one
}

struct Scene {
    plane: ControlPlane,
    emulator: EmulatedAws,
    recorded: Value,
}

impl Scene {
    fn status(&self, what: &str, status: &Value) -> Result<()> {
        let patch = json!({ "status": status }).to_string();
        let patch = [
            "patch",
            what,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        self.plane.run(&patch).map(drop)
    }

    fn patch(&self, what: &str, patch: &Value) -> Result<()> {
        let patch = patch.to_string();
        self.plane
            .run(&["patch", what, "--type=merge", "-p", &patch])
            .map(drop)
    }

    /// Hash and version of the class as Karpenter of a version has them.
    fn class_hash(&self, version: Version) -> (&str, &str) {
        match version {
            Version::V5 => (OLD, "v5"),
            Version::V6 => {
                let hash = self.recorded["hashes"]["EC2NodeClass"]["hash"].as_str();
                (hash.unwrap_or_default(), "v6")
            }
        }
    }

    fn pool_hash(&self) -> &str {
        let hash = self.recorded["hashes"]["NodePool"]["hash"].as_str();
        hash.unwrap_or_default()
    }

    /// Class and NodePool, with status.
    fn classes(&self, version: Version) -> Result<()> {
        let (hash, version) = self.class_hash(version);
        let mut class = self.recorded["class"].clone();
        let status = class["status"].take();
        class["metadata"]["annotations"] = json!({CLASS_HASH: hash, CLASS_VERSION: version});
        class["metadata"]["finalizers"] = json!(["karpenter.k8s.aws/termination"]);
        let fields = class.as_object_mut().context("an object")?;
        fields.remove("status");
        self.plane.apply(&class.to_string())?;
        let uid = get(&self.plane, "ec2nodeclass/default", "{.metadata.uid}")?;
        self.profile(&uid)?;
        let types = [
            "AMIsReady",
            "SubnetsReady",
            "SecurityGroupsReady",
            "InstanceProfileReady",
            "PlacementGroupReady",
            "CapacityReservationsReady",
            "ValidationSucceeded",
            "Ready",
        ];
        let mut status = status;
        status["conditions"] = json!(types.map(|type_| condition(type_, Some(1))));
        self.status("ec2nodeclass/default", &status)?;

        let mut pool = self.recorded["pool"].clone();
        pool["metadata"]["annotations"] = json!({POOL_HASH: self.pool_hash(), POOL_VERSION: "v3"});
        self.plane.apply(&pool.to_string())?;
        let types = [
            "ValidationSucceeded",
            "NodeClassReady",
            "NodeRegistrationHealthy",
            "Ready",
        ];
        let conditions = types.map(|type_| condition(type_, Some(1)));
        let status = json!({"conditions": conditions, "nodeClassObservedGeneration": 1});
        self.status("nodepool/default", &status)
    }

    /// The instance profile that Karpenter makes for a class.
    fn profile(&self, uid: &str) -> Result<()> {
        let iam = |action: &str, more: &str| {
            let own = format!("Action={action}&Version=2010-05-08&InstanceProfileName={PROFILE}");
            call(&self.emulator, &format!("{own}{more}")).map(drop)
        };
        let tags = [
            ("team", "shop"),
            ("kubernetes.io/cluster/demo", "owned"),
            ("eks:eks-cluster-name", "demo"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            ("topology.kubernetes.io/region", "us-east-1"),
        ];
        let mut more = format!(
            "&Path={}",
            escaped(&format!("/karpenter/us-east-1/demo/{uid}/"))
        );
        for (at, (key, value)) in (1..).zip(tags) {
            let key = escaped(key);
            more += &format!("&Tags.member.{at}.Key={key}&Tags.member.{at}.Value={value}");
        }
        iam("CreateInstanceProfile", &more)?;
        iam("AddRoleToInstanceProfile", "&RoleName=node")
    }

    /// A NodeClaim with its node, as Karpenter leaves them once the node runs. Its name.
    fn node(&self, recorded: &Value, version: Version) -> Result<String> {
        let name = recorded["name"].as_str().context("a name")?;
        let what = format!("nodeclaim/{name}");
        let id = launch(&self.emulator, recorded)?;
        let (asked, made) = (&recorded["asked"], &recorded["claim"]);
        let mut claim = asked.clone();
        let merge = |field: &str| {
            let mut all = made["metadata"][field]
                .as_object()
                .cloned()
                .unwrap_or_default();
            all.extend(
                asked["metadata"][field]
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
            );
            Value::Object(all)
        };
        claim["metadata"]["labels"] = merge("labels");
        claim["metadata"]["annotations"] = merge("annotations");
        let (hash, version) = self.class_hash(version);
        let annotations = &mut claim["metadata"]["annotations"];
        annotations[CLASS_HASH] = json!(hash);
        annotations[CLASS_VERSION] = json!(version);
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
        let pool = get(&self.plane, "nodepool/default", "{.metadata.uid}")?;
        claim["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": pool,
            "blockOwnerDeletion": true,
        }]);
        self.plane.apply(&claim.to_string())?;
        let status = &made["status"];
        let mut status = json!({
            "providerID": id, "imageID": status["imageID"],
            "capacity": status["capacity"], "allocatable": status["allocatable"],
            "conditions": [condition("Launched", Some(1))],
        });
        self.status(&what, &status)?;
        // The kubelet has joined; Karpenter registers its Node.
        let mut node = Value::Null;
        until(&format!("the instance of {name} joins"), || {
            let all = objects(&self.plane, "nodes", &[])?;
            let found = all
                .into_iter()
                .find(|one| one["spec"]["providerID"] == id.as_str());
            node = found.unwrap_or_default();
            Ok(node.is_object())
        })?;
        let node_name = node["metadata"]["name"]
            .as_str()
            .context("a name")?
            .to_owned();
        let taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let known = ["karpenter.sh/unregistered", "example.com/agent"];
        ensure!(
            known
                .iter()
                .all(|key| taints.iter().any(|taint| taint["key"] == *key)),
            "the user data of Karpenter has these taints: {taints:?}"
        );
        let left: Vec<&Value> = taints
            .iter()
            .filter(|taint| !known.iter().any(|key| taint["key"] == *key))
            .collect();
        let uid = get(&self.plane, &what, "{.metadata.uid}")?;
        let mut labels = claim["metadata"]["labels"].clone();
        labels["karpenter.sh/registered"] = json!("true");
        labels["karpenter.sh/initialized"] = json!("true");
        let patch = json!({
            "metadata": {
                "labels": labels, "annotations": claim["metadata"]["annotations"],
                "finalizers": [FINALIZER],
                "ownerReferences": [{
                    "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": uid,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": {"taints": left},
        });
        self.patch(&format!("node/{node_name}"), &patch)?;
        // Then the instance is tagged, and the NodeClaim says that it is.
        let tags = json!({"ResourceId": [instance_of(&id)], "Tags": [
            {"Key": "Name", "Value": node_name},
            {"Key": "karpenter.sh/nodeclaim", "Value": name},
            {"Key": "eks:eks-cluster-name", "Value": "demo"},
        ]});
        call(&self.emulator, &request("CreateTags", &tags))?;
        let annotations = TAGGED.map(|key| (key.to_owned(), json!("true")));
        let annotations: serde_json::Map<_, _> = annotations.into_iter().collect();
        self.patch(&what, &json!({"metadata": {"annotations": annotations}}))?;
        let types = [
            "Launched",
            "Registered",
            "Initialized",
            "ConsistentStateFound",
            "Ready",
        ];
        status["conditions"] = json!(types.map(|type_| condition(type_, Some(1))));
        status["nodeName"] = json!(node_name);
        self.status(&what, &status)?;
        Ok(name.to_owned())
    }

    /// Calls of some actions that changed something, after the first so many of all.
    fn writes(&self, after: usize, actions: &[&str]) -> Result<Vec<String>> {
        let path = format!("/_emulator/calls?after={after}");
        let log = self.emulator.ask("GET", &path, &json!(null))?;
        let calls = log["calls"].as_array().cloned().unwrap_or_default();
        let is_write = |call: &&Value| {
            let action = call["action"].as_str().unwrap_or_default();
            let request = call["request"].as_str().unwrap_or_default();
            actions.contains(&action) && !request.contains("DryRun=true")
        };
        let line = |call: &Value| format!("{} {}", call["action"], call["request"]);
        Ok(calls.iter().filter(is_write).map(line).collect())
    }

    /// That Karpenter's policies allowed each call. Dry runs are calls too.
    fn nothing_is_denied(&self) -> Result<()> {
        let log = self.emulator.ask("GET", "/_emulator/calls", &json!(null))?;
        let calls = log["calls"].as_array().cloned().unwrap_or_default();
        let denied = calls.iter().filter(|call| {
            let code = call["error"].as_str().unwrap_or_default();
            code == "UnauthorizedOperation" || code.starts_with("AccessDenied")
        });
        let denied: Vec<String> = denied
            .map(|call| format!("{} {}", call["action"], call["request"]))
            .collect();
        ensure!(denied.is_empty() && !calls.is_empty(), "{denied:#?}");
        Ok(())
    }

    /// The number of the last call.
    fn calls(&self) -> Result<usize> {
        let log = self.emulator.ask("GET", "/_emulator/calls", &json!(null))?;
        let calls = log["calls"].as_array().and_then(|all| all.last());
        let number = calls.and_then(|call| call["number"].as_u64()).unwrap_or(0);
        Ok(usize::try_from(number)?)
    }

    /// Tags and state of instances, by ID.
    fn instances(&self) -> Result<BTreeMap<String, Value>> {
        let world = self.emulator.ask("GET", "/_emulator/world", &json!(null))?;
        let all = world["instances"].as_array().cloned().unwrap_or_default();
        let one = |one: Value| Some((one["id"].as_str()?.to_owned(), one));
        Ok(all.into_iter().filter_map(one).collect())
    }

    fn claims(&self) -> Result<BTreeMap<String, Value>> {
        by_name(objects(&self.plane, "nodeclaims", &[])?)
    }

    fn nodes(&self) -> Result<BTreeMap<String, Value>> {
        by_name(objects(&self.plane, "nodes", &[])?)
    }

    /// What `longshore migrate check` says of the cluster: exit code and JSON.
    fn migrate_check(&self) -> Result<(i32, Value)> {
        let done = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args([
                "migrate",
                "check",
                "--cluster-ca-bundle",
                BUNDLE,
                "-o",
                "json",
            ])
            .arg("--kubeconfig")
            .arg(self.plane.admin_kubeconfig())
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        let code = done.status.code().unwrap_or(-1);
        let json = serde_json::from_slice(&done.stdout);
        Ok((
            code,
            json.with_context(|| format!("exit code {code}: {said}"))?,
        ))
    }

    fn daemon(&self) -> Result<Daemon> {
        let arguments = [
            "--provider",
            "aws",
            "--cluster-name",
            "demo",
            "--interruption-queue",
            &self.emulator.queue,
        ];
        Daemon::with(
            &self.plane.longshore_kubeconfig(),
            &arguments,
            &self.emulator.environment(),
        )
    }
}

fn by_name(all: Vec<Value>) -> Result<BTreeMap<String, Value>> {
    let one = |one: Value| Some((one["metadata"]["name"].as_str()?.to_owned(), one));
    Ok(all.into_iter().filter_map(one).collect())
}

fn is_true(object: &Value, type_: &str) -> bool {
    let all = object["status"]["conditions"].as_array();
    all.is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == type_ && one["status"] == "True")
    })
}

fn keys(value: &Value) -> BTreeSet<&str> {
    let fields = value.as_object();
    fields
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect()
}

/// That a NodeClaim and its Node are as they should be, and the Node takes pods.
fn sound(claims: &BTreeMap<String, Value>, nodes: &BTreeMap<String, Value>) -> Result<()> {
    for (name, claim) in claims {
        ensure!(
            claim["metadata"]["deletionTimestamp"].is_null(),
            "{name} is deleted: {claim}"
        );
        for type_ in ["Launched", "Registered", "Initialized", "Ready"] {
            ensure!(is_true(claim, type_), "{name} is not {type_}: {claim}");
        }
        for type_ in ["Drifted", "DisruptionReason", "Consolidatable"] {
            ensure!(!is_true(claim, type_), "{name} is {type_}: {claim}");
        }
    }
    for (name, node) in nodes {
        ensure!(
            node["metadata"]["deletionTimestamp"].is_null(),
            "{name} is deleted"
        );
        let taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let ours = |taint: &Value| {
            let key = taint["key"].as_str().unwrap_or_default();
            key.starts_with("karpenter.sh/") || key.starts_with("longshore.dev/")
        };
        ensure!(!taints.iter().any(ours), "{name}: {taints:?}");
    }
    Ok(())
}

fn uids(all: &BTreeMap<String, Value>) -> Vec<&Value> {
    all.values().map(|one| &one["metadata"]["uid"]).collect()
}

fn taken_over(version: Version) -> Result<()> {
    let plane = ControlPlane::start("aws-takeover")?;
    let minor = match version {
        Version::V5 => 14,
        Version::V6 => 15,
    };
    let emulator = emulator(&plane, minor)?;
    let recorded = serde_json::from_str(RECORDED)?;
    let scene = Scene {
        plane,
        emulator,
        recorded,
    };
    scene.classes(version)?;
    let launches = scene.recorded["launches"]
        .as_array()
        .cloned()
        .context("launches")?;
    for recorded in &launches {
        scene.node(recorded, version)?;
    }
    // One more was launched by a Karpenter that did not live to write it down.
    let leaked = launch(&scene.emulator, &launches[0])?;
    // Each node has room for two of these.
    let old = launches.len();
    scene.plane.apply(&deployment("web", 2 * old, ""))?;
    until("pods run on Karpenter's nodes", || {
        Ok(running(&scene.plane)? == 2 * old)
    })?;

    let (code, said) = scene.migrate_check()?;
    let expected = match version {
        Version::V6 => (0, "nothing"),
        Version::V5 => (1, "metadata"),
    };
    ensure!(
        (code, said["verdict"].as_str()) == (expected.0, Some(expected.1)),
        "{said:#}"
    );

    let (claims, nodes) = (scene.claims()?, scene.nodes()?);
    let (instances, calls) = (scene.instances()?, scene.calls()?);
    ensure!(claims.len() == old && nodes.len() == old && instances.len() == old + 1);
    let mut daemon = scene.daemon()?;
    let calm = stays_calm(&scene, &claims, &nodes, &instances, calls, &WRITES);
    let log = daemon.log().unwrap_or_default();
    let last = |log: &str| log.lines().rev().take(40).collect::<Vec<_>>().join("\n");
    calm.with_context(|| format!("the daemon's log, last line first:\n{}", last(&log)))?;
    ensure!(log.contains("became leader"), "{}", last(&log));

    let grown = scales_up(&scene, &claims, 2 * old + 2);
    let log = daemon.log().unwrap_or_default();
    grown.with_context(|| format!("the daemon's log, last line first:\n{}", last(&log)))?;
    leak_ends(&scene, &leaked, &instances)?;
    scene.nothing_is_denied()?;

    daemon.signal("TERM")?;
    within(60, Duration::from_millis(200), "the daemon ends", || {
        Ok(daemon.child.try_wait()?.is_some())
    })?;
    handed_back(&scene, &claims, &instances, &leaked)
}

/// For a while nothing of what Karpenter made is touched.
fn stays_calm(
    scene: &Scene,
    claims: &BTreeMap<String, Value>,
    nodes: &BTreeMap<String, Value>,
    instances: &BTreeMap<String, Value>,
    calls: usize,
    forbidden: &[&str],
) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < CALM {
        std::thread::sleep(Duration::from_secs(3));
        let (now, nodes_now) = (scene.claims()?, scene.nodes()?);
        ensure!(
            uids(&now) == uids(claims),
            "other NodeClaims: {:?}",
            now.keys()
        );
        ensure!(
            uids(&nodes_now) == uids(nodes),
            "other Nodes: {:?}",
            nodes_now.keys()
        );
        sound(&now, &nodes_now)?;
        let writes = scene.writes(calls, forbidden)?;
        ensure!(writes.is_empty(), "{writes:#?}");
    }
    let after = scene.instances()?;
    for (id, before) in instances {
        let after = &after[id];
        ensure!(
            before["tags"] == after["tags"] && before["state"] == after["state"],
            "{after}"
        );
    }
    let world = scene
        .emulator
        .ask("GET", "/_emulator/world", &json!(null))?;
    let profiles = world["instanceProfiles"].as_array().map_or(0, Vec::len);
    ensure!(profiles == 1, "{}", world["instanceProfiles"]);
    Ok(())
}

/// More pods get a node beside the others.
fn scales_up(scene: &Scene, claims: &BTreeMap<String, Value>, pods: usize) -> Result<()> {
    let replicas = format!("--replicas={pods}");
    scene
        .plane
        .run(&["scale", "deployment", "web", &replicas])?;
    until("more pods run", || {
        for (name, node) in scene.nodes()? {
            let registered = node["metadata"]["labels"]["karpenter.sh/registered"] == "true";
            let taints = node["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let starts = taints
                .iter()
                .any(|taint| taint["key"] == "example.com/agent");
            if registered && starts {
                // The agent is ready.
                scene
                    .plane
                    .run(&["taint", "node", &name, "example.com/agent-"])?;
            }
        }
        Ok(running(&scene.plane)? == pods)
    })?;
    until("the new nodes are known and tagged", || {
        let now = scene.claims()?;
        let old = claims.keys().all(|name| now.contains_key(name));
        let tagged = |claim: &Value| {
            TAGGED
                .iter()
                .all(|key| claim["metadata"]["annotations"][*key] == "true")
        };
        let done = now
            .values()
            .all(|claim| tagged(claim) && is_true(claim, "Initialized"));
        Ok(old && now.len() > claims.len() && done)
    })
}

/// The instance that no NodeClaim names is ended, and no other.
fn leak_ends(scene: &Scene, leaked: &str, instances: &BTreeMap<String, Value>) -> Result<()> {
    let id = instance_of(leaked);
    let gone = |state: &Value| state == "shutting-down" || state == "terminated";
    within(
        400,
        Duration::from_secs(3),
        "what Karpenter leaked is ended",
        || {
            let now = scene.instances()?;
            Ok(now.get(id).is_none_or(|one| gone(&one["state"])))
        },
    )?;
    let now = scene.instances()?;
    for other in instances.keys().filter(|other| *other != id) {
        ensure!(
            now.get(other).is_some_and(|one| one["state"] == "running"),
            "{other} is gone"
        );
    }
    Ok(())
}

/// What is left is what Karpenter 1.15 reads.
fn handed_back(
    scene: &Scene,
    before: &BTreeMap<String, Value>,
    instances: &BTreeMap<String, Value>,
    leaked: &str,
) -> Result<()> {
    let holder = plane::holder(&scene.plane)?;
    ensure!(holder.is_empty(), "the Lease is held by {holder}");
    let (claims, nodes) = (scene.claims()?, scene.nodes()?);
    sound(&claims, &nodes)?;
    let now = scene.instances()?;
    let (class_hash, class_version) = scene.class_hash(Version::V6);
    let recorded = scene.recorded["launches"].as_array().context("launches")?;
    // Labels that Karpenter gives every NodeClaim, whatever its instance type.
    let of_karpenter = recorded
        .iter()
        .map(|one| keys(&one["claim"]["metadata"]["labels"]));
    let labels = of_karpenter.reduce(|all, own| all.intersection(&own).copied().collect());
    let labels = labels.context("labels")?;
    ensure!(labels.len() > 15, "{labels:?}");
    for (name, claim) in &claims {
        let metadata = &claim["metadata"];
        let annotations = &metadata["annotations"];
        for (key, value) in [
            (CLASS_HASH, class_hash),
            (CLASS_VERSION, class_version),
            (POOL_HASH, scene.pool_hash()),
            (POOL_VERSION, "v3"),
            (TAGGED[0], "true"),
            (TAGGED[1], "true"),
            ("karpenter.k8s.aws/instance-profile-name", PROFILE),
            ("example.com/owner", "shop"),
        ] {
            ensure!(
                annotations[key] == value,
                "{name}: {key} is {}",
                annotations[key]
            );
        }
        ensure!(metadata["finalizers"] == json!([FINALIZER]), "{metadata}");
        let own = keys(&metadata["labels"]);
        let missing: Vec<_> = labels.difference(&own).collect();
        ensure!(missing.is_empty(), "{name} lacks labels {missing:?}");
        ensure!(
            metadata["labels"]["karpenter.k8s.aws/ec2nodeclass"] == "default"
                && metadata["labels"]["karpenter.sh/nodepool"] == "default",
            "{metadata}"
        );
        let status = &claim["status"];
        for field in ["nodeName", "providerID", "imageID"] {
            ensure!(
                status[field].as_str().is_some_and(|text| !text.is_empty()),
                "{status}"
            );
        }
        for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
            ensure!(status["capacity"][resource].is_string(), "{status}");
            ensure!(status["allocatable"][resource].is_string(), "{status}");
        }
        let id = status["providerID"].as_str().unwrap_or_default();
        let instance = now.get(instance_of(id)).context("its instance")?;
        tags(
            name,
            status,
            &instance["tags"],
            instances.get(instance_of(id)),
        )?;
        let node_name = status["nodeName"].as_str().unwrap_or_default();
        let node = nodes.get(node_name).context("its node")?;
        let node = &node["metadata"];
        ensure!(
            node["finalizers"]
                .as_array()
                .is_some_and(|all| all.contains(&json!(FINALIZER)))
        );
        for label in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
            ensure!(node["labels"][label] == "true", "{node}");
        }
        let owners = node["ownerReferences"].as_array();
        let owned = owners.is_some_and(|all| all.iter().any(|one| one["uid"] == metadata["uid"]));
        ensure!(owned, "{node}");
        // Nothing of what Karpenter wrote is lost.
        if let Some(before) = before.get(name) {
            let lost = |field: &str| {
                let old = before["metadata"][field]
                    .as_object()
                    .cloned()
                    .unwrap_or_default();
                let changed = old.into_iter().filter(|(key, value)| {
                    !key.starts_with(CLASS_HASH) && metadata[field][key] != *value
                });
                changed.map(|(key, _)| key).collect::<Vec<_>>()
            };
            let lost = [lost("labels"), lost("annotations"), lost("ownerReferences")].concat();
            ensure!(
                lost.is_empty() && before["spec"] == claim["spec"],
                "{name}: {lost:?}"
            );
        }
    }
    let class = &objects(&scene.plane, "ec2nodeclasses", &[])?[0];
    ensure!(
        class["metadata"]["annotations"][CLASS_HASH] == class_hash,
        "{class}"
    );
    ensure!(
        class["metadata"]["annotations"][CLASS_VERSION] == class_version,
        "{class}"
    );
    ensure!(class["metadata"]["finalizers"] == json!(["karpenter.k8s.aws/termination"]));
    ensure!(
        class["status"]["instanceProfile"] == PROFILE && is_true(class, "Ready"),
        "{class}"
    );
    let pool = &objects(&scene.plane, "nodepools", &[])?[0];
    ensure!(
        pool["metadata"]["annotations"][POOL_HASH] == scene.pool_hash(),
        "{pool}"
    );
    // Every instance of the cluster has a NodeClaim: none is garbage to Karpenter.
    let owned: BTreeSet<String> = claims
        .values()
        .filter_map(|claim| claim["status"]["providerID"].as_str())
        .map(|id| instance_of(id).to_owned())
        .collect();
    for (id, instance) in &now {
        let lives = instance["state"] == "running" || instance["state"] == "pending";
        if lives && !owned.contains(id) {
            bail!("{id} has no NodeClaim: {instance}; {leaked}");
        }
    }
    let (code, said) = scene.migrate_check()?;
    ensure!(code == 0, "{said:#}");
    Ok(())
}

/// That an instance has the tags that Karpenter looks for. One that was there has those that it had.
fn tags(claim: &str, status: &Value, tags: &Value, before: Option<&Value>) -> Result<()> {
    if let Some(before) = before {
        ensure!(before["tags"] == *tags, "{} was, {tags} is", before["tags"]);
        return Ok(());
    }
    let node = status["nodeName"].as_str().unwrap_or_default();
    let expected = BTreeMap::from([
        ("Name", node),
        ("eks:eks-cluster-name", "demo"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("karpenter.sh/nodeclaim", claim),
        ("karpenter.sh/nodepool", "default"),
        ("kubernetes.io/cluster/demo", "owned"),
        ("team", "shop"),
    ]);
    let own = tags.as_object().context("tags")?;
    let of_karpenter = own
        .iter()
        .filter(|(key, _)| !key.starts_with("longshore.dev/"));
    let of_karpenter: BTreeMap<&str, &str> = of_karpenter
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    ensure!(of_karpenter == expected, "{tags}");
    Ok(())
}

/// The program of Karpenter's AWS controller, if one is named.
fn karpenter() -> Option<String> {
    let named = std::env::var("LONGSHORE_KARPENTER").ok();
    named.filter(|named| !named.is_empty())
}

/// Karpenter's controller; ended when dropped.
struct Karpenter {
    child: Child,
    log: PathBuf,
}

impl Karpenter {
    fn start(scene: &Scene) -> Result<Self> {
        let [metrics, probes, _] = control_plane::free_ports()?;
        let log = std::env::temp_dir().join(format!("longshore-karpenter-{}.log", unique()));
        let child = Command::new(karpenter().context("no Karpenter")?)
            .env("KUBECONFIG", scene.plane.admin_kubeconfig())
            .envs(scene.emulator.environment())
            .env("CLUSTER_NAME", "demo")
            .env("CLUSTER_CA_BUNDLE", BUNDLE)
            .env("INTERRUPTION_QUEUE", &scene.emulator.queue)
            .env("DISABLE_LEADER_ELECTION", "true")
            .env("SYSTEM_NAMESPACE", "kube-system")
            .env("METRICS_PORT", metrics.to_string())
            .env("HEALTH_PROBE_PORT", probes.to_string())
            .stdout(File::create(&log)?)
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Karpenter { child, log })
    }

    /// Adds its last lines to an error.
    fn with_log<T>(&self, result: Result<T>) -> Result<T> {
        result.with_context(|| {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(15).collect();
            format!("Karpenter's log, last line first:\n{}", lines.join("\n"))
        })
    }
}

impl Drop for Karpenter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Karpenter makes a cluster, Longshore has it for a while, and Karpenter gets it back.
fn by_karpenter_itself() -> Result<()> {
    let plane = ControlPlane::start("aws-karpenter")?;
    let emulator = emulator(&plane, 15)?;
    let recorded: Value = serde_json::from_str(RECORDED)?;
    let (mut class, pool) = (recorded["class"].clone(), recorded["pool"].clone());
    class.as_object_mut().context("an object")?.remove("status");
    let scene = Scene {
        plane,
        emulator,
        recorded,
    };
    scene.plane.apply(&class.to_string())?;
    scene.plane.apply(&pool.to_string())?;
    let karpenter = Karpenter::start(&scene)?;
    let ready = "{.status.conditions[?(@.type=='Ready')].status}";
    karpenter.with_log(until("the EC2NodeClass is ready", || {
        Ok(get(&scene.plane, "ec2nodeclass/default", ready)? == "True")
    }))?;
    scene.plane.apply(&deployment("web", 6, ""))?;
    karpenter.with_log(scales_up(&scene, &BTreeMap::new(), 6))?;
    let (claims, nodes) = (scene.claims()?, scene.nodes()?);
    let hash = claims
        .values()
        .next()
        .map(|one| &one["metadata"]["annotations"][CLASS_HASH]);
    let (expected, _) = scene.class_hash(Version::V6);
    ensure!(
        hash.is_some_and(|hash| hash == expected),
        "Karpenter's hash is {hash:?}"
    );
    let (code, said) = scene.migrate_check()?;
    ensure!(code == 0, "{said:#}");
    drop(karpenter);

    let (instances, calls) = (scene.instances()?, scene.calls()?);
    let mut daemon = scene.daemon()?;
    let log = |daemon: &Daemon| {
        let log = daemon.log().unwrap_or_default();
        let lines = log.lines().rev().take(40).collect::<Vec<_>>().join("\n");
        format!("the daemon's log, last line first:\n{lines}")
    };
    let calm = stays_calm(&scene, &claims, &nodes, &instances, calls, &WRITES);
    calm.with_context(|| log(&daemon))?;
    scales_up(&scene, &claims, 12).with_context(|| log(&daemon))?;
    daemon.signal("TERM")?;
    within(60, Duration::from_millis(200), "the daemon ends", || {
        Ok(daemon.child.try_wait()?.is_some())
    })?;

    let (claims, nodes) = (scene.claims()?, scene.nodes()?);
    let (instances, calls) = (scene.instances()?, scene.calls()?);
    let karpenter = Karpenter::start(&scene)?;
    // Karpenter lets go launch templates that it does not use, as Longshore does later.
    let mut forbidden = WRITES.to_vec();
    forbidden.retain(|action| *action != "DeleteLaunchTemplate");
    let calm = stays_calm(&scene, &claims, &nodes, &instances, calls, &forbidden);
    karpenter.with_log(calm)?;
    // It does work: another pod gets a node.
    scene
        .plane
        .run(&["scale", "deployment", "web", "--replicas=20"])?;
    karpenter.with_log(scales_up(&scene, &claims, 20))
}
