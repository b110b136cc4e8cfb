//! `[policy.canary]`: the next version of a policy, and how it takes over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::policies::{Mode, PolicyEntry};
use super::reader::{Table, percent};
use super::source::{self, Named};
use crate::canary::{ALL, Promotion, Terms};

const KEY: &str = "canary";
const ORDER: &str = "order";
/// The default of `hold`.
const DEFAULT_HOLD: Duration = Duration::from_secs(30 * 60);
/// The default of `max-cost-increase`, a share.
const DEFAULT_INCREASE: f64 = 0.1;

/// What a `[policy.canary]` says.
pub(super) struct Next {
    named: Named,
    settings: Option<Value>,
    settings_file: Option<PathBuf>,
    pub terms: Terms,
    line: usize,
}

/// Reads `canary` of a policy; its faults are said.
pub(super) fn read(
    policy: &mut Table,
    folder: &Path,
    signals_of_file: &[String],
    mode: Mode,
) -> Option<Next> {
    let mut table = policy.table(KEY)?;
    if mode != Mode::Enforce {
        let message = format!("`{KEY}` stands in a policy in mode `{mode}`");
        let hint =
            "a canary takes over from a version that is enforced: delete `mode` or the table";
        policy.fault_at(KEY, message, hint.into());
    }
    let named = source::read(&mut table, folder, signals_of_file);
    let (settings, settings_file) = super::policies::settings(&mut table, folder, &named);
    let hold = table.duration("hold", Duration::ZERO..=Duration::from_secs(30 * 86_400));
    let promotions = [("ask", Promotion::Ask), ("auto", Promotion::Auto)];
    let terms = Terms {
        order: order(&mut table),
        hold: hold.unwrap_or(DEFAULT_HOLD).as_secs() as i64,
        promote: table.one_of("promote", &promotions).unwrap_or_default(),
        max_cost_increase: increase(&mut table),
    };
    let line = table.line();
    table.finish();
    Some(Next {
        named,
        settings,
        settings_file,
        terms,
        line,
    })
}

fn order(table: &mut Table) -> Vec<Vec<String>> {
    let is_given = table.has(ORDER);
    let Some(order) = table.lists(ORDER) else {
        return match is_given {
            true => Vec::new(),
            false => vec![vec![ALL.to_owned()]],
        };
    };
    if order.is_empty() || order.iter().any(Vec::is_empty) {
        let message = format!("`{ORDER}` has a step without NodePools");
        let hint = "each step names at least one: [[\"dev\"], [\"*\"]]";
        table.fault_at(ORDER, message, hint.into());
    }
    let mut known = BTreeSet::new();
    for name in order.iter().flatten() {
        if !known.insert(name) {
            let message = format!("`{ORDER}` has `{name}` twice");
            table.fault_at(ORDER, message, "name it at the step where it begins".into());
        }
    }
    order
}

fn increase(table: &mut Table) -> f64 {
    const KEY: &str = "max-cost-increase";
    let Some(text) = table.text(KEY) else {
        return DEFAULT_INCREASE;
    };
    percent(text).unwrap_or_else(|| {
        let message = format!("`{KEY}` is {text:?}: expected a share of 0% to 100%");
        let hint = "write it as \"10%\": plans with it cost at most that much more";
        table.fault_at(KEY, message, hint.into());
        DEFAULT_INCREASE
    })
}

impl Next {
    /// The next version as an entry of its own: it may do what the policy may do.
    pub fn entry(self, policy: &PolicyEntry, table: &mut Table) -> PolicyEntry {
        self.judge(policy, table);
        let none = Value::Object(Default::default());
        let signals = match table.has("signals") {
            true => policy.signals.clone(),
            false => self.named.signals,
        };
        PolicyEntry {
            name: name_of(&policy.name),
            source: self.named.source,
            settings: self.named.settings.or(self.settings).unwrap_or(none),
            settings_file: self.settings_file,
            mode: Mode::Canary,
            signals,
            canary: None,
            line: self.line,
            ..policy.clone()
        }
    }

    /// All NodePools of the policy must come at some step, and no others.
    fn judge(&self, policy: &PolicyEntry, table: &mut Table) {
        // What is wrong with an order that cannot be read was said.
        if self.terms.order.is_empty() {
            return;
        }
        let names: BTreeSet<&String> = self.terms.order.iter().flatten().collect();
        let has_rest = (self.terms.order.last()).is_some_and(|last| last == &[ALL.to_owned()]);
        let served = policy.nodepools.iter().flatten();
        let missing = served.clone().find(|name| !names.contains(name));
        let fault = |message: String, hint: &str| table.fault_at(KEY, message, hint.into());
        match (&policy.nodepools, missing) {
            _ if names.iter().any(|name| *name == ALL) && !has_rest => {
                let message = format!("`{ORDER}` has `{ALL}` before its end or beside others");
                fault(message, "make [\"*\"] the last step");
            }
            (None, _) if !has_rest => {
                let message = format!("`{ORDER}` does not come to all NodePools of the policy");
                fault(message, "make [\"*\"] the last step");
            }
            (Some(_), Some(missing)) if !has_rest => {
                let message = format!("`{ORDER}` never comes to NodePool `{missing}`");
                fault(message, "name it, or make [\"*\"] the last step");
            }
            (Some(served), _) => {
                let other = names
                    .iter()
                    .find(|name| **name != ALL && !served.contains(name));
                if let Some(other) = other {
                    let message = format!("`{ORDER}` has `{other}`, which the policy is not for");
                    fault(message, "add it to `nodepools`, or take it out");
                }
            }
            (None, _) => {}
        }
    }
}

/// What the next version of a policy is called.
pub fn name_of(policy: &str) -> String {
    format!("{policy} (canary)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConfigError, PolicySource, parse};

    fn read(text: &str) -> Result<Config, Vec<ConfigError>> {
        parse(Path::new("longshore.toml"), text)
    }

    /// Places and messages of what is wrong.
    fn faults(text: &str) -> Vec<String> {
        let faults = read(text).expect_err("has faults");
        let said = faults.iter();
        said.map(|fault| format!("{} {}", fault.place(), fault.message()))
            .collect()
    }

    #[test]
    fn a_canary_is_an_entry_of_its_own_with_the_rights_of_its_policy() {
        let text = "[[policy]]\nname = 'carbon'\npath = 'old.wasm'\ngrants = ['scorer']\n\
            max-discount = '50%'\n[policy.canary]\npath = 'new.wasm'\nsettings = { usd = 90 }\n\
            order = [['dev'], ['batch', 'ci'], ['*']]\nhold = '1h'\npromote = 'auto'\n\
            [[policy]]\nname = 'risk'\ncel = 'cost'\n";
        let config = read(text).unwrap();
        let [policy, next, other] = &config.policies[..] else {
            panic!("{config:?}")
        };
        let terms = policy.canary.as_ref().unwrap();
        assert_eq!((terms.hold, terms.promote), (3600, Promotion::Auto));
        assert_eq!((terms.order.len(), terms.max_cost_increase), (3, 0.1));
        assert_eq!((policy.mode, next.mode), (Mode::Enforce, Mode::Canary));
        assert_eq!(next.source, PolicySource::File("new.wasm".into()));
        assert_eq!(next.settings, serde_json::json!({"usd": 90}));
        assert_eq!(
            (&*next.name, next.max_discount),
            ("carbon (canary)", Some(0.5))
        );
        assert_eq!(next.grants, policy.grants);
        assert_eq!((&*other.name, &other.canary), ("risk", &None));
    }

    #[test]
    fn without_an_order_it_takes_over_all_nodepools_at_once() {
        let config =
            read("[[policy]]\nname = 'a'\ncel = 'cost'\n[policy.canary]\ncel = 'cost * 2'\n");
        let terms = config.unwrap().policies[0].canary.clone().unwrap();
        assert_eq!(terms.order, [[ALL]]);
        assert_eq!((terms.hold, terms.promote), (1800, Promotion::Ask));
    }

    #[test]
    fn what_is_wrong_with_a_canary_is_said_with_its_place() {
        let said = faults(
            "[[policy]]\nname = 'a'\npath = 'a.wasm'\n[policy.canary]\nhold = 'soon'\norder = \
            [['dev'], []]\npromote = 'zzz'\nsetings = {}\n",
        );
        let has = |said: &[String], what: &str| {
            assert!(
                said.iter().any(|one| one.contains(what)),
                "{what}: {said:#?}"
            );
        };
        has(&said, "`path` is missing in [policy.canary]");
        has(
            &said,
            "longshore.toml:5:8 `hold` is `soon`: expected a duration",
        );
        has(
            &said,
            "longshore.toml:6:9 `order` has a step without NodePools",
        );
        has(
            &said,
            "longshore.toml:7:11 `promote` is `zzz`: expected one of `ask`, `auto`",
        );
        has(
            &said,
            "longshore.toml:8:1 unknown key `setings` in [policy.canary]",
        );
        let said = faults(
            "[[policy]]\nname = 'a'\npath = 'a.wasm'\nmode = 'shadow'\nnodepools = ['web', 'dev']\n\
            [policy.canary]\npath = 'b.wasm'\norder = [['dev', 'dev']]\nmax-cost-increase = 'much'\n",
        );
        has(&said, "`canary` stands in a policy in mode `shadow`");
        has(&said, "`order` has `dev` twice");
        has(
            &said,
            "`max-cost-increase` is \"much\": expected a share of 0% to 100%",
        );
        has(&said, "`order` never comes to NodePool `web`");
        let said = faults(
            "[[policy]]\nname = 'a'\npath = 'a.wasm'\nnodepools = ['web']\n\
            [policy.canary]\npath = 'b.wasm'\norder = [['web', 'ci']]\n\
            [[policy]]\nname = 'b'\npath = 'a.wasm'\n[policy.canary]\npath = 'b.wasm'\n\
            order = [['*'], ['web']]\n",
        );
        has(&said, "`order` has `ci`, which the policy is not for");
        has(&said, "`order` has `*` before its end or beside others");
    }
}
