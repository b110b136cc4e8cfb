//! What a region offers: types, zones, prices, and what lately had no capacity. Shared by all
//! NodeClasses.
//!
//! Every part is a column by type that copies share, so that a refreshed part costs its own column
//! and nothing else. [`Revisions`] say which parts have changed.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::facts::TypeFacts;

use super::discovered::Discovered;
use super::machine::Settings;
use super::tables;
use super::unavailable::Unavailable;

/// A zone of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// `us-east-1a`, which differs from account to account.
    pub name: Box<str>,
    /// `use1-az1`, which does not.
    pub id: Box<str>,
}

/// A set of zones: bit `i` is the zone with index `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ZoneSet(u64);

/// Most zones in a region, local ones included. us-east-1, the largest, has fewer than 30.
pub const MAX_ZONES: usize = 64;

impl ZoneSet {
    /// The first `count` zones.
    pub fn first(count: usize) -> Self {
        match count {
            0..64 => ZoneSet((1 << count) - 1),
            _ => ZoneSet(u64::MAX),
        }
    }

    /// Adds a zone.
    pub fn insert(&mut self, zone: usize) {
        self.0 |= 1u64.checked_shl(zone as u32).unwrap_or(0);
    }

    /// Whether a zone is in it.
    pub fn contains(self, zone: usize) -> bool {
        zone < 64 && self.0 >> zone & 1 == 1
    }

    /// Zones in both.
    pub fn and(self, other: ZoneSet) -> Self {
        ZoneSet(self.0 & other.0)
    }

    /// Its zones, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |zone| self.contains(*zone))
    }
}

/// Prices of one zone or of the region by type, USD per hour.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceColumn(Arc<[f64]>);

impl PriceColumn {
    fn new(prices: impl Iterator<Item = Option<f64>>) -> Self {
        PriceColumn(prices.map(|price| price.unwrap_or(f64::NAN)).collect())
    }

    /// The price of a type, if it is known.
    pub fn get(&self, at: usize) -> Option<f64> {
        self.0.get(at).copied().filter(|price| !price.is_nan())
    }

    fn set(&mut self, at: usize, price: Option<f64>) {
        if let Some(cell) = Arc::make_mut(&mut self.0).get_mut(at) {
            *cell = price.unwrap_or(f64::NAN);
        }
    }
}

/// Spot prices.
#[derive(Clone, Debug, PartialEq)]
enum Spot {
    /// No answer yet: the on-demand price holds in every zone.
    Unknown,
    /// By zone. What has no price cannot be bought.
    Known(Vec<PriceColumn>),
}

/// A placement group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `pg-…`.
    pub id: Box<str>,
    /// The name that its account gave it.
    pub name: Box<str>,
    /// `cluster`, `spread` or `partition`.
    pub strategy: Box<str>,
    /// Its partitions, 0 unless the strategy is `partition`.
    pub partitions: i64,
}

/// Counts that grow with every change of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revisions {
    /// Descriptions, and where types are offered.
    pub types: u64,
    /// Prices, on-demand and spot.
    pub prices: u64,
    /// What has no capacity, zones that are shifted away from, what is left in reservations.
    pub capacity: u64,
    /// Memory that nodes were seen with.
    pub memory: u64,
}

/// What all NodeClasses of a region share: types, zones, prices, and what has no capacity.
#[derive(Clone, Debug)]
pub struct Region {
    pub(super) name: Arc<str>,
    pub(super) zones: Arc<[Zone]>,
    pub(super) facts: Arc<[TypeFacts]>,
    pub(super) network: Arc<[Option<tables::NetworkRow>]>,
    pub(super) offered: Arc<[ZoneSet]>,
    on_demand: PriceColumn,
    spot: Spot,
    /// What NodeOverlays give to types without a price; see [`super::preview`].
    preview: PriceColumn,
    /// Placement groups of the account.
    pub groups: Arc<[Group]>,
    /// Settings of the process.
    pub settings: Settings,
    /// What lately had no capacity.
    unavailable: Unavailable,
    /// IDs of zones that traffic is shifted away from.
    shifted: Arc<[Box<str>]>,
    /// Memory that nodes were seen with.
    discovered: Discovered,
    /// Instances left in capacity reservations, by id.
    free: FxHashMap<Box<str>, u32>,
    revisions: Revisions,
}

impl Region {
    /// A region with the recorded prices, all types offered in all zones. Types are those of
    /// [`crate::facts::read`], ordered by name; of more than [`MAX_ZONES`] zones the first count.
    pub fn new(name: &str, mut zones: Vec<Zone>, facts: Arc<[TypeFacts]>) -> Self {
        zones.sort_by(|a, b| a.name.cmp(&b.name));
        zones.truncate(MAX_ZONES);
        let everywhere = ZoneSet::first(zones.len());
        Region {
            name: name.into(),
            network: facts
                .iter()
                .map(|facts| tables::network(&facts.name))
                .collect(),
            offered: facts.iter().map(|_| everywhere).collect(),
            on_demand: PriceColumn::new(
                facts
                    .iter()
                    .map(|facts| tables::on_demand_price(name, &facts.name)),
            ),
            spot: Spot::Unknown,
            preview: PriceColumn::new(facts.iter().map(|_| None)),
            zones: zones.into(),
            facts,
            groups: Arc::default(),
            settings: Settings::default(),
            unavailable: Unavailable::default(),
            shifted: Arc::default(),
            discovered: Discovered::default(),
            free: FxHashMap::default(),
            revisions: Revisions::default(),
        }
    }

    /// Its name, such as `us-east-1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its zones, by name.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Its instance types, by name.
    pub fn types(&self) -> &[TypeFacts] {
        &self.facts
    }

    /// Which parts have changed how often.
    pub fn revisions(&self) -> Revisions {
        self.revisions
    }

    /// The index of a type.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.facts
            .binary_search_by(|facts| (*facts.name).cmp(name))
            .ok()
    }

    /// The index of a zone.
    pub fn zone(&self, name: &str) -> Option<usize> {
        self.zones
            .binary_search_by(|zone| (*zone.name).cmp(name))
            .ok()
    }

    /// Zones that offer a type, by its index.
    pub fn offered_in(&self, at: usize) -> ZoneSet {
        self.offered.get(at).copied().unwrap_or_default()
    }

    /// Says in which zones a type is offered. Zones and types that the region has not are passed
    /// over.
    pub fn offer<'a>(&mut self, name: &str, zones: impl Iterator<Item = &'a str>) {
        let Some(at) = self.find(name) else { return };
        let mut set = ZoneSet::default();
        zones
            .filter_map(|zone| self.zone(zone))
            .for_each(|zone| set.insert(zone));
        if self.offered[at] != set {
            Arc::make_mut(&mut self.offered)[at] = set;
            self.revisions.types += 1;
        }
    }

    /// Replaces all on-demand prices; a type that `price` does not know has none.
    pub fn replace_on_demand(&mut self, price: impl Fn(&str) -> Option<f64>) {
        self.on_demand = PriceColumn::new(self.facts.iter().map(|facts| price(&facts.name)));
        self.revisions.prices += 1;
    }

    /// Replaces all spot prices, by type and zone; what `price` does not know has none and cannot
    /// be bought.
    pub fn replace_spot(&mut self, price: impl Fn(&str, &str) -> Option<f64>) {
        let column = |zone: &Zone| {
            PriceColumn::new(
                self.facts
                    .iter()
                    .map(|facts| price(&facts.name, &zone.name)),
            )
        };
        self.spot = Spot::Known(self.zones.iter().map(column).collect());
        self.revisions.prices += 1;
    }

    /// Sets the on-demand price of an instance type in USD per hour; none where it cannot be bought so.
    pub fn set_on_demand(&mut self, name: &str, price: Option<f64>) {
        let Some(at) = self.find(name) else { return };
        if self.on_demand.get(at) != price {
            self.on_demand.set(at, price);
            self.revisions.prices += 1;
        }
    }

    /// Sets one spot price: touches the column of its zone. Before the first answer of spot prices
    /// it does nothing.
    pub fn set_spot(&mut self, name: &str, zone: &str, price: Option<f64>) {
        let Some((at, zone)) = self.find(name).zip(self.zone(zone)) else {
            return;
        };
        let Spot::Known(columns) = &mut self.spot else {
            return;
        };
        if columns[zone].get(at) != price {
            columns[zone].set(at, price);
            self.revisions.prices += 1;
        }
    }

    /// Replaces the prices of types that have none otherwise; see [`super::preview`].
    pub fn replace_preview(&mut self, price: impl Fn(&str) -> Option<f64>) {
        self.preview = PriceColumn::new(self.facts.iter().map(|facts| price(&facts.name)));
        self.revisions.prices += 1;
    }

    /// The price of the type with index `at` where it has none otherwise, of any capacity type but
    /// `reserved`.
    pub fn preview(&self, at: usize) -> Option<f64> {
        self.preview.get(at)
    }

    /// The on-demand price of the type with index `at`.
    pub fn on_demand(&self, at: usize) -> Option<f64> {
        self.on_demand.get(at)
    }

    /// The spot price of a type in a zone, both by index.
    pub fn spot(&self, at: usize, zone: usize) -> Option<f64> {
        match &self.spot {
            Spot::Unknown => self.on_demand.get(at),
            Spot::Known(columns) => columns.get(zone)?.get(at),
        }
    }

    /// The spot price in a zone, if EC2 has sent spot prices. Without them, [`Self::spot`] is the
    /// on-demand price.
    pub fn known_spot(&self, at: usize, zone: usize) -> Option<f64> {
        match &self.spot {
            Spot::Unknown => None,
            Spot::Known(columns) => columns.get(zone)?.get(at),
        }
    }

    /// What lately had no capacity.
    pub fn unavailable(&self) -> &Unavailable {
        &self.unavailable
    }

    /// Changes what lately had no capacity.
    pub fn change_unavailable(&mut self, change: impl FnOnce(&mut Unavailable)) {
        let before = self.unavailable.sequence();
        change(&mut self.unavailable);
        if self.unavailable.sequence() != before {
            self.revisions.capacity += 1;
        }
    }

    /// IDs of zones that traffic is shifted away from. Nothing is launched there.
    pub fn shifted(&self) -> &[Box<str>] {
        &self.shifted
    }

    /// Says which zones traffic is shifted away from, by ID.
    pub fn set_shifted<'a>(&mut self, ids: impl Iterator<Item = &'a str>) {
        let new: Arc<[Box<str>]> = ids.map(Box::from).collect();
        if self.shifted != new {
            self.shifted = new;
            self.revisions.capacity += 1;
        }
    }

    /// Memory that nodes were seen with.
    pub fn discovered(&self) -> &Discovered {
        &self.discovered
    }

    /// Changes what memory nodes were seen with.
    pub fn change_discovered(&mut self, change: impl FnOnce(&mut Discovered)) {
        change(&mut self.discovered);
        self.revisions.memory = self.discovered.sequence();
    }

    /// Says how many instances are left in a capacity reservation.
    pub fn set_free(&mut self, reservation: &str, count: u32) {
        if self.free.insert(reservation.into(), count) != Some(count) {
            self.revisions.capacity += 1;
        }
    }

    /// Instances left in a capacity reservation; 0 if the number is not known.
    pub fn free(&self, reservation: &str) -> u32 {
        self.free.get(reservation).copied().unwrap_or(0)
    }
}
