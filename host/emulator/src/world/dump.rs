//! The state for people and tests: `GET /_emulator/world`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::World;
use crate::time::Time;

impl World {
    /// Instances, templates, profiles, subnets, reservations, queues and rules, in a fixed order.
    pub fn dump(&self, now: Time) -> Value {
        let instances = self.instances.iter().map(|(_, one)| {
            json!({
                "id": one.id,
                "state": one.state.name(),
                "instanceType": one.instance_type,
                "zone": one.zone,
                "capacityType": one.capacity_type.name(),
                "reservation": one.reservation,
                "subnet": one.subnet,
                "address": one.address,
                "image": one.image,
                "launched": one.launched.iso(),
                "clientToken": one.client_token,
                "tags": one.tags,
                "reboots": one.reboots,
                "userData": decoded(&one.user_data),
            })
        });
        let templates = self.templates.iter();
        let templates = templates.map(|(_, one)| json!({"id": one.id, "name": one.name}));
        let profiles = self.profiles.iter();
        let profiles = profiles.map(|(name, one)| json!({"name": name, "role": one.role}));
        let subnets = self.account.subnets.values();
        let subnets = subnets.map(|one| json!({"id": one.id, "freeAddresses": one.free_addresses}));
        let reservations = self.account.reservations.values();
        let reservations =
            reservations.map(|one| json!({"id": one.id, "available": one.available}));
        let shifts = self.shifts.iter().filter(|one| one.expires > now);
        let shifts = shifts.map(|one| json!({"zoneId": one.zone_id, "until": one.expires.iso()}));
        let queues = self.queues.iter();
        let queues = queues.map(|(name, queue)| json!({"name": name, "messages": queue.len()}));
        json!({
            "now": now.iso(),
            "seed": self.seed,
            "region": self.account.region,
            "queue": self.account.queue,
            "cluster": self.account.cluster.name,
            "instances": instances.collect::<Vec<_>>(),
            "launchTemplates": templates.collect::<Vec<_>>(),
            "instanceProfiles": profiles.collect::<Vec<_>>(),
            "subnets": subnets.collect::<Vec<_>>(),
            "reservations": reservations.collect::<Vec<_>>(),
            "shifts": shifts.collect::<Vec<_>>(),
            "queues": queues.collect::<Vec<_>>(),
            "capacity": self.pools.rules,
            "faults": self.faults.list(),
            "settings": self.account.settings,
        })
    }
}

/// User data as it was before it was encoded; nothing where it is not text.
fn decoded(base64: &str) -> Option<String> {
    let bytes = STANDARD.decode(base64).ok()?;
    String::from_utf8(bytes).ok()
}
