//! Whether pods may share a GPU by dynamic resources: an annotation that needs a gate, which Longshore
//! has not.

use std::collections::BTreeMap;

use longshore_api::manifests::quoted;

use super::fault::{Fault, Invalid, Reason};

/// Annotation of EC2NodeClasses: how pods share what a GPU has.
pub(super) const SHARING: &str = "karpenter.k8s.aws/nvidia-consumable-capacity";

/// Checks the annotation.
///
/// # Errors
/// A value that it cannot have, and one that asks for sharing.
pub(super) fn sharing(annotations: Option<&BTreeMap<String, String>>) -> Result<(), Invalid> {
    let value = annotations.and_then(|all| all.get(SHARING));
    let value = value.map_or("", String::as_str);
    let shares = value.parse::<u64>().is_ok_and(|shares| shares > 0);
    let (reason, what, hint) = match value {
        "" | "disabled" => return Ok(()),
        "memory" | "unlimited" => (Reason::DraDisabled, None, ""),
        _ if shares => (Reason::DraDisabled, None, ""),
        other => (
            Reason::NvidiaConsumableCapacityInvalid,
            Some(format!("is {}", quoted(other))),
            "write disabled, memory, unlimited or a number from 1 on",
        ),
    };
    let fault = match what {
        Some(what) => Fault::new(SHARING, what, hint),
        None => Fault::new(
            SHARING,
            "needs the gate DRANVIDIAGPU, which has no effect yet",
            "remove it, or write disabled",
        ),
    };
    Err(Invalid {
        reason,
        faults: vec![fault],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_of_gpus_is_refused_as_long_as_its_gate_is_not_there() {
        let of = |value: &str| {
            let annotations = [(SHARING.to_owned(), value.to_owned())].into();
            sharing(Some(&annotations))
                .map_err(|invalid| invalid.reason.as_str())
                .err()
        };
        for none in ["", "disabled"] {
            assert_eq!(of(none), None, "{none}");
        }
        for asks in ["memory", "unlimited", "4"] {
            assert_eq!(of(asks), Some("DRADisabled"), "{asks}");
        }
        for wrong in ["0", "-1", "all", "1.5", "Memory"] {
            assert_eq!(
                of(wrong),
                Some("NVIDIAConsumableCapacityInvalid"),
                "{wrong}"
            );
        }
        assert_eq!(sharing(None), Ok(()));
    }
}
