//! Guests that mean harm: each is reported clearly, a good answer is there nevertheless, and
//! nothing is left behind.

use std::path::{Path, PathBuf};

use crate::common::hostile::{HOSTILE, MODES, WORLD, failure, hostile, policies};
use crate::common::{HOST, plugin, says};
use longshore_core::policy::{DISCOURAGED, Policies};
use longshore_policy::{
    Ability, Exclusions, Host, HostConfig, Level, Limits, LoadError, Refusal, Report, Signal,
    Signals, Terms, WasmPolicies,
};

#[test]
fn every_way_to_fail_is_reported_in_its_own_words_and_the_price_answers() {
    for (mode, expected) in MODES {
        let said = failure(&policies(&HOST, mode));
        assert!(says(&said, expected), "{mode}: {said}");
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
        says(&said, "ran out of fuel") || said.contains("more than 10000 times"),
        "{said}"
    );
}

#[test]
fn control_characters_of_a_guest_do_not_reach_a_terminal() {
    assert_eq!(failure(&policies(&HOST, "escape-codes")), "score: [2Jgone");
    assert_eq!(
        failure(&policies(&HOST, "bidi")),
        "score: llew si lla ERROR forged",
        "one line that reads from left to right"
    );
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
fn messages_have_a_quota_by_number_and_by_round() {
    let empty = policies(&HOST, "log-empty");
    empty.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    let said = empty.reports();
    assert_eq!(said.len(), 100, "of 5000 without a text");
    let levels = said.iter().all(
        |report| matches!(report, Report::Said { message, .. } if message.level == Level::Error),
    );
    assert!(levels, "levels are kept");

    let flood = policies(&HOST, "log-flood");
    flood.begin_round(1_700_000_000);
    for _ in 0..25 {
        flood.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    }
    let bytes = |reports: Vec<Report>| -> usize {
        reports.iter().map(|report| report.to_string().len()).sum()
    };
    let in_round = bytes(flood.reports());
    assert!((10_000..80_000).contains(&in_round), "{in_round} bytes");
    flood.begin_round(1_700_000_010);
    flood.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    assert!(
        bytes(flood.reports()) > 10_000,
        "another round, another quota"
    );
}

#[test]
fn costs_far_below_the_price_are_raised_counted_and_said_once() {
    let free = policies(&HOST, "free-p5");
    let price = WORLD.catalogue.offerings()[7].price;
    for round in 0..2 {
        free.begin_round(1_700_000_000 + round);
        let cost = free.score(&WORLD.catalogue, &WORLD.names, WORLD.pool).cost[7];
        assert!((cost / (price * 0.1) - 1.0).abs() < 1e-9, "{cost}");
    }
    let said: Vec<String> = free.reports().iter().map(Report::to_string).collect();
    assert_eq!(said.len(), 1, "once: {said:?}");
    let first = WORLD.catalogue.offerings()[7].instance_type;
    let first = WORLD.names.text(WORLD.catalogue.instance_type(first).name);
    assert!(
        said[0].contains("costs 1 offerings less than `max-discount` allows")
            && said[0].contains(&format!("the first is offering 7 ({first}), which costs 0")),
        "{said:?}"
    );
    assert_eq!(free.tallies()[0].raised, 2);

    let terms = Terms {
        max_discount: 1.0,
        ..Terms::default()
    };
    let given_away = HOST
        .load_on(&terms, &HOSTILE, Some("mode = 'free-p5'"))
        .unwrap();
    let given_away = crate::common::serve(given_away);
    let scores = given_away.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    assert_eq!(scores.cost[7], 0.0);
    assert!(given_away.reports().is_empty());
}

#[test]
fn exclusions_that_are_only_discouraged_are_finite_and_dear() {
    let terms = Terms {
        exclusions: Exclusions::Discourage,
        ..Terms::default()
    };
    let policy = HOST
        .load_on(&terms, &HOSTILE, Some("mode = 'exclude-half'"))
        .unwrap();
    let scores = crate::common::serve(policy).score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    let price = WORLD.catalogue.offerings()[0].price;
    assert_eq!(scores.cost[0], price + DISCOURAGED);
    assert!(scores.discouraged_by(0).is_some() && scores.discouraged_by(599).is_none());
    assert_eq!(scores.cost[599], WORLD.catalogue.offerings()[599].price);
}

#[test]
fn a_policy_reads_no_signal_that_it_does_not_declare() {
    let rows = [("m7g".to_owned(), 0.5), ("c7i.0001".to_owned(), 0.5)];
    let signal = Signal::new(0.0, rows);
    let signals = Signals {
        tables: ["secret", "interruption-rates"]
            .map(|name| (name.to_owned(), signal.clone()))
            .into(),
    };
    for (mode, said) in [
        ("secret", "score: secret: None"),
        ("rates", "score: 0 rates"),
    ] {
        let policies = policies(&HOST, mode);
        policies.set_signals(signals.clone());
        assert_eq!(failure(&policies), said);
    }
    // One that is declared, and that the operator's file leaves out.
    let rates = |signals: Option<&[&str]>| {
        let terms = Terms {
            signals: signals.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            ..Terms::default()
        };
        HOST.load_on(&terms, &plugin("spot-risk"), None).unwrap()
    };
    assert_eq!(rates(None).withheld_signals(), [""; 0]);
    assert_eq!(
        rates(Some(&["other"])).withheld_signals(),
        ["interruption-rates"]
    );
    assert_eq!(
        rates(Some(&["interruption-rates"])).withheld_signals(),
        [""; 0]
    );
}

#[test]
fn what_is_exported_and_not_granted_is_never_asked() {
    let on = |grants: &[Ability]| {
        let terms = Terms {
            grants: grants.iter().copied().collect(),
            ..Terms::default()
        };
        HOST.load_on(&terms, &HOSTILE, Some("mode = 'pool-nan'"))
            .unwrap()
    };
    let costs_only = on(&[Ability::Scorer]);
    assert_eq!(costs_only.not_granted(), [Ability::Commitments]);
    let policies = crate::common::serve(costs_only);
    let scores = policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    assert!(scores.pools.is_empty() && policies.reports().is_empty());
    let nothing = on(&[Ability::Bootstrap]);
    assert!(!nothing.is_scorer() && !nothing.is_bootstrap());
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
fn one_that_flips_its_answers_is_asked_once_for_each_and_believed() {
    let policies = policies(&HOST, "flips");
    let excluded = |now: i64| {
        policies.begin_round(now);
        let ask = || {
            policies
                .score(&WORLD.catalogue, &WORLD.names, WORLD.pool)
                .cost
        };
        let (first, again) = (ask(), ask());
        assert_eq!(first, again, "in one round it says one thing");
        [first[0].is_infinite(), first[1].is_infinite()]
    };
    let found = [0, 1, 2, 3].map(|second| excluded(1_700_000_000 + second));
    assert_eq!(
        found,
        [[false, true], [true, false], [false, true], [true, false]]
    );
    assert!(policies.reports().is_empty());
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
    match HOST.load_bytes(&Terms::everything(), Path::new("guest.wasm"), bytes, None) {
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
        "a core WebAssembly module, not a component; give it the contract's types and wrap it: \
         `wasm-tools component embed wit/policy@0.1.0 -w scorer-policy guest.wasm -o typed.wasm`, then `wasm-tools \
         component new typed.wasm -o policy.wasm`; wasm-tools comes with `cargo install wasm-tools` or \
         from github.com/bytecodealliance/wasm-tools/releases"
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
    assert_eq!(refusal(b""), "it is empty: build the component again");
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
        "it imports what a policy cannot have: `acme:things/api@1.0.0` (only longshore:policy, \
         longshore:consolidation and longshore:bootstrap are offered)"
    );
    assert_eq!(
        import("longshore:policy/offerings@0.1.0", "colours"),
        "it imports what a policy cannot have: `longshore:policy/offerings@0.1.0`.`colours` (no such function; it may need \
         a newer host than 0.1.0)"
    );
    assert_eq!(
        import("longshore:policy/weather@0.1.0", "today"),
        "it imports what a policy cannot have: `longshore:policy/weather@0.1.0` (no such interface; there are \
         chain, joined, labels, log, node-pool, offerings, request, resources, signals)"
    );
    assert_eq!(
        import("longshore:policy/offerings@0.2.0", "count"),
        "it imports what a policy cannot have: `longshore:policy/offerings@0.2.0` (this host offers version 0.1.0; build \
         against that)"
    );
}

/// What `describe` answered before 0.1.0 was settled.
#[test]
fn a_component_of_the_contract_as_it_was_is_told_what_to_do() {
    let record = "(record (field \"name\" string) (field \"version\" string) (field \"summary\" string)
        (field \"implements\" (list string)) (field \"signals\" (list string)) (field \"settings-schema\" string))";
    let said = refusal_of_text(&format!(
        "(component
            (core module $m (memory (export \"memory\") 1) (func (export \"f\") (result i32) i32.const 0))
            (core instance $i (instantiate $m))
            (alias core export $i \"memory\" (core memory $memory))
            (type $about {record})
            (func $describe (result $about) (canon lift (core func $i \"f\") (memory $memory)))
            (component $plugin
                (type $record {record})
                (import \"about\" (type $in (eq $record)))
                (import \"describe\" (func $describe (result $in)))
                (export $out \"description\" (type $in))
                (export \"describe\" (func $describe) (func (result $out))))
            (instance $plugin (instantiate $plugin (with \"about\" (type $about))
                (with \"describe\" (func $describe))))
            (export \"longshore:policy/plugin@0.1.0\" (instance $plugin)))"
    ));
    assert!(
        said.starts_with("it was built for longshore:policy@0.1.0 as it was before"),
        "{said}"
    );
    assert!(
        said.contains("build it again with wit/ or the SDK of this version"),
        "{said}"
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
    }) = HOST.load_bytes(&Terms::everything(), Path::new("guest.wasm"), &bytes, None)
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

/// A component of core instances that are each made of one module.
fn of_instances(count: usize, module: &str) -> String {
    let instances: String = (0..count)
        .map(|number| format!("(core instance $i{number} (instantiate $m))\n"))
        .collect();
    let plugin = "(core module $f (func (export \"f\") (result i32) i32.const 0))
        (core instance $i (instantiate $f))
        (func $f (result u32) (canon lift (core func $i \"f\")))
        (instance $plugin (export \"describe\" (func $f)) (export \"configure\" (func $f)))
        (instance $scorer (export \"score\" (func $f)))
        (export \"longshore:policy/plugin@0.1.0\" (instance $plugin))
        (export \"longshore:policy/scorer@0.1.0\" (instance $scorer))";
    format!("(component (core module $m {module})\n{instances}{plugin})")
}

/// Why a component does not start.
fn does_not_start(text: &str) -> String {
    let bytes = wat::parse_str(text).unwrap();
    match HOST.load_bytes(&Terms::everything(), Path::new("guest.wasm"), &bytes, None) {
        Err(LoadError::Refused {
            refusal: Refusal::Start(error),
            ..
        }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn memories_and_tables_of_all_core_instances_count_together() {
    let limit = "instantiate: wants more than 67108864 bytes of memory";
    // 12 times 10 MiB.
    assert_eq!(does_not_start(&of_instances(12, "(memory 160)")), limit);
    // 10 times a million elements.
    assert_eq!(
        does_not_start(&of_instances(10, "(table 1000000 funcref)")),
        limit
    );
    let both = "(memory 160) (table 1000000 funcref)";
    assert_eq!(does_not_start(&of_instances(4, both)), limit);
}

#[test]
fn a_component_has_a_bounded_number_of_core_instances_memories_and_tables() {
    let said = does_not_start(&of_instances(64, ""));
    assert!(
        said.contains("at most 64 core instances, 16 memories and 64 tables"),
        "{said}"
    );
    let few = does_not_start(&of_instances(63, ""));
    assert!(
        few.contains("expected"),
        "it starts, and is of another type: {few}"
    );
    // An empty memory reserves gigabytes of addresses.
    let said = does_not_start(&of_instances(17, "(memory 0)"));
    assert!(said.contains("16 memories"), "{said}");
    let said = does_not_start(&of_instances(33, "(table 0 funcref) (table 0 funcref)"));
    assert!(said.contains("64 tables"), "{said}");
}

#[test]
fn parts_of_webassembly_that_nobody_needs_are_refused_with_a_way_out() {
    let of = |module: &str| refusal_of_text(&format!("(component (core module {module}))"));
    for (module, hint) in [
        (
            "(func (result v128) (v128.const i64x2 0 0))",
            "; compile without `simd128`",
        ),
        ("(memory i64 1)", "; build for wasm32"),
        ("(func return_call 0)", "; compile without tail calls"),
        (
            "(type (struct (field i32)))",
            "; compile for plain WebAssembly",
        ),
    ] {
        let said = of(module);
        assert!(
            said.starts_with("it uses a part of WebAssembly that policies cannot have: "),
            "{said}"
        );
        assert!(said.ends_with(hint), "{module}: {said}");
    }
    // What QuickJS and CPython need, and several memories.
    for module in [
        "(global i32 (i32.add (i32.const 1) (i32.const 2)))",
        "(table 1 funcref) (table 2 funcref) (func (result funcref) (ref.null func))",
        "(memory 1) (memory 1)",
    ] {
        assert!(of(module).starts_with("it exports nothing"), "{module}");
    }
}
