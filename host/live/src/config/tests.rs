use super::*;
use expect_test::{Expect, expect};

/// What a file of this text is read as.
pub(super) fn read(text: &str) -> Result<Config, Vec<ConfigError>> {
    parse(Path::new("conf/longshore.toml"), text)
}

#[test]
fn former_words_of_new_pods_are_read() {
    let read = |word: &str| {
        let text = format!("[planning]\nnew-pods = \"{word}\"\n");
        parse(std::path::Path::new("longshore.toml"), &text)
            .unwrap()
            .planning
            .new_pods
    };
    assert_eq!(
        ["Immediate", "Foresee"].map(read),
        [Some(NewPods::Immediate); 2]
    );
    assert_eq!(
        ["AfterScheduler", "Await"].map(read),
        [Some(NewPods::AfterScheduler); 2]
    );
}

/// Compares what the reader complains of with what is expected.
pub(super) fn faults(text: &str, expected: Expect) {
    let faults = read(text).expect_err("has faults");
    let shown: Vec<String> = faults.iter().map(|fault| format!("{fault}\n")).collect();
    expected.assert_eq(&shown.concat());
}

#[test]
fn every_key_is_read() {
    let config = read(
        r#"
            [planning]
            improve = "thorough"
            node-cost = 0.01
            preference-policy = "Ignore"
            min-values-policy = "BestEffort"
            seed = 7
            time-limit = "2s"

            [[policy]]
            name = "carbon"
            path = "carbon.wasm"
            settings = { usd-per-ton = 90, zones = { "a" = 1.5 } }
            nodepools = ["default", "batch"]
            mode = "enforce"
            grants = ["scorer", "consolidation"]
            signals = ["carbon-intensity"]
            max-discount = "50%"
            exclusions = "discourage"
            on-failure = "hold"

            [[policy]]
            name = "next"
            path = "next.wasm"
            settings-file = "next.toml"
            mode = "shadow"

            [signals.carbon-intensity]
            file = "/data/carbon.json"

            [signals.prices]
            url = "https://prices.example/usd.json"
            every = "90s"
            headers-file = "token"

            [journal]
            dir = "journal"
            max-size = "1GiB"
            segment-size = "200MB"

            [cache]
            dir = "/var/cache/longshore"
            "#,
    )
    .unwrap();
    assert_eq!(
        config,
        Config {
            planning: Planning {
                improve: Some(Effort::Thorough),
                node_cost: Some(0.01),
                new_pods: None,
                preferences: Some(PreferencePolicy::Ignore),
                min_values: Some(MinValuesPolicy::BestEffort),
                seed: Some(7),
                time_limit: Some(Duration::from_secs(2)),
            },
            disruption: Disruption::default(),
            policies: vec![
                PolicyEntry {
                    name: "carbon".into(),
                    source: PolicySource::File("conf/carbon.wasm".into()),
                    settings: serde_json::json!({"usd-per-ton": 90, "zones": {"a": 1.5}}),
                    settings_file: None,
                    nodepools: Some(vec!["default".into(), "batch".into()]),
                    mode: Mode::Enforce,
                    grants: Some([Ability::Scorer, Ability::Consolidation].into()),
                    signals: Some(["carbon-intensity".to_owned()].into()),
                    max_discount: Some(0.5),
                    exclusions: Exclusions::Discourage,
                    on_failure: OnFailure::Hold,
                    canary: None,
                    line: 10,
                },
                PolicyEntry {
                    name: "next".into(),
                    source: PolicySource::File("conf/next.wasm".into()),
                    settings: serde_json::json!({}),
                    settings_file: Some("conf/next.toml".into()),
                    nodepools: None,
                    mode: Mode::Shadow,
                    grants: None,
                    signals: None,
                    max_discount: None,
                    exclusions: Exclusions::Allow,
                    on_failure: OnFailure::LastAnswer,
                    canary: None,
                    line: 22,
                },
            ],
            registries: BTreeMap::new(),
            trust: Vec::new(),
            signals: BTreeMap::from([
                (
                    "carbon-intensity".into(),
                    SignalEntry::File("/data/carbon.json".into())
                ),
                (
                    "prices".into(),
                    SignalEntry::Url {
                        url: "https://prices.example/usd.json".into(),
                        every: Duration::from_secs(90),
                        headers: Some("conf/token".into()),
                    },
                ),
            ]),
            max_ages: BTreeMap::new(),
            journal: Some(JournalEntry {
                dir: Some("conf/journal".into()),
                max_size: Some(1 << 30),
                segment_size: Some(200_000_000),
            }),
            cache: Some("/var/cache/longshore".into()),
        }
    );
}

#[test]
fn an_empty_file_sets_nothing() {
    assert_eq!(read(""), Ok(Config::default()));
}

#[test]
fn unknown_keys_are_faults_with_the_nearest_known_one() {
    faults(
        "[planing]\nseed = 1\n[planning]\nimprov = 'none'\ncolour = 'red'\n[signals.x]\npath \
        = 'x'\n",
        expect![[r#"
                conf/longshore.toml:1:2: unknown table `planing`: expected one of `cache`, `disruption`, `journal`, `planning`, `policy`, `registries`, `signals`, `trust`
                    hint: did you mean `planning`?
                conf/longshore.toml:4:1: unknown key `improv` in [planning]: expected one of `improve`, `min-values-policy`, `new-pods`, `node-cost`, `preference-policy`, `seed`, `time-limit`
                    hint: did you mean `improve`?
                conf/longshore.toml:5:1: unknown key `colour` in [planning]: expected one of `improve`, `min-values-policy`, `new-pods`, `node-cost`, `preference-policy`, `seed`, `time-limit`
                    hint: delete the line; host/docs/configuration.md lists the keys
                conf/longshore.toml:6:1: `file` is missing in [signals.x]
                    hint: add `file = "…"`
                conf/longshore.toml:7:1: unknown key `path` in [signals.x]: expected one of `ec2`, `every`, `file`, `headers-file`, `max-age`, `target`, `types`, `url`
                    hint: delete the line; host/docs/configuration.md lists the keys
            "#]],
    );
}

#[test]
fn values_of_the_wrong_kind_say_what_was_expected() {
    faults(
        "planning = 3\n[[policy]]\nname = 1\nsettings = 'x'\nnodepools = \
        'default'\n[[policy]]\nname = 'a'\npath = 'a.wasm'\nnodepools = [1]\n",
        expect![[r#"
            conf/longshore.toml:1:12: `planning` is an integer: expected a table
                hint: write it as [planning]
            conf/longshore.toml:2:1: `path` is missing in [[policy]]
                hint: add `path = "…"`, or `cel = "…"` for an expression
            conf/longshore.toml:3:8: `name` is an integer: expected a string
                hint: write it in quotes
            conf/longshore.toml:4:12: `settings` is a string: expected a table
                hint: write it as { key = value, … }
            conf/longshore.toml:5:13: `nodepools` is a string: expected an array of strings
                hint: write it in brackets: ["…"]
            conf/longshore.toml:9:14: `nodepools` is an integer: expected a string
                hint: write it in quotes
        "#]],
    );
}

#[test]
fn values_out_of_range_are_faults() {
    faults(
        "[planning]\nimprove = 'fast'\nnode-cost = -1\nseed = -4\npreference-policy = \
        'ignore'\n",
        expect![[r#"
                conf/longshore.toml:2:11: `improve` is `fast`: expected one of `none`, `quick`, `normal`, `thorough`
                    hint: choose one of them
                conf/longshore.toml:3:13: `node-cost` is -1: expected an amount of at least 0
                    hint: it is in USD per hour and node, 0.015 unless set
                conf/longshore.toml:4:8: `seed` is -4: expected an integer of at least 0
                    hint: choose a number from 0 on
                conf/longshore.toml:5:21: `preference-policy` is `ignore`: expected one of `Respect`, `Ignore`
                    hint: did you mean `Ignore`?
            "#]],
    );
}

#[test]
fn a_signal_may_say_how_old_its_data_may_be() {
    let config = read("[signals.a]\nfile = 'a'\nmax-age = '30d'\n[signals.b]\nfile = 'b'\n");
    let expected = BTreeMap::from([("a".to_owned(), 30 * MAX_AGE)]);
    assert_eq!(config.unwrap().max_ages, expected);
    let refused = read("[signals.a]\nfile = 'a'\nmax-age = '0s'\n");
    assert!(refused.is_err());
}

#[test]
fn a_signal_has_one_source_and_a_sensible_schedule() {
    faults(
        "[signals.a]\nfile = 'a'\nurl = 'http://a'\n[signals.b]\nfile = 'b'\nevery = \
        '5m'\n[signals.c]\nurl = 'ftp://c'\nevery = '5 parsecs'\n[signals.d]\nurl = 'http://d'\nevery = '10ms'\n[[policy]]\nname = 'p'\npath = 'p'\nsettings = {}\nsettings-file = 'x'\n",
        expect![[r#"
                conf/longshore.toml:3:7: `url` stands beside `file`: expected one of them
                    hint: delete one of the two
                conf/longshore.toml:6:9: `every` without `url`: a file is read whenever it changes
                    hint: delete the line; `every` is for `url`
                conf/longshore.toml:8:7: `url` is `ftp://c`: expected an address that begins with http:// or https://
                    hint: for a file write `file = "…"`
                conf/longshore.toml:9:9: `every` is `5 parsecs`: expected a duration of 1s to 86400s
                    hint: write it as `90s`, `5m` or `1h30m`
                conf/longshore.toml:12:9: `every` is `10ms`: expected a duration of 1s to 86400s
                    hint: write it as `90s`, `5m` or `1h30m`
                conf/longshore.toml:17:17: `settings-file` stands beside `settings`: expected one of them
                    hint: delete one of the two
            "#]],
    );
}

#[test]
fn spot_placement_scores_are_asked_for_seldom_and_in_groups() {
    let config = read(
        "[signals.a]\nec2 = 'spot-placement-scores'\n[signals.b]\nec2 = 'spot-placement-scores'\n\
        every = '2h'\ntarget = 50\ntypes = ['m5.*, m6i.*', 'c6i.large']\n",
    );
    let entry = |every, target, types: &[&[&str]]| {
        let group = |names: &&[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        SignalEntry::PlacementScores(ScoresEntry {
            every: Duration::from_secs(every),
            target,
            types: types.iter().map(group).collect(),
        })
    };
    let expected = BTreeMap::from([
        ("a".to_owned(), entry(3600, 10, &[])),
        (
            "b".to_owned(),
            entry(7200, 50, &[&["m5.*", "m6i.*"], &["c6i.large"]]),
        ),
    ]);
    assert_eq!(config.unwrap().signals, expected);
    faults(
        "[signals.a]\nec2 = 'spot-placement-scores'\nurl = 'http://a'\nevery = '1m'\ntarget = 0\n\
        types = [' ']\n[signals.b]\nfile = 'b'\ntarget = 5\n[signals.c]\nec2 = 'prices'\n",
        expect![[r#"
                conf/longshore.toml:3:7: `url` stands beside `ec2`: expected one of them
                    hint: delete one of the two
                conf/longshore.toml:4:9: `every` is less than 10m: expected a duration of 10m to 24h with `ec2`
                    hint: EC2 limits such questions; scores change slowly
                conf/longshore.toml:5:10: `target` is 0: expected an integer of 1 to 2000000000
                    hint: it is the number of instances of an imagined request
                conf/longshore.toml:6:9: `types` has an empty text: expected names of instance types
                    hint: write each group as one text: ["m5.*, m6i.*", "c6i.*"]
                conf/longshore.toml:9:10: `target` without `ec2`
                    hint: delete the line, or add `ec2 = "spot-placement-scores"`
                conf/longshore.toml:11:7: `ec2` is `prices`: expected `spot-placement-scores`
                    hint: choose one of them
            "#]],
    );
}

#[test]
fn sizes_of_a_journal_have_units_and_leave_room_for_four_segments() {
    faults(
        "[journal]\ndir = 'j'\nmax-size = '1 TB of it'\nsegment-size = '4KiB'\n",
        expect![[r#"
                conf/longshore.toml:3:12: `max-size` is `1 TB of it`: expected a size of at least 262144 bytes
                    hint: write it as `500MiB` or `1GiB`
                conf/longshore.toml:4:16: `segment-size` is `4KiB`: expected a size of at least 65536 bytes
                    hint: write it as `500MiB` or `1GiB`
            "#]],
    );
    faults(
        "[journal]\nmax-size = '1MiB'\nsegment-size = '512KiB'\n",
        expect![[r#"
                conf/longshore.toml:3:16: `segment-size` is 524288 bytes: expected at most a quarter of `max-size`
                    hint: each segment begins with all that is known, so four must fit
            "#]],
    );
}

#[test]
fn broken_toml_names_the_place() {
    faults(
        "[planning]\nseed = = 1\n",
        expect![[r#"
                conf/longshore.toml:2:8: extra `=`, expected nothing
                    hint: the file is not TOML from here on
            "#]],
    );
}

#[test]
fn settings_survive_the_way_through_toml() {
    let settings = serde_json::json!({
        "usd-per-ton": 90.5, "whole": 3, "on": true, "odd key \"x\"": "tab\tquote\"line\n\u{1}é",
        "zones": {"us-east-1a": 1.5, "deep": {"list": [1, [2, 3], {"a": "b"}]}},
    });
    let again = parse_settings(Path::new("x.toml"), &toml_of(&settings));
    assert_eq!(again, Ok(settings));
}

#[test]
fn a_number_that_a_policy_could_not_be_told_is_a_fault() {
    faults(
        "[[policy]]\nname = 'a'\npath = 'a.wasm'\n[policy.settings]\nlimit = inf\nzones = { x = [1.5, nan] }\n\
         most = 0xFFFFFFFFFFFFFFFF\n",
        expect![[r#"
            conf/longshore.toml:5:9: `limit` is inf: expected a finite number
                hint: leave the key out where there is no limit, or write a large number
            conf/longshore.toml:6:21: `x` is nan: expected a finite number
                hint: leave the key out where there is no limit, or write a large number
            conf/longshore.toml:7:8: `most` is FFFFFFFFFFFFFFFF: expected an integer of 64 bits
                hint: write a smaller one, or a number with a point
        "#]],
    );
}
