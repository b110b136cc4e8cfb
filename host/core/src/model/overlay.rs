//! NodeOverlays: corrections of what the cloud says of instance types.

use super::requirement::Requirement;
use super::resources::ResourceId;
use super::symbols::Symbol;

/// A correction of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOverlay {
    /// `metadata.name`.
    pub name: Symbol,
    /// Which instance types, offerings and NodePools are meant.
    pub requirements: Vec<Requirement>,
    /// What becomes of prices.
    pub price: Option<PriceChange>,
    /// Resources that nodes have besides those known, in the unit of each.
    pub capacity: Vec<(ResourceId, i64)>,
    /// Where overlays meet, the greatest weight counts.
    pub weight: i32,
}

/// What becomes of a price, USD per hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriceChange {
    /// The price is replaced by this amount.
    Set(f64),
    /// The amount is added to the price; it may be negative.
    Add(f64),
    /// The price and this share of it, in percent.
    Percent(f64),
}

impl PriceChange {
    /// The changed price, at least 0.
    pub fn of(self, price: f64) -> f64 {
        match self {
            PriceChange::Set(price) => price,
            PriceChange::Add(amount) => (price + amount).max(0.0),
            PriceChange::Percent(percent) => (price * (1.0 + percent / 100.0)).max(0.0),
        }
    }
}
