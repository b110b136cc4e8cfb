//! Small clusters in, readable plans out: every rule of scheduling through the boundary and the
//! planner, each plan checked.

mod checker;
mod commitments;
mod domains;
mod equal_prices;
mod field;
mod hostile;
mod incompatible;
mod labels;
mod left_out;
mod nodes;
mod packing;
mod questions;
mod real;
mod refusals;
#[path = "../common/rng.rs"]
mod rng;
mod stopped;
mod topology;
mod unusable;
mod useless;
mod worlds;

use std::fmt::Write as _;
use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::model::{ClusterObjects, Settings};
use longshore_core::plan::{Effort, Plan, Target};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

/// A NodePool named `default` whose class exists, with more of its spec as `patch`.
pub fn pool(name: &str, requirements: Value, patch: &Value) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut spec =
        json!({"template": {"spec": {"nodeClassRef": class, "requirements": requirements}}});
    merge(&mut spec, patch);
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
}

/// Any NodePool.
pub fn any() -> Value {
    pool("default", json!([]), &json!({}))
}

/// A pending pod with labels `app: <app>` that asks for so much, with more of its spec as `patch`.
pub fn pod(name: &str, app: &str, cpu: &str, memory: &str, patch: &Value) -> Value {
    let requests = json!({"cpu": cpu, "memory": memory});
    let mut spec = json!({"containers": [{"name": "main", "resources": {"requests": requests}}]});
    merge(&mut spec, patch);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": spec,
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    })
}

/// Equal pods, so many, numbered.
pub fn pods(count: usize, app: &str, cpu: &str, memory: &str, patch: &Value) -> Vec<Value> {
    (1..=count)
        .map(|n| pod(&format!("{app}{n}"), app, cpu, memory, patch))
        .collect()
}

/// An existing node that is ready for pods.
pub fn node(name: &str, zone: &str, cpu: &str, memory: &str) -> Value {
    let room = json!({"cpu": cpu, "memory": memory, "pods": "110"});
    let labels = json!({
        "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
    });
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A pod that runs on a node.
pub fn running(name: &str, app: &str, node: &str, patch: &Value) -> Value {
    let mut pod = pod(name, app, "100m", "128Mi", patch);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({"phase": "Running"});
    pod
}

/// Merges objects, deeply; everything else is replaced.
pub fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in b {
                merge(a.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (a, b) => *a = b.clone(),
    }
}

/// Four sizes of two architectures in three zones, spot and on demand: `x1` has 1 core and 4 GiB
/// for 0.05 USD per hour on demand, arm is a tenth cheaper, spot less than half, zone b a little
/// cheaper than a, c a little dearer.
fn instance_types() -> Value {
    let mut types = Vec::new();
    for (arch, factor) in [("amd64", 1.0), ("arm64", 0.9)] {
        for size in [1, 2, 4, 8] {
            let mut offerings = Vec::new();
            for (zone, zonal) in [("a", 1.0), ("b", 0.98), ("c", 1.02)] {
                for (capacity, share) in [("on-demand", 1.0), ("spot", 0.4)] {
                    let price = 0.05 * f64::from(size) * factor * zonal * share;
                    let requirement =
                        |key: &str, v: &str| json!({"key": key, "operator": "In", "values": [v]});
                    offerings.push(json!({
                        "Price": (price * 1e5).round() / 1e5, "Available": true,
                        "Requirements": [
                            requirement("karpenter.sh/capacity-type", capacity),
                            requirement("topology.kubernetes.io/zone", zone),
                        ],
                    }));
                }
            }
            types.push(json!({
                "name": format!("x{size}.{arch}"), "offerings": offerings, "architecture": arch,
                "operatingSystems": ["linux"],
                "resources": {
                    "cpu": size.to_string(), "memory": format!("{}Gi", 4 * size), "pods": "20",
                    "ephemeral-storage": "20Gi",
                },
            }));
        }
    }
    Value::Array(types)
}

/// Reads objects as one list; problems are printed and fail the test.
pub fn world(objects: &[Value], settings: Settings) -> ClusterObjects {
    let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}});
    let items: Vec<&Value> = std::iter::once(&class).chain(objects).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let mut reader = Reader::new();
    reader.read("test", list.as_bytes());
    let (mut world, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let types = instance_types().to_string();
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types", types.as_bytes(), &mut world.names);
    assert!(problems.list.is_empty(), "{problems}");
    (world.catalogue, world.settings) = (catalogue, settings);
    world
}

/// Plans with every effort; the plans of first fit and of the improver place the same pods, and all
/// pass the check.
pub fn plan_with(objects: &[Value], settings: Settings) -> String {
    let snapshot = Snapshot::new(Arc::new(world(objects, settings)));
    let mut texts = Vec::new();
    let mut left = Vec::new();
    let mut costs = Vec::new();
    for effort in [Effort::None, Effort::Normal] {
        let plan = planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed: 1 })
            .unwrap_or_else(|rejected| {
                panic!(
                    "{}\n{:#?}",
                    render(&snapshot, &rejected.plan),
                    rejected.violations
                );
            });
        left.push(plan.unplaced.iter().map(|u| u.pod).collect::<Vec<_>>());
        costs.push(plan.effective_cost);
        texts.push(render(&snapshot, &plan));
    }
    assert_eq!(
        left[0], left[1],
        "the improver places what the floor places"
    );
    assert!(
        costs[1] <= costs[0] + 1e-9,
        "the improver is never dearer: {costs:?}"
    );
    texts.remove(1)
}

/// Plans with the default settings.
pub fn plan(objects: &[Value]) -> String {
    plan_with(objects, Settings::default())
}

/// One line for each claim, node and pod left over.
fn render(snapshot: &Snapshot, plan: &Plan) -> String {
    let world = &snapshot.world;
    let text = |s| world.names.text(s);
    let pods = |pods: &[longshore_core::plan::PodIx]| {
        pods.iter()
            .map(|p| &*world.pods[p.0 as usize].name)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut out = String::new();
    for claim in &plan.claims {
        let offering = world.catalogue.offering(claim.offering);
        let place = [offering.capacity_type, offering.zone]
            .map(|s| s.map_or("?", text))
            .join(" ");
        let pool = text(world.pools[claim.pool.0 as usize].name);
        let name = text(world.catalogue.instance_type(offering.instance_type).name);
        let relaxed = if claim.min_values_relaxed {
            ", minValues relaxed"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "{pool}: {name} {place} {:.4} ({} types{relaxed}): {}",
            claim.price,
            claim.types.len(),
            pods(&claim.pods)
        );
    }
    for e in &plan.on_existing_nodes {
        let _ = writeln!(
            out,
            "{}: {}",
            text(snapshot.nodes[e.node.0 as usize].name),
            pods(&e.pods)
        );
    }
    for u in &plan.unplaced {
        let of = |target: &Target| match target {
            Target::Pod => "pod",
            Target::Pool(pool) => text(world.pools[pool.0 as usize].name),
            Target::Node(node) => text(snapshot.nodes[node.0 as usize].name),
        };
        let why: Vec<String> = u
            .refusals
            .iter()
            .map(|r| format!("{} {}", of(&r.target), unfit(&r.unfit, world)))
            .collect();
        let _ = writeln!(out, "left {}: {}", pods(&[u.pod]), why.join("; "));
    }
    out
}

/// A refusal in one word or two.
fn unfit(unfit: &longshore_core::plan::Unfit, world: &ClusterObjects) -> String {
    use longshore_core::plan::{Barred, Unfit};
    let text = |s| world.names.text(s);
    match unfit {
        Unfit::Taint(taint) => format!("taint {}", text(taint.key)),
        Unfit::Label { key } => format!("label {}", text(*key)),
        Unfit::Topology { rule, key, least } => {
            let least = least.as_ref().map(|least| {
                let why = match &least.barred {
                    Barred::Refused(refusal) => self::unfit(&refusal.unfit, world),
                    other => format!("{other:?}"),
                };
                format!(", least {} with {}: {why}", text(least.domain), least.pods)
            });
            format!("{rule:?} {}{}", text(*key), least.unwrap_or_default())
        }
        Unfit::Types(t) => {
            let incompatible = match t.incompatible_for {
                Some(why) => format!(" incompatible {}: {}", t.incompatible, text(why)),
                None => String::new(),
            };
            let short = if t.short > 0 {
                format!(" short {} until {}", t.short, t.short_until)
            } else {
                String::new()
            };
            let excluded = match t.excluded_by.join(", ") {
                policies if policies.is_empty() => String::new(),
                policies => format!(" excluded {} by {policies}", t.excluded),
            };
            format!(
                "types {}: labels {} resources {:?} offerings {}{excluded}{incompatible}{short}",
                t.all, t.labels, t.resources, t.offerings
            )
        }
        Unfit::LimitReached(reached) => format!(
            "limit {}: {} of {}, wants {}",
            reached.resource.name(&world.names),
            reached.used,
            reached.limit,
            reached.wants
        ),
        Unfit::NodeLimitReached {
            limit: Some((limit, used)),
        } => format!("limit nodes: {used} of {limit}"),
        Unfit::MinValues { key } => format!("minValues {}", text(*key)),
        Unfit::Unusable(why) => format!("{why:?}")
            .split('(')
            .next()
            .unwrap_or_default()
            .to_owned(),
        other => format!("{other:?}"),
    }
}
