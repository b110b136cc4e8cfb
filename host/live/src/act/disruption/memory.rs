//! What commands of disruption leave for later steps of this process.

use super::known_disruptions::KnownDisruptions;
use super::known_failures::KnownFailures;

#[derive(Default)]
pub struct DisruptionMemory {
    /// Commands that have failed.
    pub failures: KnownFailures,
    /// How many nodes of NodePools were disrupted.
    pub disruptions: KnownDisruptions,
}
