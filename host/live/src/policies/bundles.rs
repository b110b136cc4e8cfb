//! Policies from registries and layouts while the daemon runs.
//!
//! What is on this machine (kept, or in a folder) is read at once, as a file is. A registry is asked
//! on a thread of its own for each policy, and what it answers waits here for the next step: so a
//! registry that is slow, dead or wrong holds up no round and no other policy. What failed is tried
//! again, at first after half a minute, then after twice as long each time, ten minutes at most.
//!
//! What is asked for is verified before anything else looks at it ([`longshore_bundle`]): nothing of
//! a component is compiled before its signature holds. Another key has everything verified again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_bundle::{Cache, Error, Patience, Policy, Reference, Sources};

use super::files::Files;
use crate::config::{Config, Mode, PolicyEntry};
use crate::status::policies::Problem;

/// What a policy's reference leads to, by the policy's name.
pub struct Bundles {
    sources: Arc<Sources>,
    /// What the files with keys, authorities and credentials have.
    keys: Vec<Option<String>>,
    ways: Vec<Option<String>>,
    all: BTreeMap<String, Bundle>,
    first_retry: Duration,
    sender: Sender<Arrived>,
    arrived: Receiver<Arrived>,
}

/// How policies are fetched from registries.
#[derive(Clone, Debug)]
pub struct Fetching {
    /// Where they are kept, private to this user.
    pub cache: Option<PathBuf>,
    /// How long a registry is waited for.
    pub patience: Patience,
    /// How long a failure is left alone at first.
    pub retry: Duration,
}

impl Default for Fetching {
    fn default() -> Self {
        Fetching {
            cache: None,
            patience: Patience::default(),
            retry: Duration::from_secs(30),
        }
    }
}

/// How long a failure is left alone at most.
const LAST_RETRY: Duration = Duration::from_secs(600);

struct Bundle {
    reference: Reference,
    state: BundleState,
    /// When it is asked for.
    due: SystemTime,
    /// Failed fetches one after the other.
    failures: u32,
    /// The question that is under way; answers to those before it count for nothing.
    edition: u64,
    in_flight: bool,
}

enum BundleState {
    /// Wanted, and not fetched yet.
    Coming,
    /// Fetched, and verified by its digest and the demanded signature.
    Here {
        digest: String,
        signed_by: Option<String>,
        /// Until it is loaded; after that it is read again where it is kept.
        component: Option<Arc<Vec<u8>>>,
    },
    /// Not to be had, or not to be used.
    Refused(Problem),
}

struct Arrived {
    policy: String,
    edition: u64,
    result: Result<(Policy, Option<Error>), Error>,
}

/// What went wrong beside, with the name of the policy.
pub type Remarks = Vec<(String, String)>;

impl Bundles {
    pub fn new(fetching: &Fetching) -> Self {
        let (sender, arrived) = mpsc::channel();
        let sources = Sources {
            cache: fetching.cache.as_deref().map(Cache::new),
            patience: fetching.patience,
            ..Sources::default()
        };
        Bundles {
            sources: Arc::new(sources),
            keys: Vec::new(),
            ways: Vec::new(),
            all: BTreeMap::new(),
            first_retry: fetching.retry,
            sender,
            arrived,
        }
    }

    /// Takes in what a configuration wants: reads what is on this machine, and has the rest asked for
    /// at the next step.
    pub fn configure(&mut self, config: &Config, files: &Files, now: SystemTime) -> Remarks {
        let digests = |paths: Vec<&PathBuf>| -> Vec<Option<String>> {
            paths.into_iter().map(|path| files.digest(path)).collect()
        };
        let keys = digests(key_files(config).collect());
        let ways = digests(way_files(config).collect());
        let other_keys = self.keys != keys || self.sources.trust != config.trust;
        let other_ways = self.ways != ways || self.sources.registries != config.registries;
        if other_keys || other_ways {
            (self.keys, self.ways) = (keys, ways);
            self.sources = Arc::new(Sources {
                registries: config.registries.clone(),
                trust: config.trust.clone(),
                ..Sources::clone(&self.sources)
            });
        }
        let wanted = wanted(config).map(|(entry, reference)| (&entry.name, reference));
        let wanted: BTreeMap<&String, &Reference> = wanted.collect();
        let is_wanted = |name: &String, bundle: &mut Bundle| {
            wanted.get(name).is_some_and(|at| **at == bundle.reference)
        };
        self.all.retain(is_wanted);
        let mut remarks = Remarks::new();
        for (name, reference) in wanted {
            let again = |known: &Bundle| match known.state {
                BundleState::Here { .. } => other_keys,
                BundleState::Coming | BundleState::Refused(_) => other_keys || other_ways,
            };
            if self.all.get(name).is_some_and(|known| !again(known)) {
                continue;
            }
            let edition = self.all.get(name).map_or(0, |known| known.edition + 1);
            let mut bundle = Bundle {
                reference: reference.clone(),
                state: BundleState::Coming,
                due: UNIX_EPOCH,
                failures: 0,
                edition,
                in_flight: false,
            };
            match (self.sources.near(reference), reference) {
                (Ok(Some(policy)), _) => bundle.state = BundleState::of(policy),
                (Ok(None), _) => {}
                // The registry may have it whole.
                (Err(error), Reference::Oci(_)) => remarks.push((name.clone(), error.to_string())),
                (Err(error), Reference::Layout(_)) => self.refuse(&mut bundle, &error, now),
            }
            self.all.insert(name.clone(), bundle);
        }
        remarks
    }

    /// Takes in what has arrived and asks for what is due. True if something has arrived.
    pub fn step(&mut self, now: SystemTime) -> (bool, Remarks) {
        let (mut news, mut remarks) = (false, Remarks::new());
        let arrived: Vec<Arrived> = self.arrived.try_iter().collect();
        for Arrived {
            policy: name,
            edition,
            result,
        } in arrived
        {
            let known = self.all.remove(&name);
            let Some(mut bundle) = known else { continue };
            if bundle.edition == edition {
                news = true;
                bundle.in_flight = false;
                match result {
                    Ok((policy, note)) => {
                        bundle.failures = 0;
                        bundle.state = BundleState::of(policy);
                        remarks.extend(note.map(|note| (name.clone(), note.to_string())));
                    }
                    Err(error) => self.refuse(&mut bundle, &error, now),
                }
            }
            self.all.insert(name, bundle);
        }
        let is_due = |bundle: &Bundle| {
            // A clock that was set back does not make it wait for longer than it should.
            let due = bundle.due <= now || bundle.due > now + LAST_RETRY;
            due && !bundle.in_flight && !matches!(bundle.state, BundleState::Here { .. })
        };
        if !self.all.values().any(is_due) {
            return (news, remarks);
        }
        let all: Vec<Reference> = self.all.values().map(|one| one.reference.clone()).collect();
        for (name, bundle) in &mut self.all {
            if !is_due(bundle) {
                continue;
            }
            let (sources, sender) = (self.sources.clone(), self.sender.clone());
            let (policy, edition) = (name.clone(), bundle.edition);
            let (reference, all) = (bundle.reference.clone(), all.clone());
            let ask = move || {
                let result = sources.get(&reference);
                // Reading them is what keeps those in use when the cache makes room.
                for other in all.iter().filter(|other| **other != reference) {
                    let _ = sources.near(other);
                }
                // The receiver is gone once the daemon ends.
                let _ = sender.send(Arrived {
                    policy,
                    edition,
                    result,
                });
            };
            // Without a thread today there may be one at the next step.
            bundle.in_flight = std::thread::Builder::new()
                .name("bundle".into())
                .spawn(ask)
                .is_ok();
        }
        (news, remarks)
    }

    fn refuse(&self, bundle: &mut Bundle, error: &Error, now: SystemTime) {
        let doubled = self.first_retry * (1 << bundle.failures.min(10));
        let asked = error.after.map_or(Duration::ZERO, Duration::from_secs);
        bundle.due = now + doubled.max(asked).min(LAST_RETRY);
        bundle.failures += 1;
        bundle.state = BundleState::Refused(Problem {
            place: error.place.clone(),
            reason: format!("{}: {}", error.step, error.reason),
            hint: format!(
                "`longshore policy check --config FILE {}` tries it from where you are",
                bundle.reference
            ),
        });
    }

    /// Whether some were asked for and have neither come nor failed.
    pub fn awaited(&self) -> bool {
        let coming = |bundle: &Bundle| matches!(bundle.state, BundleState::Coming);
        self.all.values().any(coming)
    }

    /// Whether that is so for this policy.
    pub fn is_coming(&self, entry: &PolicyEntry) -> bool {
        let known = self.all.get(&entry.name);
        known.is_some_and(|bundle| matches!(bundle.state, BundleState::Coming))
    }

    /// SHA-256 of the component, in hex.
    pub fn digest(&self, entry: &PolicyEntry) -> Result<String, Problem> {
        match self.all.get(&entry.name).map(|bundle| &bundle.state) {
            Some(BundleState::Here { digest, .. }) => Ok(digest.clone()),
            Some(BundleState::Refused(problem)) => Err(problem.clone()),
            Some(BundleState::Coming) | None => Err(Problem {
                place: entry.source.to_string(),
                reason: "it is being fetched".into(),
                hint: String::new(),
            }),
        }
    }

    /// The key that signed what the policy's reference leads to, if one had to.
    pub fn signed_by(&self, entry: &PolicyEntry) -> Option<String> {
        match &self.all.get(&entry.name)?.state {
            BundleState::Here { signed_by, .. } => signed_by.clone(),
            BundleState::Coming | BundleState::Refused(_) => None,
        }
    }

    /// The component, if it is on this machine.
    pub fn component(&self, entry: &PolicyEntry) -> Option<Arc<Vec<u8>>> {
        let bundle = self.all.get(&entry.name)?;
        match &bundle.state {
            BundleState::Here {
                component: Some(component),
                ..
            } => Some(component.clone()),
            BundleState::Here { .. } => {
                let policy = self.sources.near(&bundle.reference).ok()??;
                Some(Arc::new(policy.component))
            }
            BundleState::Coming | BundleState::Refused(_) => None,
        }
    }

    /// Has the component at hand until [`Bundles::let_go`]. False if it has to be fetched again.
    pub fn recall(&mut self, entry: &PolicyEntry) -> bool {
        let found = self.component(entry);
        let Some(bundle) = self.all.get_mut(&entry.name) else {
            return false;
        };
        match (&mut bundle.state, found) {
            (BundleState::Here { component, .. }, Some(found)) => {
                *component = Some(found);
                true
            }
            (state, _) => {
                (*state, bundle.due) = (BundleState::Coming, UNIX_EPOCH);
                false
            }
        }
    }

    /// Lets go of components that are kept elsewhere.
    pub fn let_go(&mut self) {
        let keeps = self.sources.cache.is_some();
        for bundle in self.all.values_mut() {
            if let BundleState::Here { component, .. } = &mut bundle.state
                && (keeps || matches!(bundle.reference, Reference::Layout(_)))
            {
                *component = None;
            }
        }
    }
}

impl BundleState {
    fn of(policy: Policy) -> Self {
        BundleState::Here {
            digest: policy.component_digest.hex().to_owned(),
            signed_by: policy.signed_by,
            component: Some(Arc::new(policy.component)),
        }
    }
}

/// Policies that are neither off nor files.
fn wanted(config: &Config) -> impl Iterator<Item = (&PolicyEntry, &Reference)> {
    let on = config.policies.iter().filter(|p| p.mode != Mode::Off);
    on.filter_map(|entry| Some((entry, entry.source.reference()?)))
}

fn key_files(config: &Config) -> impl Iterator<Item = &PathBuf> {
    config.trust.iter().map(|trust| &trust.key_file)
}

fn way_files(config: &Config) -> impl Iterator<Item = &PathBuf> {
    let registries = config.registries.values();
    registries.flat_map(|registry| registry.auth_file.iter().chain(&registry.ca_file))
}

/// Files that say how policies are fetched and verified.
pub fn named(config: &Config) -> impl Iterator<Item = &PathBuf> {
    key_files(config).chain(way_files(config))
}

/// A sentence about each key whose signature is demanded of no policy: what it was meant for is not
/// verified.
pub fn unused_keys(config: &Config) -> Vec<String> {
    let covers = |trust: &longshore_bundle::TrustSettings| {
        wanted(config).any(|(_, reference)| trust.covers(&reference.name()))
    };
    let unused = config.trust.iter().filter(|trust| !covers(trust));
    unused
        .map(|trust| {
            format!(
                "the key {} is demanded of no policy: no `oci` or `oci-layout` is one of {}",
                trust.key_file.display(),
                trust.names.join(", ")
            )
        })
        .collect()
}
