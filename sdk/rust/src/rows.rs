use crate::{chain, offerings};

/// All columns, zipped on demand: the convenient way, for a policy that is not in a hurry.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    instance_type_names: Vec<String>,
    instance_types: Vec<u32>,
    zone_names: Vec<String>,
    zones: Vec<u32>,
    capacity_type_names: Vec<String>,
    capacity_types: Vec<u32>,
    architecture_names: Vec<String>,
    architectures: Vec<u32>,
    reservation_names: Vec<String>,
    reservations: Vec<u32>,
    cpu_millicores: Vec<u32>,
    memory_mib: Vec<u32>,
    prices: Vec<f64>,
    costs: Vec<f64>,
    available: Vec<u8>,
    reservation_counts: Vec<u32>,
}

/// An offering.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// `m7g.large`.
    pub instance_type: &'a str,
    /// Its zone, or the empty string.
    pub zone: &'a str,
    /// `on-demand`, `spot`, `reserved`, …
    pub capacity_type: &'a str,
    /// `amd64`, `arm64`, or the empty string.
    pub architecture: &'a str,
    /// Thousandths of a core.
    pub cpu_millicores: u32,
    /// MiB.
    pub memory_mib: u32,
    /// List price in USD per hour.
    pub price: f64,
    /// What it costs by the policy before this one, in USD per hour: what to work on.
    pub cost: f64,
    /// Whether the cloud says that it can be had now.
    pub available: bool,
    /// For an offering of a reservation, its id and how many instances are left in it.
    pub reservation: Option<(&'a str, u32)>,
}

impl Rows {
    /// Pulls every column.
    pub fn pull() -> Self {
        Rows {
            instance_type_names: offerings::instance_type_names(),
            instance_types: offerings::instance_types(),
            zone_names: offerings::zone_names(),
            zones: offerings::zones(),
            capacity_type_names: offerings::capacity_type_names(),
            capacity_types: offerings::capacity_types(),
            architecture_names: offerings::architecture_names(),
            architectures: offerings::architectures(),
            reservation_names: offerings::reservation_names(),
            reservations: offerings::reservations(),
            cpu_millicores: offerings::cpu_millicores(),
            memory_mib: offerings::memory_mib(),
            prices: offerings::prices(),
            costs: chain::costs(),
            available: offerings::available(),
            reservation_counts: offerings::reservation_counts(),
        }
    }

    /// The offerings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        (0..self.prices.len()).map(|at| self.row(at))
    }

    /// One offering.
    pub fn row(&self, at: usize) -> Row<'_> {
        let reservation = self.reservation_names[self.reservations[at] as usize].as_str();
        Row {
            instance_type: &self.instance_type_names[self.instance_types[at] as usize],
            zone: &self.zone_names[self.zones[at] as usize],
            capacity_type: &self.capacity_type_names[self.capacity_types[at] as usize],
            architecture: &self.architecture_names[self.architectures[at] as usize],
            cpu_millicores: self.cpu_millicores[at],
            memory_mib: self.memory_mib[at],
            price: self.prices[at],
            cost: self.costs[at],
            available: self.available[at] == 1,
            reservation: (!reservation.is_empty())
                .then(|| (reservation, self.reservation_counts[at])),
        }
    }
}
