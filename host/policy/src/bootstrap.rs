//! Bootstrap policies: what they are told, what they answer, and the part of the contract that can
//! be checked without knowing a cloud: numbers of rows, indices, finite amounts.
//!
//! What user data must hold is checked by the cloud's crate.

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{ComponentType, Lift, Lower, TypedFunc};

use crate::call::{Answer, CallError, Instance};
use crate::imports::{Interface, Message, State, charge};
use crate::load::{Exports, LoadedPolicy};

/// The cluster that nodes join. What is empty is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFacts {
    /// Its name.
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
    /// Names of images.
    pub image_names: Vec<String>,
    /// Index into `image_names`; `u32::MAX` for not known.
    pub images: Vec<u32>,
}

/// All that a bootstrap policy is told beside the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootFacts {
    /// The cluster.
    pub cluster: ClusterFacts,
    /// The machines.
    pub machines: Machines,
    /// What the host would say without a policy: columns of [`Overheads`] by name, `max-pods`
    /// included; negative for not known.
    pub built_in: BTreeMap<String, Vec<f64>>,
}

/// What the kubelet keeps back: columns with one row for each machine, in cores and bytes.
#[derive(Clone, Debug, Default, PartialEq, ComponentType, Lift)]
#[component(record)]
#[allow(missing_docs, reason = "named as the kubelet's settings are")]
pub struct Overheads {
    #[component(name = "max-pods")]
    pub max_pods: Vec<u32>,
    #[component(name = "kube-reserved-cpu")]
    pub kube_reserved_cpu: Vec<f64>,
    #[component(name = "kube-reserved-memory")]
    pub kube_reserved_memory: Vec<f64>,
    #[component(name = "kube-reserved-storage")]
    pub kube_reserved_storage: Vec<f64>,
    #[component(name = "system-reserved-cpu")]
    pub system_reserved_cpu: Vec<f64>,
    #[component(name = "system-reserved-memory")]
    pub system_reserved_memory: Vec<f64>,
    #[component(name = "system-reserved-storage")]
    pub system_reserved_storage: Vec<f64>,
    #[component(name = "eviction-memory")]
    pub eviction_memory: Vec<f64>,
    #[component(name = "eviction-storage")]
    pub eviction_storage: Vec<f64>,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The effect.
    pub effect: String,
    /// When it was added; empty if that was not said.
    #[component(name = "time-added")]
    pub time_added: String,
}

/// Nodes to come.
#[derive(Clone, Debug, Default, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct Kind {
    /// Their NodePool; empty if it is not known.
    #[component(name = "node-pool")]
    pub node_pool: String,
    /// Labels that a node gives itself.
    pub labels: Vec<(String, String)>,
    /// Labels that it gets from elsewhere.
    #[component(name = "known-labels")]
    pub known_labels: Vec<(String, String)>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Taints that something removes when the node has started.
    #[component(name = "startup-taints")]
    pub startup_taints: Vec<Taint>,
}

/// Texts and, for each machine that was asked about, which of them it boots with.
#[derive(Clone, Debug, Default, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct UserData {
    /// The texts.
    pub texts: Vec<Vec<u8>>,
    /// Index into `texts`, for each machine.
    pub of: Vec<u32>,
}

/// A bootstrap policy called directly, without a substitute.
pub struct BootSession {
    instance: Instance,
    functions: BootFunctions,
    machines: usize,
}

/// The functions of `bootstrap`.
#[derive(Clone, Copy)]
pub(crate) struct BootFunctions {
    overheads: TypedFunc<(), Answer<Overheads>>,
    user_data: TypedFunc<(Kind, Vec<u32>), Answer<UserData>>,
}

impl BootFunctions {
    /// Finds them, if the component exports them.
    pub fn of(
        exports: &Exports,
        store: &mut Store<State>,
        instance: &wasmtime::component::Instance,
    ) -> wasmtime::Result<Option<Self>> {
        let (Some(overheads), Some(user_data)) = (&exports.overheads, &exports.user_data) else {
            return Ok(None);
        };
        Ok(Some(BootFunctions {
            overheads: instance.get_typed_func(&mut *store, overheads)?,
            user_data: instance.get_typed_func(&mut *store, user_data)?,
        }))
    }
}

impl LoadedPolicy {
    /// Whether it is a bootstrap policy.
    pub fn is_bootstrap(&self) -> bool {
        self.0.exports.overheads.is_some() && self.0.exports.user_data.is_some()
    }
}

impl BootSession {
    /// A fresh instance that is told `facts`. Fails on a policy that does not export `bootstrap`.
    pub fn new(policy: &LoadedPolicy, facts: Arc<BootFacts>) -> Result<Self, CallError> {
        let machines = facts.machines.instance_types.len();
        let mut instance = policy.instantiate()?;
        let (functions, state) = instance.boot();
        state.boot = facts;
        let functions = functions.ok_or_else(|| CallError::Answer {
            asked: "bootstrap",
            problem: "the policy does not export `bootstrap`".to_owned(),
        })?;
        Ok(BootSession {
            instance,
            functions,
            machines,
        })
    }

    /// What the kubelet keeps back: checked for rows, and for amounts that are finite and 0 or more.
    /// After an error the session is of no use any more.
    pub fn overheads(&mut self) -> Result<Overheads, CallError> {
        let asked = "overheads";
        let overheads = self.functions.overheads;
        let answer = self
            .instance
            .ask_with(asked, overheads, (), self.machines)?;
        answer.problem(self.machines).map_or(Ok(answer), |problem| {
            Err(CallError::Answer { asked, problem })
        })
    }

    /// User data of nodes of a kind on some machines: checked for rows and indices. Equal texts are
    /// one. `built_in` is what the host would say. After an error the session is of no use any more.
    pub fn user_data(
        &mut self,
        kind: &Kind,
        machines: &[u32],
        built_in: Arc<UserData>,
    ) -> Result<UserData, CallError> {
        let asked = "user-data";
        self.instance.boot().1.built_in = built_in;
        let with = (kind.clone(), machines.to_vec());
        let user_data = self.functions.user_data;
        let answer = self
            .instance
            .ask_with(asked, user_data, with, machines.len())?;
        self.instance.boot().1.built_in = Arc::default();
        answer
            .grouped(machines.len())
            .map_err(|problem| CallError::Answer { asked, problem })
    }

    /// What the policy has said since last asked.
    pub fn messages(&mut self) -> Vec<Message> {
        self.instance.take_messages()
    }
}

impl Overheads {
    /// The amounts by the names of the contract.
    pub fn amounts(&self) -> [(&'static str, &[f64]); 8] {
        [
            ("kube-reserved-cpu", &self.kube_reserved_cpu),
            ("kube-reserved-memory", &self.kube_reserved_memory),
            ("kube-reserved-storage", &self.kube_reserved_storage),
            ("system-reserved-cpu", &self.system_reserved_cpu),
            ("system-reserved-memory", &self.system_reserved_memory),
            ("system-reserved-storage", &self.system_reserved_storage),
            ("eviction-memory", &self.eviction_memory),
            ("eviction-storage", &self.eviction_storage),
        ]
    }

    fn problem(&self, rows: usize) -> Option<String> {
        if self.max_pods.len() != rows {
            return Some(format!(
                "max-pods has {} rows for {rows} machines",
                self.max_pods.len()
            ));
        }
        for (name, column) in self.amounts() {
            if column.len() != rows {
                let found = column.len();
                return Some(format!("{name} has {found} rows for {rows} machines"));
            }
            let bad = |amount: &f64| !(amount.is_finite() && *amount >= 0.0);
            if let Some(at) = column.iter().position(bad) {
                return Some(format!(
                    "{name} of machine {at} is {}; expected a finite number, 0 or more",
                    column[at]
                ));
            }
        }
        None
    }
}

impl UserData {
    /// The same with each text once and none that no machine boots with, if there is one index for
    /// each of `rows` and each names a text.
    fn grouped(self, rows: usize) -> Result<UserData, String> {
        if self.of.len() != rows {
            return Err(format!(
                "{} texts chosen for {rows} machines",
                self.of.len()
            ));
        }
        let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
        let (mut texts, mut of) = (Vec::new(), Vec::with_capacity(rows));
        for (row, &at) in self.of.iter().enumerate() {
            let text = self.texts.get(at as usize).ok_or_else(|| {
                format!(
                    "machine {row} boots with text {at}, which is not one of {}",
                    self.texts.len()
                )
            })?;
            let next = texts.len() as u32;
            let at = *seen.entry(text).or_insert(next);
            if at == next {
                texts.push(text.clone());
            }
            of.push(at);
        }
        Ok(UserData { texts, of })
    }
}

/// Defines a function without parameters that answers a list out of the facts.
macro_rules! list {
    ($to:ident, $name:literal, $of:expr, $bytes:expr) => {
        $to.function($name, |mut cx, (): ()| {
            let list = $of(&cx.data().boot);
            charge(&mut cx, list.iter().map($bytes).sum())?;
            Ok((list,))
        })?
    };
}

/// What a text costs a guest: its bytes and its length.
fn bytes(text: impl AsRef<str>) -> usize {
    text.as_ref().len() + 8
}

pub(crate) fn cluster(to: &mut Interface) -> wasmtime::Result<()> {
    for (name, get) in [
        ("name", (|f| &f.name) as fn(&ClusterFacts) -> &String),
        ("endpoint", |f| &f.endpoint),
        ("certificate-authority", |f| &f.certificate_authority),
        ("version", |f| &f.version),
    ] {
        to.function(name, move |mut cx, (): ()| {
            let text = get(&cx.data().boot.cluster).clone();
            charge(&mut cx, text.len())?;
            Ok((text,))
        })?;
    }
    list!(
        to,
        "service-ranges",
        |f: &BootFacts| f.cluster.service_ranges.clone(),
        bytes
    );
    list!(
        to,
        "dns-addresses",
        |f: &BootFacts| f.cluster.dns_addresses.clone(),
        bytes
    );
    Ok(())
}

pub(crate) fn machines(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("node-class", |mut cx, (): ()| {
        let text = cx.data().boot.machines.node_class.clone();
        charge(&mut cx, text.len())?;
        Ok((text,))
    })?;
    to.scalar("count", |state| {
        state.boot.machines.instance_types.len() as u32
    })?;
    list!(
        to,
        "instance-type-names",
        |f: &BootFacts| f.machines.instance_types.clone(),
        bytes
    );
    to.function("label-values", |mut cx, (key,): (String,)| {
        let (values, _) = cx.data().boot.machines.label(&key);
        charge(&mut cx, key.len() + values.iter().map(bytes).sum::<usize>())?;
        Ok((values,))
    })?;
    to.function("labels", |mut cx, (key,): (String,)| {
        let (_, rows) = cx.data().boot.machines.label(&key);
        charge(&mut cx, key.len() + 4 * rows.len())?;
        Ok((rows,))
    })?;
    to.function("capacity", |mut cx, (name,): (String,)| {
        let machines = &cx.data().boot.machines;
        let unknown = || vec![-1.0; machines.instance_types.len()];
        let column = machines
            .capacity
            .get(&name)
            .cloned()
            .unwrap_or_else(unknown);
        charge(&mut cx, name.len() + 8 * column.len())?;
        Ok((column,))
    })?;
    list!(
        to,
        "network-interfaces",
        |f: &BootFacts| f.machines.network_interfaces.clone(),
        |_| 4
    );
    list!(
        to,
        "addresses-per-interface",
        |f: &BootFacts| f.machines.addresses_per_interface.clone(),
        |_| 4
    );
    list!(
        to,
        "local-bytes",
        |f: &BootFacts| f.machines.local_bytes.clone(),
        |_| 8
    );
    list!(
        to,
        "image-names",
        |f: &BootFacts| f.machines.image_names.clone(),
        bytes
    );
    list!(
        to,
        "images",
        |f: &BootFacts| f.machines.images.clone(),
        |_| 4
    );
    Ok(())
}

pub(crate) fn built_in(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("overhead", |mut cx, (name,): (String,)| {
        let column = cx.data().boot.built_in.get(&name).cloned();
        let column = column.unwrap_or_default();
        charge(&mut cx, name.len() + 8 * column.len())?;
        Ok((column,))
    })?;
    to.function("texts", |mut cx, (): ()| {
        let texts = cx.data().built_in.texts.clone();
        charge(&mut cx, texts.iter().map(|text| text.len() + 8).sum())?;
        Ok((texts,))
    })?;
    to.function("text-of", |mut cx, (): ()| {
        let of = cx.data().built_in.of.clone();
        charge(&mut cx, 4 * of.len())?;
        Ok((of,))
    })
}

impl Machines {
    /// The values of a label, the empty text first, and the index of each row.
    fn label(&self, key: &str) -> (Vec<String>, Vec<u32>) {
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
    fn equal_texts_are_one_and_unused_texts_go() {
        let texts = ["a", "b", "a", "c"].map(|text| text.as_bytes().to_vec());
        let answer = UserData {
            texts: texts.to_vec(),
            of: vec![2, 1, 0],
        };
        let grouped = answer.grouped(3).unwrap();
        assert_eq!(grouped.texts, [b"a", b"b"]);
        assert_eq!(grouped.of, [0, 1, 0]);
        let of = |of: &[u32]| UserData {
            texts: vec![vec![]],
            of: of.to_vec(),
        };
        assert_eq!(
            of(&[0]).grouped(2).unwrap_err(),
            "1 texts chosen for 2 machines"
        );
        assert_eq!(
            of(&[0, 1]).grouped(2).unwrap_err(),
            "machine 1 boots with text 1, which is not one of 1"
        );
    }

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
