//! Would the simulation notice? Each defect that can be switched on in the daemon is found by the
//! seed that is written down for it in `mutants.tsv`, and the same seed finds nothing where no
//! defect is switched on.
//!
//! A table that is out of date fails: a mutant without a seed, a seed that finds its mutant no
//! longer, or says something else of it, a name that no mutant has. `longshore-sim seeds 0..500
//! --size 12 --mutant NAME --stop` finds another seed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use longshore_live::process::mutants;
use longshore_sim::harness::generated::{ScenarioKind, types};
use longshore_sim::harness::run::run_scenario;
use longshore_sim::harness::{SEEDS_TYPES, reloader};

/// Every mutant is found among so many seeds, the first ones.
const SEARCHED: u64 = 500;

/// A line of the table.
#[derive(Clone, Copy)]
struct Found<'a> {
    mutant: &'a str,
    seed: u64,
    size: u32,
    kind: ScenarioKind,
    /// A part of what is said of it.
    says: &'a str,
}

fn table() -> Vec<Found<'static>> {
    let lines = include_str!("mutants.tsv")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let [mutant, seed, size, kind, says] = cells[..] else {
                panic!("not five cells: {line:?}")
            };
            let kind =
                ScenarioKind::named(kind).unwrap_or_else(|| panic!("no such kind: {line:?}"));
            Found {
                mutant,
                seed: seed.parse().expect("a seed"),
                size: size.parse().expect("a size"),
                kind,
                says,
            }
        })
        .collect()
}

#[test]
fn the_table_names_every_mutant_once_and_seeds_among_the_first_five_hundred() {
    let table = table();
    // The others are found by scenes.
    let scenes = [include_str!("night.tsv"), include_str!("canaries.tsv")];
    let scenes = scenes.into_iter().flat_map(str::lines);
    let scenes = scenes.filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let scenes = scenes.filter_map(|line| line.split('\t').next());
    let named: Vec<&str> = table
        .iter()
        .map(|found| found.mutant)
        .chain(scenes)
        .collect();
    let known: BTreeSet<&str> = mutants::ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), known);
    assert_eq!(named.len(), known.len(), "a mutant is named twice");
    assert!(
        table
            .iter()
            .all(|found| found.seed < SEARCHED && !found.says.is_empty())
    );
}

/// The result of a seed, with a mutant or without.
type Tell<'a> = dyn Fn(Which, Option<&str>) -> Vec<String> + 'a;
/// Seed, size and kind of a scenario.
type Which = (u64, u32, ScenarioKind);

/// What is wrong with a line of the table; empty if nothing.
fn stale(found: Found<'_>, wrong: &Tell<'_>) -> String {
    let Found {
        mutant,
        seed,
        size,
        kind,
        says,
    } = found;
    let result = wrong((seed, size, kind), Some(mutant));
    match result.first() {
        _ if result.iter().any(|line| line.contains(says)) => String::new(),
        Some(line) => {
            format!("{mutant}: seed {seed} does not say {says:?} any more, but {line:?}\n")
        }
        None => format!("{mutant}: seed {seed} does not find it any more\n"),
    }
}

#[test]
fn each_mutant_is_found_by_its_seed_that_finds_nothing_without_it() {
    let table = table();
    let types = types(SEEDS_TYPES);
    // Seeds without a mutant, once each, then all mutants.
    let mut quiet: Vec<Which> = table
        .iter()
        .map(|found| (found.seed, found.size, found.kind))
        .collect();
    quiet.sort_by_key(|(seed, size, kind)| (*seed, *size, kind.name()));
    quiet.dedup();
    let next = AtomicUsize::new(0);
    let work = || {
        let reloader = reloader().expect("policies");
        let wrong = |(seed, size, kind): Which, mutant: Option<&str>| {
            assert!(mutants::switch(mutant), "mutants are compiled in for tests");
            let scenario = kind.scenario(seed, size, types.clone());
            let result = run_scenario(&scenario, reloader.clone(), false).expect("a runtime");
            mutants::switch(None);
            result.wrong
        };
        let mut bad = String::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if let Some(which) = quiet.get(at) {
                if let Some(line) = wrong(*which, None).first() {
                    let (seed, size, kind) = which;
                    let _ = writeln!(
                        bad,
                        "seed {seed} of size {size} ({kind:?}) fails without a mutant: {line}"
                    );
                }
            } else if let Some(found) = table.get(at - quiet.len()) {
                bad += &stale(*found, &wrong);
            } else {
                return bad;
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bad: String = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .map(|one| one.join().expect("no panic"))
            .collect()
    });
    assert!(bad.is_empty(), "mutants.tsv is out of date:\n{bad}");
}
