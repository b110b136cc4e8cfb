//! Recorded policies: each version that answered in a round answers again. With another scorer,
//! that one answers for all.

mod judged;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use longshore_bundle::Sources;
use longshore_core::disrupt::consolidation::{Consolidation, DisruptionPolicies};
use longshore_core::model::{Catalogue, NodePool, Records, Symbol, Symbols};
use longshore_core::policy::{ByPrice, Policies, PolicyCosts, Scores};
use longshore_policy::{
    Assignment, Host, HostConfig, Signals, WasmPolicies, chained, discouraged_by_cost,
    without_answer,
};

use super::fold::BlobStore;
use crate::policies::load_entry;
use judged::Judged;
use longshore_journal::messages::short;
use longshore_journal::read_costs;
use longshore_journal::round::{Answer, Round, Version};
use longshore_live::config::toml_of;
use longshore_live::error::Failure;
use longshore_live::policies::typed::scorer;

/// A host as the daemon has it.
fn host() -> Result<Host, Failure> {
    Host::new(HostConfig {
        one_thread: true,
        ..HostConfig::default()
    })
    .map_err(|error| Failure::Usage {
        message: error.to_string(),
        hint: "WebAssembly needs memory that may be executed".into(),
    })
}

/// Versions of policies, loaded once.
#[derive(Default)]
pub struct RecordedPolicies {
    host: Option<Host>,
    versions: Vec<(Version, Result<WasmPolicies, String>)>,
}

impl RecordedPolicies {
    /// The policies that answered in a round, ready to answer again.
    pub fn round<'a>(
        &'a mut self,
        round: &'a Round,
        blobs: &BlobStore,
        signals: &Arc<Signals>,
    ) -> RecordedAnswers<'a> {
        for version in &round.versions {
            // One that was missing may be there in another segment.
            let known = self.versions.iter().position(|(known, _)| known == version);
            let loaded = known.is_some_and(|at| self.versions[at].1.is_ok());
            if !loaded {
                let made = self.load(version, blobs);
                match known {
                    Some(at) => self.versions[at].1 = made,
                    None => self.versions.push((version.clone(), made)),
                }
            }
        }
        let mut again = RecordedAnswers {
            versions: Vec::new(),
            of: &round.versions,
            answers: RefCell::new(round.answers.iter().collect()),
            all: &round.answers,
            costs: BTreeMap::new(),
            judged: Judged::new(round, blobs),
            reasons: RefCell::default(),
        };
        for digest in round.answers.iter().filter_map(|one| one.instead.as_ref()) {
            let bytes = blobs.get(digest);
            let bytes =
                bytes.ok_or_else(|| "an answer of a policy that failed is missing".to_owned());
            match bytes.and_then(read_costs) {
                Ok(costs) => _ = again.costs.insert(digest.as_str(), costs.into()),
                Err(why) => again.note(why),
            }
        }
        for version in &round.versions {
            let mut known = self.versions.iter();
            let loaded = known.find(|(known, _)| known == version);
            let policies = match loaded.map(|(_, loaded)| loaded) {
                Some(Ok(policies)) => {
                    policies.share_signals(signals.clone());
                    policies.begin_round(round.now);
                    Some(policies)
                }
                Some(Err(why)) => {
                    again.note(why.clone());
                    None
                }
                None => None,
            };
            again.versions.push(policies);
        }
        again
    }

    fn load(&mut self, version: &Version, blobs: &BlobStore) -> Result<WasmPolicies, String> {
        let called = format!(
            "policy {} (sha256:{})",
            version.name,
            short(&version.digest)
        );
        let bytes = blobs
            .get(&version.digest)
            .ok_or_else(|| format!("{called} is not in the journal"))?;
        let failed = |why: String| format!("{called} cannot be loaded: {why}");
        let host = match &self.host {
            Some(host) => host,
            None => self
                .host
                .insert(host().map_err(|failure| failed(failure.report()))?),
        };
        let settings =
            serde_json::from_str(&version.settings).map_err(|error| failed(error.to_string()))?;
        let loaded = host.load_bytes(
            &version.terms.meant(),
            Path::new(&version.name),
            bytes,
            Some(&toml_of(&settings)),
        );
        let policy = loaded
            .map_err(|error| failed(Failure::Policy(version.name.clone(), error).report()))?;
        Ok(host.policies(vec![Assignment {
            policy,
            node_pools: Vec::new(),
        }]))
    }
}

/// Answers as they were given in a round.
pub struct RecordedAnswers<'a> {
    versions: Vec<Option<&'a WasmPolicies>>,
    of: &'a [Version],
    /// What is still to be asked, in order.
    answers: RefCell<VecDeque<&'a Answer>>,
    all: &'a [Answer],
    /// Costs that counted where no version answered, by digest.
    costs: BTreeMap<&'a str, Arc<[f64]>>,
    /// What consolidation policies were asked, if they were.
    judged: Option<Judged<'a>>,
    reasons: RefCell<Vec<String>>,
}

impl RecordedAnswers<'_> {
    /// Why answers may not be those that were given.
    pub fn reasons(&self) -> Vec<String> {
        for (policies, version) in self.versions.iter().zip(self.of) {
            let name = &version.name;
            for report in policies.iter().flat_map(|policies| policies.reports()) {
                if matches!(report, longshore_policy::Report::Failed { .. }) {
                    self.note(format!("policy {name}: {report}"));
                }
            }
        }
        self.reasons.take()
    }

    fn note(&self, why: String) {
        let mut reasons = self.reasons.borrow_mut();
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }

    /// The answers that were given at this point, one for each policy of the chain: the next ones, or if
    /// they are about another NodePool, any about this.
    fn chain(&self, pool: &str) -> Vec<&Answer> {
        let mut left = self.answers.borrow_mut();
        let mut next: Vec<&Answer> = left.pop_front().into_iter().collect();
        while let Some(answer) = left.pop_front_if(|answer| answer.follows) {
            next.push(answer);
        }
        drop(left);
        if next.first().is_some_and(|answer| answer.node_pool == pool) {
            return next;
        }
        self.note(format!("NodePool {pool} was not asked about at this point"));
        let first = |answer: &Answer| answer.node_pool == pool && !answer.follows;
        let Some(at) = self.all.iter().rposition(first) else {
            return Vec::new();
        };
        let follows = self.all[at + 1..].iter().take_while(|next| next.follows);
        std::iter::once(&self.all[at]).chain(follows).collect()
    }

    /// What one of them answers after `before`.
    fn link(
        &self,
        answer: &Answer,
        (catalogue, names, pool): (&Catalogue, &Symbols, Symbol),
        before: Scores,
    ) -> Scores {
        let costs = answer.instead.as_ref();
        let costs = costs.and_then(|digest| self.costs.get(digest.as_str()));
        if let Some(costs) = costs.filter(|costs| costs.len() == catalogue.offerings().len()) {
            let policy = answer.policy.as_deref().unwrap_or("of that round");
            let instead = Scores {
                policies: vec![PolicyCosts {
                    policy: without_answer(policy),
                    cost: costs.clone(),
                    discouraged: discouraged_by_cost(&before.cost, costs),
                }],
                cost: costs.clone(),
                pools: Vec::new(),
            };
            return chained(before, instead);
        }
        let version = answer
            .version
            .and_then(|at| Some(((*self.versions.get(at)?)?, self.of.get(at)?)));
        let Some((policies, version)) = version else {
            return before;
        };
        let known = before.pools.len();
        let mut scores = policies.score_after(catalogue, names, pool, before);
        let called = &version.name;
        // Here each version is the only policy.
        let own = scores.pools.iter_mut().skip(known);
        own.for_each(|pool| pool.owner = version.place as u32);
        let given = policies.answered().pop();
        let given = given.and_then(|given| given.links.into_iter().next());
        if !given.is_some_and(|given| given.by.is_some() && given.sum == answer.sum) {
            let name = names.text(pool);
            self.note(format!(
                "policy {called} does not answer for NodePool {name} as it did"
            ));
        }
        scores
    }
}

impl Policies for RecordedAnswers<'_> {
    fn node_pools(&self, pools: &Records<NodePool>, names: &Symbols) {
        let versions = self.versions.iter().flatten();
        versions.for_each(|version| version.node_pools(pools, names));
    }

    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        let price = ByPrice.score(catalogue, names, pool);
        let chain = self.chain(names.text(pool)).into_iter();
        chain.fold(price, |before, answer| {
            self.link(answer, (catalogue, names, pool), before)
        })
    }
}

impl DisruptionPolicies for RecordedAnswers<'_> {
    fn consolidation(&self) -> Option<&dyn Consolidation> {
        self.judged.is_some().then_some(self as &dyn Consolidation)
    }
}

/// Another scorer, for all NodePools.
pub struct Scorer {
    name: String,
    policies: WasmPolicies,
    notes: RefCell<Vec<String>>,
}

impl Scorer {
    /// Loads `FILE.wasm[,SETTINGS.toml]`; `price` is no component: offerings cost their price.
    pub fn load(typed: &str) -> Result<Self, Failure> {
        if typed == "price" {
            return Ok(Scorer {
                name: typed.to_owned(),
                policies: host()?.policies(Vec::new()),
                notes: RefCell::default(),
            });
        }
        let entry = scorer(typed)?;
        let host = host()?;
        let policy = load_entry(&host, &Sources::default(), &entry, &entry.terms())?;
        let name = format!("{} (sha256:{})", policy.called(), short(policy.digest()));
        let policies = host.policies(vec![Assignment {
            policy,
            node_pools: Vec::new(),
        }]);
        Ok(Scorer {
            name,
            policies,
            notes: RefCell::default(),
        })
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn begin(&self, now: i64, signals: &Arc<Signals>) {
        self.policies.share_signals(signals.clone());
        self.policies.begin_round(now);
    }

    /// The recorded answers, as the policies of a plan.
    pub fn policies(&self) -> &dyn Policies {
        self
    }

    /// What it had to say: failures and messages.
    pub fn notes(&self) -> Vec<String> {
        self.notes.take()
    }
}

/// Most notes that are kept.
const MAX_NOTES: usize = 20;

impl Policies for Scorer {
    fn node_pools(&self, pools: &Records<NodePool>, names: &Symbols) {
        self.policies.node_pools(pools, names);
    }

    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        let scores = self.policies.score(catalogue, names, pool);
        let mut notes = self.notes.borrow_mut();
        for report in self.policies.reports() {
            let note = report.to_string();
            if notes.len() < MAX_NOTES && !notes.contains(&note) {
                notes.push(note);
            }
        }
        scores
    }
}
