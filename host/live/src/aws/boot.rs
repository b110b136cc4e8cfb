//! The bootstrap policies in force, as the provider asks them.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_aws::boot::Bootstrap;
use longshore_ec2::bootstrap::Joins;
use longshore_ec2::catalogue::{ClassCatalogue, Region};
use longshore_ec2::launch::BootTexts;
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::Boot;

use crate::policies::LiveBootstrap;

impl Bootstrap for LiveBootstrap {
    fn version(&self) -> u64 {
        LiveBootstrap::version(self)
    }

    fn count(
        &self,
        region: &Region,
        catalogue: &mut ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
    ) {
        LiveBootstrap::count(self, region, catalogue, class, joins);
    }

    fn render(
        &self,
        region: &Region,
        catalogue: &ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
        boot: &Boot,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Option<Arc<BootTexts>>, String> {
        LiveBootstrap::render(self, region, catalogue, class, joins, boot, annotations)
    }
}
