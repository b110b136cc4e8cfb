//! Pods whose annotation `karpenter.sh/do-not-disrupt` protects them from nothing, because its value
//! cannot be read: an Event says so.

use longshore_api::time::go_duration;
use serde::Deserialize;

const KEY: &str = "karpenter.sh/do-not-disrupt";

/// The reason of the Event, which is Karpenter's.
pub const REASON: &str = "InvalidDoNotDisruptAnnotation";

/// A pod with a value that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// `namespace/name`.
    pub pod: String,
    pub uid: String,
    /// What is wrong, as a sentence.
    pub message: String,
}

/// Whether a pod, as JSON, has such a value. Most pods do not have the annotation, and are not
/// parsed for it.
pub fn unprotected(pod: &str) -> Option<Unprotected> {
    #[derive(Deserialize)]
    struct Pod {
        metadata: Meta,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Meta {
        namespace: String,
        name: String,
        uid: String,
        annotations: Option<std::collections::BTreeMap<String, String>>,
    }
    if !pod.contains(KEY) {
        return None;
    }
    let Pod { metadata } = serde_json::from_str(pod).ok()?;
    let annotations = metadata.annotations.unwrap_or_default();
    let value = annotations.get(KEY)?;
    let is_read = matches!(value.as_str(), "" | "true" | "false")
        || go_duration(value).is_some_and(|seconds| seconds > 0);
    (!is_read).then(|| Unprotected {
        pod: format!("{}/{}", metadata.namespace, metadata.name),
        uid: metadata.uid,
        message: format!(
            "annotation {KEY}: {value:?} is neither \"true\" nor a duration above 0, such as \
            \"1h30m\"; the pod is not protected"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_told(value: &str) -> bool {
        let annotations = serde_json::json!({KEY: value});
        let metadata = serde_json::json!({"namespace": "shop", "name": "web", "uid": "u", "annotations": annotations});
        let pod = serde_json::json!({"metadata": metadata}).to_string();
        unprotected(&pod).is_some_and(|told| told.pod == "shop/web" && told.message.contains(value))
    }

    #[test]
    fn a_value_that_protects_from_nothing_is_told() {
        for value in ["True", "1", "1d", "infinite", "0s", "-1h"] {
            assert!(is_told(value), "{value}");
        }
        for value in ["true", "false", "1h30m", "90s", "1.5h"] {
            assert!(!is_told(value), "{value}");
        }
        assert_eq!(unprotected(r#"{"metadata": {"name": "web"}}"#), None);
    }
}
