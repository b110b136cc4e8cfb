//! Where a policy's component comes from: one of `path`, `oci`, `oci-layout`, `cel` and `prefer` of a
//! `[[policy]]`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use longshore_bundle::Reference;
use longshore_expression::Refused;
use longshore_expression::columns::{Numbers, Program, Source};
use serde_json::{Value, json};

use super::reader::{Table, did_you_mean};
use super::{prefer, registries};

/// Where the component of a policy is.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicySource {
    /// `path`: a file.
    File(PathBuf),
    /// `cel` or `prefer`: the one in this binary, whose settings are an expression.
    Expression,
    /// `oci` or `oci-layout`: in a registry, or in a folder in the OCI image layout.
    Bundle(Reference),
}

impl PolicySource {
    /// Its file, if it has one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            PolicySource::File(path) => Some(path),
            PolicySource::Expression | PolicySource::Bundle(_) => None,
        }
    }

    /// Its reference, if it is in a registry or in a layout.
    pub fn reference(&self) -> Option<&Reference> {
        match self {
            PolicySource::Bundle(reference) => Some(reference),
            PolicySource::Expression | PolicySource::File(_) => None,
        }
    }
}

impl fmt::Display for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicySource::File(path) => path.display().fmt(f),
            PolicySource::Expression => f.write_str("cel (in this binary)"),
            PolicySource::Bundle(reference) => reference.fmt(f),
        }
    }
}

/// What a `[[policy]]` says about its component.
pub(super) struct Named {
    pub source: PolicySource,
    /// The settings that follow from it.
    pub settings: Option<Value>,
    /// Signals that an expression names.
    pub signals: Option<BTreeSet<String>>,
}

impl Named {
    /// A component with settings of its own.
    fn component(source: PolicySource) -> Self {
        Named {
            source,
            settings: None,
            signals: None,
        }
    }

    /// The component in this binary with an expression that it takes.
    fn expression(text: &str, program: &Program) -> Self {
        Named {
            source: PolicySource::Expression,
            settings: Some(settings(text)),
            signals: Some(signals(program)),
        }
    }
}

/// Settings of the component in this binary.
pub fn settings(expression: &str) -> Value {
    json!({ "expression": expression })
}

/// Signals that an expression reads.
pub fn signals(program: &Program) -> BTreeSet<String> {
    let name = |source: &Source| match source {
        Source::Numbers(Numbers::Signal { name, .. }) => Some(name.clone()),
        _ => None,
    };
    program.sources().filter_map(name).collect()
}

/// Reads the key that says where the component is. `known` are the signals of the file.
pub(super) fn read(table: &mut Table, folder: &Path, known: &[String]) -> Named {
    let given: Vec<&str> = ["path", "oci", "oci-layout", "cel", "prefer"]
        .into_iter()
        .filter(|key| table.has(key))
        .collect();
    if let [first, second, ..] = given[..] {
        let message = format!("`{second}` stands beside `{first}`: expected one of them");
        table.fault_at(second, message, "delete one of the two".into());
    }
    // Each key is asked for, so that none is unknown.
    let path = table.text("path").map(|path| folder.join(path));
    let expression = cel(table, known);
    let preference = preference(table);
    if given.is_empty() {
        let message = format!("`path` is missing in {}", table.title());
        let hint = "add `path = \"…\"`, or `cel = \"…\"` for an expression".into();
        table.fault_at("path", message, hint);
    }
    let reference = registries::reference(table).map(PolicySource::Bundle);
    let named = expression.or(preference);
    let named = named.or(reference.map(Named::component));
    // Without any, what is wrong was said.
    named.unwrap_or_else(|| Named::component(PolicySource::File(path.unwrap_or_default())))
}

fn preference(table: &mut Table) -> Option<Named> {
    let text = prefer::read(table)?;
    match Program::compile(&text) {
        Ok(program) => Some(Named::expression(&text, &program)),
        Err(refused) => {
            let message = format!("`{}` is no expression: {refused}", prefer::KEY);
            table.fault_at(prefer::KEY, message, refused.hint.to_string());
            None
        }
    }
}

fn cel(table: &mut Table, known: &[String]) -> Option<Named> {
    const KEY: &str = "cel";
    let text = table.text(KEY)?;
    let program = match Program::compile(text) {
        Ok(program) => program,
        Err(refused) => {
            fault(table, KEY, text, &refused);
            return None;
        }
    };
    let named = Named::expression(text, &program);
    let unknown = signals(&program)
        .into_iter()
        .filter(|name| !known.contains(name));
    for name in unknown {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = did_you_mean(&name, &known).unwrap_or_else(|| {
            format!("add `[signals.{name}]`: all offerings would have the other number")
        });
        let at = text
            .find(&format!("{name:?}"))
            .or_else(|| text.find(&*name));
        let message = format!("`{KEY}`: signal `{name}` is not in `[signals]`");
        table.fault_within(KEY, at.unwrap_or(0), message, hint);
    }
    Some(named)
}

/// A fault of an expression, at its column.
fn fault(table: &Table, key: &str, text: &str, refused: &Refused) {
    let character = text.char_indices().nth(refused.column - 1);
    let at = character.map_or(text.len(), |(at, _)| at);
    table.fault_within(
        key,
        at,
        format!("`{key}`: {refused}"),
        refused.hint.to_string(),
    );
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config::tests::{faults, read};

    #[test]
    fn an_expression_stands_in_place_of_a_component_and_may_read_the_signals_that_it_names() {
        let config = read(
            "[[policy]]\nname = 'a'\ncel = 'cost + signal(\"carbon\", 450) * 1e-6'\n[signals.carbon]\n\
             file = 'carbon.json'\n[[policy]]\nname = 'b'\ncel = 'cost'\n",
        )
        .unwrap();
        let [first, second] = &config.policies[..] else {
            panic!("{config:?}");
        };
        assert_eq!(first.source, PolicySource::Expression);
        assert_eq!(
            first.settings,
            settings("cost + signal(\"carbon\", 450) * 1e-6")
        );
        assert_eq!(first.terms().signals, Some(["carbon".to_owned()].into()));
        assert_eq!(second.terms().signals, Some([].into()));
    }

    #[test]
    fn faults_of_expressions_are_at_their_columns() {
        faults(
            "[[policy]]\nname = 'a'\ncel = 'cost * 0.9 + (capacity_typ == \"spot\" ? 0.02 : 0.0)'\n\
             [[policy]]\nname = 'b'\ncel = '''\n  zone == 'a' ? cost :\n  capacity_type == 3 ? 2 : 1'''\n\
             [[policy]]\nname = 'c'\ncel = \"zone == \\\"a\\\" ? cost : prise\"\n\
             [[policy]]\nname = 'd'\ncel = 'available'\n\
             [[policy]]\nname = 'e'\ncel = 3\n",
            expect![[r#"
                conf/longshore.toml:3:22: `cel`: column 15: capacity_typ is not a known name
                    hint: did you mean `capacity_type`?
                conf/longshore.toml:8:17: `cel`: column 40: cannot compare a text and a number
                    hint: read a number from a text with double(…)
                conf/longshore.toml:11:7: `cel`: column 22: prise is not a known name
                    hint: did you mean `price`?
                conf/longshore.toml:14:8: `cel`: column 1: gives a boolean
                    hint: write what it costs in both cases: condition ? number : number
                conf/longshore.toml:17:7: `cel` is an integer: expected a string
                    hint: write it in quotes
            "#]],
        );
    }

    #[test]
    fn a_signal_of_an_expression_is_one_of_the_file_and_granted() {
        faults(
            "[[policy]]\nname = 'a'\ncel = 'cost + signal(\"carbn\", 450)'\n\
             [[policy]]\nname = 'b'\ncel = 'cost + signal(\"spot-rates\", 0)'\n\
             [[policy]]\nname = 'c'\ncel = 'cost + signal(\"carbon\", 450)'\nsignals = ['other']\n\
             [signals.carbon]\nfile = 'carbon.json'\n",
            expect![[r#"
                conf/longshore.toml:3:22: `cel`: signal `carbn` is not in `[signals]`
                    hint: did you mean `carbon`?
                conf/longshore.toml:6:22: `cel`: signal `spot-rates` is not in `[signals]`
                    hint: add `[signals.spot-rates]`: all offerings would have the other number
                conf/longshore.toml:10:11: `signals` has not `carbon`, which the expression reads
                    hint: add it, or delete the line: an expression may read what it names
            "#]],
        );
    }

    #[test]
    fn one_of_path_cel_and_prefer_says_what_a_policy_is() {
        faults(
            "[[policy]]\nname = 'a'\n\
             [[policy]]\nname = 'b'\npath = 'b.wasm'\ncel = 'cost'\n\
             [[policy]]\nname = 'c'\ncel = 'cost'\nprefer = { architectures = ['arm64'] }\n\
             [[policy]]\nname = 'd'\ncel = 'cost'\nsettings = { expression = 'price' }\n\
             [[policy]]\nname = 'e'\nprefer = { families = ['m7g'] }\nsettings-file = 'e.toml'\n\
             [[policy]]\nname = 'f'\ncell = 'cost'\n",
            expect![[r#"
                conf/longshore.toml:1:1: `path` is missing in [[policy]]
                    hint: add `path = "…"`, or `cel = "…"` for an expression
                conf/longshore.toml:6:7: `cel` stands beside `path`: expected one of them
                    hint: delete one of the two
                conf/longshore.toml:10:10: `prefer` stands beside `cel`: expected one of them
                    hint: delete one of the two
                conf/longshore.toml:14:12: `settings` stands beside an expression, which has no settings
                    hint: delete the line
                conf/longshore.toml:18:17: `settings-file` stands beside an expression, which has no settings
                    hint: delete the line
                conf/longshore.toml:19:1: `path` is missing in [[policy]]
                    hint: add `path = "…"`, or `cel = "…"` for an expression
                conf/longshore.toml:21:1: unknown key `cell` in [[policy]]: expected one of `canary`, `cel`, `exclusions`, `grants`, `max-discount`, `mode`, `name`, `nodepools`, `oci`, `oci-layout`, `on-failure`, `path`, `prefer`, `settings`, `settings-file`, `signals`
                    hint: did you mean `cel`?
            "#]],
        );
    }
}
