//! What actors have in common: the cluster as they see it, what is due, and how they write.

use std::time::Duration;

use serde_json::Value;

use super::controllers::template::Hashes;
use super::timing::Timing;
use super::view::View;
use super::work::Work;
use crate::clock::Clock;
use crate::event_queue::EventQueue;
use crate::fields;
use crate::keyed_rng::{self, KeyedRng};
use crate::log::Log;
use crate::object::{Key, Resource, Subresource};
use crate::server::{DeleteOptions, Server};

/// What actors have in common.
pub struct ActorContext {
    /// The API server.
    pub server: Server,
    /// The time.
    pub clock: Clock,
    pub chance: KeyedRng,
    /// How long things take.
    pub timing: Timing,
    /// The cluster, up to the last change.
    pub view: View,
    /// What is due.
    pub event_queue: EventQueue<Work>,
    pub log: Log,
    /// Pods made so far, for their names.
    made: u64,
    /// Of pod templates.
    pub hashes: Hashes,
}

impl ActorContext {
    /// That of a cluster that has not begun.
    pub fn new(server: Server, clock: Clock, seed: u64, timing: Timing, log: Log) -> Self {
        ActorContext {
            server,
            clock,
            chance: KeyedRng(seed),
            timing,
            view: View::default(),
            event_queue: EventQueue::default(),
            log,
            made: 0,
            hashes: Hashes::default(),
        }
    }

    /// Asks for something as soon as a controller would get to it.
    pub fn soon(&mut self, work: Work) {
        self.event_queue
            .once(self.clock.elapsed() + self.timing.controllers, work);
    }

    /// Asks for something after a while.
    pub fn after(&mut self, wait: Duration, work: Work) {
        self.event_queue.at(self.clock.elapsed() + wait, work);
    }

    /// Enqueues an object for its controller.
    pub fn reconcile(&mut self, key: Key) {
        self.soon(Work::Reconcile(key));
    }

    /// The time of day as objects have it.
    pub fn stamp(&self) -> String {
        fields::stamp(self.clock.now())
    }

    /// A name that begins with `base`, as controllers give to their pods.
    pub fn name(&mut self, base: &str) -> String {
        self.made += 1;
        format!(
            "{base}{}",
            keyed_rng::suffix(self.chance.draw(base, &self.made.to_string()))
        )
    }

    /// Makes an object. A refusal is logged: controllers try again when something changes.
    pub fn create(&mut self, resource: Resource, object: Value) -> bool {
        let what = format!("{} {}", resource.kind, fields::name(&object));
        match self.server.create(resource, object) {
            Ok(_) => true,
            Err(refusal) => {
                self.log.say(
                    self.clock,
                    format!("{what} could not be made: {}", refusal.message),
                );
                false
            }
        }
    }

    /// Changes an object; one that is gone is left alone.
    pub fn update(&mut self, key: &Key, sub: Subresource, mut change: impl FnMut(&mut Value)) {
        if let Err(refusal) = self.server.update(key, sub, &mut change)
            && refusal.code != 404
        {
            let what = format!("{} {}", key.resource.kind, key.name);
            self.log.say(
                self.clock,
                format!("{what} could not be changed: {}", refusal.message),
            );
        }
    }

    /// Sets fields of an object's status, where they differ.
    pub fn set_status(&mut self, key: &Key, fields: &[(&str, Value)]) {
        let Some(object) = self.view.get(key) else {
            return;
        };
        if fields
            .iter()
            .all(|(field, value)| object["status"].get(field).unwrap_or(&Value::Null) == value)
        {
            return;
        }
        self.update(key, Subresource::Status, |object| {
            let status = fields::map_at(object, "status");
            for (field, value) in fields {
                match value {
                    Value::Null => drop(status.as_object_mut().and_then(|s| s.remove(*field))),
                    value => status[*field] = value.clone(),
                }
            }
        });
    }

    /// Deletes an object, with its grace period.
    pub fn delete(&mut self, key: &Key) {
        self.delete_with(key, DeleteOptions::default());
    }

    /// Deletes an object at once.
    pub fn force(&mut self, key: &Key) {
        self.delete_with(
            key,
            DeleteOptions {
                grace: Some(0),
                ..DeleteOptions::default()
            },
        );
    }

    /// Deletes an object as these options say.
    pub fn delete_with(&mut self, key: &Key, options: DeleteOptions) {
        if let Err(refusal) = self.server.delete(key, &options)
            && refusal.code != 404
        {
            let what = format!("{} {}", key.resource.kind, key.name);
            self.log.say(
                self.clock,
                format!("{what} could not be deleted: {}", refusal.message),
            );
        }
    }
}
