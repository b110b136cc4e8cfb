//! What it costs to have a catalogue scored by a guest, against the same arithmetic in the host.
//!
//! Times are CPU time of this thread, the least of several batches, so that a busy machine matters
//! little. Run in release: `cargo xtask bench scorers`, or `cargo xtask bench scorers cel` for rows
//! whose name has that word.
#![allow(clippy::print_stdout)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use common::{HOST, World, chain, load, serve, world_at};
use longshore_core::policy::{ByPrice, Policies};
use longshore_policy::{LoadedPolicy, Session, Signals, WasmPolicies};
use longshore_xtask::guests::{Built, build_examples};

const BATCHES: usize = 15;

fn main() {
    println!(
        "{:<34} {:>9} {:>12} {:>14}",
        "ns per offering (least of batches)", "offerings", "whole score", "guest call"
    );
    let words: Vec<String> = std::env::args().skip(1).collect();
    let only = words.iter().find(|word| !word.starts_with('-'));
    let wanted = |name: &str| only.is_none_or(|word| name.contains(word.as_str()));
    let examples = match only {
        None => build_examples().expect("toolchains that are here work"),
        Some(_) => Vec::new(),
    };
    for offerings in [1_000, 5_000, 8_000] {
        let worlds = worlds(offerings);
        let world = &worlds[0];
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
            ("spot-placement", "spot-placement", ""),
            ("gpu-fragmentation", "gpu-fragmentation", ""),
            ("zone-balance", "zone-balance", ZONES),
            ("cel, price alone", "cel", CEL_PRICE),
            ("cel, 10 operators", "cel", CEL_TEN),
            ("cel, 10 operators on numbers", "cel", CEL_TEN_NUMBERS),
        ] {
            if !wanted(name) {
                continue;
            }
            let (whole, call) = guest(&worlds, &load(plugin, settings));
            row(name, whole, call);
        }
        if wanted("chain of three") {
            let three = [("carbon", ""), ("spot-risk", ""), ("price", DISCOUNTS)];
            let policies = chain(three.map(|(name, settings)| load(name, settings)).into());
            let whole = whole(&worlds, &policies);
            assert_eq!(policies.reports().len(), 0);
            row("chain of three", whole, 0.0);
        }
        for (language, built) in &examples {
            let Built::Component(path) = built else {
                continue;
            };
            let policy = HOST.load(path, None).expect("an example of ours loads");
            let (whole, call) = guest(&worlds, &policy);
            row(&format!("example in {language}"), whole, call);
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

const ZONES: &str = "usd-per-vcpu = 0.01\ngib-per-vcpu = 2";

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

const CEL_PRICE: &str = "expression = 'price'";

const CEL_TEN: &str = r#"expression = """
    (price * 0.9 + 0.05) * 1.03
    + (capacity_type == 'spot' && zone != 'us-east-1c' ? cost * 0.1 : 0.02) - 0.01""""#;

/// All over rows: nothing is worked out for a table of texts.
const CEL_TEN_NUMBERS: &str = "expression = '(price * 0.9 + 0.05) * 1.03 + cost * 0.1 - 0.02 + \
    memory_mib * 0.0001 + cpu_millicores * 0.00001'";

/// Nanoseconds of a whole question (columns looked up, guest asked, answer checked), and of the
/// guest's part (asked and checked).
fn guest(worlds: &[World], policy: &LoadedPolicy) -> (f64, f64) {
    let policies = serve(policy.clone());
    let whole = whole(worlds, &policies);
    let world = &worlds[0];
    let start = || {
        let session = Session::new(
            policy,
            &world.catalogue,
            &world.names,
            Signals::default(),
            "default",
            0,
        );
        session.expect("a plugin of ours starts")
    };
    let mut session = start();
    // Go's collector lags behind; an instance that is full is replaced, as the host does after some
    // calls.
    let call = least(|| {
        black_box(session.ask()).unwrap_or_else(|_| {
            session = start();
            Default::default()
        })
    });
    let reports: Vec<String> = policies.reports().iter().map(ToString::to_string).collect();
    assert!(reports.is_empty(), "{reports:?}");
    (whole, call)
}

/// Catalogues with other prices: more than answers are kept for, so that each question is asked.
fn worlds(offerings: usize) -> Vec<World> {
    let share = |nth: usize| 1.0 + nth as f64 / 1000.0;
    (0..6).map(|nth| world_at(offerings, share(nth))).collect()
}

/// Nanoseconds of a question about a catalogue that has just changed.
fn whole(worlds: &[World], policies: &WasmPolicies) -> f64 {
    let mut turns = worlds.iter().cycle();
    least(|| {
        let world = turns.next().expect("without end");
        black_box(policies.score(&world.catalogue, &world.names, world.pool))
    })
}

/// Nanoseconds of CPU of one run, the least of batches.
fn least<T>(mut run: impl FnMut() -> T) -> f64 {
    for _ in 0..10 {
        run();
    }
    let batch = || {
        let (runs, before) = (20, cpu());
        for _ in 0..runs {
            run();
        }
        (cpu() - before) as f64 / f64::from(runs)
    };
    std::iter::repeat_with(batch)
        .take(BATCHES)
        .fold(f64::INFINITY, f64::min)
}

/// Nanoseconds that this thread has been on a processor.
fn cpu() -> u64 {
    /// `struct timespec` of 64-bit Linux.
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanos: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, to: *mut Time) -> i32;
    }
    const THREAD_CPUTIME: i32 = 3;
    let mut now = Time {
        seconds: 0,
        nanos: 0,
    };
    // SAFETY: the C library that std links has it, and `now` is of the shape that it writes.
    unsafe { clock_gettime(THREAD_CPUTIME, &raw mut now) };
    now.seconds as u64 * 1_000_000_000 + now.nanos as u64
}
