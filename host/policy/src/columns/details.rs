//! Labels and resources of offerings. They are kept by instance type and made into columns when they are
//! asked for: most of them never are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longshore_core::model::{InstanceType, Op, ResourceId, Resources, Symbols};

use super::{Columns, Interner, Table, single};
use crate::sum::Sum;

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// What is known of each instance type.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Details {
    /// Labels that a type pins to one value, by key: values, and which of them each type has.
    labels: BTreeMap<Arc<str>, (Table, Vec<u32>)>,
    /// By resource, in cores, bytes or devices, what each type has.
    capacity: Amounts,
    /// What pods can have of it.
    allocatable: Amounts,
}

type Amounts = BTreeMap<Arc<str>, Vec<f64>>;

impl Details {
    pub fn build(types: &[InstanceType], names: &Symbols) -> Self {
        let pinned = |of: &InstanceType| {
            let requirements = of.requirements.iter();
            let one =
                requirements.filter(|one| matches!(&one.op, Op::In(values) if values.len() == 1));
            one.map(|one| one.key).collect::<Vec<_>>()
        };
        let keys: BTreeSet<_> = types.iter().flat_map(pinned).collect();
        let labels = keys.into_iter().map(|key| {
            let mut values = Interner::new(names);
            let rows = types.iter().map(|of| values.index(single(of, key)));
            let rows = rows.collect();
            (Arc::from(names.text(key)), (values.table(), rows))
        });
        Details {
            labels: labels.collect(),
            capacity: amounts(types, names, |of| &of.capacity),
            allocatable: amounts(types, names, |of| &of.allocatable),
        }
    }

    /// Keys of all labels, sorted.
    pub fn label_keys(&self) -> Table {
        let own = self.labels.keys().map(|key| &**key);
        let keys: BTreeSet<&str> = own.chain([ZONE, CAPACITY_TYPE]).collect();
        keys.into_iter().map(Arc::from).collect()
    }

    /// Names of all resources, sorted.
    pub fn resource_names(&self) -> Table {
        self.capacity.keys().cloned().collect()
    }

    pub(super) fn add_to(&self, sum: &mut Sum) {
        for (key, (values, rows)) in &self.labels {
            sum.text(key);
            sum.table(values);
            sum.column(rows);
        }
        for (name, amounts) in self.capacity.iter().chain(&self.allocatable) {
            sum.text(name);
            amounts.iter().for_each(|amount| sum.take(amount.to_bits()));
        }
    }
}

fn amounts(
    types: &[InstanceType],
    names: &Symbols,
    of: fn(&InstanceType) -> &Resources,
) -> Amounts {
    let mut all = Amounts::new();
    for (at, instance_type) in types.iter().enumerate() {
        for (resource, amount) in of(instance_type).iter() {
            let unit = if resource == ResourceId::Cpu {
                1000.0
            } else {
                1.0
            };
            let name = Arc::from(resource.name(names));
            let column = all.entry(name).or_insert_with(|| vec![0.0; types.len()]);
            column[at] = amount as f64 / unit;
        }
    }
    all
}

impl Columns {
    /// The values of a label, and which of them each offering has.
    pub fn label(&self, key: &str) -> (Table, Arc<[u32]>) {
        let fixed = &self.fixed;
        let types = fixed.instance_types.iter();
        match (key, fixed.details.labels.get(key)) {
            (ZONE, _) => (fixed.zone_names.clone(), fixed.zones.clone()),
            (CAPACITY_TYPE, _) => (
                fixed.capacity_type_names.clone(),
                fixed.capacity_types.clone(),
            ),
            (_, Some((values, rows))) => {
                let rows = types.map(|&of| rows[of as usize]);
                (values.clone(), rows.collect())
            }
            (_, None) => ([Arc::from("")].into(), types.map(|_| 0).collect()),
        }
    }

    /// What the machine of each offering has of a resource.
    pub fn capacity(&self, name: &str) -> Arc<[f64]> {
        self.amounts(self.fixed.details.capacity.get(name))
    }

    /// What pods can have of a resource on each offering.
    pub fn allocatable(&self, name: &str) -> Arc<[f64]> {
        self.amounts(self.fixed.details.allocatable.get(name))
    }

    fn amounts(&self, of: Option<&Vec<f64>>) -> Arc<[f64]> {
        let types = self.fixed.instance_types.iter();
        types
            .map(|&at| of.map_or(0.0, |of| of[at as usize]))
            .collect()
    }
}
