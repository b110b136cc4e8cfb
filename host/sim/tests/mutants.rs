//! Would the simulation notice? Each defect that can be switched on in the daemon is found by a seed that is written
//! down in `mutants.tsv` (by another one where the daemon has changed since), and the same seed finds nothing where no defect is switched on.

use std::collections::BTreeSet;

use longshore_daemon::live::mutants;
use longshore_sim::harness::story::types;
use longshore_sim::harness::telling::tell_seed;
use longshore_sim::harness::{SEEDS_TYPES, manager};

/// Seeds that are tried where the one in the table finds its mutant no longer.
const SEARCHED: u64 = 500;

/// A line of the table.
struct Found<'a> {
    mutant: &'a str,
    seed: u64,
    size: u32,
    /// A part of what is said of it.
    says: &'a str,
}

fn table() -> Vec<Found<'static>> {
    let lines = include_str!("mutants.tsv").lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let [mutant, seed, size, says] = cells[..] else { panic!("not four cells: {line:?}") };
            Found { mutant, seed: seed.parse().expect("a seed"), size: size.parse().expect("a size"), says }
        })
        .collect()
}

#[test]
fn the_table_names_every_mutant_once_and_seeds_among_the_first_five_hundred() {
    let table = table();
    let named: Vec<&str> = table.iter().map(|found| found.mutant).collect();
    let known: BTreeSet<&str> = mutants::ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), known);
    assert!(named.len() == known.len() && table.iter().all(|found| found.seed < 500));
    assert!(known.len() >= 10);
}

#[test]
fn each_mutant_is_found_by_a_seed_that_finds_nothing_without_it() {
    let (types, manager) = (types(SEEDS_TYPES), manager().expect("policies"));
    let wrong = |seed, size, mutant: Option<&str>| {
        assert!(mutants::switch(mutant), "mutants are compiled in for tests");
        let told = tell_seed(seed, size, &types, manager.clone(), false).expect("a runtime");
        mutants::switch(None);
        told.wrong
    };
    let mut quiet = BTreeSet::new();
    for Found { mutant, seed, size, says } in table() {
        let finds = |seed: &u64| wrong(*seed, size, Some(mutant)).into_iter().next().map(|line| (*seed, line));
        let recorded = wrong(seed, size, Some(mutant)).into_iter().find(|line| line.contains(says));
        // What a seed tells changes with the daemon: then another one may find it, and the table is to follow.
        let found = recorded.map(|line| (seed, line)).or_else(|| (0..SEARCHED).find_map(|seed| finds(&seed)));
        let Some((by, line)) = found else { panic!("no seed below {SEARCHED} finds {mutant}") };
        if by != seed || !line.contains(says) {
            eprintln!("{mutant} is found by seed {by} now, not {seed}: {line}\n  mutants.tsv should say so");
        }
        if quiet.insert((by, size)) {
            assert_eq!(wrong(by, size, None), [""; 0], "seed {by} of size {size} without a mutant");
        }
    }
}
