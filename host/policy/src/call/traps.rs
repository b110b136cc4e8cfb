//! What a policy called that it cannot have, by the names in the backtrace of its trap: toolchains
//! that stub WASI trap there, and the words of the guest's own error are lost.

use crate::guest_text::cut;

/// Frames that are looked at, innermost first.
const MAX_FRAMES: usize = 32;
/// The longest name of a function that is shown.
const MAX_NAME_BYTES: usize = 100;

/// Words in the names of stubs, what they are for, and what to do instead.
const STUBS: [(&[&str], &str, &str); 6] = [
    (
        &["clock_", "clocks", "clock-"],
        "the clock",
        "`request.now` is the time of the round",
    ),
    (
        &["random"],
        "random numbers",
        "an answer follows from its input",
    ),
    (&["stderr", "stdout", "fd_write", "terminal"], PRINT, REPORT),
    (
        &["filesystem", "preopen", "path_open", "fd_"],
        "a file, as for a traceback or a module that is imported late",
        REPORT,
    ),
    (
        &["environment", "environ_", "args_get", "args_sizes"],
        "arguments or environment variables",
        "settings come with `configure`",
    ),
    (&["proc_exit", "cli_exit", "cli/exit"], "an exit", REPORT),
];
const PRINT: &str = "standard output or error";
const REPORT: &str = "an error is reported with `raise Err(\"…\")` in Python, `throw` in JavaScript, \
                      the error of the result elsewhere; words for people with `log`";

/// What a trap was about, if a stub was called; names of functions, innermost first.
pub(super) fn called<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    for name in names.take(MAX_FRAMES) {
        let lower = name.to_ascii_lowercase();
        let about = |(words, ..): &&(&[&str], &str, &str)| {
            is_stub(&lower) && words.iter().any(|word| lower.contains(word))
        };
        if let Some((_, what, instead)) = STUBS.iter().find(about) {
            let name = cut(name.to_owned(), MAX_NAME_BYTES);
            return Some(format!(
                "it wanted {what} (`{name}`), which a policy cannot have; {instead}"
            ));
        }
    }
    None
}

/// Whether a function's name is one of WASI's: a policy's own `random_forest` is none.
fn is_stub(name: &str) -> bool {
    let marks = [
        "wasi",
        "preopens",
        "stderr_",
        "stdout_",
        "clock_",
        "clocks",
        "random_get",
        "fd_",
        "path_open",
        "environ_",
        "proc_exit",
        "args_get",
        "args_sizes",
        "filesystem_",
        "cli_",
        "terminal_",
    ];
    marks.iter().any(|mark| name.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(names: &[&str]) -> String {
        called(names.iter().copied()).unwrap_or_default()
    }

    #[test]
    fn what_a_stub_was_called_for_has_words() {
        let python = said(&[
            "filesystem_preopens_get_directories",
            "PyErr_Print",
            "longshore:policy/scorer@0.1.0#score",
        ]);
        assert_eq!(
            python,
            "it wanted a file, as for a traceback or a module that is imported late \
             (`filesystem_preopens_get_directories`), which a policy cannot have; an error is reported \
             with `raise Err(\"…\")` in Python, `throw` in JavaScript, the error of the result \
             elsewhere; words for people with `log`"
        );
        let clock = said(&[
            "abort",
            "wasi:clocks/monotonic-clock@0.2.6#now",
            "js_date_now",
        ]);
        assert!(
            clock.contains("`request.now` is the time of the round"),
            "{clock}"
        );
        for (name, what) in [
            ("__wasi_clock_time_get", "the clock"),
            ("stderr_get_stderr", "standard output or error"),
            ("__wasi_fd_write", "standard output or error"),
            (
                "__imported_wasi_snapshot_preview1_random_get",
                "random numbers",
            ),
            ("__wasi_environ_get", "environment variables"),
            ("__wasi_proc_exit", "an exit"),
        ] {
            let said = said(&["unreachable", name]);
            assert!(said.contains(what), "{name}: {said}");
        }
    }

    #[test]
    fn functions_of_the_policy_itself_are_no_stubs() {
        assert_eq!(
            said(&["random_forest", "score", "clockwise", "exit_early"]),
            ""
        );
        let many = vec!["score"; 40];
        let deep = [&many[..], &["stderr_get_stderr"]].concat();
        assert_eq!(said(&deep), "", "a recursion is not followed for ever");
        let hostile = format!("wasi_clock_\u{1b}[2J{}", "x".repeat(5000));
        assert!(said(&[&hostile]).len() < 400);
    }
}
