//! What the daemon depends on: clients, a cloud, a clock. `longshore run` uses real ones and the
//! simulator its own; all other code is the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use longshore_cloud::CloudProvider;
pub use longshore_core::disrupt::methods::TerminateFirst;
use longshore_core::model::{Settings, Symbols};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use crate::act::cloud::{Cloud, Tasks};
use crate::act::cloud_gate::GatedCloud;
use crate::act::context::{Context, Memory};
use crate::act::events::Events;
use crate::act::launch::static_pools::purchases::StaticCapacity;
pub use crate::act::repair::{RepairMode, Repairs};
use crate::controller;
use crate::decide::round::RoundConfig;
use crate::decide::round_timer::RoundTimer;
pub use crate::error::Ended;
use crate::managed::Managed;
use crate::metrics::Metrics;
use crate::observe::definitions;
use crate::observe::freshness::OwnWrite;
pub use crate::observe::offers::{Offers, fixed};
pub use crate::observe::overlays::CatalogueOverlays;
use crate::observe::watch;
use crate::policies::PolicyReloader;
use crate::process::clock::Clock;
use crate::process::leader::{self, Elector, Leadership};
use crate::process::lock::lock;
use crate::process::pulse::Pulse;
use crate::serve::http::{Query, SharedBoard, StatusBoard};
use crate::serve::questions::Questions;
pub use longshore_api::kinds::ObjectKind;
use longshore_journal::Journal;

/// Everything that differs between a cluster and a simulation of one.
pub struct Environment {
    /// Whether this replica leads; `client` and `plain` ask it before each write, see
    /// [`clients`](crate::process::connection::clients).
    pub leadership: Leadership,
    /// A client that retries where the server says so.
    pub client: Client,
    /// A client that does not retry.
    pub plain: Client,
    /// Where nodes come from.
    pub provider: Arc<dyn CloudProvider>,
    /// The time of day.
    pub clock: Clock,
    /// What can be bought.
    pub catalogue: Arc<dyn Offers>,
    /// Applies NodeOverlays to that; nothing where they are not watched.
    pub overlays: Option<CatalogueOverlays>,
    /// The table of names to begin with: that of a catalogue which never changes.
    pub names: Symbols,
    /// How pods are planned for.
    pub settings: Settings,
    /// The policies that score.
    pub reloader: PolicyReloader,
    /// Where everything is written down.
    pub journal: Journal,
    /// How long a batch waits for one more pod, and at most.
    pub window: (Duration, Duration),
    /// The Lease that is competed for; nothing to lead for ever.
    pub lease: Option<Lease>,
    /// How nodes that stay unhealthy are repaired.
    pub repairs: Repairs,
    /// Whether nodes are disrupted, unless the configuration says otherwise.
    pub disrupts: bool,
    /// Whether spot nodes may be replaced by spot nodes.
    pub spot_to_spot: bool,
    /// Which nodes may be deleted before their replacement is there.
    pub terminate_first: TerminateFirst,
    /// Whether static NodePools are kept at their replicas.
    pub static_capacity: bool,
    /// Plans on the runtime's own thread, so that nothing depends on the order of threads.
    pub inline: bool,
    /// Whose threads compute: one for rounds, one for looks for disruption, one for explanations.
    /// Those of the loop's runtime if nothing.
    pub computing: Option<Handle>,
    /// How long a look for disruption takes there.
    pub look_takes: Duration,
}

/// A Lease and the name under which it is asked for.
pub struct Lease {
    pub namespace: String,
    pub name: String,
    /// Who asks, as `<pod>_<id>`.
    pub holder: String,
}

/// A daemon that has not begun yet.
pub struct Daemon {
    ctx: Arc<Context>,
    board: SharedBoard,
    queries: Sender<Query>,
    asked: Receiver<Query>,
    echoed: UnboundedReceiver<OwnWrite>,
    how: RoundConfig,
    round_timer: RoundTimer,
    names: Symbols,
    elector: Option<Arc<Elector>>,
}

impl Daemon {
    pub fn new(environment: Environment) -> Self {
        let Environment {
            leadership,
            client,
            plain,
            provider,
            clock,
            catalogue,
            overlays,
            names,
            settings,
            reloader,
            journal,
            window,
            lease,
            repairs,
            disrupts,
            spot_to_spot,
            terminate_first,
            static_capacity,
            inline,
            computing,
            look_takes,
        } = environment;
        let own = lease
            .as_ref()
            .map_or(("kube-system", "karpenter-leader-election"), |l| {
                (&*l.namespace, &*l.name)
            });
        let events = Events::new(
            plain.clone(),
            clock.clone(),
            (own.0.to_owned(), own.1.to_owned()),
        );
        let metrics = Arc::new(Metrics::new());
        let provider: Arc<dyn CloudProvider> = Arc::new(GatedCloud::new(
            provider,
            metrics.clone(),
            leadership.clone(),
        ));
        let elector = lease.map(|lease| {
            let Lease {
                namespace,
                name,
                holder,
            } = lease;
            Arc::new(Elector {
                client: plain.clone(),
                clock: clock.clone(),
                namespace,
                name,
                holder,
            })
        });
        let (echoes, echoed) = unbounded_channel();
        let ctx = Arc::new(Context {
            managed: Managed::of(catalogue.class_kind()),
            client,
            events,
            plain,
            provider,
            metrics,
            leadership,
            clock,
            echoes,
            repairs,
            static_capacity: StaticCapacity::new(static_capacity),
            pulse: Pulse::new(Instant::now()),
            relists: Arc::default(),
            fresh: AtomicBool::new(true),
            observes: AtomicBool::new(false),
            memory: Memory::default(),
        });
        let (asks, asked) = channel(16);
        let round_timer = RoundTimer::new(window.0, window.1);
        let shortages = ctx.memory.launch.unavailable.clone();
        let how = RoundConfig {
            catalogue,
            overlays: overlays.map(Arc::new),
            unavailable: shortages,
            settings,
            policies: reloader,
            journal,
            disrupts,
            spot_to_spot,
            terminate_first,
            inline,
            computing,
            look_takes,
        };
        let board = Arc::new(Mutex::new(StatusBoard::default()));
        Daemon {
            ctx,
            board,
            queries: asks,
            asked,
            echoed,
            how,
            round_timer,
            names,
            elector,
        }
    }

    /// How many instances, and how many NodeClaims, garbage collection may end in one pass; no
    /// limit for nothing.
    pub fn limit_garbage(&self, limit: Option<usize>) {
        self.ctx.memory.end.garbage.allow(limit);
    }

    /// Whether metrics and Events report the state of objects.
    pub fn report_objects(&self, reports: bool) {
        self.ctx.observes.store(reports, Ordering::Relaxed);
    }

    /// Reports problems of the cluster's definitions until there are none.
    pub fn follow_definitions(&self) -> impl Future<Output = ()> + Send + use<> {
        follow_definitions(self.ctx.client.clone(), self.board.clone())
    }

    /// Who leads.
    pub fn leadership(&self) -> Leadership {
        self.ctx.leadership.clone()
    }

    /// Begins what a cloud does beside the daemon's loop. It ends with what is returned.
    pub fn begin(&self, tasks: Tasks) -> JoinSet<()> {
        tasks(self.ctx.clone())
    }

    /// What operators ask of it.
    pub fn questions(&self) -> Questions {
        Questions::new(self.ctx.clone(), self.board.clone(), self.queries.clone())
    }

    /// How many rounds have ended in a way, as metrics have it: `bought`, `nothing`, `replaced`,
    /// `rejected`.
    pub fn rounds(&self) -> impl Fn(&str) -> u64 + Send + Sync + use<> {
        let ctx = self.ctx.clone();
        move |outcome| ctx.metrics.rounds.with_label_values(&[outcome]).get()
    }

    /// Runs until [`Leadership::retire`] is called. Then it starts no more work, waits for work in
    /// progress, and releases the Lease. What is under way when it is dropped is left as it is.
    ///
    /// # Errors
    /// If a part that it cannot do without has ended: the process has to begin anew.
    pub async fn run(self) -> Result<(), Ended> {
        let policies = self.how.policies.clone();
        let loaded = async move {
            let loaded = tokio::time::timeout(POLICY_LOAD_TIMEOUT, policies.loaded()).await;
            if loaded.is_err() {
                tracing::warn!(
                    seconds = POLICY_LOAD_TIMEOUT.as_secs(),
                    "policies are still being loaded: beginning without them"
                );
            }
        };
        let (out, observations) = channel(4096);
        // Ends with this future.
        let mut tasks: JoinSet<&'static str> = JoinSet::new();
        let client = || self.ctx.client.clone();
        for kind in
            ObjectKind::watched(self.how.catalogue.class_kind(), self.how.overlays.is_some())
        {
            let (client, relists, out) = (client(), self.ctx.relists.clone(), out.clone());
            tasks.spawn(async move {
                watch::watch(client, kind, &relists, out).await;
                kind.at().plural
            });
        }
        for kind in ObjectKind::OF_DRIVERS {
            let (client, relists, out) = (client(), self.ctx.relists.clone(), out.clone());
            tasks.spawn(async move {
                watch::watch_once_asked(client, kind, &relists, out).await;
                kind.at().plural
            });
        }
        drop(out);
        if let Some(elector) = self.elector.clone() {
            let leadership = self.ctx.leadership.clone();
            tasks.spawn(async move {
                loaded.await;
                leader::run_election(&elector, &leadership).await;
                "leader election"
            });
        } else {
            // It leads from the first moment on: what is watched waits meanwhile.
            tokio::select! {
                biased;
                () = loaded => {}
                () = self.ctx.leadership.retires() => {}
            }
        }
        let leadership = self.ctx.leadership.clone();
        let heard = controller::Heard {
            observations,
            echoes: self.echoed,
            queries: self.asked,
        };
        let control = controller::run(
            self.ctx,
            self.how,
            self.round_timer,
            self.names,
            self.board,
            heard,
        );
        let retiring = async {
            leadership.retires().await;
            tokio::time::sleep(WORK_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            () = control => {}
            () = retiring => tracing::warn!(seconds = WORK_TIMEOUT.as_secs(), "stopping with work in \
                progress after the timeout"),
            Some(ended) = tasks.join_next() => {
                let ended = match ended {
                    Ok(what) => Ended::Task(what),
                    Err(error) => Ended::Panicked(error.to_string()),
                };
                leadership.stop();
                return Err(ended);
            }
        }
        // The Lease is renewed meanwhile: the tasks are still there.
        let idle = tokio::time::timeout(WRITES_TIMEOUT, leadership.is_idle()).await;
        leadership.stop();
        tasks.shutdown().await;
        match (self.elector, idle) {
            (Some(elector), Ok(())) => {
                _ = tokio::time::timeout(LEASE_RELEASE_TIMEOUT, leader::release(&elector)).await;
            }
            (None, Ok(())) => {}
            // They end before another replica takes over.
            (_, Err(_)) => tracing::warn!(
                seconds = WRITES_TIMEOUT.as_secs(),
                "keeping the Lease until it expires: writes are in progress after the timeout"
            ),
        }
        Ok(())
    }
}

/// How often the cluster's definitions are checked while they are wrong or cannot be read.
const DEFINITION_CHECK_INTERVAL: Duration = Duration::from_secs(30);

async fn follow_definitions(client: Client, board: SharedBoard) {
    loop {
        match definitions::differences(&client).await {
            Ok(found) => {
                let done = found.is_empty();
                let known = std::mem::replace(&mut lock(&board).definitions, found.clone());
                found
                    .iter()
                    .filter(|what| !known.contains(what))
                    .for_each(|what| tracing::warn!("{what}"));
                if done {
                    return;
                }
            }
            // The watch says why the server cannot be asked.
            Err(error) => tracing::debug!(%error, "reading the definitions failed; retrying"),
        }
        tokio::time::sleep(DEFINITION_CHECK_INTERVAL).await;
    }
}

/// How long nothing is bought because policies are still being loaded, and no Lease is asked for.
const POLICY_LOAD_TIMEOUT: Duration = Duration::from_secs(40);
/// How long a process that retires waits for the work that is under way. With its writes, giving
/// the Lease back, the end of the journal and of the log it is done within 10 s
/// ([`stop::STOP_LIMIT`](crate::process::stop::STOP_LIMIT)).
const WORK_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a process that retires then waits for its writes.
const WRITES_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a process that retires tries to give its Lease back.
const LEASE_RELEASE_TIMEOUT: Duration = Duration::from_millis(1_500);
