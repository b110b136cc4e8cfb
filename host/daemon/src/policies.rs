//! Policies of offline commands: loaded from files, called while planning, inspected.

pub mod bench;
pub mod canaries;
pub mod check;
pub mod hand_over;
pub mod new;
pub mod prove;
pub mod run;
mod signals;
pub mod test;

use std::path::{Path, PathBuf};

use longshore_bundle::{Cache, Policy as Bundle, Reference, Sources};
use longshore_core::disrupt::consolidation::{Consolidation, DisruptionPolicies};
use longshore_core::model::{Catalogue, NodePool, OfferingId, Records, Symbol, Symbols};
use longshore_core::policy::{AlikeCosts, ByPrice, CostTerm, Policies, Scores};
use longshore_policy::golden::{self, Golden, GoldenError};
use longshore_policy::{
    Ability, Assignment, Host, HostConfig, LoadedPolicy, Signals, Terms, WasmPolicies,
};

use crate::options::ResolvedOptions;
use longshore_live::bootstrap::BootPolicy;
use longshore_live::config::{PolicyEntry, PolicySource, toml_of};
use longshore_live::error::Failure;
use longshore_live::policies::{grants, shipped, typed};

/// The policies of one run.
pub enum Scorers {
    /// No policy was named: offerings cost their list price.
    Price,
    /// Policies by NodePool, in their order; price for NodePools that none serves.
    Wasm(Box<WasmPolicies>),
}

/// Loads the policies that `options` name. A policy that is refused is a failure: nothing else was
/// asked for.
pub fn load(options: &ResolvedOptions) -> Result<Scorers, Failure> {
    let typed = &options.consolidation;
    if options.policies.is_empty() && typed.is_none() {
        return Ok(Scorers::Price);
    }
    let host = host()?;
    let mut assignments = Vec::new();
    for entry in typed.iter().chain(&options.policies) {
        let is_typed = typed
            .as_ref()
            .is_some_and(|typed| std::ptr::eq(typed, entry));
        let mut terms = entry.terms();
        if is_typed {
            // The flag is the grant.
            terms.grants = [Ability::Consolidation].into();
        }
        let policy = load_entry(&host, &options.sources, entry, &terms)?;
        if is_typed && !policy.is_consolidation() {
            return Err(other_kind(entry, &policy, "consolidation"));
        }
        // A policy of a configuration has a line there.
        if !is_typed && entry.line == 0 && !policy.is_scorer() {
            return Err(other_kind(entry, &policy, "scorer"));
        }
        asked_something(entry, &policy)?;
        golden_vectors(entry, &policy)?;
        assignments.push(Assignment {
            policy,
            node_pools: entry.nodepools.clone().unwrap_or_default(),
        });
    }
    let policies = host.policies(assignments);
    let mut signals = Signals::default();
    for (name, file) in &options.signals {
        signals.tables.insert(name.clone(), signals::read(file)?);
    }
    policies.set_signals(signals);
    Ok(Scorers::Wasm(Box::new(policies)))
}

/// Refuses a policy that would be asked nothing.
fn asked_something(entry: &PolicyEntry, policy: &LoadedPolicy) -> Result<(), Failure> {
    if policy.is_scorer() || policy.is_consolidation() || policy.is_bootstrap() {
        return Ok(());
    }
    let (reason, hint) = grants::not_granted(policy);
    Err(Failure::Usage {
        message: format!("policy {}: {reason}", entry.name),
        hint,
    })
}

/// Loads the policy of an entry on these terms, with the settings that are read already. What a
/// reference leads to is verified first.
pub(crate) fn load_entry(
    host: &Host,
    sources: &Sources,
    entry: &PolicyEntry,
    terms: &Terms,
) -> Result<LoadedPolicy, Failure> {
    let settings = toml_of(&entry.settings);
    let loaded = match &entry.source {
        PolicySource::File(path) => host.load_on(terms, path, Some(&settings)),
        PolicySource::Expression => {
            let name = Path::new(shipped::NAME);
            host.load_bytes(terms, name, shipped::CEL, Some(&settings))
        }
        PolicySource::Bundle(reference) => {
            let bundle = fetch(sources, reference)?;
            let name = reference.to_string();
            host.load_bytes(terms, name.as_ref(), &bundle.component, Some(&settings))
        }
    };
    loaded.map_err(|error| Failure::Policy(entry.name.clone(), error))
}

/// Refuses a component that does not answer as it says of itself; else how many of its vectors it meets.
pub(crate) fn golden_vectors(
    entry: &PolicyEntry,
    policy: &LoadedPolicy,
) -> Result<Option<usize>, Failure> {
    let PolicySource::File(path) = &entry.source else {
        return Ok(None);
    };
    match golden::check(policy, &test::read(path)?) {
        Ok(Golden::Met(count)) => Ok(Some(count)),
        Ok(Golden::Missing | Golden::NotAsked) => Ok(None),
        Err(error) => {
            let refused = format!("policy {} is refused: {}", entry.name, entry.source);
            Err(unmet(&refused, &error))
        }
    }
}

/// A component that does not answer as it says of itself.
fn unmet(refused: &str, error: &GoldenError) -> Failure {
    Failure::Usage {
        message: format!("{refused}: {error}"),
        hint: "build it again; `longshore policy test --record` writes what it answers".into(),
    }
}

/// Loads the policy that `--bootstrap` names.
pub(crate) fn load_bootstrap(entry: &PolicyEntry) -> Result<BootPolicy, Failure> {
    // The flag is the grant.
    let terms = Terms {
        grants: [Ability::Bootstrap].into(),
        ..entry.terms()
    };
    let host = host()?;
    let policy = load_entry(&host, &Sources::default(), entry, &terms)?;
    BootPolicy::new(policy).map_err(|problem| Failure::Usage {
        message: format!("--bootstrap {}: {problem}", entry.source),
        hint: "give a policy that says what nodes boot with, such as bootstrap-template.wasm"
            .to_owned(),
    })
}

/// What a reference leads to: kept, in a folder, or in a registry.
fn fetch(sources: &Sources, reference: &Reference) -> Result<Bundle, Failure> {
    let sources = Sources {
        cache: bundle_folder(None).as_deref().map(Cache::new),
        ..sources.clone()
    };
    let (bundle, note) = sources.get(reference).map_err(|error| Failure::Usage {
        message: format!("cannot fetch {reference}: {error}"),
        hint: match sources.registries.is_empty() && sources.trust.is_empty() {
            true => {
                "if it needs credentials or a key: `[registries]` and `[[trust]]` of --config FILE"
            }
            false => "",
        }
        .into(),
    })?;
    if let Some(note) = note {
        eprintln!("{note}");
    }
    Ok(bundle)
}

/// The policy that a command inspects: a component with settings, or an expression.
fn inspected(
    file: &Option<PathBuf>,
    settings: &Option<PathBuf>,
    cel: &Option<String>,
) -> Result<PolicyEntry, Failure> {
    if let Some(text) = cel {
        return typed::expression(text);
    }
    let file = file.as_deref().unwrap_or(Path::new(""));
    let mut entry = typed::component(&file.to_string_lossy())?;
    if let Some(file) = settings {
        entry.settings = typed::settings_of(file)?;
    }
    Ok(entry)
}

/// Terms of commands that inspect: it may be asked all that it exports.
fn all_that_it_exports(entry: &PolicyEntry) -> Terms {
    Terms {
        signals: entry.signals.clone(),
        ..Terms::everything()
    }
}

/// A policy that does not do what its flag asks for.
fn other_kind(entry: &PolicyEntry, policy: &LoadedPolicy, wanted: &str) -> Failure {
    let flags = [
        ("scorer", "--scorer"),
        ("consolidation", "--consolidation"),
        ("bootstrap", "--bootstrap of the commands that have it"),
    ];
    let exported = &policy.about().implements;
    let other = flags
        .iter()
        .find(|(name, _)| exported.iter().any(|exported| exported == name));
    let hint = match other {
        Some((_, flag)) => format!("give it with {flag}, or name another component"),
        None => "name another component".to_owned(),
    };
    let implements = policy.about().implements.join(", ");
    Failure::Usage {
        message: format!(
            "{} exports no `{wanted}`: it implements {implements}",
            entry.source
        ),
        hint,
    }
}

/// Where a container has its cache: a volume that the charts mount.
const CACHE_VOLUME: &str = "/var/lib/longshore/cache";
/// In a folder for caches: these are closed to other users, the volume's own cannot be.
const COMPILED: &str = "compiled";
const BUNDLES: &str = "bundles";
/// A component of this size compiles in a tenth of a second.
const QUICKLY_COMPILED: u64 = 256 << 10;

/// The folder of compiled policies: as configured, else that of the container, else the user's.
pub(crate) fn cache_folder(configured: Option<&Path>) -> Option<PathBuf> {
    Some(cache(configured)?.join(COMPILED))
}

/// The folder of policies from registries, beside it.
pub(crate) fn bundle_folder(configured: Option<&Path>) -> Option<PathBuf> {
    Some(cache(configured)?.join(BUNDLES))
}

fn cache(configured: Option<&Path>) -> Option<PathBuf> {
    let set = |name: &str| {
        let set = std::env::var_os(name).filter(|set| !set.is_empty());
        set.map(PathBuf::from)
    };
    let volume = || Some(PathBuf::from(CACHE_VOLUME)).filter(|volume| volume.is_dir());
    let own = || {
        let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(folder.join("longshore"))
    };
    configured.map(Path::to_owned).or_else(volume).or_else(own)
}

/// Runs policies for a command that ends: what was compiled is kept for the next one.
pub(crate) fn host() -> Result<Host, Failure> {
    host_that(None)
}

/// As [`host`], and says when it compiles for seconds.
pub(crate) fn host_that_says_so() -> Result<Host, Failure> {
    host_that(Some(|file| {
        let is_large = std::fs::metadata(file).is_ok_and(|is| is.len() > QUICKLY_COMPILED);
        if is_large {
            eprintln!(
                "compiling {}, which may take half a minute; the next time it is kept",
                file.display()
            );
        }
    }))
}

/// Prints what happened beside the answer.
fn print_remarks(host: &Host) {
    for remark in host.take_remarks() {
        eprintln!("{remark}");
    }
}

fn host_that(on_compile: Option<fn(&Path)>) -> Result<Host, Failure> {
    let config = HostConfig {
        cache: cache_folder(None),
        on_compile,
        ..HostConfig::default()
    };
    Host::new(config).map_err(|error| Failure::Usage {
        message: error.to_string(),
        hint: "plan without policies on this machine".into(),
    })
}

impl Scorers {
    /// Begins a round at `now`, seconds since 1970.
    pub fn begin(&self, now: i64) {
        if let Scorers::Wasm(policies) = self {
            policies.begin_round(now);
        }
    }

    /// What they had to say since last asked: failures, fall-backs, messages.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Scorers::Price => Vec::new(),
            Scorers::Wasm(policies) => policies.reports().iter().map(ToString::to_string).collect(),
        }
    }
}

impl Policies for Scorers {
    fn node_pools(&self, pools: &Records<NodePool>, names: &Symbols) {
        if let Scorers::Wasm(policies) = self {
            policies.node_pools(pools, names);
        }
    }

    fn score(&self, catalogue: &Catalogue, names: &Symbols, pool: Symbol) -> Scores {
        match self {
            Scorers::Price => ByPrice.score(catalogue, names, pool),
            Scorers::Wasm(policies) => policies.score(catalogue, names, pool),
        }
    }

    fn alike(&self) -> Vec<AlikeCosts> {
        match self {
            Scorers::Price => Vec::new(),
            Scorers::Wasm(policies) => policies.alike(),
        }
    }

    fn terms(&self, node_pool: &str, offering: OfferingId) -> Vec<CostTerm> {
        match self {
            Scorers::Price => Vec::new(),
            Scorers::Wasm(policies) => policies.terms(node_pool, offering),
        }
    }
}

impl DisruptionPolicies for Scorers {
    fn consolidation(&self) -> Option<&dyn Consolidation> {
        match self {
            Scorers::Price => None,
            Scorers::Wasm(policies) => policies.consolidation(),
        }
    }
}
