//! Label selectors and tolerations as controllers read them, on JSON. (kube-scheduler has its own,
//! interned.)

use serde_json::{Map, Value};

use crate::fields;

/// Whether a `metav1.LabelSelector` selects an object by its labels. An absent one selects nothing,
/// an empty one all.
pub fn selects(selector: &Value, object: &Value) -> bool {
    selects_labels(
        selector,
        fields::at(object, "/metadata/labels").and_then(Value::as_object),
    )
}

/// As [`selects`], by the labels alone.
pub fn selects_labels(selector: &Value, labels: Option<&Map<String, Value>>) -> bool {
    if !selector.is_object() {
        return false;
    }
    let label = |key: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .and_then(Value::as_str)
    };
    let wanted = selector["matchLabels"].as_object().into_iter().flatten();
    wanted
        .into_iter()
        .all(|(key, value)| label(key) == value.as_str())
        && fields::items(selector, "/matchExpressions")
            .iter()
            .all(|e| {
                let value = label(fields::text(e, "/key"));
                let listed = || {
                    fields::items(e, "/values")
                        .iter()
                        .any(|v| v.as_str() == value)
                };
                match fields::text(e, "/operator") {
                    "In" => value.is_some() && listed(),
                    "NotIn" => value.is_none() || !listed(),
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => false,
                }
            })
}

/// Whether a toleration covers a taint.
pub fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let key = fields::text(toleration, "/key");
    let effect = fields::text(toleration, "/effect");
    let exists = fields::text(toleration, "/operator") == "Exists";
    (effect.is_empty() || taint["effect"] == effect)
        && match key {
            "" => exists,
            key => {
                taint["key"] == key
                    && (exists
                        || fields::text(toleration, "/value") == fields::text(taint, "/value"))
            }
        }
}

/// Whether a node satisfies one expression of node affinity.
fn node_admits(expression: &Value, value: Option<&str>) -> bool {
    let values = || {
        fields::items(expression, "/values")
            .iter()
            .filter_map(Value::as_str)
    };
    let bound = || values().next().and_then(|v| v.parse::<i64>().ok());
    let number = || value.and_then(|v| v.parse::<i64>().ok());
    match fields::text(expression, "/operator") {
        "In" => value.is_some_and(|v| values().any(|w| w == v)),
        "NotIn" => value.is_none_or(|v| values().all(|w| w != v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().zip(bound()).is_some_and(|(n, b)| n > b),
        "Lt" => number().zip(bound()).is_some_and(|(n, b)| n < b),
        _ => false,
    }
}

/// Whether node selector and required node affinity of a pod (or template) spec admit a node.
pub fn admits(spec: &Value, node: &Value) -> bool {
    let plain = spec["nodeSelector"].as_object().into_iter().flatten();
    if !plain
        .into_iter()
        .all(|(key, value)| fields::label(node, key) == value.as_str())
    {
        return false;
    }
    let required =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if !required.is_object() {
        return true;
    }
    fields::items(required, "/nodeSelectorTerms")
        .iter()
        .any(|term| {
            let (labels, others) = (
                fields::items(term, "/matchExpressions"),
                fields::items(term, "/matchFields"),
            );
            (!labels.is_empty() || !others.is_empty())
                && labels
                    .iter()
                    .all(|e| node_admits(e, fields::label(node, fields::text(e, "/key"))))
                && others.iter().all(|e| {
                    e["key"] == "metadata.name" && node_admits(e, Some(fields::name(node)))
                })
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select_by_labels() {
        let pod = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        let both = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front", "back"]},
            {"key": "canary", "operator": "DoesNotExist"}]});
        assert!(selects(&both, &pod) && selects(&json!({}), &pod));
        assert!(
            !selects(&Value::Null, &pod) && !selects(&json!({"matchLabels": {"app": "db"}}), &pod)
        );
        assert!(!selects(
            &json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
            &pod
        ));
    }

    #[test]
    fn affinity_admits_by_label_and_by_name() {
        let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cpus": "8"}}});
        let spec = |terms: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": terms}}}})
        };
        assert!(admits(&json!({"nodeSelector": {"zone": "a"}}), &node));
        assert!(admits(
            &spec(
                json!([{"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["4"]}]}])
            ),
            &node
        ));
        assert!(admits(
            &spec(
                json!([{}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])
            ),
            &node
        ));
        assert!(!admits(&spec(json!([{}])), &node));
    }

    #[test]
    fn a_toleration_without_key_needs_exists() {
        let taint = json!({"key": "a", "value": "b", "effect": "NoSchedule"});
        assert!(
            tolerates(&json!({"operator": "Exists"}), &taint) && !tolerates(&json!({}), &taint)
        );
        assert!(tolerates(&json!({"key": "a", "value": "b"}), &taint));
        assert!(!tolerates(
            &json!({"key": "a", "operator": "Exists", "effect": "NoExecute"}),
            &taint
        ));
    }
}
