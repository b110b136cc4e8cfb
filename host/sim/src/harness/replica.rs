//! One place for a process: who dies there has a successor.

use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Names, Settings};
use longshore_daemon::live::clock::Clock;
use longshore_daemon::live::connection::{Clients, clients};
use longshore_daemon::live::edges::{Daemon, Edges, Lease, Offers, fixed};
use longshore_daemon::live::leader::Leadership;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::desk::Desk;
use super::provider::Tapped;
use super::{Begun, Setup, referee};

/// A process that is told to end is killed after this, as kubelet does it.
const GRACE: Duration = Duration::from_secs(30);

/// A place.
pub(super) struct Replica {
    pub slot: u32,
    pub desk: Arc<Desk>,
    pub setup: Setup,
    pub types: Arc<(Catalogue, Names)>,
}

impl Replica {
    /// One process after the other, for ever.
    pub async fn run(self) {
        // They do not all begin at the same moment.
        tokio::time::sleep(Duration::from_millis(700) * self.slot).await;
        loop {
            let (who, signals) = self.desk.begin();
            let daemon = Daemon::new(self.edges(&who));
            let rounds = referee::Rounds::new(daemon.rounds());
            let leadership = daemon.leadership();
            // What a process has spawned besides is stopped by its edges, which answer no more.
            let mut process = JoinSet::new();
            process.spawn(daemon.run());
            tokio::select! {
                biased;
                () = signals.killed.notified() => {}
                () = signals.terminate.notified() => {
                    leadership.retire();
                    tokio::select! {
                        biased;
                        () = signals.killed.notified() => {}
                        ended = tokio::time::timeout(GRACE, process.join_next()) => {
                            if ended.is_err() && !self.desk.server.is_stopped(&who) {
                                self.desk.violated(format!("{who} did not end within {} s", GRACE.as_secs()));
                            }
                            self.desk.ended(&who);
                        }
                    }
                }
                _ = process.join_next() => {
                    self.desk.violated(format!("{who} ended by itself"));
                    self.desk.kill(&who, ", it ended by itself");
                }
                () = rounds.watch(&self.desk, &who) => {}
            }
            rounds.look(&self.desk, &who);
            process.shutdown().await;
            tokio::time::sleep(self.setup.restart).await;
        }
    }

    /// The clock of this place's machine.
    fn clock(&self) -> Clock {
        let (now, elapsed) = (Instant::now(), self.desk.clock.elapsed());
        let own = self.setup.jumps.iter().filter(|jump| jump.slot == self.slot);
        own.fold(Clock::starting_at(self.desk.clock.now()), |clock, jump| {
            clock.jumping(now + jump.at.saturating_sub(elapsed), jump.seconds)
        })
    }

    fn edges(&self, who: &str) -> Edges {
        let Begun { manager, journal } = (self.setup.begin)(self.slot);
        let cloud = self.desk.cloud.clone();
        let offers: Offers = match self.setup.sees_prices {
            true => Arc::new(move || cloud.offers()),
            false => fixed(self.types.0.clone()),
        };
        let leadership = Leadership::new(!self.desk.elects);
        let clock = self.clock();
        let Clients { patient, plain } = clients(self.desk.server.service(who), "default", &leadership, &clock);
        let lease = Lease {
            namespace: "kube-system".to_owned(),
            name: "karpenter-leader-election".to_owned(),
            holder: who.to_owned(),
        };
        Edges {
            leadership,
            client: patient,
            plain,
            provider: Arc::new(Tapped { cloud: self.desk.cloud.clone(), desk: self.desk.clone(), who: who.to_owned() }),
            clock,
            catalogue: offers,
            names: self.types.1.clone(),
            settings: Settings::default(),
            manager,
            journal,
            window: self.setup.window,
            lease: self.desk.elects.then_some(lease),
            repairs: self.setup.repairs,
            inline: true,
        }
    }
}
