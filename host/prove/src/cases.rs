//! Questions to scorers: small catalogues with all that is odd and allowed.

use std::collections::BTreeMap;

use longshore_policy::{Case, CasePool, CaseRow};

use crate::ProveOptions;
use crate::random::Random;

/// Name, architecture, cores, GiB, GPUs, generation.
const TYPES: [(&str, &str, f64, f64, i64, &str); 10] = [
    ("m7g.large", "arm64", 2.0, 8.0, 0, "7"),
    ("m7g.4xlarge", "arm64", 16.0, 64.0, 0, "7"),
    ("m6i.xlarge", "amd64", 4.0, 16.0, 0, "6"),
    ("c7i.large", "amd64", 2.0, 4.0, 0, "7"),
    ("c7i.metal-48xl", "amd64", 192.0, 384.0, 0, "7"),
    ("t3.nano", "amd64", 2.0, 0.5, 0, "3"),
    ("r6g.2xlarge", "arm64", 8.0, 64.0, 0, "6"),
    ("g6.xlarge", "amd64", 4.0, 16.0, 1, "6"),
    ("p5.48xlarge", "amd64", 192.0, 2048.0, 8, "5"),
    ("rack-7", "", 0.0, 0.0, 0, ""),
];
const ZONES: [&str; 5] = [
    "us-east-1a",
    "us-east-1b",
    "eu-west-1c",
    "us-west-2-lax-1a",
    "",
];
const CAPACITY_TYPES: [&str; 7] = [
    "on-demand",
    "on-demand",
    "spot",
    "spot",
    "spot",
    "reserved",
    "",
];
const PRICES: [f64; 8] = [0.0, 0.000001, 0.0058, 0.0816, 0.192, 1.0, 13.3504, 98.32];
const LEVELS: [f64; 6] = [0.0, 0.02, 1.0, 4.5, 25.0, 420.5];

/// Question `number` of a seed.
pub fn case(options: &ProveOptions, number: u64) -> Case {
    let random = &mut Random::new(options.seed, number);
    let count = match random.below(20) {
        0 => 0,
        1 => 6 + random.below(15),
        _ => 1 + random.below(5),
    };
    let mut offerings: Vec<CaseRow> = Vec::with_capacity(count);
    for _ in 0..count {
        let row = row(random);
        let is_new = |other: &CaseRow| {
            let of = |row: &CaseRow| (row.zone.clone(), row.capacity_type.clone());
            other.instance_type != row.instance_type || of(other) != of(&row)
        };
        if offerings.iter().all(is_new) {
            offerings.push(row);
        }
    }
    // Something is left of what the policies before leave, or there is no question.
    if let Some(first) = offerings.first_mut()
        && first.cost_before == Some(f64::INFINITY)
    {
        first.cost_before = None;
    }
    let signals = options.signals.iter();
    let signals = signals.map(|name| (name.clone(), table(random, &offerings)));
    let signals = signals.collect();
    Case {
        now: 1_700_000_000.0 + random.below(10_000_000) as f64,
        settings: options.settings.clone(),
        node_pool: pool(random),
        signals,
        offerings,
        ..Case::default()
    }
}

fn row(random: &mut Random) -> CaseRow {
    let (name, architecture, cpu, memory_gib, gpus, generation) = random.pick(&TYPES);
    let price = match random.below(3) {
        0 => random.pick(&PRICES),
        1 => (random.share() * 40e6).round() / 1e6,
        _ => (random.share() * 1e6).round() / 1e6,
    };
    let before = match random.below(8) {
        0 => Some(f64::INFINITY),
        1 => Some(price * random.share()),
        2 => Some(price * (1.0 + random.share())),
        3 if random.once_in(4) => Some(0.0),
        _ => None,
    };
    let capacity_type = random.pick(&CAPACITY_TYPES);
    let is_reserved = capacity_type == "reserved";
    let pairs = |key: &str, value: &str| -> BTreeMap<String, String> {
        let of = (!value.is_empty()).then(|| (key.to_owned(), value.to_owned()));
        of.into_iter().collect()
    };
    let gpus = (gpus > 0).then(|| ("nvidia.com/gpu".to_owned(), gpus));
    CaseRow {
        instance_type: name.to_owned(),
        zone: random.pick(&ZONES).to_owned(),
        capacity_type: capacity_type.to_owned(),
        architecture: architecture.to_owned(),
        cpu,
        memory_gib,
        resources: gpus.into_iter().collect(),
        labels: pairs("karpenter.k8s.aws/instance-generation", generation),
        price,
        cost_before: before,
        available: !random.once_in(10),
        reservation: if is_reserved {
            "cr-1".to_owned()
        } else {
            String::new()
        },
        reservation_count: if is_reserved {
            random.below(9) as u32
        } else {
            0
        },
    }
}

/// Numbers for some of the offerings.
fn table(random: &mut Random, offerings: &[CaseRow]) -> BTreeMap<String, f64> {
    let mut table = BTreeMap::new();
    for row in offerings {
        let key = match random.below(5) {
            0 => row.zone.clone(),
            1 => row.instance_type.clone(),
            2 => format!("{}/{}", row.instance_type, row.zone),
            3 => format!("{}/{}/{}", row.instance_type, row.zone, row.capacity_type),
            _ => continue,
        };
        table.insert(key, random.pick(&LEVELS));
    }
    if random.once_in(4) {
        table.insert("us-east-1".to_owned(), random.pick(&LEVELS));
    }
    table
}

fn pool(random: &mut Random) -> CasePool {
    let mut pool = CasePool {
        name: random.pick(&["default", "batch", "ml"]).to_owned(),
        ..CasePool::default()
    };
    if random.once_in(3) {
        let team = random.pick(&["ml", "web"]);
        pool.labels.insert("team".to_owned(), team.to_owned());
        pool.weight = random.below(100) as u32;
    }
    pool
}
