//! Prices for instance types that EC2 publishes none for, such as those in preview.
//!
//! A NodeOverlay with a price whose only requirement is a list of instance types gives the price to
//! those of them without one, so that they can be bought. Other NodeOverlays change a price, and
//! give none: they may be meant for types that have one.
//!
//! Source: Karpenter 1.15, pkg/providers/instancetype/offering.

use std::collections::BTreeMap;

use longshore_api::labels;
use longshore_core::model::{NodeOverlay, Op, PriceChange, Symbol, Symbols};

use super::region::Region;

/// USD per hour by name of the type, as valid `overlays` give them to types of `region`. The
/// greatest weight counts. Of two with one weight that name the same type, the one whose name is
/// later in the alphabet counts, and of the other nothing does, as in `longshore_core::overlay`.
///
/// A conflict with a NodeOverlay of another form is not seen here: its price is given.
pub fn prices<'a>(
    region: &Region,
    overlays: &[NodeOverlay],
    names: &'a Symbols,
) -> BTreeMap<&'a str, f64> {
    let mut givers: Vec<Giver> = overlays
        .iter()
        .filter_map(|overlay| giver(region, overlay, names))
        .collect();
    givers.sort_by(|a, b| (b.weight, b.name).cmp(&(a.weight, a.name)));
    let mut all: BTreeMap<&str, (f64, i32)> = BTreeMap::new();
    for giver in givers {
        let weight = |name: &&str| all.get(name).map(|(_, weight)| *weight);
        if giver
            .types
            .iter()
            .any(|name| weight(name) == Some(giver.weight))
        {
            continue;
        }
        for name in giver.types {
            all.entry(name).or_insert((giver.price, giver.weight)).1 = giver.weight;
        }
    }
    let price = |(name, (price, _))| (name, price);
    all.into_iter().map(price).collect()
}

struct Giver<'a> {
    name: &'a str,
    weight: i32,
    types: Vec<&'a str>,
    price: f64,
}

fn giver<'a>(region: &Region, overlay: &NodeOverlay, names: &'a Symbols) -> Option<Giver<'a>> {
    let (Some(PriceChange::Set(price)), [only]) = (overlay.price, &overlay.requirements[..]) else {
        return None;
    };
    let Op::In(values) = &only.op else {
        return None;
    };
    let known =
        |value: &Symbol| Some(names.text(*value)).filter(|name| region.find(name).is_some());
    (names.text(only.key) == labels::INSTANCE_TYPE).then(|| Giver {
        name: names.text(overlay.name),
        weight: overlay.weight,
        types: values.iter().filter_map(known).collect(),
        price,
    })
}
