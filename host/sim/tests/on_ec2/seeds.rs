//! Generated hours on EC2, with faults of AWS.

use std::sync::Mutex;

use longshore_sim::harness::generated::{ScenarioKind, types};
use longshore_sim::harness::run::run_scenario;
use longshore_sim::harness::{SEEDS_TYPES, reloader};

/// Nodes at the busiest, about.
const SMALL: u32 = 12;

/// Seeds that have found a fault once: a launch that was refused whole and then bought twice, a
/// NodeClass that stayed without its launch template, disruption that was proposed and withdrawn, a
/// replica that led no more and deleted messages.
const FOUND: [u64; 7] = [65, 160, 219, 453, 481, 624, 707];

#[test]
fn after_an_hour_of_faults_of_aws_every_pod_runs_and_nothing_is_left_behind() {
    let said = std::env::var("LONGSHORE_AWS_SEEDS").ok();
    let seeds = said.and_then(|text| text.parse().ok()).unwrap_or(24);
    let types = types(SEEDS_TYPES);
    let left = Mutex::new(FOUND.into_iter().chain(0..seeds));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tell = || {
        let reloader = reloader().expect("policies");
        let mut failed = String::new();
        loop {
            let seed = left.lock().expect("no panic").next();
            let Some(seed) = seed else { return failed };
            let scenario = ScenarioKind::Aws.scenario(seed, SMALL, types.clone());
            let result = run_scenario(&scenario, reloader.clone(), false).expect("a runtime");
            if !result.wrong.is_empty() {
                failed += &format!("seed {seed}: {:#?}\n", result.wrong);
                failed += &format!(
                    "cargo run -p longshore-sim --features aws --bin longshore-sim -- seed {seed} \
                     --size {SMALL} --kind aws\n"
                );
            }
        }
    };
    let failed: String = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(tell)).collect();
        let joined = running.into_iter().map(|one| one.join().expect("no panic"));
        joined.collect()
    });
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn a_story_on_ec2_is_told_twice_in_the_same_words() {
    let types = types(SEEDS_TYPES);
    let reloader = reloader().expect("policies");
    for seed in [1, 2] {
        let transcript = || {
            let scenario = ScenarioKind::Aws.scenario(seed, SMALL, types.clone());
            let result = run_scenario(&scenario, reloader.clone(), true);
            result.expect("a runtime").transcript
        };
        let (one, again) = (transcript(), transcript());
        let differs = one.lines().zip(again.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.len(), again.len(), "seed {seed}");
    }
}
