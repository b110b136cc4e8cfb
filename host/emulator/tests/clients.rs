//! Clients that were not written here. Whether they are there is known when tests are about to run,
//! not when they are compiled.

mod aws_cli;
mod background;
mod boto3;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = libtest_mimic::Arguments::from_args();
    let trials = boto3::trials().into_iter().chain(aws_cli::trials());
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
