//! Panics at critical points: the process ends, or only the task. Its successor continues, and
//! nothing is bought twice.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_fail_points::{panic_at, panics_left};
use longshore_journal::{Journal, Sizes};
use longshore_sim::harness::generated::types;
use longshore_sim::harness::{Harness, ProcessInputs, Setup, reloader};
use longshore_simcluster::world::{WorldOptions, paused};

use crate::manifests::{KWOK_POOL, ONE_CPU, one_per_node};

/// Pods that come before the panic and after it; each needs a node of its own.
const PODS: usize = 6;

/// What a run with panics came to.
#[derive(Debug)]
struct End {
    /// Processes that there have been.
    processes: u32,
    ready: usize,
    bought: usize,
    /// Panics that were wanted and did not happen on this thread.
    panics_left: u32,
    /// Whether the first process says that its journal fails; nothing without a journal.
    journal_fails: Option<bool>,
    /// Rules that were broken, other than that a process has ended.
    wrong: Vec<String>,
}

/// Scales up twice; panics begin between the two, or at the start of the first process.
fn play(point: &str, times: u32, from_the_start: bool, journal: Option<&Path>) -> End {
    let reloader = reloader().expect("policies");
    let folder = journal.map(Path::to_owned);
    let first = Arc::new(Mutex::new(None));
    let begun = first.clone();
    let begin = move |_| {
        let sizes = Sizes {
            all: 1 << 24,
            segment: 1 << 22,
        };
        let journal = folder.as_ref().map_or_else(Journal::off, |at| {
            Journal::open(at, sizes).expect("a journal")
        });
        begun
            .lock()
            .expect("nobody panics with it")
            .get_or_insert_with(|| journal.clone());
        ProcessInputs {
            reloader: reloader.clone(),
            journal,
        }
    };
    let mut setup = Setup::beginning(1, Arc::new(begin));
    setup.world = WorldOptions {
        types: Some(types(4)),
        ..WorldOptions::default()
    };
    if from_the_start {
        assert!(panic_at(point, times), "panics are compiled in for tests");
    }
    let ended = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        world.run_for(Duration::from_millis(10)).await;
        world.apply(KWOK_POOL).expect("manifests");
        world
            .apply(&one_per_node("before", PODS, ONE_CPU))
            .expect("manifests");
        world.run_for(Duration::from_secs(120)).await;
        if !from_the_start {
            assert!(panic_at(point, times), "panics are compiled in for tests");
        }
        world
            .apply(&one_per_node("after", PODS, ONE_CPU))
            .expect("manifests");
        world.run_for(Duration::from_secs(120)).await;
        let mut wrong = harness.settle(Duration::from_secs(900)).await;
        wrong.extend(
            harness
                .violations()
                .into_iter()
                .filter(|line| !line.ends_with("ended by itself")),
        );
        let bought = world.cloud.ledger().entries.len();
        let journal_fails = first
            .lock()
            .expect("nobody panics with it")
            .as_ref()
            .and_then(fails);
        let (processes, ready, panics_left) =
            (harness.processes(), world.ready_pods(), panics_left().1);
        End {
            processes,
            ready,
            bought,
            panics_left,
            journal_fails,
            wrong,
        }
    });
    panic_at("", 0);
    ended.expect("a runtime")
}

/// Whether a journal fails in the end, nothing without one. Its thread goes by no virtual clock,
/// and may take its time to say why it panics.
fn fails(journal: &Journal) -> Option<bool> {
    for _ in 0..20 {
        journal.flush();
        if journal.condition()?.failing {
            return Some(true);
        }
    }
    Some(false)
}

fn ends_well(end: &End, what: &str) {
    assert_eq!(end.wrong, [""; 0], "{what}");
    // Two pods of different services share a node.
    let nodes = PODS..=2 * PODS;
    assert!(
        end.ready == 2 * PODS && nodes.contains(&end.bought),
        "{what}: {end:?}"
    );
}

#[test]
fn a_round_that_panics_is_made_again() {
    let quiet = play("plan", 0, false, None);
    ends_well(&quiet, "without a panic");
    for times in [1, 3] {
        let end = play("plan", times, false, None);
        ends_well(&end, "planning panics");
        assert_eq!(
            (end.processes, end.panics_left),
            (1, 0),
            "the process lives: {end:?}"
        );
        assert_eq!(end.bought, quiet.bought, "{end:?}");
    }
}

#[test]
fn a_step_that_panics_gives_its_place_back() {
    let quiet = play("step", 0, false, None);
    // There are 64 places for steps; more panics than that must not use them up.
    for times in [1, 100] {
        let end = play("step", times, false, None);
        ends_well(&end, "a step panics");
        assert_eq!(
            (end.processes, end.panics_left),
            (1, 0),
            "the process lives: {end:?}"
        );
        assert_eq!(end.bought, quiet.bought, "{end:?}");
    }
}

#[test]
fn a_watch_that_panics_ends_the_process_and_the_next_one_carries_on() {
    let quiet = play("watch", 0, false, None);
    let end = play("watch", 1, false, None);
    ends_well(&end, "a watch panics");
    assert_eq!((end.processes, end.panics_left), (2, 0), "{end:?}");
    assert_eq!(end.bought, quiet.bought, "{end:?}");
}

#[test]
fn a_journal_whose_thread_panics_stops_no_purchase() {
    let folder = std::env::temp_dir().join(format!("longshore-panics-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let end = play("journal", 1, true, Some(&folder));
    drop(std::fs::remove_dir_all(&folder));
    ends_well(&end, "the journal's thread panics");
    assert_eq!(
        (end.processes, end.journal_fails),
        (1, Some(true)),
        "the process lives and says so: {end:?}"
    );
    let quiet = play("journal", 0, false, None);
    assert_eq!(end.bought, quiet.bought, "{end:?}");
}
