//! What is wrong with a NodeClass, and the reason that its condition gets.

/// A fault of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, below what was checked.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What can be done about it.
    pub hint: String,
}

impl Fault {
    pub(crate) fn new(
        field: impl Into<String>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            what: what.into(),
            hint: hint.into(),
        }
    }
}

/// Why the condition ValidationSucceeded of a NodeClass is not true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A setting of the kubelet is unknown, has the wrong type, or a value that it cannot have.
    InvalidKubeletConfiguration,
    /// A setting is an expression, and the gate NodeClassCEL is off.
    KubeletExpressionsDisabled,
    /// An expression cannot be compiled.
    KubeletExpressionInvalid,
    /// A setting is one that the family's images would not apply.
    UnsupportedKubeletConfiguration,
    /// An annotation asks for shared GPUs, and the gate for that is off.
    DraDisabled,
    /// An annotation about shared GPUs cannot be read.
    NvidiaConsumableCapacityInvalid,
    /// An expression has no value for an instance type.
    KubeletExpressionEvaluationFailed,
    /// A node would not boot with the user data, or lose a part of it.
    InvalidUserData,
    /// A tag is one that the autoscaler sets.
    TagValidationFailed,
}

impl Reason {
    /// The condition's reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::InvalidKubeletConfiguration => "InvalidKubeletConfiguration",
            Reason::KubeletExpressionsDisabled => "KubeletExpressionsDisabled",
            Reason::KubeletExpressionInvalid => "KubeletExpressionInvalid",
            Reason::UnsupportedKubeletConfiguration => "UnsupportedKubeletConfiguration",
            Reason::DraDisabled => "DRADisabled",
            Reason::NvidiaConsumableCapacityInvalid => "NVIDIAConsumableCapacityInvalid",
            Reason::KubeletExpressionEvaluationFailed => "KubeletExpressionEvaluationFailed",
            Reason::InvalidUserData => "InvalidUserData",
            Reason::TagValidationFailed => "TagValidationFailed",
        }
    }
}

/// Why nodes cannot be made from a NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The condition's reason.
    pub reason: Reason,
    /// What is wrong, with fields below `spec`.
    pub faults: Vec<Fault>,
}

/// Faults of `spec.kubelet`, with fields below `spec`.
pub(super) fn below(faults: Vec<Fault>) -> Vec<Fault> {
    let below = |fault: Fault| Fault {
        field: format!("kubelet.{}", fault.field),
        ..fault
    };
    faults.into_iter().map(below).collect()
}

pub(super) fn found(reason: Reason, faults: Vec<Fault>) -> Result<(), Invalid> {
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Invalid { reason, faults }),
    }
}
