//! A real API server agrees with the table about what the definitions take and refuse, rule by
//! rule, and with our readers about manifests that are mutated from valid ones. Both ask one control
//! plane. Where there is none, the tests are reported as ignored, by name.

#![allow(clippy::print_stdout, reason = "figures, for a person that runs it")]

mod crossing;
#[path = "crossing/server.rs"]
mod server;
#[path = "../../api/tests/crd/table.rs"]
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::control_plane::{self, ControlPlane};
use server::Server;

/// Requests under way at once: kubectl spends most of its time starting.
const AT_ONCE: usize = 4;

/// The control plane, once it has been started. The last test takes it down.
type Shared = Arc<Mutex<Option<Arc<Server>>>>;

fn main() {
    let ignored = control_plane::tests_are_ignored();
    let shared = Shared::default();
    let trial = |name: &str, test: fn(&Server) -> Result<(), String>| {
        let shared = shared.clone();
        let run = move || {
            let server = started(&shared).map_err(Failed::from)?;
            test(&server).map_err(Failed::from)
        };
        Trial::test(name, run).with_ignored_flag(ignored)
    };
    let trials = vec![
        trial("a_real_server_agrees_with_the_table", agrees_with_the_table),
        trial(
            "what_a_real_server_refuses_is_refused_and_what_it_takes_is_read",
            |server| crossing::agrees(&server.0),
        ),
    ];
    drop(shared);
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn started(shared: &Shared) -> Result<Arc<Server>, String> {
    let mut server = shared.lock().map_err(|error| error.to_string())?;
    if let Some(server) = &*server {
        return Ok(server.clone());
    }
    // It has the definitions of deploy/crds from the beginning.
    let plane = ControlPlane::start("crds").map_err(|error| format!("{error:#}"))?;
    Ok(server.insert(Arc::new(Server(plane))).clone())
}

fn agrees_with_the_table(server: &Server) -> Result<(), String> {
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
