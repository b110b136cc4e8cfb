//! Consolidation policies at work, with the same substitutes as scorers: the last good version,
//! then the rules of NodePools alone.
//!
//! Of several policies for a NodePool the first counts, as for scorers. A proposal that takes nodes
//! of NodePools with several policies needs all of them: the most reluctant one counts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_core::disrupt::consolidation::{Consolidation, Decision, Facts, Weight};
use longshore_core::disrupt::methods::Verdict;
use longshore_core::disrupt::proposals::Proposal;

use crate::call::Instance;
use crate::call::answer::CallError;
use crate::chain::WasmPolicies;
use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::loaded::LoadedPolicy;
use crate::report::{CallStats, Fallback, Report};
use crate::score_request::{JudgeRequest, ScoreRequest};
use crate::terms::{OnFailure, Terms};
use crate::version::{Budget, Call, Versions};

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

    /// Whether nothing is consolidated where a policy gives no answer.
    fn holds(&self, place: usize) -> bool {
        self.places[place].terms.on_failure == OnFailure::Hold
    }

    fn ask<T>(
        &mut self,
        place: usize,
        ask: &dyn Fn(&mut Instance, &LoadedPolicy) -> Result<T, CallError>,
    ) -> Option<(LoadedPolicy, T)> {
        let call = Call {
            place,
            node_pool: "",
            // Nodes come and go: what was last said of them is no answer.
            floor: self.places[place].floor(false, Fallback::Rules),
            ask,
        };
        self.places[place].ask(&call, &mut self.reports)
    }
}

impl WasmPolicies {
    fn base_of(&self, facts: &Facts<'_>) -> ScoreRequest {
        let world = &*facts.snapshot.world;
        self.request(&world.catalogue, &world.names, world.now as f64)
    }
}

impl Consolidation for WasmPolicies {
    fn weigh(&self, facts: &Facts<'_>) -> Vec<Weight> {
        let base = self.base_of(facts);
        let mut inner = self.judges().lock();
        let request = inner.request(base, facts, &[]);
        // The first request of a round.
        let budget = Budget::share(inner.places.len());
        (inner.places.iter_mut()).for_each(|versions| versions.begin_round(budget));
        let mut weights = vec![Weight::default(); facts.nodes.len()];
        let of_pools = inner.of_pools(&request);
        for place in 0..inner.places.len() {
            if !of_pools.contains(&Some(place)) {
                continue;
            }
            let Some((by, usd)) = inner.ask(place, &|instance, _| {
                instance.set_judge_request(&request);
                instance.weigh()
            }) else {
                if inner.holds(place) {
                    let by: Option<Arc<str>> = inner.places[place].terms.name.clone();
                    for (weight, &pool) in weights.iter_mut().zip(request.cluster.node_pools.iter())
                    {
                        if of_pools[pool as usize] == Some(place) {
                            *weight = Weight {
                                usd: f64::INFINITY,
                                by: by.clone(),
                            };
                        }
                    }
                }
                continue;
            };
            let by: Arc<str> = by.name().into();
            for ((weight, usd), &pool) in
                (weights.iter_mut().zip(usd)).zip(request.cluster.node_pools.iter())
            {
                if of_pools[pool as usize] == Some(place) && usd > 0.0 {
                    let by = Some(by.clone());
                    *weight = Weight { usd, by };
                }
            }
        }
        weights
    }

    fn decide(&self, facts: &Facts<'_>, proposals: &[Proposal]) -> Vec<Decision> {
        let base = self.base_of(facts);
        let mut inner = self.judges().lock();
        let request = inner.request(base, facts, proposals);
        let of_pools = inner.of_pools(&request);
        let pools = &request.cluster.node_pools;
        let concerned = |place: usize, proposal: &Proposal| {
            let rows = proposal.nodes.iter().filter_map(|&node| facts.row(node));
            rows.map(|row| pools[row as usize] as usize)
                .any(|pool| of_pools[pool] == Some(place))
        };
        let mut all: Vec<Option<Decision>> = vec![None; proposals.len()];
        for place in 0..inner.places.len() {
            if !proposals.iter().any(|proposal| concerned(place, proposal)) {
                continue;
            }
            let Some((_, decisions)) = inner.ask(place, &|instance, policy| {
                instance.set_judge_request(&request);
                instance.decide(&policy.name().into())
            }) else {
                if inner.holds(place) {
                    let refused = Decision {
                        priority: -1.0,
                        not_before: 0.0,
                        reason: "it gives no answer, and its `on-failure` is `hold`".into(),
                        by: inner.places[place].terms.name.clone(),
                    };
                    for (known, proposal) in all.iter_mut().zip(proposals) {
                        if concerned(place, proposal) {
                            *known = Some(refused.clone());
                        }
                    }
                }
                continue;
            };
            let tally = &mut inner.places[place].tally;
            for ((decision, known), proposal) in decisions.into_iter().zip(&mut all).zip(proposals)
            {
                if !concerned(place, proposal) {
                    continue;
                }
                tally.count(&decision, facts.snapshot.world.now);
                *known = Some(match known.take() {
                    Some(other) => most_reluctant(other, decision),
                    None => decision,
                });
            }
        }
        all.into_iter().map(Option::unwrap_or_default).collect()
    }
}

impl CallStats {
    fn count(&mut self, decision: &Decision, now: i64) {
        let counter = match decision.keeps(now) {
            None => &mut self.approved,
            Some(Verdict::Refused) => &mut self.refused,
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
