//! Plans a small cluster from a seed, with fields exchanged, dropped and altered by the input. No
//! plan may panic or break a rule, at any effort.
#[path = "../../daemon/tests/differential/generate.rs"]
mod generate;

use std::sync::Arc;

use longshore_api::manifests::Reader;
use longshore_core::plan::Effort;
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use longshore_core::{explain, kube_scheduler};
use serde_json::{Value, json};

/// When plans are made: 2026-11-01T00:00:00Z.
const NOW: i64 = 1_793_491_200;

/// See above: three bytes of seed, one of effort, then four for each field that is bent.
pub fn plan(input: &[u8]) {
    let [a, b, c, effort, changes @ ..] = input else {
        return;
    };
    let seed = u64::from(u32::from_le_bytes([*a, *b, *c, 0]));
    let (mut cluster, mut types) = generate::cluster(seed);
    for change in changes.chunks_exact(4).take(24) {
        let list = if change[3] & 0x40 == 0 {
            &mut cluster
        } else {
            &mut types
        };
        bend(
            list,
            u16::from_le_bytes([change[0], change[1]]),
            change[2],
            change[3],
        );
    }
    let mut reader = Reader::new();
    reader.read("cluster.json", cluster.to_string().as_bytes());
    let (mut world, problems) = reader.finish();
    let _ = problems.to_string();
    let (catalogue, _) = longshore_kwok::catalogue::parse(
        "types.json",
        types.to_string().as_bytes(),
        &mut world.names,
    );
    world.catalogue = catalogue;
    world.now = NOW;
    let snapshot = Snapshot::new(Arc::new(world));
    let effort = [Effort::None, Effort::Quick, Effort::Normal][usize::from(effort % 3)];
    match planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed }) {
        Ok(plan) => {
            kube_scheduler::simulate(&snapshot, &plan, seed);
            if let Some(left) = plan.unplaced.first() {
                explain::refusals(&snapshot, &ByPrice, &plan, left.pod, Stop::never());
            }
        }
        Err(rejected) => panic!("{:?}", rejected.violations),
    }
}

/// Changes the leaf that `at` stands for: to nothing, to a value from a list of odd ones, or to
/// that of another leaf.
fn bend(value: &mut Value, at: u16, how: u8, with: u8) {
    let count = leaves(value);
    if count == 0 {
        return;
    }
    let other = leaf(value, usize::from(with) * 7 % count).map(|v| v.clone());
    let Some(leaf) = leaf(value, usize::from(at) % count) else {
        return;
    };
    let odd = [
        json!(null),
        json!(0),
        json!(-1),
        json!(1),
        json!("0"),
        json!("1"),
        json!("-1"),
        json!("100000000000"),
        json!(""),
        json!("zone-a"),
        json!("zone-z"),
        json!("kubernetes.io/hostname"),
        json!("topology.kubernetes.io/zone"),
        json!("Exists"),
        json!("DoesNotExist"),
        json!("NotIn"),
        json!("Gt"),
        json!(2_147_483_647),
        json!(true),
        json!([]),
        json!({}),
        json!("9223372036854775807"),
        json!("0.5"),
        json!("1Ei"),
        json!("default"),
        json!("node-0"),
        json!("p0"),
    ];
    *leaf = match how % 3 {
        0 => odd[usize::from(with) % odd.len()].clone(),
        _ => other.unwrap_or(Value::Null),
    };
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(leaves).sum(),
        Value::Object(fields) => fields.values().map(leaves).sum(),
        _ => 1,
    }
}

fn leaf(value: &mut Value, at: usize) -> Option<&mut Value> {
    let inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => return (at == 0).then_some(value),
    };
    let mut left = at;
    for item in inner {
        let here = leaves(item);
        if left < here {
            return leaf(item, left);
        }
        left -= here;
    }
    None
}
