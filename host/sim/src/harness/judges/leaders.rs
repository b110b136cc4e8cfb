//! Only the holder of the Lease writes.

use crate::actors::fields;
use crate::faults::LATEST;
use crate::harness::desk::Desk;
use crate::server::{Asked, resources};

/// A holder acts for 10 s after its last renewal, and others take over after 15 s. So what it sends last has 5 s to
/// arrive before it can lose the Lease; what is under way for longer ([`LATEST`]) arrives so much later at most, and
/// nobody can call it back. Milliseconds, with a tenth of a second for clocks in whole milliseconds.
const UNDER_WAY: i64 = LATEST.as_millis() as i64 - 5_000 + 100;

/// A write is about to be carried out.
pub(in crate::harness) fn write(desk: &Desk, asked: &Asked) {
    // Who competes for the Lease does not hold it. An Event changes nothing that anybody acts on.
    let Some(resource) = asked.resource.filter(|r| ![resources::LEASE, resources::EVENT].contains(r)) else { return };
    if !desk.elects {
        return;
    }
    let lease = desk.server.get(&fields::key(resources::LEASE, "kube-system", "karpenter-leader-election"));
    let holder = lease.as_deref().map_or("", |lease| fields::text(lease, "/spec/holderIdentity"));
    if holder == asked.who {
        return;
    }
    let taken = lease.as_deref().and_then(|lease| fields::time(lease, "/spec/acquireTime"));
    let since = taken.map_or(i64::MAX, |at| desk.clock.now().as_millisecond() - at.as_millisecond());
    if holder.is_empty() || since > UNDER_WAY {
        let what = format!("{} {}", asked.verb, resource.plural);
        let held = if holder.is_empty() { "nobody holds the Lease".to_owned() } else { format!("{holder} leads") };
        desk.violated(format!("{} does not lead ({held}), and its {what} {} is carried out", asked.who, asked.name));
    }
}
