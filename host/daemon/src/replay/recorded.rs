//! Recorded policies: each version that answered in a round answers again. With another scorer,
//! that one answers for all.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use longshore_core::disrupt::consolidation::DisruptionPolicies;
use longshore_core::model::{Catalogue, Symbol, Symbols};
use longshore_core::policy::{ByPrice, Policies, Scores};
use longshore_policy::{Assignment, Host, HostConfig, Signals, Terms, WasmPolicies};

use super::fold::BlobStore;
use crate::error::Failure;
use crate::live::journal::messages::short;
use crate::live::journal::round::{Answer, Round, Version};
use crate::options;
use crate::policies::toml_of;

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

/// Versions of policies by place, digest and settings, loaded once.
#[derive(Default)]
pub struct RecordedPolicies {
    host: Option<Host>,
    versions: BTreeMap<(usize, String, String), Result<WasmPolicies, String>>,
}

impl RecordedPolicies {
    /// The policies that answered in a round, ready to answer again.
    pub fn round<'a>(
        &'a mut self,
        round: &'a Round,
        blobs: &BlobStore,
        signals: &Arc<Signals>,
    ) -> RecordedAnswers<'a> {
        let key = |version: &Version| {
            (
                version.place,
                version.digest.clone(),
                version.settings.clone(),
            )
        };
        for version in &round.versions {
            // One that was missing may be there in another segment.
            let missing = self.versions.get(&key(version)).is_none_or(Result::is_err);
            if missing {
                let loaded = self.load(version, blobs);
                self.versions.insert(key(version), loaded);
            }
        }
        let mut again = RecordedAnswers {
            versions: Vec::new(),
            names: round
                .versions
                .iter()
                .map(|version| version.name.as_str())
                .collect(),
            answers: RefCell::new(round.answers.iter().collect()),
            all: &round.answers,
            reasons: RefCell::default(),
        };
        for version in &round.versions {
            let policies = match self.versions.get(&key(version)) {
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
            &Terms::everything(),
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
    names: Vec<&'a str>,
    /// What is still to be asked, in order.
    answers: RefCell<VecDeque<&'a Answer>>,
    all: &'a [Answer],
    reasons: RefCell<Vec<String>>,
}

impl RecordedAnswers<'_> {
    /// Why answers may not be those that were given.
    pub fn reasons(&self) -> Vec<String> {
        for (policies, name) in self.versions.iter().zip(&self.names) {
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

    /// The answer that was given at this point: the next one, or if that is about another NodePool,
    /// any about this.
    fn answer(&self, pool: &str) -> Option<&Answer> {
        let next = self.answers.borrow_mut().pop_front();
        if let Some(next) = next.filter(|answer| answer.node_pool == pool) {
            return Some(next);
        }
        self.note(format!("NodePool {pool} was not asked about at this point"));
        self.all.iter().rfind(|answer| answer.node_pool == pool)
    }
}

impl Policies for RecordedAnswers<'_> {
    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        let name = names.text(pool);
        let Some(answer) = self.answer(name) else {
            return ByPrice.score(catalogue, names, pool);
        };
        let version = answer
            .version
            .and_then(|at| Some(((*self.versions.get(at)?)?, *self.names.get(at)?)));
        let Some((policies, called)) = version else {
            return ByPrice.score(catalogue, names, pool);
        };
        let scores = policies.score(catalogue, names, pool);
        let same = policies
            .answered()
            .last()
            .is_some_and(|given| given.by.is_some() && given.sum == answer.sum);
        if !same {
            self.note(format!(
                "policy {called} does not answer for NodePool {name} as it did"
            ));
        }
        scores
    }
}

/// The rules of NodePools had the last word: looks that a consolidation policy judged are passed over.
impl DisruptionPolicies for RecordedAnswers<'_> {}

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
        let entry = options::scorer(typed)?;
        let host = host()?;
        let loaded = host.load_on(&entry.terms(), &entry.path, Some(&toml_of(&entry.settings)));
        let policy = loaded.map_err(|error| Failure::Policy(entry.name.clone(), error))?;
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

    /// Who answers.
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
