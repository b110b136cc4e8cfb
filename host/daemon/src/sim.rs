//! `longshore sim`: runs `longshore-sim run`.
//!
//! The simulator runs this crate's daemon and so cannot be part of it. It is a separate program,
//! found beside this one or on the path.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::answer::Answer;
use crate::args::SimArgs;
use longshore_live::error::Failure;

const PROGRAM: &str = "longshore-sim";

/// Executes the simulator in place of this process; returns only if it is not found.
pub fn run(args: &SimArgs) -> Result<Answer, Failure> {
    let beside = beside();
    let program = beside
        .clone()
        .filter(|file| file.is_file())
        .unwrap_or(PROGRAM.into());
    let error = Command::new(&program).arg("run").args(&args.rest).exec();
    let message = match error.kind() {
        std::io::ErrorKind::NotFound => {
            let beside = beside.map_or(String::new(), |file| format!(" at {} nor", file.display()));
            format!("{PROGRAM} is neither{beside} on the path")
        }
        _ => format!("{} does not start: {error}", program.display()),
    };
    let hint = "build it with `cargo build --release -p longshore-sim`, or `cargo install --path \
        host/sim`"
        .into();
    Err(Failure::Usage { message, hint })
}

fn beside() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.join(PROGRAM))
}
