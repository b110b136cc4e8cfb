//! Encodes a catalogue of any provider as bytes, and decodes it: names as text, numbers exactly.

use std::collections::HashSet;

use longshore_core::model::{
    Catalogue, InstanceType, Offering, OfferingId, Op, Requirement, ResourceId, Resources, Symbol,
    Symbols, TypeId,
};
use serde::{Deserialize, Serialize};

/// A catalogue without a table of names.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Wire(Vec<WireType>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct WireType {
    name: String,
    requirements: Vec<WireRequirement>,
    capacity: Vec<(String, i64)>,
    allocatable: Vec<(String, i64)>,
    volumes: Vec<(String, u32)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    incompatible: Option<String>,
    offerings: Vec<WireOffering>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct WireOffering {
    requirements: Vec<WireRequirement>,
    zone: Option<String>,
    capacity_type: Option<String>,
    /// The bits of the number.
    price: u64,
    available: bool,
    reservation: Option<(String, u32)>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct WireRequirement {
    key: String,
    op: WireOp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_values: Option<u16>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum WireOp {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    Gte(i64),
    Lte(i64),
}

/// The bytes of a catalogue, as if nothing were short: rounds write that down by themselves.
pub fn write(catalogue: &Catalogue, names: &Symbols) -> Vec<u8> {
    let text = |sym: Symbol| names.text(sym).to_owned();
    let requirements =
        |all: &[Requirement]| all.iter().map(|r| WireRequirement::new(r, names)).collect();
    let amounts = |all: &Resources| {
        all.iter()
            .map(|(id, amount)| (id.name(names).to_owned(), amount))
            .collect()
    };
    let short: HashSet<OfferingId> = catalogue.short().iter().map(|(id, _)| *id).collect();
    let offering = |(id, offering): (OfferingId, &Offering)| WireOffering {
        requirements: requirements(&offering.requirements),
        zone: offering.zone.map(text),
        capacity_type: offering.capacity_type.map(text),
        price: offering.price.to_bits(),
        available: offering.available || short.contains(&id),
        reservation: offering.reservation.map(|(id, left)| (text(id), left)),
    };
    let types = catalogue
        .types()
        .iter()
        .enumerate()
        .map(|(at, kind)| WireType {
            name: text(kind.name),
            requirements: requirements(&kind.requirements),
            capacity: amounts(&kind.capacity),
            allocatable: amounts(&kind.allocatable),
            volumes: kind
                .volume_limits
                .iter()
                .map(|&(driver, most)| (text(driver), most))
                .collect(),
            incompatible: kind.incompatible.map(text),
            offerings: {
                let ids = kind.offerings.clone().map(OfferingId);
                ids.zip(catalogue.offerings_of(TypeId(at as u32)))
                    .map(offering)
                    .collect()
            },
        });
    serde_json::to_vec(&Wire(types.collect())).unwrap_or_default()
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// It is something else, in words.
pub fn read(bytes: &[u8]) -> Result<Wire, String> {
    serde_json::from_slice(bytes)
        .map_err(|error| format!("the instance types in it make no sense: {error}"))
}

impl Wire {
    /// The catalogue, with its texts in `names`.
    pub fn catalogue(&self, names: &mut Symbols) -> Catalogue {
        let rows = self.0.iter().map(|kind| {
            let offerings = kind.offerings.iter().map(|offering| Offering {
                instance_type: TypeId(0),
                requirements: requirements(&offering.requirements, names).into(),
                zone: offering.zone.as_ref().map(|zone| names.intern(zone)),
                capacity_type: offering
                    .capacity_type
                    .as_ref()
                    .map(|kind| names.intern(kind)),
                price: f64::from_bits(offering.price),
                available: offering.available,
                reservation: offering
                    .reservation
                    .as_ref()
                    .map(|(id, left)| (names.intern(id), *left)),
            });
            let offerings = offerings.collect();
            let row = InstanceType {
                name: names.intern(&kind.name),
                requirements: requirements(&kind.requirements, names),
                capacity: resources(&kind.capacity, names),
                allocatable: resources(&kind.allocatable, names),
                volume_limits: kind
                    .volumes
                    .iter()
                    .map(|(driver, most)| (names.intern(driver), *most))
                    .collect(),
                incompatible: kind.incompatible.as_ref().map(|why| names.intern(why)),
                offerings: 0..0,
            };
            (row, offerings)
        });
        let rows = rows.collect();
        Catalogue::new(rows, names)
    }
}

impl WireRequirement {
    fn new(requirement: &Requirement, names: &Symbols) -> Self {
        let texts = |values: &[Symbol]| {
            values
                .iter()
                .map(|&value| names.text(value).to_owned())
                .collect()
        };
        let op = match &requirement.op {
            Op::In(values) => WireOp::In(texts(values)),
            Op::NotIn(values) => WireOp::NotIn(texts(values)),
            Op::Exists => WireOp::Exists,
            Op::DoesNotExist => WireOp::DoesNotExist,
            Op::Gte(bound) => WireOp::Gte(*bound),
            Op::Lte(bound) => WireOp::Lte(*bound),
        };
        WireRequirement {
            key: names.text(requirement.key).to_owned(),
            op,
            min_values: requirement.min_values,
        }
    }
}

fn requirements(all: &[WireRequirement], names: &mut Symbols) -> Vec<Requirement> {
    let one = |wire: &WireRequirement| {
        let mut syms = |texts: &[String]| texts.iter().map(|text| names.intern(text)).collect();
        let op = match &wire.op {
            WireOp::In(values) => Op::In(syms(values)),
            WireOp::NotIn(values) => Op::NotIn(syms(values)),
            WireOp::Exists => Op::Exists,
            WireOp::DoesNotExist => Op::DoesNotExist,
            WireOp::Gte(bound) => Op::Gte(*bound),
            WireOp::Lte(bound) => Op::Lte(*bound),
        };
        Requirement {
            key: names.intern(&wire.key),
            op,
            min_values: wire.min_values,
        }
    };
    all.iter().map(one).collect()
}

fn resources(all: &[(String, i64)], names: &mut Symbols) -> Resources {
    Resources::new(
        all.iter()
            .map(|(name, amount)| (ResourceId::named(name, names), *amount))
            .collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_comes_back_as_it_was_whatever_names_it_is_read_into() {
        let mut names = Symbols::default();
        let before = longshore_kwok::catalogue::built_in(&mut names);
        let bytes = write(&before, &names);
        let mut other = Symbols::default();
        for text in ["zz", "spot", "m7g.large"] {
            other.intern(text);
        }
        let after = read(&bytes).unwrap().catalogue(&mut other);
        assert_eq!(write(&after, &other), bytes);
        assert_eq!(read(&bytes).unwrap().catalogue(&mut names), before);
        let short = before.without_capacity(&[(OfferingId(3), 7)]);
        assert!(
            write(&short, &names) == bytes,
            "what is short for now is no part of it"
        );
        assert!(read(b"{}").unwrap_err().contains("instance types"));
    }
}
