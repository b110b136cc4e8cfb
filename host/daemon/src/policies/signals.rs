//! Signals from files: a JSON object from keys to numbers.

use std::collections::BTreeMap;
use std::path::Path;

use longshore_policy::Signal;

use longshore_live::error::Failure;

/// Reads a table. Its time is 0: a file says nothing about when its numbers were true, and its date
/// would make plans differ from one checkout to the next.
pub fn read(file: &Path) -> Result<Signal, Failure> {
    let bytes = std::fs::read(file).map_err(|source| Failure::Read {
        file: file.into(),
        source,
    })?;
    let rows: BTreeMap<String, f64> =
        serde_json::from_slice(&bytes).map_err(|error| Failure::Input {
            file: file.into(),
            reason: format!("not a signal: {error}"),
            hint: "write a JSON object of numbers: {\"us-east-1a\": 379.5}".into(),
        })?;
    Ok(Signal::new(0.0, rows))
}
