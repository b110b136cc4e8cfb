//! Policies with real components: swapped while rounds go on, and asked for what a node boots with.

mod bootstrap;
mod compile;
mod reload;
mod reload_bootstrap;
mod reload_bundles;
mod reload_cel;
mod reload_chain;
mod reload_consolidation;
mod reload_failures;
mod reload_golden;
mod reload_grants;
#[path = "reload/scene.rs"]
mod scene;
