//! Launches of the provider beside Karpenter's: templates, fleets, what is remembered of errors, and
//! what the NodeClaim is told. `ec2/vectors/record_launch.py` has recorded them.

mod desk;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;
use std::sync::Arc;
use std::time::SystemTime;

use longshore_api::crd::NodeClaim;
use longshore_cloud::{CloudProvider as _, Requirement};
use longshore_core::model::MinValuesPolicy;
use longshore_ec2::catalogue::world;
use longshore_ec2::userdata::Cluster;
use serde_json::{Map, Value, json};

use super::*;
use crate::clients::{Access, Clients};
use crate::provider::Settings;
use crate::records::SubnetFacts;
use crate::store::MemoryClasses;
use desk::{Desk, list, place};

const TYPES: &[u8] = include_bytes!("../../../../ec2/data/instance_types.json.gz");
const CASES: &[u8] = include_bytes!("../../../../ec2/vectors/launch.jsonl.gz");

/// What differs on purpose: case (`*` for all, a `*` at its end for a beginning), path, and why.
/// Anything else that differs fails the test, and so does an entry that is not needed. Names of
/// templates are compared by what the templates say.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "*",
        "fleet.ClientToken",
        "the UID of the claim: a request whose answer is lost is sent again and buys nothing twice",
    ),
    (
        "*",
        "templates.ClientToken",
        "a template is made once, also if the answer is lost",
    ),
    (
        "many types, either",
        "templates",
        "Karpenter also makes templates that no override of its fleet names",
    ),
    (
        "*",
        "fleet.TagSpecifications.*.longshore.dev/nodeclaim-uid",
        "by it an instance is found whose launch had no answer",
    ),
    (
        "*",
        "fleet.TagSpecifications.*.karpenter.sh/nodeclaim",
        "Karpenter sets it once the node has joined, with a call of its own",
    ),
    (
        "* of the call",
        "unavailable",
        "a call that is refused whole for want of capacity or for a quota would be refused again: \
         its offerings are left out, and the planner looks elsewhere",
    ),
    (
        "* of the call",
        "error",
        "for the same reason it counts as insufficient capacity",
    ),
    (
        "spread placement group is full",
        "unavailable",
        "the message says that the group is full, whatever the code",
    ),
    (
        "spread placement group is full",
        "error",
        "the message says that the group is full, whatever the code",
    ),
    (
        "partition is short",
        "unavailable",
        "Karpenter asks for the same partition again at once",
    ),
    (
        "partition*",
        "launched.labels.karpenter.k8s.aws/placement-group-partition",
        "which partition an instance is in is known once EC2 describes it",
    ),
    (
        "placement group with partitions*",
        "launched.labels.karpenter.k8s.aws/placement-group-partition",
        "and until then has no label with an empty value",
    ),
    (
        "subnets without addresses, one of two",
        "unavailable",
        "the zone has another subnet with addresses",
    ),
    (
        "a template is gone*",
        "fleets",
        "templates are made again and the launch tried again, three times in all, also where the \
         reply says it of one template",
    ),
    (
        "7 InvalidLaunchTemplateId.NotFound*",
        "fleets",
        "templates are made again and the launch tried again, also where the ID is not found",
    ),
    (
        "a template is gone*",
        "error",
        "named as where the ID is not found",
    ),
    (
        "12 InternalError of the call",
        "fleets",
        "EC2 may have launched all the same: the request is sent again with its token, three times",
    ),
];

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut packed = flate2::read::GzDecoder::new(packed);
    packed.read_to_end(&mut all).unwrap();
    all
}

/// Descriptions of instance types by name.
fn types() -> BTreeMap<String, Value> {
    let all: Value = serde_json::from_slice(&unpacked(TYPES)).unwrap();
    match all {
        Value::Object(all) => all.into_iter().collect(),
        _ => panic!("types by name"),
    }
}

fn flag(case: &Value, set: &str) -> bool {
    list(&case["flags"]).iter().any(|one| one == set)
}

/// The claim as the daemon hands it on.
fn launch_of(claim: &Value) -> Launch {
    let claim: NodeClaim = serde_json::from_value(claim.clone()).unwrap();
    let spec = claim.spec;
    let labels = claim.metadata.labels.unwrap_or_default();
    let all = spec.requirements.iter();
    Launch {
        name: claim.metadata.name.unwrap_or_default(),
        uid: "7d1c5b1e-0000-4000-8000-000000000001".to_owned(),
        nodepool: labels.get(longshore_api::labels::NODEPOOL).cloned(),
        labels,
        annotations: claim.metadata.annotations.unwrap_or_default(),
        min_values: all
            .clone()
            .filter_map(|one| Some((one.key.clone(), one.min_values? as usize)))
            .collect(),
        requirements: all
            .map(|one| Requirement {
                key: one.key.clone(),
                operator: one.operator,
                values: one.values.clone(),
            })
            .collect(),
        requests: spec
            .resources
            .requests
            .iter()
            .map(|(key, amount)| (key.clone(), amount.0.clone()))
            .collect(),
        taints: spec.taints,
        startup_taints: spec.startup_taints,
        class_kind: spec.node_class_ref.kind,
        class_name: spec.node_class_ref.name,
    }
}

/// The class as it stands in the cluster: ready, with a subnet in each zone if the case names none.
fn class_of(case: &Value) -> EC2NodeClass {
    let mut object = case["world"]["nodeClass"].clone();
    let status = &mut object["status"];
    if status["subnets"].is_null() {
        let zones = case["world"]["zones"].as_object().unwrap().iter();
        let subnet = |(zone, id): (&String, &Value)| json!({"id": format!("subnet-{zone}"), "zone": zone, "zoneID": id});
        status["subnets"] = zones.map(subnet).collect();
    }
    status["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    serde_json::from_value(object).unwrap()
}

/// A launch: what was asked for, what can no longer be launched into, and the answer.
struct Done {
    templates: Vec<Value>,
    fleets: Vec<Value>,
    unavailable: BTreeSet<String>,
    answer: Result<Instance, CloudError>,
}

async fn done(case: &Value, types: &BTreeMap<String, Value>) -> Done {
    let name = &case["case"];
    let launch = launch_of(&case["world"]["nodeClaim"]);
    let named = |one: &&Requirement| one.key == longshore_api::labels::INSTANCE_TYPE;
    let named = launch.requirements.iter().find(named).unwrap();
    let named: BTreeMap<&String, &Value> =
        named.values.iter().map(|one| (one, &types[one])).collect();
    let text = case["world"].to_string();
    let own = serde_json::to_vec(&named).unwrap();
    let read = world::read("world", text.as_bytes(), Some(("types", &own)));
    let (world, problems) = read.unwrap_or_else(|problems| panic!("{name}: {problems}"));
    assert!(problems.list.is_empty(), "{name}: {problems}");
    let mut region = world.region;
    region.settings.expressions = flag(case, "NodeClassCEL=true");
    let class = class_of(case);
    let (desk, address) = Desk::open(case).await;
    let access = Access {
        region: Some(region.name().to_owned()),
        endpoint: Some(format!("http://{address}")),
        keys: Some(("key".to_owned(), "secret".to_owned())),
        ..Access::default()
    };
    let classes = Arc::new(MemoryClasses::default());
    classes.put(class.clone());
    let cluster: Cluster = serde_json::from_value(case["world"]["cluster"].clone()).unwrap();
    let settings = Settings {
        cluster,
        reserved_capacity: !flag(case, "ReservedCapacity=false"),
        min_values: match flag(case, "BestEffort") {
            true => MinValuesPolicy::BestEffort,
            false => MinValuesPolicy::Strict,
        },
        ..Settings::default()
    };
    let clients = Arc::new(Clients::new(&access).await.unwrap());
    let clock = Arc::new(SystemTime::now);
    let ec2 = Ec2::over(region, clients, classes, settings, String::new(), clock);
    let free = case["world"]["freeAddresses"]
        .as_object()
        .into_iter()
        .flatten();
    let subnets: Vec<SubnetFacts> = free
        .map(|(id, free)| SubnetFacts {
            id: id.clone(),
            free: free.as_i64().unwrap(),
            ..SubnetFacts::default()
        })
        .collect();
    ec2.state().describe_subnets(&subnets);
    let before = available(&ec2, &class);
    let answer = ec2.create(&launch).await;
    let after = available(&ec2, &class);
    Done {
        templates: desk.asked("CreateLaunchTemplate"),
        fleets: desk.asked("CreateFleet"),
        unavailable: before.difference(&after).cloned().collect(),
        answer,
    }
}

/// Offerings that can be launched into.
fn available(ec2: &Ec2, class: &EC2NodeClass) -> BTreeSet<String> {
    let mut state = ec2.state();
    let catalogue = state.catalogue(class, &ec2.joins()).unwrap();
    let region = &state.region;
    let mut all = BTreeSet::new();
    for (at, facts) in region.types().iter().enumerate() {
        catalogue.offerings(region, at, &mut |one| {
            let free = one.reservation.is_none_or(|(_, free)| free > 0);
            if one.available && free {
                let zone = &region.zones()[one.zone].name;
                let id = one.reservation.map_or("", |(held, _)| &*held.id);
                let partition = match one.partition {
                    0 => String::new(),
                    number => number.to_string(),
                };
                all.insert(format!(
                    "{} {zone} {} {id} {partition}",
                    facts.name, one.capacity_type
                ));
            }
        });
    }
    all
}

/// The same of a recorded offering.
fn offering(of: &Value) -> String {
    let text = |key: &str| of[key].as_str().unwrap_or_default().to_owned();
    format!(
        "{} {} {} {} {}",
        text("instanceType"),
        text("zone"),
        text("capacityType"),
        text("reservation"),
        text("partition")
    )
}

/// A request with leaves as texts, tags by their key, and user data as text.
fn plain(of: &Value, key: &str) -> Value {
    match of {
        Value::Object(all) => {
            let fields = all.iter().map(|(key, of)| (key.clone(), plain(of, key)));
            Value::Object(fields.filter(|(_, of)| *of != "").collect())
        }
        Value::Array(all) => {
            let by = |name: &str, inside: &str| {
                let own = |one: &Value| {
                    let value = plain(&one[inside], inside);
                    let value = if value.is_null() { "".into() } else { value };
                    (one[name].as_str().unwrap().to_owned(), value)
                };
                Value::Object(all.iter().map(own).collect())
            };
            match key {
                "Tags" => by("Key", "Value"),
                "TagSpecifications" => by("ResourceType", "Tags"),
                _ => all.iter().map(|one| plain(one, "")).collect(),
            }
        }
        Value::Bool(flag) => flag.to_string().into(),
        Value::Number(number) if key == "Priority" => number.as_f64().unwrap().into(),
        Value::Number(number) => number.to_string().into(),
        other => other.clone(),
    }
}

/// Templates without their names and tokens, by name.
fn templates(all: &[Value]) -> BTreeMap<String, Value> {
    let mut named = BTreeMap::new();
    for one in all {
        let mut one = plain(one, "");
        let fields = one.as_object_mut().unwrap();
        let name = fields.remove("LaunchTemplateName").unwrap();
        for field in ["Action", "ClientToken", "Version"] {
            fields.remove(field);
        }
        named.insert(name.as_str().unwrap().to_owned(), one);
    }
    named
}

fn with_text(mut template: Value) -> Value {
    use base64::Engine as _;
    let data = template["LaunchTemplateData"].get_mut("UserData");
    if let Some(data) = data
        && let Some(text) = data.as_str()
    {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .unwrap();
        *data = String::from_utf8(bytes).unwrap().into();
    }
    template
}

/// A fleet with its templates by their content, and overrides by type and zone.
fn fleet(of: &Value, named: &BTreeMap<String, Value>, contents: &[Value]) -> Value {
    let mut whole = plain(of, "");
    let fields = whole.as_object_mut().unwrap();
    fields.remove("Action");
    fields.remove("Version");
    let mut configs = Map::new();
    for config in list(&of["LaunchTemplateConfigs"]) {
        let mut own = plain(config, "");
        let template = own["LaunchTemplateSpecification"]
            .as_object_mut()
            .unwrap()
            .remove("LaunchTemplateName")
            .unwrap();
        let content = &named[template.as_str().unwrap()];
        let number = contents.iter().position(|one| one == content);
        let number = number.map_or("ours alone".to_owned(), |number| number.to_string());
        let overrides = list(&config["Overrides"]).iter();
        let mut overrides: Map<String, Value> =
            overrides.map(|one| (place(one), plain(one, ""))).collect();
        // Templates of the same content have the same name, and Karpenter names it for each.
        if let Some(Value::Object(before)) = configs
            .get_mut(&number)
            .map(|one: &mut Value| one["Overrides"].take())
        {
            overrides.extend(before);
        }
        own["Overrides"] = overrides.into();
        configs.insert(number, own);
    }
    fields.insert("LaunchTemplateConfigs".to_owned(), configs.into());
    whole
}

/// Where two trees differ: path, and how.
fn differ(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<(String, String)>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                differ(&format!("{path}.{key}"), &ours[key], &theirs[key], out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differ(&format!("{path}[{at}]"), a, b, out);
            }
        }
        _ if ours != theirs => {
            let how = format!("ours {ours}, Karpenter's {theirs}");
            out.push((path.to_owned(), how));
        }
        _ => {}
    }
}

/// Everything in which a launch differs from the recorded one.
fn differences(case: &Value, done: &Done) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let theirs = templates(list(&case["templates"]));
    let ours = templates(&done.templates);
    let ours: BTreeMap<String, Value> = ours
        .into_iter()
        .map(|(name, one)| (name, with_text(one)))
        .collect();
    let mut contents: Vec<Value> = theirs.values().cloned().collect();
    contents.sort_by_key(Value::to_string);
    let mut own: Vec<Value> = ours.values().cloned().collect();
    own.sort_by_key(Value::to_string);
    differ(
        "templates",
        &Value::Array(own),
        &Value::Array(contents.clone()),
        &mut out,
    );
    let tokens = |all: &[Value]| {
        let own = all.iter().filter(|one| !one["ClientToken"].is_null());
        own.count()
    };
    let (a, b) = (tokens(&done.templates), tokens(list(&case["templates"])));
    differ("templates.ClientToken", &a.into(), &b.into(), &mut out);
    let fleets = list(&case["fleets"]);
    if fleets.len() != done.fleets.len() {
        let counts = format!("ours {}, Karpenter's {}", done.fleets.len(), fleets.len());
        out.push(("fleets".to_owned(), counts));
    }
    for (a, b) in done.fleets.iter().zip(fleets) {
        let (a, b) = (fleet(a, &ours, &contents), fleet(b, &theirs, &contents));
        differ("fleet", &a, &b, &mut out);
    }
    let lost: BTreeSet<String> = list(&case["unavailable"]).iter().map(offering).collect();
    for one in done.unavailable.difference(&lost) {
        out.push(("unavailable".to_owned(), format!("ours alone: {one}")));
    }
    for one in lost.difference(&done.unavailable) {
        out.push((
            "unavailable".to_owned(),
            format!("Karpenter's alone: {one}"),
        ));
    }
    let kind = kind(&done.answer);
    if case["error"] != *kind {
        let text = done.answer.as_ref().err().map(ToString::to_string);
        let how = format!("ours {kind} ({text:?}), Karpenter's {}", case["error"]);
        out.push(("error".to_owned(), how));
    }
    if let Ok(instance) = &done.answer {
        let theirs = &case["launched"];
        let ours = json!({
            "providerID": instance.provider_id, "imageID": instance.image_id,
            "labels": instance.labels,
        });
        differ("launched", &ours, theirs, &mut out);
    }
    out
}

/// The kind of an error as Karpenter's users know it: its message begins with it.
fn kind(answer: &Result<Instance, CloudError>) -> String {
    let Err(error) = answer else {
        return String::new();
    };
    let text = match error {
        CloudError::InsufficientCapacity(_) | CloudError::NodeClassNotReady(_) => {
            return error.reason().to_owned();
        }
        CloudError::Throttled(text)
        | CloudError::Unauthorized(text)
        | CloudError::NotFound(text)
        | CloudError::Invalid(text)
        | CloudError::Other(text) => text,
    };
    let word = text.split(':').next().unwrap_or_default();
    let is_reason = !word.is_empty() && word.chars().all(|one| one.is_ascii_alphanumeric());
    if is_reason { word } else { "LaunchFailed" }.to_owned()
}

/// Whether a pattern that may end with, or have within, one `*` stands for a text.
fn stands_for(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => {
            let rest = text
                .strip_prefix(head)
                .and_then(|rest| rest.strip_suffix(tail));
            rest.is_some()
        }
    }
}

#[tokio::test]
async fn launches_are_karpenters_but_for_what_is_ours_on_purpose() {
    let types = types();
    let text = String::from_utf8(unpacked(CASES)).unwrap();
    let cases: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (mut wrong, mut used, mut compared) = (String::new(), BTreeSet::new(), 0);
    for case in &cases {
        let name = case["case"].as_str().unwrap();
        if case.get("refused").is_some() {
            continue;
        }
        let done = done(case, &types).await;
        compared += usize::from(!done.fleets.is_empty());
        for (path, how) in differences(case, &done) {
            let known =
                |(of, at, _): &(&str, &str, &str)| stands_for(of, name) && stands_for(at, &path);
            match DIFFERENCES.iter().position(known) {
                Some(at) => drop(used.insert(at)),
                None => _ = writeln!(wrong, "{name}: {path}: {how}"),
            }
        }
    }
    for (at, difference) in DIFFERENCES.iter().enumerate() {
        if !used.contains(&at) {
            _ = writeln!(wrong, "no longer differs: {difference:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(compared >= 60, "only {compared} launches");
}
