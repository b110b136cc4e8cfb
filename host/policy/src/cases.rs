//! Questions with their answers, as text: test cases of a policy, golden vectors, counterexamples.

pub(crate) mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_core::model::{
    InstanceType, Offering, Op, Requirement, ResourceId, Resources, Symbol, Symbols, TypeId,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::call::Instance;
use crate::call::answer::CallError;
use crate::columns::Columns;
use crate::guest_text::MAX_ERROR_CHARS;
use crate::guest_text::cut;
use crate::load::about::signal_uses;
use crate::loaded::{Loaded, LoadedPolicy};
use crate::score_request::{PoolFacts, ScoreRequest};
use crate::session::Session;
use crate::settings;
use crate::signals::{DeclaredSignals, Signal, Signals};
use crate::terms::Terms;

/// A question, and what must be answered.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Case {
    /// What each offering must cost, USD per hour, in the order of `offerings`.
    pub expected: Option<Vec<f64>>,
    /// In place of `expected`: what the error has to contain.
    pub error: Option<String>,
    /// By which share a cost may differ [default: 1e-9].
    pub tolerance: Option<f64>,
    /// When it is asked, in seconds since 1970.
    #[serde(default)]
    pub now: f64,
    /// What the operator set.
    #[serde(default, deserialize_with = "settings::deserialize")]
    pub settings: Map<String, Value>,
    /// The NodePool that nodes are wanted for.
    #[serde(default)]
    pub node_pool: CasePool,
    /// Tables by name; the row `time` says when it was fetched.
    #[serde(default)]
    pub signals: BTreeMap<String, BTreeMap<String, f64>>,
    /// Offerings that the policy is asked about, in the order of its answer.
    pub offerings: Vec<CaseRow>,
}

/// The NodePool of a question.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CasePool {
    /// Its name.
    pub name: String,
    /// Labels of its nodes.
    pub labels: BTreeMap<String, String>,
    /// Annotations of its nodes.
    pub annotations: BTreeMap<String, String>,
    /// Its weight.
    pub weight: u32,
}

/// An offering. What is of the instance type counts in the first row that names the type.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CaseRow {
    /// `m7g.large`.
    pub instance_type: String,
    /// `us-east-1a`.
    #[serde(default)]
    pub zone: String,
    /// `on-demand`, `spot`, `reserved`.
    #[serde(default)]
    pub capacity_type: String,
    /// `amd64`, `arm64`.
    #[serde(default)]
    pub architecture: String,
    /// Cores of the instance type.
    #[serde(default)]
    pub cpu: f64,
    /// Its memory in GiB.
    #[serde(default)]
    pub memory_gib: f64,
    /// Other resources of the instance type, in their own unit.
    #[serde(default)]
    pub resources: BTreeMap<String, i64>,
    /// Other labels of the instance type.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// List price, USD per hour.
    pub price: f64,
    /// What the policies before say [default: the list price].
    pub cost_before: Option<f64>,
    /// Whether it can be had now.
    #[serde(default = "yes")]
    pub available: bool,
    /// The reservation that it is of.
    #[serde(default)]
    pub reservation: String,
    /// Instances that are left in it.
    #[serde(default)]
    pub reservation_count: u32,
}

fn yes() -> bool {
    true
}

/// Why a case has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The policy's settings are refused, for this reason.
    #[error("settings: {0}")]
    Settings(String),
    /// The call itself fails, as by a trap or a limit.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Case {
    /// Reads one; what is wrong has its line.
    pub fn read(text: &str) -> Result<Case, String> {
        let case: Case = toml::from_str(text).map_err(|error| error.to_string())?;
        let rows = case.offerings.len();
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if case.tolerance.is_some_and(|share| !is_share(share)) {
            return Err("`tolerance` is a share of a cost: expected 0 to 1".to_owned());
        }
        let is_cost = |cost: &f64| *cost >= 0.0;
        if !case.expected.iter().flatten().all(is_cost) {
            return Err("`expected` has a number below 0 or none: a cost is 0 or more".to_owned());
        }
        if !case.now.is_finite() {
            return Err("`now` is no number of seconds since 1970".to_owned());
        }
        match &case.expected {
            Some(expected) if expected.len() != rows => Err(format!(
                "`expected` has {} costs for {rows} offerings",
                expected.len()
            )),
            Some(_) if case.error.is_some() => {
                Err("it has `expected` and `error`: an answer is one of them".to_owned())
            }
            _ => Ok(case),
        }
    }

    /// The question, with rows in the order of `order`, which names each row once. Rows of an instance
    /// type must follow each other there.
    pub fn request(&self, order: &[usize]) -> ScoreRequest {
        let mut names = Symbols::default();
        let arch = names.intern("kubernetes.io/arch");
        let (mut types, mut offerings) = (Vec::<InstanceType>::new(), Vec::new());
        for &row in order {
            let of = &self.offerings[row];
            let name = names.intern(&of.instance_type);
            if types.last().is_none_or(|last| last.name != name) {
                types.push(instance_type(of, arch, &mut names));
            }
            let mut text = |text: &str| (!text.is_empty()).then(|| names.intern(text));
            offerings.push(Offering {
                instance_type: TypeId(types.len() as u32 - 1),
                requirements: [].into(),
                zone: text(&of.zone),
                capacity_type: text(&of.capacity_type),
                price: of.price,
                available: of.available,
                reservation: text(&of.reservation).map(|name| (name, of.reservation_count)),
            });
        }
        let columns = Columns::of_rows(&types, &offerings, &names);
        let costs = order.iter().map(|&row| {
            let of = &self.offerings[row];
            of.cost_before.unwrap_or(of.price)
        });
        ScoreRequest {
            costs: costs.collect(),
            columns: Arc::new(columns),
            signals: Arc::new(self.tables()),
            node_pool: self.node_pool.name.as_str().into(),
            pool: Arc::new(self.node_pool.facts()),
            now: self.now,
        }
    }

    /// An order in which rows of an instance type follow each other, as they come.
    pub fn order(&self) -> Vec<usize> {
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        for (row, of) in self.offerings.iter().enumerate() {
            first.entry(&of.instance_type).or_insert(row);
        }
        let mut order: Vec<usize> = (0..self.offerings.len()).collect();
        order.sort_by_key(|&row| first[&*self.offerings[row].instance_type]);
        order
    }

    fn tables(&self) -> Signals {
        let table = |(name, rows): (&String, &BTreeMap<String, f64>)| {
            let time = rows.get("time").copied().unwrap_or(0.0);
            let rows = rows.iter().map(|(key, value)| (key.clone(), *value));
            (name.clone(), Signal::new(time, rows))
        };
        Signals {
            tables: self.signals.iter().map(table).collect(),
        }
    }

    /// A fresh instance of a policy with this case's settings, on terms that change no answer.
    pub fn begin(&self, policy: &LoadedPolicy) -> Result<Session, CaseError> {
        let configured = self.configured(policy)?;
        Ok(Session::of(&configured, &self.request(&self.order()))?)
    }

    /// A policy with this case's settings. It reads the signals of the case that it declares.
    pub fn configured(&self, policy: &LoadedPolicy) -> Result<LoadedPolicy, CaseError> {
        let mut loaded: Loaded = (*policy.0).clone();
        let settings = Value::Object(self.settings.clone());
        let problems = settings::check(&loaded.about.settings_schema, &settings);
        if !problems.is_empty() {
            return Err(CaseError::Settings(cut(
                problems.join("; "),
                MAX_ERROR_CHARS,
            )));
        }
        let named = Terms {
            signals: Some(self.signals.keys().cloned().collect()),
            ..Terms::everything()
        };
        let uses = signal_uses(&loaded.about, &named);
        loaded.visible = Arc::new(DeclaredSignals::of(&uses, None));
        loaded.terms = Terms {
            max_discount: 1.0,
            ..Terms::everything()
        };
        loaded.settings = settings.to_string().into();
        Instance::new(&loaded)
            .and_then(|mut instance| instance.configure(loaded.settings.clone()))
            .map_err(|error| match error {
                CallError::Refused { message, .. } => CaseError::Settings(message),
                error => CaseError::Call(error),
            })?;
        Ok(LoadedPolicy(Arc::new(loaded)))
    }

    /// What a fresh instance answers, in the order of `offerings`.
    pub fn ask(&self, policy: &LoadedPolicy) -> Result<Vec<f64>, CaseError> {
        let scores = self.begin(policy)?.ask()?;
        Ok(self.in_order(&self.order(), &scores.cost))
    }

    /// Costs by the rows of `order`, in the order of `offerings`.
    pub fn in_order(&self, order: &[usize], costs: &[f64]) -> Vec<f64> {
        let mut all = vec![f64::NAN; self.offerings.len()];
        order
            .iter()
            .zip(costs)
            .for_each(|(&row, &cost)| all[row] = cost);
        all
    }

    /// Whether an answer is as expected; what differs, in words. A case that expects nothing is met by
    /// every answer.
    pub fn meets(&self, answer: &Result<Vec<f64>, CaseError>) -> Result<(), String> {
        match (answer, &self.error, &self.expected) {
            (Ok(_), Some(error), _) => {
                Err(format!("it answers, and the error {error:?} is expected"))
            }
            (Err(error), Some(part), _) if error.to_string().contains(part) => Ok(()),
            (Err(error), _, _) => Err(error.to_string()),
            (Ok(_), None, None) => Ok(()),
            (Ok(costs), None, Some(expected)) => {
                let differs = |(&cost, &expected): (&f64, &f64)| !self.is_near(cost, expected);
                let Some(row) = costs.iter().zip(expected).position(differs) else {
                    return Ok(());
                };
                Err(format!(
                    "offering {row} ({}) costs {}, and {} is expected",
                    self.offerings[row].shown(),
                    costs[row],
                    expected[row]
                ))
            }
        }
    }

    /// Whether two costs are equal up to the tolerance.
    pub fn is_near(&self, cost: f64, other: f64) -> bool {
        let tolerance = self.tolerance.unwrap_or(1e-9);
        // Infinity is near nothing else: it excludes.
        let is_finite = cost.is_finite() && other.is_finite();
        cost == other
            || (is_finite && (cost - other).abs() <= tolerance * cost.abs().max(other.abs()))
    }
}

impl CaseRow {
    /// What it is, for messages.
    pub fn shown(&self) -> String {
        format!(
            "{} {} {}",
            self.instance_type, self.zone, self.capacity_type
        )
    }
}

impl CasePool {
    fn facts(&self) -> PoolFacts {
        let pairs = |of: &BTreeMap<String, String>| {
            let pairs = of
                .iter()
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()));
            pairs.collect()
        };
        PoolFacts {
            labels: pairs(&self.labels),
            annotations: pairs(&self.annotations),
            weight: self.weight,
        }
    }
}

fn instance_type(of: &CaseRow, arch: Symbol, names: &mut Symbols) -> InstanceType {
    let own = (!of.architecture.is_empty()).then_some((arch, &of.architecture));
    let labels = of
        .labels
        .iter()
        .map(|(key, value)| (names.intern(key), value));
    let pinned: Vec<_> = own.into_iter().chain(labels).collect();
    let requirements = pinned.into_iter().map(|(key, value)| {
        let value = names.intern(value);
        Requirement::new(key, Op::In(Box::new([value])))
    });
    let requirements = requirements.collect();
    let amounts = [
        (ResourceId::Cpu, (of.cpu * 1000.0).round() as i64),
        (
            ResourceId::Memory,
            (of.memory_gib * 1_073_741_824.0).round() as i64,
        ),
    ];
    let others = of.resources.iter().map(|(name, amount)| {
        let known = [ResourceId::Pods, ResourceId::EphemeralStorage];
        let known = known.into_iter().find(|id| id.known_name() == Ok(name));
        (
            known.unwrap_or_else(|| ResourceId::Other(names.intern(name))),
            *amount,
        )
    });
    let others: Vec<_> = others.collect();
    let capacity = Resources::new(amounts.into_iter().chain(others));
    InstanceType {
        name: names.intern(&of.instance_type),
        requirements,
        allocatable: capacity.clone(),
        capacity,
        volume_limits: vec![],
        incompatible: None,
        offerings: 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(more: &str) -> Result<Case, String> {
        let row = "[[offerings]]\ninstance-type = 'a'\nprice = 1.0\n";
        Case::read(&format!("{more}\n{row}"))
    }

    #[test]
    fn what_is_excluded_is_near_nothing_that_is_not() {
        let meets = |expected: &str, cost: f64| {
            let case = case(&format!("expected = [{expected}]")).unwrap();
            case.meets(&Ok(vec![cost])).is_ok()
        };
        assert!(meets("inf", f64::INFINITY) && meets("1.0", 1.0));
        assert!(!meets("inf", 1.0) && !meets("1.0", f64::INFINITY));
    }

    #[test]
    fn numbers_of_a_case_are_such_that_an_answer_can_differ() {
        for (wrong, said) in [
            ("expected = [-inf]", "`expected` has a number below 0"),
            ("expected = [nan]", "`expected` has a number below 0"),
            ("tolerance = inf", "`tolerance` is a share"),
            ("tolerance = -1.0", "`tolerance` is a share"),
            ("now = nan", "`now` is no number of seconds"),
        ] {
            let refused = case(wrong).unwrap_err();
            assert!(refused.starts_with(said), "{refused}");
        }
    }
}
