//! Resources of offerings, in cores, bytes or devices; 0 for what a machine has not. Static.

#[cfg(target_arch = "wasm32")]
use crate::bindings::plugin::longshore::policy::resources as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::resources as host;

/// All resources that any offering has, sorted.
pub fn names() -> Vec<String> {
    host::names()
}

/// What the machine of each offering has.
pub fn capacity(name: &str) -> Vec<f64> {
    host::capacity(name)
}

/// What pods can have of it.
pub fn allocatable(name: &str) -> Vec<f64> {
    host::allocatable(name)
}

/// GPUs and other accelerators of each offering: devices of all resources whose names end in `/gpu`,
/// `/neuron`, `/neurondevice`, `/gaudi` or `/tpu`.
pub fn accelerators() -> Vec<f64> {
    const DEVICES: [&str; 5] = ["/gpu", "/neuron", "/neurondevice", "/gaudi", "/tpu"];
    let mut all = vec![0.0; crate::offerings::count() as usize];
    for name in names() {
        if DEVICES.iter().any(|device| name.ends_with(device)) {
            let column = capacity(&name);
            all.iter_mut()
                .zip(column)
                .for_each(|(sum, own)| *sum += own);
        }
    }
    all
}
