//! Dumps of EKS clusters in six regions are planned, disrupted and explained without a flag: the
//! provider follows from the NodePools, the region from the zones.

use std::path::PathBuf;
use std::process::Command;

/// What `longshore ARGUMENTS` prints, and says on standard error.
fn longshore(args: &[&str]) -> (String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_longshore"))
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (said, wrong) = (text(done.stdout), text(done.stderr));
    assert!(done.status.success(), "{args:?}: {wrong}");
    (said, wrong)
}

/// A region, two of its zones, the ID of the first, and what m5.large costs there, as estimated.
type Place = (&'static str, [&'static str; 2], &'static str, f64);

const PLACES: [Place; 6] = [
    ("us-east-1", ["us-east-1a", "us-east-1b"], "use1-az4", 0.096),
    ("us-west-2", ["us-west-2b", "us-west-2c"], "usw2-az1", 0.096),
    (
        "eu-west-1",
        ["eu-west-1a", "eu-west-1c"],
        "euw1-az2",
        0.10656,
    ),
    (
        "eu-central-1",
        ["eu-central-1a", "eu-central-1b"],
        "euc1-az2",
        0.1152,
    ),
    (
        "ap-northeast-1",
        ["ap-northeast-1a", "ap-northeast-1c"],
        "apne1-az4",
        0.12384,
    ),
    (
        "sa-east-1",
        ["sa-east-1a", "sa-east-1c"],
        "sae1-az1",
        0.15264,
    ),
];

/// What `kubectl get` prints of a small cluster on EKS: two nodes of one NodePool, one of them of a
/// managed node group, a DaemonSet, a web server that is spread over zones, and one that waits.
fn dump((region, zones, id, _): Place) -> String {
    let node = |name: &str, zone: &str, of_pool: bool| {
        let of_pool = match of_pool {
            true => {
                "karpenter.sh/nodepool: general, karpenter.sh/registered: 'true', \
                     karpenter.sh/initialized: 'true', karpenter.sh/capacity-type: on-demand, \
                     karpenter.k8s.aws/ec2nodeclass: default,"
            }
            false => "eks.amazonaws.com/nodegroup: system,",
        };
        let id = match zone == zones[0] {
            true => format!("topology.k8s.aws/zone-id: {id},"),
            false => String::new(),
        };
        format!(
            "
- apiVersion: v1
  kind: Node
  metadata:
    name: {name}
    creationTimestamp: '2026-11-01T00:00:00Z'
    labels: {{{of_pool} {id} kubernetes.io/hostname: {name}, kubernetes.io/arch: amd64,
      kubernetes.io/os: linux, node.kubernetes.io/instance-type: m5.2xlarge,
      topology.kubernetes.io/region: {region}, topology.kubernetes.io/zone: {zone}}}
  spec: {{providerID: 'aws:///{zone}/i-{name}'}}
  status:
    capacity: {{cpu: '8', memory: 32Gi, pods: '58'}}
    allocatable: {{cpu: 7910m, memory: 30Gi, pods: '58'}}
    conditions: [{{type: Ready, status: 'True'}}]
"
        )
    };
    let pod = |name: &str, node: Option<&str>, cpu: &str, owner: &str| {
        let (on, status) = match node {
            Some(node) => (
                format!("nodeName: {node},"),
                "{phase: Running, conditions: [{type: Ready, status: 'True'}]}",
            ),
            None => (
                String::new(),
                "{phase: Pending, conditions: [{type: PodScheduled, status: 'False', \
                 reason: Unschedulable}]}",
            ),
        };
        let (kind, own) = owner.split_once('/').unwrap();
        format!(
            "
- apiVersion: v1
  kind: Pod
  metadata:
    namespace: shop
    name: {name}
    creationTimestamp: '2026-11-01T01:00:00Z'
    labels: {{app: {own}}}
    ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {own}, uid: u-{own}, controller: true}}]
  spec: {{{on} containers: [{{name: c, image: c, resources: {{requests: {{cpu: {cpu}, memory: 1Gi}}}}}}],
    topologySpreadConstraints: [{{maxSkew: 1, topologyKey: topology.kubernetes.io/zone,
      whenUnsatisfiable: ScheduleAnyway, labelSelector: {{matchLabels: {{app: {own}}}}}}}]}}
  status: {status}
"
        )
    };
    let head = "
apiVersion: v1
kind: List
items:
- apiVersion: karpenter.k8s.aws/v1
  kind: EC2NodeClass
  metadata: {name: default}
  spec:
    role: node
    amiSelectorTerms: [{alias: al2023@v20261101}]
    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: shop}}]
    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: shop}}]
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: general}
  spec:
    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: 100%}]}
    limits: {cpu: '1000'}
    template:
      spec:
        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
        requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
- apiVersion: karpenter.sh/v1
  kind: NodeClaim
  metadata:
    name: general-a
    creationTimestamp: '2026-11-01T00:00:00Z'
    labels: {karpenter.sh/nodepool: general}
  spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
  status:
    nodeName: a
    providerID: 'aws:///ZONE/i-a'
    conditions: [{type: Launched, status: 'True'}, {type: Registered, status: 'True'},
      {type: Initialized, status: 'True'}, {type: Consolidatable, status: 'True'}]
- apiVersion: apps/v1
  kind: DaemonSet
  metadata: {namespace: kube-system, name: aws-node, uid: u-aws-node}
  spec:
    selector: {matchLabels: {app: aws-node}}
    template:
      metadata: {labels: {app: aws-node}}
      spec:
        tolerations: [{operator: Exists}]
        containers: [{name: c, image: c, resources: {requests: {cpu: 50m}}}]
";
    head.replace("ZONE", zones[0])
        + &node("a", zones[0], true)
        + &node("b", zones[1], false)
        + &pod("web-1", Some("a"), "500m", "ReplicaSet/web")
        + &pod("web-2", Some("b"), "6", "ReplicaSet/web")
        + &pod("batch-1", None, "1", "Job/batch")
        + &pod("batch-2", None, "7", "Job/batch")
}

#[test]
fn dumps_of_six_regions_need_no_flag() {
    let folder = std::env::temp_dir().join(format!("longshore-regions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for place in PLACES {
        let (region, _, _, price) = place;
        let file: PathBuf = folder.join(format!("{region}.yaml"));
        std::fs::write(&file, dump(place)).unwrap();
        let file = file.to_str().unwrap();
        let (plan, said) = longshore(&["plan", "--snapshot", file]);
        assert_eq!(said, "", "{region}");
        assert!(plan.contains("Buy 1 node for 1 pod"), "{plan}");
        assert!(
            plan.contains("m5.2xlarge") && plan.contains(region),
            "{plan}"
        );
        // us-east-1's on-demand prices are on record; all others are estimates.
        let cost = format!("{:.4}", price * 4.0);
        let marked = plan.contains(&format!("~{cost}"));
        assert!(
            plan.contains(&cost) && marked == (region != "us-east-1"),
            "{plan}"
        );
        let explains = format!("an on-demand price of {region} is that of us-east-1 times");
        assert_eq!(plan.contains(&explains), region != "us-east-1", "{plan}");
        let (json, _) = longshore(&["plan", "--snapshot", file, "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let offering = &json["claims"][0]["offering"];
        assert!(offering["zone"].as_str().unwrap().starts_with(region));
        assert_eq!(offering["estimated"] == true, region != "us-east-1");
        assert!(
            json["estimates"]
                .as_str()
                .unwrap()
                .contains("a spot price is")
        );
        let (disrupt, _) = longshore(&["plan", "--disrupt", "--snapshot", file]);
        assert!(disrupt.contains("USD per hour"), "{disrupt}");
        assert!(disrupt.contains("~ is an estimate"), "{disrupt}");
        let (converged, _) = longshore(&["plan", "--converge", "--snapshot", file]);
        assert!(converged.contains("USD per hour"), "{converged}");
        for pod in ["web-1", "batch-1", "batch-2"] {
            let name = format!("shop/{pod}");
            let (explained, _) = longshore(&["explain", "pod", &name, "--snapshot", file]);
            assert!(explained.starts_with(&format!("Pod {name}")), "{explained}");
        }
        let (explained, _) = longshore(&["explain", "node", "a", "--snapshot", file]);
        assert!(explained.contains('a'), "{explained}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
