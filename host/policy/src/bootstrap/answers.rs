//! What a bootstrap policy is asked and answers, and the part of the contract that can be checked
//! without knowing a cloud: numbers of rows, indices, finite amounts.

use std::collections::BTreeMap;

use wasmtime::component::{ComponentType, Lift, Lower};

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
    /// Key of the taint.
    pub key: String,
    /// Value of the taint; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
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
    /// Taints that the nodes register with.
    pub taints: Vec<Taint>,
    /// Taints that something removes when the node has started.
    #[component(name = "startup-taints")]
    pub startup_taints: Vec<Taint>,
}

/// Texts and, for each machine that was asked about, which of them it boots with.
#[derive(Clone, Debug, Default, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct UserData {
    /// Different texts, each once.
    pub texts: Vec<Vec<u8>>,
    /// Index into `texts`, for each machine.
    pub of: Vec<u32>,
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

    pub(super) fn problem(&self, rows: usize) -> Option<String> {
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
    pub(super) fn grouped(self, rows: usize) -> Result<UserData, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_that_are_no_numbers_are_refused_in_the_same_words() {
        let problem = |amount: f64| {
            let overheads = Overheads {
                max_pods: vec![110],
                kube_reserved_cpu: vec![amount],
                ..Overheads::default()
            };
            overheads.problem(1).unwrap()
        };
        let usual = "kube-reserved-cpu of machine 0 is NaN; expected a finite number, 0 or more";
        for bits in [f64::NAN.to_bits(), 0xfff8_0000_0000_0000, u64::MAX] {
            assert_eq!(problem(f64::from_bits(bits)), usual, "{bits:#x}");
        }
    }

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
}
