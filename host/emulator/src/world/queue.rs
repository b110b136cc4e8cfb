//! A queue: messages with visibility, redelivery and retention.

use std::collections::{BTreeMap, VecDeque};

use crate::time::{SECOND, Time};

/// How long a message is kept: what Karpenter's template sets.
pub(crate) const RETENTION: i64 = 300 * SECOND;

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub id: String,
    pub body: String,
    pub sent: Time,
    pub first: Option<Time>,
    pub received: u32,
}

#[derive(Debug, Default)]
pub struct Queue {
    /// By the time from which they are visible.
    messages: BTreeMap<(Time, u64), Message>,
    /// From when each is visible.
    visible: BTreeMap<u64, Time>,
    by_age: VecDeque<(Time, u64)>,
    count: u64,
}

impl Queue {
    /// Messages, hidden ones included.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Adds a message.
    pub fn send(&mut self, now: Time, id: String, body: String, delay: i64) {
        self.count += 1;
        let (number, from) = (self.count, now.plus(delay));
        let message = Message {
            id,
            body,
            sent: now,
            first: None,
            received: 0,
        };
        self.messages.insert((from, number), message);
        self.visible.insert(number, from);
        self.by_age.push_back((now, number));
    }

    /// When the next message can be received.
    pub fn next_visible(&self) -> Option<Time> {
        self.messages.keys().next().map(|(from, _)| *from)
    }

    /// Drops messages that are too old.
    pub fn expire(&mut self, now: Time) {
        while let Some((sent, number)) = self.by_age.front().copied() {
            if now.since(sent) <= RETENTION {
                break;
            }
            self.by_age.pop_front();
            self.delete(number);
        }
    }

    pub(crate) fn delete(&mut self, number: u64) {
        if let Some(from) = self.visible.remove(&number) {
            self.messages.remove(&(from, number));
        }
    }

    pub(crate) fn in_flight(&self, now: Time) -> usize {
        self.messages.range((now.plus(1), 0)..).count()
    }

    /// Takes one visible message and hides it until a time.
    pub(crate) fn take(&mut self, now: Time, until: Time) -> Option<(u64, Message)> {
        let entry = self.messages.first_entry()?;
        let (from, number) = *entry.key();
        if from > now {
            return None;
        }
        let mut message = entry.remove();
        message.received += 1;
        message.first.get_or_insert(now);
        self.messages.insert((until, number), message.clone());
        self.visible.insert(number, until);
        Some((number, message))
    }
}

/// A ReceiveMessage.
#[derive(Clone, Debug, PartialEq)]
pub struct Poll {
    pub(crate) queue: String,
    pub(crate) most: usize,
    pub(crate) hidden: i64,
    pub(crate) attributes: Vec<String>,
}
