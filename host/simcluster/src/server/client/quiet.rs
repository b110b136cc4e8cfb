//! Delays on the way to clients: silent watches, late watches, stopped clients.
//!
//! Each applies to one client or to all, and to one kind or to all, until a time. Lists are not
//! delayed: a client that doubts a watch can list.

use std::time::Duration;

use tokio::time::Instant;

use crate::object::Resource;

/// Whom a disturbance holds for. Nothing stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// The client, as [`Server::client`](crate::server::Server::client) has it.
    pub client: Option<String>,
    /// The kind that is watched.
    pub kind: Option<Resource>,
}

impl Whose {
    fn takes(&self, client: &str, kind: Resource) -> bool {
        self.client.as_deref().is_none_or(|own| own == client)
            && self.kind.is_none_or(|own| own == kind)
    }
}

/// What a watch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    Silent,
    /// It says everything so much later.
    Late(Duration),
}

/// All disturbances that are not over.
#[derive(Default)]
pub struct Quiet {
    watches: Vec<(Whose, Silence, Instant)>,
    /// Clients that are stopped.
    stopped: Vec<(String, Instant)>,
}

impl Quiet {
    fn add(&mut self, whose: Whose, manner: Silence, until: Instant) {
        let now = Instant::now();
        self.watches.retain(|(.., until)| *until > now);
        self.watches.push((whose, manner, until));
    }

    /// Watches say nothing before a time.
    pub fn silence(&mut self, whose: Whose, until: Instant) {
        self.add(whose, Silence::Silent, until);
    }

    /// Until a time, watches deliver each change this much later.
    pub fn delay(&mut self, whose: Whose, by: Duration, until: Instant) {
        self.add(whose, Silence::Late(by), until);
    }

    /// A client neither sends nor reads before a time.
    pub fn stop(&mut self, client: &str, until: Instant) {
        let now = Instant::now();
        self.stopped.retain(|(_, until)| *until > now);
        self.stopped.push((client.to_owned(), until));
    }

    /// Until when a client is stopped, if it is.
    pub fn stopped(&self, client: &str, now: Instant) -> Option<Instant> {
        let own = self
            .stopped
            .iter()
            .filter(|(stopped, until)| stopped == client && *until > now);
        own.map(|(_, until)| *until).max()
    }

    /// Until when a watch is silent, if it is.
    pub fn silent(&self, client: &str, kind: Resource, now: Instant) -> Option<Instant> {
        self.of(client, kind, now)
            .filter(|(manner, _)| *manner == Silence::Silent)
            .map(|(_, until)| until)
            .max()
    }

    /// By how much a watch is late, if it is, and until when.
    pub fn late(&self, client: &str, kind: Resource, now: Instant) -> Option<(Duration, Instant)> {
        let late = self
            .of(client, kind, now)
            .filter_map(|(manner, until)| match manner {
                Silence::Late(by) => Some((by, until)),
                Silence::Silent => None,
            });
        late.max()
    }

    fn of(
        &self,
        client: &str,
        kind: Resource,
        now: Instant,
    ) -> impl Iterator<Item = (Silence, Instant)> {
        let own = self
            .watches
            .iter()
            .filter(move |(whose, _, until)| *until > now && whose.takes(client, kind));
        own.map(|(_, manner, until)| (*manner, *until))
    }
}
