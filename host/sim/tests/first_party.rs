//! What first-party policies are good for: shipped scenarios with and without them. Their READMEs say the
//! same numbers.

use std::path::PathBuf;

use longshore_sim::scenario::play::{ScenarioOutcome, play};
use longshore_sim::scenario::policy::Policy;
use longshore_sim::scenario::read;

fn root() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..")
}

/// A scenario by price, and with a plugin as it is without settings.
fn compared(scenario: &str, plugin: &str) -> [ScenarioOutcome; 2] {
    let file = root().join("examples/scenarios").join(scenario);
    let scenario = read::read(&file).unwrap_or_else(|unread| panic!("{}", unread.report()));
    let component = longshore_xtask::guests::plugin(plugin);
    let typed = Policy::typed(&component.display().to_string());
    let policy = typed.unwrap_or_else(|failure| panic!("{}", failure.report()));
    [Policy::price(), policy].map(|policy| {
        let run = play(&scenario, &policy, None);
        let run = run.unwrap_or_else(|failure| panic!("{}", failure.report()));
        assert_eq!(run.totals.violations, Vec::<String>::new());
        run
    })
}

/// Whether the README of a plugin says so.
fn says(plugin: &str, line: &str) {
    let readme = root().join("plugins").join(plugin).join("README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    assert!(text.contains(line), "its README does not say:\n{line}");
}

#[test]
fn gpu_fragmentation_saves_what_is_idle_on_machines_with_four_gpus() {
    let [price, with] = compared("gpu-jobs.toml", "gpu-fragmentation").map(|run| run.totals);
    assert!(with.all.usd < price.all.usd * 0.95);
    assert_eq!(with.waits.still, price.waits.still);
    says(
        "gpu-fragmentation",
        &format!(
            "| USD in a day | {:.2} | {:.2} |\n| waiting, 90 % of pods | {:.1} s | {:.1} s |",
            price.all.usd, with.all.usd, price.waits.p90, with.waits.p90
        ),
    );
}

#[test]
fn zone_balance_loses_fewer_pods_when_a_zone_goes() {
    let [price, with] = compared("zone-outage.toml", "zone-balance").map(|run| run.totals);
    assert!(
        with.lost * 4 < price.lost * 3,
        "{} of {}",
        with.lost,
        price.lost
    );
    assert!(with.all.usd < price.all.usd * 1.05);
    says(
        "zone-balance",
        &format!(
            "| pods lost with the zone | {} | {} |\n| USD | {:.2} | {:.2} |",
            price.lost, with.lost, price.all.usd, with.all.usd
        ),
    );
}
