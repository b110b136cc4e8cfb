//! Instance types under NodeClasses, compared with what Karpenter's AWS provider answers:
//! `vectors/record_types.py` recorded it, for every type of moto's table and every variant.

#![allow(
    clippy::unwrap_used,
    reason = "a test ends where its vectors are broken"
)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::sync::LazyLock;

use longshore_ec2::catalogue::{ClassCatalogue, answer, machine::Settings, world};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const TYPES: &[u8] = include_bytes!("../data/instance_types.json.gz");
const VARIANTS: &str = include_str!("../vectors/types-variants.jsonl");
const SAMPLES: &str = include_str!("../vectors/types-samples.jsonl");
const DIGESTS: &str = include_str!("../vectors/types-digests.tsv");

/// What Longshore answers differently on purpose: variant (or `*`), type (or `*`), and why. A
/// difference that is not listed fails the test, and so does an entry that no longer differs.
const EXCEPTIONS: [(&str, &str, &str); 4] = [
    ("*", "i7ie.48xlarge", NODEADM),
    ("*", "i7ie.metal-48xl", NODEADM),
    ("*", "i8ge.48xlarge", NODEADM),
    ("*", "i8ge.metal-48xl", NODEADM),
];
const NODEADM: &str = "nodeadm reserves memory by its own number of interfaces";

fn unpacked() -> Vec<u8> {
    let mut all = Vec::new();
    flate2::read::GzDecoder::new(TYPES)
        .read_to_end(&mut all)
        .unwrap();
    all
}

/// Name of each variant and its answers, by type.
static ANSWERS: LazyLock<Vec<(String, Vec<Value>)>> = LazyLock::new(|| answers(&unpacked()));

fn answers(types: &[u8]) -> Vec<(String, Vec<Value>)> {
    let variants = VARIANTS
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    variants
        .map(|variant| {
            let name = variant["variant"].as_str().unwrap().to_owned();
            let text = variant["world"].to_string();
            let read = world::read(&name, text.as_bytes(), Some(("types", types)));
            let (world, problems) = read.unwrap_or_else(|problems| panic!("{problems}"));
            assert!(problems.list.is_empty(), "{problems}");
            let mut region = world.region;
            region.settings = settings(&variant["flags"]);
            let class = world.class.unwrap();
            let class = ClassCatalogue::new(&region, class).unwrap();
            let all = answer::types(&region, &class, true)
                .map(|answer| normal(serde_json::to_value(answer).unwrap()))
                .collect();
            (name, all)
        })
        .collect()
}

fn settings(flags: &Value) -> Settings {
    let flags: Vec<&str> = flags
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let after = |flag: &str| {
        let at = flags.iter().position(|f| *f == flag)?;
        flags.get(at + 1).copied()
    };
    let defaults = Settings::default();
    Settings {
        vm_memory_overhead: after("--vm-memory-overhead-percent")
            .map_or(defaults.vm_memory_overhead, |text| text.parse().unwrap()),
        reserved_enis: after("--reserved-enis")
            .map_or(defaults.reserved_enis, |text| text.parse().unwrap()),
        ..defaults
    }
}

/// Prices in whole trillionths of a dollar, as the recorder writes them.
fn normal(mut answer: Value) -> Value {
    let Some(offerings) = answer.get_mut("offerings").and_then(Value::as_array_mut) else {
        return answer;
    };
    for offering in offerings {
        let price = offering.get("price").and_then(Value::as_f64).unwrap_or(0.0);
        offering["price"] = ((price * 1e12).round_ties_even() as i64).into();
    }
    answer
}

/// JSON with sorted keys and without spaces.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            for (at, (key, value)) in keys.into_iter().enumerate() {
                let _ = write!(
                    out,
                    "{}{}:",
                    if at == 0 { '{' } else { ',' },
                    Value::from(&**key)
                );
                canonical(value, out);
            }
            out.push_str(if map.is_empty() { "{}" } else { "}" });
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                canonical(value, out);
            }
            out.push_str(if list.is_empty() { "[]" } else { "]" });
        }
        plain => _ = write!(out, "{plain}"),
    }
}

fn text(value: &Value) -> String {
    let mut out = String::new();
    canonical(value, &mut out);
    out
}

#[test]
fn every_type_in_every_variant_is_what_karpenter_answers() {
    let all = &*ANSWERS;
    let mut head = DIGESTS.lines().next().unwrap().rsplit(": ");
    let recorded: Vec<&str> = head.next().unwrap().split(' ').collect();
    let ours: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        recorded, ours,
        "record the vectors again: a variant was added"
    );
    let rows: Vec<&str> = DIGESTS.lines().skip(1).collect();
    assert!(rows.len() > 1100 && ours.len() >= 12);
    let mut wrong = Vec::new();
    for (variant, (name, answers)) in all.iter().enumerate() {
        assert_eq!(rows.len(), answers.len());
        for (row, answer) in rows.iter().zip(answers) {
            let (of, digests) = row.split_once('\t').unwrap();
            assert_eq!(answer["name"], of);
            let hash = Sha256::digest(text(answer).as_bytes());
            let ours = format!("{:02x}{:02x}", hash[0], hash[1]);
            if digests[variant * 4..variant * 4 + 4] != ours {
                wrong.push((name.as_str(), of));
            }
        }
    }
    let excepted = |(variant, of): &(&str, &str)| {
        EXCEPTIONS
            .iter()
            .any(|(v, t, _)| (*v == "*" || v == variant) && (*t == "*" || t == of))
    };
    let unexpected: Vec<_> = wrong.iter().filter(|one| !excepted(one)).collect();
    assert!(
        unexpected.is_empty(),
        "{} answers differ, such as {:?}; vectors/record_types.py --longshore says how",
        unexpected.len(),
        &unexpected[..unexpected.len().min(10)]
    );
    for (variant, of, why) in EXCEPTIONS {
        let used = wrong
            .iter()
            .any(|(v, t)| (variant == "*" || variant == *v) && (of == "*" || of == *t));
        assert!(
            used,
            "the exception {variant} {of} ({why}) no longer differs"
        );
    }
}

#[test]
fn memory_is_reserved_as_nodeadm_does_by_its_own_table_and_the_users_expression() {
    let types = unpacked();
    let kept = |user_data: Option<&str>, name: &str| {
        let object = serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "userData": user_data,
                "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        });
        let text = serde_json::json!({"region": "us-east-1", "zones": {"us-east-1a": "use1-az1"},
            "nodeClass": object});
        let read = world::read(
            "world",
            text.to_string().as_bytes(),
            Some(("types", &types)),
        );
        let (world, _) = read.unwrap_or_else(|problems| panic!("{problems}"));
        let class = ClassCatalogue::new(&world.region, world.class.unwrap()).unwrap();
        let types = world.region.types();
        let at = types.iter().position(|facts| &*facts.name == name).unwrap();
        let machine = class.machine(at);
        let memory = machine.kube_reserved.memory.unwrap().units() >> 20;
        (memory, machine.pods(), machine.evict_storage.units())
    };
    // MiB as on the node.
    for (name, memory) in [
        ("m5.large", 574),
        ("i7ie.48xlarge", 8362),
        ("i7ie.metal-48xl", 8362),
        ("i8ge.48xlarge", 13_213),
        ("i8ge.metal-48xl", 13_213),
    ] {
        assert_eq!(kept(None, name).0, memory, "{name}");
    }
    let config = |kubelet: &str| {
        format!(
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n{kubelet}\n"
        )
    };
    let of = |kubelet: &str| kept(Some(&config(kubelet)), "m5.large");
    let expression = "    maxPodsExpression: ((default_enis - 1) * (ips_per_eni - 1) * 16) + 2";
    let storage = kept(None, "m5.large").2;
    assert_eq!(of(expression), (3445, 29, storage));
    assert_eq!(
        of("    maxPodsExpression: max_pods - 29"),
        (574, 29, storage)
    );
    assert_eq!(of("    flags: [--max-pods=110]"), (574, 110, storage));
    assert_eq!(
        of("    flags: [--kube-reserved=memory=2Gi]"),
        (2048, 29, storage)
    );
    assert_eq!(
        of("    config: {kubeReserved: {memory: 1Gi}}"),
        (1024, 29, storage)
    );
    assert_eq!(of("    config: {evictionHard: null}"), (574, 29, 0));
}

#[test]
fn samples_are_equal_key_by_key() {
    let all = &*ANSWERS;
    let mut first: HashMap<String, Value> = HashMap::new();
    let mut compared = 0;
    for line in SAMPLES.lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        let of = sample["type"].as_str().unwrap();
        // The first variant has whole answers, the others what differs from it.
        let mut theirs = first.get(of).cloned().unwrap_or_default();
        merge(&mut theirs, &sample["answer"]);
        first.entry(of.to_owned()).or_insert_with(|| theirs.clone());
        let (_, answers) = all
            .iter()
            .find(|(name, _)| *name == sample["variant"])
            .unwrap();
        let ours = answers.iter().find(|ours| ours["name"] == of).unwrap();
        assert_eq!(text(ours), text(&theirs), "{} {of}", sample["variant"]);
        compared += 1;
    }
    assert!(compared > 100);
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        return *value = patch.clone();
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    let Value::Object(map) = value else { return };
    for (key, change) in patch {
        match change {
            Value::Null => drop(map.remove(key)),
            _ => merge(map.entry(key.clone()).or_insert(Value::Null), change),
        }
    }
}
