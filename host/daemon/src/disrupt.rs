//! `longshore plan --disrupt` and `--converge`: what a cluster could save, from files.

mod write;

use std::sync::Arc;
use std::time::Instant;

use longshore_core::disrupt::checked;
use longshore_core::disrupt::costs::{MoveCost, price_of};
use longshore_core::disrupt::methods::{Explain, Round, RoundOptions, TerminateFirst};
use longshore_core::disrupt::paper::{self, Serial};
use longshore_core::disrupt::proposals::{Proposal, Rules};
use longshore_core::disrupt::search::Effort;
use longshore_core::disrupt::verdicts::Method;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;

use crate::answer::Answer;
use crate::args::{DisruptArgs, ExplainArgs, Output, PlanArgs, WorldArgs};
use crate::input;
use crate::options;
use crate::policies::{self, Scorers};
use longshore_live::error::Failure;
use longshore_live::policies::typed;
use longshore_report::disruption::report::{Converged, Proposed, Step};
use longshore_report::disruption::{Messages, explain, explain_going, text};
use longshore_report::explained::{Explained, NoExplanation, alike_text};
use longshore_report::messages::estimated_from;

/// Rounds after which a cluster that still finds something is reported as unfinished.
const MAX_ROUNDS: usize = 1_000;

/// What disruption would do with one node of the files that are named.
///
/// # Errors
/// Files that cannot be read, or no such node.
pub fn explain_node(args: &ExplainArgs) -> Result<Explained, Failure> {
    let (snapshot, scorers, seed) = read(&args.world, None, false)?;
    let how = RoundOptions {
        effort: effort(seed),
        explain: Explain::All,
        rules: rules(&args.world)?,
        ..RoundOptions::default()
    };
    let usage = |why: NoExplanation| Failure::Usage {
        message: why.to_string().trim().to_owned(),
        hint: "nodes of the snapshot are listed by `longshore plan --disrupt -o json`".into(),
    };
    if let Some(going) = explain_going(&snapshot.world, &args.name).map_err(usage)? {
        return Ok(going);
    }
    let round = look(&snapshot, &scorers, how);
    say(&scorers);
    let mut explained = explain(&snapshot, &round, &args.name, false).map_err(usage)?;
    explained.text += &alike_text(&scorers);
    Ok(explained)
}

/// What the feature gates say of replacements.
fn rules(args: &WorldArgs) -> Result<Rules, Failure> {
    let spot_to_spot = options::spot_to_spot(args)?;
    Ok(Rules { spot_to_spot })
}

/// Looks for disruption, or carries it out on paper, and prints what was found.
pub fn run(args: &PlanArgs) -> Result<Answer, Failure> {
    if args.world.snapshot.is_empty() {
        return Err(Failure::Usage {
            message: "no cluster to look at".into(),
            hint: "give its manifests with --snapshot FILE…, or - for standard input".into(),
        });
    }
    if args.disrupt.write.is_some() {
        write::check(&args.world.snapshot)?;
    }
    let typed = args.disrupt.consolidation.as_deref();
    let only = args.disrupt.method.as_deref().map(method).transpose()?;
    let repairs = only == Some(Method::Repair);
    let (mut snapshot, scorers, seed) = read(&args.world, typed, repairs)?;
    let how = RoundOptions {
        rules: rules(&args.world)?,
        ..how(&args.disrupt, only, seed)?
    };
    if how.move_cost.is_some() {
        for_all_pools(&mut snapshot);
    }
    let text = match args.disrupt.converge {
        true => converge(args, snapshot, &scorers, how)?,
        false => propose(args, &snapshot, &scorers, how)?,
    };
    say(&scorers);
    Ok(Answer::ok(text))
}

/// No NodePool says any more what a move must save: `--move-cost` does. The cluster was joined
/// without a look at that.
fn for_all_pools(snapshot: &mut Snapshot) {
    let world = Arc::make_mut(&mut snapshot.world);
    let pools = world.pools.iter_mut();
    pools.for_each(|pool| pool.move_cost = None);
}

/// What policies had to say, each thing once, on standard error.
fn say(scorers: &Scorers) {
    let mut said = std::collections::BTreeSet::new();
    for note in scorers.notes() {
        if !said.contains(&note) {
            eprintln!("{note}");
            said.insert(note);
        }
    }
}

/// The cluster of the files that are named, its policies, and the seed.
fn read(
    args: &WorldArgs,
    consolidation: Option<&str>,
    repairs: bool,
) -> Result<(Snapshot, Scorers, u64), Failure> {
    let mut options = options::resolve(args)?;
    options.repairs = repairs;
    options.consolidation = consolidation.map(typed::scorer).transpose()?;
    let scorers = policies::load(&options)?;
    let (world, problems) = input::read(&options)?;
    input::complain(&problems);
    let snapshot = Snapshot::new(world.into());
    scorers.begin(snapshot.world.now);
    Ok((snapshot, scorers, options.seed))
}

fn effort(seed: u64) -> Effort {
    Effort {
        seed,
        ..Effort::default()
    }
}

fn how(
    args: &DisruptArgs,
    only: Option<Method>,
    seed: u64,
) -> Result<RoundOptions<'static>, Failure> {
    let move_cost = args.move_cost.map(|amount| {
        let usable = amount.is_finite() && amount >= 0.0;
        usable
            .then_some(MoveCost::Amount(amount))
            .ok_or_else(|| Failure::Usage {
                message: format!("--move-cost {amount} is not an amount"),
                hint: "give USD per hour, 0 or more".into(),
            })
    });
    let explain = match args.converge {
        true => Explain::Nothing,
        false => Explain::All,
    };
    Ok(RoundOptions {
        move_cost: move_cost.transpose()?,
        only,
        effort: effort(seed),
        explain,
        terminate_first: TerminateFirst {
            drift: args.terminate_first,
            ..TerminateFirst::default()
        },
        ..RoundOptions::default()
    })
}

fn method(name: &str) -> Result<Method, Failure> {
    let known = Method::ALL.into_iter().find(|method| method.name() == name);
    known.ok_or_else(|| Failure::Usage {
        message: match name == "expiration" {
            true => format!("the method {name} cannot be planned from files yet"),
            false => format!("there is no method {name}"),
        },
        hint: format!("there are {}", Method::ALL.map(Method::name).join(", ")),
    })
}

fn propose(
    args: &PlanArgs,
    snapshot: &Snapshot,
    scorers: &Scorers,
    how: RoundOptions<'_>,
) -> Result<String, Failure> {
    let begun = Instant::now();
    let round = look(snapshot, scorers, how);
    let seconds = begun.elapsed().as_secs_f64();
    let report = Proposed::new(snapshot, &round, seconds, cost(snapshot));
    match args.output {
        Output::Json => print(&report),
        Output::Text => Ok(text::proposed(&report)),
    }
}

/// A look of which nothing breaks a rule. What does is left out, and said on standard error.
fn look(snapshot: &Snapshot, scorers: &Scorers, how: RoundOptions<'_>) -> Round {
    let round = checked::round(snapshot, scorers, how, Stop::never());
    let messages = Messages { snapshot };
    for one in &round.refused {
        let nodes: Vec<String> = one.nodes.iter().map(|&node| messages.node(node)).collect();
        let violation = one.violations.first().map(ToString::to_string);
        eprintln!(
            "the check refuses what was found for {}, so it stays; please report this: {}",
            nodes.join(", "),
            violation.unwrap_or_default()
        );
    }
    round
}

fn print(report: &impl serde::Serialize) -> Result<String, Failure> {
    let text =
        serde_json::to_string_pretty(report).map_err(|error| Failure::Print(error.into()))?;
    Ok(format!("{text}\n"))
}

/// Price of all nodes, USD per hour.
fn cost(snapshot: &Snapshot) -> f64 {
    snapshot
        .nodes
        .iter()
        .filter_map(|node| price_of(snapshot, node))
        .fold(0.0, |sum, price| sum + price)
}

fn converge(
    args: &PlanArgs,
    mut snapshot: Snapshot,
    scorers: &Scorers,
    how: RoundOptions<'_>,
) -> Result<String, Failure> {
    let mut report = Converged {
        before: cost(&snapshot),
        nodes_before: snapshot.nodes.len(),
        ..Converged::default()
    };
    let mut serial = Serial::default();
    for _ in 0..MAX_ROUNDS {
        let begun = Instant::now();
        let round = look(&snapshot, scorers, how);
        report.seconds += begun.elapsed().as_secs_f64();
        if report.lower_bound.is_none() {
            report.lower_bound = round.lower_bound;
        }
        let mut now = round.now();
        now.retain(|proposal| proposal.method != Method::StaticDrift);
        if now.is_empty() {
            report.finished = true;
            break;
        }
        let mut left = cost(&snapshot);
        for method in Method::ALL {
            let mine: Vec<&Proposal> = now
                .iter()
                .filter(|proposal| proposal.method == method)
                .collect();
            if !mine.is_empty() {
                left -= mine.iter().map(|proposal| proposal.savings).sum::<f64>();
                report.steps.push(Step::new(method, &mine, left));
            }
        }
        let (world, _) = paper::carry_out(&snapshot, &now, &mut serial);
        snapshot = Snapshot::new(world.into());
    }
    report.settle(cost(&snapshot), snapshot.nodes.len());
    report.estimates = estimated_from(&snapshot.world).map(str::to_owned);
    if let Some(file) = &args.disrupt.write {
        write::write(file, &args.world.snapshot, &snapshot.world)?;
    }
    match args.output {
        Output::Json => print(&report),
        Output::Text => Ok(text::converged(&report)),
    }
}
