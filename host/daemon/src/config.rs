//! `longshore.toml`: what an operator sets once.
//!
//! Owns the file's shape and every message about it. A fault names file, line and column, says what was expected and
//! gives a hint; unknown keys are faults. All faults of a file are reported at once. Paths in the file are relative to
//! its folder. What a flag also says, the flag decides ([`crate::options`]).

mod reader;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longshore_core::model::{MinValuesPolicy, PreferencePolicy};
use longshore_core::plan::Effort;
use serde_json::Value;

pub use reader::Fault;
use reader::{Document, Table};

/// A configuration as written; `None` where it says nothing.
#[derive(Debug, Default, PartialEq)]
pub struct Config {
    /// `[planning]`.
    pub planning: Planning,
    /// `[[policy]]`, in order.
    pub policies: Vec<PolicyEntry>,
    /// `[signals.NAME]`: the file with the signal's table.
    pub signals: BTreeMap<String, PathBuf>,
}

/// `[planning]`.
#[derive(Debug, Default, PartialEq)]
pub struct Planning {
    /// `improve`.
    pub improve: Option<Effort>,
    /// `node-cost`, USD per hour and node, finite and not negative.
    pub node_cost: Option<f64>,
    /// `preference-policy`.
    pub preferences: Option<PreferencePolicy>,
    /// `min-values-policy`.
    pub min_values: Option<MinValuesPolicy>,
    /// `seed`.
    pub seed: Option<u64>,
}

/// One `[[policy]]`.
#[derive(Debug, PartialEq)]
pub struct PolicyEntry {
    /// `name`, unique in the file.
    pub name: String,
    /// `path` of the component.
    pub path: PathBuf,
    /// `settings`, an object; empty if absent.
    pub settings: Value,
    /// `nodepools` it serves; `None` for all.
    pub nodepools: Option<Vec<String>>,
}

/// Reads `text`, the content of `file`. Fails with every fault found, in the order of the file.
pub fn parse(file: &Path, text: &str) -> Result<Config, Vec<Fault>> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let document = Document::new(file, text);
    let mut config = Config::default();
    if let Some(mut root) = document.root() {
        if let Some(mut table) = root.table("planning") {
            config.planning = planning(&mut table);
            table.finish();
        }
        config.policies = policies(&mut root, folder);
        if let Some(table) = root.table("signals") {
            config.signals = signals(table, folder);
        }
        root.finish();
    }
    document.end(config)
}

/// Reads the settings of one policy from a TOML file of their own.
pub fn parse_settings(file: &Path, text: &str) -> Result<Value, Vec<Fault>> {
    let document = Document::new(file, text);
    let settings = document.root().map_or(Value::Null, |root| root.into_json());
    document.end(settings)
}

fn planning(table: &mut Table) -> Planning {
    const EFFORTS: [(&str, Effort); 4] =
        [("none", Effort::None), ("quick", Effort::Quick), ("normal", Effort::Normal), ("thorough", Effort::Thorough)];
    Planning {
        improve: table.one_of("improve", &EFFORTS),
        node_cost: table.amount("node-cost"),
        preferences: table.one_of(
            "preference-policy",
            &[("Respect", PreferencePolicy::Respect), ("Ignore", PreferencePolicy::Ignore)],
        ),
        min_values: table.one_of(
            "min-values-policy",
            &[("Strict", MinValuesPolicy::Strict), ("BestEffort", MinValuesPolicy::BestEffort)],
        ),
        seed: table.count("seed"),
    }
}

fn policies(root: &mut Table, folder: &Path) -> Vec<PolicyEntry> {
    let mut all: Vec<PolicyEntry> = Vec::new();
    for mut table in root.tables("policy") {
        let name = table.required_text("name");
        let path = table.required_text("path");
        let settings = table.table("settings").map_or(Value::Object(Default::default()), Table::into_json);
        let nodepools = table.texts("nodepools");
        match table.text("mode") {
            None | Some("enforce") => {}
            Some(mode @ ("shadow" | "canary")) => table.fault_at(
                "mode",
                format!("mode `{mode}` is not there yet"),
                "write `mode = \"enforce\"`, or leave the policy out".into(),
            ),
            Some(mode) => table.fault_at(
                "mode",
                format!("unknown mode `{mode}`: expected `enforce`"),
                "policies of this version are obeyed or left out".into(),
            ),
        }
        if let Some(name) = name {
            if all.iter().any(|other| other.name == name) {
                table.fault_at("name", format!("policy `{name}` is there twice"), "give each a name of its own".into());
            }
            let path = folder.join(path.unwrap_or_default());
            all.push(PolicyEntry { name: name.into(), path, settings, nodepools });
        }
        table.finish();
    }
    all
}

fn signals(mut all: Table, folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    for name in all.keys() {
        let Some(mut table) = all.table(&name) else { continue };
        if let Some(file) = table.required_text("file") {
            files.insert(name, folder.join(file));
        }
        table.finish();
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn read(text: &str) -> Result<Config, Vec<Fault>> {
        parse(Path::new("conf/longshore.toml"), text)
    }

    fn faults(text: &str, expected: Expect) {
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

            [[policy]]
            name = "carbon"
            path = "carbon.wasm"
            settings = { usd-per-ton = 90, zones = { "a" = 1.5 } }
            nodepools = ["default", "batch"]
            mode = "enforce"

            [signals.carbon-intensity]
            file = "/data/carbon.json"
            "#,
        )
        .unwrap();
        assert_eq!(
            config,
            Config {
                planning: Planning {
                    improve: Some(Effort::Thorough),
                    node_cost: Some(0.01),
                    preferences: Some(PreferencePolicy::Ignore),
                    min_values: Some(MinValuesPolicy::BestEffort),
                    seed: Some(7),
                },
                policies: vec![PolicyEntry {
                    name: "carbon".into(),
                    path: "conf/carbon.wasm".into(),
                    settings: serde_json::json!({"usd-per-ton": 90, "zones": {"a": 1.5}}),
                    nodepools: Some(vec!["default".into(), "batch".into()]),
                }],
                signals: BTreeMap::from([("carbon-intensity".into(), "/data/carbon.json".into())]),
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
            "[planing]\nseed = 1\n[planning]\nimprov = 'none'\ncolour = 'red'\n[signals.x]\npath = 'x'\n",
            expect![[r#"
                conf/longshore.toml:1:2: unknown table `planing`: expected one of `planning`, `policy`, `signals`
                    hint: did you mean `planning`?
                conf/longshore.toml:4:1: unknown key `improv` in [planning]: expected one of `improve`, `min-values-policy`, `node-cost`, `preference-policy`, `seed`
                    hint: did you mean `improve`?
                conf/longshore.toml:5:1: unknown key `colour` in [planning]: expected one of `improve`, `min-values-policy`, `node-cost`, `preference-policy`, `seed`
                    hint: delete the line, or look at README.md for the keys
                conf/longshore.toml:6:1: `file` is missing in [signals.x]
                    hint: add `file = "…"`
                conf/longshore.toml:7:1: unknown key `path` in [signals.x]: expected `file`
                    hint: delete the line, or look at README.md for the keys
            "#]],
        );
    }

    #[test]
    fn values_of_the_wrong_kind_say_what_was_expected() {
        faults(
            "planning = 3\n[[policy]]\nname = 1\nsettings = 'x'\nnodepools = 'default'\n[[policy]]\nname = 'a'\npath = 'a.wasm'\nnodepools = [1]\n",
            expect![[r#"
                conf/longshore.toml:1:12: `planning` is an integer: expected a table
                    hint: write it as [planning]
                conf/longshore.toml:2:1: `path` is missing in [[policy]]
                    hint: add `path = "…"`
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
            "[planning]\nimprove = 'fast'\nnode-cost = -1\nseed = -4\npreference-policy = 'ignore'\n",
            expect![[r#"
                conf/longshore.toml:2:11: `improve` is `fast`: expected one of `none`, `quick`, `normal`, `thorough`
                    hint: choose one of them
                conf/longshore.toml:3:13: `node-cost` is -1: expected an amount of at least 0
                    hint: it is in USD per hour and node, 0.005 unless set
                conf/longshore.toml:4:8: `seed` is -4: expected an integer of at least 0
                    hint: choose a number from 0 on
                conf/longshore.toml:5:21: `preference-policy` is `ignore`: expected one of `Respect`, `Ignore`
                    hint: did you mean `Ignore`?
            "#]],
        );
    }

    #[test]
    fn policies_have_names_of_their_own_and_are_obeyed() {
        faults(
            "[[policy]]\nname = 'a'\npath = 'a.wasm'\nmode = 'shadow'\n[[policy]]\nname = 'a'\npath = 'b.wasm'\nmode = 'maybe'\n",
            expect![[r#"
                conf/longshore.toml:4:8: mode `shadow` is not there yet
                    hint: write `mode = "enforce"`, or leave the policy out
                conf/longshore.toml:6:8: policy `a` is there twice
                    hint: give each a name of its own
                conf/longshore.toml:8:8: unknown mode `maybe`: expected `enforce`
                    hint: policies of this version are obeyed or left out
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
}
