//! Settings of the kubelet that are expressions, and what they come to for an instance type.

use crate::expression::{Expression, Failed, Variables};

use super::super::amount::{Amount, GIB, MIB};
use super::kubelet::{Kubelet, Reserved};

/// Settings of the kubelet that are expressions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expressions {
    /// `maxPods`.
    pub max_pods: Option<Expression>,
    /// Entries of `kubeReserved`.
    pub kube_reserved: Vec<(Reservable, Expression)>,
    /// Entries of `systemReserved`.
    pub system_reserved: Vec<(Reservable, Expression)>,
}

/// A resource that can be kept back from pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservable {
    /// `cpu`.
    Cpu,
    /// `memory`.
    Memory,
    /// `ephemeral-storage`.
    Storage,
    /// `pid`: process IDs.
    Pid,
}

/// An expression that has no usable value for an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The setting, below `spec.kubelet`.
    pub field: String,
    /// What its value is.
    pub what: String,
}

impl Reservable {
    /// The resource with a name.
    pub fn named(name: &str) -> Option<Self> {
        [
            Reservable::Cpu,
            Reservable::Memory,
            Reservable::Storage,
            Reservable::Pid,
        ]
        .into_iter()
        .find(|one| one.name() == name)
    }

    /// The resource as the kubelet calls it.
    pub fn name(self) -> &'static str {
        match self {
            Reservable::Cpu => "cpu",
            Reservable::Memory => "memory",
            Reservable::Storage => "ephemeral-storage",
            Reservable::Pid => "pid",
        }
    }

    /// Its amount in `all`.
    pub fn slot(self, all: &mut Reserved) -> &mut Option<Amount> {
        match self {
            Reservable::Cpu => &mut all.cpu,
            Reservable::Memory => &mut all.memory,
            Reservable::Storage => &mut all.storage,
            Reservable::Pid => &mut all.pid,
        }
    }

    /// The amount that an expression's number stands for: thousandths of a core in steps of 10,
    /// MiB of memory in steps of 16, GiB of storage, processes. So types that differ little share
    /// a launch template.
    fn amount(self, number: i64) -> Option<Amount> {
        let milli = match self {
            Reservable::Cpu => return Some(Amount::milli(stepped(number, 10)?)),
            Reservable::Memory => stepped(number, 16)?.checked_mul(MIB)?.checked_mul(1000)?,
            Reservable::Storage => number.checked_mul(GIB)?.checked_mul(1000)?,
            Reservable::Pid => return Some(Amount::milli(number.checked_mul(1000)?)),
        };
        Some(Amount::binary(milli / 1000))
    }
}

/// The next multiple of `step`.
fn stepped(number: i64, step: i64) -> Option<i64> {
    match number.rem_euclid(step) {
        0 => Some(number),
        rest => number.checked_add(step - rest),
    }
}

impl Expressions {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.max_pods.is_none() && self.kube_reserved.is_empty() && self.system_reserved.is_empty()
    }

    /// The settings below `spec.kubelet` that are expressions.
    pub fn fields(&self) -> Vec<String> {
        let of = |name: &str, entries: &[(Reservable, Expression)]| -> Vec<String> {
            let field = |(of, _): &(Reservable, _)| format!("{name}[{}]", of.name());
            entries.iter().map(field).collect()
        };
        let mut all = of("kubeReserved", &self.kube_reserved);
        all.extend(self.max_pods.as_ref().map(|_| "maxPods".to_owned()));
        all.extend(of("systemReserved", &self.system_reserved));
        all
    }

    /// The settings of `kubelet` with the values of the expressions for a type. `variables` has the
    /// pods that a node takes by default; `pods` gives those that it takes with settings.
    ///
    /// # Errors
    /// The first expression without a value, or whose value cannot be one of its setting.
    pub fn resolve(
        &self,
        kubelet: &Kubelet,
        mut variables: Variables<'_>,
        pods: impl Fn(&Kubelet) -> i64,
    ) -> Result<Kubelet, Unresolved> {
        let mut resolved = kubelet.clone();
        if let Some(expression) = &self.max_pods {
            let number = evaluated("maxPods", expression, &variables)?;
            if !(0..=i64::from(i32::MAX)).contains(&number) {
                let field = "maxPods".to_owned();
                let what = format!("gives {number}, which is not a number of pods");
                return Err(Unresolved { field, what });
            }
            resolved.max_pods = Some(number);
        }
        variables.max_pods = pods(&resolved);
        for (name, entries, reserved) in [
            (
                "kubeReserved",
                &self.kube_reserved,
                &mut resolved.kube_reserved,
            ),
            (
                "systemReserved",
                &self.system_reserved,
                &mut resolved.system_reserved,
            ),
        ] {
            for (of, expression) in entries {
                let field = format!("{name}[{}]", of.name());
                let number = evaluated(&field, expression, &variables)?;
                let amount = of.amount(number).filter(|_| number >= 0);
                let Some(amount) = amount else {
                    let what = format!("gives {number}, which is not an amount to keep back");
                    return Err(Unresolved { field, what });
                };
                *of.slot(reserved) = Some(amount);
            }
        }
        Ok(resolved)
    }
}

fn evaluated(
    field: &str,
    expression: &Expression,
    variables: &Variables<'_>,
) -> Result<i64, Unresolved> {
    let failed = |failed: Failed| Unresolved {
        field: field.to_owned(),
        what: failed.to_string(),
    };
    expression.evaluate(variables).map_err(failed)
}
