//! The commercial regions of AWS as they are known without a call: what each zone offers, and prices
//! that are partly estimates.
//!
//! `data/make_regions.py` makes the table again. On-demand prices are those on record for us-east-1,
//! times a factor of the region. Spot prices are a fixed share of them: nothing public says more.

use std::io::Read as _;
use std::sync::{Arc, LazyLock};

use crate::facts::{self, TypeFacts};

use super::region::{Region, Zone};

/// A spot price over the on-demand price, where nothing better is known.
pub const SPOT_SHARE: f64 = 0.4;

/// Far above what the descriptions unpack to.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;

const TABLE: &str = include_str!("../../data/regions.tsv");
static TYPES: &[u8] = include_bytes!("../../data/instance_types.json.gz");

/// Descriptions of all types. Reading them takes a tenth of a second.
static FACTS: LazyLock<Arc<[TypeFacts]>> = LazyLock::new(|| {
    let mut text = Vec::new();
    let unpacked = flate2::read::GzDecoder::new(TYPES)
        .take(MAX_UNPACKED_BYTES)
        .read_to_end(&mut text);
    match unpacked {
        Ok(_) => facts::read("instance_types.json.gz", &text).0,
        // It is compiled in, and a test reads it.
        Err(_) => Arc::default(),
    }
});

/// The region whose on-demand prices are on record.
pub const PRICED: &str = "us-east-1";

/// A region and what its prices are.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    /// The region, with a price for all that it offers.
    pub region: Region,
    /// On-demand prices over those of [`PRICED`].
    pub factor: f64,
}

impl BuiltIn {
    /// Whether on-demand prices are estimates. Spot prices always are.
    pub fn estimates_on_demand(&self) -> bool {
        self.region.name() != PRICED
    }
}

/// A line of the table that describes a region: its name, its factor, its zones with their IDs.
type Head = (&'static str, f64, Vec<(&'static str, &'static str)>);

static HEADS: LazyLock<Vec<Head>> = LazyLock::new(|| {
    let lines = TABLE
        .lines()
        .filter_map(|line| line.strip_prefix("region\t"));
    let heads = lines.filter_map(|line| {
        let mut cells = line.split('\t');
        let (name, factor) = (cells.next()?, cells.next()?.parse().ok()?);
        let zones = cells.filter_map(|zone| zone.split_once('=')).collect();
        Some((name, factor, zones))
    });
    heads.collect()
});

/// Names of the regions.
pub fn names() -> impl Iterator<Item = &'static str> {
    HEADS.iter().map(|(name, ..)| *name)
}

/// The region that a zone is in: `eu-west-1` for `eu-west-1a`, and for local zones such as
/// `us-west-2-lax-1a`.
pub fn region_of_zone(zone: &str) -> Option<&'static str> {
    names().find(|name| {
        let rest = zone.strip_prefix(name);
        rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// A region by name. `ids` are the IDs of zones in the user's account where they are known: each
/// account has its own. `types` take the place of the built-in ones; one that the table lacks is
/// offered in every zone.
pub fn region<'a>(
    name: &str,
    ids: impl Fn(&str) -> Option<&'a str>,
    types: Option<Arc<[TypeFacts]>>,
) -> Option<BuiltIn> {
    let column = HEADS.iter().position(|(own, ..)| *own == name)?;
    let (_, factor, zones) = &HEADS[column];
    let own = zones.iter().map(|(name, id)| Zone {
        name: (*name).into(),
        id: ids(name).unwrap_or(id).into(),
    });
    let offered: Vec<(&str, u64)> = TABLE
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("region\t"))
        .filter_map(|line| {
            let mut cells = line.split('\t');
            let name = cells.next()?;
            let mask = u64::from_str_radix(cells.nth(column)?, 16).ok()?;
            Some((name, mask))
        })
        .collect();
    // Both are ordered by name.
    let mask = |name: &str| {
        let at = offered.binary_search_by(|(own, _)| (*own).cmp(name)).ok()?;
        Some(offered[at].1)
    };
    let types = types.unwrap_or_else(|| {
        let offered = FACTS.iter().filter(|facts| mask(&facts.name).is_some());
        offered.cloned().collect()
    });
    let spots: rustc_hash::FxHashSet<Box<str>> = types
        .iter()
        .filter(|facts| facts.usage.spot)
        .map(|facts| facts.name.clone())
        .collect();
    let mut region = Region::new(name, own.collect(), types);
    for (name, mask) in &offered {
        let zones = zones.iter().enumerate();
        let zones = zones.filter(|(at, _)| mask >> at & 1 == 1);
        region.offer(name, zones.map(|(_, (zone, _))| *zone));
    }
    let on_demand = |name: &str| super::tables::on_demand_price(PRICED, name);
    let rounded = |price: f64| (price * 1e5).round() / 1e5;
    region.replace_on_demand(|name| Some(rounded(on_demand(name)? * factor)));
    region.replace_spot(|name, _| {
        let price = on_demand(name).filter(|_| spots.contains(name))?;
        Some(rounded(price * factor * SPOT_SHARE))
    });
    Some(BuiltIn {
        region,
        factor: *factor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_offers_types_in_all_of_its_zones_and_has_a_price_for_each() {
        assert_eq!(names().count(), 30);
        for name in names() {
            let BuiltIn { region, factor } = region(name, |_| None, None).unwrap();
            assert!(
                (1.0..2.0).contains(&factor) && region.zones().len() >= 2,
                "{name}"
            );
            assert!(region.types().len() > 200, "{name}");
            let mut zones = vec![0; region.zones().len()];
            for at in 0..region.types().len() {
                let offered: Vec<usize> = region.offered_in(at).iter().collect();
                assert!(
                    !offered.is_empty() && region.on_demand(at).is_some(),
                    "{name}"
                );
                offered.iter().for_each(|zone| zones[*zone] += 1);
            }
            assert!(zones.iter().all(|types| *types > 50), "{name}: {zones:?}");
        }
    }

    #[test]
    fn prices_follow_the_factor_and_ids_of_zones_those_of_the_account() {
        let ids = |zone: &str| (zone == "eu-west-1a").then_some("euw1-az9");
        let BuiltIn { region, factor } = region("eu-west-1", ids, None).unwrap();
        let at = region.find("m5.large").unwrap();
        let zone = region.zone("eu-west-1a").unwrap();
        assert_eq!(&*region.zones()[zone].id, "euw1-az9");
        assert_eq!((factor, region.on_demand(at)), (1.11, Some(0.10656)));
        assert_eq!(region.spot(at, zone), Some(0.04262));
        assert!(super::region("eu-west-9", |_| None, None).is_none());
    }

    #[test]
    fn a_zone_names_its_region() {
        for (zone, region) in [
            ("us-east-1f", Some("us-east-1")),
            ("us-west-2-lax-1a", Some("us-west-2")),
            ("ap-southeast-1a", Some("ap-southeast-1")),
            ("us-east-1", None),
            ("us-east-12a", None),
            ("test-zone-a", None),
        ] {
            assert_eq!(region_of_zone(zone), region, "{zone}");
        }
    }
}
