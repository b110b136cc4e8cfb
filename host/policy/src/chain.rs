//! The policies of each NodePool, in their order: each gets the costs of offerings from the one before
//! it, the first their list price. If one fails, its last good version answers for it, then what
//! `on-failure` says counts.
//!
//! A failed version is not called again before the next round, so that a bad policy costs a round
//! one failure and not one per NodePool. The reports say which version answered, and why.

mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_core::disrupt::consolidation::{Consolidation, DisruptionPolicies};
use longshore_core::model::{Catalogue, NodePool, OfferingId, Records, Symbol, Symbols};
use longshore_core::policy::{AlikeCosts, ByPrice, CostTerm, Policies, PolicyCosts, Scores};

use crate::answer_cache::View;
use crate::call::Instance;
use crate::call::scores::{Guard, Guarded};
use crate::canary::{CanaryFault, CanarySeen, Judged, Obeyed};
use crate::columns::Columns;
use crate::judges::{self, Judges};
use crate::last_answers::{LastAnswer, LastAnswers};
use crate::load::Host;
use crate::loaded::LoadedPolicy;
use crate::report::{CallStats, Fallback, Report};
use crate::round_budget::{RoundBudget, round_time};
use crate::score_request::{PoolFacts, ScoreRequest};
use crate::signals::Signals;
use crate::terms::{Ability, OnFailure, Terms};
use crate::version::{Call, Versions};
pub(crate) use links::dearer;
pub use links::{ChainLink, ScoreRecord, chained, discouraged_by_cost, without_answer};
use links::{all_discouraged, cheaper, dearer_by, draws_dearer, new_rows, rows_of, summed, union};

/// A policy and its NodePools.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Component and configuration, ready to be called.
    pub policy: LoadedPolicy,
    /// NodePools by name; empty for all. Several assignments for a NodePool are a chain.
    pub node_pools: Vec<String>,
}

/// A place among policies that follow others; see [`Host::follow`].
#[derive(Clone, Debug)]
pub struct PolicySlot {
    /// Who sits there; none for a policy that could never be loaded.
    pub policy: Option<LoadedPolicy>,
    /// NodePools by name; empty for all. Several places for a NodePool are a chain.
    pub node_pools: Vec<String>,
    /// The slot of the policy that this is another version of.
    pub follows: Option<usize>,
    /// What the operator says of it, loaded or not.
    pub terms: Terms,
    /// The version that is to follow it, asked beside it once [`WasmPolicies::obey`] says so.
    pub next: Option<LoadedPolicy>,
}

/// Scorers by NodePool: the host's side of [`Policies`].
pub struct WasmPolicies {
    inner: Mutex<Inner>,
    judges: Arc<Judges>,
}

#[derive(Default)]
struct Inner {
    scorers: Vec<Versions>,
    columns: Option<CachedColumns>,
    signals: Arc<Signals>,
    /// What is known of NodePools, by name.
    pools: BTreeMap<Arc<str>, Arc<PoolFacts>>,
    now: f64,
    /// How long a round may plan; none where nothing is said.
    planning: Option<Duration>,
    reports: Vec<Report>,
    /// NodePools for which nothing is bought, with the policy that is the reason.
    held: Arc<BTreeMap<String, Arc<str>>>,
    /// What was answered in this round.
    answered: Vec<ScoreRecord>,
    /// The last answer about each NodePool.
    last: BTreeMap<Arc<str>, ScoreRecord>,
    /// The requests of this round, and of the last round that had any.
    requests: Vec<ScoreRequest>,
    previous_requests: Vec<ScoreRequest>,
}

impl Inner {
    /// The same knowledge of the cluster, with other versions that nothing was asked of yet.
    fn with(&self, scorers: Vec<Versions>) -> Inner {
        Inner {
            scorers,
            columns: self.columns.clone(),
            signals: self.signals.clone(),
            pools: self.pools.clone(),
            now: self.now,
            planning: self.planning,
            held: self.held.clone(),
            ..Inner::default()
        }
    }
}

/// Columns and their source.
#[derive(Clone)]
struct CachedColumns {
    columns: Arc<Columns>,
    catalogue: u64,
}

impl Host {
    /// Policies at work. NodePools that no assignment serves are scored by price.
    pub fn policies(&self, assignments: Vec<Assignment>) -> WasmPolicies {
        let place = |a: Assignment| PolicySlot {
            terms: a.policy.terms().clone(),
            policy: Some(a.policy),
            node_pools: a.node_pools,
            follows: None,
            next: None,
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
            let next = place.next.clone().filter(LoadedPolicy::is_scorer);
            Versions::follow(place.policy.clone(), pools, &place.terms, old).with_next(next, old)
        };
        let judge = |place: &PolicySlot| {
            let is_judge = match &place.policy {
                Some(policy) => policy.is_consolidation(),
                None => place.terms.grants.contains(&Ability::Consolidation),
            };
            if !is_judge {
                return Versions::default();
            }
            match &old_judges {
                Some(old) => old.follow(place),
                None => judges::follow(place, None),
            }
        };
        let judges = Arc::new(Judges::new(places.iter().map(judge).collect()));
        let scorers = places.iter().map(scorer).collect();
        let inner = match before {
            Some(old) => Inner {
                requests: old.requests.clone(),
                previous_requests: old.previous_requests.clone(),
                ..old.with(scorers)
            },
            None => Inner {
                scorers,
                ..Inner::default()
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
        let next = inner.scorers.iter().filter(|of| of.next.is_some()).count();
        let budget = RoundBudget::share(round_time(inner.planning), inner.scorers.len() + next);
        (inner.scorers.iter_mut()).for_each(|versions| versions.begin_round(budget));
    }

    /// Rounds plan for so long: scorers share half of it, 5 s at most.
    pub fn plan_within(&self, planning: Option<Duration>) {
        self.lock().planning = planning;
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
        let inner = inner.with(inner.scorers.iter().map(Versions::rested).collect());
        WasmPolicies {
            inner: Mutex::new(inner),
            judges,
        }
    }

    /// Puts new signals in the place of all that were there.
    pub fn set_signals(&self, signals: Signals) {
        let mut inner = self.lock();
        if *inner.signals != signals {
            inner.signals = Arc::new(signals);
        }
    }

    /// As [`WasmPolicies::set_signals`], without comparing and without a copy.
    pub fn share_signals(&self, signals: Arc<Signals>) {
        let mut inner = self.lock();
        inner.signals = signals;
    }

    /// Has nothing bought for NodePools, whatever their policies say: each with the name of a policy of
    /// another kind that is the reason.
    pub fn hold(&self, node_pools: &Arc<BTreeMap<String, Arc<str>>>) {
        self.lock().held = node_pools.clone();
    }

    /// For which NodePools the next version of the policy at a place is obeyed, from the next question
    /// on.
    pub fn obey(&self, place: usize, obeyed: &Obeyed) {
        if let Some(next) = (self.lock().scorers.get_mut(place)).and_then(|of| of.next.as_mut()) {
            next.obeyed.clone_from(obeyed);
        }
        self.judges.obey(place, obeyed);
    }

    /// Whether the next version of the policy at a place is asked.
    pub fn asks_next(&self, place: usize) -> bool {
        let inner = self.lock();
        let next = inner.scorers.get(place).and_then(|of| of.next.as_ref());
        next.is_some_and(|next| next.obeyed != Obeyed::NotAsked)
    }

    /// What was seen of the next version of the policy at a place, since last taken: when scoring.
    pub fn take_seen(&self, place: usize) -> Option<CanarySeen> {
        let mut inner = self.lock();
        Some(inner.scorers.get_mut(place)?.next.as_mut()?.take_seen())
    }

    /// As [`WasmPolicies::take_seen`], in looks for disruption.
    pub fn take_seen_in_looks(&self, place: usize) -> Option<CanarySeen> {
        self.judges.take_seen(place)
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

    /// Whose answers about a NodePool counted last; none where offerings cost their price.
    pub fn answered_by(&self, node_pool: &str) -> Option<Arc<str>> {
        self.lock().last.get(node_pool)?.answered_by()
    }

    /// The names of all NodePools, as last seen; none before a round.
    pub fn node_pool_names(&self) -> Vec<Arc<str>> {
        self.lock().pools.keys().cloned().collect()
    }

    /// Scores after `before`, which policies of another host gave: for replay.
    pub fn score_after(
        &self,
        catalogue: &Catalogue,
        names: &Symbols,
        pool: Symbol,
        before: Scores,
    ) -> Scores {
        self.lock().score(catalogue, names, pool, before)
    }

    /// The signals that policies see.
    pub fn signals(&self) -> Arc<Signals> {
        self.lock().signals.clone()
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
        let columns = inner.columns(catalogue, names);
        ScoreRequest {
            costs: columns.moving.prices.clone(),
            columns,
            signals: inner.signals.clone(),
            node_pool: "".into(),
            pool: Arc::default(),
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
        let price = ByPrice.score(catalogue, names, pool);
        self.lock().score(catalogue, names, pool, price)
    }

    fn node_pools(&self, pools: &Records<NodePool>, names: &Symbols) {
        let mut inner = self.lock();
        if inner.scorers.is_empty() {
            return;
        }
        let mut before = std::mem::take(&mut inner.pools);
        inner.pools = (pools.iter())
            .map(|pool| {
                let (name, facts) = (names.text(pool.name), PoolFacts::of(pool, names));
                // The same facts are the same, so that answers hold.
                match before.remove_entry(name) {
                    Some((name, known)) if *known == facts => (name, known),
                    _ => (name.into(), Arc::new(facts)),
                }
            })
            .collect();
    }

    fn alike(&self) -> Vec<AlikeCosts> {
        let alike = |answer: ScoreRecord| {
            let node_pool = answer.node_pool;
            answer.links.into_iter().filter_map(move |link| {
                link.by?;
                let (offerings, cost) = link.alike?;
                Some(AlikeCosts {
                    policy: link.name,
                    node_pool: node_pool.clone(),
                    offerings,
                    cost,
                })
            })
        };
        self.last_answers().into_iter().flat_map(alike).collect()
    }

    fn terms(&self, node_pool: &str, offering: OfferingId) -> Vec<CostTerm> {
        let inner = self.lock();
        let last = inner.last.get(node_pool);
        last.map(|last| last.terms(offering)).unwrap_or_default()
    }
}

impl DisruptionPolicies for WasmPolicies {
    fn consolidation(&self) -> Option<&dyn Consolidation> {
        self.judges.is_any().then_some(self as &dyn Consolidation)
    }
}

/// How answers of a next version about a NodePool are judged.
fn judged(node_pool: &str) -> Judged<'_, Guarded> {
    Judged {
        same: &|one, other| {
            let is_same = summed(&one.scores).0 == summed(&other.scores).0;
            is_same && one.discouraged == other.discouraged
        },
        wrong: &|policy, answer| {
            let raised = answer.raised.as_ref()?;
            let report = Report::raised(0, "", &policy.called(), raised.clone());
            Some(CanaryFault::Discount(report.to_string()))
        },
        about: node_pool,
    }
}

/// Costs without commitments.
fn costs(cost: Arc<[f64]>) -> Scores {
    Scores {
        policies: Vec::new(),
        cost,
        pools: Vec::new(),
    }
}

/// What counts of a policy, and the rows that it discourages.
type Counted = (Scores, Arc<[u32]>);

impl Versions {
    /// Keeps a good answer, if it counts when the policy fails.
    fn keep(&mut self, request: &ScoreRequest, scores: &Scores, discouraged: &[u32]) {
        if self.terms.on_failure == OnFailure::LastAnswer {
            let answer = LastAnswer::Given {
                columns: request.columns.clone(),
                before: request.costs.clone(),
                // What it excluded, whatever that counts as by then.
                cost: dearer_by(f64::INFINITY, &scores.cost, discouraged),
            };
            self.last_answers.insert(request.node_pool.clone(), answer);
        }
    }
}

impl Inner {
    /// What offerings cost after all policies of a NodePool.
    fn score(
        &mut self,
        catalogue: &Catalogue,
        names: &Symbols,
        pool: Symbol,
        before: Scores,
    ) -> Scores {
        let node_pool: Arc<str> = names.text(pool).into();
        let columns = self.columns(catalogue, names);
        let list = before.cost.clone();
        let mut request = ScoreRequest {
            columns,
            signals: self.signals.clone(),
            node_pool: node_pool.clone(),
            pool: self.pools.get(&node_pool).cloned().unwrap_or_default(),
            now: self.now,
            costs: list.clone(),
        };
        self.keep(&request);
        let (mut scores, mut links) = (before, Vec::new());
        for place in 0..self.scorers.len() {
            if !self.scorers[place].serves(&node_pool) {
                continue;
            }
            // Where nothing is bought any more, there is nothing to ask.
            if !scores.cost.is_empty() && scores.cost.iter().all(|cost| cost.is_infinite()) {
                break;
            }
            // That one before it discourages something is not its to undo, and not to be known.
            let before = all_discouraged(&scores.policies);
            request.costs = cheaper(&scores.cost, &before);
            let (mut link, answer) = self.link(place, &request);
            if let Some((mut answer, discouraged)) = answer {
                let policy = link.called();
                let all = union(&before, &discouraged);
                answer.cost = dearer(&answer.cost, &all);
                // What is prepaid of it is no less discouraged.
                draws_dearer(&mut scores.pools, &new_rows(&before, &all));
                draws_dearer(&mut answer.pools, &all);
                answer.policies = vec![PolicyCosts {
                    policy,
                    cost: answer.cost.clone(),
                    discouraged,
                }];
                scores = chained(scores, answer);
            }
            link.cost = scores.cost.clone();
            links.push(link);
        }
        if let Some(policy) = self.held.get(&*node_pool) {
            let (link, answer) = ChainLink::held(policy, scores.cost.len());
            links.push(link);
            scores = chained(scores, answer);
        }
        let answer = ScoreRecord {
            node_pool: node_pool.clone(),
            list,
            links,
            sum: summed(&scores).0,
        };
        self.last.insert(node_pool, answer.clone());
        self.answered.push(answer);
        scores
    }

    /// What one policy makes of the costs before it, or what counts in its place; nothing if it is left
    /// out.
    fn link(&mut self, place: usize, request: &ScoreRequest) -> (ChainLink, Option<Counted>) {
        let node_pool = &*request.node_pool;
        let versions = &mut self.scorers[place];
        let known = versions.last_answers.get(node_pool).cloned();
        let fallback = versions.fallback(known.is_some(), Fallback::Price);
        let call = Call {
            place,
            node_pool,
            fallback,
            ask: &|instance: &mut Instance, policy, kept| {
                instance.set_request(request);
                if kept.is_some() {
                    instance.follow_reads();
                }
                let answer = instance.score()?;
                if let Some(kept) = kept {
                    instance.keep(&answer, kept);
                }
                Guard::of(policy.terms()).apply(answer, request)
            },
            known: &|kept, policy| {
                let view = View {
                    request,
                    visible: &policy.0.visible,
                };
                let guard = Guard::of(policy.terms());
                guard.apply(kept.get(&view)?, request).ok()
            },
        };
        let kept = versions.tally.kept;
        let answer = versions.ask(&call, &mut self.reports);
        let kept = versions.tally.kept > kept;
        let next = versions.ask_next(&call, &judged(node_pool));
        let obeyed = versions.obeys_next(node_pool);
        let answer = answer.map(|(policy, answer)| {
            if let Some(raised) = answer.raised {
                versions.tally.raised += raised.offerings;
                let version = versions.version_of(&policy);
                if version.is_some_and(|of| !std::mem::replace(&mut of.said_raised, true)) {
                    let called = policy.called();
                    let report = Report::raised(place, node_pool, &called, raised);
                    self.reports.push(report);
                }
            }
            (policy, answer.scores, answer.discouraged)
        });
        let (columns, before) = (&request.columns, &request.costs);
        let (by, scores) = match (answer, fallback, known) {
            (Some((policy, mut scores, discouraged)), _, _) => {
                // A name of a pool is its policy's own: that of another policy is another pool.
                let pools = scores.pools.iter_mut();
                pools.for_each(|pool| pool.owner = place as u32);
                versions.keep(request, &scores, &discouraged);
                (Some(policy), Some((scores, discouraged)))
            }
            (None, Fallback::LastAnswer, Some(known)) => {
                let known = known.by_difference();
                let cost = known.costs(columns, before, versions.terms.least_share());
                let mut cost = cost.into();
                let discouraged = Guard::of(&versions.terms).discourage(&mut cost, before);
                // Until it answers again it may be asked each round.
                versions.last_answers.insert(node_pool.into(), known);
                (None, Some((costs(cost), discouraged)))
            }
            (None, Fallback::Hold, _) => {
                let cost = vec![f64::INFINITY; columns.count()];
                (None, Some((costs(cost.into()), Arc::default())))
            }
            (None, _, _) => (None, None),
        };
        let (by, scores) = match next.filter(|_| obeyed) {
            Some((policy, mut next)) => {
                let pools = next.scores.pools.iter_mut();
                pools.for_each(|pool| pool.owner = place as u32);
                (Some(policy), Some((next.scores, next.discouraged)))
            }
            None => (by, scores),
        };
        let loaded = by.as_ref().or(versions.current.as_ref().map(|v| &v.policy));
        let name = loaded.map(|policy| policy.name().into());
        let (own, discouraged) = scores.clone().unwrap_or_default();
        let answer = Scores {
            cost: dearer(&own.cost, &discouraged),
            ..own
        };
        let (sum, alike) = ChainLink::alike(before, &answer);
        let link = ChainLink {
            place,
            name: name
                .or_else(|| versions.terms.name.clone())
                .unwrap_or_default(),
            failed: !by.as_ref().is_some_and(|by| versions.is_at_work(by)),
            instead: by.is_none().then_some(fallback),
            is_kept: kept && by.is_some(),
            alike: alike.filter(|_| by.is_some()),
            by,
            // Until it is joined with what was before it.
            cost: answer.cost.clone(),
            draws: rows_of(&answer.pools).into(),
            discouraged,
            sum,
        };
        (link, scores)
    }

    /// The columns of a catalogue: those made last if they were made of it.
    fn columns(&mut self, catalogue: &Catalogue, names: &Symbols) -> Arc<Columns> {
        let number = catalogue.number();
        if let Some(made) = &self.columns
            && made.catalogue == number
        {
            return made.columns.clone();
        }
        let last = self.columns.as_ref().map(|made| &*made.columns);
        let columns = Arc::new(Columns::build(catalogue, names, last));
        self.columns = Some(CachedColumns {
            columns: columns.clone(),
            catalogue: number,
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
