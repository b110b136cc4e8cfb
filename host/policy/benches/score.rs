//! What it costs to have a catalogue scored by a guest, against the same arithmetic in the host.
//!
//! Times are CPU time of this thread, the least of several batches, so that a busy machine matters little. Run in
//! release: `cargo bench -p longshore-policy`.
#![allow(clippy::print_stdout)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use common::{World, load, serve, world};
use longshore_core::policy::{ByPrice, Policies};
use longshore_policy::{Session, Signals};

const BATCHES: usize = 30;

fn main() {
    println!(
        "{:<34} {:>9} {:>12} {:>14}",
        "ns per offering (least of batches)", "offerings", "whole score", "guest call"
    );
    for offerings in [1_000, 5_000] {
        let world = world(offerings);
        let count = world.catalogue.offerings().len();
        let row = |name: &str, whole: f64, call: f64| {
            let per = |ns: f64| format!("{:.1}", ns / count as f64);
            println!("{name:<34} {count:>9} {:>12} {:>14}", per(whole), per(call));
        };
        let native = least(|| black_box(ByPrice.score(&world.catalogue, &world.names, world.pool)));
        row("native", native, 0.0);
        for (name, plugin, settings) in [
            ("price", "price", ""),
            ("price, 3 discounts", "price", DISCOUNTS),
            ("spot-risk", "spot-risk", ""),
            ("carbon", "carbon", ""),
            ("commitments, 2 pools", "commitments", COMMITMENTS),
        ] {
            let (whole, call) = guest(&world, plugin, settings);
            row(name, whole, call);
        }
    }
}

const DISCOUNTS: &str = "
    [[discounts]]
    offerings = { instance-type = 'm7g.*', capacity-type = 'on-demand' }
    percent = 25
    [[discounts]]
    offerings = { instance-type = '*.00?1' }
    percent = 5
    [[discounts]]
    offerings = { zone = 'us-east-1c' }
    exclude = true";

const COMMITMENTS: &str = "
    [[commitments]]
    name = 'reserved'
    offerings = { instance-type = 'm7g.000?' }
    unit = 'instances'
    remaining = 3
    [[commitments]]
    name = 'plan'
    unit = 'usd'
    percent = 28
    remaining = 10";

/// Nanoseconds of a whole question (columns made and compared, guest asked, answer checked), and of the guest's part
/// (asked and checked).
fn guest(world: &World, plugin: &str, settings: &str) -> (f64, f64) {
    let policies = serve(load(plugin, settings));
    let whole = least(|| black_box(policies.score(&world.catalogue, &world.names, world.pool)));
    let policy = load(plugin, settings);
    let session = Session::new(&policy, &world.catalogue, &world.names, Signals::default(), "default", 0);
    let mut session = session.expect("a plugin of ours starts");
    let call = least(|| black_box(session.ask().expect("a plugin of ours answers")));
    assert!(policies.reports().is_empty());
    (whole, call)
}

/// Nanoseconds of CPU of one run, the least of batches.
fn least<T>(mut run: impl FnMut() -> T) -> f64 {
    for _ in 0..10 {
        run();
    }
    let batch = || {
        let (runs, before) = (50, cpu());
        for _ in 0..runs {
            run();
        }
        (cpu() - before) as f64 / f64::from(runs)
    };
    std::iter::repeat_with(batch).take(BATCHES).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds that this thread has been on a processor.
fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}
