//! One pod, one object never stops or ruins the others, on a real control plane: what cannot run
//! costs one node at most and says why, and an ordinary pod beside it has its node in ten seconds.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use longshore_xtask::control_plane::ControlPlane;

use crate::plane::{
    self, CLASS, Daemon, Suite, deployment, get, names, objects, running, stays, until, within,
};

pub fn suite() -> Suite {
    Suite::new(
        "one_pod_live",
        Some(1),
        &[
            (
                "a_pod_whose_own_kind_runs_where_the_domain_is_unknown_stops_nobody",
                affinity_to_its_own_kind,
            ),
            (
                "labels_that_are_required_without_a_value_are_given_one",
                labels_without_values,
            ),
            (
                "no_node_is_bought_for_two_affinity_terms_that_no_pod_matches_both_of",
                two_terms,
            ),
            (
                "a_node_that_kube_scheduler_refuses_is_bought_once_and_the_pod_says_why",
                refused_by_kube_scheduler,
            ),
            (
                "a_node_that_was_removed_by_force_while_nobody_looked_is_replaced",
                removed_by_force,
            ),
            (
                "a_running_pod_with_a_limit_beyond_counting_keeps_its_node",
                limit_beyond_counting,
            ),
            (
                "a_nodepool_that_cannot_be_used_says_so_and_buys_nothing",
                unusable_pool,
            ),
        ],
        &[],
    )
}

/// A NodePool with these requirements, as entries of a list in one line.
fn pool(name: &str, requirements: &str) -> String {
    format!(
        "{CLASS}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  disruption: {{consolidateAfter: 1h}}
  template:
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements: [{requirements}]
"
    )
}

const LINUX: &str = "{key: kubernetes.io/os, operator: In, values: [linux]}";

/// An ordinary pod comes, and runs within ten seconds.
fn ordinary(plane: &ControlPlane) -> Result<()> {
    let before = running(plane)?;
    let begun = Instant::now();
    // More than what is left of a node that was bought for something else.
    let pods = deployment("ordinary", 1, "").replace("700m", "3500m");
    plane.apply(&pods)?;
    let every = Duration::from_millis(200);
    within(30, every, "the ordinary pod runs", || {
        Ok(running(plane)? > before)
    })?;
    let took = begun.elapsed();
    ensure!(
        took <= Duration::from_secs(10),
        "the ordinary pod took {took:?}"
    );
    Ok(())
}

/// A pod with a line of its spec.
fn pod(name: &str, more: &str) -> String {
    format!(
        "
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  {more}
  containers: [{{name: c, image: pause, resources: {{requests: {{cpu: 500m, memory: 256Mi}}}}}}]
"
    )
}

fn affinity_to_its_own_kind() -> Result<()> {
    let plane = ControlPlane::start("one-pod-affinity")?;
    plane.apply(&pool("default", LINUX))?;
    // A node of nobody's, without a zone, with the only pod of the kind.
    plane.apply(
        "
apiVersion: v1
kind: Node
metadata: {name: bare, annotations: {kwok.x-k8s.io/node: fake}, labels: {kubernetes.io/hostname: bare}}
status:
  capacity: {cpu: '1', memory: 1Gi, pods: '10'}
  allocatable: {cpu: '1', memory: 1Gi, pods: '10'}
",
    )?;
    let own = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
               [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: kind}}}]}}";
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    plane.apply(&pod("first", "nodeName: bare").replace("app: first", "app: kind"))?;
    plane.apply(&pod("second", own).replace("app: second", "app: kind"))?;
    ordinary(&plane)?;
    // kube-scheduler decides whether the second is the first of its kind or never placed.
    stays(60, "no more than two nodes are bought", || {
        Ok(names(&plane, "nodeclaims")?.len() <= 2)
    })
}

fn labels_without_values() -> Result<()> {
    let plane = ControlPlane::start("one-pod-labels")?;
    let requirements = "{key: team, operator: Exists}, {key: gen, operator: Gt, values: ['5']}, \
                        {key: tier, operator: NotIn, values: [gold]}";
    plane.apply(&pool("default", requirements))?;
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    let wants = |expression: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
            {{nodeSelectorTerms: [{{matchExpressions: [{expression}]}}]}}}}}}"
        )
    };
    plane.apply(&pod("wants-team", &wants("{key: team, operator: Exists}")))?;
    plane.apply(&pod(
        "wants-gen",
        &wants("{key: gen, operator: Gt, values: ['7']}"),
    ))?;
    within(30, Duration::from_millis(300), "both pods run", || {
        Ok(running(&plane)? == 2)
    })?;
    ordinary(&plane)?;
    for node in objects(&plane, "nodes", &[])? {
        for label in ["team", "gen", "tier"] {
            let value = &node["metadata"]["labels"][label];
            ensure!(value.is_string(), "a node has no label {label}: {node}");
        }
    }
    let before = names(&plane, "nodeclaims")?;
    plane.apply(&pod(
        "wants-red",
        &wants("{key: team, operator: In, values: [red]}"),
    ))?;
    until("the pod that names a value runs", || {
        Ok(running(&plane)? == 4)
    })?;
    let path = "{.items[*].metadata.labels.team}";
    ensure!(get(&plane, "nodes", path)?.contains("red"));
    ensure!(names(&plane, "nodeclaims")?.len() == before.len() + 1);
    Ok(())
}

fn two_terms() -> Result<()> {
    let plane = ControlPlane::start("one-pod-terms")?;
    plane.apply(&pool("default", LINUX))?;
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    let term = |app: &str| {
        format!(
            "{{topologyKey: topology.kubernetes.io/zone, labelSelector: {{matchLabels: {{app: {app}}}}}}}"
        )
    };
    let both = format!(
        "affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{}, {}]}}}}",
        term("left"),
        term("right")
    );
    plane.apply(&pod("left", ""))?;
    plane.apply(&pod("right", ""))?;
    until("two pods run", || Ok(running(&plane)? == 2))?;
    let before = names(&plane, "nodeclaims")?;
    plane.apply(&pod("both", &both))?;
    ordinary(&plane)?;
    stays(90, "no more than two further nodes are bought", || {
        Ok(names(&plane, "nodeclaims")?.len() <= before.len() + 2)
    })?;
    let described = plane.run(&["describe", "pod", "both"])?;
    ensure!(
        described.contains("karpenter"),
        "nothing is said of the pod:\n{described}"
    );
    Ok(())
}

/// Takes the label `team` from every Node, whoever writes it.
const STRIPS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: strips}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [nodes]}]
  matchConditions:
  - {name: has, expression: "has(object.metadata.labels) && 'team' in object.metadata.labels"}
  reinvocationPolicy: Never
  failurePolicy: Fail
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/metadata/labels/team'}]"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: strips}
spec: {policyName: strips}
"#;

fn refused_by_kube_scheduler() -> Result<()> {
    let plane = ControlPlane::start("one-pod-refused")?;
    plane.apply(STRIPS)?;
    // The edit of the NodePool at the end makes its nodes drift. Nothing is moved for that: a pod without
    // a controller would not come back.
    let pool = pool("default", "{key: team, operator: In, values: [a]}");
    let undisturbed = "disruption: {consolidateAfter: 1h, budgets: [{nodes: '0'}]}";
    plane.apply(&pool.replace("disruption: {consolidateAfter: 1h}", undisturbed))?;
    let mut daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    plane.apply(&pod("picky", "nodeSelector: {team: a}"))?;
    until("a node was bought for the pod", || {
        Ok(names(&plane, "nodeclaims")?.len() == 1)
    })?;
    let bought = names(&plane, "nodeclaims")?;
    let pod_says = |what: &str| -> Result<bool> {
        Ok(plane.run(&["describe", "pod", "picky"])?.contains(what))
    };
    until("the pod says that it did not help", || {
        pod_says("PurchaseDidNotHelp")
    })?;
    ensure!(
        pod_says("didn't match Pod's node affinity/selector")?,
        "kube-scheduler's own words"
    );
    ordinary(&plane)?;
    let remembers = |plane: &ControlPlane| {
        let path = "{.metadata.annotations.longshore\\.dev/useless-purchases}";
        get(plane, "nodepool/default", path)
    };
    until("the NodePool remembers it", || {
        Ok(!remembers(&plane)?.is_empty())
    })?;
    let url = format!("http://127.0.0.1:{}/metrics", daemon.port);
    let metrics = ureq::get(&url).call()?.body_mut().read_to_string()?;
    let counted = "longshore_useless_purchases_total{nodepool=\"default\"} 1";
    ensure!(metrics.contains(counted), "{counted} is not in the metrics");
    // The node that reminds of it goes, and so does the process.
    drop(daemon);
    plane::delete_claims(&plane, &bought)?;
    daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    until("its node is gone", || {
        Ok(!names(&plane, "nodeclaims")?.contains(&bought[0]))
    })?;
    // One, that of the ordinary pod.
    let few = stays(45, "nothing is bought again after a restart", || {
        Ok(names(&plane, "nodeclaims")?.len() <= 1)
    });
    let claims = names(&plane, "nodeclaims")?;
    let planned = |claim: &String| {
        let path = "{.metadata.annotations.longshore\\.dev/planned-pods}";
        get(&plane, &format!("nodeclaim/{claim}"), path)
    };
    let planned = claims.iter().map(planned).collect::<Result<Vec<_>>>()?;
    ensure!(
        few.is_ok(),
        "bought again after a restart: {claims:?} for {planned:?}, {:?} is remembered",
        remembers(&plane)?
    );
    ensure!(!daemon.log()?.contains("panicked"), "{}", daemon.log()?);
    // Once something has changed it is tried again.
    plane.run(&["delete", "mutatingadmissionpolicybinding", "strips"])?;
    until("the API server leaves labels alone", || {
        let nodes = names(&plane, "nodes")?;
        let Some(node) = nodes.first() else {
            return Ok(false);
        };
        plane.run(&["label", "--overwrite", "node", node, "team=b"])?;
        Ok(get(&plane, &format!("node/{node}"), "{.metadata.labels.team}")? == "b")
    })?;
    let label = r#"{"spec": {"template": {"metadata": {"labels": {"edited": "yes"}}}}}"#;
    plane.run(&[
        "patch",
        "nodepool",
        "default",
        "--type=merge",
        "--patch",
        label,
    ])?;
    let both = until("both pods run", || Ok(running(&plane)? == 2));
    plane::with_cluster(&plane, both)
}

fn removed_by_force() -> Result<()> {
    let plane = ControlPlane::start("one-pod-force")?;
    plane.apply(&pool("default", LINUX))?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    plane.apply(&deployment("web", 1, ""))?;
    until("a pod runs", || Ok(running(&plane)? == 1))?;
    let node = names(&plane, "nodes")?.join("");
    drop(daemon);
    let no_finalizers = r#"{"metadata": {"finalizers": null}}"#;
    plane.run(&[
        "patch",
        "node",
        &node,
        "--type=merge",
        "--patch",
        no_finalizers,
    ])?;
    plane.run(&["delete", "node", &node])?;
    plane.run(&["delete", "pod", "--all", "--force", "--grace-period=0"])?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    let every = Duration::from_millis(300);
    within(
        30,
        every,
        "the pod runs again",
        || Ok(running(&plane)? == 1),
    )?;
    let path = "{.items[*].spec.taints[*].key}";
    let taints = get(&plane, "nodes", path)?;
    ensure!(!taints.contains("unregistered"), "{taints}");
    drop(daemon);
    // The kubelet of a node that lives registers it again, with the taint of a new one.
    let path = "{.items[0].metadata.name}";
    let node = get(&plane, "nodes", path)?;
    let taint =
        r#"{"spec": {"taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}}"#;
    std::thread::sleep(Duration::from_secs(31));
    plane.run(&["patch", "node", &node, "--type=merge", "--patch", taint])?;
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    within(30, every, "the node is open again", || {
        Ok(!get(&plane, "nodes", "{.items[*].spec.taints[*].key}")?.contains("unregistered"))
    })
}

fn limit_beyond_counting() -> Result<()> {
    let plane = ControlPlane::start("one-pod-limit")?;
    let quick = pool("default", LINUX).replace("consolidateAfter: 1h", "consolidateAfter: 0s");
    plane.apply(&quick)?;
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    let huge = pod("huge", "").replace("requests:", "limits: {cpu: 1E}, requests:");
    plane.apply(&huge)?;
    until("it runs", || Ok(running(&plane)? == 1))?;
    let claims = names(&plane, "nodeclaims")?;
    ordinary(&plane)?;
    stays(40, "no node of a running pod goes as empty", || {
        let now = names(&plane, "nodeclaims")?;
        let disrupted = |claim: &String| !now.contains(claim);
        Ok(!claims.iter().any(disrupted) || running(&plane)? >= 2)
    })
}

fn unusable_pool() -> Result<()> {
    let plane = ControlPlane::start("one-pod-pool")?;
    let bad = |name: &str| {
        pool(
            name,
            "{key: karpenter.sh/capacity-type, operator: In, values: [ondemand]}",
        )
        .replace(
            "    spec:\n",
            "    spec:\n      taints: [{key: only, effect: NoSchedule}]\n",
        )
    };
    plane.apply(&pool("default", LINUX))?;
    plane.apply(&bad("bad"))?;
    let daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    let condition = |pool: &str, kind: &str| {
        let path = format!(
            "{{range .status.conditions[?(@.type=='{kind}')]}}{{.status}} {{.reason}} {{.observedGeneration}}{{end}}"
        );
        get(&plane, &format!("nodepool/{pool}"), &path)
    };
    until("the new one says so", || {
        Ok(
            condition("bad", "ValidationSucceeded")? == "False NodePoolValidationFailed 1"
                && condition("bad", "Ready")? == "False UnhealthyDependents 1",
        )
    })?;
    until("an Event says so", || {
        let all = objects(&plane, "events", &["--all-namespaces"])?;
        Ok(all.iter().any(|event| {
            event["involvedObject"]["name"] == "bad"
                && event["reason"] == "ValidationSucceeded"
                && event["type"] == "Warning"
        }))
    })?;
    ordinary(&plane)?;
    // An edit of one that was good.
    let edit = r#"[{"op": "replace", "path": "/spec/template/spec/requirements",
        "value": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["ondemand"]}]}]"#;
    plane.run(&[
        "patch",
        "nodepool",
        "default",
        "--type=json",
        "--patch",
        edit,
    ])?;
    until("the edited one says so", || {
        Ok(condition("default", "Ready")? == "False UnhealthyDependents 2")
    })?;
    let before = names(&plane, "nodeclaims")?;
    plane.apply(&deployment("more", 3, "").replace("700m", "3500m"))?;
    let unbought = || Ok(names(&plane, "nodeclaims")? == before);
    stays(15, "nothing is bought from the old spec", unbought)?;
    drop(daemon);
    let _daemon = Daemon::start(&plane.longshore_kubeconfig(), &[])?;
    stays(15, "nothing is bought after a restart", unbought)?;
    ensure!(condition("default", "Ready")?.starts_with("False"));
    // By the same manager: server-side apply would meet a conflict.
    let mended = edit.replace("ondemand", "on-demand");
    plane.run(&[
        "patch",
        "nodepool",
        "default",
        "--type=json",
        "--patch",
        &mended,
    ])?;
    until("it is good again, and everybody runs", || {
        Ok(running(&plane)? == 4)
    })
}
