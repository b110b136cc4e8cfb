//! The catalogue as columns: row i is the same offering in each. A column costs a call and a copy,
//! so pull what you need. wit/policy@0.1.0/offerings.wit has the contract.

#[cfg(target_arch = "wasm32")]
use crate::bindings::plugin::longshore::policy::offerings as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing as host;

/// Sixteen digits made of all static columns. See [`PerEdition`](crate::PerEdition).
pub fn edition() -> String {
    host::edition()
}

/// How many offerings there are.
pub fn count() -> u32 {
    host::count()
}

/// Table: names of instance types, `m7g.large`. Static.
pub fn instance_type_names() -> Vec<String> {
    host::instance_type_names()
}

/// Index into [`instance_type_names`]. Rows of one type are contiguous. Static.
pub fn instance_types() -> Vec<u32> {
    host::instance_types()
}

/// Table: zones; the empty string for an offering without one. Static.
pub fn zone_names() -> Vec<String> {
    host::zone_names()
}

/// Index into [`zone_names`]. Static.
pub fn zones() -> Vec<u32> {
    host::zones()
}

/// Table: `on-demand`, `spot`, `reserved`; more may come. Static.
pub fn capacity_type_names() -> Vec<String> {
    host::capacity_type_names()
}

/// Index into [`capacity_type_names`]. Static.
pub fn capacity_types() -> Vec<u32> {
    host::capacity_types()
}

/// Table: `amd64`, `arm64`; the empty string where the type does not say. Static.
pub fn architecture_names() -> Vec<String> {
    host::architecture_names()
}

/// Index into [`architecture_names`]. Static.
pub fn architectures() -> Vec<u32> {
    host::architectures()
}

/// Table: reservations by id; the empty string stands for none. Static.
pub fn reservation_names() -> Vec<String> {
    host::reservation_names()
}

/// Index into [`reservation_names`]. Static.
pub fn reservations() -> Vec<u32> {
    host::reservations()
}

/// What the machine has, in thousandths of a core. Static.
pub fn cpu_millicores() -> Vec<u32> {
    host::cpu_millicores()
}

/// What the machine has, in MiB. Static.
pub fn memory_mib() -> Vec<u32> {
    host::memory_mib()
}

/// List price in USD per hour.
pub fn prices() -> Vec<f64> {
    host::prices()
}

/// 1 if the cloud says that it can be had now, else 0.
pub fn available() -> Vec<u8> {
    host::available()
}

/// For offerings of a reservation, how many instances are left in it; otherwise 0.
pub fn reservation_counts() -> Vec<u32> {
    host::reservation_counts()
}
