//! Private functions that the fuzz target of watches (`host/fuzz`) calls.

use longshore_api::manifests::Store;
use serde_json::Value;

use longshore_api::strip_managed_fields::{full_name, strip_managed_fields};

/// An object of a watch is made slim, named and folded. What is made slim keeps its name, and JSON
/// stays JSON.
pub fn observed(text: &str) {
    let (short, _) = strip_managed_fields(text);
    assert_eq!(full_name(text), full_name(&short));
    if serde_json::from_str::<Value>(text).is_ok() {
        assert!(
            serde_json::from_str::<Value>(&short).is_ok(),
            "{text} becomes {short}"
        );
    }
    let mut store = Store::new();
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("v1", "Node"),
        ("karpenter.sh/v1", "NodePool"),
    ] {
        let _ = store.apply(api_version, kind, &short);
    }
    let _ = store.world();
}
