//! A catalogue to ask about, and the plugins, built once for each test binary.
#![allow(dead_code)]

pub mod hostile;

use std::sync::LazyLock;

use longshore_core::model::{
    Catalogue, InstanceType, Offering, Op, Requirement, ResourceId, Resources, Symbol, Symbols,
};
use longshore_policy::{Assignment, Host, HostConfig, LoadedPolicy, WasmPolicies};
pub use longshore_xtask::guests::plugin;

/// Made once: compiling goes on in its engine.
pub static HOST: LazyLock<Host> = LazyLock::new(|| Host::new(HostConfig::default()).unwrap());

/// A first-party plugin with settings.
pub fn load(name: &str, settings: &str) -> LoadedPolicy {
    HOST.load(&plugin(name), Some(settings)).unwrap()
}

/// One policy for all NodePools.
pub fn serve(policy: LoadedPolicy) -> WasmPolicies {
    chain(vec![policy])
}

/// Policies for all NodePools, each of which starts from the costs of the one before it.
pub fn chain(policies: Vec<LoadedPolicy>) -> WasmPolicies {
    let place = |policy| Assignment {
        policy,
        node_pools: vec![],
    };
    HOST.policies(policies.into_iter().map(place).collect())
}

/// Whether a failure is said as expected. On a busy machine the time of a round, which the clock measures, may
/// be over before the fuel is.
pub fn says(said: &str, expected: &str) -> bool {
    let is_late = || expected.contains("fuel") && said.contains("used up its time for a round");
    said.contains(expected) || is_late()
}

/// A catalogue, its names and a NodePool.
pub struct World {
    pub catalogue: Catalogue,
    pub names: Symbols,
    pub pool: Symbol,
}

/// At least `offerings` offerings: types of two families and two architectures, in three zones, on
/// demand and spot.
pub fn world(offerings: usize) -> World {
    world_at(offerings, 1.0)
}

/// As [`world`], with each price times a factor.
pub fn world_at(offerings: usize, factor: f64) -> World {
    let mut names = Symbols::default();
    let arch = names.intern("kubernetes.io/arch");
    let zones = ["a", "b", "c"].map(|letter| names.intern(&format!("us-east-1{letter}")));
    let (spot, on_demand) = (names.intern("spot"), names.intern("on-demand"));
    let pool = names.intern("default");
    let types = (0..offerings.div_ceil(6)).map(|number| {
        let (family, processor) = [("m7g", "arm64"), ("c7i", "amd64")][number % 2];
        let vcpus = 1 << (number % 7 + 1);
        let price = 0.0408 * f64::from(vcpus) * (1.0 + (number % 13) as f64 / 100.0);
        let capacity = Resources::new([
            (ResourceId::Cpu, i64::from(vcpus) * 1000),
            (ResourceId::Memory, i64::from(vcpus) << 32),
        ]);
        let name = names.intern(&format!("{family}.{number:04}"));
        let offering = |zone, capacity_type, price: f64| Offering {
            instance_type: longshore_core::model::TypeId(0),
            requirements: [].into(),
            zone: Some(zone),
            capacity_type: Some(capacity_type),
            price: (price * factor * 1e6).round() / 1e6,
            available: true,
            reservation: None,
        };
        let offerings = zones.iter().enumerate().flat_map(|(nth, &zone)| {
            let share = 0.3 + 0.05 * nth as f64 + (number % 5) as f64 / 50.0;
            [
                offering(zone, on_demand, price),
                offering(zone, spot, price * share),
            ]
        });
        let processor = Requirement::new(arch, Op::In(Box::new([names.intern(processor)])));
        let instance_type = InstanceType {
            name,
            requirements: vec![processor],
            allocatable: capacity.clone(),
            capacity,
            volume_limits: vec![],
            incompatible: None,
            offerings: 0..0,
        };
        (instance_type, offerings.collect())
    });
    let types = types.collect();
    World {
        catalogue: Catalogue::new(types, &names),
        names,
        pool,
    }
}
