//! Faults that are asked for while the emulator runs: `POST /_emulator/faults`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::wire::{Refusal, Service};
use crate::world::pools::Rule;

/// One entry of the list that is posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Wanted {
    /// How much a kind of pool has from now on.
    Capacity(Rule),
    /// What is left of EC2's rate limits, 0 to 1: others in the account take the rest. 0 refuses
    /// every call that matches.
    Throttle(Rated),
    /// A reply comes later.
    Delay(Delayed),
    /// An error instead of a reply.
    Error(Failing),
    /// The connection ends without a reply.
    Drop(Dropped),
    /// Another body, or only its beginning.
    Body(Garbled),
    /// Warns of the end of an instance and ends it.
    Interrupt(Interrupted),
    /// An instance fails a status check, or EC2 plans an event for it.
    Impair(Impaired),
    /// Shifts traffic away from a zone.
    Shift(Shifted),
    /// A capacity reservation ends; its instances run on, and are paid for on demand.
    EndReservation(EndedReservation),
    /// Puts a body into the queue as it is.
    Message(Message),
    /// Changes how long reads lag: least and most milliseconds.
    Lag(i64, i64),
}

/// Which calls a fault meets. What is left out stands for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Matching {
    /// `ec2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// `CreateFleet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Text in the body of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Calls that are let pass first.
    pub skip: u32,
    /// Calls that are met; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The share of calls that is met, 0 to 1; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

macro_rules! fault {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// Which calls.
            #[serde(default)]
            pub on: Matching,
            $($(#[$field_doc])* pub $field: $type,)*
        }
    };
}

fault!(
    /// What is left of a limit.
    Rated {
        /// 0 to 1.
        share: f64,
    }
);
fault!(
    /// A delay.
    Delayed {
        /// How long.
        milliseconds: u32,
    }
);
fault!(
    /// An error.
    Failing {
        /// Before or after the call has changed the world.
        when: When,
        /// `InternalError`.
        code: String,
        /// For people.
        #[serde(default)]
        message: String,
        /// The status of HTTP; `None`: the usual one of the code.
        #[serde(default)]
        status: Option<u16>,
    }
);
fault!(
    /// A dropped reply.
    Dropped {
        /// Before or after the call has changed the world.
        when: When,
    }
);
fault!(
    /// A reply that is not the service's.
    Garbled {
        /// The body that takes its place.
        #[serde(default)]
        body: Option<String>,
        /// How many bytes of the service's body are left.
        #[serde(default)]
        bytes: Option<usize>,
        /// The status; `None`: the service's.
        #[serde(default)]
        status: Option<u16>,
    }
);

/// Before or after the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// Nothing has changed.
    Before,
    /// Everything has changed.
    After,
}

/// The end of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interrupted {
    /// `i-…`.
    pub instance: String,
    /// What is published.
    #[serde(default)]
    pub kind: InterruptionNotice,
    /// From the warning to the end; `None`: 120.
    #[serde(default)]
    pub after_seconds: Option<u32>,
}

/// What is published about an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InterruptionNotice {
    /// A spot interruption warning, then the end.
    #[default]
    Spot,
    /// A rebalance recommendation; the instance stays.
    Rebalance,
    /// The warning of an interruptible reservation, then the end.
    Reservation,
    /// A health event; the instance stays.
    ScheduledChange,
}

impl InterruptionNotice {
    pub(crate) fn name(self) -> &'static str {
        match self {
            InterruptionNotice::Spot => "spot",
            InterruptionNotice::Rebalance => "rebalance",
            InterruptionNotice::Reservation => "reservation",
            InterruptionNotice::ScheduledChange => "scheduledChange",
        }
    }
}

/// A failing check or a planned event of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Impaired {
    /// `i-…`.
    pub instance: String,
    /// `instance`, `system`, `none`; or the code of an event, such as `instance-retirement`.
    pub check: String,
}

/// A zonal shift.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shifted {
    /// The zone, by name or ID.
    pub zone: String,
    /// How long; 0 ends a shift away from the zone.
    pub minutes: u32,
}

/// The end of a capacity reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndedReservation {
    /// `cr-…`.
    pub reservation: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Message {
    pub body: String,
    /// How often; `None`: once.
    #[serde(default)]
    pub copies: Option<u32>,
}

/// Why a list of faults is refused. None of it is in force then.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FaultError {
    #[error("cannot read the list of faults: {0}")]
    Unreadable(String),
    #[error("fault {at}: {what}")]
    Wrong { at: usize, what: String },
}

/// Faults that meet calls, in the order in which they were asked for.
#[derive(Debug, Default)]
pub struct Faults {
    active: Vec<Active>,
}

#[derive(Debug)]
struct Active {
    wanted: Wanted,
    skipped: u32,
    met: u32,
}

/// What faults do to one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Met {
    /// What is left of the rate limit.
    pub share: Option<f64>,
    pub delay: i64,
    pub before: Option<Refusal>,
    pub after: Option<Refusal>,
    pub drop: Option<When>,
    pub body: Option<Garbled>,
    /// For the log.
    pub names: Vec<String>,
}

impl Faults {
    /// The faults in force, for people.
    pub(crate) fn list(&self) -> Vec<Value> {
        let one = |active: &Active| json!({"fault": active.wanted, "met": active.met});
        self.active.iter().map(one).collect()
    }

    /// Puts a fault that meets calls in force.
    pub(crate) fn add(&mut self, wanted: Wanted) {
        self.active.push(Active {
            wanted,
            skipped: 0,
            met: 0,
        });
    }

    /// Ends them all.
    pub(crate) fn clear(&mut self) {
        self.active.clear();
    }

    /// What meets a call.
    pub(crate) fn meet(
        &mut self,
        service: Service,
        action: &str,
        body: &str,
        chance: &mut Chance,
    ) -> Met {
        let mut met = Met::default();
        for active in &mut self.active {
            if active.meets(service, action, body, chance) {
                met.add(&active.wanted);
            }
        }
        met
    }
}

impl Active {
    fn meets(&mut self, service: Service, action: &str, body: &str, chance: &mut Chance) -> bool {
        let Some(on) = self.wanted.on() else {
            return false;
        };
        let fits = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|w| w == own);
        let here = fits(&on.service, service.name())
            && fits(&on.action, action)
            && on
                .contains
                .as_deref()
                .is_none_or(|text| body.contains(text));
        if !here || on.times.is_some_and(|times| self.met >= times) {
            return false;
        }
        if self.skipped < on.skip {
            self.skipped += 1;
            return false;
        }
        let meets = on
            .probability
            .is_none_or(|probability| chance.unit() < probability);
        self.met += u32::from(meets);
        meets
    }
}

impl Wanted {
    pub(crate) fn on(&self) -> Option<&Matching> {
        match self {
            Wanted::Throttle(one) => Some(&one.on),
            Wanted::Delay(one) => Some(&one.on),
            Wanted::Error(one) => Some(&one.on),
            Wanted::Drop(one) => Some(&one.on),
            Wanted::Body(one) => Some(&one.on),
            _ => None,
        }
    }
}

impl Met {
    fn add(&mut self, wanted: &Wanted) {
        match wanted {
            Wanted::Throttle(one) => {
                self.share = Some(self.share.unwrap_or(1.0).min(one.share));
                self.names.push("throttle".to_owned());
            }
            Wanted::Delay(one) => {
                self.delay += i64::from(one.milliseconds);
                self.names.push("delay".to_owned());
            }
            Wanted::Error(one) => {
                let refusal = Refusal::new(&*one.code, &*one.message);
                let status = one.status.unwrap_or(refusal.status);
                let slot = match one.when {
                    When::Before => &mut self.before,
                    When::After => &mut self.after,
                };
                slot.get_or_insert(refusal.status(status));
                self.names
                    .push(format!("error {:?}", one.when).to_lowercase());
            }
            Wanted::Drop(one) => {
                self.drop.get_or_insert(one.when);
                self.names
                    .push(format!("drop {:?}", one.when).to_lowercase());
            }
            Wanted::Body(one) => {
                self.body.get_or_insert_with(|| one.clone());
                self.names.push("body".to_owned());
            }
            _ => {}
        }
    }
}
