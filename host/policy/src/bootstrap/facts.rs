//! What a bootstrap policy gets: the cluster, the machines of a NodeClass, and what the host
//! would say itself.

use std::collections::BTreeMap;

/// The cluster that nodes join. What is empty is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFacts {
    /// Name that the cloud knows the cluster by.
    pub name: String,
    /// The API server's URL.
    pub endpoint: String,
    /// The CA certificate, PEM in base64.
    pub certificate_authority: String,
    /// The API server's version, `1.33`.
    pub version: String,
    /// CIDR blocks of Services.
    pub service_ranges: Vec<String>,
    /// Addresses of the cluster's DNS.
    pub dns_addresses: Vec<String>,
}

/// The machines of a NodeClass as columns, each with a row for every instance type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machines {
    /// The NodeClass as JSON.
    pub node_class: String,
    /// Names of instance types.
    pub instance_types: Vec<String>,
    /// Label by label, the value of each row; empty for none.
    pub labels: BTreeMap<String, Vec<String>>,
    /// Resource by resource, cores, bytes or devices of each row; negative for not known.
    pub capacity: BTreeMap<String, Vec<f64>>,
    /// Interfaces of the default network card.
    pub network_interfaces: Vec<u32>,
    /// IPv4 addresses of an interface.
    pub addresses_per_interface: Vec<u32>,
    /// Bytes of own disks.
    pub local_bytes: Vec<f64>,
    /// How many own disks; `u32::MAX` for not known.
    pub local_disks: Vec<u32>,
    /// Bytes of the volume that is booted from; negative for not known.
    pub root_bytes: Vec<f64>,
    /// Names of images, which rows refer to by position.
    pub image_names: Vec<String>,
    /// Index into `image_names`; `u32::MAX` for not known.
    pub images: Vec<u32>,
}

/// All that a bootstrap policy gets beside the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootFacts {
    /// The cluster that nodes join.
    pub cluster: ClusterFacts,
    /// The machines of the NodeClass.
    pub machines: Machines,
    /// What the host would say without a policy: columns of [`super::answers::Overheads`] by name,
    /// `max-pods` included; negative for not known.
    pub built_in: BTreeMap<String, Vec<f64>>,
}

impl Machines {
    /// The values of a label, the empty text first, and the index of each row.
    pub(super) fn label(&self, key: &str) -> (Vec<String>, Vec<u32>) {
        let mut values = vec![String::new()];
        let Some(rows) = self.labels.get(key) else {
            return (values, vec![0; self.instance_types.len()]);
        };
        let mut seen = BTreeMap::from([("", 0)]);
        let rows = rows.iter().map(|value| {
            let next = values.len() as u32;
            *seen.entry(value.as_str()).or_insert_with(|| {
                values.push(value.clone());
                next
            })
        });
        let rows = rows.collect();
        (values, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_a_table_and_an_index() {
        let machines = Machines {
            instance_types: vec![String::new(); 3],
            labels: [("k".to_owned(), ["x", "", "x"].map(str::to_owned).to_vec())].into(),
            ..Machines::default()
        };
        let values = ["", "x"].map(str::to_owned).to_vec();
        assert_eq!(machines.label("k"), (values, vec![1, 0, 1]));
        assert_eq!(machines.label("other"), (vec![String::new()], vec![0; 3]));
    }
}
