//! `longshore policy check --config`: all that a configuration gets wrong, at once.

use std::path::{Path, PathBuf};

use crate::cel::{refused, said};

/// A folder with a configuration.
fn folder(name: &str, config: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("longshore.toml"), config).unwrap();
    folder
}

/// Without the folder and the part of a path that differs by machine.
fn shown(text: &str, folder: &Path) -> String {
    let guests = longshore_xtask::guests::plugin("carbon");
    let guests = guests.parent().unwrap().to_str().unwrap();
    text.replace(folder.to_str().unwrap(), "DIR")
        .replace(guests, "GUESTS")
}

#[test]
fn every_fault_of_a_configuration_is_found_beside_what_is_right() {
    let plugin = longshore_xtask::guests::plugin;
    let config = format!(
        "[[policy]]\nname = 'broken'\npath = 'nothing.wasm'\n\
         [[policy]]\nname = 'carbon'\npath = '{carbon}'\nsignals = ['carbn']\n\
         grants = ['scorer', 'bootstrap']\nsettings = {{ usd-per-ton = 90 }}\n\
         [[policy]]\nname = 'cautious'\npath = '{cautious}'\n\
         [[policy]]\nname = 'not-yet'\ncel = 'cost'\nmode = 'off'\n\
         [signals.carbn]\nfile = 'longshore.toml'\n",
        carbon = plugin("carbon").display(),
        cautious = plugin("cautious").display(),
    );
    let folder = folder("check-config", &config);
    let config = folder.join("longshore.toml");
    let text = refused(&["policy", "check", "--config", config.to_str().unwrap()]);
    expect_test::expect![[r#"
        broken       DIR/nothing.wasm
        refused      DIR/longshore.toml:1: policy broken: cannot read DIR/nothing.wasm: No such file or directory (os error 2)
        carbon       carbon 0.1.0, GUESTS/carbon.wasm
        accepted     {"usd-per-ton":90}
        vectors      1 met
        unused       `grants` has `bootstrap`, which it does not export
        unused       `signals` has `carbn`, which it does not declare; did you mean `carbon-intensity`?
        missing      `[signals.carbon-intensity]`, which it would read
        reads        signal carbon-intensity (withheld: `signals` of its entry has it not)
        cautious     GUESTS/cautious.wasm
        refused      DIR/longshore.toml:10: policy cautious: it exports consolidation, and its `grants` are scorer, commitments: it would be asked nothing
          hint: if that is meant, add "consolidation" to `grants` of its entry
        not-yet      off
        carbn        signal
        refused      DIR/longshore.toml: not a signal: no number at line 1, column 0
          hint: expected a JSON object of numbers: {"us-east-1a": 379.5}
        longshore: refused: policy broken, policy cautious, signal carbn
    "#]].assert_eq(&shown(&text, &folder));
}

#[test]
fn a_pipe_is_not_waited_for_and_a_device_is_not_read_without_end() {
    let folder = folder("check-pipe", "");
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|made| made.success()));
    let pipe = pipe.to_str().unwrap();
    for commands in [
        vec!["policy", "check", pipe],
        vec!["policy", "check", "--config", pipe],
        vec!["policy", "check", "/dev/zero"],
        vec![
            "plan",
            "--config",
            "/dev/zero",
            "--snapshot",
            "tests/data/small.yaml",
        ],
        vec![
            "plan",
            "--scorer",
            pipe,
            "--snapshot",
            "tests/data/small.yaml",
        ],
    ] {
        let text = refused(&commands);
        assert!(
            text.contains("it is not a regular file"),
            "{commands:?}: {text}"
        );
    }
}

#[test]
fn a_node_pool_that_is_not_there_is_said_by_a_plan() {
    let config = "[[policy]]\nname = 'a'\ncel = 'cost'\nnodepools = ['defualt']\n";
    let folder = folder("check-pools", config);
    let config = folder.join("longshore.toml");
    let text = said(&[
        "plan",
        "--snapshot",
        "tests/data/small.yaml",
        "--config",
        config.to_str().unwrap(),
    ]);
    let line = text.lines().find(|line| line.contains("defualt"));
    expect_test::expect!["Policy                     policy a: `nodepools` has `defualt` (did you mean `default`?): no NodePool that is there"].assert_eq(line.unwrap_or_default());
}

#[test]
fn settings_that_no_policy_could_be_given_are_refused_before_it_is_asked() {
    let folder = folder("check-settings", "");
    let settings = folder.join("settings.toml");
    std::fs::write(&settings, format!("note = '{}'\n", "x".repeat(1 << 20))).unwrap();
    let carbon = longshore_xtask::guests::plugin("carbon");
    let typed = [
        carbon.to_str().unwrap(),
        "--settings",
        settings.to_str().unwrap(),
    ];
    let text = refused(&[&["policy", "check"][..], &typed].concat());
    assert!(
        text.contains("settings: they have 1048588 bytes, at most 1 MiB is given to a policy"),
        "{text}"
    );
}

#[test]
fn a_consolidation_policy_is_not_asked_whether_costs_are_monotone() {
    let cautious = longshore_xtask::guests::plugin("cautious");
    let text = refused(&["policy", "prove", cautious.to_str().unwrap(), "--monotone"]);
    expect_test::expect![[r#"
        longshore: cautious 0.1.0 says of no offering what it costs: `monotone` asks that of it
          hint: leave --monotone out; an annotation `monotone` belongs to a scorer
    "#]]
    .assert_eq(&text);
}
