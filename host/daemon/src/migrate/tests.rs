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
const NOW: &str = "10123963874401531113";
const POOL: &str = "6821555240594823858";

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
    check(
        &text,
        0,
        expect![[r#"
            Read 1 EC2NodeClass, 2 NodeClaims, 1 NodePool.

            Nothing changes.
        "#]],
    );
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
    check(
        &text,
        1,
        expect![[r#"
            Read 1 EC2NodeClass, 5 NodeClaims, 1 NodePool.

            WRITES   EC2NodeClass default: metadata.annotations (cluster.yaml:8)
                     Annotation karpenter.k8s.aws/ec2nodeclass-hash becomes 10123963874401531113 (v6).
                     Its hash is of version v5, of Karpenter 1.12 to 1.14. NodeClaims follow.

            WRITES   NodeClaim a, b: metadata.annotations (cluster.yaml:45)
                     Annotation karpenter.k8s.aws/ec2nodeclass-hash becomes 10123963874401531113 (v6).
                     It was of v5. It does not drift by it.

            WRITES   NodeClaim c, d: metadata.annotations (cluster.yaml:153)
                     Annotation karpenter.k8s.aws/ec2nodeclass-hash-version becomes v6.
                     It was v5. It has drifted already and stays so; Karpenter does the same.

            NOTE     NodeClaim c: status.conditions (cluster.yaml:167)
                     It has drifted (AMIDrift) and is replaced within budgets.
                     Karpenter does so too.

            Nothing is done to a node that Karpenter would not do. Metadata of 5 objects is written.
        "#]],
    );
}

#[test]
fn a_class_whose_hash_differs_is_looked_at_before_its_nodes_go() {
    let text = cluster(
        ("600", "v6"),
        POOL,
        &[("a", "600", "v6"), ("b", "599", "v6")],
    );
    check(
        &text,
        3,
        expect![[r#"
            Read 1 EC2NodeClass, 2 NodeClaims, 1 NodePool.

            DIFFERS  EC2NodeClass default: metadata.annotations (cluster.yaml:8)
                     Annotation karpenter.k8s.aws/ec2nodeclass-hash becomes 10123963874401531113 (v6).
                     Either the class was changed while no controller ran, or Karpenter has another CA bundle.
                     Give --cluster-ca-bundle as Karpenter has it.

            DIFFERS  NodeClaim a: metadata.annotations (cluster.yaml:45)
                     It drifts (NodeClassDrift): its hash is not that of its EC2NodeClass.
                     The hash of the class changes, see there.

            NOTE     NodeClaim b: metadata.annotations (cluster.yaml:72)
                     It drifts (NodeClassDrift): its hash is not that of its EC2NodeClass.
                     Karpenter finds so too.

            Look at these first: something is other than under Karpenter for 2 objects.
        "#]],
    );
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
    check(
        &text,
        3,
        expect![[r#"
            Read 1 EC2NodeClass, 2 NodeClaims, 3 NodePools.

            BLOCKS   Deployment kube-system/karpenter (cluster.yaml:117)
                     Longshore refuses it: VM_MEMORY_OVERHEAD_PERCENT (--vm-memory-overhead-percent): "-1" is
                     not understood.
                     expected a share of at least 0 and below 1, such as 0.075

            BLOCKS   Deployment kube-system/karpenter: spec.replicas (cluster.yaml:121)
                     Karpenter runs without leader election: nothing keeps two controllers apart.
                     Scale it to 0 before Longshore starts.

            DIFFERS  CapacityBuffer shop/spare (cluster.yaml:113)
                     Longshore keeps no spare capacity for it.
                     Karpenter keeps it, with feature gate CapacityBuffer.

            DIFFERS  Deployment kube-system/karpenter (cluster.yaml:117)
                     feature gate CapacityBuffer is not implemented yet and has no effect.

            DIFFERS  EC2NodeClass default: metadata.annotations (cluster.yaml:8)
                     Annotation karpenter.k8s.aws/ec2nodeclass-hash becomes 2731058744421465569 (v6).
                     Either the class was changed while no controller ran, or Karpenter has another CA bundle.
                     Give --cluster-ca-bundle as Karpenter has it.

            DIFFERS  EC2NodeClass default: spec.kubelet.maxPod (cluster.yaml:12)
                     It is not a setting of the kubelet: no node is launched from this class.
                     see KubeletConfiguration (kubelet.config.k8s.io/v1beta1)

            DIFFERS  Node stray (cluster.yaml:108)
                     It is a node of a NodePool and has no NodeClaim.
                     Karpenter ends its instance. Longshore leaves a Ready node alone and says so; delete the
                     Node to be rid of it.

            DIFFERS  NodeClaim a: metadata.annotations (cluster.yaml:47)
                     It drifts (NodeClassDrift): its hash is not that of its EC2NodeClass.
                     The hash of the class changes, see there.

            DIFFERS  NodeClaim a: metadata.labels2 (cluster.yaml:42)
                     is not a known field
                     remove it, or correct its spelling

            DIFFERS  NodeClaim b: status.providerID (cluster.yaml:85)
                     It has no instance yet: Longshore launches one.
                     One that Karpenter launched for it and did not write down is ended as garbage. Wait until
                     Karpenter is done, or delete the NodeClaim.

            DIFFERS  NodePool broken: spec.weight (cluster.yaml:106)
                     invalid type: string "heavy", expected i64: no node is made from this NodePool
                     write a whole number without quotes

            NOTE     NodePool azure: spec.template.spec.nodeClassRef (cluster.yaml:99)
                     It is of AKSNodeClass.karpenter.azure.com: another controller's.
                     Longshore leaves it alone, and its NodeClaims and their Nodes.

            Do not start Longshore yet. 1 thing is in the way.
        "#]],
    );
}

#[test]
fn hashes_say_from_which_karpenter_a_cluster_comes() {
    let of = |version: &str| found(&cluster(("500", version), POOL, &[("a", "500", version)]));
    let (code, said) = of("v4");
    assert!(
        code == 1 && said.contains("of version v4, of Karpenter before 1.12"),
        "{said}"
    );
    for version in ["v3", "v7"] {
        let (code, said) = of(version);
        assert!(
            code == 3 && said.contains("Upgrade Karpenter to 1.3 or later"),
            "{said}"
        );
    }
}

#[test]
fn karpenters_image_says_from_which_version_a_cluster_comes() {
    let of = |image: &str| {
        found(&format!(
            "{}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: karpenter, namespace: karpenter}}
spec: {{template: {{spec: {{containers: [{{image: '{image}', env: [{{name: CLUSTER_NAME, value: demo}}]}}]}}}}}}
",
            cluster((NOW, "v6"), POOL, &[])
        ))
    };
    for (image, code, says) in [
        (
            "public.ecr.aws/karpenter/controller:1.15.1@sha256:00",
            0,
            "Nothing changes",
        ),
        (
            "mirror.example:5000/karpenter-controller:v1.3.0",
            0,
            "Nothing changes",
        ),
        (
            "mirror.example:5000/karpenter-controller",
            0,
            "Nothing changes",
        ),
        (
            "public.ecr.aws/karpenter/controller:1.2.3",
            3,
            "It is Karpenter 1.2.",
        ),
        (
            "public.ecr.aws/karpenter/controller:0.37.8",
            3,
            "It is Karpenter 0.37.",
        ),
        (
            "public.ecr.aws/karpenter/controller:1.16.0",
            3,
            "Longshore follows 1.15",
        ),
    ] {
        let (got, said) = of(image);
        assert!(got == code && said.contains(says), "{image}: {got} {said}");
    }
}

/// A NodePool of EKS Auto Mode with a NodeClaim, its Node and a Node without NodeClaim.
#[test]
fn what_is_of_another_controller_is_left_alone_and_blocks_nothing() {
    let text = cluster((NOW, "v6"), POOL, &[("a", NOW, "v6")])
        + "
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general-purpose}
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
      requirements: []
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: auto, labels: {karpenter.sh/nodepool: general-purpose}}
spec:
  nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
  requirements: []
---
apiVersion: v1
kind: Node
metadata: {name: auto, labels: {karpenter.sh/nodepool: general-purpose}}
spec: {providerID: 'aws:///us-east-1a/i-0ff'}
";
    check(
        &text,
        0,
        expect![[r#"
            Read 1 EC2NodeClass, 2 NodeClaims, 2 NodePools.

            NOTE     NodePool general-purpose: spec.template.spec.nodeClassRef (cluster.yaml:70)
                     It is of NodeClass.eks.amazonaws.com: another controller's.
                     Longshore leaves it alone, and its NodeClaims and their Nodes.

            Nothing changes.
        "#]],
    );
}

#[test]
fn a_capacity_buffer_differs_only_where_karpenter_keeps_it() {
    let buffer = "
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare, namespace: shop}
";
    let of = |gates: Option<&str>| {
        let mut text = cluster((NOW, "v6"), POOL, &[]) + buffer;
        if let Some(gates) = gates {
            text += &format!(
                "
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: karpenter, namespace: kube-system}}
spec: {{template: {{spec: {{containers: [{{image: 'x/karpenter:1.15.1', env: [
  {{name: CLUSTER_NAME, value: demo}}, {{name: FEATURE_GATES, value: '{gates}'}}]}}]}}}}}}
"
            );
        }
        found(&text)
    };
    assert_eq!(of(Some("CapacityBuffer=false,NodeRepair=true")).0, 0);
    assert_eq!(of(Some("CapacityBuffer=true")).0, 3);
    let (code, said) = of(None);
    assert!(
        code == 3 && said.contains("Karpenter's Deployment would say"),
        "{said}"
    );
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
        ("", "2026-11-26T08:00:08.000000Z", "No process holds it"),
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
