use std::sync::Arc;

use longshore_api::crd::Time;
use longshore_core::model::Symbols;

use super::*;
use crate::observe::pod_latency::PodLatency;
use crate::observe::state::{ClassView, ClusterState, TypeTable};
use crate::observe::watch::Change;
use longshore_api::kinds::ObjectKind;

/// A node with a NodeClaim and two pods, one of a DaemonSet; a foreign node; a pending pod.
fn state(names: Symbols) -> ClusterState {
    let mut state = ClusterState::new(names);
    let labels = r#"{"karpenter.sh/nodepool":"web","karpenter.sh/capacity-type":"spot",
        "node.kubernetes.io/instance-type":"m7g.large","topology.kubernetes.io/zone":"us-east-1b","kubernetes.io/arch":"arm64"}"#;
    let pod = |name: &str, owner: &str, node: &str, phase: &str, resources: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"shop","creationTimestamp":"2026-11-01T11:59:00Z","ownerReferences":
            [{{"controller":true,"kind":"{owner}","name":"{name}-set"}}]}},"spec":{{"nodeName":"{node}","containers":
            [{{"name":"c","resources":{{{resources}}}}}]}},"status":{{"phase":"{phase}","conditions":
            [{{"type":"Ready","status":"True"}}]}}}}"#
        )
    };
    let objects = [
        (
            ObjectKind::NodePool,
            r#"{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"web"},"spec":{"template":{"spec":{
            "requirements":[],"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}}}}}"#
                .to_owned(),
        ),
        (
            ObjectKind::NodeClaim,
            format!(
                r#"{{"metadata":{{"name":"web-1","labels":{labels},"deletionTimestamp":"2026-11-01T11:59:50Z"}},"spec":
                {{"requirements":[],"nodeClassRef":{{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}}}},
                "status":{{"providerID":"kwok://n1","conditions":[{{"type":"Launched","status":"True","reason":"Launched",
                "lastTransitionTime":"2026-11-01T11:58:00Z"}}]}}}}"#
            ),
        ),
        (
            ObjectKind::Node,
            format!(
                r#"{{"metadata":{{"name":"n1","labels":{labels},"creationTimestamp":"2026-11-01T11:00:00Z"}},
                "spec":{{"providerID":"kwok://n1"}},"status":{{"capacity":{{"cpu":"2","ephemeral-storage":"20Gi"}},
                "allocatable":{{"cpu":"1900m","ephemeral-storage":"18Gi"}},"conditions":[{{"type":"Ready","status":"True",
                "reason":"KubeletReady","message":"fine","lastTransitionTime":"2026-11-01T11:59:00Z"}},
                {{"type":"Odd","status":"Perhaps"}}]}}}}"#
            ),
        ),
        (ObjectKind::Node, r#"{"metadata":{"name":"old"},"status":{"allocatable":{"cpu":"2100m"}}}"#.to_owned()),
        (ObjectKind::Pod, pod("a\\\"b", "ReplicaSet", "n1", "Running", r#""requests":{"cpu":"500m"},"limits":{"cpu":"1"}"#)),
        (ObjectKind::Pod, pod("log", "DaemonSet", "n1", "Running", r#""requests":{"cpu":"100m","example.com/fan":"1"}"#)),
        (ObjectKind::Pod, pod("job", "Job", "old", "Succeeded", r#""requests":{"cpu":"1"}"#)),
        (ObjectKind::Pod, pod("late", "ReplicaSet", "", "Pending", r#""requests":{"cpu":"1"}"#)),
    ];
    for (kind, json) in objects {
        let (_, refused) = state.fold(kind, &Change::Upsert(json.into()));
        assert_eq!(refused, None);
    }
    state
}

/// An EC2NodeClass that is being deleted.
pub fn class() -> ClassView {
    let condition = serde_json::json!({
        "type": "SubnetsReady", "status": "False", "reason": "SubnetsNotFound", "message": "none",
        "lastTransitionTime": "2026-11-01T11:58:00Z",
    });
    ClassView {
        name: "default".to_owned(),
        conditions: vec![serde_json::from_value(condition).unwrap()],
        deletion: Some(Time("2026-11-01T11:59:00Z".parse().unwrap())),
    }
}

/// The same where node and NodePool are being deleted, and the NodePool has a condition: every
/// family has a line.
pub fn ending(names: Symbols) -> ClusterState {
    let mut state = state(names);
    let objects = [
        (
            ObjectKind::NodePool,
            r#"{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"web","deletionTimestamp":"2026-11-01T11:59:50Z"},
            "spec":{"template":{"spec":{"requirements":[],"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass",
            "name":"default"}}}},"status":{"conditions":[{"type":"Ready","status":"True","reason":"Ready",
            "lastTransitionTime":"2026-11-01T11:59:00Z"}]}}"#,
        ),
        (
            ObjectKind::Node,
            r#"{"metadata":{"name":"old","creationTimestamp":"2026-11-01T11:00:00Z","deletionTimestamp":"2026-11-01T11:59:50Z"},
            "status":{"allocatable":{"cpu":"2100m"}}}"#,
        ),
        (
            ObjectKind::Pod,
            r#"{"metadata":{"name":"log","namespace":"shop","ownerReferences":[{"controller":true,"kind":"DaemonSet",
            "name":"log-set"}]},"spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"requests":{"cpu":"100m"},
            "limits":{"cpu":"1"}}}]},"status":{"phase":"Running"}}"#,
        ),
    ];
    for (kind, json) in objects {
        let (_, refused) = state.fold(kind, &Change::Upsert(json.into()));
        assert_eq!(refused, None);
    }
    state
}

#[test]
fn a_cluster_is_told_as_gauges() {
    let mut names = Symbols::default();
    let types = include_bytes!("../../../../daemon/tests/data/types.json");
    let (catalogue, problems) = longshore_kwok::catalogue::parse("types.json", types, &mut names);
    assert!(problems.list.is_empty());
    let mut decisions = PodLatency::default();
    decisions.waits("shop/late", "2026-11-01T11:59:10Z".parse().unwrap());
    let now = "2026-11-01T12:00:00Z".parse().unwrap();
    let undecided = MetricsSnapshot {
        now,
        pod_latency: decisions.clone(),
        ..state(names.clone()).metrics_snapshot(&catalogue)
    };
    let text: String = Pages::new(undecided).collect();
    let line = r#"karpenter_pods_provisioning_scheduling_undecided_time_seconds{namespace="shop",name="late"} 50"#;
    assert!(
        text.contains(line) && !text.contains("provisioning_unbound_time_seconds{"),
        "{text}"
    );
    decisions.decided("shop/late", true, "2026-11-01T11:59:30Z".parse().unwrap());
    let picture = MetricsSnapshot {
        now,
        queue: 1,
        pod_latency: decisions,
        classes: vec![class()],
        types: Arc::new(TypeTable::of(&catalogue, &names)),
        ..state(names).metrics_snapshot(&catalogue)
    };
    let text: String = Pages::new(picture).collect();
    let is_shown = |line: &&str| {
        let of_type = line.starts_with("karpenter_cloudprovider_");
        !line.starts_with('#') && (!of_type || line.contains("\"m7g.large\""))
    };
    let lines: Vec<&str> = text.lines().filter(is_shown).collect();
    expect_test::expect![[r#"
        karpenter_nodes_allocatable{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="cpu"} 1.9
        karpenter_nodes_allocatable{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="ephemeral_storage"} 19327352832
        karpenter_nodes_allocatable{node_name="old",managed="false",resource_type="cpu"} 2.1
        karpenter_nodes_system_overhead{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="cpu"} 0.10000000000000009
        karpenter_nodes_system_overhead{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="ephemeral_storage"} 2147483648
        karpenter_nodes_total_pod_requests{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="cpu"} 0.6
        karpenter_nodes_total_pod_requests{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="pods"} 2
        karpenter_nodes_total_pod_requests{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="example.com/fan"} 1
        karpenter_nodes_total_pod_limits{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="cpu"} 1
        karpenter_nodes_total_daemon_requests{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="cpu"} 0.1
        karpenter_nodes_total_daemon_requests{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="pods"} 1
        karpenter_nodes_total_daemon_requests{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b",resource_type="example.com/fan"} 1
        karpenter_nodes_current_lifetime_seconds{node_name="n1",nodepool="web",managed="true",arch="arm64",capacity_type="spot",instance_type="m7g.large",zone="us-east-1b"} 3600
        karpenter_cluster_utilization_percent{resource_type="cpu"} 15
        karpenter_cluster_utilization_percent{resource_type="ephemeral_storage"} 0
        karpenter_nodepools_cost_total{nodepool="web"} 0.02901
        karpenter_pods_state{name="a\"b",namespace="shop",owner="/apis/apps/v1/namespaces/shop/replicasets/a\"b-set",node="n1",scheduled="true",nodepool="web",zone="us-east-1b",arch="arm64",capacity_type="spot",instance_type="m7g.large",phase="Running",ready="true",managed="true"} 1
        karpenter_pods_state{name="log",namespace="shop",owner="/apis/apps/v1/namespaces/shop/daemonsets/log-set",node="n1",scheduled="true",nodepool="web",zone="us-east-1b",arch="arm64",capacity_type="spot",instance_type="m7g.large",phase="Running",ready="true",managed="true"} 1
        karpenter_pods_state{name="job",namespace="shop",owner="/apis/batch/v1/namespaces/shop/jobs/job-set",node="old",scheduled="true",phase="Succeeded",ready="true",managed="false"} 1
        karpenter_pods_state{name="late",namespace="shop",owner="/apis/apps/v1/namespaces/shop/replicasets/late-set",scheduled="false",phase="Pending",ready="true",managed="false"} 1
        karpenter_pods_unbound_time_seconds{namespace="shop",name="late",dynamic_resources="false"} 60
        karpenter_pods_unstarted_time_seconds{namespace="shop",name="late"} 60
        karpenter_pods_provisioning_unbound_time_seconds{namespace="shop",name="late",dynamic_resources="false"} 30
        karpenter_pods_provisioning_unstarted_time_seconds{namespace="shop",name="late"} 30
        karpenter_scheduler_queue_depth{controller="provisioner"} 1
        karpenter_scheduler_unfinished_work_seconds{controller="provisioner"} 0
        operator_nodeclaim_status_condition_count{name="web-1",type="Launched",status="True",reason="Launched"} 1
        operator_nodeclaim_status_condition_current_status_seconds{name="web-1",type="Launched",status="True",reason="Launched"} 120
        operator_node_status_condition_count{name="n1",type="Ready",status="True",reason="KubeletReady"} 1
        operator_node_status_condition_count{name="n1",type="Odd",status="Unknown"} 1
        operator_node_status_condition_current_status_seconds{name="n1",type="Ready",status="True",reason="KubeletReady"} 60
        operator_node_status_condition_current_status_seconds{name="n1",type="Odd",status="Unknown"} 3600
        operator_nodeclaim_termination_current_time_seconds{name="web-1"} 10
        operator_ec2nodeclass_status_condition_count{name="default",type="SubnetsReady",status="False",reason="SubnetsNotFound"} 1
        operator_ec2nodeclass_status_condition_current_status_seconds{name="default",type="SubnetsReady",status="False",reason="SubnetsNotFound"} 120
        operator_ec2nodeclass_termination_current_time_seconds{name="default"} 60
        karpenter_cloudprovider_instance_type_cpu_cores{instance_type="m7g.large"} 2
        karpenter_cloudprovider_instance_type_memory_bytes{instance_type="m7g.large"} 8589934592
        karpenter_cloudprovider_instance_type_offering_available{instance_type="m7g.large",capacity_type="on-demand",zone="us-east-1a"} 1
        karpenter_cloudprovider_instance_type_offering_available{instance_type="m7g.large",capacity_type="on-demand",zone="us-east-1b"} 1
        karpenter_cloudprovider_instance_type_offering_available{instance_type="m7g.large",capacity_type="spot",zone="us-east-1a"} 1
        karpenter_cloudprovider_instance_type_offering_available{instance_type="m7g.large",capacity_type="spot",zone="us-east-1b"} 1
        karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="m7g.large",capacity_type="on-demand",zone="us-east-1a"} 0.0816
        karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="m7g.large",capacity_type="on-demand",zone="us-east-1b"} 0.0816
        karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="m7g.large",capacity_type="spot",zone="us-east-1a"} 0.04894
        karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="m7g.large",capacity_type="spot",zone="us-east-1b"} 0.02901"#]].assert_eq(&lines.join("\n"));
    let heads = text
        .lines()
        .filter(|line| line.starts_with("# TYPE"))
        .count();
    assert_eq!(heads, FAMILIES.len());
}

#[test]
fn pages_end_between_lines_and_leave_nothing_out() {
    let mut state = ClusterState::default();
    for number in 0..2000 {
        let pod = format!(
            r#"{{"metadata":{{"name":"pod-{number}","namespace":"shop"}},"spec":{{"containers":[]}},"status":{{}}}}"#
        );
        state.fold(ObjectKind::Pod, &Change::Upsert(pod.into()));
    }
    let pages: Vec<String> = Pages::new(state.metrics_snapshot(&Default::default())).collect();
    assert!(
        pages.len() > 5
            && pages
                .iter()
                .all(|page| page.ends_with('\n') && page.len() < 2 * PAGE_BYTES)
    );
    let text = pages.concat();
    assert_eq!(text.matches("karpenter_pods_state{").count(), 2000);
    assert_eq!(text.matches("# TYPE karpenter_pods_state ").count(), 1);
}
