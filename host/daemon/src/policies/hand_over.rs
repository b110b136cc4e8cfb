//! Verbs that another program does: `longshore-policy`, which has the tools of languages inside.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::answer::Answer;
use longshore_live::error::Failure;

/// Name of the program with the other commands of policies.
const TOOL: &str = "longshore-policy";

/// Runs it with these arguments; its output is that of this command.
pub fn run(arguments: &[OsString]) -> Result<Answer, Failure> {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(TOOL));
    let beside = beside.filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(TOOL));
    let status = Command::new(&program).args(arguments).status();
    let status = status.map_err(|error| Failure::Usage {
        message: format!("{TOOL} is neither beside this program nor in PATH: {error}"),
        hint: "build it: cargo install --path host/policy-tool".into(),
    })?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Answer {
        text: String::new(),
        code: code.unwrap_or(2),
    })
}
