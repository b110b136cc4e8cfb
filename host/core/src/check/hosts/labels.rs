//! Labels that a node to buy may have.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::matching::satisfies;
use crate::model::{ClusterObjects, Labels, Op, PodShape, Requirement, Symbol, fields, own_values};
use crate::plan::PlannedClaim;

/// The values that each label of a claim's node may have, computed on demand.
pub struct PossibleLabels<'a> {
    pub(super) world: &'a ClusterObjects,
    pub(super) claim: &'a PlannedClaim,
    pub(super) known: RefCell<FxHashMap<Symbol, Option<Vec<Symbol>>>>,
}

impl<'a> PossibleLabels<'a> {
    pub(super) fn of(world: &'a ClusterObjects, claim: &'a PlannedClaim) -> Self {
        PossibleLabels {
            world,
            claim,
            known: RefCell::default(),
        }
    }

    /// The values that a label may have; `None` if the node has no such label.
    pub fn values(&self, key: Symbol) -> Option<Vec<Symbol>> {
        self.known
            .borrow_mut()
            .entry(key)
            .or_insert_with(|| self.look_up(key))
            .clone()
    }

    /// The value that a label has for certain. Stops looking as soon as there are two.
    pub fn single(&self, key: Symbol) -> Option<Symbol> {
        if let Some((_, values)) = self.claim.requirements.iter().find(|(k, _)| *k == key) {
            return if let [only] = values[..] {
                Some(only)
            } else {
                None
            };
        }
        let mut seen: Option<Symbol> = None;
        for &t in &self.claim.types {
            let usable =
                |o: &&crate::model::Offering| o.available && allowed(self.claim, &o.requirements);
            let offerings = self
                .world
                .catalogue
                .offerings_of(t)
                .iter()
                .filter(usable)
                .flat_map(|o| o.requirements.iter());
            let of_type = self.world.catalogue.instance_type(t).requirements.iter();
            for r in of_type.chain(offerings).filter(|r| r.key == key) {
                let Op::In(values) = &r.op else { continue };
                let differs = values.len() != 1 || seen.is_some_and(|s| s != values[0]);
                if differs {
                    return None;
                }
                seen = Some(values[0]);
            }
        }
        seen.or_else(|| self.world.pools[self.claim.pool.0 as usize].labels.get(key))
    }

    fn look_up(&self, key: Symbol) -> Option<Vec<Symbol>> {
        if let Some((_, values)) = self.claim.requirements.iter().find(|(k, _)| *k == key) {
            return Some(values.clone());
        }
        let mut values: Vec<Symbol> = Vec::new();
        let mut note = |requirements: &[Requirement]| {
            for r in requirements.iter().filter(|r| r.key == key) {
                if let Op::In(of) = &r.op {
                    values.extend(of.iter().copied());
                }
            }
        };
        for &t in &self.claim.types {
            note(&self.world.catalogue.instance_type(t).requirements);
            let usable =
                |o: &&crate::model::Offering| o.available && allowed(self.claim, &o.requirements);
            self.world
                .catalogue
                .offerings_of(t)
                .iter()
                .filter(usable)
                .for_each(|o| note(&o.requirements));
        }
        values.sort_unstable();
        values.dedup();
        let label = self.world.pools[self.claim.pool.0 as usize].labels.get(key);
        if values.is_empty() {
            label.map(|v| vec![v])
        } else {
            Some(values)
        }
    }

    /// Whether a requirement holds whatever the node turns out to be.
    pub(super) fn always(&self, r: &Requirement, world: &ClusterObjects) -> bool {
        if fields::feature(world.names.text(r.key)).is_some() {
            // A new kubelet is taken to declare all of them.
            return r.op == Op::Exists;
        }
        let absent = matches!(r.op, Op::NotIn(_) | Op::DoesNotExist);
        let is_open = || self.claim.open.iter().any(|o| o.key == r.key);
        match self.values(r.key) {
            _ if self
                .claim
                .open
                .contains(&Requirement::new(r.key, Op::DoesNotExist)) =>
            {
                absent
            }
            Some(values) => values
                .iter()
                .all(|&v| satisfies(&Labels::new(vec![(r.key, v)]), r, &world.names)),
            // The cloud knows the value. Of other labels the node has none.
            None if is_open() && !own_values::is_custom(world.names.text(r.key)) => true,
            None => absent || self.undefined_well_known(r.key, world),
        }
    }

    /// Whether the node will have a label, whatever it turns out to be.
    pub fn has(&self, key: Symbol, world: &ClusterObjects) -> bool {
        self.always(
            &Requirement {
                key,
                op: Op::Exists,
                min_values: None,
            },
            world,
        )
    }

    /// Karpenter lets pods ask for labels that every cloud defines even where a catalogue does not
    /// name them.
    fn undefined_well_known(&self, key: Symbol, world: &ClusterObjects) -> bool {
        let text = world.names.text(key);
        [
            "topology.kubernetes.io/region",
            "node.kubernetes.io/windows-build",
            "kubernetes.io/os",
            "kubernetes.io/arch",
        ]
        .contains(&text)
            || ["topology.kubernetes.io/zone", "karpenter.sh/capacity-type"].contains(&text)
            || [
                "karpenter.sh/nodepool",
                "karpenter.sh/registered",
                "karpenter.sh/initialized",
            ]
            .contains(&text)
    }

    /// A label that may be wrong for a pod.
    pub fn unsatisfied(&self, shape: &PodShape, world: &ClusterObjects) -> Option<Symbol> {
        let wrong = |rs: &[Requirement]| rs.iter().find(|r| !self.always(r, world)).map(|r| r.key);
        if let Some(key) = wrong(&shape.node_selector) {
            return Some(key);
        }
        // An empty term selects nothing.
        let terms: Vec<Option<Symbol>> = shape
            .required
            .iter()
            .filter(|t| !t.is_empty())
            .map(|t| wrong(t))
            .collect();
        match terms.first() {
            Some(first) if !terms.contains(&None) => *first,
            None if !shape.required.is_empty() => world.names.get("kubernetes.io/hostname"),
            _ => None,
        }
    }
}

/// Whether single values fit what a claim is narrowed to.
pub(super) fn allowed(claim: &PlannedClaim, requirements: &[Requirement]) -> bool {
    requirements.iter().all(|r| {
        let Op::In(values) = &r.op else { return true };
        let narrowed = claim.requirements.iter().find(|(key, _)| *key == r.key);
        narrowed.is_none_or(|(_, allowed)| values.iter().any(|v| allowed.contains(v)))
    })
}
