//! What can be bought from EC2, as one NodeClass sees it.
//!
//! A [`Region`] holds what all NodeClasses share: descriptions, zones, prices, what has no
//! capacity. A [`ClassCatalogue`] holds the columns that depend on the NodeClass: capacity and
//! overhead, zones with a subnet, reservations, compatibility. Prices and availability are looked
//! up in the region when offerings are listed, so a new price changes no NodeClass's columns.

pub mod amount;
pub mod answer;
pub mod built_in;
pub mod class;
pub(crate) mod class_catalogue;
mod compatibility;
mod core;
mod discovered;
pub(crate) mod images;
pub mod machine;
mod offerings;
pub mod preview;
pub(crate) mod region;
pub mod requirements;
pub mod tables;
mod unavailable;
pub mod world;

pub use self::core::CoreCatalogues;
pub use class_catalogue::ClassCatalogue;
pub use compatibility::Incompatible;
pub use discovered::{Discovered, ImageSet, LIFETIME};
pub use images::image_of;
pub use offerings::Offering;
pub use region::{Group, MAX_ZONES, PriceColumn, Region, Revisions, Zone, ZoneSet};
pub use requirements::aws::NODE_CLASS;
pub use unavailable::{Short, Unavailable, Wanted};
