//! How many nodes commands take from NodePools, in an annotation of each, written before they go: so
//! that policies know it after a restart as well. [`longshore_core::model::disruptions`] has the text.

use std::sync::Arc;

use longshore_api::crd::NodePool;
use longshore_core::model::disruptions::DISRUPTIONS;

use super::failures;
use super::known_failures::name_of;
use crate::act::context::Context;
use crate::decide::command::{Candidate, CommandView};
use crate::observe::node_claim;
use crate::process::step_error::StepError;

/// Counts the nodes that a command is about to take, by their NodePools. A command that is carried on
/// by another process is counted once.
///
/// # Errors
/// This process leads no more.
pub async fn count(ctx: &Context, view: &CommandView) -> Result<(), StepError> {
    if view.candidates.iter().any(Candidate::is_deleting) {
        return Ok(());
    }
    let now = ctx.now().as_second();
    for (pool, nodes) in by_pool(view) {
        if let Some(next) = ctx
            .memory
            .disruption
            .disruptions
            .add(pool, &view.id, nodes, now)
        {
            failures::annotate(ctx, pool, DISRUPTIONS, next.write().into()).await?;
        }
    }
    Ok(())
}

/// The NodePools of a command's candidates, each with how many nodes go.
fn by_pool(view: &CommandView) -> impl Iterator<Item = (&NodePool, u32)> {
    let nodes = |pool: &Arc<NodePool>| {
        let candidates = view.candidates.iter();
        let of_pool = |one: &&Candidate| node_claim::pool_of(&one.claim) == name_of(pool);
        u32::try_from(candidates.filter(of_pool).count()).unwrap_or(u32::MAX)
    };
    let pools = view.own_pools.iter();
    pools.map(move |pool| (&**pool, nodes(pool)))
}
