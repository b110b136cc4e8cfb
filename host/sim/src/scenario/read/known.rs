//! What the parts of a scenario have to know of each other.

use std::path::Path;
use std::time::Duration;

use super::files::Offerings;

/// What has been read before the parts.
pub(super) struct ScenarioBasics<'a> {
    pub folder: &'a Path,
    pub duration: Duration,
    pub offerings: Offerings,
    /// How many processes there are.
    pub replicas: u32,
    /// Nodes come from EC2.
    pub on_ec2: bool,
}
