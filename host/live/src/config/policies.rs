//! `[[policy]]`: which components are asked, about what, and what an operator lets them do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use longshore_policy::{Ability, Exclusions, MAX_DISCOUNT, OnFailure, Terms};
use serde_json::Value;

use super::canary;
use super::reader::{Table, did_you_mean, expected, percent, wrong_name};
use super::source::{self, Named, PolicySource};
use crate::canary::Terms as CanaryTerms;

/// One `[[policy]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyEntry {
    /// `name`, unique in the file.
    pub name: String,
    /// Where its component is.
    pub source: PolicySource,
    /// `settings`, an object; empty if absent. Those of an expression are that.
    pub settings: Value,
    /// `settings-file`, TOML, in place of `settings`.
    pub settings_file: Option<PathBuf>,
    /// `nodepools` it serves; `None` for all.
    pub nodepools: Option<Vec<String>>,
    /// `mode`.
    pub mode: Mode,
    /// `grants`: what it may be asked; `None` for costs and commitments.
    pub grants: Option<BTreeSet<Ability>>,
    /// `signals` that it may read, of those that it declares; `None` for all of these. Without the key,
    /// an expression may read those that it names.
    pub signals: Option<BTreeSet<String>>,
    /// `max-discount`, a share of the list price.
    pub max_discount: Option<f64>,
    /// `exclusions`.
    pub exclusions: Exclusions,
    /// `on-failure`.
    pub on_failure: OnFailure,
    /// `canary`: how its next version takes over. That version is the entry after this one, in mode
    /// `canary`.
    pub canary: Option<CanaryTerms>,
    /// The line where it begins, from 1 on; 0 for one that no file names.
    pub line: usize,
}

/// Whether a policy is enforced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Its answers count.
    #[default]
    Enforce,
    /// Its scores are compared and never used.
    Shadow,
    /// It is the next version of the policy before it, which it takes over from step by step.
    Canary,
    /// It is neither asked nor loaded, as if it were not there.
    Off,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
            Mode::Canary => "canary",
            Mode::Off => "off",
        })
    }
}

impl PolicyEntry {
    /// What the operator lets it do.
    pub fn terms(&self) -> Terms {
        let usual = Terms::default();
        Terms {
            name: Some(self.name.as_str().into()),
            grants: self.grants.clone().unwrap_or(usual.grants),
            signals: self.signals.clone(),
            max_discount: self.max_discount.unwrap_or(MAX_DISCOUNT),
            exclusions: self.exclusions,
            on_failure: self.on_failure,
        }
    }
}

/// Reads every `[[policy]]`, in order; expressions may read signals of the file.
pub(super) fn read(
    root: &mut Table,
    folder: &Path,
    signals_of_file: &[String],
) -> Vec<PolicyEntry> {
    let mut all: Vec<PolicyEntry> = Vec::new();
    for mut table in root.tables("policy") {
        let name = name(&mut table);
        let named = source::read(&mut table, folder, signals_of_file);
        let (settings, settings_file) = settings(&mut table, folder, &named);
        let nodepools = nodepools(&mut table);
        let mode = mode(&mut table);
        let grants = grants(&mut table);
        let boots = grants
            .as_ref()
            .is_some_and(|grants| grants.contains(&Ability::Bootstrap));
        if boots && mode == Mode::Shadow {
            let message = "`grants` has `bootstrap` in mode `shadow`: what nodes boot with cannot be \
                           compared";
            let hint =
                "take it out, or write `mode = \"enforce\"` with the `nodepools` to try it on";
            table.fault_at("grants", message.into(), hint.into());
        }
        let signals = signals(&mut table, named.signals);
        let max_discount = max_discount(&mut table);
        let exclusions = exclusions(&mut table);
        let on_failure = on_failure(&mut table);
        let next = canary::read(&mut table, folder, signals_of_file, mode);
        if let Some(name) = name {
            if all.iter().any(|other| other.name == name) {
                table.fault_at(
                    "name",
                    format!("policy `{name}` is there twice"),
                    "give each a name of its own".into(),
                );
            }
            let entry = PolicyEntry {
                name: name.into(),
                source: named.source,
                settings: (named.settings.or(settings))
                    .unwrap_or(Value::Object(Default::default())),
                settings_file,
                nodepools,
                mode,
                grants,
                signals,
                max_discount,
                exclusions,
                on_failure,
                canary: next.as_ref().map(|next| next.terms.clone()),
                line: table.line(),
            };
            let next = next.map(|next| next.entry(&entry, &mut table));
            all.push(entry);
            all.extend(next);
        }
        table.finish();
    }
    all
}

/// Settings of a policy and the file that has them. The component of an expression
/// gets the expression alone.
pub(super) fn settings(
    table: &mut Table,
    folder: &Path,
    named: &Named,
) -> (Option<Value>, Option<PathBuf>) {
    let settings = table.table("settings").map(Table::into_json);
    let settings_file = table.text("settings-file").map(|file| folder.join(file));
    if settings.is_some() && settings_file.is_some() {
        let message = "`settings-file` stands beside `settings`: expected one of them".into();
        table.fault_at("settings-file", message, "delete one of the two".into());
    }
    if named.settings.is_some() {
        for key in ["settings", "settings-file"] {
            if table.has(key) {
                let message = format!("`{key}` stands beside an expression, which has no settings");
                table.fault_at(key, message, "delete the line".into());
            }
        }
    }
    (settings, settings_file)
}

/// Signals that it may read; those that an expression names must be among them.
fn signals(table: &mut Table, named: Option<BTreeSet<String>>) -> Option<BTreeSet<String>> {
    const KEY: &str = "signals";
    let Some(allowed) = table.texts(KEY).map(BTreeSet::from_iter) else {
        return named;
    };
    if let Some(name) = named.iter().flatten().find(|name| !allowed.contains(*name)) {
        let message = format!("`{KEY}` has not `{name}`, which the expression reads");
        let hint = "add it, or delete the line: an expression may read what it names".into();
        table.fault_at(KEY, message, hint);
    }
    Some(allowed)
}

fn name<'d>(table: &mut Table<'d, '_>) -> Option<&'d str> {
    const KEY: &str = "name";
    let name = table.required_text(KEY)?;
    let Some(problem) = wrong_name(name) else {
        return Some(name);
    };
    let hint = "write it as \"spot-risk\": status, Events and metrics say it".into();
    table.fault_at(KEY, format!("`{KEY}` {problem}"), hint);
    None
}

fn mode(table: &mut Table) -> Mode {
    match table.text("mode") {
        None | Some("enforce") => {}
        Some("shadow") => return Mode::Shadow,
        Some("off") => return Mode::Off,
        Some("canary") => table.fault_at(
            "mode",
            "`canary` is no mode of an entry".into(),
            "write `[policy.canary]` below the entry of the version that runs".into(),
        ),
        Some(mode) => table.fault_at(
            "mode",
            format!("unknown mode `{mode}`: expected one of `enforce`, `shadow`, `off`"),
            "`enforce` is obeyed, `shadow` asked and compared, `off` left out".into(),
        ),
    }
    Mode::Enforce
}

fn nodepools(table: &mut Table) -> Option<Vec<String>> {
    let names = table.texts("nodepools");
    if names.as_ref().is_some_and(Vec::is_empty) {
        let message = "`nodepools` is empty: expected the names of NodePools".into();
        let hint =
            "delete the line to serve all NodePools, or write `mode = \"off\"` to serve none";
        table.fault_at("nodepools", message, hint.into());
    }
    names
}

fn grants(table: &mut Table) -> Option<BTreeSet<Ability>> {
    const KEY: &str = "grants";
    let known = Ability::ALL.map(|(name, _)| name);
    let mut grants = BTreeSet::new();
    let names = table.texts(KEY)?;
    for name in &names {
        match Ability::ALL.iter().find(|(known, _)| known == name) {
            Some((_, ability)) => _ = grants.insert(*ability),
            None => {
                let message = format!("unknown grant `{name}`: expected {}", expected(&known));
                let hint = did_you_mean(name, &known);
                let hint = hint.unwrap_or_else(|| "choose from them".into());
                table.fault_at(KEY, message, hint);
            }
        }
    }
    if names.is_empty() {
        let message = "`grants` is empty: the policy would be asked nothing".into();
        let hint = "delete the line for costs and commitments, or write `mode = \"off\"`".into();
        table.fault_at(KEY, message, hint);
    }
    if grants.contains(&Ability::Commitments) && !grants.contains(&Ability::Scorer) {
        let message = "`grants` has `commitments` without `scorer`".into();
        let hint = "commitments come with costs: add `scorer`".into();
        table.fault_at(KEY, message, hint);
    }
    Some(grants)
}

fn max_discount(table: &mut Table) -> Option<f64> {
    const KEY: &str = "max-discount";
    let text = table.text(KEY)?;
    let share = percent(text);
    if share.is_none() {
        table.fault_at(
            KEY,
            format!("`{KEY}` is {text:?}: expected a share of 0% to 100%"),
            "write it as \"90%\": an offering costs at least a tenth of its list price".into(),
        );
    }
    share
}

fn on_failure(table: &mut Table) -> OnFailure {
    let choices = [
        ("last-answer", OnFailure::LastAnswer),
        ("price", OnFailure::Price),
        ("hold", OnFailure::Hold),
    ];
    table.one_of("on-failure", &choices).unwrap_or_default()
}

fn exclusions(table: &mut Table) -> Exclusions {
    let choices = [
        ("allow", Exclusions::Allow),
        ("discourage", Exclusions::Discourage),
    ];
    table.one_of("exclusions", &choices).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{faults, read};
    use expect_test::expect;

    #[test]
    fn policies_have_names_of_their_own_and_known_modes() {
        faults(
            "[[policy]]\nname = 'a'\npath = 'a.wasm'\nmode = 'canary'\n[[policy]]\nname = \
            'a'\npath = 'b.wasm'\nmode = 'maybe'\n",
            expect![[r#"
                conf/longshore.toml:4:8: `canary` is no mode of an entry
                    hint: write `[policy.canary]` below the entry of the version that runs
                conf/longshore.toml:6:8: policy `a` is there twice
                    hint: give each a name of its own
                conf/longshore.toml:8:8: unknown mode `maybe`: expected one of `enforce`, `shadow`, `off`
                    hint: `enforce` is obeyed, `shadow` asked and compared, `off` left out
            "#]],
        );
    }

    #[test]
    fn a_policy_serves_some_nodepool_and_is_asked_something() {
        faults(
            "[[policy]]\nname = 'a'\npath = 'a.wasm'\nnodepools = []\ngrants = []\n[[policy]]\nname = \
            'b'\npath = 'b.wasm'\ngrants = ['scorer', 'bootstrp']\n[[policy]]\nname = 'c'\npath = \
            'c.wasm'\ngrants = ['commitments']\n[[policy]]\nname = 'd'\npath = 'd.wasm'\nmode = \
            'shadow'\ngrants = ['bootstrap']\n",
            expect![[r#"
                conf/longshore.toml:4:13: `nodepools` is empty: expected the names of NodePools
                    hint: delete the line to serve all NodePools, or write `mode = "off"` to serve none
                conf/longshore.toml:5:10: `grants` is empty: the policy would be asked nothing
                    hint: delete the line for costs and commitments, or write `mode = "off"`
                conf/longshore.toml:9:10: unknown grant `bootstrp`: expected one of `scorer`, `commitments`, `consolidation`, `bootstrap`
                    hint: did you mean `bootstrap`?
                conf/longshore.toml:13:10: `grants` has `commitments` without `scorer`
                    hint: commitments come with costs: add `scorer`
                conf/longshore.toml:18:10: `grants` has `bootstrap` in mode `shadow`: what nodes boot with cannot be compared
                    hint: take it out, or write `mode = "enforce"` with the `nodepools` to try it on
            "#]],
        );
    }

    #[test]
    fn a_name_can_be_shown() {
        faults(
            "[[policy]]\nname = ''\npath = 'a.wasm'\n[[policy]]\nname = \"a\\nb\"\npath = \
            'a.wasm'\n",
            expect![[r#"
                conf/longshore.toml:2:8: `name` is empty: expected 1 to 100 characters that can be shown
                    hint: write it as "spot-risk": status, Events and metrics say it
                conf/longshore.toml:5:8: `name` is "a\nb": expected 1 to 100 characters that can be shown
                    hint: write it as "spot-risk": status, Events and metrics say it
            "#]],
        );
    }

    #[test]
    fn a_discount_is_a_share_and_exclusions_are_one_of_two() {
        faults(
            "[[policy]]\nname = 'a'\npath = 'a.wasm'\nmax-discount = '120%'\nexclusions = 'never'\non-failure = 'panic'\n",
            expect![[r#"
                conf/longshore.toml:4:16: `max-discount` is "120%": expected a share of 0% to 100%
                    hint: write it as "90%": an offering costs at least a tenth of its list price
                conf/longshore.toml:5:14: `exclusions` is `never`: expected one of `allow`, `discourage`
                    hint: choose one of them
                conf/longshore.toml:6:14: `on-failure` is `panic`: expected one of `last-answer`, `price`, `hold`
                    hint: choose one of them
            "#]],
        );
    }

    #[test]
    fn without_a_word_a_policy_is_asked_for_costs_and_commitments() {
        let config = read("[[policy]]\nname = 'a'\npath = 'a.wasm'\n").unwrap();
        let terms = config.policies[0].terms();
        assert_eq!(terms.name.as_deref(), Some("a"));
        assert_eq!(
            terms.grants,
            BTreeSet::from([Ability::Scorer, Ability::Commitments])
        );
        assert_eq!((terms.max_discount, terms.signals), (0.9, None));
    }
}
