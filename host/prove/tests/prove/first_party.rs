//! Our own policies keep every property.

use std::sync::LazyLock;
use std::time::Duration;

use longshore_policy::{Case, Host, HostConfig, LoadedPolicy};
use longshore_prove::wasm::{WasmJudge, WasmScorer};
use longshore_prove::{ProveOptions, prove_judge, prove_scorer};
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
        cases: 3000,
        time: Duration::from_secs(300),
        ..ProveOptions::default()
    };
    (policy, options)
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
    ] {
        let (policy, options) = load(name, settings);
        let proof = prove_scorer(|| WasmScorer::new(policy.clone()), &options);
        assert!(
            proof.counterexample.is_none(),
            "{name}: {:#?}",
            proof.counterexample
        );
        assert_eq!(proof.cases, 3000, "{name}");
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
        let options = ProveOptions {
            cases: 60,
            ..options
        };
        let proof = prove_judge(|| WasmJudge::new(HOST.clone(), policy.clone()), &options);
        assert!(
            proof.counterexample.is_none(),
            "{name}: {:#?}",
            proof.counterexample
        );
    }
}
