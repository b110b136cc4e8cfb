//! Groups of identical pods, with their requirements: first everything that they require or prefer,
//! then relaxed preference by preference.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::by_label::ByLabel;
use super::fit::{ResourceDims, ResourceVector};
use super::members::Members;
use super::node_specs::{NodeSpecId, NodeSpecs, RequirementsId};
use super::sets::{Set, Sets};
use super::topology::{ConstraintKind, GroupKey, Topology};
use crate::ids::PodIx;
use crate::model::{HostPort, PodShape, PreferencePolicy, Requirement, Symbol, TaintEffect};
use crate::reasons::UselessPurchase;
use crate::snapshot::{ClaimToBind, PendingPod, SharedClaims, Snapshot};

/// Identical pods.
#[derive(Clone, Debug)]
pub struct PodGroup {
    /// The pods, in queue order.
    pub pods: Vec<PodIx>,
    /// What all of them ask for.
    pub shape: Arc<PodShape>,
    /// What one of them asks for.
    pub request: ResourceVector,
    /// What they ask of a node, the strictest first; one more preference given up with each.
    pub relaxations: Vec<Relaxation>,
    /// Groups of spread, affinity and anti-affinity that count them.
    pub counted: Members,
    /// Groups that they own seen from the other side.
    pub owned_anti_affinity: Members,
    /// Groups of others' anti-affinity that keep them away.
    pub repelled_by: Members,
    /// Topology keys of `repelled_by`, in the order of their first groups, and whether there are
    /// several of the key.
    pub inverse_keys: Vec<(usize, bool)>,
    /// Some of `repelled_by` keep them away from hosts.
    pub inverse_hosts: bool,
    /// Topology keys of all three kinds of groups, sorted.
    pub keys: Vec<usize>,
    /// Affinity of other pods to a host may select them.
    pub followed_on_host: bool,
    /// Host ports that their containers bind.
    pub ports: Vec<HostPort>,
    /// CSI volumes of the (only) pod.
    pub volumes: Vec<(Symbol, u32)>,
    /// Claims of the (only) pod that are bound when it is placed.
    pub to_bind: Vec<ClaimToBind>,
    /// Claims that the (only) pod shares with others.
    pub shared: Option<Box<SharedClaims>>,
    /// Why no node is bought for them, if so.
    pub useless: Option<UselessPurchase>,
}

/// One level of what a pod group asks for.
#[derive(Clone, Debug)]
pub struct Relaxation {
    /// Label requirements, the heaviest preferred node affinity term included; with volumes one
    /// alternative each.
    pub needs: Vec<RequirementsId>,
    /// The same without preferences: over which domains a spread constraint looks.
    pub strict: Arc<Sets>,
    /// Topology rules.
    pub uses: Uses,
    /// `PreferNoSchedule` taints keep it away.
    pub avoids_prefer_no_schedule: bool,
}

/// Topology rules of one level: those that always hold, then the wishes that are left. All levels
/// of a pod group share one list, for a wish that is given up is always the first of those left.
#[derive(Clone, Debug)]
pub struct Uses {
    all: Arc<[GroupUse]>,
    hard: usize,
    wishes: (usize, usize),
}

impl Uses {
    /// The rules, in order of evaluation.
    pub fn iter(&self) -> impl Iterator<Item = &GroupUse> + Clone {
        self.all[..self.hard]
            .iter()
            .chain(&self.all[self.wishes.0..self.wishes.1])
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hard + self.wishes.1 - self.wishes.0
    }
}

/// A topology rule that a pod group must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUse {
    /// Index into the topology's groups.
    pub group: usize,
    /// The pod matches the group itself, so that placing it changes the count.
    pub own: bool,
    /// A wish: ScheduleAnyway, or balance for the sake of others.
    pub soft: bool,
    /// The rule is the pod's own, not one that it balances for others.
    pub owner: bool,
    /// One of several required affinity terms, which hold together.
    pub together: bool,
}

/// What pods of one group have in common: shape, places of their volumes, whether nodes are bought.
type GroupOf<'a> = (*const PodShape, &'a [Vec<Requirement>], bool);

/// Groups pods in queue order and works out what each group asks for. Pods that cannot be planned
/// at all are left out.
pub fn collect(
    snapshot: &Snapshot,
    pods: &[PendingPod],
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    dims: &ResourceDims,
    pools: &[NodeSpecId],
) -> Vec<PodGroup> {
    let mut items: Vec<PodGroup> = Vec::new();
    let mut index: FxHashMap<GroupOf<'_>, usize> = FxHashMap::default();
    let mut alternatives: Vec<&[Vec<Requirement>]> = Vec::new();
    for pod in pods.iter().filter(|p| p.unfit.is_none()) {
        let key = (
            Arc::as_ptr(&pod.shape),
            pod.volume_alternatives.as_slice(),
            pod.useless.is_some(),
        );
        let is_single = !pod.volumes.is_empty() || pod.shared.is_some() || !pod.to_bind.is_empty();
        if !is_single && let Some(&at) = index.get(&key) {
            items[at].pods.push(pod.pod);
            continue;
        }
        if !is_single {
            index.insert(key, items.len());
        }
        alternatives.push(&pod.volume_alternatives);
        items.push(new_group(pod, dims));
    }
    let shared_groups = own_groups(snapshot, states, topology, pools, &mut items);
    let balanced = balanced(topology, &shared_groups, &items);
    let minds = avoids_prefer_no_schedule(snapshot);
    for ((item, alternatives), balanced) in items.iter_mut().zip(alternatives).zip(&balanced) {
        item.relaxations = relaxations(
            item,
            alternatives,
            snapshot,
            states,
            topology,
            pools,
            balanced,
            minds,
        );
    }
    select(snapshot, states, topology, pools, &mut items);
    items
}

fn new_group(pod: &PendingPod, dims: &ResourceDims) -> PodGroup {
    PodGroup {
        pods: vec![pod.pod],
        shape: pod.shape.clone(),
        request: dims.amounts(&pod.shape.requests),
        relaxations: Vec::new(),
        counted: Members::default(),
        owned_anti_affinity: Members::default(),
        repelled_by: Members::default(),
        inverse_keys: Vec::new(),
        inverse_hosts: false,
        keys: Vec::new(),
        followed_on_host: false,
        ports: pod.shape.ports.clone(),
        volumes: pod.volumes.clone(),
        to_bind: pod.to_bind.clone(),
        shared: pod.shared.clone(),
        useless: pod.useless.clone(),
    }
}

/// Makes the groups of hard rules. Returns those that other pods should keep balanced: spread
/// constraints and affinities over domains wider than a host.
fn own_groups(
    snapshot: &Snapshot,
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    pools: &[NodeSpecId],
    items: &mut [PodGroup],
) -> Vec<usize> {
    let mut shared_groups = Vec::new();
    for item in items {
        let shape = item.shape.clone();
        for spread in shape.spread.iter().filter(|s| s.required) {
            let spec = GroupKey::spread(spread, &shape, topology.hostname);
            shared_groups.push(topology.group(spec, snapshot, states, pools));
        }
        for spec in topology.affinity_terms(&shape, snapshot) {
            shared_groups.push(topology.group(spec, snapshot, states, pools));
        }
        for term in &shape.anti_affinity {
            let spec = topology.term(
                ConstraintKind::InverseAntiAffinity,
                term,
                shape.namespace,
                snapshot,
            );
            item.owned_anti_affinity
                .insert(topology.group(spec, snapshot, states, pools));
        }
    }
    shared_groups.sort_unstable();
    shared_groups.dedup();
    shared_groups.retain(|&g| topology.groups[g].key.is_some());
    shared_groups
}

/// Limit of other groups that a pod group is balanced for. Above it the pod group is balanced for
/// none: this happens to hostile pods only, and a preference is not worth a look at every group for
/// each pod.
const MOST_BALANCED: usize = 256;

/// Which of `shared_groups` count each pod group: none if too many do.
fn balanced(topology: &Topology, shared_groups: &[usize], items: &[PodGroup]) -> Vec<Vec<usize>> {
    let index = ByLabel::new(items);
    let mut balanced = vec![Vec::new(); items.len()];
    for &group in shared_groups {
        let spec = &topology.groups[group].spec;
        for item in index.selected(spec) {
            if balanced[item].len() <= MOST_BALANCED {
                balanced[item].push(group);
            }
        }
    }
    balanced
        .iter_mut()
        .filter(|groups| groups.len() > MOST_BALANCED)
        .for_each(Vec::clear);
    balanced
}

fn avoids_prefer_no_schedule(snapshot: &Snapshot) -> bool {
    let prefers = |taints: &[crate::model::Taint]| {
        taints
            .iter()
            .any(|t| t.effect == TaintEffect::PreferNoSchedule)
    };
    snapshot
        .pools
        .iter()
        .any(|p| prefers(&snapshot.world.pools[p.0 as usize].taints))
        || snapshot.nodes.iter().any(|n| prefers(&n.taints))
}

/// What is still wished for at one level.
struct Preferences {
    term: usize,
    affinity: Vec<usize>,
    anti_affinity: Vec<usize>,
    node_terms: Vec<usize>,
    schedule_anyway: Vec<usize>,
    balances_others: bool,
    avoids_prefer_no_schedule: bool,
}

/// Every level from all wishes to none. Order of giving up: balance for others, required
/// node-affinity alternatives from the first, preferred pod affinity, preferred pod anti-affinity,
/// preferred node affinity (heaviest first each), ScheduleAnyway constraints, dislike of
/// `PreferNoSchedule` taints.
#[allow(clippy::too_many_arguments)]
fn relaxations(
    item: &PodGroup,
    alternatives: &[Vec<Requirement>],
    snapshot: &Snapshot,
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    pools: &[NodeSpecId],
    balanced: &[usize],
    minds: bool,
) -> Vec<Relaxation> {
    let shape = &item.shape;
    let respect = snapshot.world.settings.preferences == PreferencePolicy::Respect;
    let heaviest_first = |weights: Vec<i32>| {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(weights[at]));
        if respect { order } else { Vec::new() }
    };
    let hard = hard_uses(item, snapshot, states, topology, pools);
    let mut wishes = Preferences {
        term: 0,
        affinity: heaviest_first(shape.preferred_affinity.iter().map(|p| p.0).collect()),
        anti_affinity: heaviest_first(shape.preferred_anti_affinity.iter().map(|p| p.0).collect()),
        node_terms: heaviest_first(shape.preferred.iter().map(|p| p.0).collect()),
        schedule_anyway: heaviest_first(
            shape
                .spread
                .iter()
                .map(|s| i32::from(!s.required))
                .collect(),
        ),
        balances_others: false,
        avoids_prefer_no_schedule: minds,
    };
    wishes
        .schedule_anyway
        .retain(|&at| !shape.spread[at].required);
    let own: FxHashSet<usize> = hard.iter().map(|u| u.group).collect();
    let balance = balanced.iter().filter(|group| !own.contains(group));
    let balance = balance.map(|&group| GroupUse {
        group,
        own: true,
        soft: true,
        owner: false,
        together: false,
    });
    let balance: Vec<GroupUse> = balance.collect();
    wishes.balances_others = !balance.is_empty();
    let wished = wished_uses(item, &wishes, snapshot, states, topology, pools);
    let kept = hard.len();
    let (first, last) = (kept, kept + wished.len());
    let all: Arc<[GroupUse]> = hard.into_iter().chain(wished).chain(balance).collect();
    let mut levels = Vec::new();
    let mut labels: Option<(LabelWishes, Labels)> = None;
    loop {
        let left =
            wishes.affinity.len() + wishes.anti_affinity.len() + wishes.schedule_anyway.len();
        let end = if wishes.balances_others {
            all.len()
        } else {
            last
        };
        let uses = Uses {
            all: all.clone(),
            hard: kept,
            wishes: (last - left.min(last - first), end),
        };
        let wanted = (wishes.term, wishes.node_terms.first().copied());
        let (needs, strict) = match &labels {
            Some((known, labels)) if *known == wanted => labels.clone(),
            _ => labels_of(item, alternatives, wanted, states),
        };
        labels = Some((wanted, (needs.clone(), strict.clone())));
        levels.push(Relaxation {
            needs,
            strict,
            uses,
            avoids_prefer_no_schedule: wishes.avoids_prefer_no_schedule,
        });
        if wishes.balances_others {
            wishes.balances_others = false;
        } else if wishes.term + 1 < shape.required.len() {
            wishes.term += 1;
        } else if !wishes.affinity.is_empty() {
            wishes.affinity.remove(0);
        } else if !wishes.anti_affinity.is_empty() {
            wishes.anti_affinity.remove(0);
        } else if !wishes.node_terms.is_empty() {
            wishes.node_terms.remove(0);
        } else if !wishes.schedule_anyway.is_empty() {
            wishes.schedule_anyway.remove(0);
        } else if wishes.avoids_prefer_no_schedule {
            wishes.avoids_prefer_no_schedule = false;
        } else {
            return levels;
        }
    }
}

fn hard_uses(
    item: &PodGroup,
    snapshot: &Snapshot,
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    pools: &[NodeSpecId],
) -> Vec<GroupUse> {
    let shape = &item.shape;
    let spreads = shape
        .spread
        .iter()
        .filter(|s| s.required)
        .map(|s| GroupKey::spread(s, shape, topology.hostname));
    let mut specs: Vec<GroupKey> = spreads.collect();
    specs.extend(topology.affinity_terms(shape, snapshot));
    specs.extend(shape.anti_affinity.iter().map(|term| {
        topology.term(
            ConstraintKind::AntiAffinity,
            term,
            shape.namespace,
            snapshot,
        )
    }));
    let several = shape.affinity.len() > 1;
    let made = |spec: GroupKey| GroupUse {
        together: several && spec.rule == ConstraintKind::Affinity,
        ..group_use(spec, shape, false, snapshot, states, topology, pools)
    };
    specs.into_iter().map(made).collect()
}

fn group_use(
    spec: GroupKey,
    shape: &PodShape,
    soft: bool,
    snapshot: &Snapshot,
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    pools: &[NodeSpecId],
) -> GroupUse {
    let own = spec.selects(shape.namespace, &shape.labels);
    GroupUse {
        group: topology.group(spec, snapshot, states, pools),
        own,
        soft,
        owner: true,
        together: false,
    }
}

/// Preferences as rules, those that are given up first at the front.
fn wished_uses(
    item: &PodGroup,
    wishes: &Preferences,
    snapshot: &Snapshot,
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    pools: &[NodeSpecId],
) -> Vec<GroupUse> {
    let shape = &item.shape;
    let mut specs: Vec<(GroupKey, bool)> = Vec::new();
    let mut term = |rule, t| specs.push((topology.term(rule, t, shape.namespace, snapshot), false));
    wishes
        .affinity
        .iter()
        .for_each(|&at| term(ConstraintKind::Affinity, &shape.preferred_affinity[at].1));
    wishes.anti_affinity.iter().for_each(|&at| {
        term(
            ConstraintKind::AntiAffinity,
            &shape.preferred_anti_affinity[at].1,
        )
    });
    let spread = |&at: &usize| GroupKey::spread(&shape.spread[at], shape, topology.hostname);
    specs.extend(wishes.schedule_anyway.iter().map(|at| (spread(at), true)));
    let mut made = |(spec, soft)| group_use(spec, shape, soft, snapshot, states, topology, pools);
    specs.into_iter().map(&mut made).collect()
}

/// Which required term and which preferred one count.
type LabelWishes = (usize, Option<usize>);
/// Label requirements of a relaxation, with preferences and without.
type Labels = (Vec<RequirementsId>, Arc<Sets>);

fn labels_of(
    item: &PodGroup,
    alternatives: &[Vec<Requirement>],
    (term, heaviest): LabelWishes,
    states: &mut NodeSpecs<'_>,
) -> Labels {
    let shape = &item.shape;
    let mut strict = Sets::new(&shape.node_selector, &states.numbers);
    if let Some(term) = shape.required.get(term) {
        strict.add_all(&Sets::new(term, &states.numbers), &states.numbers);
    }
    let mut sets = strict.clone();
    if let Some(heaviest) = heaviest {
        sets.add_all(
            &Sets::new(&shape.preferred[heaviest].1, &states.numbers),
            &states.numbers,
        );
        if sets.0.iter().any(|(_, set)| set.is_nothing()) {
            sets = strict.clone();
        }
    }
    let needs = if alternatives.is_empty() {
        vec![states.requirements(sets)]
    } else {
        let with = |a: &Vec<Requirement>| {
            let mut all = sets.clone();
            a.iter()
                .for_each(|r| all.add(r.key, &Set::from_op(&r.op), &states.numbers));
            all
        };
        let all: Vec<Sets> = alternatives.iter().map(with).collect();
        all.into_iter()
            .map(|sets| states.requirements(sets))
            .collect()
    };
    (needs, Arc::new(strict))
}

/// Works out which groups count each pod group, and which terms of others keep it away, running
/// pods' terms included.
fn select(
    snapshot: &Snapshot,
    states: &mut NodeSpecs<'_>,
    topology: &mut Topology,
    pools: &[NodeSpecId],
    items: &mut [PodGroup],
) {
    let (mut counted, mut selected) = (
        vec![Members::default(); items.len()],
        vec![Members::default(); items.len()],
    );
    let index = ByLabel::new(items);
    for &shape in &snapshot.running.anti_affine {
        let owner = snapshot.world.shapes.get(shape);
        for term in &owner.anti_affinity {
            let spec = topology.term(
                ConstraintKind::InverseAntiAffinity,
                term,
                owner.namespace,
                snapshot,
            );
            let concerned = index.selected(&spec).next().is_some();
            if concerned {
                let group = topology.group(spec, snapshot, states, pools);
                topology.count_owners(group, shape, snapshot);
            }
        }
    }
    for (at, group) in topology.groups.iter().enumerate() {
        let sets = if group.spec.rule == ConstraintKind::InverseAntiAffinity {
            &mut selected
        } else {
            &mut counted
        };
        for item in index.selected(&group.spec) {
            sets[item].insert(at);
        }
    }
    drop(index);
    for ((item, counted), selected) in items.iter_mut().zip(counted).zip(selected) {
        (item.counted, item.repelled_by) = (counted, selected);
        summarise(item, topology);
    }
}

/// Summary of the topology groups of a pod group, so that not all of them have to be visited.
fn summarise(item: &mut PodGroup, topology: &Topology) {
    let groups = &topology.groups;
    for group in item.repelled_by.iter().map(|at| &groups[at]) {
        match group.key {
            None => item.inverse_hosts = true,
            Some(key) => match item
                .inverse_keys
                .iter_mut()
                .find(|(known, _)| *known == key)
            {
                Some((_, several)) => *several = true,
                None => item.inverse_keys.push((key, false)),
            },
        }
    }
    let on_host =
        |at: usize| groups[at].key.is_none() && groups[at].spec.rule == ConstraintKind::Affinity;
    item.followed_on_host = item.counted.iter().any(on_host);
    let all = [&item.counted, &item.owned_anti_affinity, &item.repelled_by];
    let mut keys: Vec<usize> = all
        .into_iter()
        .flat_map(Members::iter)
        .filter_map(|at| groups[at].key)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    item.keys = keys;
}
