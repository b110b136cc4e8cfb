//! A policy that excludes what must not be bought, and fails: across restarts, nothing of it is
//! bought, unless the operator's file says so.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::reload::guest::{Way, guest};
use crate::scene::{Scene, setup};
use longshore_core::policy::Policies as _;
use longshore_daemon::live::policies::{Active, Setup};

const ONE: &str = "[[policy]]\nname = 'one'\npath = 'one.wasm'\n";

/// A process with a folder for what outlives it.
fn begin(folder: &Path) -> Scene {
    Scene::with(folder.to_owned(), |folder| Setup {
        copies: Some(folder.join("copies")),
        ..setup(folder)
    })
}

fn folder(name: &str, more: &str, way: Way) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("longshore-failures-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("longshore.toml"), format!("{ONE}{more}")).unwrap();
    std::fs::write(folder.join("one.wasm"), guest("1.0.0", way)).unwrap();
    folder
}

/// The costs of a round, and what answered.
fn round(scene: &Scene) -> (Vec<f64>, Option<Active>) {
    let live = scene.manager.take();
    live.begin_round(1_700_000_000);
    let world = &scene.snapshot.world;
    let scores = live.score(&world.catalogue, &world.names, scene.pool());
    let active = scene.policy("one").active;
    (scores.cost.to_vec(), active)
}

/// Every other offering is excluded; then the component traps, and the process begins again twice.
fn after_two_restarts(name: &str, more: &str) -> (Vec<f64>, Option<Active>, Vec<f64>) {
    let folder = folder(name, more, Way::Alternates(1.0, f64::INFINITY));
    {
        let mut scene = begin(&folder);
        let (costs, active) = round(&scene);
        assert_eq!((costs[0], costs[1]), (1.0, f64::INFINITY));
        assert_eq!(active, Some(Active::Current));
        scene
            .watcher
            .step(SystemTime::now() + Duration::from_secs(120));
        std::fs::write(folder.join("one.wasm"), guest("1.0.1", Way::Traps)).unwrap();
        // The folder stays.
        scene.folder = folder.join("gone");
    }
    {
        let mut scene = begin(&folder);
        round(&scene);
        scene
            .watcher
            .step(SystemTime::now() + Duration::from_secs(240));
        scene.folder = folder.join("gone");
    }
    let scene = begin(&folder);
    let (costs, active) = round(&scene);
    let prices = scene.snapshot.world.catalogue.prices().to_vec();
    (costs, active, prices)
}

#[test]
fn exclusions_of_a_policy_that_traps_hold_across_restarts() {
    let (costs, active, _) = after_two_restarts("last", "");
    assert_eq!(active, Some(Active::LastAnswer));
    for (row, cost) in costs.iter().enumerate() {
        match row % 2 {
            0 => assert!((cost - 1.0).abs() < 1e-5, "row {row} costs {cost}"),
            _ => assert!(cost.is_infinite(), "row {row} costs {cost}"),
        }
    }
}

#[test]
fn a_policy_that_fails_to_hold_lets_nothing_be_bought() {
    let (costs, active, _) = after_two_restarts("hold", "on-failure = 'hold'\n");
    assert_eq!(active, Some(Active::Hold));
    assert!(costs.iter().all(|cost| cost.is_infinite()));
}

#[test]
fn a_policy_that_fails_to_the_price_is_as_if_it_were_not_there() {
    let (costs, active, prices) = after_two_restarts("price", "on-failure = 'price'\n");
    assert_eq!(active, Some(Active::Price));
    assert_eq!(costs, prices);
}

#[test]
fn answers_of_another_name_or_damaged_ones_count_for_nothing() {
    let folder = folder("other", "", Way::Alternates(1.0, f64::INFINITY));
    {
        let mut scene = begin(&folder);
        round(&scene);
        scene
            .watcher
            .step(SystemTime::now() + Duration::from_secs(120));
        scene.folder = folder.join("gone");
    }
    std::fs::write(folder.join("one.wasm"), guest("1.0.1", Way::Traps)).unwrap();
    let files = std::fs::read_dir(folder.join("copies")).unwrap();
    let answers: Vec<PathBuf> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("answers-"))
        .collect();
    let [answers] = &answers[..] else {
        panic!("{answers:?}")
    };
    let text = std::fs::read_to_string(answers).unwrap();
    std::fs::write(answers, &text[..text.len() / 2]).unwrap();
    let scene = begin(&folder);
    assert_eq!(round(&scene).1, Some(Active::Price));
}
