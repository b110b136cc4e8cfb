//! What everybody who acts on the cluster has at hand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use longshore_api::crd::Timestamp;
use longshore_cloud::CloudProvider;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::clock::Clock;
use super::events::Events;
use super::hints::Hint;
use super::leader::Leadership;
use super::lock::lock;
use super::metrics::Metrics;
use super::shortages::Shortages;

/// Shared by all that is going on.
pub struct Context {
    /// Asks again where the server says so.
    pub client: Client,
    /// Does not: for evictions and leases, where a refusal is an answer.
    pub plain: Client,
    pub provider: Arc<dyn CloudProvider>,
    pub events: Events,
    pub metrics: Arc<Metrics>,
    pub health: Health,
    pub leadership: Leadership,
    pub clock: Clock,
    /// The version of each NodeClaim that was written last, until it has come back by the watch.
    pub written: Written,
    /// Offerings that could not be had a moment ago.
    pub shortages: Arc<Shortages>,
    /// What kube-scheduler is being told.
    pub telling: Telling,
    /// Nodes that are being opened to pods.
    pub doors: Doors,
    /// Whether `status.nominatedNodeName` may be written; off after the first refusal.
    pub nominates: AtomicBool,
    /// Whether metrics and Events tell of the state of objects, and not only of what is done; off unless said.
    pub observes: AtomicBool,
}

impl Context {
    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether the state of objects is told of.
    pub fn observes(&self) -> bool {
        self.observes.load(Ordering::Relaxed)
    }

    /// Whether this process may change anything now: it leads, and has said so to the server recently enough.
    ///
    /// # Errors
    /// Another replica may have taken over.
    pub fn may_write(&self) -> Result<(), String> {
        if self.leadership.holds() { Ok(()) } else { Err("this replica does not lead".to_owned()) }
    }

    /// Patches a Node by merge.
    ///
    /// # Errors
    /// What the server says.
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<(), String> {
        self.may_write()?;
        let api: Api<Node> = Api::all(self.client.clone());
        let done = api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        done.map(drop).map_err(|e| e.to_string())
    }

    /// Deletes a Node.
    ///
    /// # Errors
    /// What the server says, unless that it is gone.
    pub async fn delete_node(&self, name: &str) -> Result<(), String> {
        self.may_write()?;
        let api: Api<Node> = Api::all(self.client.clone());
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop).map_err(|e| e.to_string()),
        }
    }

    /// Writes `status.nominatedNodeName` of pods, several at a time. It is a hint: kube-scheduler tries that node first
    /// and, since 1.35, keeps its room for the pod; a refusal costs nothing but the hint.
    pub async fn nominate(&self, pods: Vec<Hint>) {
        self.tell(pods, true).await;
    }

    /// The same for pods whose node kube-scheduler has forgotten. Nodes do not stay closed for it: until they open it goes
    /// on forgetting.
    pub async fn nominate_again(&self, pods: Vec<Hint>) {
        self.tell(pods, false).await;
    }

    async fn tell(&self, pods: Vec<Hint>, awaited: bool) {
        if !self.nominates.load(Ordering::Relaxed) || self.may_write().is_err() {
            return;
        }
        let one = |(pod, node): Hint| async move {
            let _turn = self.telling.turns.acquire().await;
            let Some((namespace, name)) = pod.split_once('/') else { return };
            let api: Api<Pod> = Api::namespaced(self.plain.clone(), namespace);
            let patch = Patch::Strategic(json!({"status": {"nominatedNodeName": node}}));
            if let Err(kube::Error::Api(status)) = api.patch_status(name, &PatchParams::default(), &patch).await
                && status.code == 403
                && self.nominates.swap(false, Ordering::Relaxed)
            {
                tracing::warn!("RBAC does not let us patch pods/status; kube-scheduler places pods without our hint");
            }
            if awaited {
                self.telling.told(Instant::now());
            }
        };
        futures::stream::iter(pods).for_each_concurrent(TURNS, one).await;
    }

    /// Takes the hint of each of these pods back, unless it has been told something else meanwhile.
    pub async fn take_back(&self, pods: Vec<String>) {
        futures::stream::iter(pods)
            .for_each_concurrent(TURNS, |pod| async move { self.take_one_back(&pod).await })
            .await;
    }

    async fn take_one_back(&self, pod: &str) {
        let Some((namespace, name)) = pod.split_once('/') else { return };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mut old = None;
        for attempt in 0..TAKE_BACK {
            if self.may_write().is_err() {
                return;
            }
            match self.try_take_back(&api, name, &mut old).await {
                Ok(()) => return,
                Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => return,
                Err(_) => tokio::time::sleep(Duration::from_secs(1 << attempt)).await,
            }
        }
    }

    async fn try_take_back(&self, api: &Api<Pod>, name: &str, old: &mut Option<String>) -> kube::Result<()> {
        let pod = api.get(name).await?;
        let told = pod.status.and_then(|status| status.nominated_node_name).filter(|node| !node.is_empty());
        let Some(told) = told.filter(|node| old.as_ref().is_none_or(|old| old == node)) else { return Ok(()) };
        *old = Some(told);
        let version = json!({"resourceVersion": pod.metadata.resource_version});
        let patch = Patch::Strategic(json!({"metadata": version, "status": {"nominatedNodeName": null}}));
        api.patch_status(name, &PatchParams::default(), &patch).await.map(drop)
    }
}

/// How often it is tried to take a hint back.
const TAKE_BACK: u32 = 5;

/// How many pods are told of their node at a time, so that other writes get their turn.
const TURNS: usize = 32;
/// What kube-scheduler is taken to need for each: it looks at every pod that waits whenever one is told.
const HEARS: Duration = Duration::from_millis(2);
/// And for the first.
const LISTENS: Duration = Duration::from_millis(300);

/// What kube-scheduler is being told. Nominations and nodes come to it by two watches, and a node that opens before it
/// has heard whom it is for is taken by others.
pub struct Telling {
    turns: Semaphore,
    /// When it has heard all that it was told.
    heard: Mutex<Option<Instant>>,
}

impl Default for Telling {
    fn default() -> Self {
        Telling { turns: Semaphore::new(TURNS), heard: Mutex::default() }
    }
}

impl Telling {
    /// A pod was told its node.
    fn told(&self, now: Instant) {
        let mut heard = lock(&self.heard);
        *heard = Some(heard.unwrap_or(now).max(now + LISTENS) + HEARS);
    }

    /// How much longer a node should stay closed.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = (*lock(&self.heard))?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

/// Nodes are opened so many at a time. Claims are written so many at a time too, so that connections are there: making
/// new ones takes longer than what is asked over them.
const OPENS: usize = 16;
/// What else is to be written about a node that is open waits no longer than this for the other nodes, nor does one that
/// is to open after them.
const OTHERS: Duration = Duration::from_secs(1);

/// Nodes that are to be opened at the same time are found within this.
const GATHERS: Duration = Duration::from_millis(10);

/// Nodes that are being opened to pods. Those of a round open in as short a time as can be: until then pods that are
/// meant for one that is still closed take places on the others. So a node opens the later the more of its places are
/// kept for nobody, and not before all those are open where there are none such.
#[derive(Default)]
pub struct Doors(Mutex<Queue>);

/// Which nodes wait to be opened, and how many are being opened.
#[derive(Default)]
struct Queue {
    /// By how many places are kept for nobody, then in the order in which they came.
    waiting: BTreeMap<(usize, u64), oneshot::Sender<()>>,
    came: u64,
    opening: usize,
    /// Those of them where all places are kept for somebody.
    full: usize,
}

impl Queue {
    /// Opens as many as may be opened at a time.
    fn next(&mut self) {
        while self.opening < OPENS
            && let Some(&at) = self.waiting.keys().next()
            && (at.0 == 0 || self.full == 0)
        {
            self.begin(at);
        }
    }

    /// It is the turn of the node at this place, if it waits.
    fn begin(&mut self, at: (usize, u64)) {
        if let Some(turn) = self.waiting.remove(&at) {
            // Who does not wait any longer gives its turn back, see [`Place`].
            self.opening += 1;
            self.full += usize::from(at.0 == 0);
            _ = turn.send(());
        }
    }
}

/// A node's place in the queue, and then its turn, until it is open or given up.
struct Place<'a> {
    doors: &'a Doors,
    at: (usize, u64),
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.doors.0);
        if queue.waiting.remove(&self.at).is_none() {
            queue.opening -= 1;
            queue.full -= usize::from(self.at.0 == 0);
        }
        queue.next();
    }
}

impl Doors {
    /// Opens a node, so many of whose places are kept for nobody, when it is its turn, or when others have taken too long;
    /// then waits until all others that are being opened are open.
    pub async fn open<T>(&self, free: usize, opening: impl Future<Output = T>) -> T {
        let (sender, mut turn) = oneshot::channel();
        let place = self.place(free, sender);
        tokio::time::sleep(GATHERS).await;
        lock(&self.0).next();
        // The queue keeps the sender until then.
        if tokio::time::timeout(OTHERS, &mut turn).await.is_err() {
            lock(&self.0).begin(place.at);
        }
        let opened = opening.await;
        drop(place);
        let begun = Instant::now();
        while self.any_closed() && begun.elapsed() < OTHERS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        opened
    }

    fn place(&self, free: usize, turn: oneshot::Sender<()>) -> Place<'_> {
        let mut queue = lock(&self.0);
        queue.came += 1;
        let at = (free, queue.came);
        queue.waiting.insert(at, turn);
        Place { doors: self, at }
    }

    fn any_closed(&self) -> bool {
        let queue = lock(&self.0);
        queue.opening > 0 || !queue.waiting.is_empty()
    }
}

/// Versions that were written and have not come back yet. What is older is not acted on: it would be done twice.
#[derive(Default)]
pub struct Written(Mutex<BTreeMap<String, (u64, Instant)>>);

/// How long a version is waited for: a server that was set back has none as new.
const ECHO: Duration = Duration::from_secs(30);

impl Written {
    /// An object was written and has this version now.
    pub fn note(&self, name: &str, version: Option<&str>) {
        if let Some(version) = version.and_then(number) {
            lock(&self.0).insert(name.to_owned(), (version, Instant::now()));
        }
    }

    /// Whether a version is older than what was written. Kubernetes promises since 1.35 that versions of a kind are
    /// numbers in order; one that is none is taken for new.
    pub fn is_newer_than(&self, name: &str, version: Option<&str>) -> bool {
        let mut all = lock(&self.0);
        match (all.get(name), version.and_then(number)) {
            (Some((written, at)), Some(seen)) if seen < *written && at.elapsed() < ECHO => true,
            _ => {
                all.remove(name);
                false
            }
        }
    }

    /// An object is gone.
    pub fn forget(&self, name: &str) {
        lock(&self.0).remove(name);
    }
}

fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

/// How the last four launches of each NodePool went.
#[derive(Default)]
pub struct Health(Mutex<BTreeMap<String, VecDeque<bool>>>);

impl Health {
    /// Notes how a launch or registration ended.
    pub fn record(&self, pool: &str, good: bool) {
        let mut all = lock(&self.0);
        let last = all.entry(pool.to_owned()).or_default();
        last.push_back(good);
        if last.len() > 4 {
            last.pop_front();
        }
    }

    /// Another version of a NodePool or its class: what was before says nothing about it.
    pub fn forget(&self, pool: &str) {
        lock(&self.0).remove(pool);
    }

    /// Fewer than two of the last four failed; nothing if none is known.
    pub fn of(&self, pool: &str) -> Option<bool> {
        let all = lock(&self.0);
        let last = all.get(pool).filter(|l| !l.is_empty())?;
        Some(last.iter().filter(|good| !**good).count() < 2)
    }
}

/// Waits between attempts at one thing: doubling from 1 s to 1 min.
pub fn back_off(failures: u32) -> Duration {
    Duration::from_secs((1u64 << failures.saturating_sub(1).min(6)).min(60))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_open_waits_until_the_others_are_but_not_for_ever() {
        let doors = Arc::new(Doors::default());
        let begun = Instant::now();
        let quick = async {
            doors.open(0, async {}).await;
            begun.elapsed()
        };
        let slow = doors.open(0, tokio::time::sleep(Duration::from_millis(300)));
        let ((), waited) = tokio::join!(slow, quick);
        assert!((300..400).contains(&waited.as_millis()), "{waited:?}");
        let stuck = doors.clone();
        let stuck = tokio::spawn(async move { stuck.open(0, std::future::pending::<()>()).await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        let begun = Instant::now();
        doors.open(0, async {}).await;
        let waited = begun.elapsed();
        stuck.abort();
        assert!((OTHERS..OTHERS * 2).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_places_are_kept_for_nobody_the_later_a_node_opens() {
        let doors = Doors::default();
        let opened = Mutex::new(Vec::new());
        let open = |free: usize| {
            let opened = &opened;
            doors.open(free, async move {
                tokio::task::yield_now().await;
                lock(opened).push(free);
            })
        };
        let frees = (1..=3 * OPENS).rev();
        futures::future::join_all(frees.map(open)).await;
        let opened = lock(&opened).clone();
        let waves: Vec<BTreeSet<usize>> = opened.chunks(OPENS).map(|wave| wave.iter().copied().collect()).collect();
        assert_eq!(waves, [0, 1, 2].map(|wave| (1 + wave * OPENS..=(wave + 1) * OPENS).collect()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_with_places_for_anybody_opens_after_the_full_ones_but_not_never() {
        let opened_after = async |full: Duration| {
            let (doors, begun) = (Doors::default(), Instant::now());
            let full = doors.open(0, tokio::time::sleep(full));
            let roomy = doors.open(3, async { begun.elapsed() });
            tokio::join!(full, roomy).1
        };
        let waited = opened_after(Duration::from_millis(50)).await;
        assert!((50..60).contains(&waited.as_millis()), "{waited:?}");
        let waited = opened_after(Duration::from_secs(60)).await;
        assert!((OTHERS..OTHERS * 2).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_given_up_takes_nobodys_turn() {
        let doors = Doors::default();
        for free in 0..2 * OPENS {
            let waits = doors.open(free, std::future::pending::<()>());
            assert!(tokio::time::timeout(GATHERS * 2, waits).await.is_err(), "given up in its turn");
            let early = doors.open(free, async {});
            assert!(tokio::time::timeout(GATHERS / 2, early).await.is_err(), "given up before");
        }
        doors.open(0, async {}).await;
        assert!(!doors.any_closed());
    }
}
