//! `longshore-sim run`, which `longshore sim` runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use longshore_live::config::reader::duration;
use longshore_live::error::Failure;
use longshore_sim::scenario::play::{ScenarioOutcome, play};
use longshore_sim::scenario::read::Unread;
use longshore_sim::scenario::{Policy, Scenario, read};
use longshore_sim::show;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// What happens; examples/scenarios has some
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Scorer that replaces that of the scenario: a longshore.toml, a component, or `price`
    #[arg(long, value_name = "longshore.toml|FILE.wasm[,SETTINGS.toml]|price")]
    policy: Option<String>,
    /// Runs it again with this policy and shows both side by side; may be repeated
    #[arg(long, value_name = "longshore.toml|FILE.wasm[,SETTINGS.toml]|price")]
    compare: Vec<String>,
    /// Another seed than the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Ends earlier, as `6h`
    #[arg(long = "for", value_name = "DURATION", value_parser = length)]
    length: Option<Duration>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
    /// A folder for drawings: cost, nodes, pods that wait
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// A folder for the daemon's journal, which `longshore replay` reads
    #[arg(long, value_name = "DIR", conflicts_with = "compare")]
    journal: Option<PathBuf>,
    /// Shows it in the terminal as it happens, in accelerated real time; the policy file can be
    /// edited meanwhile
    #[arg(long, conflicts_with_all = ["compare", "journal"])]
    live: bool,
    /// How long it is shown
    #[arg(long, value_name = "SECONDS", requires = "live", value_parser = positive)]
    seconds: Option<f64>,
    /// How many times as fast as life it is shown [default: so that all of it is]
    #[arg(long, value_name = "TIMES", requires = "live", value_parser = positive)]
    speed: Option<f64>,
    /// Shows it as lines; so does a pipe
    #[arg(long, requires = "live")]
    plain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

fn length(typed: &str) -> Result<Duration, String> {
    let length = duration(typed).filter(|length| *length >= Duration::from_secs(60));
    length.ok_or_else(|| "expected a duration of a minute at least, as `6h` or `2d`".to_owned())
}

fn positive(typed: &str) -> Result<f64, String> {
    let number = typed
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// Runs a scenario and prints the result.
pub fn run(args: &RunArgs) -> ExitCode {
    let began = Instant::now();
    let runs = match tried(args) {
        Ok(runs) => runs,
        Err(unread) => {
            eprintln!("longshore sim: {}", unread.report());
            return ExitCode::from(2);
        }
    };
    let text = match (args.output, runs.as_slice()) {
        (Output::Json, runs) => show::json::json(runs),
        (Output::Text, [one]) => show::text::text(one),
        (Output::Text, runs) => show::compare::compare(runs),
    };
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        eprintln!("longshore sim: cannot print: {error}");
        return ExitCode::from(2);
    }
    if let Some(folder) = &args.plots {
        match show::plot::plots(&runs, folder) {
            Ok(files) => files
                .iter()
                .for_each(|file| eprintln!("drawn: {}", file.display())),
            Err(error) => {
                eprintln!("longshore sim: {}", words(&error));
                return ExitCode::from(2);
            }
        }
    }
    let simulated = runs.iter().map(|run| run.totals.time).sum();
    eprintln!("{}", show::text::speed(simulated, began.elapsed()));
    ExitCode::from(u8::from(
        runs.iter().any(|run| !run.totals.violations.is_empty()),
    ))
}

/// An error with its cause.
fn words(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// The scenario with each policy, as many at once as there are cores.
fn tried(args: &RunArgs) -> Result<Vec<ScenarioOutcome>, Unread> {
    let scenario = scenario(args)?;
    let own = args
        .policy
        .as_deref()
        .map(Policy::typed)
        .transpose()?
        .unwrap_or_else(|| scenario.policy.clone());
    let others = args
        .compare
        .iter()
        .map(|typed| Policy::typed(typed))
        .collect::<Result<Vec<_>, _>>()?;
    let policies: Vec<Policy> = std::iter::once(own).chain(others).collect();
    policies.iter().try_for_each(offline)?;
    if args.live {
        return shown(args, scenario, &policies[0]);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut runs = Vec::new();
    for some in policies.chunks(cores) {
        let some: Vec<Result<ScenarioOutcome, Failure>> = std::thread::scope(|scope| {
            let begun: Vec<_> = some
                .iter()
                .map(|policy| scope.spawn(|| play(&scenario, policy, args.journal.as_deref())))
                .collect();
            begun
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|_| Err(panicked())))
                .collect()
        });
        runs.extend(some.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    Ok(runs)
}

#[cfg(feature = "terminal")]
fn shown(
    args: &RunArgs,
    scenario: Scenario,
    policy: &Policy,
) -> Result<Vec<ScenarioOutcome>, Unread> {
    let options = longshore_sim::terminal::TerminalOptions {
        seconds: args.seconds,
        speed: args.speed,
        plain: args.plain,
    };
    Ok(vec![longshore_sim::terminal::show(
        scenario, policy, options,
    )?])
}

#[cfg(not(feature = "terminal"))]
fn shown(_: &RunArgs, _: Scenario, _: &Policy) -> Result<Vec<ScenarioOutcome>, Unread> {
    let failure = Failure::Usage {
        message: "this binary was built without --live".into(),
        hint: "build it with the feature `terminal`".into(),
    };
    Err(failure.into())
}

fn panicked() -> Failure {
    Failure::Usage {
        message: "a run has ended in a panic: a defect, please report it".into(),
        hint: String::new(),
    }
}

fn offline(policy: &Policy) -> Result<(), Failure> {
    match policy.network() {
        None => Ok(()),
        Some((message, hint)) => Err(Failure::Usage {
            message,
            hint: hint.into(),
        }),
    }
}

fn scenario(args: &RunArgs) -> Result<Scenario, Unread> {
    let mut scenario = read::read(&args.scenario)?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    if let Some(length) = args.length {
        scenario.cut(length);
    }
    Ok(scenario)
}
