//! Shadow policies get the questions of the round's policies. Their answers are compared and never
//! used; no round waits for them.
//!
//! The comparison is per claim: which of its offerings would be cheapest by the shadow's costs?
//! With the shadow's costs the packing might differ too. So the numbers are a lower bound of the
//! difference and not a second plan; `longshore plan --scorer` makes one. Commitments are left out:
//! an offering counts as what it costs outside of them.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use longshore_core::model::{Catalogue, ClusterObjects, Offering, OfferingId, Op};
use longshore_core::plan::{Plan, PlannedClaim};
use longshore_core::policy::Scores;
use longshore_core::snapshot::Snapshot;
use longshore_policy::{ScoreRequest, Session};

use super::serve::{ActivePolicies, Shadow};
use super::shared::Shared;
use super::status::Comparison;

/// Costs closer than this are the same: USD per hour.
const EQUAL: f64 = 1e-9;

/// A round to compare shadows with.
pub(super) struct Job {
    live: Arc<ActivePolicies>,
    /// Held while comparing, for its catalogue.
    world: Arc<ClusterObjects>,
    claims: Vec<PlannedClaim>,
    asked: Vec<ScoreRequest>,
    answered: Vec<(String, Scores)>,
}

impl Job {
    /// What a round decided; `None` without shadow policies.
    pub fn new(live: &Arc<ActivePolicies>, snapshot: &Snapshot, plan: &Plan) -> Option<Self> {
        if live.shadows.is_empty() {
            return None;
        }
        let slim = |claim: &PlannedClaim| PlannedClaim {
            pool: claim.pool,
            offering: claim.offering,
            types: claim.types.clone(),
            requirements: claim.requirements.clone(),
            open: Vec::new(),
            price: claim.price,
            effective_cost: claim.effective_cost,
            pods: Vec::new(),
            requests: longshore_core::model::Resources::default(),
            min_values_relaxed: claim.min_values_relaxed,
        };
        Some(Job {
            live: live.clone(),
            world: snapshot.world.clone(),
            claims: plan.claims.iter().map(slim).collect(),
            asked: live.asked(),
            answered: live.take_answers(),
        })
    }

    /// Names of the shadows that it is for.
    pub fn shadows(&self) -> impl Iterator<Item = &str> {
        self.live.shadows.iter().map(|shadow| shadow.name.as_str())
    }
}

/// Asks shadows. See [`PolicyReloader::finish`](super::PolicyReloader::finish).
pub struct Shadows {
    shared: Arc<Shared>,
    todo: Receiver<Job>,
}

impl Shadows {
    pub(super) fn new(shared: Arc<Shared>, todo: Receiver<Job>) -> Self {
        Shadows { shared, todo }
    }

    /// Waits for a round and compares it; false once the last [`PolicyReloader`](super::PolicyReloader) is gone.
    pub fn wait(&mut self) -> bool {
        self.todo.recv().map(|job| self.compare(job)).is_ok()
    }

    /// Runs the pending comparison, if any.
    pub fn step(&mut self) {
        while let Ok(job) = self.todo.try_recv() {
            self.compare(job);
        }
    }

    fn compare(&self, job: Job) {
        for shadow in &job.live.shadows {
            let result = one(shadow, &job);
            self.shared.board().compared(&shadow.name, result);
        }
    }
}

/// Asks one shadow about every NodePool that it serves. Fails with its words at the first question
/// that it does not answer.
fn one(shadow: &Shadow, job: &Job) -> Result<Comparison, String> {
    let mut sum = Comparison::default();
    for question in job
        .asked
        .iter()
        .filter(|question| shadow.serves(question.node_pool()))
    {
        let pool = question.node_pool();
        let answer = Session::of(&shadow.policy, question).and_then(|mut session| session.ask());
        let own = answer.map_err(|error| format!("for NodePool {pool}: {error}"))?;
        let Some((_, obeyed)) = job.answered.iter().find(|(name, _)| name == pool) else {
            continue;
        };
        let world = &*job.world;
        let claims = job
            .claims
            .iter()
            .filter(|c| world.names.text(world.pools[c.pool.0 as usize].name) == pool);
        add(&mut sum, claims, &world.catalogue, &obeyed.cost, &own.cost);
    }
    Ok(sum)
}

fn add<'c>(
    sum: &mut Comparison,
    claims: impl Iterator<Item = &'c PlannedClaim>,
    catalogue: &Catalogue,
    enforced: &[f64],
    own: &[f64],
) {
    // Both have a row for each offering, or the host would have refused them; a catalogue that
    // changed since has not.
    if enforced.len() != catalogue.offerings().len() || own.len() != enforced.len() {
        return;
    }
    for claim in claims {
        let decided = claim.offering.0 as usize;
        let least = admitted(catalogue, claim)
            .map(|at| at.0 as usize)
            .min_by(|&a, &b| own[a].total_cmp(&own[b]));
        // Between equals it would have agreed.
        let chosen = least
            .filter(|&at| own[at] + EQUAL < own[decided])
            .unwrap_or(decided);
        let price = |at: usize| catalogue.offerings()[at].price;
        sum.claims += 1;
        sum.differ += u64::from(chosen != decided);
        sum.excluded += u64::from(own[decided].is_infinite());
        (sum.price.0, sum.price.1) = (sum.price.0 + price(decided), sum.price.1 + price(chosen));
        for (pair, cost) in [(&mut sum.enforced, enforced), (&mut sum.own, own)] {
            if cost[decided].is_finite() && cost[chosen].is_finite() {
                *pair = (pair.0 + cost[decided], pair.1 + cost[chosen]);
            }
        }
    }
}

/// The offerings that a claim admits.
fn admitted<'a>(
    catalogue: &'a Catalogue,
    claim: &'a PlannedClaim,
) -> impl Iterator<Item = OfferingId> + 'a {
    let fits = |offering: &Offering| {
        offering.available
            && offering.requirements.iter().all(|r| {
                let Op::In(values) = &r.op else { return true };
                let allowed = claim.requirements.iter().find(|(key, _)| *key == r.key);
                allowed
                    .is_none_or(|(_, allowed)| values.iter().any(|value| allowed.contains(value)))
            })
    };
    let rows = claim
        .types
        .iter()
        .flat_map(|&kind| catalogue.instance_type(kind).offerings.clone());
    rows.map(OfferingId)
        .filter(move |&at| fits(catalogue.offering(at)))
}
