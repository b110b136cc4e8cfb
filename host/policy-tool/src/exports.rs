//! What sources in Python and JavaScript have to export for their world. Their tools say a missing name
//! in a trace, or not at all.

use std::path::Path;

use anyhow::{Result, bail};
use wit_parser::WorldKey;

use crate::component::world_of;

/// Names of the interfaces that a world exports: `scorer`.
pub fn wanted(wit: &Path, world: &str) -> Result<Vec<String>> {
    let (resolve, world) = world_of(wit, world)?;
    let keys = resolve.worlds[world].exports.keys();
    let name = |key: &WorldKey| match key {
        WorldKey::Name(name) => Some(name.clone()),
        WorldKey::Interface(id) => resolve.interfaces[*id].name.clone(),
    };
    Ok(keys.filter_map(name).collect())
}

/// Refuses a module of JavaScript without an export that is wanted. QuickJS makes a component of it that
/// traps without a word.
pub fn check_javascript(source: &str, wanted: &[String]) -> Result<()> {
    let statements: Vec<&str> = exports_of(source).collect();
    // What another module exports is not known here.
    if statements
        .iter()
        .any(|text| text.trim_start().starts_with('*'))
    {
        return Ok(());
    }
    for name in wanted {
        let is_word = |text: &&str| {
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
            words.any(|word| word == name)
        };
        if !statements.iter().any(is_word) {
            bail!(
                "policy.js exports no {name}, and wit/world.wit does; add `export const {name} = \
                 policy.{name};`"
            );
        }
    }
    Ok(())
}

/// What stands behind each `export`, up to the end of the statement or of what it is set to.
fn exports_of(source: &str) -> impl Iterator<Item = &str> {
    let lines = source
        .match_indices("export ")
        .chain(source.match_indices("export{"));
    let begins = lines.filter(|(at, _)| {
        source[..*at]
            .trim_end_matches([' ', '\t'])
            .ends_with(['\n', ';', '}'])
            || *at == 0
    });
    begins.map(|(at, _)| {
        let text = &source[at + "export".len()..];
        let end = match text.trim_start().starts_with('{') {
            true => text.find('}'),
            false => text.find(['=', ';', '(']),
        };
        &text[..end.unwrap_or(text.len())]
    })
}

/// What is missing, of the output of componentize-py.
pub fn missing_in_python(output: &str) -> Option<String> {
    let (_, rest) = output.split_once("module 'policy' has no attribute '")?;
    let (name, _) = rest.split_once('\'')?;
    let end = match name {
        "Commitments" => "Plugin, Scorer, Commitments = commitments.export(MyPolicy)",
        _ => "Plugin, Scorer = longshore.export(MyPolicy)",
    };
    Some(format!(
        "policy.py has no {name}, and wit/world.wit exports it; the last line makes it: `{end}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(source: &str) -> String {
        let wanted = ["plugin", "scorer"].map(str::to_owned);
        let checked = check_javascript(source, &wanted);
        checked.map_or_else(|error| error.to_string(), |()| "all is there".to_owned())
    }

    #[test]
    fn an_export_that_javascript_lacks_is_named() {
        let both = "export const plugin = policy.plugin;\nexport const scorer = policy.scorer;\n";
        assert_eq!(said(both), "all is there");
        assert_eq!(
            said("export const { plugin, scorer } = define(P);"),
            "all is there"
        );
        assert_eq!(
            said("const a = 1;\nexport { a as plugin,\n  scorer };"),
            "all is there"
        );
        assert_eq!(said("export * from './mine.js';"), "all is there");
        assert_eq!(
            said("// we export scorer\nexport const plugin = policy.scorer;"),
            "policy.js exports no scorer, and wit/world.wit does; add `export const scorer = \
             policy.scorer;`"
        );
    }

    #[test]
    fn a_class_that_python_lacks_is_named() {
        let said = |name: &str| {
            let output = format!(
                "Traceback …\nAssertionError: AttributeError: module 'policy' has no attribute '{name}'\n"
            );
            missing_in_python(&output).unwrap()
        };
        assert_eq!(
            said("Scorer"),
            "policy.py has no Scorer, and wit/world.wit exports it; the last line makes it: `Plugin, \
             Scorer = longshore.export(MyPolicy)`"
        );
        assert_eq!(
            said("Commitments"),
            "policy.py has no Commitments, and wit/world.wit exports it; the last line makes it: \
             `Plugin, Scorer, Commitments = commitments.export(MyPolicy)`"
        );
        assert_eq!(missing_in_python("SyntaxError: invalid syntax"), None);
    }
}
