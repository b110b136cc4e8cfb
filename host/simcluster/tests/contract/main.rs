//! What an API server promises, asked of the simulated one and of a real one. Where there is no
//! control plane, the tests on it are reported as ignored, by name. Where the two differ, the
//! simulated one is wrong.

mod world;

mod applies;
mod custom;
mod deletion;
mod evictions;
mod lists;
mod objects;
mod patches;
mod pods;
mod watches;
mod workloads;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_simcluster::clock::Clock;
use longshore_simcluster::server::Server;
use longshore_xtask::control_plane::{self, ControlPlane};
use tokio::runtime::{Builder, Runtime};

use world::{Test, World};

fn main() {
    let arguments = Arguments::from_args();
    let ignored = control_plane::tests_are_ignored();
    static PLANE: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
    let plane = || match PLANE
        .get_or_init(|| ControlPlane::start("contract").map_err(|error| format!("{error:#}")))
    {
        Ok(plane) => Ok(plane),
        Err(error) => Err(Failed::from(error)),
    };
    let fails = |error: anyhow::Error| Failed::from(format!("{error:#}"));
    let mut trials = Vec::new();
    for (name, test) in all() {
        trials.push(Trial::test(format!("simulated::{name}"), move || {
            on_simulated(test).map_err(fails)
        }));
        let real = Trial::test(format!("real::{name}"), move || {
            on_real(plane()?, test).map_err(fails)
        });
        trials.push(real.with_ignored_flag(ignored));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // A static is never dropped.
    if let Some(Ok(plane)) = PLANE.get()
        && let Err(error) = plane.down()
    {
        eprintln!("{error:#}");
    }
    conclusion.exit();
}

fn all() -> Vec<(&'static str, Test)> {
    [
        objects::ALL,
        lists::ALL,
        watches::ALL,
        patches::ALL,
        applies::ALL,
        deletion::ALL,
        pods::ALL,
        evictions::ALL,
        workloads::ALL,
        custom::ALL,
    ]
    .concat()
}

fn on_simulated(test: Test) -> Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(async {
        let server = Server::new(Clock::starting_at("2026-01-05T09:00:00Z".parse()?), 7);
        let world = World::new(server.client("test"), "t".to_owned(), false).await?;
        test(&world).await
    })
}

fn on_real(plane: &ControlPlane, test: Test) -> Result<()> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let runtime: Runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let file = kube::config::Kubeconfig::read_from(plane.admin_kubeconfig())?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
        // A refusal is an answer.
        config.default_retry = false;
        let client = kube::Client::try_from(config).context("no client")?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let world = World::new(client, format!("t{number}"), true).await?;
        test(&world).await
    })
}
