//! The policy of each NodePool, and its substitutes if it fails: its last good version, then the
//! price.
//!
//! A failed version is not called again before the next round, so that a bad policy costs a round
//! one failure and not one per NodePool. The reports say which version answered, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_core::disrupt::consolidation::{Consolidation, DisruptionPolicies};
use longshore_core::model::{Catalogue, Symbol, Symbols};
use longshore_core::policy::{AlikeCosts, ByPrice, Policies, Scores};

use crate::call::Instance;
use crate::columns::Columns;
use crate::judges::Judges;
use crate::last_answers::{LastAnswer, LastAnswers};
use crate::load::Host;
use crate::loaded::LoadedPolicy;
use crate::report::{CallStats, Fallback, Report};
use crate::score_request::ScoreRequest;
use crate::signals::Signals;
use crate::terms::{Ability, OnFailure, Terms};
use crate::version::{Budget, Call, Versions};

/// A policy and its NodePools.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Component and configuration, ready to be called.
    pub policy: LoadedPolicy,
    /// NodePools by name; empty for all. Of several assignments for a NodePool the first counts.
    pub node_pools: Vec<String>,
}

/// A place among policies that follow others; see [`Host::follow`].
#[derive(Clone, Debug)]
pub struct PolicySlot {
    /// Who sits there; none for a policy that could never be loaded. Its NodePools are then scored
    /// by price, and not by the next policy.
    pub policy: Option<LoadedPolicy>,
    /// NodePools by name; empty for all. Of several places for a NodePool the first counts.
    pub node_pools: Vec<String>,
    /// The slot of the policy that this is another version of.
    pub follows: Option<usize>,
    /// What the operator says of it, loaded or not.
    pub terms: Terms,
}

/// One answer of a round, recorded for replay.
#[derive(Clone, Debug)]
pub struct ScoreRecord {
    /// The NodePool that it is about.
    pub node_pool: Arc<str>,
    /// The policy that gave it, with its place among the assignments; none where offerings cost
    /// their price.
    pub by: Option<(usize, LoadedPolicy)>,
    /// The place whose policy gave no answer, so that another version or the price did.
    pub failed: Option<usize>,
    /// What offerings cost where neither a version nor the price answered: its last answer, or that
    /// nothing is bought.
    pub instead: Option<Arc<[f64]>>,
    /// Checksum over costs and commitments.
    pub sum: u64,
    /// How many offerings it costs how much, where a policy costs all of them the same.
    pub alike: Option<(usize, f64)>,
}

/// Scorers by NodePool: the host's side of [`Policies`].
pub struct WasmPolicies {
    inner: Mutex<Inner>,
    judges: Arc<Judges>,
}

struct Inner {
    scorers: Vec<Versions>,
    columns: Option<CachedColumns>,
    signals: (Arc<Signals>, u32),
    now: f64,
    reports: Vec<Report>,
    /// What was answered in this round.
    answered: Vec<ScoreRecord>,
    /// The last answer about each NodePool.
    last: BTreeMap<Arc<str>, ScoreRecord>,
    /// The requests of this round, and of the last round that had any.
    requests: Vec<ScoreRequest>,
    previous_requests: Vec<ScoreRequest>,
}

/// Columns and their source.
#[derive(Clone)]
struct CachedColumns {
    columns: Arc<Columns>,
    catalogue: u64,
    signals: Arc<Signals>,
}

impl Host {
    /// Policies at work. NodePools that no assignment serves are scored by price.
    pub fn policies(&self, assignments: Vec<Assignment>) -> WasmPolicies {
        let place = |a: Assignment| PolicySlot {
            terms: a.policy.terms().clone(),
            policy: Some(a.policy),
            node_pools: a.node_pools,
            follows: None,
        };
        self.follow(None, assignments.into_iter().map(place).collect())
    }

    /// Policies that take over from others between two rounds. Where a place follows one of
    /// `before` with another version, the version that goes stays as last good one if it ever gave
    /// a good answer. Signals and previous requests are kept.
    pub fn follow(&self, before: Option<&WasmPolicies>, places: Vec<PolicySlot>) -> WasmPolicies {
        let old_judges = before.map(|before| before.judges.clone());
        let before = before.map(WasmPolicies::lock);
        let scorer = |place: &PolicySlot| {
            // A policy that could never be loaded is one if it may be.
            let is_scorer = match &place.policy {
                Some(policy) => policy.is_scorer(),
                None => place.terms.grants.contains(&Ability::Scorer),
            };
            if !is_scorer {
                return Versions::default();
            }
            let old = place
                .follows
                .and_then(|at| before.as_ref()?.scorers.get(at));
            let pools = place.node_pools.clone();
            Versions::follow(place.policy.clone(), pools, &place.terms, old)
        };
        let judge = |place: &PolicySlot| {
            let is_judge = match &place.policy {
                Some(policy) => policy.is_consolidation(),
                None => place.terms.grants.contains(&Ability::Consolidation),
            };
            if !is_judge {
                return Versions::default();
            }
            let (policy, pools) = (place.policy.clone(), place.node_pools.clone());
            match &old_judges {
                Some(old) => old.follow(place.follows, policy, pools, &place.terms),
                None => Versions::follow(policy, pools, &place.terms, None),
            }
        };
        let judges = Arc::new(Judges::new(places.iter().map(judge).collect()));
        let scorers = places.iter().map(scorer).collect();
        let inner = match before {
            Some(old) => Inner {
                scorers,
                columns: old.columns.clone(),
                signals: old.signals.clone(),
                now: old.now,
                reports: Vec::new(),
                answered: Vec::new(),
                last: BTreeMap::new(),
                requests: old.requests.clone(),
                previous_requests: old.previous_requests.clone(),
            },
            None => Inner {
                scorers,
                columns: None,
                signals: (Arc::default(), 0),
                now: 0.0,
                reports: Vec::new(),
                answered: Vec::new(),
                last: BTreeMap::new(),
                requests: Vec::new(),
                previous_requests: Vec::new(),
            },
        };
        WasmPolicies {
            inner: Mutex::new(inner),
            judges,
        }
    }
}

impl WasmPolicies {
    /// Begins a round at `now` (seconds since 1970): instances are made anew, failed versions get
    /// another chance.
    pub fn begin_round(&self, now: i64) {
        let mut inner = self.lock();
        inner.now = now as f64;
        inner.answered.clear();
        if !inner.requests.is_empty() {
            inner.previous_requests = std::mem::take(&mut inner.requests);
            inner.forget_unasked();
        }
        let budget = Budget::share(inner.scorers.len());
        (inner.scorers.iter_mut()).for_each(|versions| versions.begin_round(budget));
    }

    /// The same versions with instances of their own, for questions that are no part of a round:
    /// neither answers, reports nor counts of the two are shared.
    pub fn apart(&self) -> WasmPolicies {
        self.copy(Arc::new(self.judges.rested()))
    }

    /// As [`WasmPolicies::apart`], but reports and counts of consolidation policies are shared: for
    /// the looks that disrupt. Only one of them may ask at a time.
    pub fn apart_to_disrupt(&self) -> WasmPolicies {
        self.copy(self.judges.clone())
    }

    fn copy(&self, judges: Arc<Judges>) -> WasmPolicies {
        let inner = self.lock();
        let inner = Inner {
            scorers: inner.scorers.iter().map(Versions::rested).collect(),
            columns: inner.columns.clone(),
            signals: inner.signals.clone(),
            now: inner.now,
            reports: Vec::new(),
            answered: Vec::new(),
            last: BTreeMap::new(),
            requests: Vec::new(),
            previous_requests: Vec::new(),
        };
        WasmPolicies {
            inner: Mutex::new(inner),
            judges,
        }
    }

    /// Puts new signals in the place of all that were there.
    pub fn set_signals(&self, signals: Signals) {
        let mut inner = self.lock();
        if *inner.signals.0 != signals {
            inner.signals = (Arc::new(signals), inner.signals.1.wrapping_add(1));
        }
    }

    /// As [`WasmPolicies::set_signals`], without comparing and without a copy.
    pub fn share_signals(&self, signals: Arc<Signals>) {
        let mut inner = self.lock();
        inner.signals = (signals, inner.signals.1.wrapping_add(1));
    }

    /// The requests of this round so far, or those of the last round that had any. One question for
    /// each NodePool.
    pub fn asked(&self) -> Vec<ScoreRequest> {
        let inner = self.lock();
        if inner.requests.is_empty() {
            inner.previous_requests.clone()
        } else {
            inner.requests.clone()
        }
    }

    /// What was answered in this round so far, in order.
    pub fn answered(&self) -> Vec<ScoreRecord> {
        self.lock().answered.clone()
    }

    /// The last answer about each NodePool, of this round or an earlier one. A NodePool that a round
    /// did not ask for is forgotten.
    pub fn last_answers(&self) -> Vec<ScoreRecord> {
        self.lock().last.values().cloned().collect()
    }

    /// Whose answer about a NodePool counted last; none where offerings cost their price.
    pub fn answered_by(&self, node_pool: &str) -> Option<String> {
        let inner = self.lock();
        let last = inner.last.get(node_pool)?;
        match (&last.by, &last.instead) {
            (Some((_, policy)), _) => Some(policy.name().to_owned()),
            (None, Some(_)) => {
                let versions = inner.scorers.get(last.failed?)?;
                let name = versions.terms.name.as_deref()?;
                Some(format!("{name} (it gives no answer: `on-failure` counts)"))
            }
            (None, None) => None,
        }
    }

    /// The signals that policies see.
    pub fn signals(&self) -> Arc<Signals> {
        self.lock().signals.0.clone()
    }

    /// What happened at each place since last asked.
    pub fn tallies(&self) -> Vec<CallStats> {
        let mut tallies: Vec<CallStats> = self
            .lock()
            .scorers
            .iter_mut()
            .map(|scorer| std::mem::take(&mut scorer.tally))
            .collect();
        for (tally, of) in tallies.iter_mut().zip(self.judges.take_tallies()) {
            tally.add(&of);
        }
        tallies
    }

    /// Puts another version in the place of assignment `at`. The one that goes stays as last good
    /// version if it ever gave a good answer.
    pub fn replace(&self, at: usize, policy: LoadedPolicy) {
        if policy.is_consolidation() {
            self.judges.replace(at, policy.clone());
        }
        if policy.is_scorer()
            && let Some(scorer) = self.lock().scorers.get_mut(at)
        {
            scorer.is_asked = true;
            scorer.replace(policy);
        }
    }

    /// The last good answers of the policy at a place, for [`WasmPolicies::remember`] in another
    /// process; none where they would not count.
    pub fn remembered(&self, place: usize) -> Option<LastAnswers> {
        let decided = self.judges.last_decisions(place);
        let (answered, answers) = {
            let inner = self.lock();
            let versions = inner.scorers.get(place)?;
            let answered = versions.current.as_ref().or(versions.last_good.as_ref());
            let answered = answered.map(|version| version.policy.clone());
            (answered, versions.last_answers.clone())
        };
        if answers.is_empty() && decided.is_none() {
            return None;
        }
        let policy = answered.or_else(|| Some(decided.as_ref()?.0.clone()))?;
        let mut all = LastAnswers::of(&policy);
        answers
            .iter()
            .for_each(|(pool, answer)| all.add(pool, answer));
        all.nodes = decided.map(|(_, nodes)| nodes).unwrap_or_default();
        Some(all)
    }

    /// Has answers count that a policy gave before this process began, where it gave none since.
    pub fn remember(&self, place: usize, answers: &LastAnswers) {
        self.judges.remember(place, &answers.nodes);
        let mut inner = self.lock();
        let Some(versions) = inner.scorers.get_mut(place) else {
            return;
        };
        for (pool, answer) in answers.iter() {
            versions.last_answers.entry(pool.into()).or_insert(answer);
        }
    }

    /// What happened since last asked, in order.
    pub fn reports(&self) -> Vec<Report> {
        let mut reports = std::mem::take(&mut self.lock().reports);
        reports.extend(self.judges.take_reports());
        reports
    }

    pub(crate) fn judges(&self) -> &Judges {
        &self.judges
    }

    /// A request about a catalogue that is for no NodePool in particular.
    pub(crate) fn request(&self, catalogue: &Catalogue, names: &Symbols, now: f64) -> ScoreRequest {
        let mut inner = self.lock();
        ScoreRequest {
            columns: inner.columns(catalogue, names),
            signals: inner.signals.clone(),
            node_pool: "".into(),
            now,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in between leaves at worst an instance behind that fails and is dropped.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policies for WasmPolicies {
    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        let mut inner = self.lock();
        let Answered { place, by, scores } = inner.score(catalogue, names, pool);
        let by = place.zip(by);
        let instead = scores.as_ref().filter(|_| by.is_none());
        let instead = instead.map(|scores| scores.cost.clone());
        let mut scores = scores.unwrap_or_else(|| ByPrice.score(catalogue, names, pool));
        scores.policy = by.as_ref().map(|(_, policy)| policy.name().into());
        let answered = |place: &usize| {
            let current = by.as_ref().map(|(_, policy)| policy);
            current.is_some_and(|policy| inner.scorers[*place].is_at_work(policy))
        };
        let failed = place.filter(|place| !answered(place));
        let (sum, alike) = summed(&scores);
        let alike = alike.filter(|_| by.is_some() && prices_differ(catalogue, &scores));
        let node_pool: Arc<str> = names.text(pool).into();
        let answer = ScoreRecord {
            node_pool: node_pool.clone(),
            by,
            failed,
            instead,
            sum,
            alike,
        };
        inner.last.insert(node_pool, answer.clone());
        inner.answered.push(answer);
        scores
    }

    fn alike(&self) -> Vec<AlikeCosts> {
        let alike = |answer: ScoreRecord| {
            let (_, policy) = answer.by?;
            let (offerings, cost) = answer.alike?;
            Some(AlikeCosts {
                policy: policy.name().into(),
                node_pool: answer.node_pool,
                offerings,
                cost,
            })
        };
        self.last_answers().into_iter().filter_map(alike).collect()
    }
}

impl DisruptionPolicies for WasmPolicies {
    fn consolidation(&self) -> Option<&dyn Consolidation> {
        self.judges.is_any().then_some(self as &dyn Consolidation)
    }
}

/// A checksum in the manner of FNV, eight bytes at a time: about 10 µs for 8 000 offerings. In the same
/// pass: how many offerings cost how much, where all that are not excluded cost the same and draw on
/// no commitment.
fn summed(scores: &Scores) -> (u64, Option<(usize, f64)>) {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut take = |bits: u64| sum = (sum ^ bits).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    let first = scores.cost.iter().copied().find(|cost| cost.is_finite());
    let first = first.unwrap_or(f64::INFINITY);
    let (mut offered, mut other) = (0, 0);
    for cost in scores.cost.iter() {
        take(cost.to_bits());
        offered += usize::from(cost.is_finite());
        other += usize::from(cost.is_finite() & (*cost != first));
    }
    for pool in &scores.pools {
        pool.name.bytes().for_each(|byte| take(u64::from(byte)));
        take(pool.remaining.to_bits());
        for draw in &pool.draws {
            take(u64::from(draw.offering.0));
            take(draw.amount.to_bits());
            take(draw.cost.to_bits());
        }
    }
    let is_alike = offered > 1 && other == 0 && scores.pools.is_empty();
    (sum, is_alike.then_some((offered, first)))
}

/// Whether the offerings that a policy does not exclude have different prices: where they have not, it
/// is no fault of the policy that it tells none apart.
fn prices_differ(catalogue: &Catalogue, scores: &Scores) -> bool {
    let costs = scores.cost.iter().zip(catalogue.prices().iter());
    let mut prices = costs
        .filter(|(cost, _)| cost.is_finite())
        .map(|(_, price)| *price);
    let first = prices.next();
    prices.any(|price| Some(price) != first)
}

/// What is answered about a NodePool.
#[derive(Default)]
struct Answered {
    /// The place that is for it.
    place: Option<usize>,
    /// The version that answered.
    by: Option<LoadedPolicy>,
    /// Its answer, or what counts instead; the price if there is none.
    scores: Option<Scores>,
}

/// Costs without commitments.
fn costs(cost: Vec<f64>) -> Scores {
    Scores {
        policy: None,
        cost: cost.into(),
        pools: Vec::new(),
    }
}

impl Versions {
    /// Keeps a good answer, if it counts when the policy fails.
    fn keep(&mut self, request: &ScoreRequest, scores: &Scores) {
        if self.terms.on_failure == OnFailure::LastAnswer {
            let answer = LastAnswer::Given {
                columns: request.columns.clone(),
                cost: scores.cost.clone(),
            };
            self.last_answers.insert(request.node_pool.clone(), answer);
        }
    }
}

impl Inner {
    fn score(&mut self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Answered {
        let node_pool = names.text(pool);
        let columns = self.columns(catalogue, names);
        let request = ScoreRequest {
            columns,
            signals: self.signals.clone(),
            node_pool: node_pool.into(),
            now: self.now,
        };
        self.keep(&request);

        let Some(place) = self.scorers.iter().position(|s| s.serves(node_pool)) else {
            return Answered::default();
        };
        let versions = &mut self.scorers[place];
        let known = versions.last_answers.get(node_pool).cloned();
        let floor = versions.floor(known.is_some(), Fallback::Price);
        let call = Call {
            place,
            node_pool,
            floor,
            ask: &|instance: &mut Instance, _: &LoadedPolicy| {
                instance.set_request(&request);
                instance.score()
            },
        };
        let answer = versions.ask(&call, &mut self.reports);
        let columns = &request.columns;
        let (by, scores) = match (answer, floor, known) {
            (Some((policy, mut scores)), _, _) => {
                // A name of a pool is its policy's own: that of another policy is another pool.
                let pools = scores.pools.iter_mut();
                pools.for_each(|pool| pool.owner = place as u32);
                versions.keep(&request, &scores);
                (Some(policy), Some(scores))
            }
            (None, Fallback::LastAnswer, Some(known)) => {
                let known = known.by_difference();
                let cost = known.costs(columns, versions.terms.least_share());
                // Until it answers again it may be asked each round.
                versions.last_answers.insert(node_pool.into(), known);
                (None, Some(costs(cost)))
            }
            (None, Fallback::Hold, _) => (None, Some(costs(vec![f64::INFINITY; columns.count()]))),
            (None, _, _) => (None, None),
        };
        Answered {
            place: Some(place),
            by,
            scores,
        }
    }

    /// The columns of a catalogue: those made last if they were made of it.
    fn columns(&mut self, catalogue: &Catalogue, names: &Symbols) -> Arc<Columns> {
        let (number, signals) = (catalogue.number(), &self.signals.0);
        if let Some(made) = &self.columns
            && made.catalogue == number
            && Arc::ptr_eq(&made.signals, signals)
        {
            return made.columns.clone();
        }
        let last = self.columns.as_ref().map(|made| &*made.columns);
        let columns = Arc::new(Columns::build(catalogue, names, signals, last));
        self.columns = Some(CachedColumns {
            columns: columns.clone(),
            catalogue: number,
            signals: signals.clone(),
        });
        columns
    }

    /// Forgets the answers about NodePools that the round before was not about.
    fn forget_unasked(&mut self) {
        let asked = self.previous_requests.iter();
        let asked: BTreeSet<&str> = asked.map(|question| &*question.node_pool).collect();
        self.last.retain(|pool, _| asked.contains(&**pool));
    }

    /// Remembers a request; of several about one NodePool the last.
    fn keep(&mut self, request: &ScoreRequest) {
        match self
            .requests
            .iter_mut()
            .find(|kept| kept.node_pool == request.node_pool)
        {
            Some(kept) => *kept = request.clone(),
            None => self.requests.push(request.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_alike_where_no_two_of_them_differ() {
        const INF: f64 = f64::INFINITY;
        let alike = |cost: &[f64]| {
            let scores = Scores {
                policy: None,
                cost: cost.into(),
                pools: Vec::new(),
            };
            summed(&scores).1
        };
        assert_eq!(alike(&[0.0, 0.0, 0.0]), Some((3, 0.0)));
        assert_eq!(alike(&[INF, 0.5, 0.5]), Some((2, 0.5)), "one is excluded");
        assert_eq!(alike(&[0.0, 0.0, 0.1]), None);
        assert_eq!(alike(&[INF, 0.5]), None, "one is left");
        assert_eq!(alike(&[]), None);
    }
}
