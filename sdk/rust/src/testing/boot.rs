//! A cluster and its machines for tests of bootstrap policies.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// What the host's functions answer inside [`with`].
#[derive(Clone, Debug, Default)]
pub struct Boot {
    /// The cluster's name.
    pub cluster: String,
    /// The API server's URL.
    pub endpoint: String,
    /// The CA certificate in base64.
    pub certificate_authority: String,
    /// The API server's version.
    pub version: String,
    /// CIDR blocks of Services.
    pub service_ranges: Vec<String>,
    /// Addresses of the cluster's DNS.
    pub dns_addresses: Vec<String>,
    /// The NodeClass as JSON.
    pub node_class: String,
    /// Instance types; their number is the number of machines.
    pub instance_types: Vec<String>,
    /// Values of labels by row.
    pub labels: BTreeMap<String, Vec<String>>,
    /// Amounts of resources by row.
    pub capacity: BTreeMap<String, Vec<f64>>,
    /// The image of every machine; empty for not known.
    pub image: String,
    /// The built-in overhead by name and row.
    pub overhead: BTreeMap<String, Vec<f64>>,
    /// The built-in user data of every machine.
    pub text: String,
}

thread_local! {
    static BOOT: RefCell<Boot> = RefCell::default();
}

/// Runs a test on a cluster and its machines.
pub fn with<T>(boot: Boot, test: impl FnOnce() -> T) -> T {
    let before = BOOT.replace(boot);
    let result = test();
    BOOT.set(before);
    result
}

fn get<T>(of: impl Fn(&Boot) -> T) -> T {
    BOOT.with_borrow(of)
}

macro_rules! answers {
    ($($name:ident: $type:ty = $of:expr;)*) => {$(
        pub(crate) fn $name() -> $type {
            super::get($of)
        }
    )*};
}

pub(crate) mod cluster {
    answers! {
        name: String = |b| b.cluster.clone();
        endpoint: String = |b| b.endpoint.clone();
        certificate_authority: String = |b| b.certificate_authority.clone();
        version: String = |b| b.version.clone();
        service_ranges: Vec<String> = |b| b.service_ranges.clone();
        dns_addresses: Vec<String> = |b| b.dns_addresses.clone();
    }
}

pub(crate) mod machines {
    answers! {
        node_class: String = |b| b.node_class.clone();
        count: u32 = |b| b.instance_types.len() as u32;
        instance_type_names: Vec<String> = |b| b.instance_types.clone();
        network_interfaces: Vec<u32> = |b| vec![0; b.instance_types.len()];
        addresses_per_interface: Vec<u32> = |b| vec![0; b.instance_types.len()];
        local_bytes: Vec<f64> = |b| vec![0.0; b.instance_types.len()];
        local_disks: Vec<u32> = |b| vec![0; b.instance_types.len()];
        root_bytes: Vec<f64> = |b| vec![f64::NAN; b.instance_types.len()];
        image_names: Vec<String> = |b| vec![b.image.clone()];
        images: Vec<u32> = |b| vec![if b.image.is_empty() { u32::MAX } else { 0 }; b.instance_types.len()];
    }

    /// A table with each row's own value: tables may repeat one.
    pub(crate) fn label_values(key: &str) -> Vec<String> {
        let unknown = |b: &super::Boot| vec![String::new(); b.instance_types.len()];
        super::get(|b| b.labels.get(key).cloned().unwrap_or_else(|| unknown(b)))
    }

    pub(crate) fn labels(_key: &str) -> Vec<u32> {
        super::get(|b| (0..b.instance_types.len() as u32).collect())
    }

    pub(crate) fn capacity(name: &str) -> Vec<f64> {
        let unknown = |b: &super::Boot| vec![f64::NAN; b.instance_types.len()];
        super::get(|b| b.capacity.get(name).cloned().unwrap_or_else(|| unknown(b)))
    }
}

pub(crate) mod built_in {
    answers! {
        texts: Vec<Vec<u8>> = |b| vec![b.text.clone().into_bytes()];
        text_of: Vec<u32> = |b| vec![0; b.instance_types.len()];
    }

    pub(crate) fn overhead(name: &str) -> Vec<f64> {
        super::get(|b| b.overhead.get(name).cloned().unwrap_or_default())
    }
}
