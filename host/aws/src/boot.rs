//! What nodes boot with in place of the built-in user data.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_ec2::bootstrap::Joins;
use longshore_ec2::catalogue::{ClassCatalogue, Region};
use longshore_ec2::launch::BootTexts;
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::Boot;

/// A bootstrap policy. What it answers is checked already: something else takes the place of an answer
/// that nodes cannot boot with.
pub trait Bootstrap: Send + Sync {
    /// Tells one state of it from the next: what it answered before may be another answer now.
    fn version(&self) -> u64;

    /// Has the catalogue of a class count with what its nodes keep back.
    fn count(
        &self,
        region: &Region,
        catalogue: &mut ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
    );

    /// User data for nodes of a class; nothing for the built-in. `boot` is the node to come before
    /// the DNS address and the number of pods are added; `annotations` are the NodeClaim's.
    ///
    /// # Errors
    /// No node may be launched now: why.
    fn render(
        &self,
        region: &Region,
        catalogue: &ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
        boot: &Boot,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Option<Arc<BootTexts>>, String>;
}
