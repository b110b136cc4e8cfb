//! Ends the nodes of instances that EC2 is about to take back, and says so in Events.

use std::sync::Arc;

use async_trait::async_trait;
use kube::api::Api;
use longshore_api::crd::NodeClaim;
use longshore_aws::interruption::{Handler, InterruptionKind};
use longshore_aws::provider::Ec2;

use super::claims::{Claims, Owner};
use crate::act::claim_writes;
use crate::act::context::Context;
use crate::observe::node_claim;
use crate::process::step_error::StepError;

/// Handles interruptions.
pub struct Interruptions {
    pub ec2: Ec2,
    pub ctx: Arc<Context>,
    pub claims: Arc<Claims>,
}

/// Attempts to delete a NodeClaim that something else writes at the same time. The message of one
/// that still fails comes again after 20 seconds, of the two minutes that a spot instance has.
const DELETE_ATTEMPTS: usize = 5;

#[async_trait]
impl Handler for Interruptions {
    fn is_foreign(&self, instance: &str) -> bool {
        self.claims.owner(instance) == Owner::Foreign
    }

    async fn trouble(&self, why: Option<&str>) {
        let events = &self.ctx.events;
        match why {
            Some(why) => {
                let message =
                    format!("{why}; until then nodes that EC2 takes back are not drained in time");
                events.own(true, "InterruptionQueueFailed", &message).await;
            }
            None => {
                let message = "the interruption queue is read again";
                events
                    .own(false, "InterruptionQueueRecovered", message)
                    .await;
            }
        }
    }

    async fn interrupted(&self, kind: InterruptionKind, instance: &str) -> Result<(), String> {
        let name = match self.claims.owner(instance) {
            Owner::Claim(name) => Some(name),
            Owner::Foreign => None,
            Owner::Unknown => {
                let found = self.ec2.claim_of(instance).await;
                found.map_err(|why| why.to_string())?
            }
        };
        let Some(name) = name else {
            return Ok(());
        };
        let message = message(kind, instance);
        match self.end(kind, instance, &name, &message).await {
            // A node that goes already ends its instance: that is no news.
            Ok(Some(claim)) if is_end(kind) && claim.metadata.deletion_timestamp.is_some() => {
                Ok(())
            }
            Ok(Some(claim)) => {
                self.say(kind, &claim, &message).await;
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(why) => Err(why.to_string()),
        }
    }
}

impl Interruptions {
    /// Deletes the NodeClaim of an instance if its node has to go. The NodeClaim, if there is one.
    async fn end(
        &self,
        kind: InterruptionKind,
        instance: &str,
        name: &str,
        message: &str,
    ) -> Result<Option<NodeClaim>, StepError> {
        let claims: Api<NodeClaim> = Api::all(self.ctx.client.clone());
        let mut attempt = 1;
        loop {
            let found = claims.get_opt(name).await?;
            // A name from EC2's tag may be that of another provider's NodeClaim.
            let of_instance = |claim: &NodeClaim| {
                if !self.ctx.managed.claim(claim) {
                    return false;
                }
                let id = node_claim::provider_id(claim).rsplit('/').next();
                // A launch that is not written down yet has no ID: its name is from EC2's tag.
                id.is_none_or(|id| id.is_empty() || id == instance)
            };
            let Some(claim) = found.filter(of_instance) else {
                return Ok(None);
            };
            if !kind.ends_node() || claim.metadata.deletion_timestamp.is_some() {
                return Ok(Some(claim));
            }
            match claim_writes::delete(&self.ctx, &claim, message).await {
                Ok(true) => {
                    self.ctx.disrupted(kind.as_str(), &claim);
                    self.terminating(&claim, message).await;
                    return Ok(Some(claim));
                }
                Ok(false) => return Ok(None),
                // It was written meanwhile.
                Err(StepError::Conflict(_)) if attempt < DELETE_ATTEMPTS => attempt += 1,
                Err(why) => return Err(why),
            }
        }
    }

    /// Says what happens to the instance.
    async fn say(&self, kind: InterruptionKind, claim: &NodeClaim, message: &str) {
        let (events, reason) = (&self.ctx.events, kind.event_reason());
        events.claim(claim, true, reason, message).await;
        if let Some(node) = node(claim) {
            events.node(node, true, reason, message).await;
        }
    }

    /// Says that the node goes for it.
    async fn terminating(&self, claim: &NodeClaim, message: &str) {
        const REASON: &str = "TerminatingOnInterruption";
        let message = format!("{message}; its node is drained and replaced");
        let events = &self.ctx.events;
        events.claim(claim, true, REASON, &message).await;
        if let Some(node) = node(claim) {
            events.node(node, true, REASON, &message).await;
        }
    }
}

fn is_end(kind: InterruptionKind) -> bool {
    matches!(
        kind,
        InterruptionKind::InstanceStopped | InterruptionKind::InstanceTerminated
    )
}

fn node(claim: &NodeClaim) -> Option<&str> {
    let status = claim.status.as_ref()?;
    (!status.node_name.is_empty()).then_some(&*status.node_name)
}

/// What EC2 says, for people.
fn message(kind: InterruptionKind, instance: &str) -> String {
    let what = match kind {
        InterruptionKind::SpotInterrupted => "takes it back within two minutes",
        InterruptionKind::RebalanceRecommendation => {
            "is likelier to take it back than other spot instances"
        }
        InterruptionKind::ScheduledChange => "plans maintenance or retirement for it",
        InterruptionKind::InstanceStopped => "stops it or has stopped it",
        InterruptionKind::InstanceTerminated => "terminates it or has terminated it",
        InterruptionKind::ReservationInterrupted => {
            "takes it back, for the reservation's owner needs it"
        }
    };
    format!("instance {instance}: EC2 {what}")
}
