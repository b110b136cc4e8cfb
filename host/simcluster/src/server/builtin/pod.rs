//! Pods, and the parts that pod templates share with them.

use serde_json::{Map, Value, json};

use super::limits;
use crate::server::api_error::{ApiErrorWithDetails, Cause};
use crate::server::meta::{self, at, default, part, text};
use crate::server::resources::{POD, PRIORITY_CLASS};
use crate::server::state::ServerState;

/// Completes and checks a new pod.
pub fn admit(state: &ServerState, pod: &mut Value) -> Result<(), ApiErrorWithDetails> {
    let name = text(pod, &["metadata", "name"]).to_owned();
    let namespace = text(pod, &["metadata", "namespace"]).to_owned();
    complete(part(pod, "spec"));
    let spec = part(pod, "spec");
    limits::apply(state, &namespace, spec);
    default(spec, "enableServiceLinks", json!(true));
    prioritize(state, spec, &name)?;
    tolerate(spec);
    let causes = check("spec", spec);
    if !causes.is_empty() {
        return Err(ApiErrorWithDetails::invalid(POD, &name, &causes));
    }
    let quality = quality(spec);
    meta::fields(pod).insert(
        "status".into(),
        json!({"phase": "Pending", "qosClass": quality}),
    );
    Ok(())
}

/// Fills in what a pod, or the pods of a template, get without saying so.
pub fn complete(spec: &mut Map<String, Value>) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
    ] {
        default(spec, field, value);
    }
    for container in meta::containers(spec) {
        complete_container(meta::fields(container));
    }
}

fn complete_container(container: &mut Map<String, Value>) {
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let is_latest = !last.contains([':', '@']) || last.ends_with(":latest");
    default(
        container,
        "imagePullPolicy",
        json!(if is_latest { "Always" } else { "IfNotPresent" }),
    );
    default(
        container,
        "terminationMessagePath",
        json!("/dev/termination-log"),
    );
    default(container, "terminationMessagePolicy", json!("File"));
    default(container, "resources", json!({}));
    for port in container
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        default(meta::fields(port), "protocol", json!("TCP"));
    }
    // What is limited is asked for, unless less is.
    let Some(resources) = container
        .get_mut("resources")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let limits = resources
        .get("limits")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = meta::fields(resources.entry("requests").or_insert_with(|| json!({})));
    for (resource, amount) in limits {
        requests.entry(resource).or_insert(amount);
    }
}

fn prioritize(
    state: &ServerState,
    spec: &mut Map<String, Value>,
    name: &str,
) -> Result<(), ApiErrorWithDetails> {
    let given = spec
        .get("priorityClassName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let class = match given {
        "" => default_priority_class(state),
        given => Some(given.to_owned()),
    };
    let (priority, policy) = match &class {
        None => (0, json!("PreemptLowerPriority")),
        Some(class) => priority_class(state, class).ok_or_else(|| {
            let mut refused = ApiErrorWithDetails::forbidden(
                POD,
                name,
                &format!("no PriorityClass with name {class} was found"),
            );
            refused.details.remove("group");
            refused
        })?,
    };
    if let Some(class) = class {
        spec.insert("priorityClassName".into(), json!(class));
    }
    spec.insert("priority".into(), json!(priority));
    default(spec, "preemptionPolicy", policy);
    Ok(())
}

/// Every pod stays on a node that is in trouble for five minutes, unless it says something else.
fn tolerate(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let covers = |t: &Value| {
            let keys = text(t, &["key"]);
            let effects = text(t, &["effect"]);
            (keys == key || keys.is_empty()) && (effects == "NoExecute" || effects.is_empty())
        };
        if !tolerations.iter().any(covers) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// What is wrong with the specification of a pod.
pub fn check(path: &str, spec: &Map<String, Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let containers = spec
        .get("containers")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    for list in ["initContainers", "containers"] {
        let mut seen = Vec::new();
        for (n, container) in spec
            .get(list)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let name = text(container, &["name"]);
            let at = format!("{path}.{list}[{n}]");
            if name.is_empty() {
                causes.push(Cause::required(format!("{at}.name"), ""));
            } else if seen.contains(&name) {
                let message = format!("Duplicate value: {name:?}");
                causes.push(Cause {
                    field: format!("{at}.name"),
                    reason: "FieldValueDuplicate",
                    message,
                });
            }
            if text(container, &["image"]).is_empty() {
                causes.push(Cause::required(format!("{at}.image"), ""));
            }
            seen.push(name);
        }
    }
    if let Some(policy) = spec
        .get("restartPolicy")
        .filter(|p| !["Always", "OnFailure", "Never"].iter().any(|k| *p == k))
    {
        let message = format!(
            "Unsupported value: {policy}: supported values: \"Always\", \"OnFailure\", \"Never\""
        );
        causes.push(Cause {
            field: format!("{path}.restartPolicy"),
            reason: "FieldValueNotSupported",
            message,
        });
    }
    causes
}

/// How well a pod is served when its node runs short.
fn quality(spec: &Map<String, Value>) -> &'static str {
    let lists = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| spec.get(list)?.as_array());
    let all: Vec<&Value> = lists.flatten().collect();
    let amount = |container: &Value, what: &str, resource: &str| {
        at(container, &["resources", what, resource]).map(ToString::to_string)
    };
    let resources = ["cpu", "memory"];
    let any = |container: &&&Value| {
        resources.iter().any(|r| {
            amount(container, "requests", r)
                .or(amount(container, "limits", r))
                .is_some()
        })
    };
    let exact = |container: &&Value| {
        resources.iter().all(|r| {
            let limit = amount(container, "limits", r);
            limit.is_some() && amount(container, "requests", r) == limit
        })
    };
    if all.iter().all(exact) {
        "Guaranteed"
    } else if all.iter().find(any).is_some() {
        "Burstable"
    } else {
        "BestEffort"
    }
}

/// Of a pod's specification hardly anything can be changed.
pub fn change(pod: &mut Value, old: &Value) -> Result<(), ApiErrorWithDetails> {
    complete(part(pod, "spec"));
    let name = text(pod, &["metadata", "name"]).to_owned();
    let tolerations = |pod: &Value| {
        pod["spec"]["tolerations"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let (before, after) = (tolerations(old), tolerations(pod));
    let gates = |pod: &Value| {
        pod["spec"]["schedulingGates"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let (closed, left) = (gates(old), gates(pod));
    let mut causes = Vec::new();
    if !before.iter().all(|toleration| after.contains(toleration)) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", why));
    }
    if !left.iter().all(|gate| closed.contains(gate)) {
        let why = "only deletion is allowed, but found new scheduling gates";
        causes.push(Cause::forbidden("spec.schedulingGates", why));
    }
    let fixed = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        let fields = meta::fields(&mut spec);
        for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            fields.remove(name);
        }
        for container in meta::containers(fields) {
            meta::fields(container).remove("image");
            meta::fields(container).remove("imagePullPolicy");
        }
        spec
    };
    if fixed(pod) != fixed(old) {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,\
            `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
            tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiErrorWithDetails::invalid(POD, &name, &causes))
    }
}

/// The priority class of this name.
fn priority_class(state: &ServerState, name: &str) -> Option<(i64, Value)> {
    let class = state.store.get(PRIORITY_CLASS, name)?;
    Some((
        meta::number(&class.value, &["value"])?,
        class.value["preemptionPolicy"].clone(),
    ))
}

/// The priority class of pods that name none, if there is one.
fn default_priority_class(state: &ServerState) -> Option<String> {
    let classes = state
        .store
        .all(PRIORITY_CLASS)
        .filter(|class| class.value["globalDefault"] == json!(true));
    let lowest = classes.min_by_key(|class| meta::number(&class.value, &["value"]))?;
    Some(lowest.key.name.to_string())
}
