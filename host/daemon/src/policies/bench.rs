//! `longshore policy bench`: the time that a policy adds to a round, compared with planning by
//! price.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use longshore_bundle::Sources;
use longshore_core::model::ClusterObjects;
use longshore_core::policy::{ByPrice, Policies as _};
use longshore_policy::{Session, Signals};

use crate::answer::Answer;
use crate::args::BenchArgs;
use crate::input;
use longshore_live::error::Failure;
use longshore_report::count;

/// Runs of which the median is taken.
const RUNS: usize = 101;
/// A slow policy is called less often: for about this long in total.
const BENCH_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Loads the policy, asks it about the whole catalogue many times, and prints the median.
pub fn run(args: &BenchArgs) -> Result<Answer, Failure> {
    let entry = super::inspected(&args.policy.file, &args.policy.settings, &args.policy.cel)?;
    let name = entry.source.to_string();
    let host = super::host_that_says_so()?;
    let terms = super::all_that_it_exports(&entry);
    let loaded = super::load_entry(&host, &Sources::default(), &entry, &terms);
    super::print_remarks(&host);
    let policy = loaded?;
    let (mut world, problems) = input::catalogue_only(args.instance_types.as_deref())?;
    input::complain(&problems);

    let failed = |error: longshore_policy::CallError| Failure::Usage {
        message: format!("policy {name} does not answer: {error}"),
        hint: "`longshore policy check` says which signals and settings it wants".into(),
    };
    let pool = world.names.intern("default");
    let ClusterObjects {
        catalogue, names, ..
    } = &world;
    let start = Instant::now();
    let mut session = Session::new(&policy, catalogue, names, Signals::default(), "default", 0)
        .map_err(failed)?;
    session.ask().map_err(failed)?;
    let first = start.elapsed();
    let guest = median(|| session.ask().map(drop)).map_err(failed)?;
    let price = median(|| {
        black_box(ByPrice.score(catalogue, names, pool));
        Ok::<_, Failure>(())
    })?;

    let about = policy.about();
    let rows = catalogue.offerings().len();
    let per = |time: Duration| time.as_nanos() as f64 / rows.max(1) as f64;
    let mut text = format!(
        "{}, {} (median of up to {RUNS} calls)\n\n",
        count(catalogue.types().len(), "instance type"),
        count(rows, "offering")
    );
    let called = format!("{} {}", about.name, about.version);
    let width = called.len().max("price only".len());
    _ = writeln!(
        text,
        "{:width$}  {:>15}  {:>12}",
        "", "ns per offering", "µs per call"
    );
    for (name, time) in [("price only", price), (called.as_str(), guest)] {
        _ = writeln!(
            text,
            "{name:width$}  {:>15.1}  {:>12.1}",
            per(time),
            time.as_secs_f64() * 1e6
        );
    }
    _ = writeln!(
        text,
        "\nThe first call of a round, with columns and a fresh instance: {:.1} µs.",
        first.as_secs_f64() * 1e6
    );
    Ok(Answer::ok(text))
}

/// The median time of calls. Fails with the first that does.
fn median<E>(mut call: impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let begin = Instant::now();
    let mut times = Vec::with_capacity(RUNS);
    while times.len() < RUNS && (times.is_empty() || begin.elapsed() < BENCH_TIME_LIMIT) {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}
