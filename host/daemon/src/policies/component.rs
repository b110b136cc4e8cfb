//! The component of an entry: read once, then inspected, loaded and held against its golden vectors.

use std::path::Path;

use longshore_bundle::{Cache, Policy as Bundle, Reference, Sources};
use longshore_policy::golden::{self, Golden, GoldenError};
use longshore_policy::{Host, LoadedPolicy, Terms, read_component};

use super::{bundle_folder, shipped};
use longshore_live::config::{PolicyEntry, PolicySource, toml_of};
use longshore_live::error::Failure;

/// A component's bytes, with where they come from.
pub(crate) struct Component {
    /// What messages call it.
    name: String,
    origin: Origin,
}

enum Origin {
    File(Vec<u8>),
    /// The component in the binary, which computes expressions.
    Binary,
    Bundle(Bundle),
}

impl Component {
    /// What an entry leads to. A bundle is verified.
    pub fn of(sources: &Sources, entry: &PolicyEntry) -> Result<Self, Failure> {
        let name = entry.source.to_string();
        let (name, origin) = match &entry.source {
            PolicySource::File(path) => {
                let bytes = read_component(path);
                let bytes = bytes.map_err(|error| Failure::Policy(entry.name.clone(), error))?;
                (path.display().to_string(), Origin::File(bytes))
            }
            PolicySource::Expression => (shipped::NAME.to_owned(), Origin::Binary),
            PolicySource::Bundle(reference) => (name, Origin::Bundle(fetch(sources, reference)?)),
        };
        Ok(Component { name, origin })
    }

    pub fn path(&self) -> &Path {
        Path::new(&self.name)
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.origin {
            Origin::File(bytes) => bytes,
            Origin::Binary => shipped::CEL,
            Origin::Bundle(bundle) => &bundle.component,
        }
    }

    /// The bundle that it came in, with what was verified.
    pub fn bundle(&self) -> Option<&Bundle> {
        match &self.origin {
            Origin::Bundle(bundle) => Some(bundle),
            Origin::File(_) | Origin::Binary => None,
        }
    }

    /// Loads it on these terms, with the settings that the entry has.
    pub fn load(
        &self,
        host: &Host,
        entry: &PolicyEntry,
        terms: &Terms,
    ) -> Result<LoadedPolicy, Failure> {
        let settings = toml_of(&entry.settings);
        host.load_bytes(terms, self.path(), self.bytes(), Some(&settings))
            .map_err(|error| Failure::Policy(entry.name.clone(), error))
    }

    /// Whether the policy answers as its component says of itself: a refusal if not. The component in
    /// the binary was tested with it and is not asked.
    pub fn golden_vectors(&self, policy: &LoadedPolicy, refused: &str) -> Result<Golden, Failure> {
        if matches!(self.origin, Origin::Binary) {
            return Ok(Golden::NotAsked);
        }
        golden::check(policy, self.bytes()).map_err(|error| unmet(refused, &error))
    }
}

/// A component that does not answer as it says of itself.
fn unmet(refused: &str, error: &GoldenError) -> Failure {
    Failure::Usage {
        message: format!("{refused}: {error}"),
        hint: "build it again; `longshore policy test --record` writes what it answers".into(),
    }
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
