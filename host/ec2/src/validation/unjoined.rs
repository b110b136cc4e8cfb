//! Settings with which a kubelet runs, and its node never joins.

use longshore_api::manifests::quoted;
use serde_json::{Map, Value};

use super::fault::Fault;

/// Settings of the kubelet with which no NodeClaim would meet its node, with fields below them.
pub(super) fn unjoined(settings: &Map<String, Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    if settings.get("registerNode") == Some(&Value::Bool(false)) {
        let what = "is false: the kubelet would not make its Node, and the NodeClaim would wait for \
                    it in vain";
        faults.push(Fault::new("registerNode", what, "remove it"));
    }
    let id = settings.get("providerID").and_then(Value::as_str);
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        let what = format!(
            "is {}, the same for all nodes: a NodeClaim would not find its Node by it",
            quoted(id)
        );
        let hint = "remove it: the image sets the instance's own";
        faults.push(Fault::new("providerID", what, hint));
    }
    faults
}
