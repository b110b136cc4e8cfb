//! Results of valid objects.

use expect_test::{Expect, expect};
use longshore_core::model::pod::DoNotDisrupt;
use longshore_core::model::{
    ClusterObjects, LabelSelector, Op, PodTerm, Requirement, ResourceId, Resources, SelectorOp,
    Symbols,
};

use super::super::Reader;
use super::read;

fn good(text: &str) -> ClusterObjects {
    let (world, problems) = read(text);
    assert_eq!(problems.to_string(), "");
    world
}

fn pod(spec: &str) -> ClusterObjects {
    let world = good(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, labels: {{app: web, rev: '3'}}}}\nspec:\n{spec}"
    ));
    assert_eq!(world.pods[0].invalid, None);
    world
}

fn resources(all: &Resources, names: &Symbols) -> String {
    let name = |resource| match resource {
        ResourceId::Other(name) => names.text(name).to_owned(),
        other => format!("{other:?}"),
    };
    all.iter()
        .map(|(resource, amount)| format!("{}={amount}", name(resource)))
        .collect::<Vec<_>>()
        .join(" ")
}

fn requirements(all: &[Requirement], names: &Symbols) -> String {
    let one = |requirement: &Requirement| {
        let list = |values: &[_]| {
            values
                .iter()
                .map(|value| names.text(*value))
                .collect::<Vec<_>>()
                .join("|")
        };
        let op = match &requirement.op {
            Op::In(values) => format!("in {}", list(values)),
            Op::NotIn(values) => format!("not in {}", list(values)),
            other => format!("{other:?}"),
        };
        format!("{} {op}", names.text(requirement.key))
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn selector(selector: &LabelSelector, names: &Symbols) -> String {
    let Some(rules) = &selector.0 else {
        return "nothing".to_owned();
    };
    let list = |values: &[_]| {
        values
            .iter()
            .map(|value| names.text(*value))
            .collect::<Vec<_>>()
            .join("|")
    };
    let rules = rules.iter().map(|rule| match &rule.op {
        SelectorOp::In(values) => format!("{}={}", names.text(rule.key), list(values)),
        SelectorOp::NotIn(values) => format!("{}!={}", names.text(rule.key), list(values)),
        SelectorOp::Exists => names.text(rule.key).to_owned(),
        SelectorOp::DoesNotExist => format!("!{}", names.text(rule.key)),
    });
    format!("[{}]", rules.collect::<Vec<_>>().join(" "))
}

/// What the first pod asks for.
fn requests(spec: &str) -> String {
    let world = pod(spec);
    resources(
        &world.shapes.get(world.pods[0].shape).requests,
        &world.names,
    )
}

#[test]
fn a_pod_asks_for_the_most_that_it_ever_needs_at_once() {
    for (what, spec, wanted) in [
        ("nothing", "  containers: [{}]", "Pods=1"),
        (
            "the sum",
            "  containers: [{resources: {requests: {cpu: 100m}}}, {resources: {requests: {cpu: 0.2, memory: 1Ki}}}]",
            "Cpu=300 Memory=1024 Pods=1",
        ),
        (
            "a limit where there is no request",
            "  containers: [{resources: {requests: {cpu: 100m}, limits: {cpu: 1, memory: 1Ki, nvidia.com/gpu: 1}}}]",
            "Cpu=100 Memory=1024 Pods=1 nvidia.com/gpu=1",
        ),
        (
            "the larger init container",
            "  initContainers: [{resources: {requests: {cpu: 2}}}, {resources: {requests: {cpu: 1, memory: 5}}}]\n  containers: [{resources: {requests: {cpu: 1, memory: 3}}}]",
            "Cpu=2000 Memory=5 Pods=1",
        ),
        (
            "sidecars beside the containers",
            "  initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 1}}}]\n  containers: [{resources: {requests: {cpu: 1}}}]",
            "Cpu=2000 Pods=1",
        ),
        (
            "an init container with the sidecars before it",
            "  initContainers: [{resources: {requests: {cpu: 4}}}, {restartPolicy: Always, resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 3500m}}}]\n  containers: [{resources: {requests: {cpu: 2}}}]",
            "Cpu=4500 Pods=1",
        ),
        (
            "overhead on top",
            "  overhead: {cpu: 50m, memory: 10}\n  containers: [{resources: {requests: {cpu: 1}}}]",
            "Cpu=1050 Memory=10 Pods=1",
        ),
        (
            "what the pod asks for as a whole, instead of its containers",
            "  resources: {requests: {cpu: 3}, limits: {memory: 9, hugepages-2Mi: 4}}\n  containers: [{resources: {requests: {cpu: 1, example.com/x: 2}}}]",
            "Cpu=3000 Memory=9 Pods=1 example.com/x=2 hugepages-2Mi=4",
        ),
        (
            "its containers' sum before its own limit",
            "  resources: {limits: {cpu: 4}}\n  containers: [{resources: {requests: {cpu: 1}}}]",
            "Cpu=1000 Pods=1",
        ),
        (
            "a fraction of a thousandth, rounded up",
            "  containers: [{resources: {requests: {cpu: 100u, memory: 1500m}}}]",
            "Cpu=1 Memory=2 Pods=1",
        ),
    ] {
        assert_eq!(requests(spec), wanted, "{what}");
    }
}

#[test]
fn amounts_too_large_to_add_stay_at_the_largest() {
    let huge = "{resources: {requests: {memory: 7Ei}}}";
    assert_eq!(
        requests(&format!("  containers: [{huge}, {huge}]")),
        format!("Memory={} Pods=1", i64::MAX)
    );
}

#[test]
fn placement_is_read_with_its_defaults() {
    let world = pod("
  nodeSelector: {failure-domain.beta.kubernetes.io/zone: a, disk: ssd}
  priority: 7
  hostNetwork: true
  initContainers: [{restartPolicy: Always, ports: [{hostPort: 9, protocol: UDP}]}, {ports: [{hostPort: 10}]}]
  containers: [{ports: [{containerPort: 80}, {containerPort: 81, hostPort: 81, hostIP: 10.0.0.1}, {hostPort: 82, hostIP: 0.0.0.0}]}]
  tolerations: [{operator: Exists}, {key: a, value: b, effect: NoExecute}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: beta.kubernetes.io/arch, operator: In, values: [arm64]}, {key: n, operator: Gt, values: ['3']}]
        - {}
        - matchExpressions: [{key: n, operator: Lt, values: ['-3']}, {key: m, operator: Gt, values: ['9223372036854775807']}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 5, preference: {matchExpressions: [{key: x, operator: NotIn, values: [y]}]}}
      - {weight: 5, preference: {}}
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 9, podAffinityTerm: {topologyKey: z, labelSelector: {matchLabels: {app: db}}, namespaces: [shop, other]}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: h, labelSelector: {}, matchLabelKeys: [rev, missing], mismatchLabelKeys: [app], namespaceSelector: {}}
      - {topologyKey: h}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, minDomains: 3, labelSelector: {matchLabels: {rev: '3'}}, matchLabelKeys: [rev, app]}
  - {maxSkew: 2, topologyKey: h, whenUnsatisfiable: ScheduleAnyway, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}");
    let names = &world.names;
    let shape = world.shapes.get(world.pods[0].shape);
    let mut out = format!(
        "priority {}\nselector {}\n",
        shape.priority,
        requirements(&shape.node_selector, names)
    );
    for term in &shape.required {
        out += &format!("required {}\n", requirements(term, names));
    }
    for (weight, term) in &shape.preferred {
        out += &format!("preferred {weight} {}\n", requirements(term, names));
    }
    let term = |term: &PodTerm| {
        let namespaces: Vec<_> = term
            .namespaces
            .iter()
            .map(|name| names.text(*name))
            .collect();
        let chosen = term
            .namespace_selector
            .as_ref()
            .map(|chosen| selector(chosen, names));
        format!(
            "{} {} in {namespaces:?} {chosen:?}\n",
            names.text(term.key),
            selector(&term.selector, names)
        )
    };
    for (weight, wanted) in &shape.preferred_affinity {
        out += &format!("near {weight} {}", term(wanted));
    }
    for unwanted in &shape.anti_affinity {
        out += &format!("apart {}", term(unwanted));
    }
    for s in &shape.spread {
        let (key, chosen) = (names.text(s.key), selector(&s.selector, names));
        let (affinity, taints) = (s.node_affinity, s.node_taints);
        out += &format!(
            "spread {} {key} {} {chosen} {:?} {affinity:?} {taints:?}\n",
            s.max_skew, s.required, s.min_domains
        );
    }
    for port in &shape.ports {
        out += &format!(
            "port {} {} {:?}\n",
            port.port,
            names.text(port.protocol),
            port.ip.map(|ip| names.text(ip))
        );
    }
    for t in &shape.tolerations {
        let key = t.key.map(|key| names.text(key));
        out += &format!(
            "tolerates {key:?} {} {:?} {:?}\n",
            t.exists,
            names.text(t.value),
            t.effect
        );
    }
    expect![[r#"
        priority 7
        selector topology.kubernetes.io/zone in a, disk in ssd
        required kubernetes.io/arch in arm64, n Gte(4)
        required n Lte(-4), m DoesNotExist
        preferred 5 x not in y
        near 9 z [app=db] in ["shop", "other"] None
        apart h [rev=3 app!=web] in [] Some("[]")
        apart h nothing in [] None
        spread 1 z true [rev=3 app=web] Some(3) Honor Ignore
        spread 2 h false nothing None Ignore Honor
        port 80 TCP None
        port 81 TCP Some("10.0.0.1")
        port 82 TCP None
        port 9 UDP None
        tolerates None true "" None
        tolerates Some("a") false "b" Some(NoExecute)
    "#]]
    .assert_eq(&out);
}

#[test]
fn a_pods_own_fields_are_read() {
    let world = good(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"u1","creationTimestamp":"1970-01-01T00:01:00Z","deletionTimestamp":"1970-01-01T00:02:00Z",
        "annotations":{"karpenter.sh/do-not-disrupt":"1h30m","kubernetes.io/config.mirror":"x"},
        "ownerReferences":[{"kind":"Other","name":"o"},{"kind":"ReplicaSet","name":"rs","controller":true}]},
        "spec":{"nodeName":"n1","resourceClaims":[{"name":"gpu"}],"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":"data"}},{"name":"tmp","ephemeral":{"volumeClaimTemplate":{}}},{"name":"e","emptyDir":{}}]},
        "status":{"phase":"Failed","startTime":"1970-01-01T00:01:30Z","nominatedNodeName":"n2","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}"#,
    );
    let pod = &world.pods[0];
    let names = &world.names;
    assert_eq!((&*pod.name, &*pod.uid), ("web", "u1"));
    assert_eq!(pod.node.map(|node| names.text(node)), Some("n1"));
    assert_eq!(
        pod.claims
            .iter()
            .map(|claim| names.text(*claim))
            .collect::<Vec<_>>(),
        ["data", "web-tmp"]
    );
    assert_eq!(
        pod.owner
            .map(|(kind, name)| (names.text(kind), names.text(name))),
        Some(("ReplicaSet", "rs"))
    );
    assert_eq!((pod.created, pod.started), (60, Some(90)));
    assert!(
        pod.terminal
            && pod.deleting
            && pod.unschedulable
            && pod.nominated.is_some()
            && pod.is_static
            && pod.resource_claims
    );
    assert_eq!(pod.do_not_disrupt, DoNotDisrupt::For(5400));
}

#[test]
fn the_deletion_cost_of_a_pod_is_karpenters_annotation_or_else_that_of_replica_sets() {
    let cost = |annotations: &str| {
        let world = good(&format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web","annotations":{{{annotations}}}}},"spec":{{}}}}"#
        ));
        world.pods[0].deletion_cost
    };
    let (ours, theirs) = (
        r#""karpenter.sh/disruption-cost""#,
        r#""controller.kubernetes.io/pod-deletion-cost""#,
    );
    assert_eq!(cost(""), 0);
    assert_eq!(cost(&format!(r#"{theirs}:"-7""#)), -7);
    assert_eq!(
        cost(&format!(r#"{theirs}:"-7",{ours}:"2147483647""#)),
        i32::MAX
    );
    assert_eq!(cost(&format!(r#"{theirs}:"-7",{ours}:"much""#)), 0);
    assert_eq!(cost(&format!(r#"{theirs}:"1.5""#)), 0);
}

#[test]
fn priority_classes_may_come_after_their_pods() {
    let text = "
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {priorityClassName: high}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {}}
---
{apiVersion: v1, kind: Pod, metadata: {name: c}, spec: {priority: 3, priorityClassName: high}}
---
{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {priorityClassName: system-node-critical}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: e}, spec: {template: {spec: {priorityClassName: high}}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 5, globalDefault: true}
";
    let world = good(text);
    let priority = |shape| world.shapes.get(shape).priority;
    assert_eq!(
        world
            .pods
            .iter()
            .map(|pod| priority(pod.shape))
            .collect::<Vec<_>>(),
        [1000, 5, 3, 2_000_001_000]
    );
    assert_eq!(priority(world.daemons[0].template), 1000);
}

/// Requests of DaemonSets by name, as `cpu memory`, where the namespace has these LimitRanges.
fn daemon_requests(ranges: &str, daemons: &[(&str, &str)]) -> Vec<String> {
    let range = |(at, entries): (usize, &str)| {
        format!(
            "{{apiVersion: v1, kind: LimitRange, metadata: {{name: r{at}}}, spec: {{limits: [{entries}]}}}}"
        )
    };
    let daemon = |(name, spec): &(&str, &str)| {
        let template = format!("{{template: {{spec: {{{spec}}}}}}}");
        format!(
            "{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: {name}}}, spec: {template}}}"
        )
    };
    let objects: Vec<String> = daemons
        .iter()
        .map(daemon)
        .chain(ranges.lines().enumerate().map(range))
        .collect();
    let world = good(&objects.join("\n---\n"));
    let of = |daemon: &longshore_core::model::DaemonSet| {
        let requests = &world.shapes.get(daemon.template).requests;
        format!(
            "{} {}",
            requests.get(ResourceId::Cpu),
            requests.get(ResourceId::Memory) >> 20
        )
    };
    world.daemons.iter().map(of).collect()
}

#[test]
fn templates_of_daemon_sets_get_the_defaults_of_limit_ranges() {
    let daemons = [
        ("a", "containers: [{name: c}, {name: d}]"),
        (
            "b",
            "containers: [{name: c, resources: {requests: {cpu: '0'}, limits: {memory: 1Gi}}}]",
        ),
        (
            "c",
            "containers: [{name: c}], initContainers: [{name: s, restartPolicy: Always}, {name: i}]",
        ),
        (
            "d",
            "containers: [{name: c}], initContainers: [{name: i, resources: {requests: {cpu: '3'}}}], overhead: {cpu: 10m}",
        ),
        (
            "e",
            "containers: [{name: c}, {name: d}], resources: {requests: {cpu: 100m}}",
        ),
    ];
    let none = ["0 0", "0 1024", "0 0", "3010 0", "100 0"];
    assert_eq!(daemon_requests("", &daemons), none);
    // A container that asks for none asks for none; sidecars count beside containers.
    let usual = "{type: Container, defaultRequest: {cpu: 200m, memory: 128Mi}, default: {cpu: '1', memory: 256Mi}}";
    assert_eq!(
        daemon_requests(usual, &daemons),
        ["400 256", "0 1024", "400 256", "3010 128", "100 256"]
    );
    for (entries, expected) in [
        (
            "{type: Container, default: {cpu: '1'}, min: {cpu: 100m}}",
            "2000 0",
        ),
        (
            "{type: Container, max: {cpu: '2'}, min: {memory: 64Mi}}",
            "4000 128",
        ),
        (
            "{type: Container, max: {cpu: '2'}, default: {cpu: '1'}, defaultRequest: {cpu: 50m}}",
            "100 0",
        ),
        ("{type: Pod, max: {cpu: '2'}, min: {cpu: '1'}}", "0 0"),
        (
            "{type: Container, defaultRequest: {cpu: 50m}}, {type: Container, defaultRequest: {cpu: 70m}}",
            "140 0",
        ),
        // Which of two counts is not said: the larger one, of each resource.
        (
            "{type: Container, max: {cpu: 70m}}\n{type: Container, max: {cpu: 50m, memory: 1Mi}}",
            "140 2",
        ),
    ] {
        assert_eq!(
            daemon_requests(entries, &daemons[..1]),
            [expected],
            "{entries}"
        );
    }
}

#[test]
fn pods_do_not_get_what_admission_would_have_given_them() {
    let text = "
{apiVersion: v1, kind: LimitRange, metadata: {name: r}, spec: {limits: [{type: Container, default: {cpu: '1'}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, namespace: other}, spec: {template: {spec: {containers: [{name: c}]}}}}
";
    let world = good(text);
    assert_eq!(
        world
            .shapes
            .get(world.pods[0].shape)
            .requests
            .get(ResourceId::Cpu),
        0
    );
    assert_eq!(
        world
            .shapes
            .get(world.daemons[0].template)
            .requests
            .get(ResourceId::Cpu),
        0
    );
}

#[test]
fn pods_of_one_template_share_a_shape_whatever_the_order_of_their_maps() {
    let pod = |name: &str, labels: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{labels}}},"spec":{{"nodeSelector":{labels}}}}}"#
        )
    };
    let world = good(&(pod("a", r#"{"x":"1","y":"2"}"#) + &pod("b", r#"{"y":"2","x":"1"}"#)));
    assert_eq!((world.pods.len(), world.shapes.len()), (2, 1));
}

#[test]
fn the_same_objects_come_out_of_yaml_json_and_lists_in_any_order() {
    let yaml = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec: {}\n";
    let stream = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{}} {"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}"#;
    let list = format!(
        r#"{{"apiVersion":"v1","items":[{}],"kind":"List","metadata":{{}}}}"#,
        stream.replace("}} {", "}},{").replace("{}} {", "{}},{")
    );
    let bare = format!("[{}]", stream.replace("{}} {", "{}},{"));
    let yaml_list = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: p}\n  spec: {}\n- {apiVersion: v1, kind: Node, metadata: {name: n}}\nkind: List\n";
    let bom = format!("\u{feff}{yaml}");
    let crlf = yaml.replace('\n', "\r\n");
    for text in [yaml, stream, &list, &bare, yaml_list, &bom, &crlf] {
        let world = good(text);
        assert_eq!((world.pods.len(), world.nodes.len()), (1, 1), "{text}");
    }
    let mut reader = Reader::new();
    for kind in ["Pod", "Node"] {
        let name = kind.to_lowercase();
        let text = format!(
            r#"{{"items":[{{"metadata":{{"name":"{name}"}},"spec":{{}}}}],"kind":"{kind}List","apiVersion":"v1"}}"#
        );
        reader.read(kind, text.as_bytes());
    }
    let (world, problems) = reader.finish();
    assert_eq!(
        (world.pods.len(), world.nodes.len(), problems.len()),
        (1, 1, 0),
        "items of typed lists need no kind"
    );
}

#[test]
fn a_nodepool_is_read_with_its_defaults() {
    let class = "nodeClassRef: {group: g.io, kind: EC2NodeClass, name: d}";
    let world = good(&format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: plain}}\nspec: {{template: {{spec: {{{class}, requirements: []}}}}}}\n---\n\
         apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: rich}}\nspec:\n  weight: 9\n  limits: {{cpu: '10', memory: 1000Ei, nodes: 3, nvidia.com/gpu: 0}}\n  \
         disruption: {{consolidateAfter: Never, consolidationPolicy: WhenEmpty, budgets: [{{nodes: '0', schedule: '0 9 * * 1-5', duration: 8h0s}}]}}\n  \
         template:\n    spec: {{{class}, expireAfter: Never, requirements: [{{key: a, operator: Lte, values: ['3'], minValues: 2}}, {{key: beta.kubernetes.io/os, operator: In, values: [linux]}}]}}\nstatus: {{conditions: [{{type: Ready, status: 'False'}}]}}\n",
    ));
    let [plain, rich] = &world.pools.into_vec()[..] else {
        panic!()
    };
    assert_eq!(
        (
            plain.weight,
            plain.expire_after,
            plain.consolidate_after,
            plain.ready
        ),
        (0, Some(2_592_000), Some(0), None)
    );
    assert_eq!(&*plain.budgets[0].nodes, "10%");
    assert_eq!(
        (
            rich.weight,
            rich.expire_after,
            rich.consolidate_after,
            rich.ready
        ),
        (9, None, None, Some(false))
    );
    assert_eq!(
        (rich.node_limit, rich.budgets[0].duration),
        (Some(3), Some(8 * 3600))
    );
    let limits: Vec<_> = rich.limits.iter().map(|(_, amount)| *amount).collect();
    assert_eq!(
        limits,
        [10_000, i64::MAX, 0],
        "a limit of zero is a limit, one beyond counting is the largest number"
    );
    assert_eq!(rich.requirements[0].min_values, Some(2));
    check_text(
        requirements(&rich.requirements, &world.names),
        expect!["a Lte(3), kubernetes.io/os in linux"],
    );
}

fn check_text(found: String, wanted: Expect) {
    wanted.assert_eq(&found);
}

#[test]
fn volumes_get_the_drivers_that_took_over() {
    let world = good("
{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {awsElasticBlockStore: {volumeID: v}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [z]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: b}, spec: {csi: {driver: x.io}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: c}, spec: {local: {path: /d}}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: gp2, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: kubernetes.io/aws-ebs, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: failure-domain.beta.kubernetes.io/zone, values: [a, b]}]}]}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, annotations: {volume.beta.kubernetes.io/storage-class: gp2}}, spec: {volumeName: ''}, status: {phase: Lost}}
---
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n}, spec: {drivers: [{name: ebs.csi.aws.com, allocatable: {count: 25}}, {name: free}]}}
");
    let names = &world.names;
    let drivers: Vec<_> = world
        .volumes
        .iter()
        .map(|volume| (volume.driver.map(|d| names.text(d)), volume.local))
        .collect();
    assert_eq!(
        drivers,
        [
            (Some("ebs.csi.aws.com"), false),
            (Some("x.io"), false),
            (None, true)
        ]
    );
    check_text(
        requirements(&world.volumes[0].node_affinity[0], names),
        expect!["topology.kubernetes.io/zone in z"],
    );
    let class = &world.storage_classes[0];
    assert!(class.default && class.wait_for_consumer);
    assert_eq!(names.text(class.provisioner), "ebs.csi.aws.com");
    check_text(
        requirements(&class.topologies[0], names),
        expect!["failure-domain.beta.kubernetes.io/zone in a|b"],
    );
    let claim = &world.volume_claims[0];
    assert_eq!(
        (
            claim.volume,
            claim.class.map(|c| names.text(c)),
            claim.lost,
            claim.bound
        ),
        (None, Some("gp2"), true, false)
    );
    let limits: Vec<_> = world.csi_nodes[0]
        .drivers
        .iter()
        .map(|(_, count)| *count)
        .collect();
    assert_eq!(limits, [Some(25), None]);
}

#[test]
fn owners_services_budgets_and_classes_are_read() {
    let world = good("
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: x}, spec: {selector: {app: a}}}
---
{apiVersion: v1, kind: Service, metadata: {name: t}, spec: {}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {selector: {matchExpressions: [{key: app, operator: NotIn, values: [b]}]}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: p}, spec: {maxUnavailable: 0, selector: {}}, status: {disruptionsAllowed: 2}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: q}, spec: {minAvailable: 100%, unhealthyPodEvictionPolicy: AlwaysAllow}}
---
{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: d}, status: {conditions: [{type: Ready, status: 'True'}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}
");
    let names = &world.names;
    let chosen: Vec<_> = world
        .workloads
        .iter()
        .map(|w| selector(&w.selector, names))
        .collect();
    assert_eq!(chosen, ["[app!=b]", "nothing", "[app=a]"]);
    let budgets: Vec<_> = world
        .budgets
        .iter()
        .map(|b| (b.allowed, b.blocks_always, b.evicts_unhealthy))
        .collect();
    assert_eq!(budgets, [(2, true, false), (0, true, true)]);
    assert_eq!(
        selector(&world.budgets[0].selector, names),
        "[]",
        "an empty selector selects everything"
    );
    assert_eq!(
        (names.text(world.classes[0].id.kind), world.classes[0].ready),
        ("EC2NodeClass", Some(true))
    );
    assert_eq!(world.namespaces.len(), 1);
}

#[test]
fn kinds_without_use_are_counted_and_no_problem() {
    let (_, problems) = read(
        "{apiVersion: v1, kind: Secret, metadata: {name: a}}\n---\n{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}",
    );
    assert!(problems.is_empty());
    assert_eq!(
        problems.ignored.into_iter().collect::<Vec<_>>(),
        [("Secret".to_owned(), 1), ("Service".to_owned(), 1)]
    );
}
