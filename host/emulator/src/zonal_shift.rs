//! Zonal shifts of Application Recovery Controller: GetManagedResource of the cluster.

use serde_json::{Map, Value, json};

use crate::action::Context;
use crate::faults::Shifted;
use crate::time::{MINUTE, Time};
use crate::wire::Refusal;
use crate::world::World;
use crate::world::shift::Shift;

impl World {
    /// Begins or ends a shift. Another shift away from the same zone ends.
    pub(crate) fn shift(&mut self, now: Time, wanted: &Shifted) {
        let account = &self.account;
        let name = account.zone(&wanted.zone).unwrap_or_default();
        let zone_id = account.zones.get(name).cloned().unwrap_or_default();
        self.shifts.retain(|one| one.zone_id != zone_id);
        if wanted.minutes > 0 {
            let shift = Shift {
                id: self.chance.uuid(),
                zone_id,
                started: now,
                expires: now.plus(i64::from(wanted.minutes) * MINUTE),
            };
            self.shifts.push(shift);
        }
    }
}

/// Shifts that have expired are left out, as they are by the service.
pub(crate) fn answer(world: &World, context: &Context, path: &str) -> Result<Value, Refusal> {
    if context.action != "GetManagedResource" {
        return Err(crate::json::unknown(path).status(404));
    }
    let arn = path.trim_start_matches("/managedresources/");
    let arn = percent_encoding::percent_decode_str(arn).decode_utf8_lossy();
    let account = &world.account;
    let own = account.arn("eks", &format!("cluster/{}", account.cluster.name));
    if arn != own {
        let message = format!("The resource {arn} is not managed.");
        return Err(Refusal::new("ResourceNotFoundException", message));
    }
    let active = || world.shifts.iter().filter(|one| one.expires > context.now);
    let weight = |id: &String| {
        let shifted = active().any(|one| one.zone_id == *id);
        (id.clone(), json!(if shifted { 0.0 } else { 1.0 }))
    };
    let weights: Map<String, Value> = account.zones.values().map(weight).collect();
    let shifts = active().map(|one| {
        json!({
            "appliedStatus": "APPLIED",
            "zonalShiftId": one.id,
            "resourceIdentifier": own,
            "awayFrom": one.zone_id,
            "startTime": one.started.seconds(),
            "expiryTime": one.expires.seconds(),
            "comment": "asked for by a fault",
            "shiftType": "ZONAL_SHIFT",
        })
    });
    Ok(json!({
        "arn": own,
        "name": account.cluster.name,
        "appliedWeights": weights,
        "zonalShifts": shifts.collect::<Vec<_>>(),
        "autoshifts": [],
        "zonalAutoshiftStatus": "DISABLED",
    }))
}
