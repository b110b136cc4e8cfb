//! The best that can be done with a small cluster, by trying everything.
//!
//! Every subset of the candidates goes once. Hosts that stay take every maximal set of the pods that
//! have to move, then everything that is left over is bought for in every way. Only outcomes that are
//! worse in every respect than others are forgotten.

use std::collections::HashMap;
use std::rc::Rc;

/// Cores in thousandths, and bytes of memory.
pub type Room = [i64; 2];
/// How many pods of each app.
type Counts = Vec<u32>;

/// An existing node.
pub struct Host {
    /// USD per hour.
    pub price: f64,
    /// What it costs to move its pods, USD per hour.
    pub move_cost: f64,
    /// It is a candidate.
    pub may_go: bool,
    /// What its pods leave.
    pub free: Room,
    /// Its pods.
    pub own: Counts,
    /// Which apps may be on it.
    pub admits: Vec<bool>,
}

/// Something to buy.
pub struct Offer {
    /// USD per hour.
    pub price: f64,
    /// What pods get of it.
    pub room: Room,
    /// Which apps may be on it.
    pub admits: Vec<bool>,
}

/// A cluster and what can be bought.
pub struct Game {
    /// What a pod of each app asks for.
    pub amounts: Vec<Room>,
    /// Two pods of such an app are never on one host.
    pub alone: Vec<bool>,
    /// Existing nodes.
    pub hosts: Vec<Host>,
    /// What can be bought.
    pub offers: Vec<Offer>,
    /// Cost of a node beside its price, USD per hour.
    pub node_cost: f64,
}

/// Price of some bought nodes, and how many they are: outcomes of which none is worse in both.
type Bills = Rc<Vec<(f64, u32)>>;

/// The most that the objective gains, USD per hour. What is bought costs less than the nodes that go.
pub fn most_gained(game: &Game) -> f64 {
    let candidates: Vec<usize> = (0..game.hosts.len())
        .filter(|&at| game.hosts[at].may_go)
        .collect();
    let goes = |subset: usize| {
        let candidates = candidates.iter().enumerate();
        candidates
            .filter(move |(bit, _)| subset & (1 << bit) != 0)
            .map(|(_, &at)| at)
    };
    // What a subset gains if its pods cost nothing elsewhere.
    let without = |subset: usize| -> f64 {
        let host = |at: usize| &game.hosts[at];
        goes(subset)
            .map(|at| host(at).price + game.node_cost - host(at).move_cost)
            .sum()
    };
    let mut subsets: Vec<(f64, usize)> = (1..1 << candidates.len())
        .map(|subset| (without(subset), subset))
        .collect();
    subsets.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut shop = Shop::new(game);
    let mut best = 0.0;
    for (most, subset) in subsets {
        if most <= best {
            break;
        }
        let gone: Vec<usize> = goes(subset).collect();
        let price: f64 = gone.iter().map(|&at| game.hosts[at].price).sum();
        for left in left_over(game, &gone) {
            for &(paid, nodes) in shop.bills(&left).iter() {
                let gain = most - paid - f64::from(nodes) * game.node_cost;
                if gain > best && (nodes == 0 || paid < price * (1.0 - 1e-9)) {
                    best = gain;
                }
            }
        }
    }
    best
}

/// Pods that the hosts that stay do not take, in every way that is not worse than another.
fn left_over(game: &Game, gone: &[usize]) -> Vec<Counts> {
    let mut demand = vec![0; game.amounts.len()];
    for host in gone.iter().map(|&at| &game.hosts[at]) {
        demand
            .iter_mut()
            .zip(&host.own)
            .for_each(|(d, own)| *d += own);
    }
    let mut all = vec![demand.clone()];
    for (_, host) in (0..).zip(&game.hosts).filter(|(at, _)| !gone.contains(at)) {
        let most = |app: usize| match (host.admits[app], game.alone[app]) {
            (false, _) => 0,
            (true, true) => demand[app].min(1 - host.own[app].min(1)),
            (true, false) => demand[app],
        };
        let sets = maximal(
            game,
            host.free,
            &(0..demand.len()).map(most).collect::<Counts>(),
        );
        let taken = all
            .iter()
            .flat_map(|left| sets.iter().map(|set| less(left, set)));
        all = least(taken.collect());
    }
    all
}

fn less(left: &Counts, taken: &Counts) -> Counts {
    let pairs = left.iter().zip(taken);
    pairs
        .map(|(left, taken)| left.saturating_sub(*taken))
        .collect()
}

fn within(small: &Counts, large: &Counts) -> bool {
    small.iter().zip(large).all(|(small, large)| small <= large)
}

/// Those that no other is within.
fn least(mut all: Vec<Counts>) -> Vec<Counts> {
    all.sort_by_key(|counts| (counts.iter().sum::<u32>(), counts.clone()));
    all.dedup();
    let mut kept: Vec<Counts> = Vec::new();
    for counts in all {
        if !kept.iter().any(|known| within(known, &counts)) {
            kept.push(counts);
        }
    }
    kept
}

/// Sets of at most so many pods that fit a room and that no further pod fits beside.
fn maximal(game: &Game, room: Room, most: &Counts) -> Vec<Counts> {
    let mut all = Vec::new();
    let mut counts = vec![0; most.len()];
    extend(game, room, most, 0, &mut counts, &mut all);
    all
}

fn extend(
    game: &Game,
    room: Room,
    most: &Counts,
    app: usize,
    counts: &mut Counts,
    all: &mut Vec<Counts>,
) {
    let fits = |app: usize| (0..2).all(|r| game.amounts[app][r] <= room[r]);
    if app == most.len() {
        if !(0..app).any(|app| counts[app] < most[app] && fits(app)) {
            all.push(counts.clone());
        }
        return;
    }
    extend(game, room, most, app + 1, counts, all);
    if counts[app] < most[app] && fits(app) {
        counts[app] += 1;
        let left = [0, 1].map(|r| room[r] - game.amounts[app][r]);
        extend(game, left, most, app, counts, all);
        counts[app] -= 1;
    }
}

/// What is bought for pods, by how many of each app there are.
struct Shop<'g> {
    /// What nodes that are worth buying hold, and their prices.
    sets: Vec<(Counts, f64)>,
    known: HashMap<Counts, Bills>,
    game: &'g Game,
}

impl<'g> Shop<'g> {
    fn new(game: &'g Game) -> Self {
        let pods = |app: usize| game.hosts.iter().map(|host| host.own[app]).sum();
        let pods: Counts = (0..game.amounts.len()).map(pods).collect();
        let mut sets: Vec<(Counts, f64)> = Vec::new();
        for offer in &game.offers {
            let most = |app: usize| match (offer.admits[app], game.alone[app]) {
                (false, _) => 0,
                (true, true) => pods[app].min(1),
                (true, false) => pods[app],
            };
            let most: Counts = (0..pods.len()).map(most).collect();
            let held = maximal(game, offer.room, &most).into_iter();
            sets.extend(held.map(|counts| (counts, offer.price)));
        }
        sets.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
        let mut shop = Shop {
            sets: Vec::new(),
            known: HashMap::new(),
            game,
        };
        for (counts, price) in sets {
            let beaten = shop.sets.iter().any(|(known, _)| within(&counts, known));
            if !beaten {
                shop.sets.push((counts, price));
            }
        }
        shop
    }

    fn bills(&mut self, left: &Counts) -> Bills {
        // One node holds the first of the pods that are left, whatever the others do.
        let Some(first) = left.iter().position(|&pods| pods > 0) else {
            return Rc::new(vec![(0.0, 0)]);
        };
        if let Some(known) = self.known.get(left) {
            return Rc::clone(known);
        }
        let mut found: Vec<(f64, u32)> = Vec::new();
        for at in 0..self.sets.len() {
            let (set, price) = (&self.sets[at].0, self.sets[at].1);
            if set[first] == 0 {
                continue;
            }
            let rest = less(left, set);
            let bills = self.bills(&rest);
            found.extend(bills.iter().map(|&(paid, nodes)| (paid + price, nodes + 1)));
        }
        let cost = |bill: &(f64, u32)| bill.0 + f64::from(bill.1) * self.game.node_cost;
        found.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.0.total_cmp(&b.0)));
        // Dearer ones count only where their price alone, which the rule is about, is lower.
        let mut kept: Vec<(f64, u32)> = Vec::new();
        for bill in found {
            if kept.iter().all(|known| bill.0 < known.0 - 1e-9) {
                kept.push(bill);
            }
        }
        let kept = Rc::new(kept);
        self.known.insert(left.clone(), Rc::clone(&kept));
        kept
    }
}
