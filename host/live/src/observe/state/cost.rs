//! What the nodes of a cluster cost.

/// What the nodes of all NodePools cost at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Sum of the nodes' prices, USD per hour.
    pub usd: f64,
    /// Cores that the pods on these nodes request.
    pub cores: f64,
    /// How many nodes there are.
    pub nodes: usize,
    /// Nodes without a known price.
    pub unpriced: usize,
}

impl Cost {
    /// USD per hour and requested core.
    pub fn per_core(&self) -> Option<f64> {
        (self.cores > 0.0).then(|| self.usd / self.cores)
    }
}
