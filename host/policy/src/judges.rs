//! Consolidation policies at work, with the same substitutes as scorers: the last good version,
//! then the rules of NodePools alone.
//!
//! Of several policies for a NodePool the first counts, as for scorers. A proposal that takes nodes
//! of NodePools with several policies needs all of them: the most reluctant one counts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_core::disrupt::consolidation::{Consolidation, Decision, Facts, Weight};
use longshore_core::disrupt::methods::Verdict;
use longshore_core::disrupt::proposals::Proposal;

use crate::canary::{CanarySeen, Judged, Obeyed};
use crate::chain::{PolicySlot, WasmPolicies};
use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::judged::{ConsolidationRequest, JudgeAnswer, JudgeRecord, Said};
use crate::last_decisions::LastDecisions;
use crate::loaded::LoadedPolicy;
use crate::report::{CallStats, Fallback, Report};
use crate::round_budget::{ROUND_TIME, RoundBudget};
use crate::score_request::{JudgeRequest, ScoreRequest};
use crate::terms::OnFailure;
use crate::version::{Ask, Call, Versions};

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
    /// Each question with the policies that answered it, while that is kept.
    records: Option<Vec<JudgeRecord>>,
}

/// The versions of a place that may follow another one.
pub(crate) fn follow(place: &PolicySlot, old: Option<&Versions>) -> Versions {
    let (policy, pools) = (place.policy.clone(), place.node_pools.clone());
    let next = place.next.clone().filter(LoadedPolicy::is_consolidation);
    Versions::follow(policy, pools, &place.terms, old).with_next(next, old)
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
    pub fn follow(&self, place: &PolicySlot) -> Versions {
        let inner = self.lock();
        follow(place, place.follows.and_then(|at| inner.places.get(at)))
    }

    /// For which NodePools the next version of the policy at a place is obeyed.
    pub fn obey(&self, at: usize, obeyed: &Obeyed) {
        if let Some(next) = (self.lock().places.get_mut(at)).and_then(|of| of.next.as_mut()) {
            next.obeyed.clone_from(obeyed);
        }
    }

    /// What was seen of the next version of the policy at a place, since last taken.
    pub fn take_seen(&self, at: usize) -> Option<CanarySeen> {
        Some(self.lock().places.get_mut(at)?.next.as_mut()?.take_seen())
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

    fn begin_look(&mut self) {
        let next = self.places.iter().filter(|of| of.next.is_some()).count();
        let budget = RoundBudget::share(ROUND_TIME, self.places.len() + next);
        (self.places.iter_mut()).for_each(|versions| versions.begin_round(budget));
    }

    /// The places that are there, with the NodePools of the request that each speaks for: the first
    /// place for a NodePool does.
    fn asked(&self, request: &JudgeRequest) -> Vec<(usize, Vec<Arc<str>>)> {
        let mut asked: Vec<_> = (0..self.places.len())
            .map(|place| (place, Vec::new()))
            .collect();
        for name in request.cluster.node_pool_names.iter() {
            let place = self.places.iter().position(|place| place.serves(name));
            if let Some(place) = place {
                asked[place].1.push(name.clone());
            }
        }
        asked
    }

    /// What counts where a policy gives no weights.
    fn fallback_of_weights(&self, place: usize) -> Fallback {
        let versions = &self.places[place];
        versions.fallback(!versions.last_decisions.is_empty(), Fallback::Rules)
    }

    /// What counts where a policy gives no decisions.
    fn fallback_of_decisions(&self, place: usize) -> Fallback {
        let versions = &self.places[place];
        versions.fallback(versions.last_decisions.has_decided, Fallback::Rules)
    }

    /// Where what a policy last said counts when it fails: that.
    fn last(&mut self, place: usize) -> Option<&mut LastDecisions> {
        let versions = &mut self.places[place];
        let counts = versions.terms.on_failure == OnFailure::LastAnswer;
        counts.then_some(&mut versions.last_decisions)
    }

    /// What a place said, or what counts there: see [`JudgeAnswer`].
    fn answer(
        &self,
        place: usize,
        by: Option<LoadedPolicy>,
        fallback: Fallback,
        node_pools: Vec<Arc<str>>,
        said: Option<Said>,
    ) -> JudgeAnswer {
        let versions = &self.places[place];
        let name = by.as_ref().map(|by| by.name().into());
        JudgeAnswer {
            place,
            name: name
                .or_else(|| versions.terms.name.clone())
                .unwrap_or_default(),
            instead: by.is_none().then_some(fallback),
            failed: !by.as_ref().is_some_and(|by| versions.is_at_work(by)),
            by,
            node_pools,
            said,
        }
    }

    /// Keeps weights that a version gave, where they count when it fails.
    fn keep_weights(&mut self, answer: &JudgeAnswer, cluster: &ClusterColumns) {
        let (Some(_), Some(Said::Weights(usd))) = (&answer.by, &answer.said) else {
            return;
        };
        let Some(last) = self.last(answer.place) else {
            return;
        };
        let rows = cluster.names.iter().zip(usd.iter().copied());
        let rows = rows.zip(cluster.node_pools.iter());
        let pool = |pool: u32| &cluster.node_pool_names[pool as usize];
        let served = rows.filter(|(_, of)| answer.node_pools.contains(pool(**of)));
        last.weighed(served.map(|(row, _)| row));
    }

    /// Counts decisions that a version gave, and keeps them where they count when it fails.
    fn keep_decisions(&mut self, answer: &JudgeAnswer, request: &ConsolidationRequest) {
        let (Some(_), Some(Said::Decisions(decisions))) = (&answer.by, &answer.said) else {
            return;
        };
        let names = &request.0.cluster.names;
        let nodes = |proposal| {
            let rows = request.nodes_of(proposal, answer);
            rows.map(|row| &names[row as usize])
        };
        for (proposal, decision) in decisions.iter().enumerate() {
            if let Some(last) = self.last(answer.place) {
                last.decided(nodes(proposal), decision);
            }
            if nodes(proposal).next().is_some() {
                let tally = &mut self.places[answer.place].tally;
                tally.count(decision, request.now());
            }
        }
    }

    fn record(&mut self, proposals: Option<usize>, answers: &[JudgeAnswer]) {
        if let Some(records) = &mut self.records {
            let answers = answers.to_vec();
            records.push(JudgeRecord { proposals, answers });
        }
    }

    fn ask<T>(
        &mut self,
        (place, fallback): (usize, Fallback),
        ask: Ask<'_, T>,
    ) -> Option<(LoadedPolicy, T)> {
        let call = question(place, fallback, ask);
        self.places[place].ask(&call, &mut self.reports)
    }

    /// What the next version of a place answers, and for which of the NodePools that counts; the others
    /// are for the version at work.
    fn ask_next<T: PartialEq>(
        &mut self,
        place: usize,
        ask: Ask<'_, T>,
        node_pools: Vec<Arc<str>>,
    ) -> (Vec<Arc<str>>, Option<Following<T>>) {
        let judged = Judged {
            same: &|one, other| one == other,
            wrong: &|_, _| None,
            about: "and all others",
        };
        let versions = &mut self.places[place];
        let answer = versions.ask_next(&question(place, Fallback::Rules, ask), &judged);
        let obeyed = |pool: &Arc<str>| versions.obeys_next(pool);
        let (own, rest): (Vec<_>, Vec<_>) = node_pools.into_iter().partition(obeyed);
        match answer {
            Some((by, answer)) if !own.is_empty() => (
                rest,
                Some(Following {
                    by,
                    answer,
                    node_pools: own,
                }),
            ),
            _ => (own.into_iter().chain(rest).collect(), None),
        }
    }
}

/// What a next version says of the nodes of some NodePools.
struct Following<T> {
    by: LoadedPolicy,
    answer: T,
    node_pools: Vec<Arc<str>>,
}

/// A question about consolidation.
fn question<'q, T>(place: usize, fallback: Fallback, ask: Ask<'q, T>) -> Call<'q, T> {
    Call {
        place,
        node_pool: "",
        fallback,
        ask,
        known: &|_, _| None,
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

    /// Begins to keep which consolidation policy answers what, for
    /// [`WasmPolicies::take_judge_records`].
    pub fn keep_judge_records(&self) {
        self.judges().lock().records = Some(Vec::new());
    }

    /// The records since [`WasmPolicies::keep_judge_records`], in the order of the questions.
    pub fn take_judge_records(&self) -> Vec<JudgeRecord> {
        let records = self.judges().lock().records.take();
        records.unwrap_or_default()
    }

    /// Begins a look for disruption: instances of consolidation policies are made anew, failed
    /// versions get another chance. The first question of each look does so by itself.
    pub fn begin_look(&self) {
        self.judges().lock().begin_look();
    }

    /// What disturbing each node costs; see [`Consolidation::weigh`].
    pub fn weights(&self, request: &ConsolidationRequest) -> Vec<Weight> {
        request.joined_weights(&self.ask_weights(request))
    }

    /// What each policy says that disturbing nodes costs.
    pub fn ask_weights(&self, request: &ConsolidationRequest) -> Vec<JudgeAnswer> {
        let mut inner = self.judges().lock();
        // The first request of a round.
        inner.begin_look();
        let mut answers = Vec::new();
        for (place, node_pools) in inner.asked(&request.0) {
            if node_pools.is_empty() {
                continue;
            }
            let fallback = inner.fallback_of_weights(place);
            let ask: Ask<'_, Vec<f64>> = &|instance, _, _| {
                instance.set_judge_request(&request.0);
                instance.weigh()
            };
            let answer = inner.ask((place, fallback), ask);
            let (node_pools, next) = inner.ask_next(place, ask, node_pools);
            let cluster = &request.0.cluster;
            let said: Option<Vec<f64>> = match (&answer, fallback) {
                (Some((_, usd)), _) => Some(usd.clone()),
                (None, Fallback::Hold) => Some(vec![f64::INFINITY; cluster.count()]),
                (None, Fallback::LastAnswer) => {
                    let last = &inner.places[place].last_decisions;
                    let names = cluster.names.iter();
                    Some(names.map(|name| last.weight(name)).collect())
                }
                (None, _) => None,
            };
            let by = answer.map(|(by, _)| by);
            let said = said.map(|said| Said::Weights(said.into()));
            let answer = inner.answer(place, by, fallback, node_pools, said);
            inner.keep_weights(&answer, cluster);
            answers.push(answer);
            answers.extend(next.map(|next| {
                let said = Some(Said::Weights(next.answer.into()));
                inner.answer(place, Some(next.by), fallback, next.node_pools, said)
            }));
        }
        inner.record(None, &answers);
        answers
    }

    /// What becomes of each proposal; see [`Consolidation::decide`].
    pub fn decisions(&self, request: &ConsolidationRequest) -> Vec<Decision> {
        request.joined_decisions(&self.ask_decisions(request))
    }

    /// What each policy says of proposals.
    pub fn ask_decisions(&self, request: &ConsolidationRequest) -> Vec<JudgeAnswer> {
        let mut inner = self.judges().lock();
        let mut answers = Vec::new();
        for (place, node_pools) in inner.asked(&request.0) {
            let fallback = inner.fallback_of_decisions(place);
            let mut unasked = inner.answer(place, None, fallback, node_pools, None);
            let concerned = |proposal| request.nodes_of(proposal, &unasked).next().is_some();
            if !(0..request.proposals()).any(concerned) {
                continue;
            }
            let ask: Ask<'_, Vec<Decision>> = &|instance, policy, _| {
                instance.set_judge_request(&request.0);
                instance.decide(&policy.name().into())
            };
            let answer = inner.ask((place, fallback), ask);
            let count = request.proposals();
            let names = &request.0.cluster.names;
            let last = |proposal| {
                let nodes = request.nodes_of(proposal, &unasked);
                let last = &inner.places[place].last_decisions;
                last.decision(nodes.map(|row| &names[row as usize]))
            };
            let said: Option<Vec<Decision>> = match (&answer, fallback) {
                (Some((_, decisions)), _) => Some(decisions.clone()),
                (None, Fallback::Hold) => Some(vec![held(); count]),
                (None, Fallback::LastAnswer) => Some((0..count).map(last).collect()),
                (None, _) => None,
            };
            let by = answer.map(|(by, _)| by);
            let said = said.map(|said| Said::Decisions(said.into()));
            let node_pools = std::mem::take(&mut unasked.node_pools);
            let (node_pools, next) = inner.ask_next(place, ask, node_pools);
            let answer = inner.answer(place, by, fallback, node_pools, said);
            inner.keep_decisions(&answer, request);
            answers.push(answer);
            answers.extend(next.map(|next| {
                let said = Some(Said::Decisions(next.answer.into()));
                inner.answer(place, Some(next.by), fallback, next.node_pools, said)
            }));
        }
        inner.record(Some(request.proposals()), &answers);
        answers
    }
}

/// What becomes of a proposal where a policy holds.
fn held() -> Decision {
    Decision {
        priority: -1.0,
        not_before: 0.0,
        reason: "it gives no answer, and its `on-failure` is `hold`".into(),
        by: None,
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
