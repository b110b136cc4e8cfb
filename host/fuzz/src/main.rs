//! `longshore-fuzz TARGET [--seconds N] [--seed N] [--from N]`: runs inputs from a seed until the
//! time is over or one panics.

#![allow(clippy::print_stdout, reason = "talking is what it is for")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use longshore_fuzz::{Inputs, TARGETS, corpus};

/// An input that takes longer than this is reported.
const SLOW_INPUT_TIME: Duration = Duration::from_secs(5);
/// How often it says that it is alive.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("longshore-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<(), String> {
    let names = TARGETS.map(|(name, _)| name).join(", ");
    let (name, options) = args.split_first().ok_or(format!("which target? {names}"))?;
    let (_, target) = TARGETS
        .iter()
        .find(|(known, _)| known == name)
        .ok_or(format!("no target {name:?}: {names}"))?;
    let option = |wanted: &str, default: u64| match options.iter().position(|word| word == wanted) {
        None => Ok(default),
        Some(at) => options
            .get(at + 1)
            .and_then(|word| word.parse().ok())
            .ok_or(format!("{wanted} wants a number")),
    };
    let (seconds, seed, from) = (
        option("--seconds", 60)?,
        option("--seed", 1)?,
        option("--from", 0)?,
    );
    let inputs = Inputs::new(corpus(name).map_err(|error| error.to_string())?, seed);
    let begun = Instant::now();
    let mut said = begun;
    let mut done = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        let n = from + done;
        let input = inputs.get(n);
        let started = Instant::now();
        if std::panic::catch_unwind(|| target(&input)).is_err() {
            return Err(kept(name, n, &input, "panics"));
        }
        if started.elapsed() > SLOW_INPUT_TIME {
            return Err(kept(
                name,
                n,
                &input,
                &format!("takes {:.1} s", started.elapsed().as_secs_f64()),
            ));
        }
        if said.elapsed() >= PROGRESS_INTERVAL {
            said = Instant::now();
            println!("    {name}: {n}");
        }
        done += 1;
    }
    println!("{name}: {done} inputs of seed {seed} in {seconds} s, none panics");
    Ok(())
}

/// Keeps an input that breaks something, and says how to see it again.
fn kept(name: &str, n: u64, input: &[u8], what: &str) -> String {
    let file = std::env::temp_dir().join(format!("longshore-fuzz-{name}-{n}"));
    let kept = match std::fs::write(&file, input) {
        Ok(()) => format!("it is {}", file.display()),
        Err(error) => format!("it cannot be kept: {error}"),
    };
    format!("input {n} of {name} {what}; {kept}")
}
