//! Memory is back where it was after failures of every kind, and what a guest that means harm costs a
//! round is bounded. Alone in its binary: it measures the whole process.

mod common;

use std::sync::Mutex;

use common::hostile::{HOSTILE, MODES, WORLD, failure, policies};
use longshore_core::policy::Policies as _;
use longshore_policy::{Host, HostConfig, Limits, Terms, WasmPolicies};

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_thousand_failures_leave_no_memory_behind() {
    let _alone = ALONE.lock();
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
    let before = resident("VmRSS");
    ask(1000);
    let grown = resident("VmRSS").saturating_sub(before);
    assert!(grown < 8 << 20, "{} KiB more than before", grown >> 10);
}

/// Guests that answer, at a cost.
const SOUND: [&str; 10] = [
    "slow",
    "hog",
    "flips",
    "free",
    "free-p5",
    "exclude-half",
    "asks-name",
    "log-empty",
    "log-flood",
    "column-spam",
];

#[test]
fn no_guest_costs_a_round_of_25_node_pools_more_than_a_second_and_100_mib() {
    let _alone = ALONE.lock();
    let host = Host::new(HostConfig {
        limits: Limits {
            // Fuel has the verdict, however busy the machine is.
            time: std::time::Duration::from_secs(600),
            ..Limits::default()
        },
        ..HostConfig::default()
    })
    .unwrap();
    let mut names = WORLD.names.clone();
    let pools: Vec<_> = (0..25)
        .map(|number| names.intern(&format!("pool-{number}")))
        .collect();
    let all = MODES.iter().map(|(mode, _)| *mode).chain(SOUND);
    let mut dearest = Vec::new();
    for mode in all {
        let settings = format!("mode = '{mode}'");
        let policy = host.load_on(&Terms::everything(), &HOSTILE, Some(&settings));
        let policies = common::serve(policy.unwrap());
        let (memory, cpu) = (resident("VmRSS"), cpu_seconds());
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        policies.begin_round(1_700_000_000);
        for &pool in &pools {
            let scores = policies.score(&WORLD.catalogue, &names, pool);
            assert_eq!(scores.cost.len(), 600, "{mode}: there is an answer");
        }
        let took = cpu_seconds() - cpu;
        let peak = resident("VmHWM").saturating_sub(memory);
        assert!(took < 1.0, "{mode} took {took:.3} s of CPU");
        assert!(peak < 100 << 20, "{mode} took {} MiB", peak >> 20);
        dearest.push((took, peak, mode));
    }
    dearest.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Each does what it is there for.
    let of = |wanted: &str| dearest.iter().find(|(.., mode)| *mode == wanted).unwrap();
    assert!(of("slow").0 > 0.02, "{dearest:?}");
    assert!(of("hog").1 > 40 << 20, "{dearest:?}");
}

/// Bytes of this process by a line of its status.
fn resident(line: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|of| of.strip_prefix(line));
    let kib = line.unwrap().trim_matches([':', '\t', ' ', 'k', 'B']);
    kib.parse::<usize>().unwrap() << 10
}

/// What this thread has used so far.
fn cpu_seconds() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = times.split_whitespace().next().unwrap();
    nanoseconds.parse::<f64>().unwrap() / 1e9
}
