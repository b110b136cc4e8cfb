//! Garbage, both ways: claims whose instance is gone, and instances whose claim is.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::Api;
use longshore_api::crd::NodeClaim;
use longshore_cloud::Instance;

use super::context::Context;
use super::lifecycle::is_true;

/// How young an instance without a claim may be before it is taken for lost, seconds.
const LEAKED: i64 = 60;

/// Deletes registered claims whose instance is gone (`ready` has the provider IDs of nodes that are Ready, whose instance
/// is there whatever the cloud says), and instances whose claim is gone.
///
/// # Errors
/// What the server or the cloud says; what was not done is done the next time.
pub async fn collect(ctx: &Context, claims: &[Arc<NodeClaim>], ready: &BTreeSet<String>) -> Result<(), String> {
    ctx.may_write()?;
    let instances = ctx.provider.list().await.map_err(|e| e.to_string())?;
    let there: BTreeSet<&str> = instances.iter().map(|i| i.provider_id.as_str()).collect();
    for claim in claims.iter().filter(|c| c.metadata.deletion_timestamp.is_none()) {
        let Some(status) = &claim.status else { continue };
        if is_true(status, "Registered")
            && !there.contains(status.provider_id.as_str())
            && !ready.contains(&status.provider_id)
        {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            tracing::info!(nodeclaim = name, "its instance is gone; deleting NodeClaim");
            ctx.metrics.disrupted("garbage_collected", claim);
            let api: Api<NodeClaim> = Api::all(ctx.client.clone());
            let _ = api.delete(name, &kube::api::DeleteParams::default()).await;
        }
    }
    let now = ctx.now().as_second();
    let uids: BTreeSet<&str> = claims.iter().filter_map(|c| c.metadata.uid.as_deref()).collect();
    let unowned = |i: &Instance| i.claim_uid.as_deref().is_some_and(|uid| !uids.contains(uid));
    let old = |i: &Instance| i.created > 0 && now - i.created > LEAKED;
    let suspects: Vec<&Arc<Instance>> = instances.iter().filter(|i| unowned(i) && old(i)).collect();
    if suspects.is_empty() {
        return Ok(());
    }
    // Asked of the server itself: a claim may have been made since, and a watch may be behind.
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let known = api.list_metadata(&kube::api::ListParams::default()).await.map_err(|e| e.to_string())?;
    let uids: BTreeSet<&str> = known.items.iter().filter_map(|c| c.metadata.uid.as_deref()).collect();
    for instance in suspects {
        let Some(uid) = instance.claim_uid.as_deref().filter(|uid| !uids.contains(uid)) else { continue };
        tracing::warn!(provider_id = instance.provider_id, uid, "an instance without NodeClaim; deleting it");
        let _ = ctx.provider.delete(&instance.provider_id).await;
    }
    Ok(())
}
