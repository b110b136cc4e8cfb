//! What can be known of an EC2NodeClass without AWS: whether its kubelet settings, its user data and
//! its tags are valid. [`nodeclass`] makes the checks in Karpenter's order, then those that Karpenter
//! leaves to the node, and says which reason the condition ValidationSucceeded has. [`mod@rules`] makes
//! those of the API server, for objects from files.
//!
//! The API server takes any kubelet setting; these checks are the autoscaler's. The fields and types
//! are those of KubeletConfiguration v1beta1 of Kubernetes 1.37 (`validation/kubelet.json`). What a
//! kubelet of the nodes' version refuses at its start is in [`crate::kubelet`].

mod families;
pub(crate) mod fault;
mod kubelet_settings;
mod node;
mod reserved_tags;
mod rules;
mod sharing;
mod unjoined;

use crate::catalogue::class::{Class, ClassFault};
use crate::catalogue::class_catalogue::ClassCatalogue;
use crate::catalogue::region::Region;
use crate::expression::Expression;
use crate::kubelet::versions::Kubelets;
use crate::nodeclass::{EC2NodeClass, EC2NodeClassSpec};

pub use fault::{Fault, Invalid, Reason};
pub use kubelet_settings::{expressions, kubelet};
pub use node::{kubelets, node, starts, warnings};
pub use reserved_tags::tags;
pub use rules::rules;

use fault::{below, found};
use sharing::sharing;

/// What is known of a NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong that can be known without AWS.
    Valid,
    /// Its expressions have no instance type to be tried on yet; ask again.
    TypesUnknown,
    /// Nodes cannot be made from it.
    Invalid(Invalid),
}

/// Checks a NodeClass in Karpenter's order; the first check that finds faults gives the reason.
/// Expressions are tried on every instance type of `region`.
pub fn nodeclass(object: &EC2NodeClass, region: &Region) -> Verdict {
    let kubelets = kubelets(object, region.settings.kubernetes);
    let checked = settings(&object.spec, region.settings.expressions, &kubelets);
    let checked = checked.and_then(|()| sharing(object.metadata.annotations.as_ref()));
    match checked.and_then(|()| evaluated(object, region)) {
        Err(invalid) => Verdict::Invalid(invalid),
        Ok(false) => Verdict::TypesUnknown,
        Ok(true) => match found(Reason::TagValidationFailed, tags(object.spec.tags())) {
            Err(invalid) => Verdict::Invalid(invalid),
            Ok(()) => Verdict::Valid,
        },
    }
}

/// Checks the kubelet's settings and the user data as far as no instance type is needed.
/// `may_be_expressions` is the gate NodeClassCEL; `kubelets` are those that nodes of the NodeClass
/// may have.
///
/// # Errors
/// The first check that finds faults.
pub fn settings(
    spec: &EC2NodeClassSpec,
    may_be_expressions: bool,
    kubelets: &Kubelets,
) -> Result<(), Invalid> {
    let settings = spec.kubelet();
    found(
        Reason::InvalidKubeletConfiguration,
        below(kubelet(settings)),
    )?;
    let expressions = expressions(settings);
    if !may_be_expressions {
        let off = |(field, _): &(String, &str)| {
            let what = "is an expression, and the gate NodeClassCEL is off";
            Fault::new(field, what, "turn it on, or write a number or a quantity")
        };
        found(
            Reason::KubeletExpressionsDisabled,
            below(expressions.iter().map(off).collect()),
        )?;
    }
    let refused = |(field, text): &(String, &str)| {
        let refused = Expression::compile(text).err()?;
        Some(Fault::new(field, refused.to_string(), refused.hint))
    };
    found(
        Reason::KubeletExpressionInvalid,
        below(expressions.iter().filter_map(refused).collect()),
    )?;
    found(
        Reason::UnsupportedKubeletConfiguration,
        below(families::unsupported(spec.family(), settings)),
    )?;
    node(spec.family(), settings, spec.user_data.as_deref(), kubelets)
}

/// Whether there were instance types to try the expressions on.
fn evaluated(object: &EC2NodeClass, region: &Region) -> Result<bool, Invalid> {
    if expressions(object.spec.kubelet()).is_empty() {
        return Ok(true);
    }
    if region.types().is_empty() {
        return Ok(false);
    }
    let tried = Class::of(object).and_then(|class| ClassCatalogue::new(region, class));
    match tried {
        Ok(_) => Ok(true),
        Err(ClassFault { field, what, hint }) => Err(Invalid {
            reason: Reason::KubeletExpressionEvaluationFailed,
            faults: vec![Fault::new(field.trim_start_matches("spec."), what, hint)],
        }),
    }
}
