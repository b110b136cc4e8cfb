//! Which NodeClaims' nodes boot with the user data of a policy's next version: one at first, and
//! others once that one is ready.
//!
//! Decisions are `crate::canary`'s, and the controller has them written down. Here steps of
//! NodeClaims ask before anything is launched, and the first that asks is named. It waits until that
//! is written; all others boot with the version at work meanwhile. Before a launch the NodeClaim has
//! the annotation [`BOOTS`], so a successor launches it with the same text. What may have been
//! launched already is never given another one.

use std::time::Duration;

use longshore_api::crd::NodeClaim;
use serde_json::json;

use super::boot_turns::Turn;
use super::launch_groups::{GROUP, member};
use crate::act::claim_writes::patch_meta;
use crate::act::context::Context;
use crate::policies::BOOTS;
use crate::process::step_error::StepError;

/// How long a NodeClaim waits before it is asked again whether it is written down as the first.
const WRITE_WAIT: Duration = Duration::from_secs(1);

/// What became of asking.
pub enum Asked {
    Launch,
    Later(Duration),
    /// The NodeClaim was written: another step follows.
    Written,
}

/// Has a NodeClaim boot with what it is due, before anything is launched for it.
pub async fn ask(ctx: &Context, claim: &NodeClaim) -> Result<Asked, StepError> {
    let memory = &ctx.memory.launch;
    let is_unlaunched = memory.is_unlaunched(claim, ctx.leadership.since());
    match memory.first_boots.turn(claim, is_unlaunched) {
        Turn::Launch => return Ok(Asked::Launch),
        Turn::Wait => return Ok(Asked::Later(WRITE_WAIT)),
        Turn::Mark(mark) => {
            // A launch group has one text for all.
            let group = member(claim).is_some();
            let mut annotations = json!({BOOTS: mark});
            if group {
                annotations[GROUP] = json!(null);
            }
            patch_meta(ctx, claim, json!({"annotations": annotations})).await?;
            if group {
                memory.groups.done(claim);
            }
        }
        Turn::Unmark => {
            let none = json!({"annotations": {BOOTS: null}});
            patch_meta(ctx, claim, none).await?;
        }
    }
    Ok(Asked::Written)
}
