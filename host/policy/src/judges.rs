//! Consolidation policies at work, with the same substitutes as scorers: the last good version,
//! then the rules of NodePools alone.
//!
//! Of several policies for a NodePool the first counts, as for scorers. A proposal that takes nodes
//! of NodePools with several policies needs all of them: the most reluctant one counts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_core::disrupt::consolidation::{Consolidation, Decision, Facts, Weight};
use longshore_core::disrupt::methods::Verdict;
use longshore_core::disrupt::proposals::Proposal;

use crate::chain::WasmPolicies;
use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::last_decisions::LastDecisions;
use crate::loaded::LoadedPolicy;
use crate::report::{CallStats, Fallback, Report};
use crate::score_request::{JudgeRequest, ScoreRequest};
use crate::terms::{OnFailure, Terms};
use crate::version::{Ask, Budget, Call, Versions};

/// The consolidation policies, by place.
#[derive(Default)]
pub(crate) struct Judges {
    inner: Mutex<JudgesInner>,
}

#[derive(Default)]
struct JudgesInner {
    places: Vec<Versions>,
    reports: Vec<Report>,
    /// The cluster of the last request; several requests of a look share it.
    cluster: Arc<ClusterColumns>,
}

impl Judges {
    pub fn new(places: Vec<Versions>) -> Self {
        let inner = JudgesInner {
            places,
            ..JudgesInner::default()
        };
        Judges {
            inner: Mutex::new(inner),
        }
    }

    /// The same versions with instances, reports and tallies of their own.
    pub fn rested(&self) -> Self {
        Judges::new(self.lock().places.iter().map(Versions::rested).collect())
    }

    /// Has another place follow one of these; see [`Versions::follow`].
    pub fn follow(
        &self,
        at: Option<usize>,
        policy: Option<LoadedPolicy>,
        node_pools: Vec<String>,
        terms: &Terms,
    ) -> Versions {
        let inner = self.lock();
        let old = at.and_then(|at| inner.places.get(at));
        Versions::follow(policy, node_pools, terms, old)
    }

    pub fn replace(&self, at: usize, policy: LoadedPolicy) {
        if let Some(place) = self.lock().places.get_mut(at) {
            place.is_asked = true;
            place.replace(policy);
        }
    }

    pub fn is_any(&self) -> bool {
        self.lock().places.iter().any(|place| place.is_asked)
    }

    pub fn take_reports(&self) -> Vec<Report> {
        std::mem::take(&mut self.lock().reports)
    }

    /// What a place last said of nodes, and the version that did; none where it said nothing.
    pub fn last_decisions(&self, place: usize) -> Option<(LoadedPolicy, LastDecisions)> {
        let inner = self.lock();
        let versions = inner.places.get(place)?;
        let said = versions.current.as_ref().or(versions.last_good.as_ref())?;
        let last = versions.last_decisions.clone();
        (!last.is_empty()).then(|| (said.policy.clone(), last))
    }

    /// Has what was said before this process began count where nothing was said since.
    pub fn remember(&self, place: usize, decisions: &LastDecisions) {
        if let Some(versions) = self.lock().places.get_mut(place)
            && versions.last_decisions.is_empty()
        {
            versions.last_decisions = decisions.clone();
        }
    }

    pub fn take_tallies(&self) -> Vec<CallStats> {
        let mut inner = self.lock();
        let tallies = inner.places.iter_mut();
        tallies
            .map(|place| std::mem::take(&mut place.tally))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, JudgesInner> {
        // A panic in between leaves at worst an instance behind that fails and is dropped.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JudgesInner {
    fn request(
        &mut self,
        base: ScoreRequest,
        facts: &Facts<'_>,
        proposals: &[Proposal],
    ) -> JudgeRequest {
        if !self.cluster.is_of(facts) {
            self.cluster = Arc::new(ClusterColumns::new(facts));
        }
        JudgeRequest {
            base,
            cluster: self.cluster.clone(),
            proposals: Arc::new(ProposalColumns::new(facts, proposals)),
        }
    }

    /// The place that serves each NodePool of the request.
    fn of_pools(&self, request: &JudgeRequest) -> Vec<Option<usize>> {
        let names = request.cluster.node_pool_names.iter();
        let of = |name: &Arc<str>| self.places.iter().position(|place| place.serves(name));
        names.map(of).collect()
    }

    /// What counts where a policy gives no weights.
    fn floor_of_weights(&self, place: usize) -> Fallback {
        let versions = &self.places[place];
        versions.floor(!versions.last_decisions.is_empty(), Fallback::Rules)
    }

    /// What counts where a policy gives no decisions.
    fn floor_of_decisions(&self, place: usize) -> Fallback {
        let versions = &self.places[place];
        versions.floor(versions.last_decisions.has_decided, Fallback::Rules)
    }

    /// Where what a policy last said counts when it fails: that.
    fn last(&mut self, place: usize) -> Option<&mut LastDecisions> {
        let versions = &mut self.places[place];
        let counts = versions.terms.on_failure == OnFailure::LastAnswer;
        counts.then_some(&mut versions.last_decisions)
    }

    /// What becomes of a proposal where it holds.
    fn held(&self, place: usize) -> Decision {
        Decision {
            priority: -1.0,
            not_before: 0.0,
            reason: "it gives no answer, and its `on-failure` is `hold`".into(),
            by: self.places[place].terms.name.clone(),
        }
    }

    fn ask<T>(
        &mut self,
        (place, floor): (usize, Fallback),
        ask: Ask<'_, T>,
    ) -> Option<(LoadedPolicy, T)> {
        let call = Call {
            place,
            node_pool: "",
            floor,
            ask,
            known: &|_, _| None,
        };
        self.places[place].ask(&call, &mut self.reports)
    }
}

/// A question about consolidation as policies see it. It can be kept, and put to other policies.
#[derive(Clone)]
pub struct ConsolidationRequest(JudgeRequest);

impl ConsolidationRequest {
    /// How many proposals it is about; none for weights.
    pub fn proposals(&self) -> usize {
        self.0.proposals.count()
    }

    /// Seconds since 1970.
    pub fn now(&self) -> i64 {
        self.0.base.now as i64
    }
}

impl WasmPolicies {
    /// A question about a cluster and proposals; about weights without any.
    pub fn consolidation_request(
        &self,
        facts: &Facts<'_>,
        proposals: &[Proposal],
    ) -> ConsolidationRequest {
        let world = &*facts.snapshot.world;
        let base = self.request(&world.catalogue, &world.names, world.now as f64);
        ConsolidationRequest(self.judges().lock().request(base, facts, proposals))
    }

    /// What disturbing each node costs; see [`Consolidation::weigh`].
    pub fn weights(&self, request: &ConsolidationRequest) -> Vec<Weight> {
        let request = &request.0;
        let mut inner = self.judges().lock();
        // The first request of a round.
        let budget = Budget::share(inner.places.len());
        (inner.places.iter_mut()).for_each(|versions| versions.begin_round(budget));
        let mut weights = vec![Weight::default(); request.cluster.count()];
        let of_pools = inner.of_pools(request);
        for place in 0..inner.places.len() {
            if !of_pools.contains(&Some(place)) {
                continue;
            }
            let floor = inner.floor_of_weights(place);
            let answer = inner.ask((place, floor), &|instance, _, _| {
                instance.set_judge_request(request);
                instance.weigh()
            });
            let own = inner.places[place].terms.name.clone();
            let (by, usd): (Option<Arc<str>>, Vec<f64>) = match (answer, floor) {
                (Some((by, usd)), _) => {
                    let rows = request.cluster.names.iter().zip(usd.iter().copied());
                    let rows = rows.zip(request.cluster.node_pools.iter());
                    let served = rows.filter(|(_, pool)| of_pools[**pool as usize] == Some(place));
                    if let Some(last) = inner.last(place) {
                        last.weighed(served.map(|(row, _)| row));
                    }
                    (Some(by.name().into()), usd)
                }
                (None, Fallback::Hold) => (own, vec![f64::INFINITY; weights.len()]),
                (None, Fallback::LastAnswer) => {
                    let last = &inner.places[place].last_decisions;
                    let names = request.cluster.names.iter();
                    (own, names.map(|name| last.weight(name)).collect())
                }
                (None, _) => continue,
            };
            for ((weight, usd), &pool) in
                (weights.iter_mut().zip(usd)).zip(request.cluster.node_pools.iter())
            {
                if of_pools[pool as usize] == Some(place) && usd > 0.0 {
                    let by = by.clone();
                    *weight = Weight { usd, by };
                }
            }
        }
        weights
    }

    /// What becomes of each proposal; see [`Consolidation::decide`].
    pub fn decisions(&self, request: &ConsolidationRequest) -> Vec<Decision> {
        let now = request.now();
        let request = &request.0;
        let mut inner = self.judges().lock();
        let of_pools = inner.of_pools(request);
        let pools = &request.cluster.node_pools;
        let concerned = |place: usize, proposal: usize| {
            let rows = request.proposals.removed_of(proposal).iter();
            rows.map(|&row| pools[row as usize] as usize)
                .any(|pool| of_pools[pool] == Some(place))
        };
        let mut all: Vec<Option<Decision>> = vec![None; request.proposals.count()];
        for place in 0..inner.places.len() {
            if !(0..all.len()).any(|proposal| concerned(place, proposal)) {
                continue;
            }
            let floor = inner.floor_of_decisions(place);
            let answer = inner.ask((place, floor), &|instance, policy, _| {
                instance.set_judge_request(request);
                instance.decide(&policy.name().into())
            });
            let is_answer = answer.is_some();
            let nodes = |proposal: usize| {
                let rows = request.proposals.removed_of(proposal).iter();
                let own =
                    rows.filter(|&&row| of_pools[pools[row as usize] as usize] == Some(place));
                own.map(|&row| &request.cluster.names[row as usize])
            };
            let decisions = match (answer, floor) {
                (Some((_, decisions)), _) => {
                    if let Some(last) = inner.last(place) {
                        for (proposal, decision) in decisions.iter().enumerate() {
                            last.decided(nodes(proposal), decision);
                        }
                    }
                    decisions
                }
                (None, Fallback::Hold) => vec![inner.held(place); all.len()],
                (None, Fallback::LastAnswer) => {
                    let Versions {
                        last_decisions,
                        terms,
                        ..
                    } = &inner.places[place];
                    let last = |proposal| Decision {
                        by: terms.name.clone(),
                        ..last_decisions.decision(nodes(proposal))
                    };
                    (0..all.len()).map(last).collect()
                }
                (None, _) => continue,
            };
            let tally = &mut inner.places[place].tally;
            for (proposal, (decision, known)) in decisions.into_iter().zip(&mut all).enumerate() {
                if !concerned(place, proposal) {
                    continue;
                }
                if is_answer {
                    tally.count(&decision, now);
                }
                *known = Some(match known.take() {
                    Some(other) => most_reluctant(other, decision),
                    None => decision,
                });
            }
        }
        all.into_iter().map(Option::unwrap_or_default).collect()
    }
}

impl Consolidation for WasmPolicies {
    fn weigh(&self, facts: &Facts<'_>) -> Vec<Weight> {
        self.weights(&self.consolidation_request(facts, &[]))
    }

    fn decide(&self, facts: &Facts<'_>, proposals: &[Proposal]) -> Vec<Decision> {
        self.decisions(&self.consolidation_request(facts, proposals))
    }
}

impl CallStats {
    fn count(&mut self, decision: &Decision, now: i64) {
        let counter = match decision.keeps(now) {
            None => &mut self.approved,
            Some(Verdict::Refused) => &mut self.declined,
            Some(_) => &mut self.deferred,
        };
        *counter += 1;
    }
}

/// What two policies say of one proposal: both have to let it go.
fn most_reluctant(a: Decision, b: Decision) -> Decision {
    let reluctance = |of: &Decision| (of.priority < 0.0, of.not_before);
    let (priority, not_before) = (a.priority.min(b.priority), a.not_before.max(b.not_before));
    let second = reluctance(&b) > reluctance(&a);
    Decision {
        priority,
        not_before,
        ..if second { b } else { a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_policies_the_more_reluctant_one_gives_the_reason() {
        let decision = |priority: f64, not_before: f64, reason: &str| Decision {
            priority,
            not_before,
            reason: reason.into(),
            by: None,
        };
        let both = most_reluctant(decision(3.0, 0.0, "yes"), decision(1.0, 9.0, "later"));
        assert_eq!(both, decision(1.0, 9.0, "later"));
        let both = most_reluctant(decision(-1.0, 0.0, "no"), decision(1.0, 9.0, "later"));
        assert_eq!(both, decision(-1.0, 9.0, "no"));
    }
}
