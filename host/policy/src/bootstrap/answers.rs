//! What a bootstrap policy is asked and answers, and the part of the contract that can be checked
//! without knowing a cloud: numbers of rows, indices, finite amounts.

use std::collections::BTreeMap;

use wasmtime::component::{ComponentType, Lift, Lower};

use crate::call::answer::number;
use crate::guest_text::cut;

/// Columns of amounts by name, as a policy answers them.
pub(crate) type NamedColumns = Vec<(String, Vec<f64>)>;

/// What the kubelet keeps back: columns with one row for each machine, in cores and bytes.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named as the kubelet's settings are")]
pub struct Overheads {
    pub max_pods: Vec<u32>,
    pub kube_reserved_cpu: Vec<f64>,
    pub kube_reserved_memory: Vec<f64>,
    pub kube_reserved_storage: Vec<f64>,
    pub system_reserved_cpu: Vec<f64>,
    pub system_reserved_memory: Vec<f64>,
    pub system_reserved_storage: Vec<f64>,
    pub eviction_memory: Vec<f64>,
    pub eviction_storage: Vec<f64>,
}

/// A taint of a node as the contract has it: a record that crosses the border to a guest, so that
/// it has wasmtime's traits and no types of a cloud.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeKind {
    /// Their NodePool; empty if it is not known.
    pub node_pool: String,
    /// Labels that a node gives itself.
    pub labels: Vec<(String, String)>,
    /// Labels that it gets from elsewhere.
    pub known_labels: Vec<(String, String)>,
    /// Taints that the nodes register with.
    pub taints: Vec<Taint>,
    /// Taints that something removes when the node has started.
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

const MAX_PODS: &str = "max-pods";
const AMOUNTS: [&str; 8] = [
    "kube-reserved-cpu",
    "kube-reserved-memory",
    "kube-reserved-storage",
    "system-reserved-cpu",
    "system-reserved-memory",
    "system-reserved-storage",
    "eviction-memory",
    "eviction-storage",
];

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

    /// The columns of an answer; those that it leaves out are as `built_in` says, 0 where that is not
    /// known.
    pub(super) fn of_columns(
        columns: NamedColumns,
        built_in: &BTreeMap<String, Vec<f64>>,
        rows: usize,
    ) -> Result<Self, String> {
        let mut said = BTreeMap::new();
        for (name, column) in columns {
            let known = name == MAX_PODS || AMOUNTS.contains(&name.as_str());
            let name = cut(name, 80);
            if !known {
                return Err(format!(
                    "`{name}` is no overhead; there are {MAX_PODS}, {}",
                    AMOUNTS.join(", ")
                ));
            }
            if said.insert(name.clone(), column).is_some() {
                return Err(format!("`{name}` is there twice"));
            }
        }
        let mut column = |name: &str| {
            said.remove(name).unwrap_or_else(|| {
                let known = built_in.get(name).cloned();
                let mut known = known.unwrap_or_else(|| vec![0.0; rows]);
                known
                    .iter_mut()
                    .for_each(|amount| *amount = amount.max(0.0));
                known
            })
        };
        let pods = column(MAX_PODS);
        let bad = |pods: &f64| !(0.0..=f64::from(u32::MAX)).contains(pods) || pods.fract() != 0.0;
        if let Some(at) = pods.iter().position(bad) {
            return Err(format!(
                "{MAX_PODS} of machine {at} is {}; expected a whole number, 0 or more",
                number(pods[at])
            ));
        }
        let amounts = AMOUNTS.map(column);
        let [
            kube_reserved_cpu,
            kube_reserved_memory,
            kube_reserved_storage,
            system_reserved_cpu,
            system_reserved_memory,
            system_reserved_storage,
            eviction_memory,
            eviction_storage,
        ] = amounts;
        let all = Overheads {
            max_pods: pods.into_iter().map(|pods| pods as u32).collect(),
            kube_reserved_cpu,
            kube_reserved_memory,
            kube_reserved_storage,
            system_reserved_cpu,
            system_reserved_memory,
            system_reserved_storage,
            eviction_memory,
            eviction_storage,
        };
        all.problem(rows).map_or(Ok(all), Err)
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
    fn what_is_left_out_is_built_in_and_what_is_not_known_is_named() {
        let built_in = [
            ("max-pods".to_owned(), vec![29.0]),
            ("eviction-memory".to_owned(), vec![-1.0]),
        ]
        .into();
        let of = |columns: &[(&str, f64)]| {
            let columns = columns.iter();
            let columns = columns.map(|(name, amount)| ((*name).to_owned(), vec![*amount]));
            Overheads::of_columns(columns.collect(), &built_in, 1)
        };
        let all = of(&[("kube-reserved-cpu", 0.25)]).unwrap();
        assert_eq!(
            (all.max_pods, all.kube_reserved_cpu),
            (vec![29], vec![0.25])
        );
        assert_eq!(all.eviction_memory, [0.0]);
        assert_eq!(
            of(&[("max-pods", 1.5)]).unwrap_err(),
            "max-pods of machine 0 is 1.5; expected a whole number, 0 or more"
        );
        assert!(
            of(&[("swap", 1.0)])
                .unwrap_err()
                .starts_with("`swap` is no overhead; there are")
        );
        let twice = of(&[("max-pods", 1.0), ("max-pods", 1.0)]);
        assert_eq!(twice.unwrap_err(), "`max-pods` is there twice");
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
