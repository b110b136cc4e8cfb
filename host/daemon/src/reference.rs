//! The references in `host/docs`, generated from the code and compared with the files: every
//! command and flag, every environment variable, every key of `longshore.toml`. `UPDATE_EXPECT=1`
//! writes the files again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use clap::CommandFactory as _;
use expect_test::expect_file;
use longshore_core::model::Settings;
use longshore_core::plan::Effort;

use super::settings;
use crate::args::Args;
use longshore_journal as journal;
use longshore_live::config::{
    self, Config, DEFAULT_URL_INTERVAL, Disruption, JournalEntry, NewPods, Planning, SignalEntry,
};
use longshore_live::decide::deadline::TIME_LIMIT;
use longshore_live::generated_pages::{table, with_section};

mod commands;

use commands::{commands, karpenter};

const PAGE: &str = include_str!("../../docs/configuration.md");

fn code(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("`{text}`")
    }
}

/// A key of `longshore.toml`.
struct Key {
    table: &'static str,
    key: &'static str,
    /// As in the file; empty for none.
    default: &'static str,
    meaning: &'static str,
}

const fn key(
    table: &'static str,
    key: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key {
        table,
        key,
        default,
        meaning,
    }
}

/// All of them. What a value may be is asked of the reader, and that this list is complete.
const KEYS: [Key; 55] = [
    key(
        "[planning]",
        "improve",
        "\"normal\"",
        "How much work goes into a cheaper plan.",
    ),
    key(
        "[planning]",
        "node-cost",
        "0.015",
        "Cost of each node beside its price, USD per hour.",
    ),
    key(
        "[planning]",
        "new-pods",
        "\"Immediate\"",
        "Whether to plan for pods that kube-scheduler has not tried.",
    ),
    key(
        "[planning]",
        "preference-policy",
        "\"Respect\"",
        "Whether preferred terms of pods count.",
    ),
    key(
        "[planning]",
        "min-values-policy",
        "\"Strict\"",
        "Whether `minValues` may be lowered to what is available.",
    ),
    key("[planning]", "seed", "0", "Decides between equal choices."),
    key(
        "[planning]",
        "time-limit",
        "\"10s\"",
        "A plan that takes longer is replaced by one of less effort, mostly first-fit. Scorers share half of it, 5 s at most.",
    ),
    key(
        "[disruption]",
        "enabled",
        "true",
        "Whether nodes are disrupted: emptiness, drift, consolidation.",
    ),
    key(
        "[disruption]",
        "move-cost",
        "",
        "What one moved pod must save: a share of what a pod of its NodePool costs, or USD per \
        hour. Without it 10%, and 50% where the policy is Balanced. Annotation \
        longshore.dev/move-cost of a NodePool counts before it.",
    ),
    key(
        "[[policy]]",
        "name",
        "",
        "Name in reports and metrics; unique. Required.",
    ),
    key(
        "[[policy]]",
        "path",
        "",
        "The component, relative to this file. It, `oci`, `oci-layout`, `cel` or `prefer` is required.",
    ),
    key(
        "[[policy]]",
        "cel",
        "",
        "An expression instead of a component: what an offering costs in USD per hour. See [CEL](cel.md).",
    ),
    key(
        "[[policy]]",
        "prefer",
        "",
        "Instead of a component: `families`, `generations` and `architectures` in the order in which they are \
         wanted, and the `tolerance` of a step. See [CEL](cel.md#prefer).",
    ),
    key(
        "[[policy]]",
        "oci",
        "",
        "Where the component is in a registry, instead of `path`: host, repository, perhaps a tag, and the \
         digest that counts: `reg.example/policies/carbon:1.4@sha256:…`.",
    ),
    key(
        "[[policy]]",
        "oci-layout",
        "",
        "The same for a folder in the OCI image layout: `/policies@sha256:…`.",
    ),
    key(
        "[[policy]]",
        "settings",
        "",
        "Settings that configure the policy.",
    ),
    key(
        "[[policy]]",
        "settings-file",
        "",
        "A TOML file with the settings, instead of `settings`.",
    ),
    key(
        "[[policy]]",
        "nodepools",
        "",
        "NodePools that it scores; all if left out.",
    ),
    key(
        "[[policy]]",
        "mode",
        "\"enforce\"",
        "Whether its costs decide, are only compared, or the policy is left out.",
    ),
    key(
        "[[policy]]",
        "grants",
        "[\"scorer\", \"commitments\"]",
        "What it may be asked, of what it exports: `scorer`, `commitments`, `consolidation`, `bootstrap`. \
         `bootstrap` is root on every node that boots with it.",
    ),
    key(
        "[[policy]]",
        "signals",
        "",
        "Signals that it may read, of those that it declares; all of these if left out. An expression declares \
         those that it names.",
    ),
    key(
        "[[policy]]",
        "max-discount",
        "\"90%\"",
        "How far below the list price a cost may be: a lower one is raised, counted and said once. \
         Commitments are excepted.",
    ),
    key(
        "[[policy]]",
        "exclusions",
        "\"allow\"",
        "Whether offerings that it excludes are not bought, or only where nothing else fits.",
    ),
    key(
        "[[policy]]",
        "on-failure",
        "\"last-answer\"",
        "What counts where neither it nor its last good version answers: what it last said, what counts \
         without the policy (list price, rules of NodePools, built-in user data), or nothing is bought, \
         consolidated or launched.",
    ),
    key(
        "[[policy]]",
        "canary",
        "",
        "How its next version takes over, see `[policy.canary]` and [Canary](canary.md).",
    ),
    key(
        "[policy.canary]",
        "path",
        "",
        "The component of the next version. It, `oci`, `oci-layout`, `cel` or `prefer` is required.",
    ),
    key("[policy.canary]", "cel", "", "As in `[[policy]]`."),
    key("[policy.canary]", "prefer", "", "As in `[[policy]]`."),
    key("[policy.canary]", "oci", "", "As in `[[policy]]`."),
    key("[policy.canary]", "oci-layout", "", "As in `[[policy]]`."),
    key(
        "[policy.canary]",
        "settings",
        "",
        "Settings of the next version.",
    ),
    key(
        "[policy.canary]",
        "settings-file",
        "",
        "A TOML file with them, instead of `settings`.",
    ),
    key(
        "[policy.canary]",
        "order",
        "[[\"*\"]]",
        "NodePools by name, step by step; `*` in the last step for all that are left.",
    ),
    key(
        "[policy.canary]",
        "hold",
        "\"30m\"",
        "How long a step lasts at the least, and 20 rounds in which it was asked.",
    ),
    key(
        "[policy.canary]",
        "promote",
        "\"ask\"",
        "Whether each step waits for `longshore policy promote`, or for nothing more.",
    ),
    key(
        "[policy.canary]",
        "max-cost-increase",
        "\"10%\"",
        "How much dearer plans with the next version may be than those without, before it is taken back.",
    ),
    key(
        "[registries.HOST]",
        "auth-file",
        "",
        "A `.dockerconfigjson` with the credentials, read each time that the registry asks for them.",
    ),
    key(
        "[registries.HOST]",
        "ca-file",
        "",
        "Authorities in PEM: these alone are trusted for this registry.",
    ),
    key(
        "[registries.HOST]",
        "mirror",
        "",
        "A host, perhaps with a path, that is asked first. Its settings are under its own host.",
    ),
    key(
        "[registries.HOST]",
        "plain-http",
        "false",
        "Without TLS: on this machine, elsewhere only with `insecure`.",
    ),
    key(
        "[registries.HOST]",
        "insecure",
        "false",
        "Allows `plain-http` to other machines.",
    ),
    key(
        "[[trust]]",
        "key-file",
        "",
        "A public key in PEM, P-256: `cosign.pub`. Required.",
    ),
    key(
        "[[trust]]",
        "for",
        "",
        "What has to be signed by it: repositories as in `oci`, or the folder of `oci-layout`; `*` for any \
         characters. Required.",
    ),
    key(
        "[signals.NAME]",
        "file",
        "",
        "A JSON object of numbers, read again when it changes.",
    ),
    key(
        "[signals.NAME]",
        "url",
        "",
        "Where `longshore run` fetches it, instead of `file`.",
    ),
    key(
        "[signals.NAME]",
        "headers-file",
        "",
        "With `url`: a file of headers, `Name: value` on each line, read at each request.",
    ),
    key(
        "[signals.NAME]",
        "ec2",
        "",
        "What EC2 is asked, instead of `file`; with `--provider aws`.",
    ),
    key(
        "[signals.NAME]",
        "types",
        "",
        "With `ec2`: a question for each text, which has names of instance types with `*` for any text, separated by commas. Without it, one for each of the categories c, m and r and each architecture.",
    ),
    key(
        "[signals.NAME]",
        "target",
        "",
        "With `ec2`: instances of the request that is scored; 10 without it.",
    ),
    key(
        "[signals.NAME]",
        "every",
        "\"5m\"",
        "How often `url` is fetched. How often EC2 is asked: at least 10m, 1h without it.",
    ),
    key(
        "[signals.NAME]",
        "max-age",
        "\"1d\"",
        "How old its data may be: `longshore status` warns of older data. Without it a day, or three times `every` if that is longer.",
    ),
    key(
        "[journal]",
        "dir",
        "",
        "Folder of the journal; without it and `--journal` nothing is written.",
    ),
    key(
        "[journal]",
        "max-size",
        "\"1GiB\"",
        "Size of all segments together.",
    ),
    key(
        "[journal]",
        "segment-size",
        "\"64MiB\"",
        "Size of one segment; at most a quarter of `max-size`.",
    ),
    key(
        "[cache]",
        "dir",
        "\"/var/lib/longshore/cache\"",
        "Where policies are kept: compiled in the folder `compiled` in it, those from registries in `bundles`, both closed to other users. Without it the default if that is there, else a folder of the user's. Of commands on files the latter two alone.",
    ),
];

/// `[signals.NAME]` as a file has it.
fn header(table: &str) -> String {
    table
        .replace("[policy.canary]", "[[policy]]\n[policy.canary]")
        .replace("NAME", "name")
        .replace("HOST", "\"reg.example\"")
}

/// What the reader complains of.
fn faults(text: &str) -> Vec<String> {
    let faults = config::parse(Path::new("longshore.toml"), text)
        .err()
        .unwrap_or_default();
    faults
        .iter()
        .map(|fault| fault.message().to_owned())
        .collect()
}

/// What the reader says it expects of a key, found with a value that is wrong.
fn expected(key: &Key) -> String {
    let wrong =
        ["\"?\"", "-1"].map(|value| format!("{}\n{} = {value}\n", header(key.table), key.key));
    let unknown = format!("unknown {} ", key.key);
    let about = |message: &&String| {
        message.contains(&format!("`{}`", key.key)) || message.starts_with(&unknown)
    };
    let said = wrong
        .iter()
        .flat_map(|text| faults(text))
        .collect::<Vec<_>>();
    let said = said
        .iter()
        .filter(about)
        .filter_map(|message| message.split_once("expected "));
    // A string is expected before anything that is more particular.
    let said = said
        .map(|(_, expected)| expected.to_owned())
        .max_by_key(String::len);
    said.unwrap_or_else(|| "a string".to_owned())
}

/// Keys that the reader knows, by table, from what it says of one that it does not know.
fn known(table: &str) -> BTreeSet<String> {
    let said = faults(&format!("{}\nno-such-key = 1\n", header(table)));
    let said = said
        .iter()
        .find(|message| message.starts_with("unknown key `no-such-key`"))
        .expect("a fault");
    let (_, keys) = said.split_once("expected ").expect("keys");
    keys.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn keys() -> String {
    let row = |key: &Key| {
        vec![
            code(key.table),
            code(key.key),
            expected(key),
            code(key.default),
            key.meaning.to_owned(),
        ]
    };
    table(
        &["table", "key", "value", "default", "meaning"],
        KEYS.iter().map(row),
    )
}

#[test]
fn the_reference_of_the_configuration_is_that_of_the_code() {
    let mut command = Args::command();
    command.build();
    let page = with_section(PAGE, "keys", &keys());
    let page = with_section(&page, "commands", &commands(&command, "longshore"));
    let page = with_section(&page, "karpenter", &karpenter(&command, false));
    let page = with_section(&page, "without effect", &karpenter(&command, true));
    expect_file!["../../docs/configuration.md"].assert_eq(&page);
}

#[test]
fn every_key_that_the_reader_knows_is_in_the_reference() {
    let tables: BTreeSet<&str> = KEYS.iter().map(|key| key.table).collect();
    for table in &tables {
        let listed: BTreeSet<String> = KEYS
            .iter()
            .filter(|key| key.table == *table)
            .map(|key| key.key.to_owned())
            .collect();
        assert_eq!(known(table), listed, "{table}");
    }
    let said = faults("no-such-table = {}\n").concat();
    let named = |table: &&str| {
        said.contains(&format!(
            "`{}`",
            table.trim_matches(['[', ']']).split('.').next().unwrap()
        ))
    };
    assert_eq!(
        (
            said.matches('`').count() / 2 - 1,
            tables.iter().filter(|table| named(table)).count()
        ),
        (8, 9),
        "{said}"
    );
}

#[test]
fn the_defaults_in_the_reference_are_those_of_the_code() {
    let mut text = String::new();
    for table in ["[planning]", "[disruption]", "[signals.NAME]", "[journal]"] {
        text += &format!("{}\n", header(table));
        text += if table == "[signals.NAME]" {
            "url = 'https://example.test'\n"
        } else {
            ""
        };
        for key in KEYS
            .iter()
            .filter(|key| key.table == table && !key.default.is_empty())
        {
            text += &format!("{} = {}\n", key.key, key.default);
        }
    }
    let settings = Settings::default();
    let planning = Planning {
        improve: Some(Effort::default()),
        node_cost: Some(Settings::NODE_COST),
        new_pods: Some(NewPods::default()),
        preferences: Some(settings.preferences),
        min_values: Some(settings.min_values),
        seed: Some(0),
        time_limit: Some(TIME_LIMIT),
    };
    let signal = SignalEntry::Url {
        url: "https://example.test".into(),
        every: DEFAULT_URL_INTERVAL,
        headers: None,
    };
    let journal = JournalEntry {
        dir: None,
        max_size: Some(journal::DEFAULT_MAX_BYTES),
        segment_size: Some(journal::DEFAULT_SEGMENT_BYTES),
    };
    let signals = [("name".to_owned(), signal)].into();
    let disruption = Disruption {
        enabled: Some(true),
        move_cost: None,
    };
    let expected = Config {
        planning,
        disruption,
        signals,
        max_ages: [("name".to_owned(), config::MAX_AGE)].into(),
        journal: Some(journal),
        ..Config::default()
    };
    assert_eq!(
        config::parse(Path::new("longshore.toml"), &text),
        Ok(expected)
    );
    let policy = "[[policy]]\nname = 'a'\npath = 'a.wasm'\n";
    let with_mode = format!(
        "{policy}mode = {}\n",
        KEYS.iter().find(|key| key.key == "mode").unwrap().default
    );
    let read = |text: &str| config::parse(Path::new("longshore.toml"), text).unwrap();
    assert_eq!(read(policy), read(&with_mode));
}

#[test]
fn the_example_of_the_page_is_a_configuration() {
    let (_, example) = PAGE.split_once("```toml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let read = config::parse(Path::new("longshore.toml"), example).unwrap();
    assert_eq!((read.policies.len(), read.signals.len()), (3, 2));
    assert_eq!((read.registries.len(), read.trust.len()), (1, 1));
    assert!(read.planning.time_limit > Some(Duration::ZERO) && read.journal.is_some());
}

#[test]
fn every_variable_that_is_asked_for_is_in_the_reference() {
    let asked = RefCell::new(BTreeSet::new());
    let ask = |name: &str| {
        asked.borrow_mut().insert(name.to_owned());
        (name == "CLUSTER_NAME").then(|| "demo".to_owned())
    };
    settings::read(ask, true).unwrap();
    settings::aws::read(ask).unwrap();
    let missing: Vec<String> = asked
        .take()
        .into_iter()
        .filter(|name| !PAGE.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_feature_gate_of_the_reference_is_known() {
    let (_, gates) = PAGE.split_once("## Feature gates").expect("a section");
    let rows = gates
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1);
    let names: Vec<&str> = rows
        .map_while(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    assert!(names.len() >= 9, "{names:?}");
    let typed = names
        .iter()
        .map(|name| format!("{name}=true"))
        .collect::<Vec<_>>()
        .join(",");
    let read = settings::read(
        |name| (name == "FEATURE_GATES").then(|| typed.clone()),
        false,
    )
    .unwrap();
    assert!(
        read.notes
            .iter()
            .all(|note| !note.what.contains("is not known")),
        "{:?}",
        read.notes
    );
}
