//! A lower bound on what consolidation can reach, moves included.
//!
//! Let `w` be prices of pods such that the most valuable contents of every offer are worth no more
//! than it costs, and `m` what it costs to move a pod. Each pod on a bought node is worth at most its
//! share of what that node costs, and each pod that moved pays `m`. So the objective is at least
//! `Σ (w + m) over pods + Σ min(0, cost − K) over nodes`, where `K` is at least what a node can hold
//! at best, its own pods being worth `w + m` there and others `w`. Nodes that may not be removed count
//! without the minimum, and their own pods stay.
//!
//! `K` is bounded by Lagrange's relaxation: for any prices of resources, the room at these prices and
//! what each own pod is worth beyond them, if no other pod is worth more than its resources.

use super::compiled::Compiled;

/// Prices of cores that are tried for each node, from nothing to what makes every pod pay for them.
const PRICE_STEPS: u32 = 16;

/// No outcome has a smaller objective, USD per hour: cost of all nodes and of all moves.
pub fn lower_bound(c: &Compiled<'_>) -> f64 {
    let mut moves = vec![false; c.values.len()];
    for own in c
        .nodes
        .iter()
        .filter(|node| node.removable)
        .flat_map(|node| &node.own)
    {
        moves[c.classes[own.class as usize].size] = true;
    }
    let fixed: f64 = c
        .nodes
        .iter()
        .filter(|node| !node.removable)
        .map(|node| node.cost)
        .sum();
    let mut bound = 0.0;
    for (at, node) in c.nodes.iter().enumerate() {
        if node.removable {
            bound += c.own_value(at) + node.move_cost;
            bound += (node.cost - most_valuable(c, at, &moves)).min(0.0);
        } else {
            bound += node.cost - most_valuable(c, at, &moves);
        }
    }
    bound.max(fixed)
}

/// At least what a node can hold: its own pods with what it saves not to move them, and others.
fn most_valuable(c: &Compiled<'_>, at: usize, moves: &[bool]) -> f64 {
    let node = &c.nodes[at];
    let mut room = [node.free[0], node.free[1]];
    // Value and amounts of one of its own pods, and how many there are.
    let mut own: Vec<(f64, [f64; 2], f64)> = Vec::new();
    if node.removable {
        let units: u32 = node.own.iter().map(|own| own.units).sum();
        let each = node.move_cost / f64::from(units.max(1));
        for of in &node.own {
            let (amount, pods) = (&c.classes[of.class as usize].amount, i64::from(of.units));
            room.iter_mut()
                .zip(amount)
                .for_each(|(r, &a)| *r += a * pods);
            let amount = [amount[0] as f64, amount[1] as f64];
            own.push((c.value(of.class) + each, amount, pods as f64));
        }
    }
    let here = |size: usize| {
        let class = c.by_size[size]
            .first()
            .map(|&class| &c.classes[class as usize]);
        class
            .filter(|of| node.destination && c.places[of.place].nodes.has(at))
            .map(|of| (c.values[size], [of.amount[0] as f64, of.amount[1] as f64]))
    };
    let others: Vec<(f64, [f64; 2])> = (0..moves.len())
        .filter(|&size| moves[size])
        .filter_map(here)
        .collect();
    let dearest = others
        .iter()
        .map(|(value, amount)| value / amount[0].max(1.0))
        .fold(0.0, f64::max);
    let bound = |step: u32| {
        let cpu = dearest * f64::from(step) / f64::from(PRICE_STEPS);
        let memory = others
            .iter()
            .map(|(value, amount)| (value - cpu * amount[0]) / amount[1].max(1.0))
            .fold(0.0, f64::max);
        let paid = |amount: [f64; 2]| amount[0].max(0.0) * cpu + amount[1].max(0.0) * memory;
        let beyond =
            |(value, amount, pods): &(f64, [f64; 2], f64)| (value - paid(*amount)).max(0.0) * pods;
        paid([room[0] as f64, room[1] as f64]) + own.iter().map(beyond).sum::<f64>()
    };
    (0..=PRICE_STEPS).map(bound).fold(f64::INFINITY, f64::min)
}
