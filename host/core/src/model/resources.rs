//! Amounts of resources, as integers in one unit each.

use smallvec::SmallVec;

use super::symbols::{Symbol, Symbols};

/// A resource. The four that every node has are fixed; others (`nvidia.com/gpu`, `hugepages-2Mi`,
/// …) carry the symbol of their name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResourceId {
    /// `cpu`, in thousandths of a core; fractions are rounded up.
    Cpu,
    /// `memory`, in bytes.
    Memory,
    /// `pods`, a count.
    Pods,
    /// `ephemeral-storage`, in bytes.
    EphemeralStorage,
    /// Any other resource by name, in its own unit (devices, bytes of huge pages).
    Other(Symbol),
}

impl ResourceId {
    /// What Kubernetes calls it.
    pub fn name(self, names: &Symbols) -> &str {
        self.known_name().unwrap_or_else(|name| names.text(name))
    }

    /// The same for a resource that every node has.
    ///
    /// # Errors
    /// The symbol of the name of any other.
    pub fn known_name(self) -> Result<&'static str, Symbol> {
        match self {
            ResourceId::Cpu => Ok("cpu"),
            ResourceId::Memory => Ok("memory"),
            ResourceId::Pods => Ok("pods"),
            ResourceId::EphemeralStorage => Ok("ephemeral-storage"),
            ResourceId::Other(name) => Err(name),
        }
    }

    /// The resource of a name, if every node has it.
    pub fn known(name: &str) -> Option<Self> {
        match name {
            "cpu" => Some(ResourceId::Cpu),
            "memory" => Some(ResourceId::Memory),
            "pods" => Some(ResourceId::Pods),
            "ephemeral-storage" => Some(ResourceId::EphemeralStorage),
            _ => None,
        }
    }

    /// Whether it is memory that is set aside in huge pages.
    pub fn is_huge_pages(self, names: &Symbols) -> bool {
        matches!(self, ResourceId::Other(name) if names.text(name).starts_with("hugepages-"))
    }

    /// The resource of any name.
    pub fn named(name: &str, names: &mut Symbols) -> Self {
        ResourceId::known(name).unwrap_or_else(|| ResourceId::Other(names.intern(name)))
    }
}

/// Amounts by resource, sorted by resource, zero amounts left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources(SmallVec<[(ResourceId, i64); 4]>);

impl Resources {
    /// Amounts from pairs in any order; repeated resources add up.
    pub fn new(pairs: impl IntoIterator<Item = (ResourceId, i64)>) -> Self {
        let mut all = Resources::default();
        for (resource, amount) in pairs {
            all.add_one(resource, amount);
        }
        all
    }

    /// The amount of one resource; absent is zero.
    pub fn get(&self, resource: ResourceId) -> i64 {
        match self.0.binary_search_by_key(&resource, |&(r, _)| r) {
            Ok(at) => self.0[at].1,
            Err(_) => 0,
        }
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, resource: ResourceId, amount: i64) {
        match self.0.binary_search_by_key(&resource, |&(r, _)| r) {
            Ok(at) if amount == 0 => drop(self.0.remove(at)),
            Ok(at) => self.0[at].1 = amount,
            Err(_) if amount == 0 => {}
            Err(at) => self.0.insert(at, (resource, amount)),
        }
    }

    /// Adds to the amount of one resource, saturating.
    pub fn add_one(&mut self, resource: ResourceId, amount: i64) {
        self.set(resource, self.get(resource).saturating_add(amount));
    }

    /// Adds all of `other`, saturating.
    pub fn add(&mut self, other: &Resources) {
        for &(resource, amount) in &other.0 {
            self.add_one(resource, amount);
        }
    }

    /// Takes all of `other` away; amounts may become negative.
    pub fn sub(&mut self, other: &Resources) {
        for &(resource, amount) in &other.0 {
            self.add_one(resource, amount.saturating_neg());
        }
    }

    /// Raises each amount to that of `other` where it is smaller.
    pub fn max(&mut self, other: &Resources) {
        for &(resource, amount) in &other.0 {
            self.set(resource, self.get(resource).max(amount));
        }
    }

    /// Whether all requests fit: `self ≤ room`. A resource that `room` does not name
    /// is zero there.
    pub fn fits(&self, room: &Resources) -> bool {
        self.0
            .iter()
            .all(|&(resource, amount)| amount <= 0 || amount <= room.get(resource))
    }

    /// Resources and their amounts, non-zero ones only.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, i64)> + '_ {
        self.0.iter().copied()
    }

    /// Whether every amount is zero.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Visits every symbol. A visitor that changes symbols keeps their order.
    pub fn each(&mut self, visit: &mut dyn FnMut(&mut Symbol)) {
        for (resource, _) in &mut self.0 {
            if let ResourceId::Other(name) = resource {
                visit(name);
            }
        }
    }
}
