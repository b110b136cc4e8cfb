//! A policy that is named in one word, as on a command line.

use std::path::Path;

use longshore_bundle::Reference;
use longshore_expression::columns::Program;
use longshore_files::MAX_TEXT_BYTES;
use longshore_policy::{Exclusions, OnFailure};
use serde_json::Value;

use crate::config::{self, Mode, PolicyEntry, PolicySource, source};
use crate::error::Failure;

/// `FILE.wasm`, `FILE.wasm,SETTINGS.toml` or `cel=EXPRESSION`, for all NodePools. A reference to a
/// registry or a layout may stand in the file's place.
pub fn scorer(typed: &str) -> Result<PolicyEntry, Failure> {
    if let Some(text) = typed.strip_prefix("cel=") {
        return expression(text);
    }
    let (path, settings) = match typed.rsplit_once(',') {
        Some((path, settings)) => (path, settings_of(Path::new(settings))?),
        None => (typed, Value::Object(Default::default())),
    };
    Ok(PolicyEntry {
        settings,
        ..component(path)?
    })
}

/// The entry of a component without settings, for all NodePools: of a file, or of a reference.
///
/// # Errors
/// It has a digest and is no reference.
pub fn component(typed: &str) -> Result<PolicyEntry, Failure> {
    let reference = Reference::typed(typed).map_err(|why| Failure::Usage {
        message: format!("{}, character {}: {}", why.text, why.column, why.reason),
        hint: why.hint.into(),
    })?;
    let (name, source) = match reference {
        None => (
            Path::new(typed).file_stem(),
            PolicySource::File(typed.into()),
        ),
        Some(at) => (None, PolicySource::Bundle(at)),
    };
    let last = typed
        .split('@')
        .next()
        .and_then(|name| name.rsplit('/').next());
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let name = name.or(last.map(str::to_owned)).unwrap_or_default();
    Ok(typed_entry(name, source))
}

/// The entry of an expression that is typed, for all NodePools.
///
/// # Errors
/// It is no expression; with its column.
pub fn expression(text: &str) -> Result<PolicyEntry, Failure> {
    let program = Program::compile(text).map_err(|refused| Failure::Usage {
        message: format!("the expression has a fault: {refused}"),
        hint: refused.hint.to_string(),
    })?;
    Ok(PolicyEntry {
        settings: source::settings(text),
        signals: Some(source::signals(&program)),
        ..typed_entry("cel".into(), PolicySource::Expression)
    })
}

/// What no file says more of.
fn typed_entry(name: String, source: PolicySource) -> PolicyEntry {
    PolicyEntry {
        name,
        source,
        settings: Value::Object(Default::default()),
        settings_file: None,
        nodepools: None,
        mode: Mode::Enforce,
        grants: None,
        signals: None,
        max_discount: None,
        exclusions: Exclusions::Allow,
        on_failure: OnFailure::LastAnswer,
        canary: None,
        line: 0,
    }
}

/// The settings of a policy from a file of their own.
pub fn settings_of(file: &Path) -> Result<Value, Failure> {
    config::parse_settings(file, &read(file)?).map_err(Failure::Config)
}

/// The text of a file.
pub fn read(file: &Path) -> Result<String, Failure> {
    longshore_files::read_text(file, MAX_TEXT_BYTES).map_err(|source| Failure::Read {
        file: file.into(),
        source,
    })
}
