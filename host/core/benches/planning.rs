//! How long it takes to plan for the pending pods of a cluster, by effort: `cargo bench -p
//! longshore-core --bench planning -- CLUSTER.json TYPES.json`. `cargo xtask bench speed` measures
//! the same as a user sees it, beside Karpenter.
#![allow(clippy::print_stdout, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

mod common;

use std::sync::Arc;
use std::time::Instant;

use longshore_core::plan::Effort;
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;

/// How often each plan is made: the least time is what it takes when nothing else runs.
const TIMES: usize = 10;

fn main() {
    let files = common::words();
    let [cluster, types] = files.as_slice() else {
        println!("planning: no cluster and no instance types were given, nothing is measured");
        return;
    };
    let snapshot = Snapshot::new(Arc::new(common::objects(cluster, types)));
    let (pods, nodes) = (snapshot.pending.len(), snapshot.nodes.len());
    for effort in [Effort::None, Effort::Quick, Effort::Normal] {
        let mut seconds = Vec::with_capacity(TIMES);
        let mut bought = (0.0, 0, 0);
        for _ in 0..TIMES {
            let begun = Instant::now();
            let plan = planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed: 0 });
            seconds.push(begun.elapsed().as_secs_f64());
            let plan = plan.unwrap_or_else(|rejected| panic!("{:?}", rejected.violations));
            bought = (plan.effective_cost, plan.claims.len(), plan.unplaced.len());
        }
        seconds.sort_by(f64::total_cmp);
        let (cost, claims, unplaced) = bought;
        println!(
            "{pods} pods on {nodes} nodes, {effort:?}: {:.1} ms at best, {:.1} ms in the middle; \
             {cost:.3} USD/h, {claims} nodes, {unplaced} pods without one",
            seconds[0] * 1e3,
            seconds[TIMES / 2] * 1e3,
        );
    }
}
