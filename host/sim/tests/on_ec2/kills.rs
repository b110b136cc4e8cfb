//! A short scenario runs once for each call to AWS and each thing that can happen at it. Two pods
//! get an instance each, one instance is interrupted and replaced, another is to be retired and is
//! replaced, then all pods go and all instances end.
//!
//! Whatever happens, the scenario ends the same: nothing is left, nothing was bought twice, and no
//! message was lost.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longshore_live::policies::PolicyReloader;
use longshore_sim::harness::{Kill, Point, Setup, Strike, When, reloader};
use longshore_simcluster::fields;
use longshore_simcluster::server::resources;
use longshore_simcluster::world::{World, paused};

use super::{AccountOptions, BASE, apart, harness, state};

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Killed(When),
    Struck(Strike),
}

const CASES: [(&str, Case); 7] = [
    ("before", Case::Killed(When::Before)),
    ("during", Case::Killed(When::During)),
    ("after", Case::Killed(When::After)),
    ("request-lost", Case::Struck(Strike::RequestLost)),
    ("reply-lost", Case::Struck(Strike::ReplyLost)),
    ("error-before", Case::Struck(Strike::ErrorBefore)),
    ("error-after", Case::Struck(Strike::ErrorAfter)),
];

struct End {
    points: Vec<Point>,
    wrong: Vec<String>,
    processes: u32,
    bought: usize,
    took: Duration,
    transcript: String,
}

const MINUTE: Duration = Duration::from_secs(60);
/// A launch by another process with another request waits until EC2 would show the first one's.
const LONG: Duration = Duration::from_secs(1800);

fn interrupt_one(world: &World, capacity_type: &str) -> Option<()> {
    let running = world.cloud.running();
    let of_type = running.iter().find(|one| {
        let node = world.object("Node", "", &one.node);
        one.capacity_type == capacity_type && node.is_some_and(|node| !fields::deleting(&node))
    });
    world.cloud.interrupt(&of_type?.provider_id).then_some(())
}

/// Runs the scenario.
fn end_of_run(at: Option<(usize, Case)>, reloader: PolicyReloader, keeps: bool) -> End {
    let mut setup = Setup::with(1, reloader);
    match at {
        Some((point, Case::Killed(when))) => setup.kill = Some(Kill { point, when }),
        Some((point, Case::Struck(strike))) => setup.strike = Some((point, strike)),
        None => {}
    }
    let ended = paused(async {
        let options = AccountOptions {
            strict: true,
            ..AccountOptions::default()
        };
        let (harness, account) = harness(setup, options);
        let world = &harness.world;
        let mut wrong = Vec::new();
        let mut expect = |what: &str, is: String, wanted: &str| {
            if is != wanted {
                wrong.push(format!("{what}: {is}, not {wanted}"));
            }
        };
        world.apply(BASE).expect("manifests");
        world.run_for(MINUTE / 6).await;
        let on_demand = "nodeSelector: {karpenter.sh/capacity-type: on-demand}";
        let web = apart("web", 1);
        let shop = apart("shop", 1).replace(
            "      affinity:",
            &format!("      {on_demand}\n      affinity:"),
        );
        world.apply(&format!("{web}{shop}")).expect("manifests");
        world.run_for(2 * MINUTE).await;
        let left = harness.settle(LONG).await;
        expect("after the launch", left.join("; "), "");
        let two = "2 pods run, 2 nodes, 2 claims, 2 instances";
        expect("after the launch", state(world), two);
        let spot = interrupt_one(world, "spot");
        expect("interrupted", format!("{spot:?}"), "Some(())");
        world.run_for(3 * MINUTE).await;
        let left = harness.settle(LONG).await;
        expect("after the interruption", left.join("; "), "");
        expect("after the interruption", state(world), two);
        let retired = interrupt_one(world, "on-demand");
        expect("retired", format!("{retired:?}"), "Some(())");
        world.run_for(3 * MINUTE).await;
        let left = harness.settle(LONG).await;
        expect("after the retirement", left.join("; "), "");
        expect("after the retirement", state(world), two);
        for name in ["web", "shop"] {
            world.scale("Deployment", "default", name, 0);
        }
        // Pods that are still there get other nodes.
        world.run_for(MINUTE).await;
        for claim in world.server.list(resources::NODE_CLAIM) {
            world.delete("NodeClaim", "", fields::name(&claim));
        }
        world.run_for(2 * MINUTE).await;
        let left = harness.settle(LONG).await;
        expect("in the end", left.join("; "), "");
        let none = "0 pods run, 0 nodes, 0 claims, 0 instances";
        expect("in the end", state(world), none);
        let took = world.clock.elapsed();
        // What came twice is read again after it was hidden.
        world.run_for(2 * MINUTE).await;
        expect("messages", account.messages().to_string(), "0");
        // A process that was killed at the last of these calls has a successor.
        let points = harness.points();
        world.run_for(MINUTE / 2).await;
        wrong.extend(harness.violations());
        wrong.extend(account.fleet_faults(Duration::from_secs(179)));
        End {
            points,
            wrong,
            processes: harness.processes(),
            bought: world.cloud.ledger().entries.len(),
            took,
            transcript: match keeps {
                true => harness.transcript(),
                false => String::new(),
            },
        }
    });
    ended.expect("a runtime")
}

/// What is wrong with a case, beside the run where nothing happens.
fn judged(quiet: &End, point: usize, case: Case, end: &End) -> Vec<String> {
    let mut wrong = end.wrong.clone();
    let deaths = u32::from(matches!(case, Case::Killed(_)));
    if end.processes != 1 + deaths {
        wrong.push(format!("{} processes", end.processes));
    }
    if end.bought != quiet.bought {
        wrong.push(format!("{} instances, not {}", end.bought, quiet.bought));
    }
    if !wrong.is_empty() {
        wrong.insert(0, format!("{case:?} at {point}, {}", quiet.points[point]));
    }
    wrong
}

fn quiet(reloader: &PolicyReloader) -> End {
    let quiet = end_of_run(None, reloader.clone(), false);
    assert_eq!(quiet.wrong, [""; 0]);
    assert_eq!((quiet.processes, quiet.bought), (1, 4));
    quiet
}

fn calls(quiet: &End) -> Vec<usize> {
    let points = quiet.points.iter().enumerate();
    let calls = points.filter(|(_, point)| point.call);
    calls.map(|(at, _)| at).collect()
}

#[test]
fn whatever_happens_at_a_call_to_aws_nothing_leaks_is_bought_twice_or_is_lost() {
    let quiet = quiet(&reloader().expect("policies"));
    let calls = calls(&quiet);
    let count = calls.len();
    assert!(count >= 60, "the scenario has become short: {count} calls");
    let cases: Vec<(usize, &str, Case)> = calls
        .into_iter()
        .flat_map(|at| CASES.map(|(name, case)| (at, name, case)))
        .collect();
    // Every case, or one in so many of them.
    let every = std::env::var("LONGSHORE_EVERY").ok();
    let every = every.and_then(|text| text.parse().ok()).unwrap_or(1);
    let cases: Vec<_> = cases.into_iter().step_by(every).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tell = || {
        let reloader = reloader().expect("policies");
        let (mut bad, mut longest) = (String::new(), Duration::ZERO);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(at, name, case)) = cases.get(number) else {
                return (bad, longest);
            };
            let end = end_of_run(Some((at, case)), reloader.clone(), false);
            longest = longest.max(end.took);
            let wrong = judged(&quiet, at, case, &end);
            if !wrong.is_empty() {
                let _ = writeln!(
                    bad,
                    "{}\n  again: LONGSHORE_CASE={at}:{name} cargo test -p longshore-sim \
                     --features aws --test on_ec2 one_case -- --nocapture",
                    wrong.join("\n  ")
                );
            }
        }
    };
    let results: Vec<(String, Duration)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(tell)).collect();
        let joined = running.into_iter().map(|one| one.join().expect("no panic"));
        joined.collect()
    });
    let longest = results.iter().map(|one| one.1).max().unwrap_or_default();
    let total = cases.len();
    eprintln!(
        "{count} calls, {total} cases; the scenario takes {} s, {} s at the longest",
        quiet.took.as_secs(),
        longest.as_secs()
    );
    let bad: String = results.into_iter().map(|one| one.0).collect();
    assert!(bad.is_empty(), "{bad}");
}

/// The case that `LONGSHORE_CASE` names, with all that happens.
#[test]
fn one_case() {
    let Ok(named) = std::env::var("LONGSHORE_CASE") else {
        return;
    };
    let reloader = reloader().expect("policies");
    let quiet = quiet(&reloader);
    let (point, name) = named.split_once(':').expect("NUMBER:CASE");
    let point: usize = point.parse().expect("a number");
    let case = CASES.iter().find(|(own, _)| *own == name);
    let case = case
        .expect("before, during, after, request-lost, reply-lost, …")
        .1;
    let end = end_of_run(Some((point, case)), reloader, true);
    eprintln!("{}", end.transcript);
    assert_eq!(judged(&quiet, point, case, &end), [""; 0]);
}

/// AWS takes a tenth of the calls that it takes elsewhere. Launches need few, since NodeClaims share
/// them.
#[test]
fn throttled_to_a_tenth_nothing_is_wrong() {
    let reloader = reloader().expect("policies");
    let scaled = |share: Option<f64>| {
        let mut setup = Setup::with(3, reloader.clone());
        setup.disrupts = true;
        let ended = paused(async {
            let (harness, account) = harness(setup, AccountOptions::default());
            let world = &harness.world;
            if let Some(share) = share {
                account.faults(&serde_json::json!([{"throttle": {"share": share}}]));
            }
            world.apply(BASE).expect("manifests");
            world.run_for(MINUTE).await;
            world.apply(&apart("web", 60)).expect("manifests");
            let began = world.clock.elapsed();
            assert!(
                world
                    .run_until(|world| world.ready_pods() == 60, LONG)
                    .await,
                "{}",
                world.describe()
            );
            let took = world.clock.elapsed() - began;
            world.run_for(2 * MINUTE).await;
            assert_eq!(harness.settle(LONG).await, [""; 0]);
            world.scale("Deployment", "default", "web", 0);
            let none = "0 pods run, 0 nodes, 0 claims, 0 instances";
            let gone = world.run_until(|world| state(world) == none, 2 * LONG);
            assert!(gone.await, "{}", state(world));
            assert_eq!(harness.settle(LONG).await, [""; 0]);
            assert_eq!(world.cloud.ledger().entries.len(), 60);
            assert_eq!(harness.violations(), [""; 0]);
            let refused = account.calls();
            let refused = refused
                .iter()
                .filter(|call| call["error"] == "RequestLimitExceeded")
                .count();
            (took, refused)
        });
        ended.expect("a runtime")
    };
    let ((usual, none), (throttled, refused)) = (scaled(None), scaled(Some(0.1)));
    eprintln!(
        "60 pods: {} s, throttled {} s",
        usual.as_secs(),
        throttled.as_secs()
    );
    assert!(
        none == 0 && refused > 0,
        "{none} calls were refused, throttled {refused}"
    );
}
