//! Generated scenarios by seed: one again, or many at once.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use longshore_live::process::mutants;
use longshore_sim::harness::generated::{ScenarioKind, types};
use longshore_sim::harness::run::{SeedResult, run_scenario};
use longshore_sim::harness::{SEEDS_SIZE, SEEDS_TYPES, reloader};

/// What `seed` and `seeds` have in common.
#[derive(Debug, Args)]
pub struct How {
    /// Nodes at the busiest, about
    #[arg(long, value_name = "N", default_value_t = SEEDS_SIZE, value_parser = clap::value_parser!(u32).range(1..=1000))]
    size: u32,
    /// Which scenarios: `usual`, or `safe` with two processes, late watches, stopped processes,
    /// clouds that say half; `disrupt` with disruption; `aws` with nodes of EC2 and faults of AWS,
    /// which needs --features aws
    #[arg(long, value_name = "KIND", default_value = "usual", value_parser = kind)]
    kind: ScenarioKind,
    /// With a defect of the daemon switched on; needs --features mutants
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
}

#[derive(Debug, Args)]
pub struct SeedArgs {
    /// The seed
    #[arg(value_name = "N")]
    seed: u64,
    /// Everything that happened
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
pub struct SeedsArgs {
    /// From the first to before the last
    #[arg(value_name = "FROM..TO", value_parser = range)]
    seeds: Range<u64>,
    /// As many at once [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Stops at the first seed that fails
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    how: How,
}

fn range(typed: &str) -> Result<Range<u64>, String> {
    let (from, to) = typed.split_once("..").ok_or("write it as 0..100")?;
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|error| format!("{text:?}: {error}"))
    };
    let range = number(from)?..number(to)?;
    if range.is_empty() {
        Err("there is no seed in it".to_owned())
    } else {
        Ok(range)
    }
}

fn kind(typed: &str) -> Result<ScenarioKind, String> {
    ScenarioKind::named(typed).ok_or_else(|| match typed {
        "aws" => "nodes of EC2 need --features aws; `cargo run -p longshore-sim --features aws` \
                  builds them, with AWS's SDK"
            .to_owned(),
        _ => "there are `usual`, `safe`, `disrupt`, `vain` and `aws`".to_owned(),
    })
}

/// The command.
struct SeedOptions {
    seeds: Range<u64>,
    one: bool,
    size: u32,
    kind: ScenarioKind,
    threads: usize,
    log: Option<PathBuf>,
    mutant: Option<String>,
    stop: bool,
}

/// Tells one scenario again.
pub fn seed(args: SeedArgs) -> ExitCode {
    let SeedArgs {
        seed,
        log,
        how: How { size, kind, mutant },
    } = args;
    let seeds = seed..seed.saturating_add(1);
    start(&SeedOptions {
        seeds,
        one: true,
        size,
        kind,
        threads: 1,
        log,
        mutant,
        stop: false,
    })
}

/// Tells many.
pub fn seeds(args: SeedsArgs) -> ExitCode {
    let SeedsArgs {
        seeds,
        threads,
        stop,
        how: How { size, kind, mutant },
    } = args;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or(cores, |threads| threads as usize);
    start(&SeedOptions {
        seeds,
        one: false,
        size,
        kind,
        threads,
        log: None,
        mutant,
        stop,
    })
}

fn start(asked: &SeedOptions) -> ExitCode {
    if !mutants::switch(asked.mutant.as_deref()) {
        eprintln!(
            "longshore-sim: no such mutant, or not compiled in (--features mutants). There are:"
        );
        mutants::ALL
            .iter()
            .for_each(|(name, what)| eprintln!("  {name:<20} {what}"));
        return ExitCode::from(2);
    }
    run(asked)
}

/// How often `seeds` says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

/// Results so far, and when the next line of progress is due.
struct Progress {
    results: Vec<SeedResult>,
    due: Instant,
}

impl Progress {
    /// Adds a result. A line for standard error, if one is due.
    fn add(&mut self, result: SeedResult, of: u64) -> Option<String> {
        self.results.push(result);
        let now = Instant::now();
        if now < self.due {
            return None;
        }
        self.due = now + PROGRESS_INTERVAL;
        let (ran, bad) = (self.results.len(), bad(&self.results));
        Some(format!("{ran} of {of} seeds ran, {bad} failed"))
    }
}

fn bad(all: &[SeedResult]) -> usize {
    all.iter().filter(|result| !result.wrong.is_empty()).count()
}

fn run(asked: &SeedOptions) -> ExitCode {
    let types = types(SEEDS_TYPES);
    let next = AtomicU64::new(asked.seeds.start);
    let began = Instant::now();
    let of = asked.seeds.end - asked.seeds.start;
    let progress = Mutex::new(Progress {
        results: Vec::new(),
        due: began + PROGRESS_INTERVAL,
    });
    let work = || {
        mutants::switch(asked.mutant.as_deref());
        let reloader = reloader().map_err(|failure| failure.to_string())?;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= asked.seeds.end {
                return Ok::<(), String>(());
            }
            let scenario = asked.kind.scenario(seed, asked.size, types.clone());
            let result = run_scenario(&scenario, reloader.clone(), asked.log.is_some());
            let result = result.map_err(|error| error.to_string())?;
            if !result.wrong.is_empty() {
                print!("{}", failed(&result, asked));
                if asked.stop {
                    next.store(asked.seeds.end, Ordering::Relaxed);
                }
            }
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(line) = progress.add(result, of) {
                eprintln!("{line}");
            }
        }
    };
    let threads = asked.threads.min(of as usize).max(1);
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .map(|one| {
                one.join()
                    .unwrap_or_else(|_| Err("a thread has panicked".into()))
            })
            .collect()
    });
    let took = began.elapsed();
    if let Some(why) = outcomes.into_iter().find_map(Result::err) {
        eprintln!("longshore-sim: {why}");
        return ExitCode::from(2);
    }
    let progress = progress.into_inner();
    let all = progress.unwrap_or_else(PoisonError::into_inner).results;
    if let (Some(file), true, [result]) = (&asked.log, asked.one, all.as_slice())
        && let Err(error) = std::fs::write(file, &result.transcript)
    {
        eprintln!("longshore-sim: {}: {error}", file.display());
        return ExitCode::from(2);
    }
    println!("{}", summary(&all, threads, took.as_secs_f64()));
    ExitCode::from(u8::from(bad(&all) > 0))
}

fn failed(result: &SeedResult, asked: &SeedOptions) -> String {
    let mut text = format!("seed {} fails:\n", result.seed);
    result
        .wrong
        .iter()
        .take(12)
        .for_each(|line| text += &format!("  {line}\n"));
    if result.wrong.len() > 12 {
        text += &format!("  and {} more\n", result.wrong.len() - 12);
    }
    let (features, mutant) = match &asked.mutant {
        Some(name) => (" --features mutants", format!(" --mutant {name}")),
        None if asked.kind.name() == "aws" => (" --features aws", String::new()),
        None => ("", String::new()),
    };
    let size = if asked.size == SEEDS_SIZE {
        String::new()
    } else {
        format!(" --size {}", asked.size)
    };
    let kind = if asked.kind == ScenarioKind::Usual {
        String::new()
    } else {
        format!(" --kind {}", asked.kind.name())
    };
    let seed = result.seed;
    text + &format!(
        "  again: cargo run -p longshore-sim{features} --bin longshore-sim -- seed \
        {seed}{size}{kind}{mutant}\n"
    )
}

fn summary(all: &[SeedResult], threads: usize, seconds: f64) -> String {
    let bad = bad(all);
    let busiest: Vec<usize> = all.iter().map(|result| result.busiest).collect();
    let mean = busiest.iter().sum::<usize>() as f64 / all.len().max(1) as f64;
    let most = busiest.iter().max().copied().unwrap_or(0);
    let sum = |of: &dyn Fn(&SeedResult) -> u64| all.iter().map(of).sum::<u64>();
    format!(
        "{} seeds in {seconds:.1} s on {threads} threads, {:.0} a minute: {bad} failed. At the \
        busiest {mean:.0} nodes on \
         average, {most} at most; {} instances bought, {} processes, {} requests",
        all.len(),
        all.len() as f64 / seconds * 60.0,
        sum(&|result| result.bought as u64),
        sum(&|result| u64::from(result.processes)),
        sum(&|result| result.requests),
    )
}
