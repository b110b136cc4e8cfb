//! Signals from files: a JSON object from keys to numbers.

use std::path::Path;

use longshore_policy::Signal;

use longshore_live::error::Failure;
use longshore_live::policies::signal_table;

/// Reads a table. Its time is 0: a file says nothing about when its numbers were true, and its date
/// would make plans differ from one checkout to the next.
pub fn read(file: &Path) -> Result<Signal, Failure> {
    let bytes =
        longshore_files::read(file, signal_table::MAX_BYTES).map_err(|source| Failure::Read {
            file: file.into(),
            source,
        })?;
    let rows = signal_table::read(&bytes).map_err(|reason| Failure::Input {
        file: file.into(),
        reason,
        hint: signal_table::HINT.into(),
    })?;
    Ok(Signal::new(0.0, rows))
}
