//! A provider as the loop takes it: what it offers, and what it does by itself.

use std::sync::Arc;

use longshore_cloud::CloudProvider;
use longshore_core::model::Symbols;
use tokio::task::JoinSet;

use super::context::Context;
use crate::observe::offers::Offers;

/// Where nodes come from.
pub struct Cloud {
    /// What buys and ends them.
    pub provider: Arc<dyn CloudProvider>,
    /// What can be bought.
    pub offers: Arc<dyn Offers>,
    /// The table of names of what it offers.
    pub names: Symbols,
    /// How many instance types that are.
    pub types: usize,
    /// Resources that it fills in itself, beside those of every node.
    pub resources: &'static [&'static str],
    /// What it does by itself while the daemon runs.
    pub tasks: Option<Tasks>,
}

/// Runs until it is dropped.
pub type Tasks = Box<dyn FnOnce(Arc<Context>) -> JoinSet<()> + Send>;
