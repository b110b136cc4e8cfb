//! Clusters as text, findings as text.

use expect_test::{Expect, expect};

use super::cluster::Cluster;
use super::{examine, report::Level};

/// A class, a NodePool and their NodeClaims, as Karpenter leaves them: with `hash` and `version` of
/// the class, `pool` of the NodePool.
fn cluster(class: (&str, &str), pool: &str, claims: &[(&str, &str, &str)]) -> String {
    let (hash, version) = class;
    let mut text = format!(
        "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: default
  finalizers: [karpenter.k8s.aws/termination]
  annotations:
    karpenter.k8s.aws/ec2nodeclass-hash: '{hash}'
    karpenter.k8s.aws/ec2nodeclass-hash-version: {version}
spec:
  role: node
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
status:
  amis:
  - {{id: ami-1, name: one, requirements: [{{key: kubernetes.io/arch, operator: In, values: [amd64]}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: kube-root-ca.crt, namespace: kube-system}}
data: {{ca.crt: certificate}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
  annotations: {{karpenter.sh/nodepool-hash: '{pool}', karpenter.sh/nodepool-hash-version: v3}}
spec:
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
"
    );
    for (name, hash, version) in claims {
        text += &format!(
            "
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: {name}
  creationTimestamp: '2026-11-01T00:00:00Z'
  finalizers: [karpenter.sh/termination]
  labels: {{karpenter.sh/nodepool: default, karpenter.sh/capacity-type: on-demand}}
  annotations:
    karpenter.sh/nodepool-hash: '{pool}'
    karpenter.sh/nodepool-hash-version: v3
    karpenter.k8s.aws/ec2nodeclass-hash: '{hash}'
    karpenter.k8s.aws/ec2nodeclass-hash-version: {version}
    karpenter.k8s.aws/tagged: 'true'
    compatibility.karpenter.k8s.aws/cluster-name-tagged: 'true'
spec:
  nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
  requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}]
status:
  nodeName: {name}
  providerID: aws:///us-east-1a/i-0{name}
  imageID: ami-1
  conditions:
  - {{type: Launched, status: 'True', reason: Launched, message: '', lastTransitionTime: '2026-11-01T00:00:01Z'}}
  - {{type: Registered, status: 'True', reason: Registered, message: '', lastTransitionTime: '2026-11-01T00:01:00Z'}}
  - {{type: Initialized, status: 'True', reason: Initialized, message: '', lastTransitionTime: '2026-11-01T00:01:00Z'}}
"
        );
    }
    text
}

/// The hash of the class above with that certificate, and that of the NodePool.
const NOW: &str = "1";
const POOL: &str = "2";

fn found(text: &str) -> (u8, String) {
    let cluster = Cluster::of_text(text);
    let mut report = examine(&cluster);
    report.sort();
    (report.code(), report.text())
}

fn check(text: &str, code: u8, expected: Expect) {
    let (got, said) = found(text);
    expected.assert_eq(&said);
    assert_eq!(got, code);
}

#[test]
fn nothing_changes_in_a_cluster_of_karpenter_1_15() {
    let text = cluster((NOW, "v6"), POOL, &[("a", NOW, "v6"), ("b", NOW, "v6")]);
    check(&text, 0, expect![[""]]);
}

#[test]
fn hashes_of_karpenter_1_14_are_migrated_and_no_node_drifts() {
    let drifted = cluster(("500", "v5"), POOL, &[("c", "500", "v5")]).replace(
        "  - {type: Launched",
        "  - {type: Drifted, status: 'True', reason: AMIDrift, message: '', \
         lastTransitionTime: '2026-11-01T00:02:00Z'}\n  - {type: Launched",
    );
    let (_, claim) = drifted.rsplit_once("\n---").unwrap();
    let claims = [
        ("a", "500", "v5"),
        ("b", "500", "v5"),
        ("d", "499", "v5"),
        ("e", NOW, "v6"),
    ];
    let text = cluster(("500", "v5"), POOL, &claims) + "\n---" + claim;
    check(&text, 1, expect![[""]]);
}

#[test]
fn a_class_whose_hash_differs_is_looked_at_before_its_nodes_go() {
    let text = cluster(
        ("600", "v6"),
        POOL,
        &[("a", "600", "v6"), ("b", "599", "v6")],
    );
    check(&text, 3, expect![[""]]);
    let unknown = text.replace("kube-root-ca.crt", "other");
    let (code, said) = found(&unknown);
    assert!(
        code == 3 && said.contains("cannot be said without the cluster's CA"),
        "{said}"
    );
}

#[test]
fn what_longshore_refuses_or_does_otherwise_is_said_with_place_reason_and_hint() {
    let text = cluster((NOW, "v6"), POOL, &[("a", NOW, "v6"), ("b", NOW, "v6")])
        .replace(
            "  role: node",
            "  role: node\n  kubelet: {podsPerCore: 3, maxPod: 3}",
        )
        .replace("providerID: aws:///us-east-1a/i-0b", "providerID: ''")
        .replace(
            "  name: a\n  creation",
            "  name: a\n  labels2: {}\n  creation",
        )
        + "
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: azure}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
      requirements: []
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: broken}
spec:
  weight: heavy
---
apiVersion: v1
kind: Node
metadata: {name: stray, labels: {karpenter.sh/nodepool: default}}
spec: {providerID: 'aws:///us-east-1a/i-0ff'}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare, namespace: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: karpenter, namespace: kube-system}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - image: public.ecr.aws/karpenter/controller:1.15.1
        env:
        - {name: CLUSTER_NAME, value: demo}
        - {name: DISABLE_LEADER_ELECTION, value: 'true'}
        - {name: ENABLE_ZONAL_SHIFT, value: 'true'}
        - {name: FEATURE_GATES, value: 'NodeRepair=true,CapacityBuffer=true'}
        - {name: VM_MEMORY_OVERHEAD_PERCENT, value: '-1'}
";
    check(&text, 3, expect![[""]]);
}

#[test]
fn whether_karpenter_runs_is_read_from_its_lease() {
    let lease = |holder: &str, renewed: &str| {
        cluster((NOW, "v6"), POOL, &[])
            + &format!(
                "
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {{name: karpenter-leader-election, namespace: kube-system}}
spec: {{holderIdentity: '{holder}', leaseDurationSeconds: 15, renewTime: '{renewed}'}}
---
apiVersion: v1
kind: Node
metadata: {{name: own}}
status: {{conditions: [{{type: Ready, lastHeartbeatTime: '2026-11-26T08:00:10Z'}}]}}
"
            )
    };
    for (holder, renewed, says) in [
        (
            "karpenter-1_a",
            "2026-11-26T08:00:08.000000Z",
            "renewed it 2 seconds before",
        ),
        (
            "karpenter-1_a",
            "2026-11-26T07:00:00.000000Z",
            "does not renew it",
        ),
        ("", "2026-11-26T08:00:08.000000Z", "Nobody holds it"),
    ] {
        let (code, said) = found(&lease(holder, renewed));
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn programs_read_levels_and_the_verdict() {
    let cluster = Cluster::of_text(&cluster(("500", "v5"), POOL, &[("a", "500", "v5")]));
    let report = examine(&cluster);
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(
        (&json["verdict"], &json["exitCode"]),
        (&"metadata".into(), &1.into())
    );
    let levels = report
        .findings()
        .iter()
        .filter(|one| one.level == Level::Writes);
    assert_eq!(levels.count(), json["findings"].as_array().unwrap().len());
}
