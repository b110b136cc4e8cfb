//! The example policy in every language: all answer what the one in Rust does, bit for bit. A
//! language without an installed toolchain is reported as ignored, by name. An installed toolchain
//! that builds nothing is a failure. Components of tools that few have are recorded
//! (data/toolchains/README.md says how they were made).

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use common::{serve, world};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_core::policy::Policies;
use longshore_policy::{Host, HostConfig, Report};
use longshore_xtask::guests::{EXAMPLES, Example, folder};
use longshore_xtask::in_ci;

/// With a cache: Go and QuickJS take seconds to compile.
static HOST: LazyLock<Host> = LazyLock::new(|| {
    Host::new(HostConfig {
        cache: Some(folder().join("compiled")),
        ..HostConfig::default()
    })
    .unwrap()
});

fn costs(component: &Path, settings: &str) -> Vec<f64> {
    let world = world(1000);
    let policies = serve(HOST.load(component, Some(settings)).unwrap());
    // Twice: what a guest keeps between calls must not change its answer.
    let first = policies.score(&world.catalogue, &world.names, world.pool);
    let second = policies.score(&world.catalogue, &world.names, world.pool);
    let reports: Vec<String> = policies.reports().iter().map(Report::to_string).collect();
    assert_eq!(reports, [""; 0], "{}", component.display());
    assert_eq!(first, second, "{}", component.display());
    first.cost.to_vec()
}

fn bits(costs: &[f64]) -> Vec<u64> {
    costs.iter().map(|cost| cost.to_bits()).collect()
}

/// The example in this language answers what the one in Rust does.
fn answers_what_rust_answers(example: &Example) -> Result<(), Failed> {
    answers_alike(&build(example)?)
}

/// A component answers what the example in Rust does, bit for bit.
fn answers_alike(component: &Path) -> Result<(), Failed> {
    let rust = build(&EXAMPLES[0])?;
    for (settings, factor) in [("", 1.15), ("percent = 7.3", 1.0 + 7.3 / 100.0)] {
        let expected = costs(&rust, settings);
        let world = world(1000);
        assert_eq!(
            expected[0],
            world.catalogue.offerings()[0].price,
            "on demand"
        );
        assert_eq!(
            expected[1],
            world.catalogue.offerings()[1].price * factor,
            "spot"
        );
        assert!(
            bits(&costs(component, settings)) == bits(&expected),
            "with {settings:?}"
        );
    }
    Ok(())
}

/// Its settings are held against its schema.
fn settings_are_checked(example: &Example) -> Result<(), Failed> {
    let error = match HOST.load(&build(example)?, Some("percent = -1")) {
        Ok(_) => return Err("it takes settings that its schema refuses".into()),
        Err(error) => error.to_string(),
    };
    assert!(
        error.ends_with("settings: `percent`: expected at least 0, found -1"),
        "{error}"
    );
    Ok(())
}

/// 20 NodePools and 8 000 offerings are one question, also where a language imports every function of
/// the contract.
fn is_asked_once_for_all_node_pools(example: &Example) -> Result<(), Failed> {
    let world = world(8000);
    let policies = serve(HOST.load(&build(example)?, None).unwrap());
    let mut names = world.names.clone();
    let pools: Vec<_> = (0..20)
        .map(|number| names.intern(&format!("pool-{number}")))
        .collect();
    policies.begin_round(1_700_000_000);
    let mut answers = pools
        .iter()
        .map(|&pool| policies.score(&world.catalogue, &names, pool).cost);
    let first = answers.next().unwrap();
    assert!(answers.all(|answer| answer == first));
    let tally = policies.tallies().remove(0);
    assert_eq!((tally.calls, tally.kept, tally.failures), (20, 19, 0));
    Ok(())
}

fn build(example: &Example) -> Result<PathBuf, Failed> {
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(component) = built.get(example.language) {
        return Ok(component.clone());
    }
    let component = example.build().map_err(|error| format!("{error:#}"))?;
    built.insert(example.language, component.clone());
    Ok(component)
}

fn main() {
    let mut trials = Vec::new();
    for example in &EXAMPLES {
        let missing = example.missing();
        if let Some(reason) = missing {
            eprintln!("{} not run: {reason}", example.language);
        }
        // Go is always there in CI.
        let ignored = missing.is_some() && !(example.language == "go" && in_ci());
        let checks: [(&str, fn(&Example) -> Result<(), Failed>); 3] = [
            ("answers_what_rust_answers", answers_what_rust_answers),
            ("settings_are_held_against_its_schema", settings_are_checked),
            (
                "is_asked_once_for_all_node_pools",
                is_asked_once_for_all_node_pools,
            ),
        ];
        trials.extend(checks.map(|(name, check)| {
            let name = format!("the_example_in_{}_{name}", example.language);
            Trial::test(name, move || check(example)).with_ignored_flag(ignored)
        }));
    }
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/toolchains");
    for tool in ["assemblyscript", "c", "zig"] {
        let component = recorded.join(format!("{tool}.wasm"));
        let name = format!("the_recorded_component_of_{tool}_answers_what_rust_answers");
        trials.push(Trial::test(name, move || answers_alike(&component)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
