//! Spot placement scores as a signal: answers the policies' thread.

use std::sync::Arc;

use longshore_aws::provider::Ec2;
use longshore_aws::scores::Wanted;
use tokio::runtime::Handle;

use crate::config::ScoresEntry;
use crate::policies::{Problem, ScoresAsker};

/// What asks EC2. To be called outside of the runtime's threads.
pub(super) fn asker(ec2: &Ec2) -> Arc<ScoresAsker> {
    let (ec2, runtime) = (ec2.clone(), Handle::current());
    Arc::new(move |entry: &ScoresEntry| {
        let wanted = Wanted {
            groups: entry.types.clone(),
            target: entry.target,
        };
        let asked = runtime.block_on(ec2.placement_scores(&wanted));
        asked.map_err(|why| Problem {
            place: "EC2".into(),
            reason: why.to_string(),
            hint: "the signal keeps its last table; EC2 is asked again by itself".into(),
        })
    })
}
