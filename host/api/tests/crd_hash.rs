//! The drift hash is Karpenter's, number by number.

use std::collections::{BTreeMap, BTreeSet};

use longshore_api::crd::{NodePool, NodePoolSpec, hash::nodepool_hash};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    what: String,
    hash: String,
    spec: NodePoolSpec,
}

fn recorded() -> Vec<Recorded> {
    serde_norway::from_str(include_str!("crd/hashes.yaml")).expect("the record can be read")
}

fn hash(spec: NodePoolSpec) -> Result<String, String> {
    nodepool_hash(&NodePool::new("pool", spec)).map_err(|error| error.to_string())
}

#[test]
fn a_pool_has_the_hash_that_karpenter_gives_it() {
    let all = recorded();
    assert!(all.len() >= 50);
    let wrong =
        |one: &Recorded| (hash(one.spec.clone()) != Ok(one.hash.clone())).then(|| one.what.clone());
    assert_eq!(
        all.iter().filter_map(wrong).collect::<Vec<_>>(),
        Vec::<String>::new()
    );
}

#[test]
fn the_record_varies_every_field_of_the_template() {
    fn leaves(path: &str, value: &serde_json::Value, out: &mut BTreeMap<String, BTreeSet<String>>) {
        let path = path.to_owned();
        match value {
            serde_json::Value::Object(fields)
                if !path.ends_with("labels") && !path.ends_with("annotations") =>
            {
                fields
                    .iter()
                    .for_each(|(key, value)| leaves(&format!("{path}.{key}"), value, out));
            }
            serde_json::Value::Array(items) => items
                .iter()
                .for_each(|item| leaves(&format!("{path}[]"), item, out)),
            other => drop(out.entry(path).or_default().insert(other.to_string())),
        }
    }
    let mut varied = BTreeMap::new();
    for one in recorded() {
        leaves(
            "template",
            &serde_json::to_value(one.spec.template).expect("it is JSON"),
            &mut varied,
        );
    }
    let taint = |list: &str| {
        ["key", "value", "effect"].map(|field| format!("template.spec.{list}[].{field}"))
    };
    let plain = [
        "template.metadata.labels",
        "template.metadata.annotations",
        "template.spec.nodeClassRef.group",
        "template.spec.nodeClassRef.kind",
        "template.spec.nodeClassRef.name",
        "template.spec.expireAfter",
        "template.spec.terminationGracePeriod",
        "template.spec.taints[].timeAdded",
    ];
    let fields = plain
        .map(str::to_owned)
        .into_iter()
        .chain(taint("taints"))
        .chain(taint("startupTaints"));
    for field in fields {
        assert!(
            varied.get(&field).is_some_and(|values| values.len() > 1),
            "{field} never varies"
        );
    }
}

#[test]
fn a_duration_beyond_measure_has_no_hash() {
    let mut spec = NodePoolSpec::default();
    spec.template.spec.expire_after = "9999999999h".to_owned();
    assert_eq!(
        hash(spec).expect_err("it is too long"),
        "\"9999999999h\" is not a duration of hours, minutes and seconds up to 292 years, such as 720h or 1h30m"
    );
}
