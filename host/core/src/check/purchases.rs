//! The domains in which a NodePool could buy a node for a pod, from the catalogue's offerings.
//!
//! Offerings that are unavailable now count, and so do those of used-up reservations. A node that
//! may or may not have a label counts as one without it: a domain that does not count makes no plan
//! wrong.

use rustc_hash::FxHashSet;

use crate::matching::satisfies;
use crate::model::{
    ClusterObjects, InstanceType, Labels, NodePool, Op, PodShape, Requirement, Symbol, TypeId,
};
use crate::snapshot::Snapshot;

/// The values of a label that nodes bought for pods of a shape can have, which have labels of all
/// `keys`.
pub fn domains(
    snapshot: &Snapshot,
    pool: &NodePool,
    (shape, keys): (&PodShape, &[Symbol]),
    key: Symbol,
) -> FxHashSet<Symbol> {
    let mut found = FxHashSet::default();
    let world = &*snapshot.world;
    let there = keys
        .iter()
        .map(|&key| Requirement {
            key,
            op: Op::Exists,
            min_values: None,
        })
        .collect();
    let kinds = Kinds {
        world,
        pool,
        labels: pool_labels(world, pool),
        there,
    };
    let nodes = snapshot.nodes.iter().filter(|n| n.pool == Some(pool.name));
    if pool
        .node_limit
        .is_some_and(|limit| limit <= nodes.count() as i64)
    {
        return found;
    }
    let short = world.catalogue.short();
    for (at, t) in world.catalogue.types().iter().enumerate() {
        let small = shape
            .requests
            .iter()
            .any(|(resource, wants)| wants > t.allocatable.get(resource));
        if small || !within_limits(snapshot, pool, t) {
            continue;
        }
        let of_type = &world.catalogue.instance_type(TypeId(at as u32)).offerings;
        for row in of_type.start..of_type.end {
            let offering = world.catalogue.offering(crate::model::OfferingId(row));
            if !offering.available && !short.iter().any(|(id, _)| id.0 == row) {
                continue;
            }
            for &value in kinds.values(t, &offering.requirements, key) {
                if !found.contains(&value)
                    && kinds.takes(t, &offering.requirements, shape, (key, value))
                {
                    found.insert(value);
                }
            }
        }
    }
    found
}

fn within_limits(snapshot: &Snapshot, pool: &NodePool, t: &InstanceType) -> bool {
    pool.limits.iter().all(|&(resource, limit)| {
        let nodes = snapshot.nodes.iter().filter(|n| n.pool == Some(pool.name));
        nodes.map(|n| n.capacity.get(resource)).sum::<i64>() + t.capacity.get(resource) <= limit
    })
}

/// Labels that every node of a NodePool has, as requirements.
fn pool_labels(world: &ClusterObjects, pool: &NodePool) -> Vec<Requirement> {
    let is = |key: Symbol, value: Symbol| Requirement {
        key,
        op: Op::In([value].into()),
        min_values: None,
    };
    let mut labels: Vec<Requirement> = pool
        .labels
        .iter()
        .map(|(key, value)| is(key, value))
        .collect();
    labels.extend(
        world
            .names
            .get("karpenter.sh/nodepool")
            .map(|key| is(key, pool.name)),
    );
    labels
}

/// Nodes of a NodePool, by type and offering.
struct Kinds<'a> {
    world: &'a ClusterObjects,
    pool: &'a NodePool,
    labels: Vec<Requirement>,
    /// Checks that required labels exist.
    there: Vec<Requirement>,
}

impl<'a> Kinds<'a> {
    /// Everything known about a label of such nodes.
    fn said<'s>(
        &'s self,
        t: &'s InstanceType,
        offering: &'s [Requirement],
        key: Symbol,
    ) -> Vec<&'s Requirement> {
        let of_pool = self.pool.requirements.iter().chain(&self.labels);
        of_pool
            .chain(&t.requirements)
            .chain(offering)
            .filter(|r| r.key == key)
            .collect()
    }

    /// The values that are named for a label. What the offering names is narrower than what the type
    /// names, and that narrower than what the NodePool admits.
    fn values<'s>(
        &'s self,
        t: &'s InstanceType,
        offering: &'s [Requirement],
        key: Symbol,
    ) -> &'s [Symbol] {
        let of_pool = self.pool.requirements.iter().chain(&self.labels);
        let mut narrowest_first = offering
            .iter()
            .rev()
            .chain(t.requirements.iter().rev())
            .chain(of_pool.rev());
        let named = narrowest_first.find_map(|r| match &r.op {
            Op::In(values) if r.key == key => Some(&values[..]),
            _ => None,
        });
        named.unwrap_or_default()
    }

    /// Whether a node of that domain is one of the NodePool's and suits the pod's node selector and
    /// one term of its required node affinity.
    fn takes(
        &self,
        t: &InstanceType,
        offering: &[Requirement],
        shape: &PodShape,
        domain: (Symbol, Symbol),
    ) -> bool {
        let none = Vec::new();
        let terms = if shape.required.is_empty() {
            std::slice::from_ref(&none)
        } else {
            &shape.required
        };
        terms.iter().any(|term| {
            let asked: Vec<&Requirement> = shape
                .node_selector
                .iter()
                .chain(term)
                .chain(&self.there)
                .collect();
            let of_pool = self
                .pool
                .requirements
                .iter()
                .chain(&self.labels)
                .map(|r| r.key);
            let mut keys = std::iter::once(domain.0)
                .chain(asked.iter().map(|r| r.key))
                .chain(of_pool);
            keys.all(|key| {
                let wanted: Vec<&Requirement> =
                    asked.iter().copied().filter(|r| r.key == key).collect();
                let said = self.said(t, offering, key);
                let pinned = (key == domain.0).then_some(domain.1);
                self.agree(key, &said, &wanted, pinned)
            })
        })
    }

    /// Whether one label can satisfy both what is known about it and what is required of it.
    fn agree(
        &self,
        key: Symbol,
        said: &[&Requirement],
        wanted: &[&Requirement],
        pinned: Option<Symbol>,
    ) -> bool {
        let all = || said.iter().chain(wanted);
        let fits = |value: Symbol| all().all(|r| self.holds(&r.op, value));
        if let Some(value) = pinned {
            return fits(value);
        }
        if all().all(|r| matches!(r.op, Op::NotIn(_) | Op::DoesNotExist)) {
            return true;
        }
        if said.is_empty() && !self.is_defined(key) {
            return false;
        }
        let mut listed = all().filter_map(|r| {
            if let Op::In(values) = &r.op {
                Some(values)
            } else {
                None
            }
        });
        match listed.next() {
            Some(values) => values.iter().any(|&value| fits(value)),
            None => all().all(|r| matches!(r.op, Op::NotIn(_) | Op::Exists)),
        }
    }

    fn holds(&self, op: &Op, value: Symbol) -> bool {
        match op {
            Op::In(values) => values.contains(&value),
            Op::NotIn(values) => !values.contains(&value),
            Op::Exists => true,
            Op::DoesNotExist => false,
            Op::Gte(_) | Op::Lte(_) => {
                let label = Symbol(0);
                let asked = Requirement {
                    key: label,
                    op: op.clone(),
                    min_values: None,
                };
                satisfies(
                    &Labels::new(vec![(label, value)]),
                    &asked,
                    &self.world.names,
                )
            }
        }
    }

    /// Labels that clouds define, whether the catalogue names them or not.
    fn is_defined(&self, key: Symbol) -> bool {
        let known = [
            "topology.kubernetes.io/zone",
            "topology.kubernetes.io/region",
            "node.kubernetes.io/instance-type",
            "node.kubernetes.io/windows-build",
            "kubernetes.io/arch",
            "kubernetes.io/os",
            "karpenter.sh/capacity-type",
        ];
        known.contains(&self.world.names.text(key))
    }
}
