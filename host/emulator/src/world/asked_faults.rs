//! Faults that are asked for: whether the account has what they name, and what they change at once.

use super::World;
use super::instance::{Instance, Planned};
use super::pools::Rule;
use super::schedule::warning;
use crate::faults::{FaultError, Impaired, Wanted};
use crate::time::{HOUR, Time};
use crate::wire::Service;

impl World {
    /// Puts a list of faults in force: all of it, or none.
    pub(crate) fn add_faults(&mut self, now: Time, body: &[u8]) -> Result<usize, FaultError> {
        let wanted: Vec<Wanted> =
            serde_json::from_slice(body).map_err(|e| FaultError::Unreadable(e.to_string()))?;
        for (at, one) in wanted.iter().enumerate() {
            self.check_fault(one)
                .map_err(|what| FaultError::Wrong { at, what })?;
        }
        let count = wanted.len();
        wanted.into_iter().for_each(|one| self.add_fault(now, one));
        Ok(count)
    }

    /// Ends all faults that meet calls, and rules of capacity beyond those of the world file.
    pub(crate) fn clear_faults(&mut self) {
        self.faults.clear();
        self.pools.rules.truncate(self.account.capacity.len());
    }

    fn check_fault(&self, wanted: &Wanted) -> Result<(), String> {
        if let Some(service) = wanted.on().and_then(|on| on.service.as_deref())
            && Service::named(service).is_none()
        {
            return Err(format!("there is no service `{service}`"));
        }
        let share = |name: &str, value: Option<f64>| match value {
            Some(value) if !(0.0..=1.0).contains(&value) => {
                Err(format!("`{name}` is {value}; it goes from 0 to 1"))
            }
            _ => Ok(()),
        };
        share("probability", wanted.on().and_then(|on| on.probability))?;
        let lives = |id: &str| match self.instances.get(id) {
            Some(one) if one.state.lives() => Ok(()),
            Some(one) => Err(format!("the instance {id} is {}", one.state.name())),
            None => Err(format!("there is no instance {id}")),
        };
        match wanted {
            Wanted::Throttle(one) => share("share", Some(one.share)),
            Wanted::Interrupt(one) => lives(&one.instance),
            Wanted::Impair(one) => {
                let known = ["instance", "system", "none"].contains(&&*one.check);
                match known || PLANNED.contains(&&*one.check) {
                    true => lives(&one.instance),
                    false => Err(format!("there is no check or event `{}`", one.check)),
                }
            }
            Wanted::Shift(one) => match self.account.zone(&one.zone) {
                Some(_) => Ok(()),
                None => Err(format!("there is no zone `{}`", one.zone)),
            },
            Wanted::EndReservation(one) => {
                let known = self.account.reservations.contains_key(&one.reservation);
                let none = || format!("there is no reservation {}", one.reservation);
                known.then_some(()).ok_or_else(none)
            }
            Wanted::Capacity(rule) => self
                .check_rule(rule)
                .and(share("shortShare", rule.short_share)),
            Wanted::Lag(least, most) if *least < 0 || most < least => {
                Err(format!("a lag of {least} to {most} ms is none"))
            }
            _ => Ok(()),
        }
    }

    fn check_rule(&self, rule: &Rule) -> Result<(), String> {
        let known = |what: &str, name: &Option<String>, known: &dyn Fn(&str) -> bool| match name {
            Some(name) if !known(name) => Err(format!("there is no {what} `{name}`")),
            _ => Ok(()),
        };
        known("instance type", &rule.instance_type, &|one| {
            self.account.types.contains_key(one)
        })?;
        known("zone", &rule.zone, &|one| {
            self.account.zones.contains_key(one)
        })?;
        known("capacity type", &rule.capacity_type, &|one| {
            ["spot", "on-demand"].contains(&one)
        })
    }

    fn add_fault(&mut self, now: Time, wanted: Wanted) {
        match wanted {
            Wanted::Capacity(rule) => self.pools.rules.push(rule),
            Wanted::Lag(least, most) => self.account.settings.lag_milliseconds = (least, most),
            Wanted::Interrupt(one) => {
                let grace = warning(one.after_seconds);
                self.interrupt(now, &one.instance, one.kind.name(), grace);
            }
            Wanted::Impair(one) => self.impair(now, &one),
            Wanted::Shift(one) => self.shift(now, &one),
            Wanted::EndReservation(one) => self.end_reservation(now, &one.reservation),
            Wanted::Message(one) => {
                for _ in 0..one.copies.unwrap_or(1) {
                    let id = self.chance.uuid();
                    if let Some(queue) = self.queues.get_mut(&self.account.queue) {
                        queue.send(now, id, one.body.clone(), 0);
                    }
                }
            }
            wanted => self.faults.add(wanted),
        }
    }

    fn end_reservation(&mut self, now: Time, id: &str) {
        self.account.reservations.remove(id);
        let of = |one: &Instance| one.reservation.as_deref() == Some(id);
        let all = self.instances.iter().filter(|(_, one)| of(one));
        let all: Vec<String> = all.map(|(id, _)| id.to_owned()).collect();
        for instance in all {
            self.instances.change(now, &instance, |one| {
                one.reservation = None;
                one.market = None;
            });
        }
    }

    fn impair(&mut self, now: Time, impaired: &Impaired) {
        self.instances
            .change(now, &impaired.instance, |one| match &*impaired.check {
                "instance" => one.instance_impaired = Some(now),
                "system" => one.system_impaired = Some(now),
                "none" => {
                    one.instance_impaired = None;
                    one.system_impaired = None;
                    one.planned.clear();
                }
                code => one.planned.push(Planned {
                    code: code.to_owned(),
                    not_before: now.plus(24 * HOUR),
                }),
            });
    }
}

/// Events that EC2 plans for instances.
const PLANNED: [&str; 5] = [
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
];
