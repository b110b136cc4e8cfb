//! Waits of a run: for what holds some time, and for no longer than that.

use std::time::{Duration, Instant};

use anyhow::bail;
use longshore_xtask::control_plane::ControlPlane;

/// Longest wait for pods.
pub const MAX_POD_WAIT: Duration = Duration::from_secs(300);

/// Waits until something holds.
pub fn until(what: &str, holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    within(MAX_POD_WAIT, Duration::from_millis(500), what, holds)
}

/// The same for no longer than `patience`, looking every so often.
pub fn within(
    patience: Duration,
    every: Duration,
    what: &str,
    mut holds: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        if holds().unwrap_or(false) {
            return Ok(());
        }
        std::thread::sleep(every);
    }
    bail!("not within {} s: {what}", patience.as_secs_f64())
}

/// Waits until the NodePool can be planned for.
pub fn pool_is_ready(plane: &ControlPlane) -> anyhow::Result<()> {
    let path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    until("the NodePool is ready", || {
        Ok(plane.run(&["get", "nodepool", "default", "-o", path])? == "True")
    })
}
