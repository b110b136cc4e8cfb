//! Which nodes are worth removing: the search as a whole.
//!
//! Nodes are screened by what their pods would cost elsewhere, at prices of a linear program. All
//! that are not worth what they cost are removed at once, and one packing places their pods. Several
//! thresholds are tried; the best complete outcome is improved by small changes. Small clusters are
//! searched exhaustively, and packed exactly where that is quick. Effort is counted in steps, so
//! that the answer does not depend on the machine.

use super::compiled::Compiled;
use super::costs::MIN_GAIN;
use super::exact;
use super::fill::Filler;
use super::neighbourhood::{self, Rng};
use super::pack;
use super::state::SearchState;
use crate::stop::Stop;

/// Limits of a search, in steps.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds of column generation for the prices of pods.
    pub rounds: usize,
    /// Small changes tried for each node. A cluster of few nodes gets `MIN_TRIES` all the same.
    pub tries: usize,
    /// Seed of choices.
    pub seed: u64,
    /// Consolidation only looks at one node after the other, as [`sweep`] does: for a cluster that
    /// has hardly changed since a whole search found nothing.
    pub sweep_only: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Effort {
            rounds: 4,
            tries: 1,
            seed: 0,
            sweep_only: false,
        }
    }
}

/// Shares of what a node's contents are worth above which its price is too high, and whether the value
/// of its free room counts. Prices of the linear program are a little too low, so several are tried.
const THRESHOLDS: [(f64, bool); 5] = [
    (0.9, true),
    (1.0, true),
    (1.1, true),
    (1.25, true),
    (0.9, false),
];
/// Nodes up to which every subset is tried.
const MAX_EXHAUSTIVE_NODES: usize = 8;
/// Small changes that are tried in any cluster, unless [`Effort::tries`] is 0.
const MIN_TRIES: usize = 64;
/// Nodes that are worth more than this for what they cost are not looked at after small changes.
const MAX_SWEPT_WORTH: f64 = 1.3;
/// Sweeps after which a search ends though the last one found something.
const MAX_SWEEPS: usize = 4;

/// The best state found.
pub fn search<'c, 'a>(c: &'c Compiled<'a>, effort: Effort, stop: Stop<'_>) -> SearchState<'c, 'a> {
    let removable: Vec<usize> = (0..c.nodes.len())
        .filter(|&at| c.nodes[at].removable)
        .collect();
    let mut filler = Filler::default();
    let mut rng = Rng::new(effort.seed + 1);
    let mut best = SearchState::new(c);
    if removable.is_empty() {
        return best;
    }
    if removable.len() <= MAX_EXHAUSTIVE_NODES
        && let Some(found) = exact::search(c, &removable)
    {
        keep_better(&mut best, Some(found));
    } else if removable.len() <= MAX_EXHAUSTIVE_NODES {
        for subset in 1..1usize << removable.len() {
            let of = |(bit, &node): (usize, &usize)| (subset & (1 << bit) != 0).then_some(node);
            let removed: Vec<usize> = removable.iter().enumerate().filter_map(of).collect();
            keep_better(&mut best, attempt(c, &mut filler, &removed));
        }
    } else {
        for (threshold, with_room) in THRESHOLDS {
            if stop.is_raised() {
                return SearchState::new(c);
            }
            let removed = screen(c, &removable, threshold, with_room);
            keep_better(&mut best, attempt(c, &mut filler, &removed));
        }
    }
    let tries = match effort.tries {
        0 => 0,
        each => (each * c.nodes.len()).max(MIN_TRIES),
    };
    neighbourhood::improve(&mut best, &mut filler, tries, &mut rng);
    for _ in 0..MAX_SWEEPS {
        if stop.is_raised() {
            return SearchState::new(c);
        }
        if !neighbourhood::sweep(&mut best, &mut filler, MAX_SWEPT_WORTH, &mut rng) {
            break;
        }
    }
    best
}

/// What is found by looking at one node after the other: for clusters that have hardly changed.
pub fn sweep<'c, 'a>(c: &'c Compiled<'a>, effort: Effort) -> SearchState<'c, 'a> {
    let mut filler = Filler::default();
    let mut state = SearchState::new(c);
    neighbourhood::sweep(
        &mut state,
        &mut filler,
        MAX_SWEPT_WORTH,
        &mut Rng::new(effort.seed + 1),
    );
    state
}

fn keep_better<'c, 'a>(best: &mut SearchState<'c, 'a>, found: Option<SearchState<'c, 'a>>) {
    if let Some(found) = found
        && found.cost < best.cost - MIN_GAIN
    {
        *best = found;
    }
}

/// Nodes that are not worth what they cost.
fn screen(c: &Compiled<'_>, removable: &[usize], threshold: f64, with_room: bool) -> Vec<usize> {
    let worth = |at: usize| {
        let room = if with_room {
            c.worth_of_room(&c.nodes[at].free)
        } else {
            0.0
        };
        c.own_value(at) + c.nodes[at].move_cost + room
    };
    removable
        .iter()
        .copied()
        .filter(|&at| c.nodes[at].cost > threshold * worth(at))
        .collect()
}

/// The state without some nodes. Nodes whose pods find no place are kept, a few times over.
fn attempt<'c, 'a>(
    c: &'c Compiled<'a>,
    filler: &mut Filler,
    removed: &[usize],
) -> Option<SearchState<'c, 'a>> {
    let mut removed = removed.to_vec();
    for _ in 0..3 {
        let mut state = SearchState::new(c);
        let left = pack::pack(&mut state, filler, &removed);
        if left.is_empty() {
            state.compact();
            return Some(state);
        }
        let stuck = |node: &usize| {
            c.nodes[*node]
                .own
                .iter()
                .any(|own| left.iter().any(|(class, _)| *class == own.class))
        };
        removed.retain(|node| !stuck(node));
    }
    None
}
