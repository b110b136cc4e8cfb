//! What can be bought, which of it is worth considering, and what pods are worth.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::disrupt::compiled::{Compiled, Node, Place, PodClass, Rule, UNLIMITED};
use crate::disrupt::fill::{Demand, Filler};
use crate::disrupt::pack::OnOffer;
use crate::model::{ResourceId, Symbol, TypeId};
use crate::optimize::bin_types::{BinTypes, Commitments};
use crate::optimize::classes::{Classes, Compatibility, HostRule, Stock, UnpackedPods, gather};
use crate::optimize::lp;
use crate::schedule::bit_set::BitSet;
use crate::schedule::first_fit::{Assignment, CompiledCluster};
use crate::schedule::fit::ResourceVector;
use crate::stop::Stop;

/// Offers kept for each set of places and NodePool.
const MAX_OFFERS: usize = 8;

/// The offers whose best contents are worth most for what they cost, a few for each set of places.
pub(super) fn shortlist(c: &Compiled<'_>) -> Vec<usize> {
    let mut demand = Demand::none(c);
    for own in c
        .nodes
        .iter()
        .filter(|node| node.removable)
        .flat_map(|node| &node.own)
    {
        demand.add(c, (own.class, own.units));
    }
    let mut filler = Filler::default();
    let mut groups: FxHashMap<(usize, &BitSet), Vec<(f64, usize)>> = FxHashMap::default();
    for (at, offer) in c.offers.iter().enumerate() {
        let value = filler.fill_once(c, &demand, &offer.room, &OnOffer(c, at));
        let group = groups.entry((offer.pool, &offer.admits)).or_default();
        group.push((value / offer.cost.max(1e-9), at));
    }
    let mut kept: Vec<usize> = Vec::new();
    for mut group in groups.into_values() {
        group.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        kept.extend(group.into_iter().take(MAX_OFFERS).map(|(_, at)| at));
    }
    kept.sort_unstable();
    kept
}

/// Whether the limits of a NodePool admit a type beside its nodes that stay in any case.
pub(super) fn ever_within_limits(
    p: &CompiledCluster<'_>,
    nodes: &[Node],
    pool: usize,
    kind: TypeId,
) -> bool {
    let pool = p.record(pool);
    if pool.limits.is_empty() && pool.node_limit.is_none() {
        return true;
    }
    let capacity = &p.snapshot.world.catalogue.instance_type(kind).capacity;
    let stay = || {
        let all = p.snapshot.nodes.iter().zip(nodes);
        all.filter(|(of, node)| of.pool == Some(pool.name) && !node.removable)
    };
    let room = |&(resource, limit): &(ResourceId, i64)| {
        let used: i64 = stay().map(|(of, _)| of.capacity.get(resource)).sum();
        used + capacity.get(resource) <= limit
    };
    pool.limits.iter().all(room)
        && pool
            .node_limit
            .is_none_or(|limit| (stay().count() as i64) < limit)
}

pub(super) fn room_of(
    p: &CompiledCluster<'_>,
    mut room: ResourceVector,
    kind: TypeId,
    drivers: &[Symbol],
) -> ResourceVector {
    let limits = &p.snapshot.world.catalogue.instance_type(kind).volume_limits;
    for &driver in drivers {
        let limit = limits.iter().find(|(of, _)| *of == driver);
        room.push(limit.map_or(UNLIMITED, |&(_, limit)| i64::from(limit)));
    }
    room
}

/// What a pod of each size is worth, by the linear program over ways to fill a node.
pub(super) fn price(
    p: &mut CompiledCluster<'_>,
    places: &[Place],
    classes: &[PodClass],
    count: &[u32],
    rounds: usize,
) -> (Classes, lp::Duals, BinTypes) {
    let dims = p.dims.0.len();
    let mut loose: Vec<UnpackedPods> = Vec::new();
    for (class, &count) in classes.iter().zip(count) {
        let specs = &places[class.place].specs;
        if specs.is_empty() || count == 0 {
            continue;
        }
        let home = || Compatibility {
            specs: specs.clone(),
        };
        if class.pods == 1 {
            let member = member_like(p, class, count).map(Stock::Identical);
            loose.extend(member.map(|stock| (home(), rules(class), stock)));
            continue;
        }
        let amount: ResourceVector = class.amount[..dims].iter().copied().collect();
        loose.extend((0..count).map(|_| {
            let stock = Stock::Colocated(Vec::new(), amount.clone());
            (home(), rules(class), stock)
        }));
    }
    let packed = gather(p, loose);
    let market = BinTypes::new(p, &packed, Commitments::Unlimited);
    let duals = lp::solve(&packed, &market, rounds, Stop::never());
    (packed, duals, market)
}

/// Rules of a class as the linear program wants them: in units.
fn rules(class: &PodClass) -> SmallVec<[HostRule; 2]> {
    let in_units = |rule: &Rule| HostRule {
        group: rule.group,
        counts: rule.adds > 0,
        cap: match rule.cap {
            u16::MAX => u16::MAX,
            cap => cap / rule.adds.max(1),
        },
    };
    class.rules.iter().map(in_units).collect()
}

/// Pods of a class as the linear program wants them: any group that asks for the same.
fn member_like(p: &CompiledCluster<'_>, class: &PodClass, count: u32) -> Option<Assignment> {
    let dims = p.dims.0.len();
    let index = p
        .items
        .iter()
        .position(|pod_group| pod_group.request[..] == class.amount[..dims])?;
    let requirements = *p.items[index].relaxations.first()?.needs.first()?;
    Some(Assignment {
        pod_group: index,
        relaxation: 0,
        requirements,
        pods: (0, count),
    })
}

/// What any pod is worth, USD per hour. The relaxation values pods at nothing that the room of
/// nodes that stay takes; a pod of no value would be placed nowhere.
const MIN_VALUE: f64 = 1e-9;

/// Numbers sizes (amount and place) and says what each is worth.
pub(super) fn sizes(
    classes: &mut [PodClass],
    places: &[Place],
    packed: &Classes,
    duals: &lp::Duals,
    dims: usize,
) -> (Vec<f64>, Vec<Vec<u32>>) {
    let mut of_market: FxHashMap<(usize, ResourceVector), usize> = FxHashMap::default();
    for (at, class) in packed.classes.iter().enumerate() {
        of_market.insert((class.compatibility, class.amount.clone()), at);
    }
    let mut values = Vec::new();
    let mut by_size: Vec<Vec<u32>> = Vec::new();
    let mut known: FxHashMap<(usize, ResourceVector), usize> = FxHashMap::default();
    for (at, class) in classes.iter_mut().enumerate() {
        let key = (class.place, class.amount.clone());
        class.size = *known.entry(key).or_insert_with(|| {
            let amount: ResourceVector = class.amount[..dims].iter().copied().collect();
            let priced = places[class.place]
                .of_market
                .and_then(|home| of_market.get(&(home, amount.clone())));
            // What nothing can be bought for is worth what its resources are.
            let by_resources = || {
                amount
                    .iter()
                    .zip(&duals.scarcity)
                    .map(|(&a, s)| a as f64 * s)
                    .sum::<f64>()
            };
            let value = priced.map_or_else(by_resources, |&at| duals.values[at]);
            values.push(value.max(MIN_VALUE));
            by_size.push(Vec::new());
            by_size.len() - 1
        });
        by_size[class.size].push(at as u32);
    }
    (values, by_size)
}
