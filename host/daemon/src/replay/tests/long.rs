//! A journal of a thousand rounds and hundreds of judged looks, with both policies swapped in between.

use super::*;

/// How long the longer form may take by the clock, written and replayed: it is a test of every change.
const LIMIT: Duration = Duration::from_secs(120);

/// A swap of a file, seen by the watcher.
fn swap(scene: &mut JournalFixture, now: &mut SystemTime, file: &str, bytes: &[u8]) {
    std::fs::write(scene.folder.join("part"), bytes).unwrap();
    std::fs::rename(scene.folder.join("part"), scene.folder.join(file)).unwrap();
    for _ in 0..2 {
        *now += Duration::from_secs(60);
        scene.watcher.step(*now);
    }
}

#[test]
fn a_thousand_rounds_and_three_hundred_judged_looks_come_out_the_same_with_two_swapped_policies() {
    let begun = std::time::Instant::now();
    let judge = std::fs::read(longshore_xtask::guests::build_hostile_judge().unwrap()).unwrap();
    let config = b"[[policy]]\nname = 'one'\npath = 'one.wasm'\n[[policy]]\nname = 'judge'\n\
        path = 'judge.wasm'\nsettings-file = 'judge.toml'\ngrants = ['consolidation']\n";
    let files: [(&str, &[u8]); 4] = [
        ("longshore.toml", config),
        ("one.wasm", &guest("1.0.0", Way::Alternates(0.1, 0.9))),
        ("judge.wasm", &judge),
        ("judge.toml", b"mode = 'approves'\n"),
    ];
    let mut scene = JournalFixture::new("long", LARGE, &files);
    (0..3).for_each(|number| scene.managed(number, None));
    (0..3).for_each(|number| scene.pod(number, Some(number)));
    let mut now = SystemTime::now() + Duration::from_secs(60);
    let mut looks = 0;
    for round in 0..1000 {
        match round {
            // NaN bits of a guest's own never reach a cost; what it excludes does.
            333 => {
                let next = guest("2.0.0", Way::Alternates(0.9, f64::INFINITY));
                swap(&mut scene, &mut now, "one.wasm", &next);
            }
            500 => swap(&mut scene, &mut now, "judge.toml", b"mode = 'weigh-dear'\n"),
            // From here on it fails, and its last good version answers.
            666 => swap(&mut scene, &mut now, "judge.toml", b"mode = 'traps'\n"),
            _ => {}
        }
        scene.churn(6);
        scene.round();
        if round % 10 < 3 {
            scene.look();
            looks += 1;
        }
    }
    assert_eq!((scene.digests.len(), looks), (1300, 300));
    let verdict = replay(&scene.close(), None).unwrap();
    equal(&verdict, &scene.digests);
    assert_eq!(verdict.passed_over, 0, "{:?}", verdict.notes);
    assert!(verdict.notes.is_empty(), "{:?}", verdict.notes);
    let distinct: BTreeSet<&String> = scene.digests.iter().collect();
    assert!(distinct.len() > 300, "{} different ones", distinct.len());
    let took = begun.elapsed();
    assert!(took < LIMIT, "{took:?}");
}
