//! One replica acts: the holder of a Lease.
//!
//! A holder renews every 2 s and stops acting 10 s after its last renewal, by a clock that goes on while the process is
//! stopped; others take over when they have seen no renewal for 15 s by their own clock. What a frozen holder wakes up
//! with is therefore refused here, before it is sent. A clean stop gives the Lease back, so that the next one need not
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::{Instant, sleep, timeout};

use super::clock::Clock;
use super::mutants::mutant;

const LEASE: Duration = Duration::from_secs(15);
const ACTS: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(2);

/// Whether this replica leads. Cheap to clone.
#[derive(Clone)]
pub struct Leadership {
    always: bool,
    begin: Instant,
    /// Milliseconds after `begin` of the last renewal, plus one; 0 for none.
    renewed: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
}

impl Leadership {
    /// Leads for ever (`always`), or once [`campaign`] has won.
    pub fn new(always: bool) -> Self {
        Leadership { always, begin: Instant::now(), renewed: Arc::default(), stopping: Arc::default() }
    }

    /// Whether it leads for ever, so that there is no need to ask again.
    pub fn is_permanent(&self) -> bool {
        self.always
    }

    /// Whether it leads now.
    pub fn holds(&self) -> bool {
        if self.stopping.load(Ordering::Relaxed) {
            return false;
        }
        let renewed = self.renewed.load(Ordering::Acquire);
        let age = || self.begin.elapsed().saturating_sub(Duration::from_millis(renewed.saturating_sub(1)));
        self.always || (renewed > 0 && (age() < ACTS || mutant("ignores-lease")))
    }

    /// Stops acting for good.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn renew(&self, at: Instant) {
        let after = at.saturating_duration_since(self.begin).as_millis() as u64;
        self.renewed.store(after + 1, Ordering::Release);
    }

    fn lose(&self) {
        self.renewed.store(0, Ordering::Release);
    }
}

/// Where the Lease is, and who asks.
pub struct Candidate {
    pub client: Client,
    pub clock: Clock,
    pub namespace: String,
    pub name: String,
    /// `<pod>_<id>`.
    pub holder: String,
}

/// Tries to hold the Lease for ever.
pub async fn campaign(candidate: &Candidate, leadership: &Leadership) {
    let api: Api<Lease> = Api::namespaced(candidate.client.clone(), &candidate.namespace);
    let mut seen: Option<(String, Instant)> = None;
    // What went wrong the last time, so that it is said once.
    let mut told = String::new();
    loop {
        let started = Instant::now();
        let answer = timeout(Duration::from_secs(5), attempt(&api, candidate, &mut seen)).await;
        let trouble = match &answer {
            Ok(Ok(_)) => String::new(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the server does not answer".to_owned(),
        };
        if trouble != told && !trouble.is_empty() {
            let (lease, namespace) = (&candidate.name, &candidate.namespace);
            tracing::warn!(error = trouble, lease, namespace, "the Lease could not be renewed; trying again");
        }
        told = trouble;
        match answer {
            Ok(Ok(true)) => {
                if !leadership.holds() {
                    tracing::info!(holder = candidate.holder, "leading");
                }
                leadership.renew(started);
            }
            Ok(Ok(false)) => leadership.lose(),
            Ok(Err(_)) | Err(_) => {}
        }
        sleep(RENEW).await;
    }
}

/// Takes or renews the Lease; says whether it is ours.
async fn attempt(
    api: &Api<Lease>,
    candidate: &Candidate,
    seen: &mut Option<(String, Instant)>,
) -> Result<bool, kube::Error> {
    let now = MicroTime(candidate.clock.now());
    let Some(mut lease) = api.get_opt(&candidate.name).await? else {
        let spec = LeaseSpec {
            holder_identity: Some(candidate.holder.clone()),
            lease_duration_seconds: Some(LEASE.as_secs() as i32),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta { name: Some(candidate.name.clone()), ..ObjectMeta::default() };
        return won(api.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await);
    };
    let spec = lease.spec.get_or_insert_default();
    let holder = spec.holder_identity.clone().unwrap_or_default();
    let ours = holder == candidate.holder;
    if !ours && !holder.is_empty() {
        let version = format!("{holder} {:?}", spec.renew_time);
        match seen {
            Some((known, since)) if *known == version => {
                if since.elapsed() < LEASE {
                    return Ok(false);
                }
            }
            _ => {
                *seen = Some((version, Instant::now()));
                return Ok(false);
            }
        }
    }
    if !ours {
        spec.holder_identity = Some(candidate.holder.clone());
        spec.acquire_time = Some(now.clone());
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + 1);
        spec.lease_duration_seconds = Some(LEASE.as_secs() as i32);
    }
    spec.renew_time = Some(now);
    // The version in the object makes this fail if somebody was faster.
    won(api.replace(&candidate.name, &PostParams::default(), &lease).await)
}

fn won(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the Lease back, if it is ours.
pub async fn release(candidate: &Candidate) {
    let api: Api<Lease> = Api::namespaced(candidate.client.clone(), &candidate.namespace);
    let Ok(Some(mut lease)) = api.get_opt(&candidate.name).await else { return };
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() == Some(&candidate.holder) {
        spec.holder_identity = None;
        let _ = api.replace(&candidate.name, &PostParams::default(), &lease).await;
    }
}
