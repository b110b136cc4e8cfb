//! Commands and flags of the reference, from what clap knows of them.

use clap::{Arg, Command};

use super::{code, table};
use crate::args::karpenter::FLAGS;

/// A flag or an argument, what follows it, its default and its help.
fn argument(arg: &Arg) -> Vec<String> {
    let values: Vec<String> = match arg.get_possible_values() {
        found if found.is_empty() => arg
            .get_value_names()
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect(),
        found => found
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect(),
    };
    let takes = if arg.get_action().takes_values() {
        values.join("|")
    } else {
        String::new()
    };
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("`-{short}`, `--{long}`"),
        (_, Some(long)) => format!("`--{long}`"),
        _ => format!("`{}`", arg.get_id().as_str().to_uppercase()),
    };
    let default: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|v| v.to_string_lossy().into_owned())
        .collect();
    vec![name, code(&takes), code(&default.join(" ")), help(arg)]
}

fn help(arg: &Arg) -> String {
    arg.get_help()
        .map(ToString::to_string)
        .unwrap_or_default()
        .replace('\n', " ")
}

/// Every command with its arguments, those of Karpenter left out.
pub(super) fn commands(command: &Command, path: &str) -> String {
    let mut text = String::new();
    for sub in command
        .get_subcommands()
        .filter(|sub| !["help", "sim"].contains(&sub.get_name()) && !sub.is_hide_set())
    {
        let path = format!("{path} {}", sub.get_name());
        if sub.has_subcommands() {
            text += &commands(sub, &path);
            continue;
        }
        // Karpenter's have a table of their own.
        let theirs = |heading: &str| heading.starts_with("As Karpenter");
        let ours =
            |arg: &&Arg| !arg.get_help_heading().is_some_and(theirs) && arg.get_id() != "help";
        let rows: Vec<_> = sub.get_arguments().filter(ours).map(argument).collect();
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        text += &format!(
            "### {path}\n\n{about}.\n\n{}\n",
            table(&["argument", "value", "default", "meaning"], rows)
        );
    }
    text
}

/// Karpenter's flags that do something, or those that do nothing.
pub(super) fn karpenter(command: &Command, hidden: bool) -> String {
    let run = command.find_subcommand("run").expect("a command `run`");
    let row = |flag: &crate::args::karpenter::Flag| {
        let arg = run
            .get_arguments()
            .find(|arg| arg.get_long() == Some(flag.name))
            .expect(flag.name);
        (arg.is_hide_set() == hidden)
            .then(|| vec![code(flag.variable), format!("`--{}`", flag.name), help(arg)])
    };
    table(
        &[
            "variable",
            "flag",
            if hidden { "why not" } else { "meaning" },
        ],
        FLAGS.iter().filter_map(row),
    )
}
