//! Replays journals of a small cluster.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use longshore_core::model::OfferingId;
use serde_json::json;

use super::{Verdict, replay};
use longshore_api::kinds::ObjectKind;
use longshore_journal::read::{Item, Reader};
use longshore_journal::record::Record;
use longshore_journal::{Sizes, messages};
use longshore_live::decide::fixture::{JournalFixture, LARGE, segments};
use longshore_live::environment::CatalogueOverlays;
use longshore_live::observe::watch::Change;

#[allow(dead_code, reason = "its other users need the rest")]
#[path = "../../tests/reload/guest.rs"]
mod guest;

mod long;

use guest::{Way, guest};

const ONE: &[u8] = b"[[policy]]\nname = 'one'\npath = 'one.wasm'\n";
const TWO: &[u8] = b"[planning]\nseed = 3\n[[policy]]\nname = 'one'\npath = 'one.wasm'\n[signals.s]\nfile = 's.json'\n";

fn equal(verdict: &Verdict, digests: &[String]) {
    assert!(verdict.holds(), "{:#?}", verdict.different.first());
    assert_eq!(verdict.digests, digests, "{:?}", verdict.notes);
    assert_eq!(verdict.equal, digests.len());
}

#[test]
fn every_round_of_a_journal_comes_out_the_same() {
    let mut scene = JournalFixture::new("replay", LARGE, &[]);
    for _ in 0..12 {
        scene.churn(40);
        scene.round();
    }
    let path = scene.close();
    let verdict = replay(&path, None).unwrap();
    equal(&verdict, &scene.digests);
    assert!(verdict.notes.is_empty(), "{:?}", verdict.notes);
    let distinct: std::collections::BTreeSet<&String> = scene.digests.iter().collect();
    assert!(distinct.len() > 8, "the rounds are different ones");
    equal(&replay(&segments(&path)[0], None).unwrap(), &scene.digests);
}

#[test]
fn what_is_short_in_a_round_is_short_when_it_is_decided_again() {
    let mut scene = JournalFixture::new("short", LARGE, &[]);
    let whole = scene.catalogue.clone();
    let rows = whole.offerings().len() as u32;
    for round in 0..9 {
        // Now nothing, now a third, now everything.
        let short = (0..rows).filter(|row| [false, row % 3 == round % 3, true][round as usize % 3]);
        let short: Vec<_> = short
            .map(|row| (OfferingId(row), scene.time / 1000 + 180))
            .collect();
        scene.catalogue = whole.without_capacity(&short);
        scene.churn(40);
        scene.round();
    }
    let path = scene.close();
    equal(&replay(&path, None).unwrap(), &scene.digests);
}

/// The record of a round has the instance types that it was planned with.
#[test]
fn rounds_with_node_overlays_come_out_the_same() {
    let mut scene = JournalFixture::new("overlays", LARGE, &[]);
    let (offers, overlays) = (scene.catalogue.clone(), CatalogueOverlays::new(&[]));
    let mut numbers = BTreeSet::new();
    for round in 0..8 {
        let only = json!({"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]});
        let kind = ["c6i.large", "m6i.large", "m7g.large"][round % 3];
        let kind =
            json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [kind]});
        let fuse = json!({"example.com/fuse": "4"});
        let overlay = json!({"metadata": {"name": "dear"}, "spec": {"requirements": [only, kind],
            "price": format!("{round}.5"), "capacity": fuse}});
        scene.observe(
            ObjectKind::NodeOverlay,
            Change::Upsert(overlay.to_string().into()),
        );
        let (pools, mut names) = (scene.state.pool_records(), scene.state.names().clone());
        let set = &scene.state.overlays;
        let applied = overlays.apply(&offers, set, &pools, &mut names);
        numbers.insert(applied.catalogue.number());
        scene.catalogue = applied.catalogue;
        scene.churn(40);
        scene.round();
        scene.look();
    }
    assert_eq!(numbers.len(), 8);
    let path = scene.close();
    let verdict = replay(&path, None).unwrap();
    equal(&verdict, &scene.digests);
    assert!(verdict.notes.is_empty(), "{:?}", verdict.notes);
}

#[test]
fn looks_for_disruption_come_out_the_same_among_rounds() {
    let mut scene = JournalFixture::new("looks", LARGE, &[]);
    (0..3).for_each(|number| scene.managed(number, None));
    (0..3).for_each(|number| scene.pod(number, Some(number)));
    let first = scene.look();
    scene.round();
    // A node in a command takes the budget, and its pod needs a place.
    scene.managed(0, Some("d1"));
    let second = scene.look();
    scene.managed(0, None);
    scene.pod(9, None);
    let third = scene.look();
    assert_eq!([first > 0, second > 0, third > 0], [true, false, true]);
    let path = scene.close();
    let verdict = replay(&path, None).unwrap();
    equal(&verdict, &scene.digests);
    assert!(verdict.notes.is_empty(), "{:?}", verdict.notes);
}

/// The verdict on looks that a consolidation policy judged in these modes, one after the other, and
/// their digests; what the journal says decided the last look.
fn judged(name: &str, terms: &str, modes: &[&str]) -> (Verdict, Vec<String>, String) {
    let judge = std::fs::read(longshore_xtask::guests::build_hostile_judge().unwrap()).unwrap();
    let config = format!(
        "[[policy]]\nname = 'judge'\npath = 'judge.wasm'\nsettings-file = 'judge.toml'\n\
        grants = ['consolidation']\n{terms}"
    );
    let settings = |mode: &str| format!("mode = '{mode}'\n");
    let first = settings(modes[0]);
    let files: [(&str, &[u8]); 3] = [
        ("longshore.toml", config.as_bytes()),
        ("judge.wasm", &judge),
        ("judge.toml", first.as_bytes()),
    ];
    let mut scene = JournalFixture::new(name, LARGE, &files);
    (0..3).for_each(|number| scene.managed(number, None));
    (0..3).for_each(|number| scene.pod(number, Some(number)));
    let mut now = SystemTime::now() + Duration::from_secs(60);
    for mode in modes {
        std::fs::write(scene.folder.join("part"), settings(mode)).unwrap();
        std::fs::rename(scene.folder.join("part"), scene.folder.join("judge.toml")).unwrap();
        for _ in 0..2 {
            now += Duration::from_secs(60);
            scene.watcher.step(now);
        }
        scene.look();
        scene.round();
    }
    let path = scene.close();
    let mut said = String::new();
    let mut reader = Reader::open(&path).unwrap();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Record {
            record: Record::Decided(round),
            ..
        } = item
            && round.look.is_some()
        {
            said = messages::round(&round);
        }
    }
    let verdict = replay(&path, None).unwrap();
    (verdict, scene.digests.clone(), said)
}

#[test]
fn looks_that_a_policy_judged_come_out_the_same() {
    let modes = ["approves", "rejects", "later", "weigh-never", "weigh-dear"];
    let (verdict, digests, said) = judged("judged", "", &modes);
    equal(&verdict, &digests);
    assert!(verdict.notes.is_empty(), "{:?}", verdict.notes);
    assert_eq!(verdict.passed_over, 0);
    let looks: BTreeSet<&String> = digests.iter().step_by(2).collect();
    assert!(looks.len() >= 4, "the policy decides: {digests:?}");
    assert!(said.contains(" by judge 6.6.6: "), "{said}");
}

#[test]
fn looks_in_which_a_judging_policy_failed_come_out_the_same_whatever_counted_instead() {
    // The last good version answers for it.
    let (again, digests, said) = judged("judged-good", "", &["rejects", "traps"]);
    equal(&again, &digests);
    assert_eq!(again.passed_over, 0);
    let failed = " by judge 6.6.6 (policy judge failed): removes 0 nodes";
    assert!(said.contains(failed), "{said}");
    let traps = ["weigh-traps"];
    let (held, kept, said) = judged("judged-held", "on-failure = 'hold'\n", &traps);
    equal(&held, &kept);
    let failed = " by `hold` of policy judge (policy judge failed): removes 0 nodes";
    assert!(said.contains(failed), "{said}");
    let (floor, went, said) = judged("judged-floor", "on-failure = 'price'\n", &traps);
    equal(&floor, &went);
    assert!(said.contains(" by price (policy judge failed): "), "{said}");
    assert_ne!(kept[0], went[0], "what counts instead decides");
}

#[test]
fn every_segment_can_be_decided_again_by_itself() {
    let mut scene = JournalFixture::new(
        "alone",
        Sizes {
            all: 1 << 30,
            segment: 24 << 10,
        },
        &[],
    );
    for _ in 0..60 {
        scene.churn(120);
        scene.round();
    }
    let path = scene.close();
    equal(&replay(&path, None).unwrap(), &scene.digests);
    let all = segments(&path);
    assert!(all.len() > 5, "{}", all.len());
    let mut alone = Vec::new();
    for segment in &all {
        let verdict = replay(segment, None).unwrap();
        assert!(
            verdict.holds(),
            "{segment:?}: {:#?}",
            verdict.different.first()
        );
        assert_eq!(verdict.passed_over, 0, "{:?}", verdict.notes);
        alone.extend(verdict.digests);
    }
    assert_eq!(alone, scene.digests);
    // Without one in between, the next begins anew.
    std::fs::remove_file(&all[2]).unwrap();
    let verdict = replay(&path, None).unwrap();
    assert!(
        verdict.holds() && verdict.equal < scene.digests.len(),
        "{:#?}",
        verdict.different.first()
    );
}

#[test]
fn policies_and_signals_answer_again_as_they_did() {
    let files: [(&str, &[u8]); 3] = [
        ("longshore.toml", TWO),
        ("one.wasm", &guest("1.0.0", Way::Costs(0.5))),
        ("s.json", b"{\"a\": 0.1}"),
    ];
    let mut scene = JournalFixture::new("policies", LARGE, &files);
    let mut now = SystemTime::now() + Duration::from_secs(60);
    for (version, way) in [
        ("1.0.0", Way::Costs(0.5)),
        ("1.1.0", Way::Alternates(0.1, 0.9)),
        // Refused on trial: the one before goes on.
        ("1.2.0", Way::Traps),
        ("1.3.0", Way::Alternates(0.9, 0.1)),
    ] {
        std::fs::write(scene.folder.join("part"), guest(version, way)).unwrap();
        std::fs::rename(scene.folder.join("part"), scene.folder.join("one.wasm")).unwrap();
        for _ in 0..2 {
            now += Duration::from_secs(60);
            scene.watcher.step(now);
        }
        scene.churn(30);
        scene.round();
    }
    let path = scene.close();
    let verdict = replay(&path, None).unwrap();
    equal(&verdict, &scene.digests);
    assert!(verdict.notes.is_empty(), "{:?}", verdict.notes);
}

#[test]
fn a_policy_that_is_not_in_the_journal_is_said_to_be_the_reason() {
    let files: [(&str, &[u8]); 2] = [
        ("longshore.toml", ONE),
        ("one.wasm", &guest("1.0.0", Way::Alternates(9.0, 0.1))),
    ];
    let mut scene = JournalFixture::new("missing", LARGE, &files);
    scene.journal.forget();
    (0..30).for_each(|number| scene.pod(number, None));
    scene.round();
    let verdict = replay(&scene.close(), None).unwrap();
    assert_eq!(verdict.different.len(), 1, "{verdict:?}");
    assert!(
        verdict.different[0].reasons[0].contains("policy one 1.0.0"),
        "{:?}",
        verdict.different
    );
    assert!(
        verdict.different[0].reasons[0].contains("is not in the journal"),
        "{:?}",
        verdict.different
    );
    assert_ne!(verdict.different[0].recorded, verdict.different[0].replayed);
}

#[test]
fn another_scorer_differs_by_what_its_own_plans_cost() {
    let other = guest("2.0.0", Way::Alternates(0.1, 9.0));
    let mut scene = JournalFixture::new("other", LARGE, &[]);
    // The same cluster with the other scorer from the start: what it would have decided.
    let files: [(&str, &[u8]); 2] = [("longshore.toml", ONE), ("one.wasm", &other)];
    let mut with = JournalFixture::new("other-with", LARGE, &files);
    std::fs::write(
        with.folder.join("longshore.toml"),
        "[[policy]]\nname = 'one'\npath = 'one.wasm'\n",
    )
    .unwrap();
    let later = SystemTime::now() + Duration::from_secs(60);
    with.watcher.step(later);
    with.watcher.step(later);
    for _ in 0..30 {
        for scene in [&mut scene, &mut with] {
            scene.churn(40);
            scene.round();
        }
    }
    std::fs::write(scene.folder.join("other.wasm"), &other).unwrap();
    let file = scene.folder.join("other.wasm").display().to_string();
    let verdict = replay(&scene.close(), Some(&file)).unwrap();
    equal(&verdict, &scene.digests);
    let expected = replay(&with.close(), Some(&file)).unwrap();
    equal(&expected, &with.digests);
    let (found, own) = (verdict.other.unwrap(), expected.other.unwrap());
    assert_eq!(
        (own.different, own.recorded),
        (0, own.with),
        "its own journal is what it would have done"
    );
    assert_eq!(found.with, own.with);
    assert!(
        found.different > 0 && found.recorded.cost != found.with.cost,
        "{found:#?}"
    );
    assert_eq!((found.rounds, found.first.is_some()), (30, true));
    assert!(found.cheapest.is_some() || found.dearest.is_some());
    let text = super::text::render(&Verdict {
        other: Some(found),
        ..Verdict::default()
    });
    assert!(
        text.contains("other 2.0.0") && text.contains("first"),
        "{text}"
    );
}

#[test]
fn a_gap_is_said_and_a_cut_journal_is_decided_up_to_the_cut() {
    use longshore_api::kinds::ObjectKind;
    use longshore_live::observe::watch::Change;
    let mut scene = JournalFixture::new("gaps", LARGE, &[]);
    scene.churn(30);
    scene.round();
    scene.journal.flush();
    let file = segments(&scene.path()).remove(0);
    let cut = std::fs::metadata(&file).unwrap().len();
    // A pod that the journal cannot take.
    let text = format!(
        r#"{{"metadata":{{"name":"big","namespace":"shop","annotations":{{"x":"{}"}}}},"spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"3"}}}}}}]}},"status":{{"phase":"Pending","conditions":[{{"type":"PodScheduled","status":"False","reason":"Unschedulable"}}]}}}}"#,
        "x".repeat(65 << 20)
    );
    scene.observe(ObjectKind::Pod, Change::Upsert(text.into()));
    scene.round();
    let verdict = replay(&scene.close(), None).unwrap();
    assert_eq!((verdict.equal, verdict.different.len()), (1, 1));
    assert!(
        verdict.different[0].reasons[0].contains("missing since a gap, of pods"),
        "{:?}",
        verdict.different
    );
    assert!(
        verdict.notes[0].contains("1 observations of pods"),
        "{:?}",
        verdict.notes
    );
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..cut as usize + 5]).unwrap();
    let verdict = replay(&file, None).unwrap();
    equal(&verdict, &scene.digests[..1]);
    assert!(
        verdict.notes[0].contains(&format!("read up to byte {cut}")),
        "{:?}",
        verdict.notes
    );
}

/// The verdict on ten rounds that a policy decided on these terms.
fn on_terms(name: &str, terms: &str, way: Way) -> (Verdict, Vec<String>) {
    let config = format!("[[policy]]\nname = 'one'\npath = 'one.wasm'\n{terms}");
    let component = guest("1.0.0", way);
    let files: [(&str, &[u8]); 2] = [
        ("longshore.toml", config.as_bytes()),
        ("one.wasm", &component),
    ];
    let mut scene = JournalFixture::new(name, LARGE, &files);
    for _ in 0..10 {
        scene.churn(40);
        scene.round();
    }
    (replay(&scene.close(), None).unwrap(), scene.digests.clone())
}

#[test]
fn rounds_come_out_the_same_on_the_terms_that_they_were_decided_on() {
    let dear_and_cheap = Way::Alternates(0.0, 0.05);
    let (half, digests) = on_terms("half", "max-discount = '50%'\n", dear_and_cheap);
    equal(&half, &digests);
    let (all, others) = on_terms("all", "max-discount = '100%'\n", dear_and_cheap);
    equal(&all, &others);
    assert_ne!(digests, others, "the terms decide");
}

#[test]
fn rounds_in_which_a_policy_failed_come_out_the_same_whatever_counted_instead() {
    let (held, digests) = on_terms("held", "on-failure = 'hold'\n", Way::Traps);
    equal(&held, &digests);
    let (priced, others) = on_terms("priced", "on-failure = 'price'\n", Way::Traps);
    equal(&priced, &others);
    assert_ne!(digests, others, "nothing is bought where it holds");
}
