//! A replica of the daemon: a process that ends gets a successor.

use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Settings, Symbols};
use longshore_live::environment::{
    Cloud, Daemon, Environment, Lease, Offers, Repairs, Tasks, TerminateFirst, fixed,
};
use longshore_live::error::Failure;
use longshore_live::policies::PolicyReloader;
use longshore_live::process::clock::Clock;
use longshore_live::process::connection::{Clients, clients};
use longshore_live::process::leader::Leadership;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::interceptor::Interceptor;
use super::judges::Judges;
use super::provider::InterceptedProvider;
use super::questions::Processes;
use super::safety;
use super::setup::{ProcessInputs, Setup};
use longshore_simcluster::cloud;

/// A terminated process is killed after this time, as by kubelet.
const TERMINATION_GRACE: Duration = Duration::from_secs(30);

/// What the simulated cloud offers, at the prices of now.
struct Market(cloud::Cloud);

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
    pub judges: Arc<Judges>,
    pub processes: Processes,
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
            let begun = tokio::select! {
                biased;
                () = signals.killed.notified() => None,
                begun = self.environment(&client) => Some(begun),
            };
            let (environment, tasks) = match begun {
                Some(Ok(begun)) => begun,
                // As a process that ends with an error before it has begun.
                Some(Err(why)) => {
                    let why = format!(", it cannot begin: {}", why.report());
                    self.interceptor.kill(&client, &why);
                    tokio::time::sleep(self.setup.restart).await;
                    continue;
                }
                None => {
                    tokio::time::sleep(self.setup.restart).await;
                    continue;
                }
            };
            let reloader = environment.reloader.clone();
            let daemon = Daemon::new(environment);
            self.processes.begins(&client, &daemon, reloader);
            let _beside = tasks.map(|tasks| daemon.begin(tasks));
            let rounds = safety::Rounds::new(daemon.rounds());
            let leadership = daemon.leadership();
            // What a process has spawned besides ends with its environment, which answers no more.
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
                        ended = tokio::time::timeout(TERMINATION_GRACE, process.join_next()) => {
                            if ended.is_err() && !self.interceptor.server.is_stopped(&client) {
                                self.interceptor.violated(format!("{client} did not end within {} \
                                    s", TERMINATION_GRACE.as_secs()));
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
            self.processes.ends(&client);
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

    async fn environment(&self, client: &str) -> Result<(Environment, Option<Tasks>), Failure> {
        let ProcessInputs { reloader, journal } = (self.setup.begin)(self.slot);
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
        let Cloud {
            provider,
            offers,
            names,
            tasks,
            ..
        } = self.cloud(client, &patient, &clock, &reloader).await?;
        let repairs = Repairs::new(self.setup.repairs, &*provider).unwrap_or_else(|error| {
            self.interceptor.violated(error.to_string());
            Repairs::Off
        });
        let environment = Environment {
            leadership,
            client: patient,
            plain,
            provider,
            clock,
            catalogue: offers,
            overlays: None,
            names,
            settings: Settings::default(),
            reloader,
            journal,
            window: self.setup.window,
            lease: self.interceptor.elects.then_some(lease),
            repairs,
            disrupts: self.setup.disrupts,
            spot_to_spot: false,
            terminate_first: TerminateFirst::default(),
            static_capacity: self.setup.static_capacity,
            inline: true,
            computing: None,
            look_takes: self.setup.look_takes,
        };
        Ok((environment, tasks))
    }

    /// EC2, if nodes come from there, or the simulated cloud.
    #[cfg(feature = "aws")]
    async fn cloud(
        &self,
        client: &str,
        kube: &kube::Client,
        clock: &Clock,
        policies: &PolicyReloader,
    ) -> Result<Cloud, Failure> {
        let Some(account) = &self.setup.ec2 else {
            return Ok(self.simulated(client));
        };
        let (interceptor, clock) = (&self.interceptor, clock.clone());
        let begun = super::aws::begin(account, interceptor, client, kube, clock, policies.clone());
        let cloud = begun.await?;
        let provider = Arc::new(super::provider::JudgedProvider {
            provider: cloud.provider,
            interceptor: self.interceptor.clone(),
            judges: self.judges.clone(),
            client: client.to_owned(),
        });
        Ok(Cloud { provider, ..cloud })
    }

    #[cfg(not(feature = "aws"))]
    async fn cloud(
        &self,
        client: &str,
        _: &kube::Client,
        _: &Clock,
        _: &PolicyReloader,
    ) -> Result<Cloud, Failure> {
        Ok(self.simulated(client))
    }

    fn simulated(&self, client: &str) -> Cloud {
        let offers: Arc<dyn Offers> = match self.setup.sees_prices {
            true => Arc::new(Market(self.interceptor.cloud.clone())),
            false => fixed(self.types.0.clone()),
        };
        Cloud {
            provider: Arc::new(InterceptedProvider {
                cloud: self.interceptor.cloud.clone(),
                interceptor: self.interceptor.clone(),
                judges: self.judges.clone(),
                client: client.to_owned(),
            }),
            offers,
            names: self.types.1.clone(),
            types: self.types.0.types().len(),
            resources: &[],
            tasks: None,
        }
    }
}
