//! What happens by itself: instances start, end and are forgotten, messages are published.

use crate::event_bridge;
use crate::time::{HOUR, MINUTE, SECOND, Time};

use super::World;
use super::instance::{CapacityType, InstanceState};
use super::queue::Queue;

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An instance has started.
    Start(String),
    /// EC2 takes an instance away.
    Reclaim(String),
    /// An instance has ended.
    End(String),
    /// An instance is not described any more.
    Forget(String),
}

/// How long EC2 describes what has ended.
const DESCRIPTION_TIME: i64 = HOUR;
/// From the warning of a spot interruption to the interruption.
pub(crate) const WARNING: i64 = 2 * MINUTE;

impl World {
    /// Lets everything happen that is due.
    pub fn advance(&mut self, now: Time) {
        while let Some(entry) = self.events.first_entry() {
            let (at, _) = *entry.key();
            if at > now {
                break;
            }
            let event = entry.remove();
            self.happen(at, event);
        }
        if now.since(self.now) > 0 {
            self.now = now;
        }
        for queue in self.queues.values_mut() {
            queue.expire(now);
        }
    }

    /// When the next thing happens to an instance by itself.
    pub fn next_event(&self) -> Option<Time> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    /// When the next thing happens by itself, messages that become visible included.
    pub fn next_change(&self) -> Option<Time> {
        let event = self.next_event();
        let message = self.queues.values().filter_map(Queue::next_visible).min();
        [event, message].into_iter().flatten().min()
    }

    pub(crate) fn plan(&mut self, at: Time, event: Event) {
        self.event_count += 1;
        self.events.insert((at, self.event_count), event);
    }

    fn happen(&mut self, at: Time, event: Event) {
        match event {
            Event::Start(id) => {
                if self
                    .instances
                    .get(&id)
                    .is_some_and(|one| one.state == InstanceState::Pending)
                {
                    self.set_state(at, &id, InstanceState::Running);
                }
            }
            Event::Reclaim(id) => self.shut_down(at, &id, RECLAIMED),
            Event::End(id) => self.end(at, &id),
            Event::Forget(id) => {
                self.instances.remove(at, &id);
                self.instances.sweep(at);
                self.templates.sweep(at);
                self.profiles.sweep(at);
            }
        }
    }

    /// Plans the start of a new instance and publishes that it is pending.
    pub(crate) fn launched(&mut self, now: Time, id: &str) {
        let (least, most) = self.account.settings.start_milliseconds;
        let start = now.plus(self.chance.between(least, most));
        self.plan(start, Event::Start(id.to_owned()));
        self.publish_state(now, id, InstanceState::Pending);
    }

    /// Begins the end of an instance, if it lives.
    pub(crate) fn shut_down(&mut self, now: Time, id: &str, reason: (&'static str, &'static str)) {
        if self.instances.get(id).is_none_or(|one| !one.state.lives()) {
            return;
        }
        self.instances
            .change(now, id, |one| one.reason = Some(reason));
        self.set_state(now, id, InstanceState::ShuttingDown);
        let (least, most) = self.account.settings.stop_milliseconds;
        let end = now.plus(self.chance.between(least, most));
        self.plan(end, Event::End(id.to_owned()));
    }

    /// Ends an instance and gives back what it had.
    fn end(&mut self, now: Time, id: &str) {
        let Some(one) = self.instances.get(id).cloned() else {
            return;
        };
        self.set_state(now, id, InstanceState::Terminated);
        if one.capacity_type != CapacityType::Reserved {
            let key = (
                one.instance_type.clone(),
                one.zone.clone(),
                one.capacity_type,
            );
            self.pools.give_back(&key, one.vcpus, one.pool_rule);
        }
        let reservation = one.reservation.as_ref();
        if let Some(held) = reservation.and_then(|id| self.account.reservations.get_mut(id)) {
            held.available = (held.available + 1).min(held.total);
        }
        if let Some(subnet) = self.account.subnets.get_mut(&one.subnet) {
            let addresses: u32 = one.interfaces.iter().map(|one| one.addresses).sum();
            subnet.free_addresses += addresses;
            subnet.release(&one.address);
        }
        self.plan(now.plus(DESCRIPTION_TIME), Event::Forget(id.to_owned()));
    }

    fn set_state(&mut self, now: Time, id: &str, state: InstanceState) {
        self.instances.change(now, id, |one| one.state = state);
        self.publish_state(now, id, state);
    }

    fn publish_state(&mut self, now: Time, id: &str, state: InstanceState) {
        if self.account.settings.state_changes {
            let detail = serde_json::json!({"instance-id": id, "state": state.name()});
            self.publish(now, event_bridge::STATE_CHANGE, id, detail);
        }
    }

    /// Puts an event of EventBridge into the account's queue, as a rule with that target does.
    pub(crate) fn publish(
        &mut self,
        now: Time,
        kind: (&str, &str),
        instance: &str,
        detail: serde_json::Value,
    ) {
        let id = self.chance.uuid();
        let body = event_bridge::event(&self.account, now, &id, kind, instance, detail);
        let message = self.chance.uuid();
        if let Some(queue) = self.queues.get_mut(&self.account.queue) {
            queue.send(now, message, body, 0);
        }
    }

    /// Takes an instance away after a warning. Fails if there is none that lives.
    pub(crate) fn interrupt(&mut self, now: Time, id: &str, kind: &str, grace: i64) -> bool {
        if self.instances.get(id).is_none_or(|one| !one.state.lives()) {
            return false;
        }
        let action = serde_json::json!({"instance-id": id, "instance-action": "terminate"});
        let plain = serde_json::json!({"instance-id": id});
        let ends = match kind {
            "spot" => {
                self.publish(now, event_bridge::SPOT_WARNING, id, action);
                true
            }
            "reservation" => {
                self.publish(now, event_bridge::RESERVATION_WARNING, id, action);
                true
            }
            "rebalance" => {
                self.publish(now, event_bridge::REBALANCE, id, plain);
                false
            }
            _ => {
                let detail = event_bridge::scheduled_change(&self.account, now, id);
                self.publish(now, event_bridge::HEALTH, id, detail);
                false
            }
        };
        if ends {
            self.plan(now.plus(grace), Event::Reclaim(id.to_owned()));
        }
        true
    }
}

/// Why EC2 ended an instance.
const RECLAIMED: (&str, &str) = (
    "Server.SpotInstanceTermination",
    "Spot instance termination: capacity was reclaimed",
);
/// Why a client ended an instance.
pub(crate) const USER: (&str, &str) = ("Client.UserInitiatedShutdown", "User initiated shutdown");

/// How long a warning is, in seconds, as faults give it.
pub(crate) fn warning(seconds: Option<u32>) -> i64 {
    seconds.map_or(WARNING, |seconds| i64::from(seconds) * SECOND)
}
