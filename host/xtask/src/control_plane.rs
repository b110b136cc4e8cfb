//! A real Kubernetes control plane on loopback: etcd, API server, controller manager, scheduler,
//! and kwok for kubelets.
//!
//! For people (`cargo xtask cluster`) and for tests ([`ControlPlane`]). Everything is in one folder
//! per cluster, no port is fixed, and any number of clusters run side by side. The daemon and other
//! programs that run in such a cluster are not started here.

mod audit;
mod binaries;
pub(crate) mod build;
mod cluster;
mod flags;
mod install;
mod ports;
mod process;
mod program;

use std::io::Write as _;
use std::ops::Deref;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};

pub use audit::{OTHER as OTHER_USER, OURS as OUR_USER, Request};
pub use binaries::{Binaries, cache};
pub use cluster::{Cluster, ProgramState, remove_orphans};
pub use ports::free as free_ports;
pub use process::{Process, Usage};
pub use program::Program;

/// Name of the kubeconfig with all rights.
pub const ADMIN: &str = "admin.kubeconfig";
/// Name of the kubeconfig with the rights of `deploy/rbac.yaml`.
pub const LONGSHORE: &str = "longshore.kubeconfig";
/// Name of the kubeconfig of a foreign controller.
const OTHER: &str = "other.kubeconfig";

/// Whether [`ControlPlane::start`] can work without building anything first, or why not. A test
/// that needs a control plane where there is none is to be reported as not run, with this reason.
pub fn available() -> Result<(), String> {
    let binaries = Binaries::find().map_err(|error| format!("{error:#}"))?;
    let missing: Vec<_> = binaries
        .missing()
        .iter()
        .map(|binary| binary.program.name())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    match build::go_is_there() {
        Ok(()) => Err(format!(
            "not built yet: {missing}; run `cargo xtask cluster build`, once, about 20 minutes"
        )),
        Err(reason) => Err(format!("no {missing}, and they cannot be built: {reason}")),
    }
}

/// Whether tests that need a control plane are to be reported as ignored. There is none then, and
/// standard error says why. Never in CI: there such a test runs, and fails with the reason.
pub fn tests_are_ignored() -> bool {
    match available() {
        Err(reason) if !crate::ci::in_ci() => {
            eprintln!("not run, no control plane: {reason}");
            true
        }
        _ => false,
    }
}

/// Builds what is missing, and says what it does.
pub fn build(say: &dyn Fn(&str)) -> Result<()> {
    build::build(&Binaries::find()?, say)
}

/// A control plane that belongs to this process: a test's own. Dropped, it is gone with all that it
/// held.
///
/// ```no_run
/// # fn main() -> anyhow::Result<()> {
/// use longshore_xtask::control_plane::{self, ControlPlane};
///
/// if let Err(reason) = control_plane::available() {
///     eprintln!("not run: {reason}");
///     return Ok(());
/// }
/// let plane = ControlPlane::start("evictions")?;
/// plane.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")?;
/// let pods = plane.run(&["get", "pods", "--all-namespaces", "--output", "json"])?;
/// let config = plane.longshore_kubeconfig();
/// # let _ = (pods, config);
/// # Ok(())
/// # }
/// ```
///
/// With `LONGSHORE_KEEP_CLUSTERS` set it stays until the next test starts one, so that one can look
/// at it.
#[derive(Debug)]
pub struct ControlPlane {
    cluster: Cluster,
}

impl ControlPlane {
    /// Starts one. The name is for people; two of the same name do not meet. Takes down what
    /// earlier processes left.
    pub fn start(name: &str) -> Result<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        available().map_err(anyhow::Error::msg)?;
        remove_orphans()?;
        let serial = STARTED.fetch_add(1, Ordering::Relaxed);
        let cluster = Cluster::named(&format!("{name}-{}-{serial}", std::process::id()))?;
        let plane = Self { cluster };
        plane.cluster.up(Process::current().as_ref(), &|_| {})?;
        Ok(plane)
    }

    /// Starts again what was killed.
    pub fn restart(&self) -> Result<()> {
        self.cluster.up(Process::current().as_ref(), &|_| {})
    }

    /// Runs kubectl as the administrator and returns what it prints.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        install::run(&self.cluster, args)
    }

    /// Applies manifests, as YAML or JSON.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        let mut command = self.cluster.kubectl()?;
        command.args(["apply", "--server-side", "--filename", "-"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start kubectl")?;
        // Closed at the end of the statement, and read to the end before it answers.
        child
            .stdin
            .take()
            .context("no way to kubectl")?
            .write_all(manifests.as_bytes())?;
        let out = child.wait_with_output()?;
        install::checked(&command, out)
    }
}

impl Deref for ControlPlane {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::env::var_os("LONGSHORE_KEEP_CLUSTERS").is_none()
            && let Err(error) = self.cluster.down()
        {
            eprintln!("{error:#}");
        }
    }
}
