//! Leader election: only the holder of a Lease acts.
//!
//! A holder renews every 2 s. It stops acting 10 s after its last renewal, by a clock that advances
//! while the process is stopped. Other replicas take over when they have seen no renewal for 15 s
//! by their own clocks. So writes of a holder that was frozen are refused here before they are
//! sent. Every write has to be answered before others may take over ([`Ticket::time_left`]). On a
//! clean stop the Lease is released once no write is in flight, so that the successor need not
//! wait.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::clock::Clock;
use super::mutants::mutant;

/// How long others leave the Lease to its holder.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long after the last renewal the holder counts itself as leader.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the Lease is asked for or renewed.
const RENEW_INTERVAL: Duration = Duration::from_secs(2);

/// Timeout of a write if no other replica may lead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Shortest timeout of any write.
const MIN_WRITE_TIMEOUT: Duration = Duration::from_secs(4);

/// Whether this replica leads. Clones share one state.
#[derive(Clone)]
pub struct Leadership(Arc<LeadershipState>);

struct LeadershipState {
    always: bool,
    begin: Instant,
    /// Milliseconds after `begin` of the last renewal, plus one; 0 for none.
    renewed: AtomicU64,
    /// Milliseconds after `begin` at which it began to lead.
    since: AtomicU64,
    /// It starts nothing any more, and finishes what is under way.
    retiring: AtomicBool,
    /// It writes nothing any more.
    stopped: AtomicBool,
    /// Writes to the cluster and calls of the cloud that are under way.
    under_way: AtomicUsize,
    /// Notified when one of them has ended, or the replica is to retire.
    changed: Notify,
}

/// This replica does not lead, so it writes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica does not lead")]
pub struct NotLeading;

/// A write that is under way; dropped when it has been answered.
pub struct Ticket(Leadership);

impl Ticket {
    /// How long the write may take: it must have been carried out before another replica may lead.
    pub fn time_left(&self) -> Duration {
        let state = &self.0.0;
        if state.always {
            WRITE_TIMEOUT
        } else {
            LEASE_DURATION
                .saturating_sub(state.age())
                .clamp(MIN_WRITE_TIMEOUT, WRITE_TIMEOUT)
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Ordering::AcqRel);
        self.0.0.changed.notify_waiters();
    }
}

impl LeadershipState {
    /// How long ago the Lease was renewed last.
    fn age(&self) -> Duration {
        let renewed = self.renewed.load(Ordering::Acquire);
        self.begin
            .elapsed()
            .saturating_sub(Duration::from_millis(renewed.saturating_sub(1)))
    }
}

impl Leadership {
    /// Leads for ever (`always`), or once [`run_election`] has won.
    pub fn new(always: bool) -> Self {
        Leadership(Arc::new(LeadershipState {
            always,
            begin: Instant::now(),
            renewed: AtomicU64::new(0),
            since: AtomicU64::new(0),
            retiring: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            changed: Notify::new(),
        }))
    }

    /// Whether it leads for ever, so that no check is needed.
    pub fn is_permanent(&self) -> bool {
        self.0.always
    }

    /// Whether it leads now, so that what is under way may be finished.
    pub fn is_leader(&self) -> bool {
        let state = &self.0;
        if state.stopped.load(Ordering::Relaxed) {
            return false;
        }
        let renewed = state.renewed.load(Ordering::Acquire) > 0;
        state.always || (renewed && (state.age() < RENEW_DEADLINE || mutant("ignores-lease")))
    }

    /// Whether it is to finish what is under way and to start nothing else.
    pub fn is_retiring(&self) -> bool {
        self.0.retiring.load(Ordering::Relaxed)
    }

    /// A write, or a call of the cloud that changes something, is about to be sent.
    ///
    /// # Errors
    /// If another replica may have taken over.
    pub fn begin_write(&self) -> Result<Ticket, NotLeading> {
        // Counted first, so that a waiter for the last one does not miss it.
        self.0.under_way.fetch_add(1, Ordering::AcqRel);
        let ticket = Ticket(self.clone());
        if self.is_leader() {
            Ok(ticket)
        } else {
            Err(NotLeading)
        }
    }

    /// Starts nothing any more; what is under way may be finished.
    pub fn retire(&self) {
        self.0.retiring.store(true, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }

    /// Returns once [`Leadership::retire`] was called.
    pub async fn retires(&self) {
        self.until(|| self.is_retiring()).await;
    }

    /// Returns once no write is under way.
    pub async fn is_idle(&self) {
        self.until(|| self.0.under_way.load(Ordering::Acquire) == 0)
            .await;
    }

    async fn until(&self, done: impl Fn() -> bool) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if done() {
                return;
            }
            changed.await;
        }
    }

    /// Stops acting for good.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Since when it leads, if it does.
    pub fn since(&self) -> Instant {
        self.0.begin + Duration::from_millis(self.0.since.load(Ordering::Acquire))
    }

    /// The Lease was taken or renewed by a request that was sent then.
    fn renew(&self, at: Instant) {
        let after = at.saturating_duration_since(self.0.begin).as_millis() as u64;
        if !self.is_leader() {
            self.0
                .since
                .store(self.0.begin.elapsed().as_millis() as u64, Ordering::Release);
        }
        self.0.renewed.store(after + 1, Ordering::Release);
    }

    fn lose(&self) {
        self.0.renewed.store(0, Ordering::Release);
    }
}

/// The Lease, and the process that asks for it.
pub struct Elector {
    /// Asks once: a refusal is an answer.
    pub client: Client,
    /// What the Lease's times are read from.
    pub clock: Clock,
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// `<pod>_<id>`.
    pub holder: String,
}

/// Tries to hold the Lease for ever.
pub async fn run_election(elector: &Elector, leadership: &Leadership) {
    let api: Api<Lease> = Api::namespaced(elector.client.clone(), &elector.namespace);
    let mut seen: Option<(String, Instant)> = None;
    // What went wrong the last time, so that it is said once.
    let mut last_trouble = String::new();
    loop {
        let started = Instant::now();
        let answer = timeout(Duration::from_secs(5), attempt(&api, elector, &mut seen)).await;
        let trouble = match &answer {
            Ok(Ok(_)) => String::new(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the server does not answer".to_owned(),
        };
        if trouble != last_trouble && !trouble.is_empty() {
            let (lease, namespace) = (&elector.name, &elector.namespace);
            tracing::warn!(
                error = trouble,
                lease,
                namespace,
                "renewing the Lease failed; retrying"
            );
        }
        last_trouble = trouble;
        match answer {
            Ok(Ok(true)) => {
                if !leadership.is_leader() {
                    tracing::info!(holder = elector.holder, "became leader");
                }
                leadership.renew(started);
            }
            Ok(Ok(false)) => leadership.lose(),
            Ok(Err(_)) | Err(_) => {}
        }
        sleep(RENEW_INTERVAL).await;
    }
}

/// Takes or renews the Lease; says whether it is ours.
async fn attempt(
    api: &Api<Lease>,
    elector: &Elector,
    seen: &mut Option<(String, Instant)>,
) -> Result<bool, kube::Error> {
    let now = MicroTime(elector.clock.now());
    let Some(mut lease) = api.get_opt(&elector.name).await? else {
        let spec = LeaseSpec {
            holder_identity: Some(elector.holder.clone()),
            lease_duration_seconds: Some(LEASE_DURATION.as_secs() as i32),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta {
            name: Some(elector.name.clone()),
            ..ObjectMeta::default()
        };
        return won(api
            .create(
                &PostParams::default(),
                &Lease {
                    metadata,
                    spec: Some(spec),
                },
            )
            .await);
    };
    let spec = lease.spec.get_or_insert_default();
    let holder = spec.holder_identity.clone().unwrap_or_default();
    let ours = holder == elector.holder;
    if !ours && !holder.is_empty() {
        let version = format!("{holder} {:?}", spec.renew_time);
        match seen {
            Some((known, since)) if *known == version => {
                if since.elapsed() < LEASE_DURATION {
                    return Ok(false);
                }
            }
            _ => {
                *seen = Some((version, Instant::now()));
                if !mutant("lease-at-first-sight") {
                    return Ok(false);
                }
            }
        }
    }
    if !ours {
        spec.holder_identity = Some(elector.holder.clone());
        spec.acquire_time = Some(now.clone());
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + 1);
        spec.lease_duration_seconds = Some(LEASE_DURATION.as_secs() as i32);
    }
    spec.renew_time = Some(now);
    // The version in the object makes this fail after a concurrent write.
    won(api
        .replace(&elector.name, &PostParams::default(), &lease)
        .await)
}

fn won(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the Lease back, if it is ours.
pub async fn release(elector: &Elector) {
    let api: Api<Lease> = Api::namespaced(elector.client.clone(), &elector.namespace);
    let Ok(Some(mut lease)) = api.get_opt(&elector.name).await else {
        return;
    };
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() == Some(&elector.holder) {
        spec.holder_identity = None;
        let _ = api
            .replace(&elector.name, &PostParams::default(), &lease)
            .await;
    }
}
