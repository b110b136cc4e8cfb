//! Consolidation policies of the daemon: swapped on edit, the last good version, shadows, status.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::scene::{Scene, setup};
use longshore_core::disrupt::methods::{self, Round, RoundOptions};
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use longshore_live::policies::{Active, NoticeKind, Setup};

const CONFIG: &str = "[[policy]]\nname = 'judge'\npath = 'judge.wasm'\nsettings-file = 'judge.toml'\n\
    grants = ['consolidation']\n";

fn settings(mode: &str) -> Vec<u8> {
    format!("mode = '{mode}'\n").into_bytes()
}

fn scene(name: &str, mode: &str, more: &str) -> Scene {
    let judge = std::fs::read(longshore_xtask::guests::build_hostile_judge().unwrap()).unwrap();
    let config = format!("{CONFIG}{more}");
    let files = [
        ("longshore.toml", config.as_bytes()),
        ("judge.wasm", &judge),
        ("judge.toml", &settings(mode)),
    ];
    let mut scene = Scene::new(name, &files);
    scene.snapshot = half_empty();
    scene
}

/// Two half-empty nodes, of which consolidation makes one.
fn half_empty() -> Snapshot {
    let cluster = std::fs::read("../policy/tests/data/half-empty.json").unwrap();
    let mut reader = longshore_api::manifests::Reader::new();
    reader.read("half-empty.json", &cluster);
    let (mut world, _) = reader.finish();
    let types = std::fs::read("tests/data/types.json").unwrap();
    world.catalogue = longshore_kwok::catalogue::parse("types.json", &types, &mut world.names).0;
    world.now = 1_800_000_000;
    Snapshot::new(world.into())
}

/// A look as the disruption loop takes it.
fn look(scene: &Scene) -> Round {
    let live = scene.manager.take().apart_to_disrupt();
    let round = methods::round(
        &scene.snapshot,
        &live,
        RoundOptions::default(),
        Stop::never(),
    );
    scene.manager.finish_look(&live);
    round
}

#[test]
fn a_policy_is_swapped_on_edit_and_its_last_good_version_answers() {
    let mut scene = scene("judge", "rejects", "");
    assert!(look(&scene).now().is_empty());
    let status = scene.policy("judge");
    assert_eq!(status.implements, ["consolidation"]);
    assert!(
        status.stats.declined > 0 && status.failing.is_none(),
        "{status:?}"
    );

    scene.rename("judge.toml", &settings("traps"));
    scene.settle();
    scene.kinds();
    assert!(
        look(&scene).now().is_empty(),
        "the last good version rejects"
    );
    let status = scene.policy("judge");
    let failing = status.failing.clone().unwrap();
    assert!(failing.starts_with("decide: "), "{failing}");
    assert_eq!((status.stats.by_last_good, status.stats.by_rules), (2, 0));
    assert!(scene.kinds().contains(&NoticeKind::PolicyFailing));

    scene.rename("judge.toml", &settings("approves"));
    scene.settle();
    assert!(!look(&scene).now().is_empty());
    let status = scene.policy("judge");
    assert!(
        status.stats.approved > 0 && status.failing.is_none(),
        "{status:?}"
    );
    assert!(scene.kinds().contains(&NoticeKind::PolicyRecovered));
}

#[test]
fn where_no_version_was_ever_good_the_rules_count_and_the_status_says_so() {
    let scene = scene("floor", "traps", "");
    assert!(!look(&scene).now().is_empty());
    let status = scene.policy("judge");
    assert!(
        status.stats.by_rules > 0 && status.stats.failures == 1,
        "{status:?}"
    );
    let notices = scene.manager.notices();
    let said = notices
        .iter()
        .find(|notice| notice.kind == NoticeKind::PolicyFailing);
    let said = &said.unwrap().message;
    assert!(
        said.contains("the rules of NodePools alone count"),
        "{said}"
    );
}

#[test]
fn questions_apart_leave_no_trace() {
    let scene = scene("apart", "rejects", "");
    let live = scene.manager.take().apart();
    let round = methods::round(
        &scene.snapshot,
        &live,
        RoundOptions::default(),
        Stop::never(),
    );
    assert!(round.now().is_empty(), "it is asked");
    assert_eq!(scene.policy("judge").stats.calls, 0);
}

#[test]
fn a_shadow_is_compared_and_never_obeyed() {
    let scene = scene("shadow", "rejects", "mode = 'shadow'\n");
    assert!(!look(&scene).now().is_empty());
    let sum = scene.policy("judge").shadow.unwrap();
    assert_eq!(sum.proposals, 0, "no look waits for it");
    assert!(!look(&scene).now().is_empty());
    scene.shadows.step();
    let sum = scene.policy("judge").shadow.unwrap();
    assert_eq!(
        sum.skipped, 1,
        "the first was not compared when the second came"
    );
    assert!(sum.proposals > 0, "{sum:?}");
    assert_eq!(sum.proposals_differing, sum.proposals);
}

#[test]
fn a_shadow_that_fails_is_said_to() {
    let scene = scene("shadow-fails", "traps", "mode = 'shadow'\n");
    assert!(!look(&scene).now().is_empty());
    scene.shadows.step();
    let status = scene.policy("judge");
    assert!(status.failing.is_some(), "{status:?}");
    assert!(scene.kinds().contains(&NoticeKind::ShadowFailing));
}

/// Whether nodes go in a process that begins with a policy that fails, where the process before had
/// one that rejected every proposal; and what answered.
fn after_a_restart(name: &str, more: &str) -> (bool, Option<Active>) {
    let mut first = scene(name, "rejects", more);
    let folder = first.folder.clone();
    let begin = |folder: &Path| {
        let mut scene = Scene::with(folder.to_owned(), |folder| Setup {
            copies: Some(folder.join("copies")),
            ..setup(folder)
        });
        scene.snapshot = half_empty();
        scene
    };
    // The folder stays.
    first.folder = folder.join("gone");
    {
        let mut scene = begin(&folder);
        assert!(look(&scene).now().is_empty());
        scene
            .watcher
            .step(SystemTime::now() + Duration::from_secs(120));
        scene.folder = folder.join("gone");
    }
    std::fs::write(folder.join("judge.toml"), settings("traps")).unwrap();
    let scene = begin(&folder);
    let goes = !look(&scene).now().is_empty();
    (goes, scene.policy("judge").active)
}

#[test]
fn what_a_policy_rejected_stays_when_it_fails_across_a_restart_unless_the_file_says_otherwise() {
    let last = after_a_restart("last-decisions", "");
    assert_eq!(last, (false, Some(Active::LastAnswer)));
    let held = after_a_restart("held", "on-failure = 'hold'\n");
    assert_eq!(held, (false, Some(Active::Hold)));
    let rules = after_a_restart("rules", "on-failure = 'price'\n");
    assert_eq!(rules, (true, Some(Active::Rules)));
}
