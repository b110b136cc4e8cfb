//! `longshore policy new`: a policy to begin with, as a part of a configuration.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::answer::Answer;
use crate::args::NewArgs;
use crate::policies::hand_over;
use longshore_live::config;
use longshore_live::error::Failure;
use longshore_live::policies::typed;

/// Writes a `[[policy]]` with an expression, and the signals that it reads; a policy in a language is for
/// another program.
pub fn run(args: &NewArgs) -> Result<Answer, Failure> {
    let Some(expression) = &args.cel else {
        let words = std::iter::once("new").chain(args.begin.iter().map(String::as_str));
        let words: Vec<OsString> = words.map(OsString::from).collect();
        return hand_over::run(&words);
    };
    let text = fragment(&args.name, expression)?;
    // What is written must be a configuration, whatever the texts in it are.
    let file = Path::new("longshore.toml");
    config::parse(file, &text).map_err(Failure::Config)?;
    Ok(Answer::ok(text))
}

fn fragment(name: &str, expression: &str) -> Result<String, Failure> {
    let entry = typed::expression(expression)?;
    let mut text = format!(
        "# What an offering costs, in USD per hour: host/docs/cel.md has names, operators and functions.\n\
         [[policy]]\nname = {}\ncel = {}\n",
        Value::from(name),
        toml_text(expression)
    );
    for signal in entry.signals.iter().flatten() {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let key = match signal.chars().all(bare) {
            true => signal.clone(),
            false => Value::from(signal.as_str()).to_string(),
        };
        let file = Value::from(format!("{signal}.json"));
        _ = write!(
            text,
            "\n# Numbers by type/zone/capacity-type, type/zone, type, zone or region: \
             {{\"us-east-1a\": 1.5}}\n[signals.{key}]\nfile = {file}\n"
        );
    }
    Ok(text)
}

/// A string of TOML, without escapes if that can be.
fn toml_text(text: &str) -> String {
    let one_line = !text.contains(['\n', '\r', '\'']);
    let ends_well = !text.starts_with('\n') && !text.ends_with('\'');
    let many_lines = ends_well && !text.contains("'''") && !text.contains('\r');
    match (one_line, many_lines) {
        (true, _) => format!("'{text}'"),
        (false, true) => format!("'''{text}'''"),
        (false, false) => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use longshore_live::config::PolicySource;

    fn new(name: &str, cel: &str) -> Result<String, String> {
        let (name, cel) = (name.to_owned(), cel.to_owned());
        let (cel, begin) = (Some(cel), Vec::new());
        run(&NewArgs { cel, name, begin })
            .map(|answer| answer.text)
            .map_err(|failure| failure.report())
    }

    #[test]
    fn an_expression_becomes_a_configuration_with_its_signals() {
        expect![[r#"
            # What an offering costs, in USD per hour: host/docs/cel.md has names, operators and functions.
            [[policy]]
            name = "green"
            cel = '''cost + signal('carbon', 450) * 1e-6'''

            # Numbers by type/zone/capacity-type, type/zone, type, zone or region: {"us-east-1a": 1.5}
            [signals.carbon]
            file = "carbon.json"
        "#]]
        .assert_eq(&new("green", "cost + signal('carbon', 450) * 1e-6").unwrap());
    }

    #[test]
    fn every_expression_is_read_back_as_it_was_typed() {
        for text in [
            "cost",
            "zone == \"a\" ? 1 : cost",
            "zone == 'a' ? 1 : cost",
            "zone == 'a' ? cost :\n  capacity_type == 'b'\n ? 2 : 3 // 'b'",
            "cost + signal('odd \"name\" é', 1)",
        ] {
            let fragment = new("a", text).unwrap();
            let config = config::parse(Path::new("x.toml"), &fragment).unwrap();
            assert_eq!(config.policies[0].source, PolicySource::Expression);
            assert_eq!(config.policies[0].settings["expression"], text);
        }
    }

    #[test]
    fn a_fault_has_its_column() {
        assert_eq!(
            new("a", "cost * 0.9 + (capacity_typ == 'spot' ? 0.02 : 0)").unwrap_err(),
            "the expression has a fault: column 15: capacity_typ is not a known name\n  hint: did you \
             mean `capacity_type`?"
        );
    }
}
