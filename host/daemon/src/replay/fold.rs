//! The state as the daemon had it, and the snapshots of its rounds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use longshore_core::model::Symbols;
use longshore_core::plan::PodIx;
use longshore_core::planner::PlanOptions;
use longshore_core::snapshot::Snapshot;
use longshore_policy::Signals;

use longshore_api::kinds::ObjectKind;
use longshore_journal::record::{Began, Blob, Head, Observed, What, bit};
use longshore_journal::round::{RecordedEffort, Round, Short};
use longshore_journal::{Wire, messages, read_catalogue, read_signals};
use longshore_live::decide::disruption::count_commands;
use longshore_live::observe::state::{ClusterState, FrozenState};
use longshore_live::observe::watch::Change;
use longshore_live::process::lock::lock;
use longshore_report::decision::pod_name;

/// What has been folded so far.
#[derive(Default)]
pub struct Folded {
    state: ClusterState,
    /// Worlds of rounds that have begun, by number.
    rounds: BTreeMap<u64, FrozenState>,
    /// Blobs of the segment that is read, by digest.
    pub blobs: BlobStore,
    /// Kinds of which something is missing, a bit each.
    stale: u32,
    /// Kinds that are being listed, and whether the list is complete so far.
    listing: HashMap<ObjectKind, bool>,
}

impl Folded {
    /// A segment begins. Each has the blobs that its rounds name.
    pub fn begin(&mut self, head: &Head, goes_on: bool) {
        self.blobs.all.clear();
        if !goes_on {
            self.state = ClusterState::new(Symbols::default());
            self.rounds.clear();
            self.listing.clear();
            self.stale = head.stale;
        }
    }

    pub fn observe(&mut self, observed: Observed) {
        let kind = observed.kind;
        let change = match observed.what {
            What::Begin => {
                self.listing.insert(kind, true);
                Change::Begin
            }
            What::Upsert(json) => Change::Upsert(json),
            What::Remove(json) => Change::Remove(json),
            What::End => {
                if self.listing.remove(&kind) == Some(true) {
                    self.stale &= !bit(kind);
                }
                Change::End
            }
            What::Failed(why) => Change::Failed(why.into()),
        };
        self.state.fold(kind, &change);
    }

    /// Something of these kinds is missing.
    pub fn record_gap(&mut self, kinds: u32) {
        self.stale |= kinds;
        for (kind, whole) in &mut self.listing {
            *whole &= kinds & bit(*kind) == 0;
        }
    }

    /// What is missing, in words.
    pub fn stale(&self) -> Option<String> {
        (self.stale != 0).then(|| {
            format!(
                "something is missing since a gap, of {}",
                messages::some_kinds(self.stale)
            )
        })
    }

    /// A round takes its copy of the objects.
    pub fn begin_round(&mut self, began: Began) {
        self.rounds.insert(began.round, self.state.freeze());
    }

    /// A round that has begun decides nothing.
    pub fn forget_round(&mut self, round: u64) {
        self.rounds.remove(&round);
    }

    /// Rounds that have begun and are not decided.
    pub fn open_rounds(&self) -> impl Iterator<Item = u64> {
        self.rounds.keys().copied()
    }

    /// What a round was decided on.
    ///
    /// # Errors
    /// In words: something that it needs is not in the journal.
    pub fn snapshot(&mut self, round: &Round) -> Result<(Snapshot, PlanOptions), String> {
        let world = self.rounds.remove(&round.round);
        let mut world = world
            .ok_or("its beginning is not in what was read")?
            .world();
        if let Some((group, kind)) = &round.managed {
            world.manage(group, kind);
        }
        let (settings, mut options) = round.how.meant(&mut world.names)?;
        if let Some(RecordedEffort(effort)) = round.cut_short {
            options.effort = effort;
        }
        let nominated: HashMap<&str, &str> = round
            .nominated
            .iter()
            .map(|(pod, node)| (pod.as_str(), node.as_str()))
            .collect();
        let foreseen: HashSet<&str> = round.foreseen.iter().map(String::as_str).collect();
        let queued: HashMap<&str, u64> = round
            .queued
            .iter()
            .map(|(pod, queued)| (pod.as_str(), *queued))
            .collect();
        for at in 0..world.pods.len() {
            if world.pods[at].node.is_none() {
                let name = pod_name(&world, PodIx(at as u32));
                let node = nominated
                    .get(name.as_str())
                    .map(|node| world.names.intern(node));
                world.pods[at].nominated = node;
                world.pods[at].unattempted = foreseen.contains(name.as_str());
                world.pods[at].queued = queued.get(name.as_str()).copied().unwrap_or(0);
            }
        }
        world.now = round.now;
        world.settings = settings;
        world.catalogue = self
            .blobs
            .catalogue(&round.catalogue)?
            .catalogue(&mut world.names);
        if !round.short.is_empty() {
            let short = Short::meant(&round.short, world.catalogue.offerings().len());
            world.catalogue = world.catalogue.without_capacity(&short);
        }
        if let Some(look) = &round.look {
            look.enter(&mut world);
            count_commands(&mut world);
        }
        Ok((Snapshot::new(Arc::new(world)), options))
    }
}

/// What rounds name by digest.
#[derive(Default)]
pub struct BlobStore {
    all: HashMap<String, Vec<u8>>,
    /// What was last made of one, by its digest; most rounds name the same as the one before.
    catalogue: Option<(String, Arc<Wire>)>,
    signals: Mutex<Option<(String, Arc<Signals>)>>,
}

impl BlobStore {
    pub fn put(&mut self, blob: Blob) {
        self.all.insert(blob.digest, blob.bytes);
    }

    /// The bytes with this digest. `None` if the segment has none.
    pub fn get(&self, digest: &str) -> Option<&[u8]> {
        self.all.get(digest).map(Vec::as_slice)
    }

    fn catalogue(&mut self, digest: &str) -> Result<Arc<Wire>, String> {
        if let Some((last, wire)) = &self.catalogue
            && last == digest
        {
            return Ok(wire.clone());
        }
        let bytes = self
            .get(digest)
            .ok_or("its instance types are not in the segment")?;
        let wire = Arc::new(read_catalogue(bytes)?);
        self.catalogue = Some((digest.to_owned(), wire.clone()));
        Ok(wire)
    }

    /// Signals; none where no digest is given.
    ///
    /// # Errors
    /// In words: they are not there.
    pub fn signals(&self, digest: Option<&str>) -> Result<Arc<Signals>, String> {
        let Some(digest) = digest else {
            return Ok(Arc::default());
        };
        let mut last = lock(&self.signals);
        if let Some((known, signals)) = &*last
            && known == digest
        {
            return Ok(signals.clone());
        }
        let bytes = self
            .get(digest)
            .ok_or("the signals of the round are not in the segment")?;
        let signals = Arc::new(read_signals(bytes)?);
        *last = Some((digest.to_owned(), signals.clone()));
        Ok(signals)
    }
}
