//! Nodes whose capacity reservation ends.
//!
//! EC2 takes the instances of a capacity block back 30 minutes before its end, so their NodeClaims
//! are deleted ten minutes earlier: nodes drain in order. An instance of any other reservation that
//! ends or is given up stays and is paid for on demand, so its NodeClaim and Node say so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use longshore_api::crd::NodeClaim;
use longshore_api::labels::CAPACITY_TYPE;
use longshore_aws::provider::Ec2;
use longshore_aws::store::KubeClasses;
use longshore_cloud::{CloudError, CloudProvider as _};
use longshore_ec2::catalogue::requirements::aws::{RESERVATION_ID, RESERVATION_TYPE};
use longshore_ec2::nodeclass::{EC2NodeClass, ReservationState};
use serde_json::{Value, json};

use crate::act::claim_writes;
use crate::act::context::Context;
use crate::observe::node_claim;
use crate::process::step_error::StepError;

/// How often NodeClaims are looked at.
const RESERVATION_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Instances that are asked about at once: calls that coincide are one.
const MAX_INSTANCES_PER_CHECK: usize = 200;
const RESERVED: &str = "reserved";
const ON_DEMAND: &str = "on-demand";
/// Value of the label `reason` of the metric of disrupted NodeClaims.
const EXPIRING: &str = "capacity_block_expiring";

/// Looks at NodeClaims of reservations, until it is dropped. For the replica that leads.
pub(super) async fn run(ec2: &Ec2, classes: &KubeClasses, ctx: &Arc<Context>) {
    let claims: Api<NodeClaim> = Api::all(ctx.client.clone());
    let reserved = format!("{CAPACITY_TYPE}={RESERVED}");
    let params = ListParams::default().labels(&reserved).match_any();
    loop {
        match claims.list(&params).await {
            Ok(found) => {
                let ending = ending(&classes.watched());
                look(ec2, ctx, &ending, found.items).await;
            }
            Err(why) => tracing::warn!(%why, "listing NodeClaims of reservations failed; retrying"),
        }
        tokio::time::sleep(RESERVATION_CHECK_INTERVAL).await;
    }
}

/// IDs of reservations that are about to take their instances back.
fn ending(classes: &[EC2NodeClass]) -> BTreeSet<String> {
    let statuses = classes.iter().filter_map(|class| class.status.as_ref());
    let all = statuses.flat_map(|status| &status.capacity_reservations);
    all.filter(|one| one.state == ReservationState::Expiring)
        .map(|one| one.id.clone())
        .collect()
}

async fn look(ec2: &Ec2, ctx: &Context, ending: &BTreeSet<String>, claims: Vec<NodeClaim>) {
    let stays =
        |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none() && ctx.managed.claim(claim);
    futures::stream::iter(claims.into_iter().filter(stays))
        .for_each_concurrent(MAX_INSTANCES_PER_CHECK, |claim| async move {
            let done = match claim.labels().get(RESERVATION_ID) {
                Some(id) if ending.contains(id) => end(ctx, &claim, id).await,
                _ => match is_on_demand(ec2, &claim).await {
                    Ok(true) => relabel(ctx, &claim).await,
                    Ok(false) => Ok(()),
                    Err(why) => Err(why),
                },
            };
            // What failed is done at the next look.
            if let Err(why) = done {
                let claim = claim.name_any();
                tracing::warn!(nodeclaim = claim, %why, "following the end of a reservation failed; retrying");
            }
        })
        .await;
}

/// Deletes the NodeClaim of an instance that EC2 takes back soon.
async fn end(ctx: &Context, claim: &NodeClaim, reservation: &str) -> Result<(), StepError> {
    let message = format!("Capacity block {reservation} ends within 40 minutes");
    if claim_writes::delete(ctx, claim, &message).await? {
        ctx.disrupted(EXPIRING, claim);
        let reason = "CapacityReservationExpiring";
        ctx.events.claim(claim, true, reason, &message).await;
    }
    Ok(())
}

/// Whether EC2 says that an instance is in no reservation.
async fn is_on_demand(ec2: &Ec2, claim: &NodeClaim) -> Result<bool, StepError> {
    let id = node_claim::provider_id(claim);
    if id.is_empty() {
        return Ok(false);
    }
    match ec2.get(id).await {
        Ok(instance) => Ok(instance
            .labels
            .get(CAPACITY_TYPE)
            .is_some_and(|of| of == ON_DEMAND)),
        // Its NodeClaim goes by itself.
        Err(CloudError::NotFound(_)) => Ok(false),
        Err(why) => Err(StepError::other(why)),
    }
}

/// Says on NodeClaim and Node that an instance is paid for on demand.
async fn relabel(ctx: &Context, claim: &NodeClaim) -> Result<(), StepError> {
    let labels = json!({
        CAPACITY_TYPE: ON_DEMAND,
        RESERVATION_ID: Value::Null,
        RESERVATION_TYPE: Value::Null,
    });
    ctx.may_write_claim(claim)?;
    // The Node first: the NodeClaim's label brings the next look here if this one ends in between.
    let node = claim.status.as_ref().map_or("", |status| &status.node_name);
    if !node.is_empty() {
        let patch = json!({"metadata": {"labels": labels}});
        match ctx.patch_node(node, &patch).await {
            Ok(()) | Err(StepError::Gone) => {}
            Err(why) => return Err(why),
        }
    }
    claim_writes::patch_meta(ctx, claim, json!({"labels": labels})).await?;
    tracing::info!(
        nodeclaim = claim.name_any(),
        "reservation has ended; instance relabelled on-demand"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use longshore_ec2::catalogue::requirements::aws::RESERVATION_INTERRUPTIBLE;

    use super::*;
    use crate::test_cluster::{context, fresh};

    #[tokio::test]
    async fn a_claim_without_its_reservation_is_on_demand() {
        let (server, claim) = fresh();
        let ctx = context(&server, Err(CloudError::Other("not asked".into())));
        let reserved = json!({"labels": {
            CAPACITY_TYPE: RESERVED, RESERVATION_ID: "cr-1", RESERVATION_TYPE: "default",
            RESERVATION_INTERRUPTIBLE: "false",
        }});
        claim_writes::patch_meta(&ctx, &claim, reserved)
            .await
            .unwrap();
        relabel(&ctx, &server.claim().unwrap()).await.unwrap();
        let labels: Vec<String> = server
            .claim()
            .unwrap()
            .labels()
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        expect_test::expect![[r#"
            karpenter.k8s.aws/capacity-reservation-interruptible=false
            karpenter.sh/capacity-type=on-demand
            karpenter.sh/nodepool=web"#]]
        .assert_eq(&labels.join("\n"));
    }

    #[tokio::test]
    async fn another_providers_node_and_claim_are_not_relabelled() {
        let (server, mut claim) = fresh();
        let ctx = context(&server, Err(CloudError::Other("not asked".into())));
        let before = server.claim().unwrap();
        claim.spec.node_class_ref.group = "eks.amazonaws.com".to_owned();
        assert!(relabel(&ctx, &claim).await.is_err());
        assert!(end(&ctx, &claim, "cr-1").await.is_err());
        assert_eq!(server.claim().unwrap().metadata, before.metadata);
    }

    #[tokio::test]
    async fn the_claim_of_a_block_that_ends_is_deleted() {
        let (server, claim) = fresh();
        let ctx = context(&server, Err(CloudError::Other("not asked".into())));
        end(&ctx, &claim, "cr-1").await.unwrap();
        assert!(server.is_claim_deleted());
        assert!(ctx.metrics.text().contains(EXPIRING));
    }

    #[test]
    fn blocks_that_expire_are_those_of_every_class() {
        let class = |name: &str, id: &str, state: &str| -> EC2NodeClass {
            let reservation = json!({
                "id": id, "availabilityZone": "us-east-1a", "instanceType": "p5.48xlarge",
                "instanceMatchCriteria": "targeted", "ownerID": "123456789012",
                "reservationType": "capacity-block", "state": state,
            });
            serde_json::from_value(json!({
                "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
                "metadata": {"name": name},
                "spec": {
                    "subnetSelectorTerms": [{"id": "subnet-1"}],
                    "securityGroupSelectorTerms": [{"id": "sg-1"}],
                    "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "node",
                },
                "status": {"capacityReservations": [reservation]},
            }))
            .unwrap()
        };
        let all = [
            class("a", "cr-1", "expiring"),
            class("b", "cr-2", "active"),
            class("c", "cr-3", "expiring"),
        ];
        let ids: Vec<String> = ending(&all).into_iter().collect();
        assert_eq!(ids, ["cr-1", "cr-3"]);
    }
}
