//! Follows zonal shifts, and tells NodePools of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::{Api, ListParams};
use longshore_api::crd::NodePool;
use longshore_aws::provider::Ec2;
use longshore_aws::zonal_shift::POLL_INTERVAL;

use crate::act::context::Context;

/// Asks for shifts, until it is dropped. Every replica does, so that one that takes over launches
/// nothing in a zone that is shifted away from; the leader writes Events.
pub(super) async fn follow(ec2: &Ec2, ctx: &Arc<Context>) {
    let mut said = BTreeSet::new();
    loop {
        if ctx.leadership.is_leader() {
            let shifted: BTreeSet<String> = ec2.shifted_zones().into_iter().collect();
            if shifted != said {
                tell(ctx, &said, &shifted).await;
                said = shifted;
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        match ec2.refresh_shifts().await {
            Ok(changes) => {
                for zone in &changes.begun {
                    tracing::warn!(zone, "traffic is shifted away; nothing is launched there");
                }
                for zone in &changes.ended {
                    tracing::info!(zone, "the zonal shift is over");
                }
            }
            Err(error) => tracing::warn!(
                error = error.with_hint(),
                "reading zonal shifts failed; the last ones count"
            ),
        }
    }
}

/// Writes an Event for each zone and each NodePool of EC2.
async fn tell(ctx: &Context, before: &BTreeSet<String>, now: &BTreeSet<String>) {
    let pools: Api<NodePool> = Api::all(ctx.client.clone());
    let pools = match pools.list(&ListParams::default().match_any()).await {
        Ok(found) => found.items,
        Err(why) => {
            tracing::warn!(%why, "listing NodePools failed; no Event of zonal shifts is written");
            return;
        }
    };
    for pool in pools.iter().filter(|pool| ctx.managed.pool(pool)) {
        for zone in now.difference(before) {
            let message = format!(
                "Traffic is shifted away from zone {zone}: no node is launched there, and instances \
                 there are left alone"
            );
            ctx.events
                .pool(pool, true, "ZonalShiftActive", &message)
                .await;
        }
        for zone in before.difference(now) {
            let message = format!("The zonal shift away from zone {zone} is over");
            ctx.events
                .pool(pool, false, "ZonalShiftCleared", &message)
                .await;
        }
    }
}
