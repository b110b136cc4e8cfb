//! `longshore-sim`: stories by seed, one again or many at once.

#![allow(clippy::print_stdout, reason = "a command talks to who runs it")]

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use longshore_daemon::live::mutants;
use longshore_sim::harness::story::types;
use longshore_sim::harness::telling::{Told, tell_seed};
use longshore_sim::harness::{SEEDS_SIZE, SEEDS_TYPES, manager};

const USAGE: &str = "longshore-sim: the daemon in a simulated cluster, by seed

  longshore-sim seed N            tells one story again: what went wrong, and all that happened with --log FILE
  longshore-sim seeds FROM..TO    tells many on all cores and says how many in a minute

  --size N       nodes at the busiest, about (50)
  --threads N    as many at once (all cores)
  --log FILE     everything that happened, for `seed`
  --mutant NAME  with a defect of the daemon switched on; needs --features mutants
  --stop         at the first seed that fails

The daemon's own log goes to standard error where RUST_LOG asks for it.
";

/// What is to be done.
struct Asked {
    seeds: Range<u64>,
    one: bool,
    size: u32,
    threads: usize,
    log: Option<String>,
    mutant: Option<String>,
    stop: bool,
}

fn main() -> ExitCode {
    let asked = match read(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("longshore-sim: {why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    }
    if !mutants::switch(asked.mutant.as_deref()) {
        eprintln!("longshore-sim: no such mutant, or not compiled in (--features mutants). There are:");
        mutants::ALL.iter().for_each(|(name, what)| eprintln!("  {name:<20} {what}"));
        return ExitCode::from(2);
    }
    run(&asked)
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut asked = Asked { seeds: 0..0, one: false, size: SEEDS_SIZE, threads, log: None, mutant: None, stop: false };
    let number = |what: &str, word: Option<String>| {
        let word = word.ok_or(format!("{what} wants a number"))?;
        word.parse::<u64>().map_err(|_| format!("{what} wants a number, not {word:?}"))
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "seed" => {
                let seed = number("seed", words.next())?;
                (asked.one, asked.seeds) = (true, seed..seed.saturating_add(1));
            }
            "seeds" => {
                let range = words.next().ok_or("seeds wants FROM..TO")?;
                let (from, to) = range.split_once("..").ok_or("seeds wants FROM..TO")?;
                asked.seeds = number("FROM", Some(from.to_owned()))?..number("TO", Some(to.to_owned()))?;
            }
            "--size" => asked.size = number("--size", words.next())?.clamp(1, 1000) as u32,
            "--threads" => asked.threads = number("--threads", words.next())?.clamp(1, 1024) as usize,
            "--log" => asked.log = Some(words.next().ok_or("--log wants a file")?),
            "--mutant" => asked.mutant = Some(words.next().ok_or("--mutant wants a name")?),
            "--stop" => asked.stop = true,
            other => return Err(format!("{other:?} is not known")),
        }
    }
    if asked.seeds.is_empty() {
        return Err("say which seeds".to_owned());
    }
    Ok(asked)
}

fn run(asked: &Asked) -> ExitCode {
    let types = types(SEEDS_TYPES);
    let next = AtomicU64::new(asked.seeds.start);
    let all = Mutex::new(Vec::<Told>::new());
    let began = Instant::now();
    let work = || {
        mutants::switch(asked.mutant.as_deref());
        let manager = manager().map_err(|failure| failure.to_string())?;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= asked.seeds.end {
                return Ok::<(), String>(());
            }
            let told = tell_seed(seed, asked.size, &types, manager.clone(), asked.log.is_some());
            let told = told.map_err(|error| error.to_string())?;
            if !told.wrong.is_empty() {
                print!("{}", failed(&told, asked));
                if asked.stop {
                    next.store(asked.seeds.end, Ordering::Relaxed);
                }
            }
            all.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        }
    };
    let threads = asked.threads.min((asked.seeds.end - asked.seeds.start) as usize).max(1);
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("a thread has panicked".into()))).collect()
    });
    let took = began.elapsed();
    if let Some(why) = outcomes.into_iter().find_map(Result::err) {
        eprintln!("longshore-sim: {why}");
        return ExitCode::from(2);
    }
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let (Some(file), true, [told]) = (&asked.log, asked.one, all.as_slice())
        && let Err(error) = std::fs::write(file, &told.transcript)
    {
        eprintln!("longshore-sim: {file}: {error}");
        return ExitCode::from(2);
    }
    println!("{}", summary(&all, threads, took.as_secs_f64()));
    ExitCode::from(u8::from(all.iter().any(|told| !told.wrong.is_empty())))
}

fn failed(told: &Told, asked: &Asked) -> String {
    let mut text = format!("seed {} fails:\n", told.seed);
    told.wrong.iter().take(12).for_each(|line| text += &format!("  {line}\n"));
    if told.wrong.len() > 12 {
        text += &format!("  and {} more\n", told.wrong.len() - 12);
    }
    let (features, mutant) = match &asked.mutant {
        Some(name) => (" --features mutants", format!(" --mutant {name}")),
        None => ("", String::new()),
    };
    let size = if asked.size == SEEDS_SIZE { String::new() } else { format!(" --size {}", asked.size) };
    let seed = told.seed;
    text + &format!("  again: cargo run -p longshore-sim{features} --bin longshore-sim -- seed {seed}{size}{mutant}\n")
}

fn summary(all: &[Told], threads: usize, seconds: f64) -> String {
    let bad = all.iter().filter(|told| !told.wrong.is_empty()).count();
    let busiest: Vec<usize> = all.iter().map(|told| told.busiest).collect();
    let mean = busiest.iter().sum::<usize>() as f64 / all.len().max(1) as f64;
    let most = busiest.iter().max().copied().unwrap_or(0);
    let sum = |of: &dyn Fn(&Told) -> u64| all.iter().map(of).sum::<u64>();
    format!(
        "{} seeds in {seconds:.1} s on {threads} threads, {:.0} a minute: {bad} failed. At the busiest {mean:.0} nodes on \
         average, {most} at most; {} instances bought, {} processes, {} requests",
        all.len(),
        all.len() as f64 / seconds * 60.0,
        sum(&|told| told.bought as u64),
        sum(&|told| u64::from(told.processes)),
        sum(&|told| told.requests),
    )
}
