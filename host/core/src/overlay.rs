//! NodeOverlays: corrections of what the cloud says of instance types, by requirement and weight.
//!
//! [`apply`] is a function of a catalogue, overlays and NodePools. The overlay with the greatest
//! weight counts, apart for each offering's price and for each resource. Two overlays of one weight
//! that touch the same price or resource are in conflict: the one whose name is later in the
//! alphabet counts, and of the other nothing does.
//!
//! An overlay can select NodePools, by name or label. A type that one NodePool sees differently
//! than the next has a row for each group of NodePools that see it alike; the row requires the
//! label `karpenter.sh/nodepool`.
//!
//! Source: Karpenter 1.15, pkg/controllers/nodeoverlay. One difference: there, of three overlays
//! of one weight, the third is compared with the resources of the second alone.

use std::collections::BTreeMap;

use crate::model::{
    Catalogue, InstanceType, NodeOverlay, NodePool, Offering, Op, PriceChange, Requirement,
    ResourceId, Symbol, Symbols, TypeId, TypeOverlay,
};
use crate::schedule::sets::{Numbers, Sets};

/// A catalogue with overlays.
#[derive(Clone, Debug)]
pub struct Overlaid {
    /// The catalogue with the corrected prices and capacities.
    pub catalogue: Catalogue,
    /// Names of overlays that are in conflict with another of their weight, in order of weight and
    /// name. Nothing of them was applied.
    pub conflicts: Vec<Symbol>,
}

/// Label with the name of a node's NodePool.
const NODEPOOL: &str = "karpenter.sh/nodepool";

/// The catalogue with the overlays applied; it says what they have changed of each type. Overlays
/// are valid.
pub fn apply<'a>(
    catalogue: &Catalogue,
    overlays: &[NodeOverlay],
    pools: impl IntoIterator<Item = &'a NodePool>,
    names: &mut Symbols,
) -> Overlaid {
    let pool_key = names.intern(NODEPOOL);
    let numbers = Numbers::read(names);
    let mut pools: Vec<PoolSets> = pools
        .into_iter()
        .map(|pool| {
            PoolSets::new(
                pool,
                pool_key,
                names.get(&pool.class.label(names)),
                &numbers,
            )
        })
        .collect();
    pools.sort_by(|a, b| names.text(a.name).cmp(names.text(b.name)));
    let mut ordered: Vec<&NodeOverlay> = overlays.iter().collect();
    ordered.sort_by(|a, b| {
        let name = |overlay: &NodeOverlay| names.text(overlay.name);
        (b.weight, name(b)).cmp(&(a.weight, name(a)))
    });
    let mut cells = cells(catalogue, &pools, &numbers);
    let mut conflicts = Vec::new();
    for overlay in ordered {
        let asked = Sets::new(&overlay.requirements, &numbers);
        let selected: Vec<Vec<usize>> = cells
            .iter()
            .map(|cell| cell.selected(&asked, catalogue, &numbers))
            .collect();
        let at_odds = |(cell, rows): (&Cell, &Vec<usize>)| cell.is_at_odds(overlay, rows);
        if cells.iter().zip(&selected).any(at_odds) {
            conflicts.push(overlay.name);
            continue;
        }
        for (cell, rows) in cells.iter_mut().zip(&selected) {
            cell.take(overlay, rows);
        }
    }
    Overlaid {
        catalogue: rebuilt(catalogue, &cells, &pools, pool_key, names),
        conflicts,
    }
}

/// What a NodePool's nodes are labelled with.
struct PoolSets {
    name: Symbol,
    sets: Sets,
}

impl PoolSets {
    fn new(pool: &NodePool, pool_key: Symbol, class: Option<Symbol>, numbers: &Numbers) -> Self {
        let labels = pool.labels.iter().chain([(pool_key, pool.name)]);
        // Its NodeClass is a label of its nodes too: rows of other NodeClasses are none of its own.
        let labels = labels.chain(class.map(|key| (key, pool.class.name)));
        let labels: Vec<Requirement> = labels
            .map(|(key, value)| Requirement::is(key, value))
            .collect();
        PoolSets {
            name: pool.name,
            sets: Sets::new(&labels, numbers),
        }
    }
}

/// An instance type as a NodePool sees it, and what becomes of it.
struct Cell {
    of: TypeId,
    pool: usize,
    /// What its nodes are labelled with.
    sets: Sets,
    change: Change,
}

/// What becomes of an instance type.
#[derive(Clone, Default)]
struct Change {
    /// By offering of the type: what becomes of its price, and the least weight that touched it.
    prices: BTreeMap<usize, (PriceChange, i32)>,
    /// By resource: the amount, and the least weight that touched it.
    capacity: BTreeMap<ResourceId, (i64, i32)>,
}

impl Change {
    /// What is left once weights do not matter any more.
    fn effect(&self) -> Effect {
        Effect {
            prices: self.prices.iter().map(|(at, (of, _))| (*at, *of)).collect(),
            capacity: self
                .capacity
                .iter()
                .map(|(of, (amount, _))| (*of, *amount))
                .collect(),
        }
    }
}

#[derive(Clone, Default, PartialEq)]
struct Effect {
    prices: Vec<(usize, PriceChange)>,
    capacity: Vec<(ResourceId, i64)>,
}

/// Every type with every NodePool whose labels it does not contradict: a row of another NodeClass
/// is none of a NodePool's.
fn cells(catalogue: &Catalogue, pools: &[PoolSets], numbers: &Numbers) -> Vec<Cell> {
    let mut all = Vec::new();
    for (at, kind) in catalogue.types().iter().enumerate() {
        let of_type = Sets::new(&kind.requirements, numbers);
        for (pool, labels) in pools.iter().enumerate() {
            if of_type.conflict(&labels.sets, |_| true, numbers).is_some() {
                continue;
            }
            let mut sets = of_type.clone();
            sets.add_all(&labels.sets, numbers);
            all.push(Cell {
                of: TypeId(at as u32),
                pool,
                sets,
                change: Change::default(),
            });
        }
    }
    all
}

impl Cell {
    /// Offerings that an overlay selects, by index within the type. A label that neither the type
    /// nor the offering has selects nothing.
    fn selected(&self, asked: &Sets, catalogue: &Catalogue, numbers: &Numbers) -> Vec<usize> {
        let offerings = catalogue.offerings_of(self.of).iter().enumerate();
        let meets = |offering: &Offering| {
            let pinned = Sets::new(&*offering.requirements, numbers);
            asked.0.iter().all(|(key, set)| {
                match pinned.get(*key).or_else(|| self.sets.get(*key)) {
                    Some(mine) => mine.agrees(set, numbers),
                    None => set.allows_absence(),
                }
            })
        };
        offerings
            .filter(|(_, offering)| meets(offering))
            .map(|(at, _)| at)
            .collect()
    }

    /// Whether an overlay of the same weight has touched what this one would.
    fn is_at_odds(&self, overlay: &NodeOverlay, rows: &[usize]) -> bool {
        let same = |weight: Option<i32>| weight == Some(overlay.weight);
        let price = |row| same(self.change.prices.get(row).map(|(_, weight)| *weight));
        let amount = |of| same(self.change.capacity.get(of).map(|(_, weight)| *weight));
        let prices = overlay.price.is_some() && rows.iter().any(price);
        let resources = !rows.is_empty() && overlay.capacity.iter().any(|(of, _)| amount(of));
        prices || resources
    }

    /// Applies an overlay. Overlays come by falling weight, so what is there already stays.
    fn take(&mut self, overlay: &NodeOverlay, rows: &[usize]) {
        if rows.is_empty() {
            return;
        }
        if let Some(price) = overlay.price {
            for row in rows {
                let entry = self.change.prices.entry(*row);
                entry.or_insert((price, overlay.weight)).1 = overlay.weight;
            }
        }
        for &(of, amount) in &overlay.capacity {
            let entry = self.change.capacity.entry(of);
            entry.or_insert((amount, overlay.weight)).1 = overlay.weight;
        }
    }
}

/// The catalogue with what became of each cell.
fn rebuilt(
    catalogue: &Catalogue,
    cells: &[Cell],
    pools: &[PoolSets],
    pool_key: Symbol,
    names: &Symbols,
) -> Catalogue {
    let mut rows = Vec::with_capacity(catalogue.types().len());
    // Types are in the order of their names already, which the new catalogue keeps.
    let mut changed = Vec::with_capacity(catalogue.types().len());
    let mut next = 0;
    for (at, kind) in catalogue.types().iter().enumerate() {
        let of = TypeId(at as u32);
        let mine = cells[next..].iter().take_while(|cell| cell.of == of);
        let mut groups: Vec<(Effect, Vec<Symbol>)> = Vec::new();
        for cell in mine {
            next += 1;
            let (effect, pool) = (cell.change.effect(), pools[cell.pool].name);
            match groups.iter_mut().find(|(other, _)| *other == effect) {
                Some((_, pools)) => pools.push(pool),
                None => groups.push((effect, vec![pool])),
            }
        }
        let offerings = catalogue.offerings_of(of);
        match groups.as_slice() {
            [] => {
                rows.push((kind.clone(), offerings.to_vec()));
                changed.push(TypeOverlay::default());
            }
            [(effect, _)] => {
                rows.push(effect.row(kind, offerings, names));
                changed.push(effect.changes());
            }
            several => {
                for (effect, pools) in several {
                    changed.push(effect.changes());
                    let (mut kind, offerings) = effect.row(kind, offerings, names);
                    let op = Op::In(pools.as_slice().into());
                    kind.requirements.push(Requirement::new(pool_key, op));
                    rows.push((kind, offerings));
                }
            }
        }
    }
    Catalogue::new(rows, names)
        .with_overlays(changed)
        .with_estimates(catalogue.estimates())
}

impl Effect {
    fn changes(&self) -> TypeOverlay {
        TypeOverlay {
            price: !self.prices.is_empty(),
            capacity: self.capacity.clone(),
        }
    }

    fn row(
        &self,
        kind: &InstanceType,
        offerings: &[Offering],
        names: &Symbols,
    ) -> (InstanceType, Vec<Offering>) {
        let (mut kind, mut offerings) = (kind.clone(), offerings.to_vec());
        for &(row, change) in &self.prices {
            offerings[row].price = change.of(offerings[row].price);
        }
        for &(of, amount) in &self.capacity {
            if of.is_huge_pages(names) {
                // Huge pages are memory that nothing else gets.
                let before = kind.allocatable.get(ResourceId::Memory);
                let more = amount.saturating_sub(kind.capacity.get(of));
                let left = before.saturating_sub(more);
                // There is no machine with more of them than memory.
                offerings
                    .iter_mut()
                    .filter(|_| left < 0)
                    .for_each(|of| of.available = false);
                kind.allocatable.set(ResourceId::Memory, left.max(0));
            }
            kind.capacity.set(of, amount);
            kind.allocatable.set(of, amount);
        }
        (kind, offerings)
    }
}
