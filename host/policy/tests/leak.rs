//! Memory is back where it was after failures of every kind. Alone in its binary: it measures the
//! whole process.

mod common;

use common::hostile::{MODES, failure, policies};
use longshore_policy::{Host, HostConfig, Limits, WasmPolicies};

#[test]
fn a_thousand_failures_leave_no_memory_behind() {
    // Tight, so that a failure is quick; what is left behind would be left behind at any limit.
    let limits = Limits {
        fuel: 5_000_000,
        fuel_per_offering: 0,
        memory: 16 << 20,
        ..Limits::default()
    };
    let host = Host::new(HostConfig {
        limits,
        ..HostConfig::default()
    })
    .unwrap();
    let failing: Vec<WasmPolicies> = MODES
        .iter()
        .map(|(mode, _)| policies(&host, mode))
        .collect();
    let ask = |times: usize| {
        for at in 0..times {
            let policies = &failing[at % failing.len()];
            policies.begin_round(0);
            failure(policies);
        }
    };
    ask(100);
    let before = resident();
    ask(1000);
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{} KiB more than before", grown >> 10);
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<usize>()
        .unwrap()
        * 4096
}
