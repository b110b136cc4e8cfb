//! `longshore policy run`: what a policy says of offerings, one line each.

use std::fmt::Write as _;
use std::sync::Arc;

use longshore_core::model::{ClusterObjects, NodePool};
use longshore_policy::{CallError, LoadedPolicy, Message, Session, Signals};

use crate::answer::Answer;
use crate::args::{RunPolicyArgs, WorldArgs};
use crate::{input, options, replay};
use longshore_live::error::Failure;
use longshore_report::count;

/// What a policy is asked about.
struct Question {
    world: Arc<ClusterObjects>,
    signals: Signals,
    /// Where the world is from.
    from: String,
}

/// Asks about a snapshot, a round of a journal, or the built-in instance types.
pub fn run(args: &RunPolicyArgs) -> Result<Answer, Failure> {
    let entry = super::inspected(&args.policy.file, &args.policy.settings, &args.policy.cel)?;
    let name = entry.source.to_string();
    let host = super::host_that_says_so()?;
    let terms = super::all_that_it_exports(&entry);
    let sources = longshore_bundle::Sources::default();
    let policy = super::load_entry(&host, &sources, &entry, &terms)?;
    super::print_remarks(&host);
    let question = question(args)?;
    let pool = pool(&question.world, args.nodepool.as_deref())?;
    let asked = ask(&policy, &question, pool.as_ref()).map_err(|error| Failure::Usage {
        message: format!("policy {name} does not answer: {error}"),
        hint: "`longshore policy check` says which signals and settings it wants".into(),
    })?;
    Ok(Answer::ok(shown(
        &policy,
        &question,
        pool.as_ref(),
        &asked,
        args.top,
    )))
}

fn question(args: &RunPolicyArgs) -> Result<Question, Failure> {
    if let Some(journal) = &args.journal {
        let (snapshot, signals, place) = replay::round(journal, args.round)?;
        return Ok(Question {
            world: snapshot.world,
            signals: (*signals).clone(),
            from: place,
        });
    }
    let typed = WorldArgs {
        snapshot: args.snapshot.clone(),
        provider: args.provider,
        instance_types: args.instance_types.clone(),
        config: args.config.clone(),
        ..WorldArgs::default()
    };
    let options = options::resolve(&typed)?;
    let mut signals = Signals::default();
    for (name, file) in &options.signals {
        signals
            .tables
            .insert(name.clone(), super::signals::read(file)?);
    }
    let (world, problems) = match args.snapshot.is_empty() {
        true => input::catalogue_only(args.instance_types.as_deref())?,
        false => input::read(&options)?,
    };
    input::complain(&problems);
    let from = match args.snapshot.is_empty() {
        true => "instance types alone, without a cluster".to_owned(),
        false => count(args.snapshot.len(), "file"),
    };
    Ok(Question {
        world: Arc::new(world),
        signals,
        from,
    })
}

/// The NodePool that is named, else the first; none where the world has none.
fn pool(world: &ClusterObjects, name: Option<&str>) -> Result<Option<NodePool>, Failure> {
    let found = world.pools.iter().find(|pool| {
        let own = world.names.text(pool.name);
        name.is_none_or(|name| name == own)
    });
    match (found, name) {
        (None, Some(name)) => Err(Failure::Usage {
            message: format!("there is no NodePool {name}"),
            hint: "leave --nodepool out for the first".into(),
        }),
        (found, _) => Ok(found.cloned()),
    }
}

/// An answer, and what came with it.
struct Asked {
    costs: Vec<f64>,
    messages: Vec<Message>,
    fuel_permille: u32,
}

fn ask(
    policy: &LoadedPolicy,
    question: &Question,
    pool: Option<&NodePool>,
) -> Result<Asked, CallError> {
    let world = &question.world;
    let (catalogue, names) = (&world.catalogue, &world.names);
    let signals = question.signals.clone();
    let mut session = match pool {
        Some(pool) => Session::for_pool(policy, catalogue, names, signals, pool, world.now)?,
        None => Session::new(policy, catalogue, names, signals, "default", world.now)?,
    };
    let scores = session.ask()?;
    Ok(Asked {
        costs: scores.cost.to_vec(),
        messages: session.messages(),
        fuel_permille: session.usage().fuel_permille,
    })
}

fn shown(
    policy: &LoadedPolicy,
    question: &Question,
    pool: Option<&NodePool>,
    asked: &Asked,
    top: usize,
) -> String {
    let world = &question.world;
    let catalogue = &world.catalogue;
    let prices = catalogue.prices();
    let text = |symbol: Option<_>| symbol.map_or("", |symbol| world.names.text(symbol));
    let mut text_of = format!(
        "{}: {} for NodePool {}, of {}\n\n",
        policy.called(),
        count(asked.costs.len(), "offering"),
        pool.map_or("default", |pool| world.names.text(pool.name)),
        question.from
    );
    _ = writeln!(
        text_of,
        "{:<24} {:<16} {:<12} {:>12} {:>12} {:>12}",
        "INSTANCE TYPE", "ZONE", "CAPACITY", "LIST PRICE", "COST", "TERM"
    );
    let mut rows: Vec<usize> = (0..asked.costs.len()).collect();
    // The cheapest first; equal ones as the catalogue has them.
    rows.sort_by(|&a, &b| asked.costs[a].total_cmp(&asked.costs[b]));
    for &row in rows.iter().take(top) {
        let of = &catalogue.offerings()[row];
        let name = catalogue.types()[of.instance_type.0 as usize].name;
        let (price, cost) = (prices[row], asked.costs[row]);
        let (cost, term) = match cost.is_finite() {
            true => (format!("{cost:.6}"), format!("{:+.6}", cost - price)),
            false => ("excluded".to_owned(), String::new()),
        };
        _ = writeln!(
            text_of,
            "{:<24} {:<16} {:<12} {price:>12.6} {cost:>12} {term:>12}",
            text(Some(name)),
            text(of.zone),
            text(of.capacity_type)
        );
    }
    let excluded = asked.costs.iter().filter(|cost| cost.is_infinite()).count();
    let fuel = f64::from(asked.fuel_permille) / 10.0;
    _ = writeln!(
        text_of,
        "\n{excluded} excluded; {fuel:.1} % of the fuel of a call"
    );
    for message in &asked.messages {
        _ = writeln!(text_of, "{:?}: {}", message.level, message.text);
    }
    text_of
}
