//! Guests that mean harm: each is reported clearly, a good answer is there nevertheless, and
//! nothing is left behind.

use std::path::{Path, PathBuf};

use crate::common::hostile::{HOSTILE, MODES, WORLD, failure, hostile, policies};
use crate::common::{HOST, plugin};
use longshore_core::policy::Policies;
use longshore_policy::{Host, HostConfig, Limits, LoadError, Refusal, Report, WasmPolicies};

#[test]
fn every_way_to_fail_is_reported_in_its_own_words_and_the_price_answers() {
    for (mode, expected) in MODES {
        let said = failure(&policies(&HOST, mode));
        assert!(said.contains(expected), "{mode}: {said}");
        assert!(
            said.len() < 2000,
            "{mode}: a report of {} bytes",
            said.len()
        );
    }
}

#[test]
fn calls_that_copy_much_are_stopped_by_fuel_or_count() {
    let said = failure(&policies(&HOST, "column-spam"));
    assert!(
        said.contains("ran out of fuel") || said.contains("more than 10000 times"),
        "{said}"
    );
}

#[test]
fn control_characters_of_a_guest_do_not_reach_a_terminal() {
    assert_eq!(failure(&policies(&HOST, "escape-codes")), "score: [2Jgone");
}

#[test]
fn a_flood_of_messages_is_cut_and_the_answer_counts() {
    let policies = policies(&HOST, "log-flood");
    policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    let reports = policies.reports();
    let bytes: usize = reports.iter().map(|report| report.to_string().len()).sum();
    assert!(
        reports
            .iter()
            .all(|report| matches!(report, Report::Said { .. }))
    );
    assert!(
        (1..=8).contains(&reports.len()) && bytes < 20_000,
        "{} messages, {bytes} bytes",
        reports.len()
    );
}

#[test]
fn a_policy_that_failed_is_asked_again_in_the_next_round_and_not_before() {
    let policies = policies(&HOST, "nan");
    failure(&policies);
    policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    assert!(policies.reports().is_empty(), "not asked a second time");
    policies.begin_round(1_700_000_000);
    failure(&policies);
}

#[test]
fn the_last_good_version_answers_before_the_price_does() {
    let discounted = || crate::common::load("price", "[[discounts]]\npercent = 50");
    let score = |policies: &WasmPolicies| {
        policies
            .score(&WORLD.catalogue, &WORLD.names, WORLD.pool)
            .cost[0]
    };
    let half = WORLD.catalogue.offerings()[0].price * 0.5;

    let policies = crate::common::serve(discounted());
    assert_eq!(score(&policies), half);
    policies.replace(0, hostile(&HOST, "panic"));
    assert_eq!(score(&policies), half);
    let reports: Vec<String> = policies.reports().iter().map(Report::to_string).collect();
    assert!(
        reports
            .iter()
            .any(|r| r.ends_with("its last good version answers for the rest of the round")),
        "{reports:?}"
    );

    let untried = crate::common::serve(discounted());
    untried.replace(0, hostile(&HOST, "panic"));
    assert_eq!(
        score(&untried),
        half * 2.0,
        "a version that never answered is not a good one"
    );
}

#[test]
fn fuel_gives_the_same_verdict_wherever_the_loop_is_cut() {
    let small = Limits {
        fuel: 1_000_000,
        fuel_per_offering: 0,
        ..Limits::default()
    };
    let host = Host::new(HostConfig {
        limits: small,
        ..HostConfig::default()
    })
    .unwrap();
    for _ in 0..3 {
        let said = failure(&policies(&host, "loop"));
        assert_eq!(
            said,
            "score: ran out of fuel after 1000000 units; an endless loop?"
        );
    }
}

#[test]
fn a_loop_with_too_much_fuel_is_stopped_by_the_clock() {
    let limits = Limits {
        fuel: u64::MAX / 2,
        time: std::time::Duration::from_millis(100),
        ..Limits::default()
    };
    let host = Host::new(HostConfig {
        limits,
        ..HostConfig::default()
    })
    .unwrap();
    assert_eq!(
        failure(&policies(&host, "loop")),
        "score: took longer than 100ms"
    );
}

#[test]
fn settings_that_the_policy_itself_refuses_or_chokes_on_do_not_load() {
    let error = |mode: &str| {
        HOST.load(&HOSTILE, Some(&format!("mode = '{mode}'")))
            .unwrap_err()
    };
    assert!(
        matches!(error("configure-refuses"), LoadError::Settings { problem, .. } if problem == "I do not like these settings")
    );
    let LoadError::Refused {
        refusal: Refusal::Start(choked),
        ..
    } = error("configure-panics")
    else {
        panic!()
    };
    assert!(
        choked.to_string().contains("cannot be configured"),
        "{choked}"
    );
}

fn refusal(bytes: &[u8]) -> String {
    match HOST.load_bytes(Path::new("guest.wasm"), bytes, None) {
        Err(LoadError::Refused { refusal, .. }) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

fn refusal_of_text(text: &str) -> String {
    refusal(&wat::parse_str(text).unwrap())
}

#[test]
fn what_is_not_a_component_is_told_apart() {
    let whole = std::fs::read(plugin("price")).unwrap();
    assert_eq!(
        refusal_of_text("(module)"),
        "a core WebAssembly module, not a component; wrap it: `wasm-tools component new guest.wasm -o policy.wasm`"
    );
    for cut in [12, 100, whole.len() / 2, whole.len() - 1] {
        let said = refusal(&whole[..cut]);
        assert!(
            said.starts_with(&format!("damaged or cut short ({cut} bytes): ")),
            "{said}"
        );
    }
    let said = refusal(b"#!/bin/sh\nexit");
    assert!(
        said.starts_with("not WebAssembly: it begins with \"#!/bin/s\"; expected a component"),
        "{said}"
    );
    assert!(refusal(b"").starts_with("not WebAssembly: it begins with \"\""));
    assert!(matches!(
        HOST.load(Path::new("/does/not/exist.wasm"), None),
        Err(LoadError::Read { path, .. }) if path == Path::new("/does/not/exist.wasm")
    ));
}

#[test]
fn imports_from_elsewhere_are_named_with_a_hint() {
    let import = |name: &str, function: &str| {
        refusal_of_text(&format!(
            "(component (import \"{name}\" (instance (export \"{function}\" (func (result u64))))))"
        ))
    };
    assert_eq!(
        import("wasi:clocks/monotonic-clock@0.2.6", "now"),
        "it imports what a policy cannot have: `wasi:clocks/monotonic-clock@0.2.6` (a policy has no clock, files, network \
         or randomness: build for wasm32-unknown-unknown, or stub WASI)"
    );
    assert_eq!(
        import("acme:things/api@1.0.0", "get"),
        "it imports what a policy cannot have: `acme:things/api@1.0.0` (only longshore:policy is offered)"
    );
    assert_eq!(
        import("longshore:policy/offerings@0.1.0", "colours"),
        "it imports what a policy cannot have: `longshore:policy/offerings@0.1.0`.`colours` (no such function; it may need \
         a newer host than 0.1.0)"
    );
    assert_eq!(
        import("longshore:policy/weather@0.1.0", "today"),
        "it imports what a policy cannot have: `longshore:policy/weather@0.1.0` (no such interface; there are \
         built-in, cluster, log, machines, node-pools, nodes, offerings, owners, proposals, request, signals)"
    );
    assert_eq!(
        import("longshore:policy/offerings@0.2.0", "count"),
        "it imports what a policy cannot have: `longshore:policy/offerings@0.2.0` (this host offers version 0.1.0; build \
         against that)"
    );
}

#[test]
fn exports_that_are_missing_or_of_another_type_are_named() {
    assert_eq!(
        refusal_of_text("(component)"),
        "it exports nothing; expected `plugin` of longshore:policy@0.1.0"
    );
    let wrong_type = "(component
        (core module $m (func (export \"f\") (result i32) i32.const 0))
        (core instance $i (instantiate $m))
        (func $f (result u32) (canon lift (core func $i \"f\")))
        (instance $plugin (export \"describe\" (func $f)) (export \"configure\" (func $f)))
        (instance $scorer (export \"score\" (func $f)))
        (export \"longshore:policy/plugin@0.1.0\" (instance $plugin))
        (export \"longshore:policy/scorer@0.1.0\" (instance $scorer)))";
    let bytes = wat::parse_str(wrong_type).unwrap();
    let Err(LoadError::Refused {
        refusal: Refusal::Start(error),
        ..
    }) = HOST.load_bytes(Path::new("guest.wasm"), &bytes, None)
    else {
        panic!()
    };
    assert!(error.to_string().contains("expected"), "{error}");
}

#[test]
fn a_cached_component_is_used_and_a_damaged_one_is_compiled_again() {
    let folder = std::env::temp_dir().join(format!("longshore-cache-{}", std::process::id()));
    let host = || {
        Host::new(HostConfig {
            cache: Some(folder.clone()),
            ..HostConfig::default()
        })
        .unwrap()
    };
    host().load(&plugin("price"), None).unwrap();
    let files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1);
    let mut bytes = std::fs::read(&files[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&files[0], &bytes).unwrap();
    host().load(&plugin("price"), None).unwrap();
    assert_ne!(std::fs::read(&files[0]).unwrap(), bytes, "written anew");
    std::fs::remove_dir_all(&folder).unwrap();
}
