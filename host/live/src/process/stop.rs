//! SIGTERM and SIGINT: the process ends soon, whatever it is doing.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// A process that is told to stop has ended after this. What is under way is then left as it is: the
/// daemon can be killed anywhere.
pub const STOP_LIMIT: Duration = Duration::from_millis(9_500);
/// Exit code of a process that did not end by itself in time.
const EXIT_CODE_TOO_LATE: i32 = 3;

/// Hears signals on a thread of its own, so that a busy or stuck loop hears them in time. The answer
/// comes with the first one; the process ends [`STOP_LIMIT`] later at the latest.
///
/// # Errors
/// There is no thread for it, or signals cannot be heard.
pub fn on_signal() -> io::Result<oneshot::Receiver<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut terminate, mut interrupt) = {
        let _in = runtime.enter();
        (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        )
    };
    let (stopping, stops) = oneshot::channel();
    let waits = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        let _ = stopping.send(());
        std::thread::sleep(STOP_LIMIT);
        std::process::exit(EXIT_CODE_TOO_LATE);
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(waits)?;
    Ok(stops)
}
