//! The order in which the nodes of a round register.
//!
//! Nodes of a round register within a short time, because pods of unregistered nodes take room on
//! registered ones. Nodes of affinity leaders
//! ([`Planned::affinity_leader`](crate::observe::planned_pods::Planned)) register first. No other node
//! registers until kube-scheduler has bound one leader of each group: bound to a node without room
//! for its followers, a leader would leave them unschedulable. Nodes with unreserved room register
//! last, those with most of it at the end.
//!
//! A registered node's claim is written after the other nodes have registered too: until then the
//! API server has more urgent work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longshore_api::crd::NodeClaim;
use tokio::time::Instant;

use super::Turn;
use crate::observe::planned_pods::planned_pods;

/// Number of registrations written at a time. NodeClaims are created so many at a time too, so that
/// the connections exist already: a new connection takes longer than a request.
const REGISTRATIONS_AT_ONCE: usize = 16;
/// Longest wait of a registered node's other writes for other nodes, of a late node for the earlier
/// ones, and of any node for affinity leaders.
const MAX_WAIT_FOR_OTHERS: Duration = Duration::from_secs(1);
/// Nodes that become ready to register within this time register together.
const BATCH_WINDOW: Duration = Duration::from_millis(10);

/// Priority of a node's registration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Priority {
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
        let priority = match (leads.is_empty(), free) {
            (false, _) => Priority::AffinityLeader,
            (true, 0) => Priority::Reserved,
            (true, free) => Priority::Unreserved(free),
        };
        Opening {
            priority,
            leads: leads.into_values().collect(),
        }
    }
}

/// Where a node is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It waits for its turn since then.
    Waiting(Instant),
    /// It is its turn, and its registration is being written.
    Registering,
    /// It is registered since then, and keeps its slot until its affinity leaders are bound.
    LeadersAwaited(Instant, bool),
    /// Its claim waits since then for other nodes to register.
    OthersAwaited(Instant, bool),
    /// Its claim may be written.
    Registered(bool),
}

/// A node in the queue.
struct Ticket {
    priority: Priority,
    /// Place among nodes of one priority.
    number: u64,
    leads: Vec<BTreeSet<String>>,
    stage: Stage,
}

impl Ticket {
    /// Whether it takes one of the slots.
    fn has_slot(&self) -> bool {
        matches!(self.stage, Stage::Registering | Stage::LeadersAwaited(..))
    }

    /// When something happens to it that nothing else brings about.
    fn wakes_at(&self, now: Instant) -> Option<Instant> {
        match self.stage {
            Stage::Waiting(since) if since + BATCH_WINDOW > now => Some(since + BATCH_WINDOW),
            Stage::Waiting(since) => Some(since + BATCH_WINDOW + MAX_WAIT_FOR_OTHERS),
            Stage::LeadersAwaited(since, _) | Stage::OthersAwaited(since, _) => {
                Some(since + MAX_WAIT_FOR_OTHERS)
            }
            Stage::Registering | Stage::Registered(_) => None,
        }
    }
}

/// The nodes that register, by claim, until their claims say so.
#[derive(Default)]
pub struct RegistrationQueue {
    tickets: BTreeMap<String, Ticket>,
    numbers: u64,
}

impl RegistrationQueue {
    /// Whether a claim's node is in the queue.
    pub fn has(&self, claim: &str) -> bool {
        self.tickets.contains_key(claim)
    }

    /// The turn of a claim, which joins the queue with this call unless it is there.
    pub fn turn(&mut self, claim: &str, opening: impl FnOnce() -> Opening, now: Instant) -> Turn {
        let Some(ticket) = self.tickets.get(claim) else {
            let Opening { priority, leads } = opening();
            self.numbers += 1;
            let ticket = Ticket {
                priority,
                number: self.numbers,
                leads,
                stage: Stage::Waiting(now),
            };
            self.tickets.insert(claim.to_owned(), ticket);
            return Turn::Wait(None);
        };
        match ticket.stage {
            Stage::Registering => Turn::Register,
            Stage::Registered(ready) => Turn::Confirm { ready },
            _ => Turn::Wait(None),
        }
    }

    /// The node of a claim was registered.
    pub fn registered(&mut self, claim: &str, ready: bool, now: Instant) {
        if let Some(ticket) = self.tickets.get_mut(claim) {
            ticket.stage = Stage::LeadersAwaited(now, ready);
        }
    }

    /// The registration of a claim failed: it queues again when it is tried again.
    pub fn failed(&mut self, claim: &str) {
        if self
            .tickets
            .get(claim)
            .is_some_and(|ticket| ticket.stage == Stage::Registering)
        {
            self.tickets.remove(claim);
        }
    }

    /// A claim has been written, or is given up.
    pub fn forget(&mut self, claim: &str) {
        self.tickets.remove(claim);
    }

    /// This replica leads no more.
    pub fn stand_by(&mut self) {
        self.tickets.clear();
    }

    /// A pod, `namespace/name`, waits for a node no longer.
    pub fn placed(&mut self, pod: &str) {
        for ticket in self.tickets.values_mut() {
            ticket.leads.retain(|pods| !pods.contains(pod));
        }
    }

    /// Claims that are not to wait any longer.
    pub fn due(&mut self, now: Instant) -> Vec<String> {
        if self.tickets.is_empty() {
            return Vec::new();
        }
        for ticket in self.tickets.values_mut() {
            if let Stage::LeadersAwaited(since, ready) = ticket.stage
                && (ticket.leads.is_empty() || now >= since + MAX_WAIT_FOR_OTHERS)
            {
                ticket.stage = Stage::OthersAwaited(now, ready);
            }
        }
        let mut due = self.begin(now);
        let any_closed = self
            .tickets
            .values()
            .any(|ticket| ticket.has_slot() || matches!(ticket.stage, Stage::Waiting(_)));
        for (claim, ticket) in &mut self.tickets {
            if let Stage::OthersAwaited(since, ready) = ticket.stage
                && (!any_closed || now >= since + MAX_WAIT_FOR_OTHERS)
            {
                ticket.stage = Stage::Registered(ready);
                due.push(claim.clone());
            }
        }
        due
    }

    /// Begins as many registrations as are allowed at a time, and those that have waited for too
    /// long. Returns their claims.
    fn begin(&mut self, now: Instant) -> Vec<String> {
        let mut slots = [0; Priority::KINDS];
        let mut waiting = BTreeMap::new();
        let mut gathered = false;
        for (claim, ticket) in &self.tickets {
            if ticket.has_slot() {
                slots[ticket.priority.kind()] += 1;
            } else if let Stage::Waiting(since) = ticket.stage {
                gathered |= now >= since + BATCH_WINDOW;
                let late = now >= since + BATCH_WINDOW + MAX_WAIT_FOR_OTHERS;
                waiting.insert((ticket.priority, ticket.number), (claim.clone(), late));
            }
        }
        let mut due = Vec::new();
        for ((priority, _), (claim, late)) in waiting {
            let kind = priority.kind();
            let fits = gathered
                && slots.iter().sum::<usize>() < REGISTRATIONS_AT_ONCE
                && slots[..kind].iter().all(|&others| others == 0);
            if fits || late {
                slots[kind] += 1;
                due.push(claim);
            }
        }
        for claim in &due {
            if let Some(ticket) = self.tickets.get_mut(claim) {
                ticket.stage = Stage::Registering;
            }
        }
        due
    }

    /// When [`RegistrationQueue::due`] has something to do next, if nothing happens before.
    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let tickets = self.tickets.values();
        tickets.filter_map(|ticket| ticket.wakes_at(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observe::planned_pods::PLANNED_PODS;

    const MS: Duration = Duration::from_millis(1);

    fn opening(pods: &str) -> Opening {
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "x", "annotations": {PLANNED_PODS: pods}},
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

    /// A queue whose time passes by calls: nodes take so long to register.
    struct Played {
        queue: RegistrationQueue,
        begun: Instant,
        now: Instant,
        takes: BTreeMap<String, Duration>,
        registering: BTreeMap<String, Instant>,
        /// What became of claims, and when, in milliseconds.
        log: Vec<(u128, String)>,
    }

    impl Played {
        fn new(nodes: impl IntoIterator<Item = (String, Opening, Duration)>) -> Self {
            let now = Instant::now();
            let mut played = Played {
                queue: RegistrationQueue::default(),
                begun: now,
                now,
                takes: BTreeMap::new(),
                registering: BTreeMap::new(),
                log: Vec::new(),
            };
            for (claim, opening, takes) in nodes {
                assert_eq!(played.queue.turn(&claim, || opening, now), Turn::Wait(None));
                played.takes.insert(claim, takes);
            }
            played
        }

        /// Plays until then. The queue is asked at the times that it names and at those of events.
        fn until(&mut self, milliseconds: u64) {
            let end = self.begun + MS * milliseconds as u32;
            loop {
                for claim in self.queue.due(self.now) {
                    let at = (self.now - self.begun).as_millis();
                    match self.queue.turn(&claim, full, self.now) {
                        Turn::Register => {
                            self.log.push((at, format!("{claim} registers")));
                            let takes = self.takes[&claim];
                            self.registering.insert(claim, self.now + takes);
                        }
                        Turn::Confirm { .. } => {
                            self.log.push((at, format!("{claim} is written")));
                            self.queue.forget(&claim);
                        }
                        Turn::Wait(_) => panic!("{claim} is due and waits"),
                    }
                }
                let done = self.registering.values().min().copied();
                let wakes = self.queue.wakes_at(self.now);
                assert!(wakes.is_none_or(|at| at > self.now), "no spinning");
                let Some(next) = wakes.into_iter().chain(done).min().filter(|at| *at <= end) else {
                    self.now = end;
                    return;
                };
                self.now = next;
                let now = self.now;
                let ended = self.registering.extract_if(.., |_, at| *at <= now);
                let ended: Vec<String> = ended.map(|(claim, _)| claim).collect();
                for claim in ended {
                    self.queue.registered(&claim, false, now);
                }
            }
        }

        fn at(&self, what: &str) -> u128 {
            let found = self.log.iter().find(|(_, event)| event == what);
            found.unwrap_or_else(|| panic!("{what}: {:?}", self.log)).0
        }
    }

    fn node(name: &str, opening: Opening, takes: u32) -> (String, Opening, Duration) {
        (name.to_owned(), opening, MS * takes)
    }

    #[test]
    fn room_is_reserved_for_nominated_pods_and_of_a_spread_group_for_the_first() {
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
            "two are not nominated at all"
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

    #[test]
    fn a_claim_is_written_once_the_other_nodes_have_registered_or_after_a_second() {
        let mut played = Played::new([node("slow", full(), 300), node("quick", full(), 0)]);
        played.until(2_000);
        assert_eq!(played.at("quick is written"), 310);
        let mut played = Played::new([node("stuck", full(), 60_000), node("quick", full(), 0)]);
        played.until(2_000);
        assert_eq!(played.at("quick is written"), 1_010);
    }

    #[test]
    fn nodes_register_in_order_of_their_unreserved_room() {
        let nodes = (1..=3 * REGISTRATIONS_AT_ONCE).rev();
        let nodes = nodes.map(|free| node(&format!("{free:02}"), roomy(free), 5));
        let mut played = Played::new(nodes);
        played.until(100);
        let registered = played.log.iter().filter(|(_, what)| what.ends_with("rs"));
        let order: Vec<(u128, usize)> = registered
            .map(|(at, what)| (*at, what[..2].parse().unwrap()))
            .collect();
        let waves = |free: usize| 10 + 5 * ((free - 1) / REGISTRATIONS_AT_ONCE) as u128;
        let expected: Vec<_> = (1..=3 * REGISTRATIONS_AT_ONCE)
            .map(|free| (waves(free), free))
            .collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn a_node_with_unreserved_room_registers_after_the_full_ones_or_after_a_second() {
        for (slow, expected) in [(50, 60), (60_000, 1_010)] {
            let mut played = Played::new([node("full", full(), slow), node("roomy", roomy(3), 0)]);
            played.until(2_000);
            assert_eq!(played.at("roomy registers"), expected);
        }
    }

    #[test]
    fn other_nodes_register_when_one_leader_of_each_group_is_bound_or_after_a_second() {
        let registered_after = |placed: &[(u64, &str)]| {
            let leaders = opening("shop/a~+1,shop/b~+1,shop/c~+2");
            let mut played = Played::new([node("first", leaders, 0), node("other", full(), 0)]);
            for &(at, pod) in placed {
                played.until(at);
                played.queue.placed(pod);
            }
            played.until(3_000);
            played.queue.placed("shop/z");
            assert!(played.queue.tickets.is_empty(), "nothing is kept");
            played.at("other registers")
        };
        assert_eq!(registered_after(&[(40, "shop/c"), (80, "shop/b")]), 80);
        assert_eq!(registered_after(&[(40, "shop/a"), (80, "shop/b")]), 1_010);
    }

    #[test]
    fn a_node_that_is_given_up_takes_no_turn() {
        let nodes =
            (1..2 * REGISTRATIONS_AT_ONCE).map(|free| node(&free.to_string(), roomy(free), 60_000));
        let mut played = Played::new(nodes);
        played.until(20);
        (1..2 * REGISTRATIONS_AT_ONCE).for_each(|free| played.queue.forget(&free.to_string()));
        assert_eq!(played.queue.wakes_at(played.now), None);
        let now = played.now;
        assert_eq!(played.queue.turn("late", full, now), Turn::Wait(None));
        assert_eq!(played.queue.due(now + BATCH_WINDOW), ["late"]);
        played.queue.failed("late");
        assert!(!played.queue.has("late"), "it queues again");
        assert_eq!(played.queue.turn("late", full, now), Turn::Wait(None));
        played.queue.failed("late");
        assert!(played.queue.has("late"), "it has not begun");
    }
}
