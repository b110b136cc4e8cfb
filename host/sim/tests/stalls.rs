//! Watches that say nothing for a while, in the middle of a scale-up: nothing else is bought than
//! without it, limits hold, and soon after the end every pod runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longshore_live::policies::PolicyReloader;
use longshore_sim::harness::generated::types;
use longshore_sim::harness::{Harness, Setup, reloader};
use longshore_simcluster::fields;
use longshore_simcluster::object::Resource;
use longshore_simcluster::server::{Whose, resources};
use longshore_simcluster::world::{WorldOptions, paused};

use crate::manifests::{KWOK_POOL, ONE_CPU, deployment};

/// When the pods come.
const BEGIN: Duration = Duration::from_secs(20);
/// After the end of a stall every pod runs within this, or within what a scale-up takes that begins
/// then.
const MINUTE: Duration = Duration::from_secs(60);
/// The batching window: how long after a pod a round is made.
const IDLE: Duration = Duration::from_secs(1);
/// Requests of all processes for each pod.
const REQUESTS: u64 = 200;
const LENGTHS: [u64; 4] = [15, 60, 120, 290];
/// From when on, in milliseconds after the pods came: before the first of them; before the plan;
/// while claims are written and launched; while nodes come; while they register and pods are bound.
const PHASES: [i64; 6] = [-500, 900, 1_500, 4_000, 25_000, 38_000];

#[derive(Clone, Copy)]
struct Stall {
    /// The kind with the silent watch; all kinds if none is named.
    kind: Option<Resource>,
    phase: i64,
    length: u64,
}

impl Stall {
    /// Whether pods come while nothing is heard of them. They are all known when the first round is
    /// made then, so that it may need fewer nodes than rounds that know them one after the other.
    fn hides_pods(self) -> bool {
        self.phase < 0 && self.kind.is_none_or(|kind| kind == resources::POD)
    }
}

impl std::fmt::Display for Stall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.map_or("all watches", |kind| kind.plural);
        write!(
            f,
            "{kind} silent for {} s, from {} ms on",
            self.length, self.phase
        )
    }
}

/// What a scale-up came to.
struct End {
    /// Instance types, sorted.
    bought: Vec<String>,
    /// From the coming of the pods until all of them ran.
    took: Option<Duration>,
    /// Of all processes.
    requests: u64,
    violations: Vec<String>,
}

fn scale_up(pods: usize, stall: Option<Stall>, reloader: PolicyReloader) -> End {
    let mut setup = Setup::with(1, reloader);
    setup.keeps_requests = false;
    setup.world = WorldOptions {
        types: Some(types(16)),
        ..WorldOptions::default()
    };
    let at = |phase: i64| BEGIN.saturating_add_signed(phase);
    let ended = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        let limit = format!("  limits: {{cpu: '{}'}}\n  template:", pods * 3 / 2);
        world
            .apply(&KWOK_POOL.replace("  template:", &limit))
            .expect("manifests");
        let until = |at: Duration| at.saturating_sub(world.clock.elapsed());
        let silence = async |stall: Stall| {
            world.run_for(until(at(stall.phase))).await;
            let ends = tokio::time::Instant::now() + Duration::from_secs(stall.length);
            world.server.silence(
                Whose {
                    client: None,
                    kind: stall.kind,
                },
                ends,
            );
        };
        if let Some(stall) = stall.filter(|stall| stall.phase < 0) {
            silence(stall).await;
        }
        world.run_for(until(BEGIN)).await;
        world
            .apply(&deployment("web", pods, ONE_CPU, ""))
            .expect("manifests");
        if let Some(stall) = stall.filter(|stall| stall.phase >= 0) {
            silence(stall).await;
        }
        let run = world
            .run_until(
                |world| world.ready_pods() == pods,
                Duration::from_secs(3600),
            )
            .await;
        let took = run.then(|| world.clock.elapsed() - BEGIN);
        // Whatever is bought too late is bought by then.
        world.run_for(Duration::from_secs(400)).await;
        let mut bought: Vec<String> = world
            .cloud
            .ledger()
            .entries
            .iter()
            .map(|e| format!("{} {}", e.instance_type, e.capacity_type))
            .collect();
        bought.sort_unstable();
        let by = world.server.requests().by;
        let requests = by
            .iter()
            .filter(|((client, ..), _)| client.starts_with("daemon#"))
            .map(|(_, count)| count)
            .sum();
        let mut violations = harness.violations();
        violations.extend(
            harness
                .unsettled()
                .into_iter()
                .map(|line| format!("in the end: {line}")),
        );
        let claims = world.server.list(resources::NODE_CLAIM).len();
        if claims != bought.len() {
            violations.push(format!(
                "{claims} claims, {} instances: {:?}",
                bought.len(),
                names(world)
            ));
        }
        End {
            bought,
            took,
            requests,
            violations,
        }
    });
    ended.expect("a runtime")
}

fn names(world: &longshore_simcluster::world::World) -> Vec<String> {
    world
        .server
        .list(resources::NODE_CLAIM)
        .iter()
        .map(|claim| fields::name(claim).to_owned())
        .collect()
}

/// Milliseconds that may be negative, added.
trait Signed {
    fn saturating_add_signed(self, milliseconds: i64) -> Duration;
}

impl Signed for Duration {
    fn saturating_add_signed(self, milliseconds: i64) -> Duration {
        let size = Duration::from_millis(milliseconds.unsigned_abs());
        if milliseconds < 0 {
            self.saturating_sub(size)
        } else {
            self + size
        }
    }
}

/// Whether everything in `part` is in `all` as often; both are sorted.
fn is_part(part: &[String], all: &[String]) -> bool {
    let mut rest = all.iter();
    part.iter().all(|one| rest.any(|other| other == one))
}

/// What is wrong with a scale-up during a stall, as against the one without.
fn wrong(pods: usize, stall: Stall, end: &End, quiet: &End) -> Option<String> {
    let ends = BEGIN.saturating_add_signed(stall.phase) + Duration::from_secs(stall.length);
    let (ends, alone) = (ends.saturating_sub(BEGIN), quiet.took.unwrap_or_default());
    let late = (ends.max(alone) + MINUTE).max(ends + alone + IDLE);
    let mut all = end.violations.clone();
    let same = match stall.hides_pods() {
        true => is_part(&end.bought, &quiet.bought),
        false => end.bought == quiet.bought,
    };
    if !same {
        all.push(format!(
            "bought {:?}, and {:?} without it",
            end.bought, quiet.bought
        ));
    }
    match end.took {
        Some(took) if took <= late => {}
        Some(took) => all.push(format!(
            "all run after {} s, not {}",
            took.as_secs(),
            late.as_secs()
        )),
        None => all.push("not all run within the hour".to_owned()),
    }
    if end.requests >= REQUESTS * pods as u64 {
        all.push(format!("{} requests for {pods} pods", end.requests));
    }
    (!all.is_empty()).then(|| format!("{pods} pods, {stall}:\n  {}\n", all.join("\n  ")))
}

fn check(pods: usize, stalls: &[Stall]) {
    let next = AtomicUsize::new(0);
    let quiet = Arc::new(scale_up(pods, None, reloader().expect("policies")));
    assert_eq!(quiet.violations, [""; 0], "without a stall");
    assert!(
        quiet.took.is_some_and(|took| took <= MINUTE * 2),
        "without a stall: {:?}",
        quiet.took
    );
    let work = || {
        let reloader = reloader().expect("policies");
        let mut bad = String::new();
        while let Some(stall) = stalls.get(next.fetch_add(1, Ordering::Relaxed)) {
            let end = scale_up(pods, Some(*stall), reloader.clone());
            bad += &wrong(pods, *stall, &end, &quiet).unwrap_or_default();
        }
        bad
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bad: String = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .map(|one| one.join().expect("no panic"))
            .collect()
    });
    assert!(bad.is_empty(), "{bad}");
}

/// Whether all cases are asked for, and not those that CI has time for.
fn all() -> bool {
    std::env::var_os("LONGSHORE_SEEDS").is_some()
}

#[test]
fn forty_pods_get_the_same_nodes_while_all_watches_are_silent() {
    let stall = |length, phase| Stall {
        kind: None,
        phase,
        length,
    };
    let stalls: Vec<Stall> = LENGTHS
        .iter()
        .flat_map(|l| PHASES.iter().map(move |p| stall(*l, *p)))
        .collect();
    check(40, &stalls);
}

#[test]
fn forty_pods_get_the_same_nodes_while_one_watch_is_silent() {
    let which = |n: usize| all() || n.is_multiple_of(2);
    let mut stalls = Vec::new();
    for kind in [resources::NODE_CLAIM, resources::NODE, resources::POD] {
        let cases = LENGTHS
            .iter()
            .flat_map(|length| PHASES.iter().map(move |phase| (*length, *phase)));
        let cases = cases.enumerate().filter(|(n, _)| which(*n));
        stalls.extend(cases.map(|(_, (length, phase))| Stall {
            kind: Some(kind),
            phase,
            length,
        }));
    }
    for kind in [
        resources::NODE_POOL,
        resources::KWOK_NODE_CLASS,
        resources::NAMESPACE,
        resources::PRIORITY_CLASS,
        resources::DAEMON_SET,
        resources::REPLICA_SET,
        resources::POD_DISRUPTION_BUDGET,
    ] {
        stalls.push(Stall {
            kind: Some(kind),
            phase: 900,
            length: 120,
        });
    }
    check(40, &stalls);
}

#[test]
fn four_hundred_pods_get_the_same_nodes_while_watches_are_silent() {
    let mut stalls = vec![
        Stall {
            kind: None,
            phase: 900,
            length: 60,
        },
        Stall {
            kind: Some(resources::NODE_CLAIM),
            phase: 900,
            length: 290,
        },
        Stall {
            kind: Some(resources::POD),
            phase: 4_000,
            length: 120,
        },
    ];
    if all() {
        let kinds = [
            None,
            Some(resources::NODE_CLAIM),
            Some(resources::NODE),
            Some(resources::POD),
        ];
        stalls = kinds
            .iter()
            .flat_map(|kind| {
                LENGTHS
                    .iter()
                    .flat_map(move |length| PHASES.iter().map(move |phase| (kind, length, phase)))
            })
            .map(|(kind, length, phase)| Stall {
                kind: *kind,
                phase: *phase,
                length: *length,
            })
            .collect();
    }
    check(400, &stalls);
}
