//! NodeOverlays: the catalogue that is planned on with them, and what the status of each says.
//!
//! The catalogue is made anew when an overlay, a NodePool's name or labels, or what the cloud offers
//! is another one, and not in each round. An overlay that is wrong, or in conflict with another, is
//! reported and changes nothing; the others count.
//!
//! The catalogue names NodePools and resources, which no catalogue of a cloud does. The state keeps
//! these names ([`OverlaySet::names_used`]), so that one catalogue serves many worlds. Where a sweep
//! has given one of them another symbol, the catalogue is made anew too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use longshore_api::crd::{NodeClaim, NodeOverlay};
use longshore_api::labels::NODEPOOL;
use longshore_api::{manifests, quantity};
use longshore_core::model::{Catalogue, NodePool, Records, Symbol, Symbols};
use longshore_core::overlay;

use crate::process::lock::lock;

/// Annotation of NodeClaims: the least that NodeOverlays add to any instance type that it may
/// become, resource and quantity, as a JSON object. The node reports these resources once their
/// device plugin runs; until then it counts with what the overlays say.
pub const CAPACITY: &str = longshore_api::labels::OVERLAY_AMOUNTS;

/// The NodeOverlays of a cluster at a moment. Copies share them.
#[derive(Clone, Default)]
pub struct OverlaySet {
    all: Arc<BTreeMap<String, Arc<NodeOverlay>>>,
    /// Tells one set of specs from the next.
    revision: u64,
}

impl OverlaySet {
    /// Takes in a version of an overlay. Says whether its spec is another one.
    pub fn put(&mut self, name: &str, overlay: NodeOverlay) -> bool {
        let all = Arc::make_mut(&mut self.all);
        let spec = overlay.spec.clone();
        let before = all.insert(name.to_owned(), Arc::new(overlay));
        let is_new = before.is_none_or(|before| before.spec != spec);
        self.revision += u64::from(is_new);
        is_new
    }

    /// Forgets an overlay. Says whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let was_there = Arc::make_mut(&mut self.all).remove(name).is_some();
        self.revision += u64::from(was_there);
        was_there
    }

    /// The overlay of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<NodeOverlay>> {
        self.all.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// What a catalogue has from them beside names of NodePools.
    pub fn names_used(&self) -> impl Iterator<Item = &str> {
        let resources = self.all.values().flat_map(|one| one.spec.capacity.keys());
        let key = (!self.all.is_empty()).then_some(NODEPOOL);
        key.into_iter().chain(resources.map(String::as_str))
    }
}

/// What became of an overlay.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is valid and takes part.
    Applied,
    /// It is wrong: field, reason and hint.
    Invalid(String),
    /// Another one of its weight changes the same price or resource.
    Conflict,
}

/// A catalogue with overlays. Copies share it.
#[derive(Clone)]
pub struct Applied {
    /// The provider's catalogue as the overlays change it.
    pub catalogue: Catalogue,
    /// What became of each overlay, by name.
    pub verdicts: Arc<BTreeMap<String, Verdict>>,
}

/// Applies overlays to what the cloud offers, once for each change. One for the process.
pub struct CatalogueOverlays {
    /// Resources that the cloud fills in itself, beside those of every node.
    known: &'static [&'static str],
    made: Mutex<Option<Made>>,
}

/// A catalogue, and what it was made of.
struct Made {
    offers: u64,
    revision: u64,
    pools: Vec<PoolLabels>,
    /// Names in it that what the cloud offers has not.
    names: Vec<(String, Symbol)>,
    applied: Applied,
}

/// The name and the labels of a NodePool: overlays may select by them.
type PoolLabels = (String, BTreeMap<String, String>);

impl CatalogueOverlays {
    /// For a cloud that fills in these resources itself, beside those of every node.
    pub fn new(known: &'static [&'static str]) -> Self {
        let made = Mutex::default();
        CatalogueOverlays { known, made }
    }

    /// The catalogue for these overlays and NodePools. `names` is the table of the NodePools.
    pub fn apply(
        &self,
        offers: &Catalogue,
        overlays: &OverlaySet,
        pools: &Records<NodePool>,
        names: &mut Symbols,
    ) -> Applied {
        let mut last = lock(&self.made);
        if overlays.all.is_empty() {
            *last = None;
            return Applied {
                catalogue: offers.clone(),
                verdicts: Arc::default(),
            };
        }
        let mut labels: Vec<PoolLabels> =
            pools.iter().map(|pool| pool_labels(pool, names)).collect();
        labels.sort();
        let is_same = |made: &&Made| {
            (made.offers, made.revision) == (offers.number(), overlays.revision)
                && made.pools == labels
                && (made.names.iter()).all(|(text, symbol)| names.get(text) == Some(*symbol))
        };
        if let Some(made) = last.as_ref().filter(is_same) {
            return made.applied.clone();
        }
        let applied = self.make(offers, overlays, pools, names);
        let used: BTreeSet<&str> = overlays
            .names_used()
            .chain(labels.iter().map(|(name, _)| name.as_str()))
            .collect();
        let symbol = |text: &str| Some((text.to_owned(), names.get(text)?));
        *last = Some(Made {
            offers: offers.number(),
            revision: overlays.revision,
            names: used.into_iter().filter_map(symbol).collect(),
            pools: labels,
            applied: applied.clone(),
        });
        applied
    }

    /// What was made last, if it is for these offers and names. Does not wait for what is being made.
    pub fn made(&self, offers: &Catalogue, names: &Symbols) -> Option<Applied> {
        let last = self.made.try_lock().ok()?;
        let made = last.as_ref()?;
        let is_current = made.offers == offers.number()
            && (made.names.iter()).all(|(text, symbol)| names.get(text) == Some(*symbol));
        is_current.then(|| made.applied.clone())
    }

    fn make(
        &self,
        offers: &Catalogue,
        overlays: &OverlaySet,
        pools: &Records<NodePool>,
        names: &mut Symbols,
    ) -> Applied {
        let mut verdicts = BTreeMap::new();
        let mut valid = Vec::new();
        for (name, object) in &*overlays.all {
            let verdict = match manifests::overlay(object, self.known, names) {
                Ok(overlay) => {
                    valid.push(overlay);
                    Verdict::Applied
                }
                Err(why) => Verdict::Invalid(why),
            };
            verdicts.insert(name.clone(), verdict);
        }
        let made = overlay::apply(offers, &valid, pools.iter(), names);
        for name in made.conflicts {
            verdicts.insert(names.text(name).to_owned(), Verdict::Conflict);
        }
        let ignored = verdicts
            .values()
            .filter(|verdict| **verdict != Verdict::Applied);
        tracing::info!(
            overlays = verdicts.len(),
            ignored = ignored.count(),
            "NodeOverlays applied to the instance types"
        );
        Applied {
            catalogue: made.catalogue,
            verdicts: Arc::new(verdicts),
        }
    }
}

fn pool_labels(pool: &NodePool, names: &Symbols) -> PoolLabels {
    let text = |symbol| names.text(symbol).to_owned();
    let labels = pool.labels.iter();
    let labels = labels.map(|(key, value)| (text(key), text(value)));
    (text(pool.name), labels.collect())
}

/// What overlays add to a NodeClaim's instance: resource and quantity, by [`CAPACITY`]. What cannot
/// be read there is passed over.
pub fn added_capacity(claim: &NodeClaim) -> BTreeMap<String, String> {
    let annotations = claim.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(CAPACITY));
    let mut added: BTreeMap<String, String> = text
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    added.retain(|_, amount| quantity::Quantity::parse(amount).is_ok());
    added
}

#[cfg(test)]
mod tests;
