//! `longshore-sim`: runs scenarios, and generated scenarios by seed.

#![allow(
    clippy::print_stdout,
    reason = "a command prints for the person that runs it"
)]

mod run;
mod seeds;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A world is JSON in small pieces that come and go: a third of its time went into the system's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The daemon in a simulated cluster, in virtual time.
///
/// The daemon's own log goes to standard error if RUST_LOG is set.
#[derive(Debug, Parser)]
#[command(name = "longshore-sim", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a scenario: cost, waiting pods, failures; the same as `longshore sim`
    Run(run::RunArgs),
    /// Runs the generated scenario of one seed again
    Seed(seeds::SeedArgs),
    /// Runs many generated scenarios on all cores, and reports their rate per minute
    Seeds(seeds::SeedsArgs),
}

fn main() -> ExitCode {
    let args = Args::parse();
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .try_init();
    }
    match args.command {
        Command::Run(args) => run::run(&args),
        Command::Seed(args) => seeds::seed(args),
        Command::Seeds(args) => seeds::seeds(args),
    }
}
