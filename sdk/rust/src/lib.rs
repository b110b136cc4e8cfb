//! Write Longshore policies in Rust.
//!
//! A scorer says what every offering (instance type × zone × capacity type) costs in effect, in USD
//! per hour. It is a type with [`Scorer`], exported with [`export_scorer!`]:
//!
//! ```
//! use longshore_sdk::{About, Rows, Scorer, offerings};
//!
//! /// Makes spot look dearer than it is.
//! struct SpotSurcharge {
//!     factor: f64,
//! }
//!
//! #[derive(Default, serde::Deserialize)]
//! #[serde(default, deny_unknown_fields)]
//! struct Settings {
//!     percent: f64,
//! }
//!
//! impl Scorer for SpotSurcharge {
//!     const ABOUT: About = About {
//!         name: "spot-surcharge",
//!         version: env!("CARGO_PKG_VERSION"),
//!         summary: "Adds a surcharge to the price of spot offerings.",
//!         signals: &[],
//!         settings_schema: r#"{"type": "object", "properties": {"percent": {"type": "number"}}}"#,
//!     };
//!     type Settings = Settings;
//!
//!     fn new(settings: Settings) -> Result<Self, String> {
//!         Ok(SpotSurcharge { factor: 1.0 + settings.percent / 100.0 })
//!     }
//!
//!     fn score(&mut self) -> Result<Vec<f64>, String> {
//!         let rows = Rows::pull();
//!         let factor = |kind: &str| if kind == "spot" { self.factor } else { 1.0 };
//!         Ok(rows.iter().map(|row| row.cost * factor(row.capacity_type)).collect())
//!     }
//! }
//!
//! longshore_sdk::export_scorer!(SpotSurcharge);
//!
//! // Host-side test: no WebAssembly needed.
//! use longshore_sdk::testing::Offering;
//! let spot = Offering { capacity_type: "spot", price: 0.05, ..Offering::default() };
//! longshore_sdk::testing::with(&[spot], || {
//!     let mut scorer = SpotSurcharge::new(Settings { percent: 10.0 }).unwrap();
//!     assert_eq!(scorer.score().unwrap(), [0.05 * 1.1]);
//! });
//! ```
//!
//! Several policies may serve one NodePool. Each starts from what the one before it says
//! ([`chain::costs`], [`Row::cost`](Row)); for the first that is the list price.
//!
//! [`Bootstrap`] is the trait of a policy that says what nodes boot with.
//!
//! Columns ([`offerings`]) are the fast way: pull those that you need, keep what you derive from
//! static ones in a [`PerEdition`]. [`Rows`] is the convenient way: it pulls them all.
//!
//! A policy of consolidation is a type with [`Consolidation`], exported with
//! [`export_consolidation!`]; it reads [`nodes`], [`node_pools`], [`owners`] and [`proposals`].
//!
//! On other targets than `wasm32` the host's functions answer from [`testing`], so that
//! `cargo test` runs everywhere.

extern crate self as longshore_sdk;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
pub mod bootstrap;
mod cached;
pub mod chain;
pub mod joined;
pub mod labels;
pub mod log;
pub mod node_pool;
pub mod node_pools;
pub mod nodes;
pub mod offerings;
pub mod owners;
#[doc(hidden)]
pub mod policy;
pub mod proposals;
pub mod request;
pub mod resources;
mod rows;
mod selector;
pub mod signals;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use bootstrap::Bootstrap;
pub use cached::PerEdition;
pub use policy::{About, Commitments, Consolidation, Decision, Pool, Scorer, SignalUse};
pub use rows::{Row, Rows};
pub use selector::{Keys, Selector, glob};
