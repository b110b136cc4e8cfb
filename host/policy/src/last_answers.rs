//! What a policy last said of offerings, for when it says nothing more: by how much each cost more or
//! less than before it in the chain, and which it excluded. As text it outlives the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::last_decisions::LastDecisions;
use crate::loaded::LoadedPolicy;

/// Differences that it made in USD per hour, by offering; none for one that it excluded.
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
    /// Position in `tables` of the answer about each NodePool.
    node_pools: BTreeMap<String, usize>,
    /// What it last said of nodes.
    #[serde(default)]
    pub(crate) nodes: LastDecisions,
}

/// The last good answer about a NodePool.
#[derive(Clone)]
pub(crate) enum LastAnswer {
    /// From this process: columns and costs as they were.
    Given {
        columns: Arc<Columns>,
        /// What offerings cost before it.
        before: Arc<[f64]>,
        cost: Arc<[f64]>,
    },
    /// By differences, as it is read.
    Read(Arc<Differences>),
}

impl LastAnswers {
    /// No answers yet of this version of the policy.
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
        let (columns, before, cost) = match self {
            LastAnswer::Given {
                columns,
                before,
                cost,
            } => (columns, before, cost),
            LastAnswer::Read(table) => return table.clone(),
        };
        let rows = cost.iter().zip(before.iter()).enumerate();
        // Of what was excluded before it, nothing is known.
        let known = rows.filter(|(_, (_, before))| before.is_finite());
        let of_row = |(row, (&cost, &before)): (usize, (&f64, &f64))| {
            let difference = cost.is_finite().then_some(cost - before);
            (key(columns, row), difference)
        };
        Arc::new(known.map(of_row).collect())
    }

    /// Costs by what it says, and what offerings cost before it: an offering that it did not know is
    /// excluded if it excluded any. None is below `least_share` of its price, unless it was before.
    pub fn costs(&self, columns: &Columns, before: &[f64], least_share: f64) -> Vec<f64> {
        let table = self.differences();
        let excludes = table.values().any(Option::is_none);
        let of_row = |(row, (&before, &price)): (usize, (&f64, &f64))| match table
            .get(&key(columns, row))
        {
            Some(Some(difference)) => (before + difference).max((price * least_share).min(before)),
            Some(None) => f64::INFINITY,
            None if excludes => f64::INFINITY,
            None => before,
        };
        let rows = before.iter().zip(columns.moving.prices.iter());
        rows.enumerate().map(of_row).collect()
    }
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

    /// Offerings of types by name, in one zone, with prices in USD per hour.
    fn columns(types: &[(&str, f64)]) -> Columns {
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

    fn given(types: &[(&str, f64)], cost: &[f64]) -> LastAnswer {
        LastAnswer::Given {
            columns: Arc::new(columns(types)),
            before: types.iter().map(|&(_, price)| price).collect(),
            cost: cost.into(),
        }
    }

    #[test]
    fn differences_and_exclusions_outlive_prices_order_and_the_process() {
        let before = [("m7g", 1.0), ("p5", 50.0), ("c7i", 2.0)];
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
        let now = columns(&[("p5", 40.0), ("c7i", 0.5), ("m7g", 3.0), ("p6", 0.000_001)]);
        for (node_pool, answer) in read.iter() {
            let costs = answer.costs(&now, &now.moving.prices, 0.1);
            assert_eq!(
                costs,
                [INF, 0.05, 3.5, INF],
                "{node_pool}: p6 was never seen"
            );
        }
    }

    #[test]
    fn a_policy_that_excluded_nothing_excludes_nothing_new() {
        let answer = given(&[("m7g", 1.0)], &[1.5]);
        let now = columns(&[("m7g", 1.0), ("p6", 2.0)]);
        assert_eq!(answer.costs(&now, &now.moving.prices, 0.1), [1.5, 2.0]);
    }

    #[test]
    fn the_difference_is_the_policys_own_and_not_that_of_the_policies_before_it() {
        let types = [("m7g", 1.0), ("p5", 50.0), ("c7i", 2.0)];
        let answer = LastAnswer::Given {
            columns: Arc::new(columns(&types)),
            before: [1.5, INF, 2.0].into(),
            cost: [1.75, INF, 1.0].into(),
        };
        let now = columns(&types);
        // The policy before it excludes another type, and costs the first one less.
        let costs = answer.costs(&now, &[0.5, 60.0, INF], 0.1);
        assert_eq!(costs, [0.75, 60.0, INF]);
        assert_eq!(
            answer.costs(&now, &[1.0, 60.0, 0.15], 0.1)[2],
            0.15,
            "it was cheap before"
        );
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
