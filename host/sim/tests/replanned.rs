//! Rounds that are planned again with another version cost what `replay --scorer` says of the same
//! rounds, to the cent: what a shadow shows and what decides about a canary is what the journal says.
//!
//! `LONGSHORE_ROUNDS` says how many rounds there are: 1000 each night.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longshore_daemon::replay::{Totals, replay};
use longshore_journal::{Journal, Sizes};
use longshore_live::config;
use longshore_live::policies::{PolicyReloader, PolicyStatus, Setup as Policies, Shadows};
use longshore_sim::harness::generated::types;
use longshore_sim::harness::{Harness, ProcessInputs, Setup};
use longshore_simcluster::world::{World, WorldOptions, paused};

/// Rounds without `LONGSHORE_ROUNDS`.
const ROUNDS: usize = 40;
/// One round of so many is planned again with shadows (`live/policies/compare.rs`).
const SHADOWED: usize = 10;
/// What rounding may make of equal sums, in USD per hour: less than a thousandth of a cent.
const ROUNDING: f64 = 1e-6;

/// The next version rather buys what is large; the shadow nothing small, and in another zone.
const NEXT: &str = "cpu_millicores >= 4000 ? cost * 0.6 : cost";
const SHADOW: &str =
    "cpu_millicores < 2000 ? infinity : cost * (zone == 'test-zone-b' ? 0.8 : 1.0)";

fn manifests() -> String {
    let mut all = "apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web}
spec:
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s, budgets: [{nodes: '100%'}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
"
    .to_owned();
    for (at, cpu) in DEPLOYMENTS.iter().enumerate() {
        all += &format!(
            "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: d{at}}}
spec:
  replicas: 0
  selector: {{matchLabels: {{app: d{at}}}}}
  template:
    metadata: {{labels: {{app: d{at}}}}}
    spec:
      containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: {cpu}, memory: 512Mi}}}}}}]
"
        );
    }
    all
}

/// CPU of a pod of each Deployment.
const DEPLOYMENTS: [&str; 4] = ["300m", "900m", "1700m", "3200m"];

/// A component and settings, as `replay --scorer` reads them.
fn scorer(folder: &Path, name: &str, expression: &str) -> String {
    let settings = folder.join(format!("{name}.toml"));
    std::fs::write(&settings, format!("expression = \"{expression}\"\n")).expect("a file");
    let component = longshore_xtask::guests::plugin("cel");
    format!("{},{}", component.display(), settings.display())
}

fn entry(expression: &str) -> String {
    let component = longshore_xtask::guests::plugin("cel");
    format!("path = {component:?}\nsettings = {{ expression = \"{expression}\" }}\n")
}

/// What a version would have bought in a round, and pods left over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bought {
    claims: u64,
    usd: f64,
    left: u64,
}

impl Bought {
    /// Sums of a status over a week.
    fn of(policy: &PolicyStatus) -> (u64, Bought) {
        let Some(week) = policy.windows.iter().find(|window| window.span == "7d") else {
            return Default::default();
        };
        let sides = week.sums.pools_instead.values();
        let bought = Bought {
            claims: sides.clone().map(|side| side.claims).sum(),
            usd: sides.map(|side| side.usd).sum(),
            left: week.sums.left_instead,
        };
        (week.sums.rounds, bought)
    }

    fn is(&self, totals: &Totals) -> bool {
        (self.claims, self.left) == (totals.claims as u64, totals.left as u64)
            && (self.usd - totals.cost).abs() < ROUNDING
    }
}

/// Rounds that were planned again with a policy, in order.
#[derive(Default)]
struct Seen {
    rounds: u64,
    sum: Bought,
    all: Vec<Bought>,
}

impl Seen {
    fn look(&mut self, policies: &[PolicyStatus], name: &str) {
        let policy = policies.iter().find(|of| of.name == name).expect(name);
        let (rounds, sum) = Bought::of(policy);
        assert!(
            rounds <= self.rounds + 1,
            "{name}: a round was not looked at"
        );
        if rounds == self.rounds {
            return;
        }
        self.all.push(Bought {
            claims: sum.claims - self.sum.claims,
            usd: sum.usd - self.sum.usd,
            left: sum.left - self.sum.left,
        });
        (self.rounds, self.sum) = (rounds, sum);
    }
}

/// What was planned again while so many rounds bought something, and the journal of it.
fn play(rounds: usize, folder: &Path) -> (Seen, Seen) {
    let text = format!(
        "[[policy]]\nname = 'cost'\n{}[policy.canary]\n{}hold = '30d'\nmax-cost-increase = '100%'\n\
         [[policy]]\nname = 'other'\nmode = 'shadow'\n{}",
        entry("cost"),
        entry(NEXT),
        entry(SHADOW)
    );
    let parsed = config::parse(Path::new("longshore.toml"), &text);
    let inline = parsed.unwrap_or_else(|faults| panic!("{faults:?}"));
    let sizes = Sizes {
        all: 1 << 30,
        segment: 1 << 26,
    };
    let journal = Journal::open(&folder.join("journal"), sizes).expect("a journal");
    let policies = Policies {
        inline,
        cache: Some(std::env::temp_dir().join("longshore-canaries-cache")),
        journal: journal.clone(),
        ..Policies::default()
    };
    let (reloader, _watcher, shadows) = PolicyReloader::manual(policies).expect("policies");
    let begun = (reloader.clone(), journal.clone());
    let begin = move |_: u32| ProcessInputs {
        reloader: begun.0.clone(),
        journal: begun.1.clone(),
    };
    let setup = Setup {
        disrupts: true,
        keeps_requests: false,
        world: WorldOptions {
            types: Some(types(8)),
            ..WorldOptions::default()
        },
        ..Setup::beginning(1, Arc::new(begin))
    };
    let seen = paused(rounds_of(setup, &reloader, &shadows, rounds)).expect("a runtime");
    journal.flush();
    let lost = journal.condition().map(|condition| condition.lost);
    assert_eq!(lost, Some(0), "all is in the journal");
    journal.close();
    seen
}

async fn rounds_of(
    setup: Setup,
    reloader: &PolicyReloader,
    shadows: &Shadows,
    rounds: usize,
) -> (Seen, Seen) {
    let harness = Harness::new(setup);
    let world = &harness.world;
    world.apply(&manifests()).expect("manifests");
    let obeyed = |policies: &[PolicyStatus]| {
        let canary = policies.iter().find_map(|of| of.canary.as_ref());
        canary.is_some_and(|canary| !canary.obeyed.is_empty())
    };
    for _ in 0..60 {
        world.run_for(Duration::from_secs(1)).await;
    }
    let said = policies(reloader, world);
    assert!(obeyed(&said), "{said:?}");
    let (mut next, mut shadow) = (Seen::default(), Seen::default());
    let mut turn = 0_u32;
    while next.all.len() < rounds {
        assert!((turn as usize) < 20 * rounds, "{} rounds", next.all.len());
        // More and more pods of one kind, then none of it.
        let at = turn as usize % DEPLOYMENTS.len();
        let replicas = (turn / DEPLOYMENTS.len() as u32) % 4;
        scale(world, at, replicas * (1 + at as u32 % 2));
        for _ in 0..24 {
            world.run_for(Duration::from_millis(500)).await;
            shadows.step();
            let said = policies(reloader, world);
            next.look(&said, "cost (canary)");
            shadow.look(&said, "other");
        }
        turn += 1;
    }
    // What was decided last is planned again, too.
    world.run_for(Duration::from_secs(5)).await;
    shadows.step();
    let said = policies(reloader, world);
    assert!(obeyed(&said), "it was taken back: {said:?}");
    assert_eq!(harness.violations(), Vec::<String>::new());
    (next, shadow)
}

/// What is said of policies at the time of the world.
fn policies(reloader: &PolicyReloader, world: &World) -> Vec<PolicyStatus> {
    let seconds = u64::try_from(world.clock.now().as_second()).unwrap_or_default();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    reloader.status_at(now).policies
}

fn scale(world: &World, at: usize, replicas: u32) {
    let name = format!("d{at}");
    assert!(world.scale("Deployment", "default", &name, replicas));
}

/// What a replay with a scorer says of each round of the journal.
fn replayed(folder: &Path, scorer: &str) -> Vec<(Totals, Totals)> {
    let verdict = replay(&folder.join("journal"), Some(scorer));
    let verdict = verdict.unwrap_or_else(|failure| panic!("{}", failure.report()));
    assert!(verdict.holds(), "{:#?}", verdict.different);
    assert_eq!(verdict.passed_over, 0, "{:#?}", verdict.notes);
    verdict.other.expect("another scorer").by_round
}

/// Rounds with something to place are planned again: those of the replay, and what was seen of them.
fn compare(name: &str, replayed: &[(Totals, Totals)], every: usize, seen: &Seen) -> usize {
    let rounds = replayed.iter().enumerate();
    let again = rounds.filter(|(at, (recorded, _))| {
        at % every == 0 && (recorded.claims > 0 || recorded.left > 0)
    });
    let again: Vec<_> = again.collect();
    assert!(
        (seen.all.len()..=seen.all.len() + 1).contains(&again.len()),
        "{name}: {} rounds planned again, {} by the journal",
        seen.all.len(),
        again.len()
    );
    for (seen, (at, (recorded, with))) in seen.all.iter().zip(&again) {
        assert!(
            seen.is(with),
            "{name}: round {at} with it is {seen:?}, and {with:?} in a replay; {recorded:?} was decided"
        );
    }
    let other = again
        .iter()
        .filter(|(_, (recorded, with))| recorded != with);
    other.count()
}

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("longshore-replanned-{}", std::process::id()));
    _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn what_a_round_costs_when_planned_again_is_what_a_replay_says() {
    let said = std::env::var("LONGSHORE_ROUNDS").ok();
    let rounds = said.and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let folder = folder();
    let (next, shadow) = play(rounds, &folder);
    assert!(next.all.len() >= rounds && shadow.all.len() >= rounds / SHADOWED / 2);
    for (name, expression, every, seen) in [
        ("next", NEXT, 1, &next),
        ("shadow", SHADOW, SHADOWED, &shadow),
    ] {
        let by_round = replayed(&folder, &scorer(&folder, name, expression));
        let other = compare(name, &by_round, every, seen);
        // It says something: the two do not buy the same anyway.
        assert!(other * 10 > seen.all.len(), "{name}: {other} differ");
    }
    _ = std::fs::remove_dir_all(&folder);
}
