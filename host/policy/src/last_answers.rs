//! What a policy last said of offerings, for when it says nothing more: by how much each cost more or
//! less than its list price, and which it excluded. As text it outlives the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::last_decisions::LastDecisions;
use crate::loaded::LoadedPolicy;

/// Differences to the list price in USD per hour, by offering; none for one that is excluded.
type Differences = BTreeMap<String, Option<f64>>;

/// The last good answers of a policy, by NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastAnswers {
    /// The policy, by its name in the configuration.
    pub policy: String,
    /// SHA-256 of the component that answered.
    pub digest: String,
    /// Its settings, a JSON object.
    pub settings: String,
    /// Different answers, each once.
    tables: Vec<Differences>,
    /// Index into `tables`.
    node_pools: BTreeMap<String, usize>,
    /// What it last said of nodes.
    #[serde(default)]
    pub(crate) nodes: LastDecisions,
}

/// The last good answer about a NodePool.
#[derive(Clone)]
pub(crate) enum LastAnswer {
    /// As it was given.
    Given {
        columns: Arc<Columns>,
        cost: Arc<[f64]>,
    },
    /// By differences, as it is read.
    Read(Arc<Differences>),
}

impl LastAnswers {
    /// None yet.
    pub(crate) fn of(policy: &LoadedPolicy) -> Self {
        LastAnswers {
            policy: policy.name().to_owned(),
            digest: policy.digest().to_owned(),
            settings: policy.settings().to_owned(),
            ..LastAnswers::default()
        }
    }

    /// Text for [`LastAnswers::of_text`].
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a text says; none if it is damaged or of another policy.
    pub fn of_text(text: &str, policy: &str) -> Option<Self> {
        let read: LastAnswers = serde_json::from_str(text).ok()?;
        let whole = read.node_pools.values().all(|&at| at < read.tables.len());
        (whole && read.policy == policy).then_some(read)
    }

    pub(crate) fn add(&mut self, node_pool: &str, answer: &LastAnswer) {
        let table = answer.differences();
        let known = self.tables.iter().position(|known| *known == *table);
        let at = known.unwrap_or_else(|| {
            self.tables.push(Arc::unwrap_or_clone(table));
            self.tables.len() - 1
        });
        self.node_pools.insert(node_pool.to_owned(), at);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, LastAnswer)> {
        let tables: Vec<Arc<Differences>> = self.tables.iter().cloned().map(Arc::new).collect();
        self.node_pools.iter().filter_map(move |(name, &at)| {
            Some((name.as_str(), LastAnswer::Read(tables.get(at)?.clone())))
        })
    }
}

impl LastAnswer {
    /// The same answer by differences, which are found once.
    pub fn by_difference(&self) -> LastAnswer {
        LastAnswer::Read(self.differences())
    }

    fn differences(&self) -> Arc<Differences> {
        let (columns, cost) = match self {
            LastAnswer::Given { columns, cost } => (columns, cost),
            LastAnswer::Read(table) => return table.clone(),
        };
        let prices = columns.moving.prices.iter();
        let rows = cost.iter().zip(prices).enumerate();
        let of_row = |(row, (&cost, &price)): (usize, (&f64, &u32))| {
            let difference = cost.is_finite().then_some(cost - usd(price));
            (key(columns, row), difference)
        };
        Arc::new(rows.map(of_row).collect())
    }

    /// Costs by what it says: an offering that it did not know is excluded if it excluded any. None
    /// is below `least_share` of its price.
    pub fn costs(&self, columns: &Columns, least_share: f64) -> Vec<f64> {
        let table = self.differences();
        let excludes = table.values().any(Option::is_none);
        let of_row = |(row, &price): (usize, &u32)| {
            let price = usd(price);
            match table.get(&key(columns, row)) {
                Some(Some(difference)) => (price + difference).max(price * least_share),
                Some(None) => f64::INFINITY,
                None if excludes => f64::INFINITY,
                None => price,
            }
        };
        let rows = columns.moving.prices.iter().enumerate();
        rows.map(of_row).collect()
    }
}

fn usd(micros: u32) -> f64 {
    f64::from(micros) / 1e6
}

/// An offering by name: type, zone, capacity type, reservation.
fn key(columns: &Columns, row: usize) -> String {
    let fixed = &columns.fixed;
    let text = |table: &[Arc<str>], column: &[u32]| {
        let at = column.get(row).map(|&at| at as usize);
        at.and_then(|at| table.get(at).cloned()).unwrap_or_default()
    };
    let mut key = text(&fixed.instance_type_names, &fixed.instance_types).to_string();
    for (table, column) in [
        (&fixed.zone_names, &fixed.zones),
        (&fixed.capacity_type_names, &fixed.capacity_types),
        (&fixed.reservation_names, &fixed.reservations),
    ] {
        key.push('/');
        key.push_str(&text(table, column));
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Fixed;

    const INF: f64 = f64::INFINITY;

    /// Offerings of types by name, in one zone, with prices in millionths of USD.
    fn columns(types: &[(&str, u32)]) -> Columns {
        let one = || vec![0; types.len()].into();
        let fixed = Fixed {
            instance_type_names: types.iter().map(|(name, _)| (*name).into()).collect(),
            instance_types: (0..types.len() as u32).collect(),
            zone_names: ["a".into()].into(),
            zones: one(),
            capacity_type_names: ["spot".into()].into(),
            capacity_types: one(),
            reservation_names: ["".into()].into(),
            reservations: one(),
            ..Fixed::default()
        };
        let mut columns = Columns::empty();
        columns.fixed = Arc::new(fixed);
        columns.moving.prices = types.iter().map(|&(_, price)| price).collect();
        columns
    }

    fn given(types: &[(&str, u32)], cost: &[f64]) -> LastAnswer {
        LastAnswer::Given {
            columns: Arc::new(columns(types)),
            cost: cost.into(),
        }
    }

    #[test]
    fn differences_and_exclusions_outlive_prices_order_and_the_process() {
        let before = [("m7g", 1_000_000), ("p5", 50_000_000), ("c7i", 2_000_000)];
        let answer = given(&before, &[1.5, INF, 1.0]);
        let mut all = LastAnswers {
            policy: "green".into(),
            ..LastAnswers::default()
        };
        all.add("default", &answer);
        all.add("batch", &answer);
        assert_eq!(all.tables.len(), 1, "equal answers are one");
        let read = LastAnswers::of_text(&all.text(), "green").unwrap();
        assert_eq!(read, all);
        let now = columns(&[
            ("p5", 40_000_000),
            ("c7i", 500_000),
            ("m7g", 3_000_000),
            ("p6", 1),
        ]);
        for (node_pool, answer) in read.iter() {
            let costs = answer.costs(&now, 0.1);
            assert_eq!(
                costs,
                [INF, 0.05, 3.5, INF],
                "{node_pool}: p6 was never seen"
            );
        }
    }

    #[test]
    fn a_policy_that_excluded_nothing_excludes_nothing_new() {
        let answer = given(&[("m7g", 1_000_000)], &[1.5]);
        let now = columns(&[("m7g", 1_000_000), ("p6", 2_000_000)]);
        assert_eq!(answer.costs(&now, 0.1), [1.5, 2.0]);
    }

    #[test]
    fn what_is_damaged_or_of_another_policy_is_not_read() {
        let text = LastAnswers::default().text();
        assert!(LastAnswers::of_text(&text, "").is_some());
        assert!(LastAnswers::of_text(&text, "other").is_none());
        assert!(LastAnswers::of_text(&text[..text.len() - 1], "").is_none());
        let beyond = text.replace("\"node_pools\":{}", "\"node_pools\":{\"a\":7}");
        assert!(LastAnswers::of_text(&beyond, "").is_none());
    }
}
