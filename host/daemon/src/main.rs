//! The `longshore` command; see the library beside it.

use std::process::ExitCode;

/// Gives back what a compiled policy or a large plan took; glibc's keeps it in the arenas of threads that are gone.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    longshore_daemon::main()
}
