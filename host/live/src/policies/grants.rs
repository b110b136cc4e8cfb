//! What a component wants and an operator does not grant, in words.

use longshore_policy::{Ability, LoadedPolicy};

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
