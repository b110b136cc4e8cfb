//! The `longshore` command as a library, for its own tests: reads files, calls the core, prints the
//! result.
//!
//! This crate owns everything that touches the outside: arguments, configuration, files, standard
//! streams, exit codes. It decides nothing about nodes or pods; every number that it prints comes
//! from a [`longshore_core::plan::Plan`].
//!
//! [`args`] holds arguments as typed; [`options`] holds their meaning after configuration and
//! defaults are applied. Exit codes: 0 for success; 1 for a plan with unplaced pods under
//! `--strict`, for a replay that differs and for a `grep` without a match; 2 for bad input or
//! configuration. `migrate check` has 1 and 3 for what it finds.

pub(crate) mod settings;

mod answer;
mod args;
mod disrupt;
mod emulate;
mod explain;
mod hash;
mod input;
mod journal;
mod migrate;
mod options;
mod plan;
mod policies;
#[cfg(test)]
mod reference;
mod render;
pub mod replay;
mod run;
mod sim;
mod spread;
mod status;
mod types;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command, JournalCommand, MigrateCommand, PolicyCommand, RenderCommand};
use longshore_live::error::Failure;

/// Does what the arguments say.
pub fn main() -> ExitCode {
    let answer = match Args::parse().command {
        Command::CompilePolicy(args) => {
            let code = longshore_policy::compile_child(args.memory, args.canonical_nans);
            return ExitCode::from(code);
        }
        Command::Plan(args) => plan::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Types(args) => types::run(&args),
        Command::Hash(args) => hash::run(&args),
        Command::Render(args) => match args.command {
            RenderCommand::Userdata(args) => render::userdata(&args),
        },
        Command::Policy(args) => match args.command {
            PolicyCommand::Check(args) => policies::check::run(&args),
            PolicyCommand::Bench(args) => policies::bench::run(&args),
            PolicyCommand::New(args) => policies::new::run(&args),
            PolicyCommand::Build(args) => policies::hand_over::run(&args.with("build")),
            PolicyCommand::Test(args) => policies::test::run(&args),
            PolicyCommand::Run(args) => policies::run::run(&args),
            PolicyCommand::Prove(args) => policies::prove::run(&args),
            PolicyCommand::Status(args) => policies::canaries::status(&args),
            PolicyCommand::Promote(args) => policies::canaries::promote(&args),
            PolicyCommand::Abort(args) => policies::canaries::abort(&args),
        },
        Command::Run(args) => run::run(&args),
        Command::Emulate(args) => emulate::run(&args),
        Command::Migrate(args) => match args.command {
            MigrateCommand::Check(args) => migrate::check(&args),
        },
        Command::Sim(args) => sim::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Journal(args) => match args.command {
            JournalCommand::Show(args) => journal::show(&args),
            JournalCommand::Grep(args) => journal::grep(&args),
        },
    };
    let answer = answer.and_then(|answer| {
        let mut out = std::io::stdout().lock();
        match out
            .write_all(answer.text.as_bytes())
            .and_then(|()| out.flush())
        {
            // A reader that has seen enough (`| head`) is no failure.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::Print(error))
            }
            _ => Ok(answer.code),
        }
    });
    match answer {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("longshore: {}", failure.report());
            ExitCode::from(2)
        }
    }
}
