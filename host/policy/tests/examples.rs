//! The example policy in every language whose toolchain is here: all answer what the one in Rust does, bit for bit.

mod common;

use std::path::Path;
use std::sync::LazyLock;

use common::{serve, world};
use longshore_core::policy::Policies;
use longshore_policy::{Host, HostConfig, Report};
use longshore_xtask::guests::{Built, build_examples, folder};

/// With a cache: Go and QuickJS take seconds to compile.
static HOST: LazyLock<Host> = LazyLock::new(|| {
    Host::new(HostConfig { cache: Some(folder().join("compiled")), ..HostConfig::default() }).unwrap()
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
    first.cost
}

fn bits(costs: &[f64]) -> Vec<u64> {
    costs.iter().map(|cost| cost.to_bits()).collect()
}

#[test]
fn every_language_answers_what_rust_answers() {
    let built = build_examples().unwrap();
    let component = |language: &str| {
        built.iter().find_map(|(of, built)| match built {
            Built::Component(path) if *of == language => Some(path.clone()),
            _ => None,
        })
    };
    let rust = component("rust").expect("Rust is always here");
    for (settings, factor) in [("", 1.15), ("percent = 7.3", 1.0 + 7.3 / 100.0)] {
        let expected = costs(&rust, settings);
        let (on_demand, spot) = (expected[0], expected[1]);
        let world = world(1000);
        assert_eq!(on_demand, world.catalogue.offerings()[0].price);
        assert_eq!(spot, world.catalogue.offerings()[1].price * factor);
        for language in ["c", "go", "js"] {
            let Some(component) = component(language) else { continue };
            assert!(bits(&costs(&component, settings)) == bits(&expected), "{language} with {settings:?}");
        }
    }
    for (language, built) in &built {
        if let Built::Skipped(reason) = built {
            eprintln!("{language} skipped: {reason}");
        }
    }
}

#[test]
fn settings_of_every_example_are_held_against_its_schema() {
    for (language, built) in build_examples().unwrap() {
        let Built::Component(path) = built else { continue };
        let error = HOST.load(&path, Some("percent = -1")).unwrap_err().to_string();
        assert!(error.ends_with("settings: `percent`: expected at least 0, found -1"), "{language}: {error}");
    }
}
