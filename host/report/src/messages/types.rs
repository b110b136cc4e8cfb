//! Why no instance type is left.

use longshore_core::model::{Op, Requirement, Symbol};
use longshore_core::plan::TypesLeft;

use super::{CAPACITY_TYPE, Messages, ZONE, demand, exclude, time_of_day};
use crate::count;
use crate::messages::amount::amount;

impl Messages<'_> {
    /// The node class of the NodePool that refuses, if no instance type is known for it.
    fn unknown_class(&self) -> Option<String> {
        let class = self.pool?.class;
        let (catalogue, kind) = (&self.world.catalogue, self.text(class.kind));
        let key = self.world.names.get(&class.label(&self.world.names));
        let rows = key.map_or(&[][..], |key| catalogue.index().types_with(key));
        let admits = |&(at, place): &(u32, u32)| {
            let row = &catalogue.types()[at as usize].requirements[place as usize];
            matches!(&row.op, Op::In(names) if names.contains(&class.name))
        };
        let is_known = match catalogue.types().is_empty() {
            true => false,
            false => rows.is_empty() || rows.iter().any(admits),
        };
        let is_there = self.world.classes.iter().any(|known| known.id == class);
        let why = match is_there {
            true => "which was refused, or whose types have not been read yet".to_owned(),
            false if self.knows_any(&class) => "which is missing or cannot be read".to_owned(),
            false => format!("and no {kind} is known at all"),
        };
        (!is_known).then(|| {
            let name = self.text(class.name);
            format!("no instance type is known for its {kind} {name}, {why}")
        })
    }

    /// `812 of 844 types: too little memory; 32: no offering in us-east-1c`, the largest part
    /// first.
    pub(super) fn types(&self, left: &TypesLeft) -> String {
        if let Some(class) = self.unknown_class() {
            return class;
        }
        let [cpu, memory, pods, storage, other] = left.resources;
        let incompatible = left.incompatible_for.map_or("", |why| self.text(why));
        let mut parts = [
            (cpu, "too little cpu".to_owned()),
            (memory, "too little memory".to_owned()),
            (pods, "room for too few pods".to_owned()),
            (storage, "too little ephemeral-storage".to_owned()),
            (other, self.other_resource()),
            (left.labels, self.labels_of_types(left)),
            (left.offerings, self.no_offering()),
            (left.excluded, self.excluded(left)),
            (left.incompatible, incompatible.to_owned()),
            (left.limits, "would pass the NodePool's limits".to_owned()),
        ];
        parts.sort_by_key(|&(count, _)| std::cmp::Reverse(count));
        let mut sentences = Vec::new();
        for (count, why) in parts.iter().filter(|(count, _)| *count > 0) {
            match sentences.is_empty() {
                true => sentences.push(format!("{count} of {} types: {why}", left.all)),
                false => sentences.push(format!("{count}: {why}")),
            }
        }
        if let Some((resource, taken)) = left.daemons {
            sentences.push(format!(
                "{} of them would be large enough but for DaemonSets, which take {} {} of each",
                left.by_daemons,
                amount(resource, taken),
                resource.name(&self.world.names)
            ));
        }
        if left.short > 0 {
            let (offerings, are) = (
                count(left.short as usize, "offering"),
                if left.short == 1 { "is" } else { "are" },
            );
            sentences.push(format!(
                "{offerings} {are} unavailable until {} UTC",
                time_of_day(left.short_until)
            ));
        }
        match sentences.is_empty() {
            true if left.all == 0 => "no instance type is known".into(),
            true => format!("none of {} types is left", left.all),
            false => sentences.join("; "),
        }
    }

    /// That labels of types do not match; where no type is left, what none of them meets.
    fn labels_of_types(&self, left: &TypesLeft) -> String {
        let unmet = self.shape.filter(|_| left.labels == left.all);
        let unmet = unmet.and_then(|shape| {
            let only_term = match shape.required.as_slice() {
                [term] => term.as_slice(),
                _ => &[],
            };
            let of_pool = self.pool.map_or(&[][..], |pool| &pool.requirements[..]);
            let mut all = shape.node_selector.iter().chain(only_term).chain(of_pool);
            all.find(|wanted| self.is_met_by_no_type(wanted))
        });
        match unmet {
            None => "labels do not match".to_owned(),
            Some(wanted) => format!(
                "labels do not match: no type meets {}: {}",
                self.text(wanted.key),
                self.requirement(wanted)
            ),
        }
    }

    /// Whether types have a label, and none of them as it is wanted.
    fn is_met_by_no_type(&self, wanted: &Requirement) -> bool {
        let catalogue = &self.world.catalogue;
        let rows = catalogue.index().types_with(wanted.key);
        let number = |value: &Symbol| self.world.names.text(*value).parse::<i64>().ok();
        let meets = |&(at, place): &(u32, u32)| {
            let row = &catalogue.types()[at as usize].requirements[place as usize];
            let Op::In(values) = &row.op else {
                // What it says otherwise is not held against it, but that it has no such label.
                let is_absent = matches!(row.op, Op::DoesNotExist);
                return !is_absent || matches!(wanted.op, Op::DoesNotExist | Op::NotIn(_));
            };
            match &wanted.op {
                Op::In(wanted) => values.iter().any(|value| wanted.contains(value)),
                Op::NotIn(excluded) => values.iter().any(|value| !excluded.contains(value)),
                Op::Exists => true,
                Op::DoesNotExist => false,
                Op::Gte(least) => values.iter().filter_map(number).any(|of| of >= *least),
                Op::Lte(most) => values.iter().filter_map(number).any(|of| of <= *most),
            }
        };
        // A type without the label has it from its NodePool, if at all.
        rows.len() == catalogue.types().len() && !rows.iter().any(meets)
    }

    fn other_resource(&self) -> String {
        let asked: Vec<&str> = self
            .shape
            .iter()
            .flat_map(|shape| shape.requests.iter())
            .filter_map(|(resource, _)| match resource {
                longshore_core::model::ResourceId::Other(name) => Some(self.text(name)),
                _ => None,
            })
            .collect();
        match asked.is_empty() {
            true => "too little of another resource".into(),
            false => format!("too little {}", asked.join(" or ")),
        }
    }

    /// That policies exclude what is offered.
    pub(super) fn excluded(&self, left: &TypesLeft) -> String {
        let policies = exclude(&left.excluded_by);
        let offering = self.pinned_offering();
        let offering = offering.as_deref().unwrap_or("offering");
        let of_those = if left.short > 0 { " with capacity" } else { "" };
        format!("{policies} every {offering}{of_those}")
    }

    fn no_offering(&self) -> String {
        match self.pinned_offering() {
            None => "no offering available".into(),
            Some(offering) => format!("no {offering}"),
        }
    }

    /// Names the zones and capacity types that the pod (or else the NodePool) insists on; nothing if
    /// it insists on none.
    fn pinned_offering(&self) -> Option<String> {
        let pinned = |key: &str| {
            let key = self.world.names.get(key)?;
            let wanted = self.shape.and_then(|shape| demand(shape, key));
            let offered = || {
                self.pool
                    .and_then(|pool| pool.requirements.iter().find(|r| r.key == key))
            };
            match &wanted.or_else(offered)?.op {
                Op::In(values) => Some(self.values(values, " or ")),
                _ => None,
            }
        };
        match (pinned(CAPACITY_TYPE), pinned(ZONE)) {
            (None, None) => None,
            (None, Some(zones)) => Some(format!("offering in {zones}")),
            (Some(kinds), None) => Some(format!("{kinds} offering")),
            (Some(kinds), Some(zones)) => Some(format!("{kinds} offering in {zones}")),
        }
    }
}
