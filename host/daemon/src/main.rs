//! The `longshore` command; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    longshore_daemon::main()
}
