//! Files to a world: manifests and instance types are read, parsed and dropped one after the other.

use std::io::Read as _;
use std::path::Path;

use longshore_core::model::World;

use crate::failure::Failure;
use crate::options::Options;

/// An object that was skipped.
pub struct Problem;

/// Reads what `options` name.
pub fn read(options: &Options) -> Result<(World, Vec<Problem>), Failure> {
    Err(Failure::Input {
        file: options.snapshot.first().cloned().unwrap_or_default(),
        reason: "manifests are not read yet".into(),
        hint: String::new(),
    })
}

/// A world with nothing but instance types.
pub fn catalogue_only(file: Option<&Path>) -> Result<World, Failure> {
    Err(Failure::Input {
        file: file.unwrap_or(Path::new("")).into(),
        reason: "instance types are not read yet".into(),
        hint: String::new(),
    })
}

/// Prints problems on standard error, one a line.
pub fn complain(problems: &[Problem]) {
    _ = problems;
}

/// A problem as an object for programs.
pub fn object(problem: &Problem) -> serde_json::Value {
    _ = problem;
    serde_json::Value::Null
}

#[allow(dead_code)]
fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let read = match file.as_os_str() == "-" {
        true => {
            let mut all = Vec::new();
            std::io::stdin().lock().read_to_end(&mut all).map(|_| all)
        }
        false => std::fs::read(file),
    };
    read.map_err(|source| Failure::Read { file: file.into(), source })
}
