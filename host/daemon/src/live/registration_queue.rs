//! The order in which the nodes of a round register.
//!
//! Nodes of a round register within a short time, because pods of unregistered nodes take room on
//! registered ones. Nodes of affinity leaders
//! ([`Planned::affinity_leader`](super::claims::Planned)) register first. No other node registers
//! until kube-scheduler has bound one leader of each group: bound to a node without room for its
//! followers, a leader would leave them unschedulable. Nodes with unreserved room register last,
//! those with most of it at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use longshore_api::crd::NodeClaim;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::claims::planned_pods;
use super::lock::lock;

/// Number of registrations written at a time. NodeClaims are created so many at a time too, so that
/// the connections exist already: a new connection takes longer than a request.
const OPENS: usize = 16;
/// Longest wait of a registered node's other writes for other nodes, of a late node for the earlier
/// ones, and of any node for affinity leaders.
const OTHERS: Duration = Duration::from_secs(1);
/// Nodes that become ready to register within this time register together.
const GATHERS: Duration = Duration::from_millis(10);

/// Priority of a node's registration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Priority {
    /// It has affinity leaders.
    AffinityLeader,
    /// All its room is nominated.
    Reserved,
    /// Number of its pods without a nomination, or without one yet.
    Unreserved(usize),
}

impl Priority {
    const KINDS: usize = 3;

    fn kind(self) -> usize {
        match self {
            Priority::AffinityLeader => 0,
            Priority::Reserved => 1,
            Priority::Unreserved(_) => 2,
        }
    }
}

/// The properties of a node that decide its order.
#[derive(Debug, PartialEq)]
pub struct Opening {
    priority: Priority,
    /// Its pods that others have to follow, `namespace/name`: where one of each set goes, the
    /// others go.
    leads: Vec<BTreeSet<String>>,
}

impl Opening {
    /// From the pods that a claim was made for.
    pub fn of(claim: &NodeClaim) -> Self {
        let mut leads: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        let mut groups = BTreeSet::new();
        let mut free = 0;
        for planned in planned_pods(claim) {
            if let Some(number) = planned.affinity_leader {
                leads
                    .entry(number)
                    .or_default()
                    .insert(planned.pod.to_owned());
            }
            // The first pod of a spread group is nominated at once, the others later.
            free += usize::from(
                !planned.nominated || planned.group.is_some_and(|group| !groups.insert(group)),
            );
        }
        let turn = match (leads.is_empty(), free) {
            (false, _) => Priority::AffinityLeader,
            (true, 0) => Priority::Reserved,
            (true, free) => Priority::Unreserved(free),
        };
        Opening {
            priority: turn,
            leads: leads.into_values().collect(),
        }
    }
}

/// Nodes that are being registered.
#[derive(Default)]
pub struct RegistrationQueue(Mutex<Queue>);

/// The nodes that wait to register, and the number being registered.
#[derive(Default)]
struct Queue {
    /// By turn, then in the order in which they came.
    waiting: BTreeMap<(Priority, u64), oneshot::Sender<()>>,
    arrived: u64,
    /// By kind of turn.
    opening: [usize; Priority::KINDS],
    /// Groups of pods of which one is to be bound before other nodes register. Waiters are woken
    /// when the sender is dropped.
    awaited_leaders: Vec<(BTreeSet<String>, oneshot::Sender<()>)>,
}

impl Queue {
    /// Starts as many registrations as are allowed at a time.
    fn next(&mut self) {
        while self.opening.iter().sum::<usize>() < OPENS
            && let Some(&at) = self.waiting.keys().next()
            && self.opening[..at.0.kind()]
                .iter()
                .all(|&opening| opening == 0)
        {
            self.begin(at);
        }
    }

    /// It is the turn of the node at this place, if it waits.
    fn begin(&mut self, at: (Priority, u64)) {
        if let Some(turn) = self.waiting.remove(&at) {
            // Who does not wait any longer gives its turn back, see [`Ticket`].
            self.opening[at.0.kind()] += 1;
            _ = turn.send(());
        }
    }
}

/// A node's ticket in the queue, and then its slot, until it is registered or given up.
struct Ticket<'a> {
    queue: &'a RegistrationQueue,
    at: (Priority, u64),
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue.0);
        if queue.waiting.remove(&self.at).is_none() {
            queue.opening[self.at.0.kind()] -= 1;
        }
        queue.next();
    }
}

impl RegistrationQueue {
    /// Waits for the turn of a node, or until others have taken too long; then until all
    /// registrations in flight are done.
    pub async fn open<T>(
        &self,
        Opening {
            priority: turn,
            leads,
        }: Opening,
        opening: impl Future<Output = T>,
    ) -> T {
        let (sender, mut begins) = oneshot::channel();
        let place = self.place(turn, sender);
        tokio::time::sleep(GATHERS).await;
        lock(&self.0).next();
        // The queue keeps the sender until then.
        if tokio::time::timeout(OTHERS, &mut begins).await.is_err() {
            lock(&self.0).begin(place.at);
        }
        let awaited = self.awaited_leaders(leads);
        let opened = opening.await;
        _ = tokio::time::timeout(OTHERS, futures::future::join_all(awaited)).await;
        drop(place);
        let begun = Instant::now();
        while self.any_closed() && begun.elapsed() < OTHERS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        opened
    }

    /// A pod, `namespace/name`, waits for a node no longer.
    pub fn placed(&self, pod: &str) {
        lock(&self.0)
            .awaited_leaders
            .retain(|(pods, waits)| !pods.contains(pod) && !waits.is_closed());
    }

    fn place(&self, turn: Priority, begins: oneshot::Sender<()>) -> Ticket<'_> {
        let mut queue = lock(&self.0);
        queue.arrived += 1;
        let at = (turn, queue.arrived);
        queue.waiting.insert(at, begins);
        Ticket { queue: self, at }
    }

    fn awaited_leaders(&self, leads: Vec<BTreeSet<String>>) -> Vec<oneshot::Receiver<()>> {
        let mut queue = lock(&self.0);
        let wait = |pods| {
            let (sender, receiver) = oneshot::channel();
            queue.awaited_leaders.push((pods, sender));
            receiver
        };
        leads.into_iter().map(wait).collect()
    }

    fn any_closed(&self) -> bool {
        let queue = lock(&self.0);
        queue.opening.iter().any(|&opening| opening > 0) || !queue.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::live::claims::PODS;

    fn opening(pods: &str) -> Opening {
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "x", "annotations": {PODS: pods}},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
        });
        Opening::of(&serde_json::from_value(object).unwrap())
    }

    fn full() -> Opening {
        opening("")
    }

    fn roomy(free: usize) -> Opening {
        Opening {
            priority: Priority::Unreserved(free),
            leads: Vec::new(),
        }
    }

    #[test]
    fn places_are_kept_for_who_is_told_and_of_a_service_for_the_first() {
        assert_eq!(full().priority, Priority::Reserved);
        assert_eq!(
            opening("shop/a,shop/b,shop/c~1,shop/d~2").priority,
            Priority::Reserved
        );
        assert_eq!(
            opening("shop/a~1,shop/b~1,shop/c~2,shop/d~1").priority,
            Priority::Unreserved(2)
        );
        assert_eq!(
            opening("shop/a~-,shop/b,shop/c~1-,shop/d~1").priority,
            Priority::Unreserved(2),
            "two are not told at all"
        );
        let first = opening("shop/a~1+4-,shop/b~+7,shop/c~+4,shop/d");
        let leads = [["shop/a", "shop/c"].as_slice(), &["shop/b"]];
        let leads = leads.map(|pods| pods.iter().map(|pod| (*pod).to_owned()).collect());
        assert_eq!(
            first,
            Opening {
                priority: Priority::AffinityLeader,
                leads: leads.into()
            }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_open_waits_until_the_others_are_but_not_for_ever() {
        let registration_queue = Arc::new(RegistrationQueue::default());
        let begun = Instant::now();
        let quick = async {
            registration_queue.open(full(), async {}).await;
            begun.elapsed()
        };
        let slow = registration_queue.open(full(), tokio::time::sleep(Duration::from_millis(300)));
        let ((), waited) = tokio::join!(slow, quick);
        assert!((300..400).contains(&waited.as_millis()), "{waited:?}");
        let stuck = registration_queue.clone();
        let stuck =
            tokio::spawn(async move { stuck.open(full(), std::future::pending::<()>()).await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        let begun = Instant::now();
        registration_queue.open(full(), async {}).await;
        let waited = begun.elapsed();
        stuck.abort();
        assert!((OTHERS..OTHERS * 2).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_places_are_kept_for_nobody_the_later_a_node_opens() {
        let registration_queue = RegistrationQueue::default();
        let opened = Mutex::new(Vec::new());
        let open = |free: usize| {
            let opened = &opened;
            registration_queue.open(roomy(free), async move {
                tokio::task::yield_now().await;
                lock(opened).push(free);
            })
        };
        let frees = (1..=3 * OPENS).rev();
        futures::future::join_all(frees.map(open)).await;
        let opened = lock(&opened).clone();
        let waves: Vec<BTreeSet<usize>> = opened
            .chunks(OPENS)
            .map(|wave| wave.iter().copied().collect())
            .collect();
        assert_eq!(
            waves,
            [0, 1, 2].map(|wave| (1 + wave * OPENS..=(wave + 1) * OPENS).collect())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_with_places_for_anybody_opens_after_the_full_ones_but_not_never() {
        let opened_after = async |slow: Duration| {
            let (registration_queue, begun) = (RegistrationQueue::default(), Instant::now());
            let full = registration_queue.open(full(), tokio::time::sleep(slow));
            let roomy = registration_queue.open(roomy(3), async { begun.elapsed() });
            tokio::join!(full, roomy).1
        };
        let waited = opened_after(Duration::from_millis(50)).await;
        assert!((50..60).contains(&waited.as_millis()), "{waited:?}");
        let waited = opened_after(Duration::from_secs(60)).await;
        assert!((OTHERS..OTHERS * 2).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn others_open_when_one_of_each_that_are_followed_is_placed_but_not_never() {
        let opened_after = async |placed: &[(u64, &str)]| {
            let (registration_queue, begun) = (RegistrationQueue::default(), Instant::now());
            let first = registration_queue.open(opening("shop/a~+1,shop/b~+1,shop/c~+2"), async {});
            let other = registration_queue.open(full(), async { begun.elapsed() });
            let placing = async {
                for (at, pod) in placed {
                    tokio::time::sleep_until(begun + Duration::from_millis(*at)).await;
                    registration_queue.placed(pod);
                }
            };
            let ((), waited, ()) = tokio::join!(first, other, placing);
            registration_queue.placed("shop/z");
            assert!(lock(&registration_queue.0).awaited_leaders.is_empty());
            waited.as_millis()
        };
        assert!((80..90).contains(&opened_after(&[(40, "shop/c"), (80, "shop/b")]).await));
        assert!((1000..1100).contains(&opened_after(&[(40, "shop/a"), (80, "shop/b")]).await));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_given_up_takes_nobodys_turn() {
        let registration_queue = RegistrationQueue::default();
        for free in 1..2 * OPENS {
            let waits = registration_queue.open(roomy(free), std::future::pending::<()>());
            assert!(
                tokio::time::timeout(GATHERS * 2, waits).await.is_err(),
                "given up in its turn"
            );
            let early = registration_queue.open(roomy(free), async {});
            assert!(
                tokio::time::timeout(GATHERS / 2, early).await.is_err(),
                "given up before"
            );
        }
        registration_queue.open(full(), async {}).await;
        assert!(!registration_queue.any_closed());
    }
}
