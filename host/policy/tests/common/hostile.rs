//! The guest that misbehaves on demand, and what the host must say of it.

use std::path::PathBuf;
use std::sync::LazyLock;

use longshore_core::policy::{ByPrice, Policies};
use longshore_policy::{Assignment, Host, LoadedPolicy, Report, WasmPolicies};

use super::{World, world};

pub static HOSTILE: LazyLock<PathBuf> =
    LazyLock::new(|| longshore_xtask::guests::build_hostile().unwrap());
pub static WORLD: LazyLock<World> = LazyLock::new(|| world(600));

pub fn hostile(host: &Host, mode: &str) -> LoadedPolicy {
    host.load(&HOSTILE, Some(&format!("mode = '{mode}'")))
        .unwrap()
}

pub fn policies(host: &Host, mode: &str) -> WasmPolicies {
    host.policies(vec![Assignment {
        policy: hostile(host, mode),
        node_pools: vec![],
    }])
}

/// Asks a policy that must fail; what was reported.
pub fn failure(policies: &WasmPolicies) -> String {
    let scores = policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    assert_eq!(
        scores,
        ByPrice.score(&WORLD.catalogue, &WORLD.names, WORLD.pool),
        "the price answers instead"
    );
    let errors: Vec<String> = policies
        .reports()
        .into_iter()
        .filter_map(|report| match report {
            Report::Failed { error, .. } => Some(error.to_string()),
            Report::Said { .. } | Report::Raised { .. } => None,
        })
        .collect();
    assert_eq!(errors.len(), 1, "one failure, one report: {errors:?}");
    errors.into_iter().next().unwrap()
}

/// Every way to fail in a call, and the words that the report must have.
pub const MODES: [(&str, &str); 26] = [
    (
        "loop",
        "score: ran out of fuel after 224000000 units; an endless loop?",
    ),
    ("memory", "score: wants more than 67108864 bytes of memory"),
    ("panic", "out of ideas"),
    (
        "unreachable",
        "score: wasm trap: wasm `unreachable` instruction executed",
    ),
    ("recursion", "score: "),
    (
        "nan",
        "score: the cost of offering 3 is NaN; expected 0 to 1000000, or infinity",
    ),
    (
        "negative",
        "score: the cost of offering 4 is -1; expected 0 to 1000000, or infinity",
    ),
    (
        "minus-infinity",
        "score: the cost of offering 5 is -inf; expected 0 to 1000000, or infinity",
    ),
    (
        "dear",
        "score: the cost of offering 6 is 1e300; expected 0 to 1000000, or infinity",
    ),
    (
        "pool-dust",
        "pools: pool `pool`: offering 1 takes 5e-324; expected 0.000001 to 1000000000",
    ),
    (
        "pool-dear",
        "pools: pool `pool`: offering 1 costs 1e308 inside; expected 0 to 1000000",
    ),
    (
        "pool-endless",
        "pools: pool `pool`: 1e300 is left; expected 0 to 1000000000000",
    ),
    ("short", "score: 599 costs for 600 offerings"),
    ("long", "score: 601 costs for 600 offerings"),
    (
        "huge",
        "score: the answer or a message is larger than 1086976 bytes",
    ),
    ("excluded", "score: every offering is excluded"),
    ("error", "score: no"),
    (
        "long-error",
        "score: the answer or a message is larger than 1086976 bytes",
    ),
    ("not-utf8", "score: invalid utf-8"),
    (
        "log-spam",
        "score: called host functions more than 10000 times",
    ),
    (
        "long-log",
        "score: the answer or a message is larger than 1086976 bytes",
    ),
    (
        "pool-row",
        "pools: pool `pool`: offering 4294967295 is not one of 600",
    ),
    (
        "pool-twice",
        "pools: pool `pool`: offering 1 draws on it twice",
    ),
    ("pool-names", "pools: pool `pool`: declared twice"),
    (
        "pool-columns",
        "pools: pool `pool`: columns of different lengths: (1, 0, 0)",
    ),
    (
        "pool-nan",
        "pools: pool `pool`: NaN is left; expected 0 to 1000000000000",
    ),
];
