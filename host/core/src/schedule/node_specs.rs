//! What a new node may still be: requirements narrowed step by step, each distinct result kept
//! once.
//!
//! An *offering key* is a combination of everything that offerings fix (zone, capacity type,
//! reservation, …). A *node spec* is a NodePool with a set of requirements and what follows from
//! them: the types with compatible labels and an available offering among the compatible keys.
//! There are few specs (zones × capacity types × architectures …), so narrowing is a look-up.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::bit_set::BitSet;
use super::sets::{Numbers, Set, Sets};
use crate::ids::PoolIx;
use crate::model::catalogue_index::Pinned;
use crate::model::{Catalogue, ClusterObjects, OfferingId, Op, Symbol, Symbols, TypeId, fields};
use crate::policy::{PolicyCosts, Scores};

/// Index of a [`NodeSpec`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeSpecId(pub u32);

/// Index of an interned set of requirements that something asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequirementsId(pub u32);

/// What a new node may still be.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The NodePool, as a position in the order of preference.
    pub pool: usize,
    /// Requirements by label.
    pub sets: Sets,
    /// Types whose labels agree and that have an available offering in `cells`.
    pub types: BitSet,
    /// Cells that agree.
    pub cells: BitSet,
}

/// A combination of what offerings pin.
#[derive(Clone, Debug)]
pub struct OfferingKey {
    /// Label and value, sorted by label.
    pub values: Vec<(Symbol, Symbol)>,
    /// The offering of each type in this cell (the cheapest, should there be several), `u32::MAX`
    /// for none.
    pub offerings: Vec<u32>,
    /// The reservation that offerings of this cell draw on.
    pub reservation: Option<Symbol>,
    /// Types with an offering here that is available, or would be but for a shortage of the moment.
    pub offered: BitSet,
}

/// All states met so far.
pub struct NodeSpecs<'a> {
    /// Where symbols have their text.
    pub names: &'a Symbols,
    /// What can be bought.
    pub catalogue: &'a Catalogue,
    /// Which symbols are integers.
    pub numbers: Numbers,
    /// Pairs of capacity type and zone that something is offered in.
    pub cells: Vec<OfferingKey>,
    /// Scores by position of NodePool.
    pub scores: Vec<Scores>,
    /// Types with an offering that is available and not excluded, by position of NodePool and cell.
    available: Vec<Vec<BitSet>>,
    defined: FxHashSet<Symbol>,
    cell_keys: FxHashSet<Symbol>,
    table: Vec<NodeSpec>,
    index: FxHashMap<(usize, Sets), NodeSpecId>,
    needs: indexmap::IndexSet<Sets, rustc_hash::FxBuildHasher>,
    memo: FxHashMap<(NodeSpecId, RequirementsId), Option<NodeSpecId>>,
    masks: FxHashMap<(Symbol, Set), BitSet>,
    as_need: FxHashMap<NodeSpecId, RequirementsId>,
    /// Types by the values that they allow, of labels that many of them name.
    by_value: FxHashMap<Symbol, ByValue>,
    /// Whether a reservation without free instances cannot be bought from.
    counts_reservations: bool,
}

/// A label of which types name more values than this, all together, is not looked up type by type for
/// each set of values: with a NodeClass for each NodePool, that would grow with the square of the
/// NodePools. Of NodeClasses that are alike each type names them all.
const MANY_VALUES: usize = 4_000;

/// Whether types name many values of a label.
fn has_many_values(catalogue: &Catalogue, all: &[(u32, u32)]) -> bool {
    let values = all.iter().map(|&(at, place)| {
        match &catalogue.types()[at as usize].requirements[place as usize].op {
            Op::In(values) => values.len(),
            _ => 1,
        }
    });
    all.len() >= MANY_VALUES || values.sum::<usize>() >= MANY_VALUES
}

/// What types allow of one label.
struct ByValue {
    /// Types that do not name it.
    unnamed: BitSet,
    /// Types that allow some values and no others, by value.
    values: FxHashMap<Symbol, Vec<u32>>,
    /// Types that name it in any other way, with the position of the requirement.
    others: Vec<(u32, u32)>,
}

impl ByValue {
    fn new(catalogue: &Catalogue, key: Symbol) -> Self {
        let mut of = ByValue {
            unnamed: BitSet::all(catalogue.types().len()),
            values: FxHashMap::default(),
            others: Vec::new(),
        };
        let all = catalogue.index().types_with(key);
        for named in all.chunk_by(|a, b| a.0 == b.0) {
            of.unnamed.remove(named[0].0 as usize);
            let op = |&(at, place): &(u32, u32)| {
                &catalogue.types()[at as usize].requirements[place as usize].op
            };
            match (named, op(&named[0])) {
                ([one], Op::In(values)) => {
                    for &value in values.iter() {
                        of.values.entry(value).or_default().push(one.0);
                    }
                }
                (others, _) => of.others.extend(others),
            }
        }
        of
    }

    /// Types that allow one of these values, and all those that have to be asked.
    fn some_of(&self, values: &[Symbol]) -> BitSet {
        let mut bits = self.unnamed.clone();
        let allowed = values.iter().filter_map(|value| self.values.get(value));
        allowed.flatten().for_each(|&at| bits.insert(at as usize));
        self.others
            .iter()
            .for_each(|&(at, _)| bits.insert(at as usize));
        bits
    }
}

impl<'a> NodeSpecs<'a> {
    /// No state yet, for a catalogue as scored for each NodePool.
    pub fn new(world: &'a ClusterObjects, scores: Vec<Scores>) -> Self {
        let catalogue = &world.catalogue;
        let numbers = Numbers::read(&world.names);
        let (cells, cell_keys) = cells(catalogue, &scores);
        let of_types = catalogue.index().labels_of_types();
        let mut defined: FxHashSet<Symbol> = of_types.chain(cell_keys.iter().copied()).collect();
        defined.extend(WELL_KNOWN.iter().filter_map(|key| world.names.get(key)));
        NodeSpecs {
            names: &world.names,
            catalogue,
            numbers,
            cells,
            available: vec![Vec::new(); scores.len()],
            scores,
            counts_reservations: world.settings.reserved_capacity,
            defined,
            cell_keys,
            table: Vec::new(),
            index: FxHashMap::default(),
            needs: indexmap::IndexSet::default(),
            memo: FxHashMap::default(),
            masks: FxHashMap::default(),
            as_need: FxHashMap::default(),
            by_value: FxHashMap::default(),
        }
    }

    /// Finds what a NodePool can buy under each offering key, of these types: those that its labels
    /// agree with. Of a catalogue with rows for many NodeClasses those are few.
    pub fn find_available(&mut self, pool: usize, types: &BitSet) {
        let (catalogue, score) = (self.catalogue, &self.scores[pool]);
        let usable = |row: u32| {
            let offering = catalogue.offering(OfferingId(row));
            let left = offering.reservation.is_none_or(|(_, count)| count > 0)
                || !self.counts_reservations;
            let inside = || {
                let mut draws = score
                    .pools
                    .iter()
                    .flat_map(|p| p.draws.iter().map(move |d| (d, p.remaining)));
                draws.any(|(d, remaining)| d.offering.0 == row && d.amount <= remaining)
            };
            offering.available && left && (score.cost[row as usize].is_finite() || inside())
        };
        let none = BitSet::none(catalogue.types().len());
        let mut available = vec![none; self.cells.len()];
        for t in types.iter() {
            for row in catalogue.types()[t].offerings.clone() {
                let cell = catalogue.index().pinned_by()[row as usize] as usize;
                if self.cells[cell].offerings[t] == row && usable(row) {
                    available[cell].insert(t);
                }
            }
        }
        self.available[pool] = available;
    }

    /// The available offerings of a type that a state admits.
    fn offered(&self, state: NodeSpecId, at: usize) -> impl Iterator<Item = u32> + '_ {
        let cells = self.get(state).cells.iter();
        let rows = cells.map(move |cell| self.cells[cell].offerings[at]);
        let is_there = |row: u32| self.catalogue.offering(OfferingId(row)).available;
        rows.filter(move |&row| row != u32::MAX && is_there(row))
    }

    /// Whether there are available offerings of a type that a state admits, and policies exclude all of
    /// them.
    pub fn all_excluded(&self, state: NodeSpecId, at: usize) -> bool {
        let scores = &self.scores[self.get(state).pool];
        let mut offered = self.offered(state, at).peekable();
        offered.peek().is_some() && offered.all(|row| scores.excludes(row))
    }

    /// Adds the policies that exclude any of the available offerings of a type that a state admits, as
    /// far as their names are known, each once, in their order.
    pub fn add_excluding(&self, state: NodeSpecId, at: usize, policies: &mut Vec<Arc<str>>) {
        let scores = &self.scores[self.get(state).pool];
        let excluding = |of: &&PolicyCosts| {
            let mut rows = self.offered(state, at);
            rows.any(|row| scores.excluded_by(row) == Some(&of.policy))
        };
        for of in scores.policies.iter().filter(excluding) {
            if !policies.contains(&of.policy) {
                policies.push(of.policy.clone());
            }
        }
    }

    /// Whether the policies of a state's NodePool exclude an offering.
    pub fn is_excluded(&self, state: NodeSpecId, offering: OfferingId) -> bool {
        let pool = self.get(state).pool;
        offering.0 != u32::MAX && self.scores[pool].excludes(offering.0)
    }

    /// The state of that id.
    pub fn get(&self, id: NodeSpecId) -> &NodeSpec {
        &self.table[id.0 as usize]
    }

    /// Interns what something asks for.
    pub fn requirements(&mut self, sets: Sets) -> RequirementsId {
        RequirementsId(self.needs.insert_full(sets).0 as u32)
    }

    /// The sets of a need.
    pub fn need_sets(&self, id: RequirementsId) -> &Sets {
        &self.needs[id.0 as usize]
    }

    /// Whether pods may ask for a label that a NodePool does not mention.
    pub fn may_be_undefined(&self, key: Symbol) -> bool {
        self.defined.contains(&key)
    }

    /// Whether nodes of a state have no such label: nothing asks for it and no type or offering
    /// names it, or it must be absent.
    pub fn lacks(&self, id: NodeSpecId, key: Symbol) -> bool {
        match self.get(id).sets.get(key) {
            None => !self.may_be_undefined(key),
            Some(set) => set.is_empty() && set.allows_absence(),
        }
    }

    /// The state of a NodePool under `sets`, made if it is new. It may have no types.
    pub fn state(&mut self, pool: usize, sets: Sets) -> NodeSpecId {
        if let Some(&id) = self.index.get(&(pool, sets.clone())) {
            return id;
        }
        let (types, cells) = self.compatible(pool, &sets);
        let id = NodeSpecId(self.table.len() as u32);
        self.table.push(NodeSpec {
            pool,
            sets: sets.clone(),
            types,
            cells,
        });
        self.index.insert((pool, sets), id);
        id
    }

    /// The state after `need` is added, or nothing if labels contradict or no type is left.
    pub fn narrow(&mut self, from: NodeSpecId, need: RequirementsId) -> Option<NodeSpecId> {
        if let Some(&known) = self.memo.get(&(from, need)) {
            return known;
        }
        let state = &self.table[from.0 as usize];
        let asked = &self.needs[need.0 as usize];
        let to = match state
            .sets
            .conflict(asked, |k| self.defined.contains(&k), &self.numbers)
        {
            Some(_) => None,
            None => {
                let mut sets = state.sets.clone();
                sets.add_all(asked, &self.numbers);
                let id = self.state(state.pool, sets);
                (!self.get(id).types.is_empty()).then_some(id)
            }
        };
        self.memo.insert((from, need), to);
        to
    }

    /// The state that keeps what both keep, or nothing if they contradict.
    pub fn intersect(&mut self, a: NodeSpecId, b: NodeSpecId) -> Option<NodeSpecId> {
        if a == b {
            return Some(a);
        }
        let need = match self.as_need.get(&b) {
            Some(&need) => need,
            None => {
                let need = self.requirements(self.get(b).sets.clone());
                self.as_need.insert(b, need);
                need
            }
        };
        self.narrow(a, need)
    }

    /// `narrow` with one label pinned to one value.
    pub fn pin(&mut self, from: NodeSpecId, key: Symbol, value: Symbol) -> Option<NodeSpecId> {
        if self.get(from).sets.get(key).and_then(Set::single) == Some(value) {
            return Some(from);
        }
        let need = self.requirements(Sets(vec![(key, Set::of([value]))]));
        self.narrow(from, need)
    }

    /// Types whose labels agree with `set` under `key`; a type that does not name the label agrees.
    pub fn mask(&mut self, key: Symbol, set: &Set) -> &BitSet {
        let (numbers, catalogue, by_value) = (&self.numbers, self.catalogue, &mut self.by_value);
        self.masks.entry((key, set.clone())).or_insert_with(|| {
            let all = catalogue.index().types_with(key);
            let (mut bits, asked) = match set.complement || !has_many_values(catalogue, all) {
                true => (BitSet::all(catalogue.types().len()), all),
                false => {
                    let of = by_value
                        .entry(key)
                        .or_insert_with(|| ByValue::new(catalogue, key));
                    (of.some_of(&set.values), of.others.as_slice())
                }
            };
            for (at, mine) in sets_of(catalogue, asked) {
                if !mine.agrees(set, numbers) {
                    bits.remove(at);
                }
            }
            bits
        })
    }

    fn compatible(&mut self, pool: usize, sets: &Sets) -> (BitSet, BitSet) {
        let mut types = self.types_that_agree(sets);
        let cells = self.cells_that_agree(sets);
        let mut in_cells = BitSet::none(self.catalogue.types().len());
        cells
            .iter()
            .for_each(|cell| in_cells.or(&self.available[pool][cell]));
        types.and(&in_cells);
        (types, cells)
    }

    /// Types whose own labels agree with requirements.
    pub fn types_that_agree(&mut self, sets: &Sets) -> BitSet {
        let mut types = BitSet::all(self.catalogue.types().len());
        for (key, set) in &sets.0 {
            if self.catalogue.index().is_of_types(*key) {
                types.and(&self.mask(*key, set).clone());
            }
        }
        types
    }

    fn cells_that_agree(&self, sets: &Sets) -> BitSet {
        let mut cells = BitSet::none(self.cells.len());
        for (at, cell) in self.cells.iter().enumerate() {
            let agrees = |&(key, value): &(Symbol, Symbol)| {
                sets.get(key).is_none_or(|s| s.admits(value, &self.numbers))
            };
            let only_in_cells = |key: &Symbol| cell.values.iter().any(|(k, _)| k == key);
            let wanted = sets.0.iter().all(|(key, set)| {
                !self.cell_keys.contains(key) || only_in_cells(key) || set.allows_absence()
            });
            if wanted && cell.values.iter().all(agrees) {
                cells.insert(at);
            }
        }
        cells
    }

    /// Whether some type of `within` has an offering that satisfies `from` and `asked`, with one
    /// label fixed to a value. Temporary unavailability is ignored: insufficient capacity, a
    /// used-up reservation, an offering that the scorer excludes now.
    pub fn could_be_had(
        &mut self,
        from: NodeSpecId,
        asked: &Sets,
        (key, value): (Symbol, Symbol),
        within: &BitSet,
    ) -> bool {
        let mut asked = asked.clone();
        asked.add(key, &Set::of([value]), &self.numbers);
        let state = &self.table[from.0 as usize];
        if state
            .sets
            .conflict(&asked, |k| self.defined.contains(&k), &self.numbers)
            .is_some()
        {
            return false;
        }
        let mut sets = state.sets.clone();
        sets.add_all(&asked, &self.numbers);
        let mut types = self.types_that_agree(&sets);
        types.and(within);
        self.cells_that_agree(&sets)
            .iter()
            .any(|cell| self.cells[cell].offered.meets(&types))
    }

    /// The cheapest way to buy a type in a state: by effective cost outside commitments, then
    /// price, then row.
    pub fn cheapest(&self, id: NodeSpecId, instance_type: TypeId) -> Option<OfferingId> {
        let state = self.get(id);
        let score = &self.scores[state.pool];
        let rows = state
            .cells
            .iter()
            .filter(|&c| self.available[state.pool][c].has(instance_type.0 as usize));
        rows.map(|c| self.cells[c].offerings[instance_type.0 as usize])
            .min_by(|&a, &b| {
                let price = |row: u32| self.catalogue.offering(OfferingId(row)).price;
                let cost = |row: u32| score.cost[row as usize];
                cost(a)
                    .total_cmp(&cost(b))
                    .then(price(a).total_cmp(&price(b)))
                    .then(a.cmp(&b))
            })
            .map(OfferingId)
    }

    /// Whether a NodePool can buy a type under an offering key.
    pub fn available(&self, pool: usize, cell: usize) -> &BitSet {
        &self.available[pool][cell]
    }

    /// Labels that offerings pin.
    pub fn is_cell_key(&self, key: Symbol) -> bool {
        self.cell_keys.contains(&key)
    }

    /// Values of a label that types or offerings name.
    pub fn values_of(&self, key: Symbol) -> Vec<Symbol> {
        let of_types = sets_of_types(self.catalogue, key).flat_map(|(_, set)| set.values);
        let of_cells = self
            .cells
            .iter()
            .flat_map(|c| c.values.iter())
            .filter(|(k, _)| *k == key)
            .map(|&(_, v)| v);
        let mut values: Vec<Symbol> = of_types.chain(of_cells).collect();
        values.sort_unstable();
        values.dedup();
        values
    }
}

/// Labels that pods may ask for although a NodePool does not mention them.
const WELL_KNOWN: [&str; 7] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "karpenter.sh/capacity-type",
];

fn cells(catalogue: &Catalogue, scores: &[Scores]) -> (Vec<OfferingKey>, FxHashSet<Symbol>) {
    let (index, types) = (catalogue.index(), catalogue.types().len());
    let key = |pinned: &Pinned| OfferingKey {
        values: pinned.values.clone(),
        offerings: vec![u32::MAX; types],
        reservation: catalogue
            .offering(OfferingId(pinned.first))
            .reservation
            .map(|r| r.0),
        offered: BitSet::none(types),
    };
    let mut cells: Vec<OfferingKey> = index.pinned().iter().map(key).collect();
    let cost = |row: u32| scores.first().map_or(0.0, |s| s.cost[row as usize]);
    let short = catalogue.short();
    let rows = catalogue.offerings().iter().zip(index.pinned_by());
    for (row, (offering, &at)) in rows.enumerate() {
        let cell = &mut cells[at as usize];
        let is_short = || {
            short
                .binary_search_by_key(&OfferingId(row as u32), |(id, _)| *id)
                .is_ok()
        };
        if offering.available || is_short() {
            cell.offered.insert(offering.instance_type.0 as usize);
        }
        let mine = &mut cell.offerings[offering.instance_type.0 as usize];
        let better = *mine == u32::MAX
            || !catalogue.offering(OfferingId(*mine)).available && offering.available
            || offering.available && cost(row as u32) < cost(*mine);
        if better {
            *mine = row as u32;
        }
    }
    let pinned = index.pinned().iter().flat_map(|pinned| &pinned.values);
    let keys = pinned.map(|&(label, _)| label).collect();
    (cells, keys)
}

/// What types allow of a label, by their index; types that do not mention it are left out.
fn sets_of_types(catalogue: &Catalogue, label: Symbol) -> impl Iterator<Item = (usize, Set)> {
    sets_of(catalogue, catalogue.index().types_with(label))
}

/// What the requirements at these positions of types allow, by the index of the type.
fn sets_of<'c>(
    catalogue: &'c Catalogue,
    all: &'c [(u32, u32)],
) -> impl Iterator<Item = (usize, Set)> + 'c {
    all.iter().map(|&(at, place)| {
        let requirement = &catalogue.types()[at as usize].requirements[place as usize];
        (at as usize, Set::from_op(&requirement.op))
    })
}

/// The requirements that every node of a NodePool starts with.
pub fn pool_sets(world: &ClusterObjects, pool: PoolIx, numbers: &Numbers) -> Sets {
    let pool = &world.pools[pool.0 as usize];
    let mut sets = Sets::new(&pool.requirements, numbers);
    let mut label = |key: Symbol, value: Symbol| sets.add(key, &Set::of([value]), numbers);
    pool.labels
        .iter()
        .for_each(|(key, value)| label(key, value));
    let get = |text: &str| world.names.get(text);
    if let Some(key) = get("karpenter.sh/nodepool") {
        label(key, pool.name);
    }
    if let Some(key) = get(&pool.class.label(&world.names)) {
        label(key, pool.class.name);
    }
    fields::FEATURES
        .iter()
        .filter_map(|key| get(key))
        .for_each(|key| label(key, key));
    for key in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
        if let (Some(key), Some(truth)) = (get(key), get("true")) {
            label(key, truth);
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InstanceType, Requirement};

    #[test]
    fn types_are_found_by_value_as_one_by_one() {
        let mut names = Symbols::default();
        let key = names.intern("team");
        let values = ["a", "b", "c", "3"].map(|text| names.intern(text));
        let [a, b, c, three] = values;
        let is_in = |values: &[Symbol]| Op::In(values.to_vec().into());
        let ops = [
            vec![is_in(&[a])],
            vec![is_in(&[a, b])],
            vec![is_in(&[])],
            vec![is_in(&[three, c])],
            vec![Op::NotIn(vec![a].into())],
            vec![Op::Exists],
            vec![Op::DoesNotExist],
            vec![Op::Gte(2)],
            // Twice: both have to agree.
            vec![is_in(&[a, b]), is_in(&[b, c])],
            vec![],
        ];
        let row = |(at, ops): (usize, &Vec<Op>)| {
            let requirements = ops.iter().map(|op| Requirement::new(key, op.clone()));
            let kind = InstanceType {
                requirements: requirements.collect(),
                ..InstanceType::named(names.get(["a", "b", "c", "3"][at % 4]).unwrap_or(key))
            };
            (kind, Vec::new())
        };
        let rows = ops.iter().enumerate().map(row).collect();
        let catalogue = Catalogue::new(rows, &names);
        let numbers = Numbers::read(&names);
        let by_value = ByValue::new(&catalogue, key);
        for asked in [&[a][..], &[b], &[c], &[three], &[a, three], &[]] {
            let set = Set::of(asked.iter().copied());
            let mut one_by_one = BitSet::all(catalogue.types().len());
            for (at, mine) in sets_of_types(&catalogue, key) {
                if !mine.agrees(&set, &numbers) {
                    one_by_one.remove(at);
                }
            }
            let mut found = by_value.some_of(&set.values);
            for (at, mine) in sets_of(&catalogue, &by_value.others) {
                if !mine.agrees(&set, &numbers) {
                    found.remove(at);
                }
            }
            assert_eq!(found, one_by_one, "{asked:?}");
        }
    }
}
