//! What a component wants and an operator does not grant, in words.

use longshore_policy::{Ability, LoadedPolicy, printable};

use crate::config::reader::did_you_mean;
use crate::config::{PolicyEntry, PolicySource};

/// Why a policy is asked nothing, though it exports something, and what to do.
pub fn not_granted(policy: &LoadedPolicy) -> (String, String) {
    let granted: Vec<&str> = policy
        .terms()
        .grants
        .iter()
        .map(|ability| ability.name())
        .collect();
    let wanted = policy.not_granted();
    let names: Vec<&str> = wanted.iter().map(|ability| ability.name()).collect();
    let reason = format!(
        "it exports {}, and its `grants` are {}: it would be asked nothing",
        names.join(", "),
        granted.join(", ")
    );
    (reason, grants_hint(&wanted))
}

/// What an entry grants and a component has no use for, a sentence each: more often than not a name is
/// misspelt.
pub fn unused(policy: &LoadedPolicy, entry: &PolicyEntry) -> Vec<String> {
    let about = policy.about();
    let granted = entry.grants.iter().flatten();
    let unused = granted.filter(|ability| {
        let name = ability.name();
        !about.implements.iter().any(|exported| exported == name)
    });
    let mut said: Vec<String> = unused
        .map(|ability| {
            format!(
                "`grants` has `{}`, which it does not export",
                ability.name()
            )
        })
        .collect();
    // An expression declares what it names, and may read no more.
    if entry.source != PolicySource::Expression {
        let declared = about.signal_names();
        let unknown = entry.signals.iter().flatten();
        let unknown = unknown.filter(|name| !declared.contains(name));
        said.extend(unknown.map(|name| {
            let known: Vec<&str> = declared.iter().map(String::as_str).collect();
            let hint = did_you_mean(name, &known).map_or(String::new(), |hint| format!("; {hint}"));
            format!("`signals` has `{name}`, which it does not declare{hint}")
        }));
    }
    said
}

/// NodePools that a policy is to serve and that are not there, in a sentence; none if all are.
pub fn missing_node_pools(names: &[String], there: &[&str]) -> Option<String> {
    let missing: Vec<String> = names
        .iter()
        .filter(|name| !there.contains(&name.as_str()))
        .map(|name| {
            let hint = did_you_mean(name, there).map_or(String::new(), |hint| format!(" ({hint})"));
            format!("`{}`{hint}", printable(name))
        })
        .collect();
    let what = match missing.len() {
        0 => return None,
        1 => "no NodePool that is there",
        _ => "no NodePools that are there",
    };
    Some(format!("`nodepools` has {}: {what}", missing.join(", ")))
}

/// How to grant what a policy wants.
pub fn grants_hint(wanted: &[Ability]) -> String {
    let names: Vec<String> = wanted
        .iter()
        .map(|ability| format!("\"{}\"", ability.name()))
        .collect();
    let root = match wanted.contains(&Ability::Bootstrap) {
        true => "; `bootstrap` is root on every node that boots with it",
        false => "",
    };
    format!(
        "if that is meant, add {} to `grants` of its entry{root}",
        names.join(", ")
    )
}
