//! Launch groups: five pods of one Deployment each need a node, and one CreateFleet is asked for all
//! of them.
//!
//! The scenario runs once for each write and each call to AWS, and each thing that can happen at it.
//! Whatever happens, it ends the same: nothing is left, and nothing was bought twice.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longshore_live::policies::PolicyReloader;
use longshore_sim::harness::{Harness, Kill, Point, Setup, Strike, When, reloader};
use longshore_simcluster::fields;
use longshore_simcluster::server::{Subresource, resources};
use longshore_simcluster::world::{World, paused};
use serde_json::json;

use super::{AccountOptions, BASE, apart, harness, launches, state};

/// What happens at a write or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Killed(When),
    Struck(Strike),
}

const DEATHS: [(&str, Case); 3] = [
    ("before", Case::Killed(When::Before)),
    ("during", Case::Killed(When::During)),
    ("after", Case::Killed(When::After)),
];
/// At calls to AWS alone.
const STRIKES: [(&str, Case); 4] = [
    ("request-lost", Case::Struck(Strike::RequestLost)),
    ("reply-lost", Case::Struck(Strike::ReplyLost)),
    ("error-before", Case::Struck(Strike::ErrorBefore)),
    ("error-after", Case::Struck(Strike::ErrorAfter)),
];

const MINUTE: Duration = Duration::from_secs(60);
/// A process that does not know what another one launched waits until EC2 would show it.
const LONG: Duration = Duration::from_secs(1800);
const FIVE: &str = "5 pods run, 5 nodes, 5 claims, 5 instances";
const NONE: &str = "0 pods run, 0 nodes, 0 claims, 0 instances";

struct End {
    points: Vec<Point>,
    /// How many points there were once all pods ran.
    launched: usize,
    wrong: Vec<String>,
    processes: u32,
    bought: usize,
    launches: usize,
    transcript: String,
}

/// Pods and their NodeClaims go.
fn end(world: &World) {
    world.scale("Deployment", "default", "web", 0);
    for claim in world.server.list(resources::NODE_CLAIM) {
        world.delete("NodeClaim", "", fields::name(&claim));
    }
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
        let (harness, account) = harness(setup, AccountOptions::default());
        let world = &harness.world;
        let mut wrong = Vec::new();
        let mut expect = |what: &str, is: String, wanted: &str| {
            if is != wanted {
                wrong.push(format!("{what}: {is}, not {wanted}"));
            }
        };
        world.apply(BASE).expect("manifests");
        world.run_for(MINUTE / 6).await;
        world.apply(&apart("web", 5)).expect("manifests");
        world.run_for(2 * MINUTE).await;
        let left = harness.settle(LONG).await;
        expect("after the launch", left.join("; "), "");
        expect("after the launch", state(world), FIVE);
        let launched = harness.points().len();
        world.scale("Deployment", "default", "web", 0);
        world.run_for(MINUTE).await;
        end(world);
        world.run_for(2 * MINUTE).await;
        let left = harness.settle(LONG).await;
        expect("in the end", left.join("; "), "");
        expect("in the end", state(world), NONE);
        // A process that was killed at the last of these calls has a successor.
        let points = harness.points();
        world.run_for(MINUTE / 2).await;
        wrong.extend(harness.violations());
        wrong.extend(account.fleet_faults(Duration::from_secs(179)));
        End {
            points,
            launched,
            wrong,
            processes: harness.processes(),
            bought: world.cloud.ledger().entries.len(),
            launches: launches(&account),
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
    let quiet = end_of_run(None, reloader.clone(), true);
    assert_eq!(quiet.wrong, [""; 0], "{}", quiet.transcript);
    assert_eq!((quiet.processes, quiet.bought), (1, 5));
    assert_eq!(quiet.launches, 1, "one CreateFleet for all five");
    quiet
}

/// The points of the launch, from the first NodeClaim on, and each thing that can happen at each.
fn cases(quiet: &End) -> Vec<(usize, &'static str, Case)> {
    let mut all = Vec::new();
    let points = quiet.points.iter().take(quiet.launched).enumerate();
    let begins = |(_, point): &(usize, &Point)| !point.what.starts_with("create nodeclaims");
    for (at, point) in points.skip_while(begins) {
        // A write that is sent is carried out before anything else.
        let possible = |case: Case| point.call || case != Case::Killed(When::During);
        let strikes = STRIKES.iter().filter(|_| point.call);
        let own = DEATHS.iter().filter(|(_, case)| possible(*case));
        all.extend(own.chain(strikes).map(|(name, case)| (at, *name, *case)));
    }
    all
}

#[test]
fn whatever_happens_while_a_group_is_launched_nothing_leaks_or_is_bought_twice() {
    let quiet = quiet(&reloader().expect("policies"));
    let cases = cases(&quiet);
    assert!(cases.len() >= 120, "{} cases are few", cases.len());
    // Every case, or one in so many of them.
    let every = std::env::var("LONGSHORE_EVERY").ok();
    let every = every.and_then(|text| text.parse().ok()).unwrap_or(1);
    let cases: Vec<_> = cases.into_iter().step_by(every).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tell = || {
        let reloader = reloader().expect("policies");
        let mut bad = String::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(at, name, case)) = cases.get(number) else {
                return bad;
            };
            let end = end_of_run(Some((at, case)), reloader.clone(), false);
            let wrong = judged(&quiet, at, case, &end);
            if !wrong.is_empty() {
                let _ = writeln!(
                    bad,
                    "{}\n  again: LONGSHORE_GROUP_CASE={at}:{name} cargo test -p longshore-sim \
                     --features aws --test on_ec2 one_case_of_a_group -- --nocapture",
                    wrong.join("\n  ")
                );
            }
        }
    };
    let bad: String = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(tell)).collect();
        let joined = running.into_iter().map(|one| one.join().expect("no panic"));
        joined.collect()
    });
    eprintln!("{} cases", cases.len());
    assert!(bad.is_empty(), "{bad}");
}

/// The case that `LONGSHORE_GROUP_CASE` names, with all that happens.
#[test]
fn one_case_of_a_group() {
    let Ok(named) = std::env::var("LONGSHORE_GROUP_CASE") else {
        return;
    };
    let reloader = reloader().expect("policies");
    let quiet = quiet(&reloader);
    let (point, name) = named.split_once(':').expect("NUMBER:CASE");
    let point: usize = point.parse().expect("a number");
    let case = DEATHS.iter().chain(&STRIKES).find(|(own, _)| *own == name);
    let case = case.expect("before, during, after, request-lost, …").1;
    let end = end_of_run(Some((point, case)), reloader, true);
    eprintln!("{}", end.transcript);
    assert_eq!(judged(&quiet, point, case, &end), [""; 0]);
}

/// A process dies after the group was bought, and before any NodeClaim names an instance. `meanwhile`
/// happens before its successor comes, and then all goes.
fn died(meanwhile: impl Fn(&Harness)) {
    let reloader = reloader().expect("policies");
    let quiet = quiet(&reloader);
    // Dry runs come earlier, and once more later.
    let points = &quiet.points;
    let claims = |point: &Point| point.what.contains("create nodeclaims");
    let claimed = points.iter().rposition(claims).expect("a claim");
    let launch = |point: &Point| point.what.contains("CreateFleet");
    let launched = points[claimed..].iter().position(launch);
    let point = claimed + launched.expect("a launch");
    let mut setup = Setup::with(1, reloader);
    setup.kill = Some(Kill {
        point,
        when: When::After,
    });
    setup.restart = MINUTE / 2;
    let ended = paused(async {
        let (harness, account) = harness(setup, AccountOptions::default());
        let world = &harness.world;
        world.apply(BASE).expect("manifests");
        world.run_for(MINUTE / 6).await;
        world.apply(&apart("web", 5)).expect("manifests");
        world.run_for(MINUTE / 4).await;
        assert_eq!(world.cloud.ledger().entries.len(), 5);
        let named = |claim: &std::sync::Arc<serde_json::Value>| {
            !fields::text(claim, "/status/providerID").is_empty()
        };
        let claims = world.server.list(resources::NODE_CLAIM);
        assert!(
            claims.len() == 5 && !claims.iter().any(named),
            "{}",
            harness.transcript()
        );
        meanwhile(&harness);
        world.scale("Deployment", "default", "web", 0);
        world.run_for(15 * MINUTE).await;
        end(world);
        world.run_for(MINUTE).await;
        assert_eq!(
            harness.settle(LONG).await,
            [""; 0],
            "{}",
            harness.transcript()
        );
        assert_eq!(state(world), NONE, "{}", harness.transcript());
        assert_eq!(harness.violations(), [""; 0], "{}", harness.transcript());
        assert_eq!(world.cloud.ledger().entries.len(), 5);
        assert!(
            launches(&account) <= 2,
            "the second one only hears of the first"
        );
    });
    ended.expect("a runtime");
}

#[test]
fn members_that_are_deleted_without_a_word_of_their_instances_end_them() {
    died(|harness| end(&harness.world));
}

#[test]
fn instances_of_members_that_were_removed_by_force_are_garbage() {
    died(|harness| {
        let world = &harness.world;
        let claims = world.server.list(resources::NODE_CLAIM);
        for claim in claims.iter().take(2) {
            let key = fields::key(resources::NODE_CLAIM, "", fields::name(claim));
            let release = &mut |claim: &mut serde_json::Value| {
                claim["metadata"]["finalizers"] = json!([]);
            };
            let released = world.server.update(&key, Subresource::Object, release);
            assert!(released.is_ok());
            world.delete("NodeClaim", "", fields::name(claim));
        }
    });
}

/// Three instances are left of what the pods need; two come later.
#[test]
fn a_group_that_is_short_of_capacity_gets_what_there_is_and_the_rest_later() {
    let setup = Setup::with(2, reloader().expect("policies"));
    let ended = paused(async {
        let (harness, account) = harness(setup, AccountOptions::default());
        let world = &harness.world;
        let free = |zone: &str, free: u32| json!({"capacity": {"zone": zone, "free": free}});
        let rules = [("us-east-1a", 3), ("us-east-1b", 0), ("us-east-1c", 0)];
        account.faults(&rules.iter().map(|(zone, left)| free(zone, *left)).collect());
        let narrow = "      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}\n\
             \x20     - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}\n";
        world.apply(&format!("{BASE}{narrow}")).expect("manifests");
        world.run_for(MINUTE / 6).await;
        world.apply(&apart("web", 5)).expect("manifests");
        let three = world.run_until(|world| world.ready_pods() == 3, 5 * MINUTE);
        assert!(three.await, "{}", harness.transcript());
        assert_eq!(world.cloud.ledger().entries.len(), 3);
        account.clear_faults();
        let placed = world.run_until(|world| world.ready_pods() == 5, 15 * MINUTE);
        assert!(placed.await, "{}", world.describe());
        assert_eq!(harness.settle(LONG).await, [""; 0]);
        assert_eq!(state(world), FIVE);
        assert_eq!(world.cloud.ledger().entries.len(), 5);
        assert_eq!(harness.violations(), [""; 0]);
        assert_eq!(account.fleet_faults(Duration::from_secs(179)), [""; 0]);
    });
    ended.expect("a runtime");
}
