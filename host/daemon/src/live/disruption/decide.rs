//! Decides what to disrupt: a round of [`longshore_core::disrupt`] on a copy of the cluster.

use std::time::{Duration, Instant};

use longshore_core::disrupt::methods::{self, Options, Round};
use longshore_core::disrupt::proposals::{self, Proposal, Rules};
use longshore_core::disrupt::search::Effort;
use longshore_core::disrupt::verdicts::COMMAND;
use longshore_core::model::pod::DoNotDisrupt;
use longshore_core::model::{ClusterObjects, Labels};
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;

use crate::deadline::Deadline;
use crate::disrupt;
use crate::explain::Explained;
use crate::live::controller::RoundInput;
use crate::live::fail_points::fail_point;
use crate::live::mutants::mutant;
use crate::live::policies::ActivePolicies;
use crate::live::round::{RoundConfig, build_snapshot};

/// What was decided.
pub struct Decision {
    /// What was looked at.
    pub snapshot: Snapshot,
    /// What was found.
    pub round: Round,
    /// Proposals that may be carried out now, all together: `check` has passed them.
    pub now: Vec<Proposal>,
    /// Rules that they would break: a defect of Longshore. Then `now` is empty.
    pub rejected: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// Looks once for nodes to disrupt. `live` has no other caller.
pub fn decide(how: &RoundConfig, live: &ActivePolicies, input: RoundInput) -> Decision {
    fail_point("decide-disruption");
    let begun = Instant::now();
    let (snapshot, round) = look(how, live, input, false);
    let mut now = round.now();
    let mut rejected = None;
    if let Err(violations) = proposals::check(&snapshot, &now) {
        rejected = Some(format!("{violations:?}"));
        now.clear();
    }
    Decision {
        snapshot,
        round,
        now,
        rejected,
        took: begun.elapsed(),
    }
}

/// Explains what a look would do with a node now. `live` has no other caller.
///
/// # Errors
/// There is no such node.
pub fn explain(
    how: &RoundConfig,
    live: &ActivePolicies,
    input: RoundInput,
    node: &str,
) -> Result<Explained, String> {
    let (snapshot, round) = look(how, live, input, true);
    disrupt::explain(&snapshot, &round, node)
}

fn look(
    how: &RoundConfig,
    live: &ActivePolicies,
    input: RoundInput,
    explain: bool,
) -> (Snapshot, Round) {
    let mut world = input.world();
    count_commands(&mut world);
    break_rules(&mut world);
    let (snapshot, planning, limit) = build_snapshot(how, live, world);
    let deadline = Deadline::after(limit);
    let is_over = || deadline.is_over();
    let options = Options {
        move_cost: live.disruption().move_cost,
        rules: Rules {
            spot_to_spot: how.spot_to_spot,
        },
        effort: Effort {
            seed: planning.seed,
            ..Effort::default()
        },
        explain,
        ..Options::default()
    };
    let round = methods::round(&snapshot, live, options, Stop::when(&is_over));
    (snapshot, round)
}

/// Nodes of commands that are under way count as going: their pods need places, and they take a
/// share of the budgets.
fn count_commands(world: &mut ClusterObjects) {
    let Some(key) = world.names.get(COMMAND) else {
        return;
    };
    for claim in world.claims.iter_mut() {
        if claim.annotations.get(key).is_some() {
            claim.deleting = true;
            if mutant("forgets-under-way") {
                (claim.deleting, claim.annotations) = (false, Labels::default());
            }
        }
    }
}

/// Only mutants change anything here.
fn break_rules(world: &mut ClusterObjects) {
    if mutant("disrupts-held") {
        let pods = world.pods.iter_mut();
        pods.for_each(|pod| pod.do_not_disrupt = DoNotDisrupt::No);
    }
    if mutant("ignores-node-budgets") {
        world.pools.iter_mut().for_each(|pool| pool.budgets.clear());
    }
}
