//! The 144 built-in types of the KWOK provider: 12 sizes × 3 amounts of memory × 2 systems × 2
//! architectures, each in four zones, spot and on-demand.

use longshore_api::labels::{self, capacity_type};
use longshore_core::model::{Offering, Requirement, ResourceId, Resources, Symbols, TypeId};

use super::labels::{Shape, type_requirements};
use super::row::{Row, row};

/// CPUs.
const SIZES: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// Family and GiB of memory for each CPU.
const FAMILIES: [(&str, i64); 3] = [("c", 2), ("s", 4), ("m", 8)];
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
/// USD per hour of one CPU and of 10^9 bytes.
const USD_PER_CPU: f64 = 0.025;
const USD_PER_GB: f64 = 0.001;
/// Spot's share of the on-demand price.
const SPOT_PRICE_SHARE: f64 = 0.7;
/// Pods per node: a number per CPU, up to the limit.
const PODS_PER_CPU: i64 = 16;
const MAX_PODS: i64 = 1024;

pub(super) fn rows(names: &mut Symbols) -> Vec<Row> {
    let mut rows = Vec::with_capacity(144);
    for cpus in SIZES {
        for (family, gib_per_cpu) in FAMILIES {
            for os in ["linux", "windows"] {
                for arch in ["amd64", "arm64"] {
                    rows.push(one(cpus, family, cpus * gib_per_cpu, os, arch, names));
                }
            }
        }
    }
    rows
}

fn one(cpus: i64, family: &str, gib: i64, os: &str, arch: &str, names: &mut Symbols) -> Row {
    let name = format!("{family}-{cpus}x-{arch}-{os}");
    let bytes = gib << 30;
    let capacity = Resources::new([
        (ResourceId::Cpu, cpus * 1000),
        (ResourceId::Memory, bytes),
        (ResourceId::Pods, (cpus * PODS_PER_CPU).min(MAX_PODS)),
        (ResourceId::EphemeralStorage, 20 << 30),
    ]);
    let memory = if gib % 1024 == 0 {
        format!("{}Ti", gib / 1024)
    } else {
        format!("{gib}Gi")
    };
    let shape = Shape {
        name: &name,
        arch,
        systems: &[os],
        cpu: &cpus.to_string(),
        memory: &memory,
    };
    let requirements = type_requirements(&shape, names);
    let on_demand = cpus as f64 * USD_PER_CPU + bytes as f64 * USD_PER_GB / 1e9;
    let mut offerings = Vec::new();
    for zone in ZONES {
        for (capacity, price) in [
            (capacity_type::SPOT, on_demand * SPOT_PRICE_SHARE),
            (capacity_type::ON_DEMAND, on_demand),
        ] {
            offerings.push(offering(zone, capacity, price, names));
        }
    }
    row(&name, requirements, capacity, Vec::new(), offerings, names)
}

fn offering(zone: &str, capacity: &str, price: f64, names: &mut Symbols) -> Offering {
    let (zone_key, capacity_key) = (
        names.intern(labels::ZONE),
        names.intern(labels::CAPACITY_TYPE),
    );
    let (zone, capacity_type) = (names.intern(zone), names.intern(capacity));
    Offering {
        instance_type: TypeId(0),
        requirements: [
            Requirement::is(capacity_key, capacity_type),
            Requirement::is(zone_key, zone),
        ]
        .into(),
        zone: Some(zone),
        capacity_type: Some(capacity_type),
        price,
        available: true,
        reservation: None,
    }
}
