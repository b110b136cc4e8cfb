//! What depends on the snapshot only, resolved once for many runs.

use super::compile::{self, Compiled};
use super::existing_nodes::ExistingNodes;
use super::rules::VirtualLabels;
use crate::model::Symbol;
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// A snapshot made ready to try many sets of nodes on.
pub struct Simulator<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) compiled: Compiled,
    pub(super) existing_nodes: ExistingNodes,
    pub(super) labels: VirtualLabels<'a>,
    pub(super) hostname: Option<Symbol>,
    /// Shapes with `minDomains`: the only ones that a new domain can help.
    pub(super) wants_domains: Vec<u32>,
    pub(super) stop: Stop<'a>,
}

impl<'a> Simulator<'a> {
    /// Resolves what depends on the snapshot only.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let compiled = compile::compile(snapshot);
        let ground = ExistingNodes::new(snapshot, &compiled);
        let wants = compiled
            .shapes
            .iter()
            .enumerate()
            .filter(|(_, s)| s.required_spread.iter().any(|h| h.min_domains.is_some()));
        let wants_domains = wants.map(|(at, _)| at as u32).collect();
        Simulator {
            snapshot,
            compiled,
            existing_nodes: ground,
            labels: VirtualLabels::of(&snapshot.world),
            hostname: snapshot.world.names.get("kubernetes.io/hostname"),
            wants_domains,
            stop: Stop::never(),
        }
    }

    /// The same, ended by a signal. After the signal no pod is placed, and results are useless.
    pub fn until(self, stop: Stop<'a>) -> Self {
        Simulator { stop, ..self }
    }

    /// Whether results are useless: the run was ended, or selectors select more than can be
    /// modelled.
    pub fn is_stopped(&self) -> bool {
        self.compiled.is_too_large || self.stop.is_raised()
    }
}
