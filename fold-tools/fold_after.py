import os,re,subprocess,sys
ROOT=sys.argv[1]; SRC=ROOT+'/host/daemon/src'; L=SRC+'/live/'
subprocess.run(['find',SRC,'-type','d','-empty','-delete'])
def rd(p): return open(p).read()
def wr(p,t): open(p,'w').write(t)
wr(SRC+'/live.rs','''//! The daemon behind `longshore run`, in rooms. Each knows only those before it:
//!
//! | room | answers |
//! |---|---|
//! | [`process`] | who leads, what time is it, is the loop alive? |
//! | [`observe`] | what is there? |
//! | [`journal`] | what was seen and decided? |
//! | [`policies`] | who scores, and in which version? |
//! | [`decide`] | what should change? |
//! | [`metrics`] | what is counted? |
//! | [`act`] | how does it become objects and instances, and how do these end? |
//! | [`serve`] | what can be seen from outside? |
//! | `aws` | what does EC2 do by itself? |
//! | [`controller`] | which object is reconciled, when is a round made? |
//! | [`run`](mod@run) | what is put together, real or simulated? |
//!
//! Data flows one way: `observe` reports and folds changes, `controller` has rounds decided and
//! acted on, and the watch brings back what was written. `host/ARCHITECTURE.md` follows one pod
//! through it.

pub(crate) mod act;
#[cfg(feature = "aws")]
pub mod aws;
mod controller;
pub mod decide;
pub mod journal;
mod metrics;
pub mod observe;
pub mod policies;
pub mod process;
pub mod run;
mod serve;

pub(crate) use run::run;
''')
p=ROOT+'/host/xtask/src/module_cycles.rs'
t=rd(p)
if 'ROOMS' not in t:
    t=t.replace('''mod tests {
    use super::circles;
''','''/// Uses of a room by one before it, in this order. A room is a module below `under`.
fn backward(folder: &Path, under: &str, order: &[&str]) -> Vec<String> {
    let place = |module: &Module| {
        let room = (module.first()? == under).then(|| module.get(1))??;
        let place = order.iter().position(|name| name == room);
        Some(place.unwrap_or_else(|| panic!("{under}::{room} has no place in the order of rooms")))
    };
    let mut wrong = Vec::new();
    for (module, others) in uses(folder) {
        for other in others {
            if let (Some(own), Some(used)) = (place(&module), place(&other))
                && own < used
            {
                wrong.push(format!("{} uses {}", module.join("::"), other.join("::")));
            }
        }
    }
    wrong
}

mod tests {
    use super::{backward, circles};

    /// The rooms of the live loop. Each knows only those before it.
    const ROOMS: [&str; 11] = [
        "process",
        "observe",
        "journal",
        "policies",
        "decide",
        "metrics",
        "act",
        "serve",
        "aws",
        "controller",
        "run",
    ];

    #[test]
    fn rooms_of_the_loop_know_only_those_before_them() {
        let folder = longshore_xtask::guests::root().join("host/daemon/src");
        let wrong = backward(&folder, "live", &ROOMS);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
''')
    wr(p,t)
for f,a,b in [('host/docs/design/2026-11-24-disruption.md','`disruption/decide.rs` looks on','`decide/disruption.rs` looks on')]:
    p=ROOT+'/'+f; t=rd(p); assert a in t,(f,a); wr(p,t.replace(a,b))

p=L+'act.rs'; t=rd(p)
t=t.replace('pub(in crate::live) mod events;','pub(in crate::live) mod end;\npub(in crate::live) mod events;').replace('pub mod overlay_status;','pub(in crate::live) mod launch;\npub mod overlay_status;')
wr(p,t)
p=ROOT+'/host/ARCHITECTURE.md'; t=rd(p)
a=t.index('## The live loop'); b=t.index("### One pod's way from watch to node")
t=t[:a]+'''## The live loop

All is in `daemon/src/live`, in rooms. A room knows only those above it in this table; `cargo xtask
test` holds that (`xtask/src/module_cycles.rs`).

| room | question | module |
|---|---|---|
| `process/` | who leads, and how is a write asked for? what time is it, is the loop alive, when does it end? | `leader.rs`, `connection.rs`, `step_error.rs`; `clock.rs`, `pulse.rs`, `stop.rs`, `log.rs` |
| `observe/` | what is there, what changed? what can be bought? | `watch.rs`, `state.rs`, `freshness.rs`; `offers.rs`, `overlays.rs`, `unavailable_offerings.rs` |
| `journal/` | what was seen and decided? | `record.rs`, `writer.rs`, `read.rs`, `bug_report.rs` |
| `policies/` | which policy scores, in which version? | `watch.rs`, `load.rs`, `diff.rs`, `serve.rs` |
| `decide/` | what is decided? what does a new NodeClaim say? which nodes are candidates? which pod is nominated, which node registers? | `round_input.rs`, `round.rs`, `round_timer.rs`; `claims.rs`; `disruption.rs`, `command.rs`, `staying.rs`; `rollout.rs` |
| `metrics/` | what is counted? | `../metrics.rs`, `ec2.rs`, `disruption.rs` |
| `act/` | which code writes a NodeClaim, a NodePool, an Event? what is due for a command, for an unhealthy node? | `claim_writes.rs`, `claim_conditions.rs`, `pools.rs`, `events.rs`; `disruption/`, `repair/`; `context.rs`, `work_queue.rs` |
| `act/launch/` | how does a plan become NodeClaims, and a NodeClaim a node? what was bought in vain? how many nodes has a static NodePool? | `create_claims.rs`, `launch_request.rs`, `launch_groups.rs`, `launch_backoff.rs`, `lifecycle.rs`; `useless_purchases.rs`; `static_pools.rs` |
| `act/end/` | how does a node drain and end? what keeps the cluster clean? | `termination.rs`, `drains.rs`, `proof.rs`, `finalize.rs`; `garbage.rs` |
| `serve/` | what can be seen from outside? | `http.rs`, `gauges.rs`, `explain_requests.rs` |
| `aws/` | what does EC2 do by itself? (with the feature) | `interruptions.rs`, `status_checks.rs`, `boot.rs` |
| `controller/` | is a round due? what happens with what it decided? | `apply_plan.rs`, `disruption.rs`, `repairs.rs`, `singles.rs` |
| `run/` | a real API server and cloud, or simulated ones | `environment.rs`, `../run.rs` |

What flags and variables of Karpenter mean is in `daemon/src/settings.rs`. Purchases in vain are
judged in `core/src/snapshot/useless_purchases.rs`.

'''+t[b:]
wr(p,t)
# the row of the reference of metrics stands with the metrics
p=L+'serve/reference.rs'; t=rd(p)
if 'pub struct Row' in t:
    a=t.index('/// A metric.\npub struct Row'); b=t.index('fn rows(mut rows')
    row=t[a:b].replace('    fn cells(self)','    /// As the page has it.\n    pub fn cells(self)').replace('/// A metric.\n','/// A metric, as the reference in `host/docs` has it.\n')
    t=t[:a]+t[b:]
    t=t.replace('use prometheus::proto::MetricType;\n','').replace('use crate::live::metrics;\n','use crate::live::metrics;\nuse crate::live::metrics::reference::Row;\n')
    wr(p,t)
    p=L+'metrics/reference.rs'; t=rd(p)
    t=t.replace('use crate::live::serve::reference::Row;\n','').replace('use prometheus::core::Collector;\n','use prometheus::core::Collector;\nuse prometheus::proto::MetricType;\n')
    i=t.index('/// A row for each metric that [`Metrics`] registers.')
    wr(p,t[:i]+row+t[i:])
    p=L+'serve/gauges/reference.rs'; t=rd(p)
    wr(p,t.replace('crate::live::serve::reference::Row','crate::live::metrics::reference::Row'))
