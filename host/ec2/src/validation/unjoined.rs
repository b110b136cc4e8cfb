//! Settings with which a kubelet runs, and its node never joins.

use serde_json::{Map, Value};

use super::fault::Fault;

/// Settings of the kubelet with which there would be no Node, with fields below them.
pub(super) fn unjoined(settings: &Map<String, Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    if settings.get("registerNode") == Some(&Value::Bool(false)) {
        let what = "is false: the kubelet would not make its Node, and the NodeClaim would wait for \
                    it in vain";
        faults.push(Fault::new("registerNode", what, "remove it"));
    }
    faults
}
