//! Shadow policies get the questions of the round's policies. Their answers are compared and never
//! used; no round waits for them.
//!
//! The comparison is per claim: which of its offerings would be cheapest by the shadow's costs?
//! A shadow is given what the policies before it in the configuration made, as if it were one of them.
//! Those after it are not asked again: what they added and excluded counts.
//!
//! With the shadow's costs the packing might differ too. So these numbers are a lower bound of the
//! difference. One round of [`REPLANNED`] is planned again with the shadow besides, and each round with
//! the next version of a policy, where one is asked (`replan.rs`). Commitments are left out of the
//! comparison by claim: an offering counts as what it costs outside of them.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use longshore_core::model::{Catalogue, ClusterObjects, Offering, OfferingId, Op};
use longshore_core::plan::{Plan, PlannedClaim};
use longshore_core::planner::PlanOptions;
use longshore_core::snapshot::Snapshot;
use longshore_policy::{Report, ScoreRecord, ScoreRequest, Session};

use super::replan::{Question, is_worth_it};
use super::serve::{ActivePolicies, Judged, Shadow, ShadowJudge};
use super::shared::Shared;
use crate::config::canary_name;
use crate::process::lock::lock;
use crate::status::policies::{Comparison, LookComparison};

/// Costs closer than this are the same: USD per hour.
const EQUAL_WITHIN_USD: f64 = 1e-9;

/// One round of so many is planned again with shadows; with next versions each is.
const REPLANNED: u64 = 10;

/// What to compare shadows with.
pub(super) enum Job {
    Round(Box<RoundJob>),
    Look(LookJob),
}

/// A look for disruption.
pub(super) struct LookJob {
    shadows: Vec<Arc<ShadowJudge>>,
    judged: Vec<Judged>,
}

/// A round.
pub(super) struct RoundJob {
    live: Arc<ActivePolicies>,
    /// Held while comparing, for its catalogue.
    world: Arc<ClusterObjects>,
    claims: Vec<PlannedClaim>,
    asked: Vec<ScoreRequest>,
    answered: Vec<ScoreRecord>,
    /// With this it is planned again, for shadows and for next versions.
    again: Option<Question>,
    shadows_too: bool,
}

impl Job {
    /// What the round of this number decided; `None` without shadow policies and without next versions
    /// that are asked.
    pub fn of_round(
        live: &Arc<ActivePolicies>,
        snapshot: &Snapshot,
        (options, number): (PlanOptions, u64),
        plan: &Plan,
    ) -> Option<Self> {
        let mut canaries = live.canaries.iter();
        let canaries = canaries.any(|canary| live.wasm.asks_next(canary.place));
        if live.shadows.is_empty() && !canaries {
            return None;
        }
        let shadows_too = !live.shadows.is_empty() && number.is_multiple_of(REPLANNED);
        let again = (canaries || shadows_too) && is_worth_it(plan);
        let again = again.then(|| Question {
            snapshot: Snapshot::new(snapshot.world.clone()),
            options,
        });
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
            discouraged_by: claim.discouraged_by.clone(),
            dearer_at_same_price: claim.dearer_at_same_price,
        };
        Some(Job::Round(Box::new(RoundJob {
            live: live.clone(),
            world: snapshot.world.clone(),
            claims: plan.claims.iter().map(slim).collect(),
            asked: live.asked(),
            answered: live.answered(),
            again,
            shadows_too,
        })))
    }

    /// What a look decided; `None` without shadows of consolidation policies.
    pub fn of_look(live: &ActivePolicies) -> Option<Self> {
        let judged = live.take_judged();
        let shadows = live.shadow_judges.clone();
        (!judged.is_empty()).then_some(Job::Look(LookJob { shadows, judged }))
    }

    /// Names of the shadows that it is for.
    pub fn shadows(&self) -> Vec<&str> {
        match self {
            Job::Round(job) => (job.live.shadows.iter().map(|one| one.name.as_str())).collect(),
            Job::Look(job) => job.shadows.iter().map(|one| one.name.as_str()).collect(),
        }
    }
}

/// Asks shadows. See [`PolicyReloader::finish`](super::PolicyReloader::finish) and
/// [`PolicyReloader::finish_look`](super::PolicyReloader::finish_look).
pub struct Shadows {
    shared: Arc<Shared>,
    todo: Receiver<Job>,
}

impl Shadows {
    pub(super) fn new(shared: Arc<Shared>, todo: Receiver<Job>) -> Self {
        Shadows { shared, todo }
    }

    /// Waits for a round and compares it; false once the last [`PolicyReloader`](super::PolicyReloader) is gone.
    pub fn wait(&self) -> bool {
        self.todo.recv().map(|job| self.compare(job)).is_ok()
    }

    /// Runs the pending comparison, if any.
    pub fn step(&self) {
        while let Ok(job) = self.todo.try_recv() {
            self.compare(job);
        }
    }

    /// The board is never held while a policy computes.
    fn compare(&self, job: Job) {
        match job {
            Job::Round(job) => {
                for shadow in &job.live.shadows {
                    let result = one(shadow, &job);
                    self.shared.board().compared(&shadow.name, result);
                }
                if let Some(question) = &job.again {
                    self.plan_again(&job, question);
                }
            }
            Job::Look(job) => {
                for shadow in &job.shadows {
                    let result = look(shadow, &job.judged);
                    self.shared.board().compared_look(&shadow.name, result);
                }
            }
        }
    }
}

impl Shadows {
    /// Plans a round again with each shadow, and with each next version that is asked.
    fn plan_again(&self, job: &RoundJob, question: &Question) {
        let (wasm, now) = (&job.live.wasm, job.world.now);
        let shadows = job.live.shadows.iter().filter(|_| job.shadows_too);
        for shadow in shadows {
            let Some(with) = &shadow.with else { continue };
            let planned = question.shadow(wasm, with);
            let mut board = self.shared.board();
            board.replanned(&shadow.name, planned.ok().as_ref(), now);
        }
        for canary in job.live.canaries.iter() {
            if wasm.asks_next(canary.place) {
                let (sighting, planned) = question.canary(wasm, canary);
                let name = canary_name(&canary.policy);
                self.shared.board().replanned(&name, planned.as_ref(), now);
                lock(&self.shared.sightings).push(sighting);
            }
        }
    }
}

/// Asks a shadow all that was asked in a look.
fn look(shadow: &ShadowJudge, judged: &[Judged]) -> LookComparison {
    let mut sum = LookComparison::default();
    for Judged { request, goes } in judged {
        if request.proposals() == 0 {
            shadow.wasm.weights(request);
            continue;
        }
        let own = shadow.wasm.decisions(request);
        let own = own.iter().map(|of| of.keeps(request.now()).is_none());
        let differ = own.zip(goes).filter(|(own, decided)| own != *decided);
        sum.differ += differ.count() as u64;
        sum.proposals += request.proposals() as u64;
    }
    for tally in shadow.wasm.tallies() {
        sum.calls += tally.calls;
        sum.failures += tally.failures;
    }
    let reports = shadow.wasm.reports().into_iter();
    let mut failed = reports.filter_map(|report| match report {
        Report::Failed { error, .. } => Some(error.to_string()),
        Report::Said { .. } | Report::Raised { .. } => None,
    });
    sum.failed = failed.next_back();
    sum
}

/// Asks one shadow about every NodePool that it serves. Fails with its words at the first question
/// that it does not answer.
fn one(shadow: &Shadow, job: &RoundJob) -> Result<Comparison, String> {
    let mut sum = Comparison::default();
    for question in job
        .asked
        .iter()
        .filter(|question| shadow.serves(question.node_pool()))
    {
        let pool = question.node_pool();
        let answered = job.answered.iter().rfind(|one| &*one.node_pool == pool);
        let is_before = |place: usize| place < shadow.after;
        let question = match answered {
            Some(answered) => &question.with_costs(answered.cost_after(is_before)),
            None => question,
        };
        let answer = Session::of(&shadow.policy, question).and_then(|mut session| session.ask());
        let own = answer.map_err(|error| format!("for NodePool {pool}: {error}"))?;
        let Some(obeyed) = answered else {
            continue;
        };
        let own = obeyed.cost_with(&own.cost, is_before);
        let world = &*job.world;
        let claims = job
            .claims
            .iter()
            .filter(|c| world.names.text(world.pools[c.pool.0 as usize].name) == pool);
        add(&mut sum, claims, &world.catalogue, obeyed.cost(), &own);
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
            .filter(|&at| own[at] + EQUAL_WITHIN_USD < own[decided])
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
