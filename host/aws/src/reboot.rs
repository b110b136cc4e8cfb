//! Reboots: how an instance whose hardware fails in a way that a reboot helps starts anew.

use longshore_cloud::{CloudError, RebootError};

use crate::error::Class;
use crate::instances::parse_provider_id;
use crate::provider::{Ec2, not_ours};
use crate::wire;

impl Ec2 {
    /// Asks EC2 to reboot an instance. EC2 accepts it at once and has no token for it: a second
    /// request reboots a second time. `operation` is for logs.
    pub(crate) async fn reboot_instance(
        &self,
        provider_id: &str,
        operation: &str,
    ) -> Result<(), RebootError> {
        let (zone, id) = parse_provider_id(provider_id).ok_or_else(|| not_ours(provider_id))?;
        self.may_touch(zone)?;
        match wire::instances::reboot(&self.inner().clients, id).await {
            Ok(()) => {
                tracing::info!(instance = id, operation, "reboot accepted");
                Ok(())
            }
            // A right that is missing does not come while pods wait for the node.
            Err(error) if error.class == Class::Unauthorized => {
                Err(RebootError::Failed(error.with_hint()))
            }
            Err(error) if error.class == Class::NotFound => {
                Err(CloudError::NotFound(format!("there is no instance {provider_id}")).into())
            }
            Err(error) => Err(CloudError::from(error).into()),
        }
    }
}
