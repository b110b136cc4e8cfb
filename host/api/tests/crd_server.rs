//! A real API server agrees with the table about what the definitions take and refuse, rule by
//! rule. Where there is no control plane, the test is reported as ignored, by name.

#[path = "crd/server.rs"]
mod server;
#[path = "crd/table.rs"]
mod table;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::control_plane::{self, ControlPlane};
use server::Server;

/// Requests under way at once: kubectl spends most of its time starting.
const AT_ONCE: usize = 4;

fn main() {
    let ignored = control_plane::tests_are_ignored();
    let agrees = || a_real_server_agrees_with_the_table().map_err(Failed::from);
    let trial =
        Trial::test("a_real_server_agrees_with_the_table", agrees).with_ignored_flag(ignored);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

fn a_real_server_agrees_with_the_table() -> Result<(), String> {
    // It has the definitions of deploy/crds from the beginning.
    let server = Server(ControlPlane::start("crds").map_err(|error| format!("{error:#}"))?);
    let (cases, next, wrong) = (table::cases(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let ask = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { return };
            let answer = server.ask(case, &format!("rules-{at}"));
            let right = match (&case.because, &answer) {
                (None, Ok(())) => true,
                (Some(because), Err(words)) => words.contains(server::words(because)),
                _ => false,
            };
            if !right && let Ok(mut wrong) = wrong.lock() {
                wrong.push(format!(
                    "{}\n  expected {:?}\n  found {answer:?}",
                    case.what, case.because
                ));
            }
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(ask))));
    let wrong = wrong.into_inner().map_err(|error| error.to_string())?;
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}
