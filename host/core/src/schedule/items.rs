//! Pods that are alike as one item, with what they ask for: first everything that they require or prefer, then less,
//! preference by preference.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::fit::{Amounts, Dims};
use super::sets::{Set, Sets};
use super::states::{NeedId, StateId, States};
use super::topology::{Rule, Spec, Topology};
use crate::model::{HostPort, PodShape, PreferencePolicy, Requirement, Sym, TaintEffect};
use crate::plan::PodIx;
use crate::snapshot::{PendingPod, Snapshot};

/// Pods that nothing tells apart.
#[derive(Clone, Debug)]
pub struct Item {
    /// The pods, in queue order.
    pub pods: Vec<PodIx>,
    /// Their shape.
    pub shape: Arc<PodShape>,
    /// What one of them asks for.
    pub request: Amounts,
    /// What they ask of a node, the strictest first; one more preference given up with each.
    pub variants: Vec<Variant>,
    /// Groups of spread, affinity and anti-affinity that count them.
    pub counted: Vec<usize>,
    /// Groups that they own seen from the other side.
    pub owned_inverse: Vec<usize>,
    /// Groups of others' anti-affinity that keep them away.
    pub selected_inverse: Vec<usize>,
    /// Host ports.
    pub ports: Vec<HostPort>,
    /// CSI volumes of the (only) pod.
    pub volumes: Vec<(Sym, u32)>,
}

/// One level of what an item asks for.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Label requirements, the heaviest preferred node affinity term included; with volumes one alternative each.
    pub needs: Vec<NeedId>,
    /// The same without preferences: over which domains a spread constraint looks.
    pub strict: Sets,
    /// Topology rules.
    pub uses: Vec<GroupUse>,
    /// `PreferNoSchedule` taints keep it away.
    pub minds_preference_taints: bool,
}

/// A topology rule that an item must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUse {
    /// The group.
    pub group: usize,
    /// The pod itself counts.
    pub own: bool,
    /// A wish: ScheduleAnyway, or balance for the sake of others.
    pub soft: bool,
    /// The rule is the pod's own, not one that it balances for others.
    pub owner: bool,
}

/// Groups pending pods and works out what each group asks for. Pods that cannot be planned at all are left out.
pub fn collect(
    snapshot: &Snapshot,
    states: &mut States<'_>,
    topology: &mut Topology,
    dims: &Dims,
    pools: &[StateId],
) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut index: FxHashMap<(*const PodShape, &[Vec<Requirement>]), usize> = FxHashMap::default();
    let mut alternatives: Vec<&[Vec<Requirement>]> = Vec::new();
    for pod in snapshot.pending.iter().filter(|p| p.unfit.is_none()) {
        let key = (Arc::as_ptr(&pod.shape), pod.volume_alternatives.as_slice());
        if pod.volumes.is_empty()
            && let Some(&at) = index.get(&key)
        {
            items[at].pods.push(pod.pod);
            continue;
        }
        if pod.volumes.is_empty() {
            index.insert(key, items.len());
        }
        alternatives.push(&pod.volume_alternatives);
        items.push(bare(pod, dims));
    }
    let citizens = own_groups(snapshot, states, topology, pools, &mut items);
    let minds = minds_preference_taints(snapshot);
    for (item, alternatives) in items.iter_mut().zip(alternatives) {
        item.variants = ladder(item, alternatives, snapshot, states, topology, pools, &citizens, minds);
    }
    select(snapshot, states, topology, pools, &mut items);
    items
}

fn bare(pod: &PendingPod, dims: &Dims) -> Item {
    Item {
        pods: vec![pod.pod],
        shape: pod.shape.clone(),
        request: dims.amounts(&pod.shape.requests),
        variants: Vec::new(),
        counted: Vec::new(),
        owned_inverse: Vec::new(),
        selected_inverse: Vec::new(),
        ports: pod.shape.ports.clone(),
        volumes: pod.volumes.clone(),
    }
}

/// Makes the groups of hard rules, and returns those that others are asked to keep balanced: spread constraints and
/// affinities over domains wider than a host.
fn own_groups(
    snapshot: &Snapshot,
    states: &mut States<'_>,
    topology: &mut Topology,
    pools: &[StateId],
    items: &mut [Item],
) -> Vec<usize> {
    let world = &snapshot.world;
    let mut citizens = Vec::new();
    for item in items {
        let shape = item.shape.clone();
        for spread in shape.spread.iter().filter(|s| s.required) {
            citizens.push(topology.group(Spec::spread(spread, &shape), snapshot, states, pools));
        }
        for term in &shape.affinity {
            let spec = Spec::term(Rule::Affinity, term, shape.namespace, world);
            citizens.push(topology.group(spec, snapshot, states, pools));
        }
        for term in &shape.anti_affinity {
            let spec = Spec::term(Rule::Inverse, term, shape.namespace, world);
            item.owned_inverse.push(topology.group(spec, snapshot, states, pools));
        }
    }
    citizens.sort_unstable();
    citizens.dedup();
    citizens.retain(|&g| topology.groups[g].key.is_some());
    citizens
}

fn minds_preference_taints(snapshot: &Snapshot) -> bool {
    let prefers = |taints: &[crate::model::Taint]| taints.iter().any(|t| t.effect == TaintEffect::PreferNoSchedule);
    snapshot.pools.iter().any(|p| prefers(&snapshot.world.pools[p.0 as usize].taints))
        || snapshot.nodes.iter().any(|n| prefers(&n.taints))
}

/// What is still wished for at one level.
struct Wishes {
    term: usize,
    affinity: Vec<usize>,
    anti_affinity: Vec<usize>,
    node_terms: Vec<usize>,
    anyway: Vec<usize>,
    citizen: bool,
    minds_taints: bool,
}

/// Every level from all wishes to none. Order of giving up: balance for others, required node-affinity alternatives
/// from the first, preferred pod affinity, preferred pod anti-affinity, preferred node affinity (heaviest first each),
/// ScheduleAnyway constraints, dislike of `PreferNoSchedule` taints.
#[allow(clippy::too_many_arguments)]
fn ladder(
    item: &Item,
    alternatives: &[Vec<Requirement>],
    snapshot: &Snapshot,
    states: &mut States<'_>,
    topology: &mut Topology,
    pools: &[StateId],
    citizens: &[usize],
    minds: bool,
) -> Vec<Variant> {
    let shape = &item.shape;
    let respect = snapshot.world.settings.preferences == PreferencePolicy::Respect;
    let heaviest_first = |weights: Vec<i32>| {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(weights[at]));
        if respect { order } else { Vec::new() }
    };
    let hard = hard_uses(item, snapshot, states, topology, pools);
    let mut wishes = Wishes {
        term: 0,
        affinity: heaviest_first(shape.preferred_affinity.iter().map(|p| p.0).collect()),
        anti_affinity: heaviest_first(shape.preferred_anti_affinity.iter().map(|p| p.0).collect()),
        node_terms: heaviest_first(shape.preferred.iter().map(|p| p.0).collect()),
        anyway: heaviest_first(shape.spread.iter().map(|s| i32::from(!s.required)).collect()),
        citizen: false,
        minds_taints: minds,
    };
    wishes.anyway.retain(|&at| !shape.spread[at].required);
    let mut balance = Vec::new();
    for &group in citizens {
        let selected = topology.groups[group].spec.selects(shape.namespace, &shape.labels);
        if selected && !hard.iter().any(|u| u.group == group) {
            balance.push(GroupUse { group, own: true, soft: true, owner: false });
        }
    }
    wishes.citizen = !balance.is_empty();
    let mut levels = Vec::new();
    loop {
        levels.push(level(item, alternatives, &wishes, &hard, &balance, snapshot, states, topology, pools));
        if wishes.citizen {
            wishes.citizen = false;
        } else if wishes.term + 1 < shape.required.len() {
            wishes.term += 1;
        } else if !wishes.affinity.is_empty() {
            wishes.affinity.remove(0);
        } else if !wishes.anti_affinity.is_empty() {
            wishes.anti_affinity.remove(0);
        } else if !wishes.node_terms.is_empty() {
            wishes.node_terms.remove(0);
        } else if !wishes.anyway.is_empty() {
            wishes.anyway.remove(0);
        } else if wishes.minds_taints {
            wishes.minds_taints = false;
        } else {
            return levels;
        }
    }
}

fn hard_uses(
    item: &Item,
    snapshot: &Snapshot,
    states: &mut States<'_>,
    topology: &mut Topology,
    pools: &[StateId],
) -> Vec<GroupUse> {
    let shape = &item.shape;
    let spreads = shape.spread.iter().filter(|s| s.required).map(|s| Spec::spread(s, shape));
    let term = |rule, t| Spec::term(rule, t, shape.namespace, &snapshot.world);
    let affinity = shape.affinity.iter().map(|t| term(Rule::Affinity, t));
    let anti = shape.anti_affinity.iter().map(|t| term(Rule::Anti, t));
    let specs: Vec<Spec> = spreads.chain(affinity).chain(anti).collect();
    specs.into_iter().map(|spec| group_use(spec, shape, false, snapshot, states, topology, pools)).collect()
}

fn group_use(
    spec: Spec,
    shape: &PodShape,
    soft: bool,
    snapshot: &Snapshot,
    states: &mut States<'_>,
    topology: &mut Topology,
    pools: &[StateId],
) -> GroupUse {
    let own = spec.selects(shape.namespace, &shape.labels);
    GroupUse { group: topology.group(spec, snapshot, states, pools), own, soft, owner: true }
}

#[allow(clippy::too_many_arguments)]
fn level(
    item: &Item,
    alternatives: &[Vec<Requirement>],
    wishes: &Wishes,
    hard: &[GroupUse],
    balance: &[GroupUse],
    snapshot: &Snapshot,
    states: &mut States<'_>,
    topology: &mut Topology,
    pools: &[StateId],
) -> Variant {
    let shape = &item.shape;
    let mut strict = Sets::new(&shape.node_selector, &states.numbers);
    if let Some(term) = shape.required.get(wishes.term) {
        strict.add_all(&Sets::new(term, &states.numbers), &states.numbers);
    }
    let mut sets = strict.clone();
    if let Some(&heaviest) = wishes.node_terms.first() {
        sets.add_all(&Sets::new(&shape.preferred[heaviest].1, &states.numbers), &states.numbers);
        if sets.0.iter().any(|(_, set)| set.is_nothing()) {
            sets = strict.clone();
        }
    }
    let needs = if alternatives.is_empty() {
        vec![states.need(sets)]
    } else {
        let with = |a: &Vec<Requirement>| {
            let mut all = sets.clone();
            a.iter().for_each(|r| all.add(r.key, &Set::from_op(&r.op), &states.numbers));
            all
        };
        let all: Vec<Sets> = alternatives.iter().map(with).collect();
        all.into_iter().map(|sets| states.need(sets)).collect()
    };
    let mut uses = hard.to_vec();
    let term = |rule, t| Spec::term(rule, t, shape.namespace, &snapshot.world);
    let affinity = wishes.affinity.iter().map(|&at| (term(Rule::Affinity, &shape.preferred_affinity[at].1), false));
    let anti = wishes.anti_affinity.iter().map(|&at| (term(Rule::Anti, &shape.preferred_anti_affinity[at].1), false));
    let anyway = wishes.anyway.iter().map(|&at| (Spec::spread(&shape.spread[at], shape), true));
    let specs: Vec<(Spec, bool)> = affinity.chain(anti).chain(anyway).collect();
    for (spec, soft) in specs {
        uses.push(group_use(spec, shape, soft, snapshot, states, topology, pools));
    }
    if wishes.citizen {
        uses.extend(balance);
    }
    Variant { needs, strict, uses, minds_preference_taints: wishes.minds_taints }
}

/// Works out which groups count each item, and which terms of others keep it away, running pods' terms included.
fn select(
    snapshot: &Snapshot,
    states: &mut States<'_>,
    topology: &mut Topology,
    pools: &[StateId],
    items: &mut [Item],
) {
    for &shape in &snapshot.running.anti_affine {
        let owner = snapshot.world.shapes.get(shape);
        for term in &owner.anti_affinity {
            let spec = Spec::term(Rule::Inverse, term, owner.namespace, &snapshot.world);
            if items.iter().any(|i| spec.selects(i.shape.namespace, &i.shape.labels)) {
                let group = topology.group(spec, snapshot, states, pools);
                topology.count_owners(group, shape, snapshot);
            }
        }
    }
    for item in items {
        for (at, group) in topology.groups.iter().enumerate() {
            if group.spec.selects(item.shape.namespace, &item.shape.labels) {
                match group.spec.rule {
                    Rule::Inverse => item.selected_inverse.push(at),
                    _ => item.counted.push(at),
                }
            }
        }
    }
}
