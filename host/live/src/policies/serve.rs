//! The policies of one round: enforced ones, shadows, and the configuration that names them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use longshore_core::disrupt::Proposal;
use longshore_core::disrupt::consolidation::{
    Consolidation, Decision, DisruptionPolicies, Facts, Weight,
};
use longshore_core::model::{Catalogue, NodePool, OfferingId, Records, Symbol, Symbols};
use longshore_core::policy::{AlikeCosts, CostTerm, Policies, Scores};
use longshore_policy::{
    Ability, ConsolidationRequest, JudgeRecord, LoadedPolicy, OnFailure, ScoreRecord, ScoreRequest,
    Signals, WasmPolicies,
};

use super::next_version::CanarySlot;
use crate::config::{Config, Disruption, Mode, Planning, PolicyEntry};
use crate::process::lock::lock;

/// A state of everything that rounds ask. Answers the planner; immutable, and replaced as a whole.
pub struct ActivePolicies {
    pub(super) config: Arc<Config>,
    /// Names of the enforced policies, by position.
    pub(super) names: Vec<String>,
    pub(super) wasm: WasmPolicies,
    pub(super) shadows: Vec<Shadow>,
    pub(super) shadow_judges: Vec<Arc<ShadowJudge>>,
    /// Enforced policies that say what nodes boot with, loaded or not, in the order of the configuration.
    pub(super) boots: Arc<[BootSlot]>,
    /// Next versions of the enforced policies.
    pub(super) canaries: Arc<[CanarySlot]>,
    /// What was asked about consolidation; kept only if there are shadows of such policies.
    judged: Mutex<Vec<Judged>>,
}

/// A question of a look for disruption, and which proposals were let go.
pub(super) struct Judged {
    pub request: ConsolidationRequest,
    pub goes: Vec<bool>,
}

/// An enforced bootstrap policy.
#[derive(Clone)]
pub struct BootSlot {
    /// Its name in the configuration.
    pub name: String,
    /// None for one that could not be loaded.
    pub policy: Option<LoadedPolicy>,
    /// Its next version, with what NodeClaims are marked with whose nodes boot with it.
    pub next: Option<(String, LoadedPolicy)>,
    /// NodePools that it is for; `None` for all.
    pub nodepools: Option<Vec<String>>,
    /// What counts where no version answers.
    pub on_failure: OnFailure,
}

impl BootSlot {
    /// A policy of the configuration, if it says what nodes boot with, or may say it once it is loaded.
    pub(super) fn of(entry: &PolicyEntry, policy: Option<LoadedPolicy>) -> Option<Self> {
        let terms = entry.terms();
        let is_one = match &policy {
            Some(policy) => policy.is_bootstrap(),
            None => terms.grants.contains(&Ability::Bootstrap),
        };
        is_one.then(|| BootSlot {
            name: entry.name.clone(),
            policy,
            next: None,
            nodepools: entry.nodepools.clone(),
            on_failure: terms.on_failure,
        })
    }

    /// Whether it is for a NodePool.
    pub fn serves(&self, node_pool: &str) -> bool {
        let names = self.nodepools.as_ref();
        names.is_none_or(|names| names.iter().any(|name| name == node_pool))
    }
}

/// A shadow policy.
pub(super) struct Shadow {
    pub name: String,
    pub policy: LoadedPolicy,
    pub nodepools: Option<Vec<String>>,
    /// How many enforced policies are before it in the configuration: it is asked with the costs that
    /// these make.
    pub after: usize,
    /// All policies as if it were enforced, to plan with.
    pub with: Option<Arc<WasmPolicies>>,
}

impl ActivePolicies {
    pub(super) fn new(
        config: Arc<Config>,
        names: Vec<String>,
        wasm: WasmPolicies,
        shadows: Vec<Shadow>,
    ) -> Self {
        ActivePolicies {
            config,
            names,
            wasm,
            shadows,
            shadow_judges: Vec::new(),
            boots: Arc::default(),
            canaries: Arc::default(),
            judged: Mutex::default(),
        }
    }

    /// The same policies with their own instances, for questions outside of rounds and without
    /// shadows.
    pub fn apart(&self) -> ActivePolicies {
        ActivePolicies::new(
            self.config.clone(),
            self.names.clone(),
            self.wasm.apart(),
            Vec::new(),
        )
    }

    /// As [`ActivePolicies::apart`], but what consolidation policies do is reported and counted, and
    /// kept for their shadows: for a look that disrupts.
    pub fn apart_to_disrupt(&self) -> ActivePolicies {
        let mut live = ActivePolicies::new(
            self.config.clone(),
            self.names.clone(),
            self.wasm.apart_to_disrupt(),
            Vec::new(),
        );
        live.shadow_judges.clone_from(&self.shadow_judges);
        live.canaries.clone_from(&self.canaries);
        live
    }

    /// Begins a round at `now`, seconds since 1970.
    pub fn begin_round(&self, now: i64) {
        self.wasm.begin_round(now);
    }

    /// `[planning]` of the configuration in force.
    pub fn planning(&self) -> &Planning {
        &self.config.planning
    }

    /// `[disruption]` of the configuration in force.
    pub fn disruption(&self) -> &Disruption {
        &self.config.disruption
    }

    /// Who answered what in this round, in order.
    pub fn answered(&self) -> Vec<ScoreRecord> {
        self.wasm.answered()
    }

    /// Enforced policies that gave no answer in this round, so that another version or the price
    /// did, by their names in the configuration.
    pub fn failed(&self) -> Vec<String> {
        let answers = self.wasm.answered();
        let links = answers.iter().flat_map(|one| &one.links);
        let failed = links.filter(|link| link.failed).map(|link| link.place);
        let places: BTreeSet<usize> = failed.collect();
        let name = |place: usize| self.names.get(place).cloned();
        places.into_iter().filter_map(name).collect()
    }

    /// Begins to keep what consolidation policies answer, for the record of a look.
    pub fn keep_judge_records(&self) {
        self.wasm.keep_judge_records();
    }

    /// What they answered since, in the order of the questions.
    pub fn take_judge_records(&self) -> Vec<JudgeRecord> {
        self.wasm.take_judge_records()
    }

    /// The signals that policies see.
    pub fn signals(&self) -> Arc<Signals> {
        self.wasm.signals()
    }

    /// What was asked in this round, a question for each NodePool.
    pub(super) fn asked(&self) -> Vec<ScoreRequest> {
        self.wasm.asked()
    }

    /// What the last round asked, as a policy would be asked that comes right after these.
    pub(super) fn asked_after(&self, is_before: impl Fn(&str) -> bool) -> Vec<ScoreRequest> {
        let answers = self.wasm.last_answers();
        let is_before = |place: usize| self.names.get(place).is_some_and(|name| is_before(name));
        let of_pool = |question: &ScoreRequest| {
            let mut answers = answers.iter();
            answers.find(|one| &*one.node_pool == question.node_pool())
        };
        let asked = self.asked().into_iter();
        let asked = asked.map(|question| match of_pool(&question) {
            Some(answer) => question.with_costs(answer.cost_after(is_before)),
            None => question,
        });
        asked.collect()
    }

    /// What was asked about consolidation since last taken.
    pub(super) fn take_judged(&self) -> Vec<Judged> {
        std::mem::take(&mut lock(&self.judged))
    }

    pub(super) fn share_signals(&self, signals: Arc<Signals>) {
        let judges = self.shadow_judges.iter();
        judges.for_each(|judge| judge.wasm.share_signals(signals.clone()));
        self.wasm.share_signals(signals);
    }
}

impl Policies for ActivePolicies {
    fn node_pools(&self, pools: &Records<NodePool>, names: &Symbols) {
        self.wasm.node_pools(pools, names);
    }

    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        self.wasm.score(catalogue, names, pool)
    }

    fn alike(&self) -> Vec<AlikeCosts> {
        self.wasm.alike()
    }

    fn terms(&self, node_pool: &str, offering: OfferingId) -> Vec<CostTerm> {
        self.wasm.terms(node_pool, offering)
    }
}

impl DisruptionPolicies for ActivePolicies {
    fn consolidation(&self) -> Option<&dyn Consolidation> {
        let asked = self.wasm.consolidation().is_some() || !self.shadow_judges.is_empty();
        asked.then_some(self as &dyn Consolidation)
    }
}

/// Shadows are asked later, on a thread of their own.
impl Consolidation for ActivePolicies {
    fn weigh(&self, facts: &Facts<'_>) -> Vec<Weight> {
        let request = self.wasm.consolidation_request(facts, &[]);
        let weights = self.wasm.weights(&request);
        self.keep(request, Vec::new());
        weights
    }

    fn decide(&self, facts: &Facts<'_>, proposals: &[Proposal]) -> Vec<Decision> {
        let request = self.wasm.consolidation_request(facts, proposals);
        let decisions = self.wasm.decisions(&request);
        let now = request.now();
        let goes = decisions.iter().map(|of| of.keeps(now).is_none());
        self.keep(request, goes.collect());
        decisions
    }
}

impl ActivePolicies {
    fn keep(&self, request: ConsolidationRequest, goes: Vec<bool>) {
        if !self.shadow_judges.is_empty() {
            lock(&self.judged).push(Judged { request, goes });
        }
    }
}

/// A consolidation policy that is asked and never obeyed.
pub(super) struct ShadowJudge {
    pub name: String,
    pub wasm: WasmPolicies,
}

impl Shadow {
    /// A policy of the configuration, if it is one that scores and only compared.
    pub fn of(entry: &PolicyEntry, policy: &LoadedPolicy, after: usize) -> Option<Self> {
        let is_one = entry.mode == Mode::Shadow && policy.is_scorer();
        is_one.then(|| Shadow {
            name: entry.name.clone(),
            policy: policy.clone(),
            nodepools: entry.nodepools.clone(),
            after,
            with: None,
        })
    }

    pub fn serves(&self, node_pool: &str) -> bool {
        self.nodepools
            .as_ref()
            .is_none_or(|names| names.is_empty() || names.iter().any(|name| name == node_pool))
    }
}
