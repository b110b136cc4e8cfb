//! Tests of `deploy/`: permissions for what is watched and no more, and a hardened, highly
//! available Deployment.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::settings;
use longshore_api::kinds::ObjectKind;

/// The objects of a file in `deploy/`.
fn objects(file: &str) -> Vec<Value> {
    let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("../../deploy")
        .join(file);
    let text = std::fs::read_to_string(path).expect(file);
    serde_saphyr::from_multiple(&text).expect(file)
}

fn of_kind(file: &str, kind: &str) -> Value {
    objects(file)
        .into_iter()
        .find(|object| object["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind} in {file}"))
}

fn deployment() -> Value {
    of_kind("deployment.yaml", "Deployment")
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// What a role of `rbac.yaml` allows, as `verb resource.group`.
fn rights(kind: &str) -> BTreeSet<String> {
    rights_of("rbac.yaml", kind)
}

fn rights_of(file: &str, kind: &str) -> BTreeSet<String> {
    let role = of_kind(file, kind);
    let mut all = BTreeSet::new();
    for rule in role["rules"].as_array().expect("rules") {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    let named = if rule["resourceNames"].is_null() {
                        ""
                    } else {
                        " by name"
                    };
                    all.insert(format!("{verb} {resource}.{group}{named}"));
                }
            }
        }
    }
    all
}

#[test]
fn what_is_watched_may_be_watched_and_nothing_else() {
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for kind in ObjectKind::ALL {
        let at = kind.at();
        wanted.extend(["list", "watch"].map(|verb| format!("{verb} {}.{}", at.plural, at.group)));
    }
    let mut rights = rights("ClusterRole");
    rights.extend(rights_of("rbac-kwok.yaml", "ClusterRole"));
    let missing: Vec<_> = wanted.difference(&rights).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let watches = rights.iter().filter(|right| right.starts_with("watch "));
    // Read while a node is drained.
    let more: Vec<_> = watches
        .filter(|r| !wanted.contains(*r) && !r.contains("volumeattachments"))
        .collect();
    assert!(more.is_empty(), "nothing watches {more:?}");
}

#[test]
fn nodes_are_made_by_the_kwok_provider_alone() {
    let kwok = rights_of("rbac-kwok.yaml", "ClusterRole");
    let all = rights("ClusterRole");
    for right in ["create nodes.", "patch nodes/status."] {
        assert!(kwok.contains(right) && !all.contains(right), "{right}");
    }
    let same: Vec<_> = kwok.intersection(&all).collect();
    assert!(same.is_empty(), "said twice: {same:?}");
}

#[test]
fn no_right_reaches_further_than_it_has_to() {
    let all = rights("ClusterRole");
    for right in &all {
        assert!(
            !right.contains('*') && !right.contains("secrets") && !right.contains("rbac"),
            "{right}"
        );
    }
    // Pods are evicted or, when their time is up, deleted; they are never made or changed.
    let of_pods: Vec<_> = all
        .iter()
        .filter(|r| r.contains(" pods") && !r.contains("disruption"))
        .collect();
    let expected = [
        "create pods/eviction.",
        "delete pods.",
        "get pods.",
        "list pods.",
        "patch pods/status.",
        "watch pods.",
    ];
    assert_eq!(of_pods, expected);
    // The Lease, and the ConfigMap of canaries.
    let own = ["leases.coordination.k8s.io", "configmaps."].into_iter();
    let own = own.flat_map(|of| {
        [
            format!("create {of}"),
            format!("get {of} by name"),
            format!("update {of} by name"),
        ]
    });
    assert_eq!(rights("Role"), own.collect());
}

#[test]
fn the_daemon_is_confined() {
    let deployment = deployment();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["enableServiceLinks"], false);
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        assert!(pod[field].is_null(), "{field}");
    }
    // The one place to write: compiled policies.
    let volume = json!([{"name": "cache", "emptyDir": {"sizeLimit": "512Mi"}}]);
    assert_eq!(pod["volumes"], volume);
    for container in pod["containers"].as_array().expect("containers") {
        let context = &container["securityContext"];
        let expected = json!({
            "privileged": false, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        });
        assert_eq!(*context, expected);
        let mount = json!([{"name": "cache", "mountPath": "/var/lib/longshore/cache"}]);
        assert_eq!(container["volumeMounts"], mount);
        let resources = &container["resources"];
        for amount in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
            assert!(resources.pointer(amount).is_some(), "{amount}");
        }
    }
}

#[test]
fn one_replica_is_always_left() {
    let (deployment, budget) = (
        deployment(),
        of_kind("pod-disruption-budget.yaml", "PodDisruptionBudget"),
    );
    let spec = &deployment["spec"];
    assert!(spec["replicas"].as_i64() >= Some(2));
    assert_eq!(budget["spec"]["minAvailable"], 1);
    let labels = &spec["selector"]["matchLabels"];
    assert_eq!(budget["spec"]["selector"]["matchLabels"], *labels);
    assert_eq!(spec["template"]["metadata"]["labels"], *labels);
    let pod = &spec["template"]["spec"];
    let apart =
        &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(apart["labelSelector"]["matchLabels"], *labels);
    let spread = &pod["topologySpreadConstraints"][0];
    assert_eq!(
        (&spread["topologyKey"], &spread["maxSkew"]),
        (&json!("topology.kubernetes.io/zone"), &json!(1))
    );
    assert_eq!(spread["labelSelector"]["matchLabels"], *labels);
    // On a stop, writes in flight are awaited.
    assert!(pod["terminationGracePeriodSeconds"].as_i64() >= Some(30));
}

#[test]
fn ports_probes_and_policy_are_about_the_same_ports() {
    let (deployment, policy) = (
        deployment(),
        of_kind("network-policy.yaml", "NetworkPolicy"),
    );
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let environment = container["env"].as_array().expect("env");
    let set = |name: &str| {
        let variable = environment.iter().find(|variable| variable["name"] == name);
        variable?["value"].as_str().map(str::to_owned)
    };
    let settings = settings::read(set, false);
    let settings = settings.map_err(|failure| failure.report()).unwrap();
    assert!(
        settings.status.starts_with("127.0.0.1:"),
        "{}",
        settings.status
    );
    let ports = container["ports"].as_array().expect("ports");
    let named = |name: &str| {
        ports
            .iter()
            .find(|port| port["name"] == name)
            .map(|port| port["containerPort"].clone())
    };
    assert_eq!(named("http-metrics"), Some(json!(settings.metrics)));
    assert_eq!(named("http"), Some(json!(settings.probes)));
    assert_eq!(ports.len(), 2);
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(
            container[probe]["httpGet"],
            json!({"path": path, "port": "http"})
        );
    }
    let spec = &policy["spec"];
    assert_eq!(
        spec["podSelector"]["matchLabels"],
        deployment["spec"]["selector"]["matchLabels"]
    );
    assert_eq!(texts(&spec["policyTypes"]), ["Ingress", "Egress"]);
    let open = |direction: &str| -> Vec<Value> {
        let rules = spec[direction].as_array().expect(direction).iter();
        rules
            .flat_map(|rule| {
                rule["ports"]
                    .as_array()
                    .expect("every rule names its ports")
            })
            .map(|p| p["port"].clone())
            .collect()
    };
    assert_eq!(open("ingress"), [json!("http-metrics"), json!("http")]);
    assert_eq!(
        open("egress"),
        [json!(53), json!(53), json!(443), json!(6443)]
    );
    // Metrics name pods of all namespaces: not for everybody.
    assert!(
        spec["ingress"][0]["from"]
            .as_array()
            .is_some_and(|from| !from.is_empty())
    );
}
