//! Our own policies keep every property. `LONGSHORE_CASES` asks each so many questions, 3 000 unless it
//! is set; `.ci/nightly` asks a million.

use std::sync::LazyLock;
use std::time::Duration;

use longshore_policy::{Case, Host, HostConfig, LoadedPolicy};
use longshore_prove::wasm::{WasmJudge, WasmScorer};
use longshore_prove::{Proof, ProveOptions, prove_judge, prove_scorer};
use longshore_xtask::guests::plugin;

static HOST: LazyLock<Host> = LazyLock::new(|| Host::new(HostConfig::default()).unwrap());

fn load(name: &str, settings: &str) -> (LoadedPolicy, ProveOptions) {
    let file = plugin(name);
    let bytes = std::fs::read(&file).unwrap();
    let identified = HOST.identify(&file, &bytes).unwrap();
    let text = format!("offerings = []\n[settings]\n{settings}");
    let case = Case::read(&text).unwrap();
    let policy = case.configured(&identified).unwrap();
    let about = policy.about();
    let options = ProveOptions {
        signals: about.signals.iter().map(|of| of.name.clone()).collect(),
        settings: case.settings,
        cases: cases(),
        time: Duration::from_secs(300),
        ..ProveOptions::default()
    };
    (policy, options)
}

/// Sees that all questions were asked, and says how long that took.
fn said<P>(name: &str, proof: &Proof<P>) {
    assert_eq!(proof.cases, cases(), "{name}");
    let seconds = proof.took.as_secs_f64();
    eprintln!("{name}: {} questions in {seconds:.1} s", proof.cases);
}

fn cases() -> u64 {
    let set = std::env::var("LONGSHORE_CASES").ok();
    set.map_or(3000, |cases| cases.parse().expect("a number of questions"))
}

#[test]
fn scorers_keep_their_properties() {
    for (name, settings) in [
        ("carbon", ""),
        (
            "cel",
            "expression = \"cost * (zone == 'us-east-1a' ? 1.02 : 1)\"",
        ),
        ("commitments", ""),
        ("gpu-fragmentation", ""),
        ("price", ""),
        ("spot-placement", ""),
        ("spot-risk", ""),
        ("zone-balance", ""),
    ] {
        let (policy, options) = load(name, settings);
        let proof = prove_scorer(|| WasmScorer::new(policy.clone()), &options);
        assert!(
            proof.counterexample.is_none(),
            "{name}: {:#?}",
            proof.counterexample
        );
        said(name, &proof);
    }
}

#[test]
fn consolidation_policies_keep_their_properties() {
    for (name, settings) in [
        (
            "business-hours",
            "windows = [{ from = '08:00', to = '20:00' }]",
        ),
        ("cautious", ""),
        ("pdb-aware", ""),
    ] {
        let (policy, options) = load(name, settings);
        let proof = prove_judge(|| WasmJudge::new(HOST.clone(), policy.clone()), &options);
        assert!(
            proof.counterexample.is_none(),
            "{name}: {:#?}",
            proof.counterexample
        );
        said(name, &proof);
    }
}
