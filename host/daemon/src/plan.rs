//! `longshore plan`: files in, a plan out.

use std::time::Instant;

use longshore_api::manifests::Diagnostics;
use longshore_core::kube_scheduler::{self, Simulator};
use longshore_core::model::{Taint, TaintEffect};
use longshore_core::plan::Plan;
use longshore_core::planner;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;

use crate::answer::Answer;
use crate::args::{Output, PlanArgs, WorldArgs};
use crate::disrupt;
use crate::input;
use crate::options::{self, ResolvedOptions};
use crate::policies::{self, Scorers};
use longshore_live::decide::deadline::{self, Deadline};
use longshore_live::error::Failure;
use longshore_live::policies::grants::missing_node_pools;
use longshore_live::process::heap;
use longshore_report::count;
use longshore_report::decision::{self, Decision, Report, Robustness, text};
use longshore_report::messages::estimated_from;

/// Plans, and prints the plan.
pub fn run(args: &PlanArgs) -> Result<Answer, Failure> {
    if args.disrupt.disrupt || args.disrupt.converge {
        return disrupt::run(args);
    }
    if args.disrupt.consolidation.is_some() {
        return Err(Failure::Usage {
            message: "--consolidation has nothing to decide".into(),
            hint: "add --disrupt or --converge".into(),
        });
    }
    let planned = decide(&args.world)?;
    input::complain(&planned.problems);
    let report = report(&planned);
    let text = match args.output {
        Output::Text => text::render(&report, &planned.snapshot.world),
        Output::Json => format!(
            "{}\n",
            serde_json::to_string_pretty(&report).map_err(|e| Failure::Print(e.into()))?
        ),
    };
    Ok(Answer {
        text,
        code: u8::from(args.strict && !report.decision.errors.is_empty()),
    })
}

/// A plan with everything that it was made of.
pub struct Planned {
    /// The options of the request.
    pub options: ResolvedOptions,
    /// What it was made on.
    pub snapshot: Snapshot,
    /// The scorers that were called.
    pub scorers: Scorers,
    /// Faults in the input, whose objects were skipped.
    pub problems: Diagnostics,
    pub plan: Plan,
    /// Seconds of reading and parsing.
    pub parse_seconds: f64,
    /// Seconds of joining the objects to a snapshot.
    pub state_seconds: f64,
    /// Seconds of planning and checking.
    pub seconds: f64,
}

/// Reads what `args` name and plans it.
pub fn decide(args: &WorldArgs) -> Result<Planned, Failure> {
    if args.snapshot.is_empty() {
        return Err(Failure::Usage {
            message: "no cluster to plan for".into(),
            hint: "give its manifests with --snapshot FILE…, or - for standard input".into(),
        });
    }
    let options = options::resolve(args)?;
    let scorers = policies::load(&options)?;
    let start = Instant::now();
    let (world, problems) = input::read(&options)?;
    let parsed = Instant::now();
    let snapshot = Snapshot::new(world.into());
    scorers.begin(snapshot.world.now);
    let joined = Instant::now();
    let deadline = Deadline::after(Some(options.time_limit));
    let is_over = || deadline.is_over();
    let plan = planner::plan_until(&snapshot, &scorers, options.how(), Stop::when(&is_over))
        .map_err(Failure::Rejected)?;
    let decided = Instant::now();
    Ok(Planned {
        options,
        snapshot,
        scorers,
        problems,
        plan,
        parse_seconds: (parsed - start).as_secs_f64(),
        state_seconds: (joined - parsed).as_secs_f64(),
        seconds: (decided - joined).as_secs_f64(),
    })
}

fn report(planned: &Planned) -> Report {
    let mib = heap::peak_mib();
    let decision = Decision::new(&planned.snapshot, &planned.plan);
    let (alone, nominated) = robustness(planned);
    let mut notes = planned.scorers.notes();
    notes.extend(planned.plan.rejected_candidates.first().map(|violation| {
        format!(
            "optimised plan rejected by check, first-fit plan used; please report this: \
            {violation}"
        )
    }));
    notes.extend(planned.plan.left_out.first().map(|violation| {
        format!(
            "plans were rejected by check, the pods that broke a rule are left out; please report \
            this: {violation}"
        )
    }));
    let world = &planned.snapshot.world;
    let names = &world.names;
    let there = world.pools.iter().map(|pool| names.text(pool.name));
    let there: Vec<&str> = there.collect();
    for entry in &planned.options.policies {
        let named = entry.nodepools.as_deref().unwrap_or_default();
        let missing = missing_node_pools(named, &there);
        notes.extend(missing.map(|said| format!("policy {}: {said}", entry.name)));
    }
    let claims = planned.plan.claims.iter();
    let discouraged = claims.filter_map(|claim| Some((claim, claim.discouraged_by.as_ref()?)));
    notes.extend(discouraged.map(|(claim, policy)| {
        let catalogue = &planned.snapshot.world.catalogue;
        let bought = catalogue.instance_type(claim.types[0]).name;
        let pods = count(claim.pods.len(), "pod");
        format!(
            "policy {policy} discourages {}, which is bought for {pods}: nothing that it leaves costs less",
            names.text(bought)
        )
    }));
    if !planned.plan.claims.is_empty() {
        notes.extend(open_though_deleting(&planned.snapshot));
    }
    Report {
        seconds: planned.seconds,
        state_seconds: planned.state_seconds,
        parse_seconds: planned.parse_seconds,
        mib,
        gap: decision.gap(),
        digest: decision.digest(),
        decision,
        cut_short: planned
            .plan
            .cut_short
            .map(|used| deadline::words(planned.options.time_limit, used)),
        robustness: alone,
        robustness_nominated: nominated,
        incompatible_pools: decision::all_incompatible_pools(&planned.snapshot, &planned.plan),
        estimates: estimated_from(&planned.snapshot.world).map(str::to_owned),
        policies: notes,
        problems: planned.problems.list.iter().map(input::object).collect(),
    }
}

/// That kube-scheduler still binds pods to nodes that are being deleted, where no taint keeps them
/// away. Such nodes are no places of a plan, for they end with their pods.
fn open_though_deleting(snapshot: &Snapshot) -> Option<String> {
    let world = &*snapshot.world;
    let open = world.nodes.iter().filter(|node| {
        let closed = |taint: &Taint| taint.effect != TaintEffect::PreferNoSchedule;
        node.deleting && !node.unschedulable && !node.taints.iter().any(closed)
    });
    let names: Vec<&str> = open.map(|node| world.names.text(node.name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "kube-scheduler may bind pods to nodes that are being deleted and have no taint: {}; \
            they are no places of this plan, for their pods end with them",
            names.join(", ")
        )
    })
}

/// Number of simulated runs of kube-scheduler per plan: enough to find plans that hold by luck
/// only, few enough to cost less than planning.
const SIMULATED_RUNS: u32 = 10;
/// Limit of pods times nodes, at which that takes a fraction of a second. Above it nothing is
/// reported.
const MAX_PAIRS: usize = 2_000_000;

/// The result of the plan when kube-scheduler binds its pods: without and with nominations. Nothing
/// where to try it takes longer than a plan may.
fn robustness(planned: &Planned) -> (Option<Robustness>, Option<Robustness>) {
    let (snapshot, plan) = (&planned.snapshot, &planned.plan);
    if snapshot.pending.len() * (snapshot.nodes.len() + plan.claims.len()) > MAX_PAIRS {
        return (None, None);
    }
    let deadline = Deadline::after(Some(planned.options.time_limit));
    let is_over = || deadline.is_over();
    let simulator = Simulator::new(snapshot).until(Stop::when(&is_over));
    let play = |run: &dyn Fn(u64) -> kube_scheduler::SimulationResult| {
        let left: Vec<usize> = (0..SIMULATED_RUNS)
            .map(|at| {
                run(planned.options.seed.wrapping_add(u64::from(at)))
                    .unplaced
                    .len()
            })
            .collect();
        Robustness {
            runs: SIMULATED_RUNS,
            survived: left.iter().filter(|&&left| left == 0).count() as u32,
            left_over: left.iter().sum::<usize>() as f64 / f64::from(SIMULATED_RUNS),
        }
    };
    let alone = play(&|seed| simulator.simulate(plan, seed));
    let nominated = play(&|seed| simulator.simulate_nominated(plan, seed));
    if simulator.is_stopped() {
        (None, None)
    } else {
        (Some(alone), Some(nominated))
    }
}
