//! Instance types and their offerings in metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_core::model::{Catalogue, ResourceId, Symbol, Symbols};
use rustc_hash::FxHashMap;

/// What can be bought, by the name of the instance type. Where several rows of the catalogue have
/// one name, as those of several NodeClasses do, an offering is available if any of them is, at the
/// lowest price.
#[derive(Default)]
pub struct TypeTable(pub Vec<TypeRow>);

/// An instance type.
pub struct TypeRow {
    pub name: String,
    pub cores: f64,
    pub bytes: f64,
    /// By capacity type and zone.
    pub offerings: Vec<OfferingRow>,
}

pub struct OfferingRow {
    pub capacity_type: Arc<str>,
    pub zone: Arc<str>,
    pub available: bool,
    /// USD per hour, with what NodeOverlays say.
    pub price: f64,
}

impl TypeTable {
    /// The table of a catalogue in these names.
    pub fn of(catalogue: &Catalogue, names: &Symbols) -> Self {
        let mut texts: FxHashMap<Symbol, Arc<str>> = FxHashMap::default();
        let mut text = |symbol: Option<Symbol>| match symbol {
            Some(symbol) => {
                let text = texts.entry(symbol);
                text.or_insert_with(|| names.text(symbol).into()).clone()
            }
            None => "".into(),
        };
        let mut rows = Vec::new();
        // Types are ordered by name.
        for same in catalogue.types().chunk_by(|a, b| a.name == b.name) {
            let most = |resource: ResourceId| {
                let all = same.iter().map(|one| one.capacity.get(resource));
                all.max().unwrap_or(0) as f64
            };
            let mut offerings: BTreeMap<(Arc<str>, Arc<str>), (bool, f64)> = BTreeMap::new();
            for one in same {
                let range = one.offerings.start as usize..one.offerings.end as usize;
                for offering in &catalogue.offerings()[range] {
                    let key = (text(offering.capacity_type), text(offering.zone));
                    let next = (offering.available, offering.price);
                    let known = offerings.entry(key).or_insert(next);
                    *known = (known.0 | next.0, known.1.min(next.1));
                }
            }
            let row = |((capacity_type, zone), (available, price))| OfferingRow {
                capacity_type,
                zone,
                available,
                price,
            };
            rows.push(TypeRow {
                name: names.text(same[0].name).to_owned(),
                cores: most(ResourceId::Cpu) / 1000.0,
                bytes: most(ResourceId::Memory),
                offerings: offerings.into_iter().map(row).collect(),
            });
        }
        TypeTable(rows)
    }
}
