//! A replica of the daemon: a process that ends gets a successor.

use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Settings, Symbols};
use longshore_daemon::live::clock::Clock;
use longshore_daemon::live::connection::{Clients, clients};
use longshore_daemon::live::environment::{
    Daemon, Environment, Lease, Offers, Repairs, TerminateFirst, fixed,
};
use longshore_daemon::live::leader::Leadership;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::interceptor::Interceptor;
use super::provider::InterceptedProvider;
use super::{ProcessInputs, Setup, safety};
use crate::cloud::Cloud;

/// A terminated process is killed after this time, as by kubelet.
const GRACE: Duration = Duration::from_secs(30);

/// What the simulated cloud offers, at the prices of now.
struct Market(Cloud);

impl Offers for Market {
    fn version(&self) -> u64 {
        self.0.offers().number()
    }

    // Its names are those that the daemon began with.
    fn catalogue(&self, _: &mut Symbols) -> Catalogue {
        self.0.offers()
    }
}

/// A place.
pub(super) struct Replica {
    pub slot: u32,
    pub interceptor: Arc<Interceptor>,
    pub setup: Setup,
    pub types: Arc<(Catalogue, Symbols)>,
}

impl Replica {
    /// One process after the other, for ever.
    pub async fn run(self) {
        // They do not all begin at the same moment.
        tokio::time::sleep(Duration::from_millis(700) * self.slot).await;
        loop {
            let (client, signals) = self.interceptor.begin();
            let daemon = Daemon::new(self.edges(&client));
            let rounds = safety::Rounds::new(daemon.rounds());
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
                            if ended.is_err() && !self.interceptor.server.is_stopped(&client) {
                                self.interceptor.violated(format!("{client} did not end within {} \
                                    s", GRACE.as_secs()));
                            }
                            self.interceptor.ended(&client);
                        }
                    }
                }
                _ = process.join_next() => {
                    self.interceptor.violated(format!("{client} ended by itself"));
                    self.interceptor.kill(&client, ", it ended by itself");
                }
                () = rounds.watch(&self.interceptor, &client) => {}
            }
            rounds.look(&self.interceptor, &client);
            process.shutdown().await;
            tokio::time::sleep(self.setup.restart).await;
        }
    }

    /// The clock of this place's machine.
    fn clock(&self) -> Clock {
        let (now, elapsed) = (Instant::now(), self.interceptor.clock.elapsed());
        let own = self
            .setup
            .jumps
            .iter()
            .filter(|jump| jump.slot == self.slot);
        own.fold(
            Clock::starting_at(self.interceptor.clock.now()),
            |clock, jump| clock.jumping(now + jump.at.saturating_sub(elapsed), jump.seconds),
        )
    }

    fn edges(&self, client: &str) -> Environment {
        let ProcessInputs { manager, journal } = (self.setup.begin)(self.slot);
        let offers: Arc<dyn Offers> = match self.setup.sees_prices {
            true => Arc::new(Market(self.interceptor.cloud.clone())),
            false => fixed(self.types.0.clone()),
        };
        let leadership = Leadership::new(!self.interceptor.elects);
        let clock = self.clock();
        let Clients { patient, plain } = clients(
            self.interceptor.server.service(client),
            "default",
            &leadership,
            &clock,
        );
        let lease = Lease {
            namespace: "kube-system".to_owned(),
            name: "karpenter-leader-election".to_owned(),
            holder: client.to_owned(),
        };
        let provider = Arc::new(InterceptedProvider {
            cloud: self.interceptor.cloud.clone(),
            interceptor: self.interceptor.clone(),
            client: client.to_owned(),
        });
        let repairs = Repairs::new(self.setup.repairs, &*provider).unwrap_or_else(|error| {
            self.interceptor.violated(error.to_string());
            Repairs::Off
        });
        Environment {
            leadership,
            client: patient,
            plain,
            provider,
            clock,
            catalogue: offers,
            overlays: None,
            names: self.types.1.clone(),
            settings: Settings::default(),
            manager,
            journal,
            window: self.setup.window,
            lease: self.interceptor.elects.then_some(lease),
            repairs,
            disrupts: self.setup.disrupts,
            spot_to_spot: false,
            terminate_first: TerminateFirst::default(),
            static_capacity: self.setup.static_capacity,
            inline: true,
        }
    }
}
