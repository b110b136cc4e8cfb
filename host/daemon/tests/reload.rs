//! Policies swapped under the daemon's feet, with real components and real files; time and threads
//! are the test's own.

#[path = "reload/guest.rs"]
pub mod guest;

use std::io::{Read as _, Write as _};
use std::time::{Duration, SystemTime};

use crate::scene::{Scene, setup};
use guest::{BROKEN, Way, guest};
use longshore_core::model::{Catalogue, MoveCost, TypeId};
use longshore_core::policy::Policies as _;
use longshore_live::policies::{Active, DatedBy, NoticeKind, PolicyReloader, Setup};
use longshore_policy::Limits;

const ONE: &[u8] = b"[[policy]]\nname = 'one'\npath = 'one.wasm'\n";

fn costs(cost: f64) -> Vec<u8> {
    guest("1.0.0", Way::Costs(cost))
}

fn one(name: &str) -> Scene {
    Scene::new(name, &[("longshore.toml", ONE), ("one.wasm", &costs(1.0))])
}

#[test]
fn a_component_renamed_into_place_is_taken_over_between_rounds() {
    let mut scene = one("rename");
    assert_eq!(scene.cost(), 1.0);
    scene.rename("one.wasm", &costs(2.0));
    assert_eq!(scene.cost(), 1.0, "before the next look");
    let running = scene.manager.take();
    scene.settle();
    running.begin_round(0);
    let world = &scene.snapshot.world;
    let score = |live: &dyn longshore_core::policy::Policies| {
        live.score(&world.catalogue, &world.names, scene.pool())
    };
    assert_eq!(
        score(&*running).cost[0],
        1.0,
        "a round that has begun ends with what it began with"
    );
    assert_eq!(scene.cost(), 2.0);
    assert_eq!(
        scene.kinds(),
        [NoticeKind::PolicyLoaded, NoticeKind::PolicyLoaded]
    );
    assert_eq!(
        (scene.policy("one").loads, scene.manager.status().swaps),
        (2, 1)
    );
}

#[test]
fn what_was_replaced_or_refused_leaves_memory_to_be_given_back() {
    let mut scene = one("memory");
    let spent = |scene: &Scene| {
        let spent = scene.manager.take_trim_due();
        assert!(!scene.manager.take_trim_due());
        spent
    };
    assert!(spent(&scene), "the first version was compiled");
    // What answered before it goes.
    scene.settle();
    spent(&scene);
    scene.settle();
    assert!(!spent(&scene), "nothing has changed");
    scene.rename("one.wasm", b"not a component");
    scene.settle();
    assert!(spent(&scene), "one was refused");
    scene.rename("one.wasm", &costs(2.0));
    scene.settle();
    assert!(spent(&scene), "another was compiled");
    scene.round();
    assert!(!spent(&scene), "what it replaces is still there");
    scene.settle();
    assert!(spent(&scene), "and then dropped");
}

#[test]
fn an_edit_in_place_is_taken_over() {
    let mut scene = one("edit");
    scene.edit("one.wasm", &costs(3.0));
    scene.settle();
    assert_eq!(scene.cost(), 3.0);
}

#[test]
fn a_config_map_whose_link_is_swapped_is_taken_over() {
    let mut scene = Scene::new("link", &[("longshore.toml", b"")]);
    let version = |name: &str, cost: f64| {
        let folder = scene.folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("one.wasm"), costs(cost)).unwrap();
        std::fs::write(folder.join("longshore.toml"), ONE).unwrap();
        std::os::unix::fs::symlink(name, scene.folder.join("..tmp")).unwrap();
        std::fs::rename(scene.folder.join("..tmp"), scene.folder.join("..data")).unwrap();
    };
    version("..1", 1.0);
    for name in ["longshore.toml", "one.wasm"] {
        let _ = std::fs::remove_file(scene.folder.join(name));
        std::os::unix::fs::symlink(format!("..data/{name}"), scene.folder.join(name)).unwrap();
    }
    version("..2", 2.0);
    scene.settle();
    assert_eq!(scene.cost(), 2.0);
    let version = |name: &str, cost: f64| {
        let folder = scene.folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("one.wasm"), costs(cost)).unwrap();
        std::fs::write(folder.join("longshore.toml"), ONE).unwrap();
        std::os::unix::fs::symlink(name, scene.folder.join("..tmp")).unwrap();
        std::fs::rename(scene.folder.join("..tmp"), scene.folder.join("..data")).unwrap();
        std::fs::remove_dir_all(scene.folder.join("..2")).unwrap();
    };
    version("..3", 3.0);
    scene.settle();
    assert_eq!(scene.cost(), 3.0);
}

/// A component that is large on disk and small in memory.
fn padded(cost: f64, bytes: usize) -> Vec<u8> {
    let mut all = costs(cost);
    // A custom section without a name, its length in LEB128.
    all.push(0);
    let (mut length, content) = (bytes + 1, bytes);
    while length >= 0x80 {
        all.push(length as u8 | 0x80);
        length >>= 7;
    }
    all.extend([length as u8, 0]);
    all.resize(all.len() + content, 0);
    all
}

/// Bytes that this thread has read so far.
pub fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_signal_that_changes_reads_no_component_again() {
    let toml = [ONE, b"[signals.a]\nfile = 'a.json'\n"].concat();
    let files: [(&str, &[u8]); 3] = [
        ("longshore.toml", &toml),
        ("one.wasm", &padded(1.0, 8 << 20)),
        ("a.json", b"{\"x\": 1}"),
    ];
    let mut scene = Scene::new("signal", &files);
    scene.settle();
    let before = bytes_read();
    scene.rename("a.json", b"{\"x\": 2}");
    scene.settle();
    let read = bytes_read() - before;
    assert_eq!(scene.manager.status().signals[0].had, 2);
    assert!(read < 1 << 20, "{read} bytes");
    scene.rename("one.wasm", &padded(2.0, 8 << 20));
    scene.settle();
    assert_eq!((scene.cost(), scene.policy("one").loads), (2.0, 2));
}

#[test]
fn changes_wake_the_thread_that_watches_long_before_it_looks_by_itself() {
    let mut scene = one("woken");
    let version = |name: &str, cost: f64| {
        let folder = scene.folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("one.wasm"), costs(cost)).unwrap();
        std::os::unix::fs::symlink(name, scene.folder.join("..tmp")).unwrap();
        std::fs::rename(scene.folder.join("..tmp"), scene.folder.join("..data")).unwrap();
    };
    version("..1", 1.0);
    std::fs::remove_file(scene.folder.join("one.wasm")).unwrap();
    std::os::unix::fs::symlink("..data/one.wasm", scene.folder.join("one.wasm")).unwrap();
    scene.manager = PolicyReloader::start(setup(&scene.folder)).unwrap();
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        let begin = std::time::Instant::now();
        while !done() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("loaded", &|| scene.cost() == 1.0);
    // Young files are looked at every half second; from then on events alone wake.
    let rests = || {
        let files = scene.manager.status().files;
        (files.look_every_ms, files.without_events) == (30_000, None)
    };
    wait("files are old", &rests);
    version("..2", 2.0);
    wait("swapped", &|| scene.cost() == 2.0);
    wait("files are old again", &rests);
    // Half of it is no component: the other half follows within the time of rest.
    let whole = costs(3.0);
    let (first, rest) = whole.split_at(whole.len() / 2);
    let mut file = std::fs::File::create(scene.folder.join("..2/one.wasm")).unwrap();
    file.write_all(first).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    file.write_all(rest).unwrap();
    drop(file);
    wait("written", &|| scene.cost() == 3.0);
    assert_eq!(scene.policy("one").refused, 0);
}

#[test]
fn a_policy_that_is_slow_but_right_has_half_of_what_a_round_plans_for() {
    let folder = std::env::temp_dir().join(format!("longshore-budget-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let config = [b"[planning]\ntime-limit = '4s'\n", ONE].concat();
    std::fs::write(folder.join("longshore.toml"), config).unwrap();
    std::fs::write(
        folder.join("one.wasm"),
        guest("1.0.0", Way::Slow(50_000_000)),
    )
    .unwrap();
    let scene = Scene::with(folder, |folder| Setup {
        limits: Limits {
            fuel: u64::MAX / 4,
            time: Duration::from_secs(600),
            ..Limits::default()
        },
        ..setup(folder)
    });
    // Questions that differ in what the policy reads, each for a NodePool of its own: no answer holds
    // for another.
    let mut names = scene.snapshot.world.names.clone();
    let all: Vec<_> = (1..=200)
        .map(|rows| {
            (
                first_rows(&scene, rows),
                names.intern(&format!("pool-{rows}")),
            )
        })
        .collect();
    let names = &names;
    let live = scene.manager.take();
    live.begin_round(1_700_000_000);
    let begun = std::time::Instant::now();
    let answers: Vec<f64> = all
        .iter()
        .map(|(catalogue, pool)| live.score(catalogue, names, *pool).cost[0])
        .collect();
    let took = begun.elapsed();
    assert_eq!((answers[0], answers[199]), (1.0, scene.price()));
    assert!(
        took < Duration::from_millis(4900),
        "without `time-limit` it is 5 s: {took:?}"
    );
    let failing = scene.policy("one").failing.unwrap();
    assert!(failing.contains("for a round"), "{failing}");
    live.begin_round(1_700_000_001);
    let (catalogue, pool) = &all[199];
    let again = live.score(catalogue, names, *pool).cost[0];
    assert_eq!(again, 1.0, "each round begins anew");
}

/// The first offerings of a scene's catalogue.
fn first_rows(scene: &Scene, rows: usize) -> Catalogue {
    let world = &scene.snapshot.world;
    let mut left = rows;
    let types = world.catalogue.types().iter().enumerate();
    let cut = types.map(|(at, of)| {
        let offerings = world.catalogue.offerings_of(TypeId(at as u32)).iter();
        let offerings: Vec<_> = offerings.take(left).cloned().collect();
        left -= offerings.len();
        (of.clone(), offerings)
    });
    let cut = cut.filter(|(_, offerings)| !offerings.is_empty());
    Catalogue::new(cut.collect(), &world.names)
}

#[test]
fn what_was_refused_for_want_of_time_is_tried_again_though_no_file_has_changed() {
    let folder = std::env::temp_dir().join(format!("longshore-retry-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("longshore.toml"), ONE).unwrap();
    std::fs::write(folder.join("one.wasm"), costs(1.0)).unwrap();
    let time = Duration::from_millis(300);
    let mut scene = Scene::with(folder, |folder| Setup {
        limits: Limits {
            fuel: u64::MAX / 4,
            time,
            ..Limits::default()
        },
        ..setup(folder)
    });
    scene.round();
    scene.rename("one.wasm", &guest("1.0.1", Way::Loops));
    scene.settle();
    let refused = scene.error("one");
    assert!(refused.contains("took longer than"), "{refused}");
    let begun = std::time::Instant::now();
    scene
        .watcher
        .step(SystemTime::now() + Duration::from_secs(600));
    assert!(begun.elapsed() >= time, "it was tried");
    assert_eq!(scene.policy("one").refused, 1, "and said once");
    assert_eq!(scene.cost(), 1.0);
}

#[test]
fn a_policy_that_is_off_is_as_if_it_were_not_there() {
    let both = |mode: &str| {
        let text = format!(
            "[[policy]]\nname = 'two'\npath = 'two.wasm'\n\
            [[policy]]\nname = 'one'\npath = 'one.wasm'\nmode = '{mode}'\n"
        );
        text.into_bytes()
    };
    let files: [(&str, &[u8]); 3] = [
        ("longshore.toml", &both("off")),
        ("one.wasm", b"not read"),
        ("two.wasm", &costs(2.0)),
    ];
    let mut scene = Scene::new("off", &files);
    assert_eq!((scene.cost(), scene.error("one").as_str()), (2.0, ""));
    scene.rename("one.wasm", &costs(1.0));
    scene.edit("longshore.toml", &both("enforce"));
    scene.settle();
    assert_eq!((scene.cost(), scene.policy("one").loads), (1.0, 1));
    scene.kinds();
    scene.edit("longshore.toml", &both("off"));
    scene.settle();
    assert_eq!((scene.cost(), scene.policy("one").version), (2.0, None));
    assert_eq!(
        scene.kinds(),
        [NoticeKind::PolicyRemoved, NoticeKind::ConfigLoaded]
    );
}

#[test]
fn a_start_with_a_broken_configuration_takes_its_last_good_copy() {
    let folder = std::env::temp_dir().join(format!("longshore-copy-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("longshore.toml"), ONE).unwrap();
    std::fs::write(folder.join("one.wasm"), costs(4.0)).unwrap();
    let with_copies = |folder: &std::path::Path| Setup {
        copies: Some(folder.join("compiled")),
        ..setup(folder)
    };
    let begins = |folder: &std::path::Path| PolicyReloader::manual(with_copies(folder));
    drop(begins(&folder).unwrap());
    std::fs::write(folder.join("longshore.toml"), "[[policy]]\nnme = 'one'\n").unwrap();
    let mut scene = Scene::with(folder, with_copies);
    assert_eq!(scene.cost(), 4.0);
    let error = scene.manager.status().config.error.unwrap();
    assert!(error.reason.contains("`name` is missing"), "{error}");
    let notices = scene.manager.notices();
    assert_eq!(notices[0].kind, NoticeKind::ConfigRefused);
    let said = &notices[0].message;
    assert!(said.ends_with("; its last good copy is in force"), "{said}");
    scene.settle();
    assert!(scene.kinds().is_empty(), "said once");
    scene.edit("longshore.toml", ONE);
    scene.settle();
    assert_eq!(scene.manager.status().config.error, None);
    std::fs::write(scene.folder.join("longshore.toml"), "[[policy]]\nnme = 1\n").unwrap();
    std::fs::remove_dir_all(scene.folder.join("compiled")).unwrap();
    assert!(begins(&scene.folder).is_err(), "there is no copy");
}

#[test]
fn whatever_is_broken_leaves_the_old_one_running_and_says_so() {
    let mut scene = one("broken");
    scene.round();
    scene.kinds();
    let whole = costs(5.0);
    let mut broken: Vec<(Vec<u8>, &str)> = vec![
        (
            b"#!/bin/sh".to_vec(),
            "not WebAssembly: it begins with \"#!/bin/s\"",
        ),
        (Vec::new(), "it is empty: build the component again"),
        (
            wat::parse_str("(module)").unwrap(),
            "a core WebAssembly module, not a component",
        ),
        (whole[..whole.len() / 2].to_vec(), "damaged or cut short"),
    ];
    broken.extend(BROKEN.map(|(way, words)| (guest("9.9.9", way), words)));
    for (bytes, words) in broken {
        scene.rename("one.wasm", &bytes);
        scene.settle();
        let error = scene.error("one");
        assert!(error.contains(words), "expected {words:?} in: {error}");
        assert_eq!(scene.cost(), 1.0, "{words}");
        let notices = scene.manager.notices();
        assert_eq!(
            notices.iter().map(|notice| notice.kind).collect::<Vec<_>>(),
            [NoticeKind::PolicyRefused],
            "{words}"
        );
        assert!(
            notices[0].message.contains("flat 1.0.0 goes on"),
            "{}",
            notices[0].message
        );
        assert!(!notices[0].hint.is_empty(), "{words}");
        scene.settle();
        assert!(scene.kinds().is_empty(), "said once: {words}");
    }
    std::fs::remove_file(scene.folder.join("one.wasm")).unwrap();
    scene.settle();
    assert!(
        scene.error("one").contains("cannot be read: No such file"),
        "{}",
        scene.error("one")
    );
    assert_eq!((scene.cost(), scene.policy("one").refused), (1.0, 11));
    scene.rename("one.wasm", &costs(6.0));
    scene.settle();
    assert_eq!((scene.cost(), scene.error("one").as_str()), (6.0, ""));
}

#[test]
fn an_endless_loop_is_found_out_on_trial() {
    let mut scene = one("loop");
    scene.round();
    scene.rename("one.wasm", &guest("1.0.1", Way::Loops));
    scene.settle();
    assert!(
        scene.error("one").contains("ran out of fuel"),
        "{}",
        scene.error("one")
    );
    assert_eq!(scene.cost(), 1.0);
}

#[test]
fn settings_are_checked_and_named_by_their_line() {
    let mut scene = one("settings");
    scene.edit(
        "longshore.toml",
        &[b"\n", ONE, b"settings = { y = 1 }\n"].concat(),
    );
    scene.settle();
    let error = scene.error("one");
    assert!(
        error.contains("longshore.toml:2: settings: `y`: unknown key"),
        "{error}"
    );
    assert_eq!(scene.cost(), 1.0);

    scene.edit(
        "longshore.toml",
        &[ONE, b"settings-file = 'one.toml'\n"].concat(),
    );
    scene.edit("one.toml", b"x = ");
    scene.settle();
    assert!(
        scene.error("one").contains("one.toml:1:"),
        "{}",
        scene.error("one")
    );
    scene.edit("one.toml", b"x = 1");
    scene.settle();
    assert_eq!(
        (scene.error("one").as_str(), scene.policy("one").loads),
        ("", 2),
        "the settings file is watched"
    );
}

#[test]
fn a_faulty_configuration_leaves_the_last_one_in_force_until_it_is_mended() {
    let mut scene = one("config");
    scene.kinds();
    scene.edit(
        "longshore.toml",
        b"[[policy]]\nname = 'one'\npath = 'one.wasm'\ncolour = 'red'\n",
    );
    scene.settle();
    let error = scene.manager.status().config.error.unwrap();
    assert!(
        error.place.ends_with("longshore.toml:4:1"),
        "{}",
        error.place
    );
    assert!(
        error.reason.starts_with("unknown key `colour`"),
        "{}",
        error.reason
    );
    assert_eq!(
        (scene.cost(), scene.kinds()),
        (1.0, vec![NoticeKind::ConfigRefused])
    );
    scene.edit("longshore.toml", ONE);
    scene.settle();
    assert_eq!(
        (scene.manager.status().config.error, scene.kinds()),
        (None, vec![NoticeKind::ConfigLoaded])
    );
}

#[test]
fn planning_options_are_taken_over_too() {
    let mut scene = one("planning");
    assert_eq!(scene.manager.take().planning().node_cost, None);
    scene.edit(
        "longshore.toml",
        &[ONE, b"[planning]\nnode-cost = 0.02\n"].concat(),
    );
    scene.settle();
    assert_eq!(scene.manager.take().planning().node_cost, Some(0.02));
}

#[test]
fn disruption_options_are_taken_over_too() {
    let mut scene = one("disruption");
    assert_eq!(scene.manager.take().disruption().enabled, None);
    scene.edit(
        "longshore.toml",
        &[ONE, b"[disruption]\nenabled = false\nmove-cost = '50%'\n"].concat(),
    );
    scene.settle();
    let live = scene.manager.take();
    assert_eq!(live.disruption().enabled, Some(false));
    assert_eq!(live.disruption().move_cost, Some(MoveCost::Share(0.5)));
}

#[test]
fn a_configuration_of_disruption_alone_is_in_force_from_the_start() {
    let file = b"[disruption]\nmove-cost = '50%'\n";
    let scene = Scene::new("disruption-alone", &[("longshore.toml", file)]);
    let live = scene.manager.take();
    assert_eq!(live.disruption().move_cost, Some(MoveCost::Share(0.5)));
}

#[test]
fn a_policy_that_never_loaded_is_left_out_of_the_chain_until_it_does() {
    let both = b"[[policy]]\nname = 'one'\npath = 'one.wasm'\n[[policy]]\nname = 'bad'\npath = \
        'bad.wasm'\n";
    let mut scene = Scene::new(
        "seat",
        &[
            ("longshore.toml", both),
            ("bad.wasm", b"x"),
            ("one.wasm", &costs(7.0)),
        ],
    );
    assert_eq!(scene.cost(), 7.0);
    scene.rename("bad.wasm", &costs(8.0));
    scene.settle();
    assert_eq!(scene.cost(), 8.0);
    scene.edit("longshore.toml", ONE);
    scene.settle();
    assert_eq!(scene.cost(), 7.0);
    assert!(scene.kinds().contains(&NoticeKind::PolicyRemoved));
}

#[test]
fn a_version_that_fails_in_a_round_is_answered_for_and_reported_once() {
    // Nothing was asked yet, so that it cannot be tried.
    let mut scene = one("failing");
    scene.rename("one.wasm", &guest("1.0.1", Way::Traps));
    scene.settle();
    for _ in 0..3 {
        assert_eq!(
            scene.cost(),
            scene.price(),
            "it never answered, so there is no last good version"
        );
    }
    assert_eq!(
        scene.kinds(),
        [
            NoticeKind::PolicyLoaded,
            NoticeKind::PolicyLoaded,
            NoticeKind::PolicyFailing
        ]
    );
    let status = scene.policy("one");
    assert_eq!(
        (
            status.stats.calls,
            status.stats.failures,
            status.stats.by_price
        ),
        (3, 3, 3)
    );
    assert_eq!(status.active, Some(Active::Price));
    scene.rename("one.wasm", &costs(2.0));
    scene.settle();
    assert_eq!((scene.cost(), scene.policy("one").failing), (2.0, None));
    assert_eq!(
        scene.kinds(),
        [NoticeKind::PolicyLoaded, NoticeKind::PolicyRecovered]
    );
}

#[test]
fn a_shadow_is_compared_and_never_obeyed() {
    let config = [
        ONE,
        b"[[policy]]\nname = 'next'\npath = 'next.wasm'\nmode = 'shadow'\n",
    ]
    .concat();
    let mut scene = Scene::new(
        "shadow",
        &[
            ("longshore.toml", &config),
            ("one.wasm", &guest("1.0.0", Way::Costs(1.0))),
        ],
    );
    let alone = scene.round();
    assert!(!alone.claims.is_empty(), "the small cluster needs nodes");
    scene.rename("next.wasm", &guest("2.0.0", Way::Alternates(0.25, 0.5)));
    scene.settle();
    let plan = scene.round();
    assert_eq!(plan, alone, "the shadow changes nothing");
    let compared = scene.policy("next").shadow.unwrap();
    let claims = plan.claims.len() as u64;
    assert_eq!(
        (compared.rounds, compared.claims, compared.failures),
        (1, claims, 0)
    );
    assert_eq!(
        compared.enforced, claims as f64,
        "each costs 1 by the policy that is obeyed"
    );
    let odd = plan
        .claims
        .iter()
        .filter(|claim| claim.offering.0 % 2 == 1)
        .count() as u64;
    assert_eq!(
        compared.own,
        0.25 * (claims - odd) as f64 + 0.5 * odd as f64
    );
    assert!(
        compared.differ <= odd && compared.own_instead <= compared.own,
        "{compared:?}"
    );
    let price: f64 = plan.claims.iter().map(|claim| claim.price).sum();
    assert!((compared.price - price).abs() < 1e-9);

    scene.kinds();
    scene.rename("next.wasm", &guest("2.0.1", Way::Traps));
    scene.settle();
    assert_eq!(
        scene.kinds(),
        [NoticeKind::PolicyRefused],
        "a shadow is tried too"
    );
    scene.round();
    assert_eq!(
        scene.policy("next").shadow.unwrap().rounds,
        2,
        "the old one goes on"
    );
}

#[test]
fn what_a_shadow_would_have_chosen_is_counted_and_priced() {
    let config = [
        ONE,
        b"[[policy]]\nname = 'next'\npath = 'next.wasm'\nmode = 'shadow'\n",
    ]
    .concat();
    let odd = guest("1.0.0", Way::Alternates(1.0, 0.5));
    let even = guest("2.0.0", Way::Alternates(0.25, 1.0));
    let mut scene = Scene::new(
        "differ",
        &[
            ("longshore.toml", &config),
            ("one.wasm", &odd),
            ("next.wasm", &even),
        ],
    );
    let plan = scene.round();
    let compared = scene.policy("next").shadow.unwrap();
    let free = plan
        .claims
        .iter()
        .filter(|claim| claim.offering.0 % 2 == 1)
        .count() as u64;
    assert!(
        free > 0 && compared.differ == free,
        "{free} claims on odd rows: {compared:?}"
    );
    assert_eq!((compared.rounds_differing, compared.excluded), (1, 0));
    assert!(
        compared.own_instead < compared.own && compared.enforced_instead > compared.enforced,
        "{compared:?}"
    );
}

#[test]
fn the_threads_do_all_this_by_themselves() {
    let scene = one("threads");
    let manager = PolicyReloader::start(setup(&scene.folder)).unwrap();
    let world = &scene.snapshot.world;
    let cost = || {
        let live = manager.take();
        live.begin_round(0);
        longshore_core::policy::Policies::score(
            &*live,
            &world.catalogue,
            &world.names,
            scene.pool(),
        )
        .cost[0]
    };
    let until = |wanted: f64| {
        let begin = std::time::Instant::now();
        while cost() != wanted {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "the change is not seen"
            );
            std::thread::park_timeout(Duration::from_millis(20));
        }
    };
    // Loading takes its time, on a thread of its own.
    until(1.0);
    scene.rename("one.wasm", &costs(2.0));
    until(2.0);
}

#[test]
fn a_shadow_that_fails_disturbs_nobody_and_says_so_once() {
    let config = b"[[policy]]\nname = 'next'\npath = 'next.wasm'\nmode = 'shadow'\n";
    let mut scene = Scene::new(
        "shadow-fails",
        &[
            ("longshore.toml", config),
            ("next.wasm", &guest("2.0.0", Way::Traps)),
        ],
    );
    scene.kinds();
    let costs: Vec<f64> = (0..2).map(|_| scene.round().cost).collect();
    assert!(costs[0] > 0.0 && costs[0] == costs[1]);
    assert_eq!(scene.policy("next").shadow.unwrap().failures, 2);
    assert_eq!(scene.kinds(), [NoticeKind::ShadowFailing]);
}

/// Answers one request after another with these bytes; `None` leaves the caller waiting.
fn server(answers: Vec<Option<Vec<u8>>>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/table.json", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            match answer {
                Some(bytes) => stream.write_all(&bytes).unwrap_or_default(),
                None => waiting.push(stream),
            }
        }
        // The port stays open without an answer.
        std::thread::park();
    });
    address
}

fn http(status: &str, body: &str) -> Option<Vec<u8>> {
    let length = body.len();
    Some(
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
            .into_bytes(),
    )
}

#[test]
fn a_signal_that_cannot_be_had_keeps_its_last_table() {
    let large = format!("{{\"a\": 1{}}}", " ".repeat(5 << 20));
    let address = server(vec![
        http("200 OK", "{\"a\": 1, \"b\": 2}"),
        http("503 Service Unavailable", "{\"a\": 2}"),
        http("200 OK", "<html>login</html>"),
        http("200 OK", &large),
        None,
        http("200 OK", "{\"a\": 3}"),
    ]);
    let config = format!("[signals.load]\nurl = '{address}?token=secret'\nevery = '1h'\n");
    let mut scene = Scene::new("signal-lost", &[("longshore.toml", config.as_bytes())]);
    let mut now = SystemTime::now();
    let mut ask = |scene: &mut Scene| {
        let before = scene.manager.status().signals[0].clone();
        now += Duration::from_secs(3601);
        // The answer comes from another thread, after any number of steps.
        for _ in 0..5000 {
            scene.watcher.step(now);
            let status = scene.manager.status().signals[0].clone();
            if (status.had, status.failures) != (before.had, before.failures) {
                return status;
            }
            std::thread::yield_now();
            std::thread::park_timeout(Duration::from_millis(2));
        }
        panic!("no answer");
    };
    let good = ask(&mut scene);
    assert_eq!(
        (good.rows, good.error, good.source),
        (Some(2), None, address.clone())
    );
    for words in [
        "it answers with status 503",
        "not a signal: no JSON",
        "limit",
        "timeout",
    ] {
        let status = ask(&mut scene);
        let error = status.error.unwrap();
        assert!(
            error.reason.contains(words),
            "expected {words:?} in {}",
            error.reason
        );
        assert_eq!(
            (status.rows, status.had_at),
            (Some(2), good.had_at),
            "{words}: the last good table stays"
        );
        assert!(!error.to_string().contains("secret"));
    }
    let back = ask(&mut scene);
    assert_eq!(
        (back.rows, back.had, back.failures, back.error),
        (Some(1), 2, 4, None)
    );
    let kinds = scene.kinds();
    assert_eq!(kinds.first(), Some(&NoticeKind::SignalBack));
    assert_eq!(kinds[1..5], [NoticeKind::SignalLost; 4]);
    assert_eq!(kinds.last(), Some(&NoticeKind::SignalBack));
}

#[test]
fn a_signal_from_a_file_is_read_when_it_changes() {
    let config = b"[signals.load]\nfile = 'load.json'\n";
    let mut scene = Scene::new(
        "signal-file",
        &[("longshore.toml", config), ("load.json", b"{\"a\": 1}")],
    );
    let signal = |scene: &Scene| scene.manager.status().signals[0].clone();
    assert_eq!(signal(&scene).rows, Some(1));
    scene.edit("load.json", b"{\"a\": 1, ");
    scene.settle();
    assert!(signal(&scene).error.is_some());
    assert_eq!(signal(&scene).rows, Some(1));
    scene.edit("load.json", b"{\"a\": 1, \"b\": 2}");
    scene.settle();
    assert_eq!((signal(&scene).rows, signal(&scene).error), (Some(2), None));
}

#[test]
fn a_start_needs_a_configuration_and_nothing_else() {
    let folder =
        std::env::temp_dir().join(format!("longshore-reload-start-{}", std::process::id()));
    let failure = PolicyReloader::manual(setup(&folder))
        .map(|_| ())
        .unwrap_err();
    assert!(
        failure.report().starts_with("cannot read"),
        "{}",
        failure.report()
    );
    let config = "[[policy]]\nname = 'one'\npath = 'gone.wasm'\n[signals.x]\nfile = 'gone.json'\n";
    let scene = Scene::new("start", &[("longshore.toml", config.as_bytes())]);
    assert_eq!(scene.cost(), scene.price());
    assert_eq!(
        scene.kinds(),
        [NoticeKind::SignalLost, NoticeKind::PolicyRefused]
    );
}

#[test]
fn the_status_is_an_object_for_programs() {
    let scene = one("status");
    scene.cost();
    let status = serde_json::to_value(scene.manager.status()).unwrap();
    assert_eq!(status["policies"][0]["version"], "flat 1.0.0");
    assert_eq!(status["policies"][0]["mode"], "enforce");
    assert_eq!(status["policies"][0]["calls"], 1);
}

#[test]
fn a_policy_that_costs_all_offerings_alike_is_told_once() {
    let config = [ONE, b"max-discount = '100%'\n"].concat();
    let files = [("longshore.toml", &config[..]), ("one.wasm", &costs(1.0))];
    let mut scene = Scene::new("alike", &files);
    scene.edit("one.wasm", &guest("2.0.0", Way::Costs(0.0)));
    scene.settle();
    scene.manager.notices();
    let notices_of = |scene: &Scene| -> Vec<String> {
        let alike = [NoticeKind::PolicyCostsAlike, NoticeKind::PolicyCostsDiffer];
        let notices = scene.manager.notices().into_iter();
        let notices = notices.filter(|notice| alike.contains(&notice.kind));
        notices.map(|notice| notice.message).collect()
    };
    scene.round();
    let offerings = scene.snapshot.world.catalogue.offerings().len();
    let sentence = format!(
        "policy one costs all {offerings} offerings 0 USD/h for NodePool default: the price decides nothing"
    );
    assert_eq!(notices_of(&scene), [sentence.as_str()]);
    assert_eq!(scene.manager.status().warnings, [sentence.as_str()]);
    let policy = scene.policy("one");
    assert_eq!(policy.alike.len(), 1);
    assert_eq!(policy.alike[0].nodepools, ["default"]);
    // The same answer again, or the same of another version, is no news.
    scene.round();
    scene.edit("one.wasm", &guest("2.0.1", Way::Costs(0.0)));
    scene.settle();
    scene.round();
    assert!(notices_of(&scene).is_empty());
    // An explanation asks for itself, and names the policy as the configuration does.
    let apart = scene.manager.take().apart();
    let options = longshore_core::planner::PlanOptions::default();
    longshore_core::planner::plan(&scene.snapshot, &apart, options).unwrap();
    let alike = longshore_core::policy::Policies::alike(&apart);
    assert_eq!((&*alike[0].policy, alike[0].cost), ("one", 0.0));
    // Until costs differ.
    scene.edit("one.wasm", &guest("3.0.0", Way::Alternates(1.0, 2.0)));
    scene.settle();
    assert_eq!(scene.manager.status().warnings.len(), 1, "not asked yet");
    scene.round();
    assert_eq!(
        notices_of(&scene),
        ["policy one tells offerings apart again"]
    );
    assert!(scene.manager.status().warnings.is_empty());
}

#[test]
fn a_signal_whose_data_is_old_is_told() {
    let config = b"[signals.load]\nfile = 'load.json'\n[signals.slow]\nfile = 'load.json'\nmax-age = '30d'\n";
    let files: [(&str, &[u8]); 2] = [("longshore.toml", config), ("load.json", b"{\"a\": 1}")];
    let scene = Scene::new("signal-age", &files);
    let days = |days: u64| SystemTime::now() + Duration::from_secs(86_400 * days + 60);
    assert!(scene.manager.status().warnings.is_empty());
    let status = scene.manager.status_at(days(3));
    assert_eq!(
        status.warnings,
        ["signal load: its data is 3 d old, more than 1 d"]
    );
    assert_eq!(status.signals[0].dated_by, Some(DatedBy::File));
    assert!(status.signals[0].age_seconds > Some(3 * 86_400));
    assert_eq!(scene.manager.status_at(days(31)).warnings.len(), 2);
}
