//! Charts of the shape that Karpenter's have: names, labels, definitions in a folder `crds` without
//! any annotation and in a chart of their own, a ServiceAccount whose token is not mounted by itself.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use longshore_xtask::guests::root;
use serde_json::{Value, json};

pub const IMAGE: &str = "public.ecr.aws/karpenter/controller:1.15.1";

/// Values of a user.
pub const VALUES: &str = "settings: {clusterName: demo, interruptionQueue: demo}\nreplicas: 2\n";

/// Writes the charts `karpenter` and `karpenter-crd` into a folder.
pub fn write(folder: &Path) -> Result<()> {
    for name in ["karpenter", "karpenter-crd"] {
        let chart = json!({
            "apiVersion": "v2", "name": name, "type": "application",
            "version": "1.15.1", "appVersion": "1.15.1",
        });
        for part in ["templates", "crds"] {
            fs::create_dir_all(folder.join(name).join(part))?;
        }
        fs::write(folder.join(name).join("Chart.yaml"), chart.to_string())?;
        fs::write(
            folder.join(name).join("values.yaml"),
            "additionalAnnotations: {}\n",
        )?;
    }
    for (file, definition) in definitions()? {
        let text = definition.to_string();
        fs::write(folder.join("karpenter/crds").join(&file), &text)?;
        fs::write(folder.join("karpenter-crd/templates").join(&file), &text)?;
    }
    fs::remove_dir(folder.join("karpenter-crd/crds"))?;
    let main = folder.join("karpenter");
    fs::write(
        main.join("values.yaml"),
        "replicas: 2\nsettings: {clusterName: ''}\n",
    )?;
    for (at, object) in objects().iter().enumerate() {
        fs::write(
            main.join(format!("templates/{at}.yaml")),
            object.to_string(),
        )?;
    }
    Ok(())
}

/// Definitions of the AWS provider as Karpenter has them: without annotations of ours.
fn definitions() -> Result<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join("deploy/charts/longshore/crds"))? {
        let path = entry?.path();
        let mut definition: Value = serde_saphyr::from_str(&fs::read_to_string(&path)?)?;
        let metadata = definition["metadata"].as_object_mut().context("metadata")?;
        metadata.insert("annotations".to_owned(), json!({}));
        // Other words than ours, as of another version: two managers of fields may differ over them.
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["description"] = json!("As of Karpenter.");
        schema["properties"]["spec"]["description"] = json!("As of Karpenter.");
        let name = path
            .file_name()
            .context("a name")?
            .to_string_lossy()
            .into_owned();
        all.push((name, definition));
    }
    Ok(all)
}

fn objects() -> Vec<Value> {
    let selector = json!({
        "app.kubernetes.io/name": "karpenter",
        "app.kubernetes.io/instance": "{{ .Release.Name }}",
    });
    let labels = json!({
        "helm.sh/chart": "karpenter-1.15.1",
        "app.kubernetes.io/name": "karpenter",
        "app.kubernetes.io/instance": "{{ .Release.Name }}",
        "app.kubernetes.io/version": "1.15.1",
        "app.kubernetes.io/managed-by": "{{ .Release.Service }}",
    });
    let object = |api: &str, kind: &str, name: &str, spaced: bool, more: Value| {
        let mut metadata = json!({"name": name, "labels": labels});
        if spaced {
            metadata["namespace"] = json!("{{ .Release.Namespace }}");
        }
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": metadata});
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        object
    };
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch", "update", "patch"]});
    let bound = |kind: &str, name: &str| {
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "karpenter", "namespace": "{{ .Release.Namespace }}"}],
        })
    };
    let lease = json!({"rules": [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "watch", "create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["patch", "update"],
         "resourceNames": ["karpenter-leader-election"]},
    ]});
    let env = |name: &str, value: &str| json!({"name": name, "value": value});
    let container = json!({
        "name": "controller",
        "image": IMAGE,
        "env": [
            env("CLUSTER_NAME", "{{ .Values.settings.clusterName }}"),
            env("FEATURE_GATES", "ReservedCapacity=true,NodeRepair=false"),
            env("KARPENTER_SERVICE", "karpenter"),
            env("METRICS_PORT", "8080"),
            env("HEALTH_PROBE_PORT", "8081"),
        ],
        "ports": [
            {"name": "http-metrics", "containerPort": 8080, "protocol": "TCP"},
            {"name": "http", "containerPort": 8081, "protocol": "TCP"},
        ],
        "securityContext": {
            "runAsUser": 65532, "runAsGroup": 65532, "runAsNonRoot": true,
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    let deployment = json!({"spec": {
        "replicas": 2,
        "revisionHistoryLimit": 10,
        "selector": {"matchLabels": selector},
        "template": {
            "metadata": {"labels": selector},
            "spec": {
                "serviceAccountName": "karpenter",
                "automountServiceAccountToken": true,
                "priorityClassName": "system-cluster-critical",
                "containers": [container],
            },
        },
    }});
    let service = json!({"spec": {
        "type": "ClusterIP",
        "ports": [{"name": "http-metrics", "port": 8080, "targetPort": "http-metrics", "protocol": "TCP"}],
        "selector": selector,
    }});
    let budget = json!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector}}});
    let account = json!({"automountServiceAccountToken": false});
    let core = json!({"rules": [rule("karpenter.sh", "nodepools"), rule("", "pods")]});
    let aws = json!({"rules": [rule("karpenter.k8s.aws", "ec2nodeclasses")]});
    vec![
        object("v1", "ServiceAccount", "karpenter", true, account),
        object(RBAC, "ClusterRole", "karpenter", false, aws.clone()),
        object(RBAC, "ClusterRole", "karpenter-core", false, core),
        object(RBAC, "ClusterRole", "karpenter-admin", false, aws),
        object(
            RBAC,
            "ClusterRoleBinding",
            "karpenter",
            false,
            bound("ClusterRole", "karpenter"),
        ),
        object(
            RBAC,
            "ClusterRoleBinding",
            "karpenter-core",
            false,
            bound("ClusterRole", "karpenter-core"),
        ),
        object(RBAC, "Role", "karpenter", true, lease),
        object(
            RBAC,
            "RoleBinding",
            "karpenter",
            true,
            bound("Role", "karpenter"),
        ),
        object("v1", "Service", "karpenter", true, service),
        object(
            "policy/v1",
            "PodDisruptionBudget",
            "karpenter",
            true,
            budget,
        ),
        object("apps/v1", "Deployment", "karpenter", true, deployment),
    ]
}
