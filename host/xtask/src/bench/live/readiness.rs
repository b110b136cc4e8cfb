//! Number of ready pods of Deployments, from a watch: polling twice a second takes a tenth of a
//! small machine.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use anyhow::{Context as _, bail};
use longshore_xtask::control_plane::ControlPlane;

use super::wait::MAX_POD_WAIT;

/// A line of each Deployment whenever it changes.
const LINE: &str = r#"jsonpath={.metadata.name} {.status.readyReplicas}{"\n"}"#;

/// A kubectl that watches Deployments; killed when dropped.
pub struct Readiness {
    kubectl: Child,
    lines: Receiver<String>,
    ready: BTreeMap<String, usize>,
}

impl Readiness {
    /// Begins to watch.
    pub fn watch(plane: &ControlPlane) -> anyhow::Result<Self> {
        let mut command = plane.kubectl()?;
        command.args(["get", "deployments", "--watch", "--output", LINE]);
        let mut kubectl = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start kubectl")?;
        let out = BufReader::new(kubectl.stdout.take().context("kubectl has no output")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Ok(Readiness {
            kubectl,
            lines,
            ready: BTreeMap::new(),
        })
    }

    /// How many are ready as far as is known.
    pub fn count(&self) -> usize {
        self.ready.values().sum()
    }

    /// Waits until so many are ready.
    pub fn until(&mut self, wanted: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + MAX_POD_WAIT;
        while self.count() < wanted {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.read(&line),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("not within {} s: all pods run", MAX_POD_WAIT.as_secs_f64())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("kubectl has stopped to watch Deployments")
                }
            }
        }
        Ok(())
    }

    /// A Deployment without a ready pod has a name alone.
    fn read(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        if let Some(name) = words.next() {
            let ready = words
                .next()
                .and_then(|count| count.parse().ok())
                .unwrap_or(0);
            self.ready.insert(name.to_owned(), ready);
        }
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}
