//! Random NodePools, budgets and NodeOverlays: hashes, verdicts, what budgets allow, the status of
//! overlays, and what they make of instance types, as Karpenter's core has it.
//!
//! `objects.jsonl.gz` has the objects and Karpenter's answers; `record_objects.py` says how they were
//! recorded. Recorded, not made: where one and ours differ, ours is wrong, or `OURS` says why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use longshore_api::crd::NodePool;
use longshore_api::crd::hash::nodepool_hash;
use longshore_api::manifests::{Reader, overlays};
use longshore_core::disrupt::budgets::Budgets;
use longshore_core::disrupt::verdicts::Reason;
use longshore_core::model::{Catalogue, ClusterObjects, Op, ResourceId, Symbols, TypeId};
use longshore_core::overlay;
use serde_json::{Value, json};

/// What is ours on purpose, each with a row in `docs/differences-from-karpenter.md`: a part of what
/// differs. Of requirements that contradict each other (`In` and `DoesNotExist`), Karpenter makes "the label
/// must be absent"; an overlay with them applies to nothing here.
const OURS: [&str; 1] = ["type 216 p1 "];

fn lines() -> Vec<Value> {
    let packed: &[u8] = include_bytes!("objects.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_string(&mut text)
        .expect("it can be unpacked");
    let read = |line| serde_json::from_str(line).expect("it is JSON");
    text.lines().map(read).collect()
}

/// What was compared, and what differs.
#[derive(Default)]
struct Found {
    compared: BTreeMap<&'static str, usize>,
    differences: Vec<String>,
}

impl Found {
    fn equal<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &'static str,
        at: &str,
        [ours, theirs]: [T; 2],
    ) {
        *self.compared.entry(what).or_default() += 1;
        if ours != theirs {
            self.differences.push(format!(
                "{what} {at}: {ours:?}, and {theirs:?} in Karpenter"
            ));
        }
    }
}

#[test]
fn objects_are_read_hashed_and_counted_as_by_karpenter() {
    let lines = lines();
    let types = lines[0]["types"].to_string();
    let mut found = Found::default();
    for (at, world) in lines[1..].iter().enumerate() {
        pools(at, world, &mut found);
        of_overlays(at, world, &types, &mut found);
    }
    let mut report = String::new();
    for one in &found.differences {
        if !OURS.iter().any(|part| one.contains(part)) {
            let _ = writeln!(report, "{one}");
        }
    }
    assert!(
        report.is_empty(),
        "{} of {:?} differ:\n{report}",
        report.lines().count(),
        found.compared
    );
    let least = [
        ("hash", 1_000),
        ("verdict", 1_000),
        ("budget", 8_000),
        ("overlay", 800),
        ("type", 3_000),
    ];
    for (what, least) in least {
        assert!(
            found.compared[what] >= least,
            "{what}: {:?}",
            found.compared
        );
    }
}

/// The objects of a list with some Nodes of each NodePool.
fn read(objects: &[Value], nodes: u64) -> ClusterObjects {
    let mut items = objects.to_vec();
    for pool in objects {
        let pool = pool["metadata"]["name"].as_str().unwrap_or_default();
        items.extend((0..nodes).map(|at| {
            let labels = json!({"karpenter.sh/nodepool": pool, "karpenter.sh/registered": "true",
                "karpenter.sh/initialized": "true"});
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("{pool}-{at}"), "labels": labels},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        }));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let mut reader = Reader::new();
    reader.read("objects", list.to_string().as_bytes());
    reader.finish().0
}

fn pools(at: usize, world: &Value, found: &mut Found) {
    let objects = world["pools"].as_array().expect("NodePools");
    let answers = world["answer"]["pools"].as_array().expect("answers");
    for (object, answer) in objects.iter().zip(answers) {
        let at = format!("{at} {}", answer["name"]);
        let pool: NodePool = serde_json::from_value(object.clone()).expect("a NodePool");
        let hash = nodepool_hash(&pool).unwrap_or_else(|error| error.to_string());
        let theirs = answer["hash"].as_str().unwrap_or_default();
        found.equal("hash", &at, [hash.as_str(), theirs]);
    }
    for nodes in [1, 5, 13] {
        let mut read = read(objects, nodes);
        read.now = world["now"].as_i64().expect("a time");
        let budgets = Budgets::new(&read);
        for answer in answers {
            let name = answer["name"].as_str().unwrap_or_default();
            let at = format!("{at} {name}");
            let of = read.names.get(name);
            let pool = read.pools.iter().find(|pool| Some(pool.name) == of);
            if nodes == 1 {
                let theirs = answer["invalid"].is_null();
                let at = format!("{at} {}", answer["invalid"]);
                found.equal("verdict", &at, [pool.is_some(), theirs]);
            }
            let Some(pool) = pool else { continue };
            for reason in [Reason::Underutilized, Reason::Empty, Reason::Drifted] {
                let theirs = answer["budgets"][nodes.to_string()][reason.name()].as_i64();
                let ours = match budgets.of(pool.name, reason).nodes {
                    u32::MAX => -1,
                    nodes => i64::from(nodes),
                };
                let at = format!("{at} {} of {nodes} nodes", reason.name());
                found.equal("budget", &at, [Some(ours), theirs]);
            }
        }
    }
}

/// An instance type as a NodePool sees it: prices by zone and capacity type, resources that an
/// overlay adds, and memory.
type Seen = (BTreeMap<String, i64>, BTreeMap<String, i64>, i64);

fn of_overlays(at: usize, world: &Value, types: &str, found: &mut Found) {
    let objects = world["pools"].as_array().expect("NodePools");
    let mut read = read(objects, 0);
    let (before, problems) =
        longshore_kwok::catalogue::parse("types", types.as_bytes(), &mut read.names);
    assert!(problems.is_empty(), "{problems}");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": world["overlays"]}).to_string();
    let (mine, problems) = overlays("overlays", list.as_bytes(), &[], &mut read.names);
    let made = overlay::apply(&before, &mine, read.pools.iter(), &mut read.names);
    // A NodePool that cannot be used takes no part here, and does in Karpenter.
    let whole = read.pools.len() == objects.len();
    for answer in world["answer"]["overlays"].as_array().expect("answers") {
        let name = answer["name"].as_str().unwrap_or_default();
        let is = |symbol| read.names.text(symbol) == name;
        let ours = if problems.list.iter().any(|problem| problem.name == name) {
            "RuntimeValidation"
        } else if made.conflicts.iter().any(|symbol| is(*symbol)) {
            "Conflict"
        } else {
            "ValidationSucceeded"
        };
        let theirs = answer["reason"].as_str().unwrap_or_default();
        if whole || theirs == "RuntimeValidation" {
            found.equal("overlay", &format!("{at} {name}"), [ours, theirs]);
        }
    }
    if !whole {
        return;
    }
    for pool in &read.pools {
        let name = read.names.text(pool.name);
        let theirs = world["answer"]["types"][name].as_object().expect("types");
        for (kind, theirs) in theirs {
            let ours = seen(&made.catalogue, &read.names, (name, kind));
            let number = |value: &Value| (value.as_f64().unwrap_or(0.0) * 1e6).round() as i64;
            let prices = theirs["prices"].as_object().expect("prices");
            let prices = prices.iter().map(|(of, price)| (of.clone(), number(price)));
            let amounts = theirs["capacity"].as_object().expect("resources");
            let amounts = amounts.iter().map(|(of, amount)| {
                let amount = amount.as_str().unwrap_or_default();
                let amount = longshore_api::quantity::Quantity::parse(amount);
                (
                    of.clone(),
                    amount.and_then(|amount| amount.whole()).unwrap_or(-1),
                )
            });
            let memory = theirs["memory"].as_i64().unwrap_or(-1);
            let theirs: Seen = (prices.collect(), amounts.collect(), memory);
            found.equal("type", &format!("{at} {name} {kind}"), [ours, Some(theirs)]);
        }
    }
}

fn seen(catalogue: &Catalogue, names: &Symbols, (pool, kind): (&str, &str)) -> Option<Seen> {
    let is_of = |requirement: &longshore_core::model::Requirement| {
        let Op::In(pools) = &requirement.op else {
            return true;
        };
        names.text(requirement.key) != "karpenter.sh/nodepool"
            || pools.iter().any(|one| names.text(*one) == pool)
    };
    let mut rows = catalogue.types().iter().enumerate();
    let (at, row) =
        rows.find(|(_, row)| names.text(row.name) == kind && row.requirements.iter().all(is_of))?;
    let offerings = catalogue.offerings_of(TypeId(at as u32));
    let prices = offerings.iter().map(|offering| {
        let pin = |key: &str| {
            let mut all = offering.requirements.iter();
            let of = all.find(|one| names.text(one.key) == key);
            match of.map(|one| &one.op) {
                Some(Op::In(values)) => names.text(values[0]),
                _ => "",
            }
        };
        let zone = pin("topology.kubernetes.io/zone");
        let name = format!("{zone} {}", pin("karpenter.sh/capacity-type"));
        (name, (offering.price * 1e6).round() as i64)
    });
    let added = row
        .capacity
        .iter()
        .filter(|(of, _)| of.name(names).contains(['/', '-']));
    let added = added.filter(|(of, _)| of.name(names) != "ephemeral-storage");
    let added = added.map(|(of, amount)| (of.name(names).to_owned(), amount));
    Some((
        prices.collect(),
        added.collect(),
        row.allocatable.get(ResourceId::Memory),
    ))
}
