//! Every kind of invalid input: each is reported with location, reason and hint, and affects only
//! itself.

use expect_test::{Expect, expect};

use super::read_bytes;

/// A valid pod after anything.
const GOOD: &str =
    "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: a}]}\n";

/// Problems of each text, one a line; with [`GOOD`] behind it where it is YAML.
fn check(cases: &[&str], wanted: Expect) {
    let mut report = String::new();
    for case in cases {
        let json = case.starts_with(['{', '[']);
        let text = if json {
            (*case).to_owned()
        } else {
            format!("{case}{GOOD}")
        };
        let (world, problems) = read_bytes(text.as_bytes());
        if !json {
            assert!(
                world.pods.iter().any(|pod| &*pod.name == "good"),
                "the good pod is lost after {case}"
            );
        }
        let mut text = problems.to_string();
        let readable = world.pods.iter().filter(|pod| !pod.unreadable);
        for pod in readable.filter_map(|pod| {
            pod.invalid
                .as_ref()
                .map(|why| format!("{} never: {why}\n", pod.name))
        }) {
            text += &pod;
        }
        assert!(!text.is_empty(), "nothing wrong with {case}?");
        report += &text;
    }
    wanted.assert_eq(&report);
}

fn pod(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop}}\nspec:\n{spec}")
}

fn check_pods(specs: &[&str], wanted: Expect) {
    let pods: Vec<String> = specs.iter().map(|spec| pod(spec)).collect();
    check(&pods.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
}

fn check_pools(specs: &[&str], wanted: Expect) {
    let class = "nodeClassRef: {group: g.io, kind: KWOKNodeClass, name: default}";
    let pools: Vec<String> = specs
        .iter()
        .map(|spec| {
            let spec = spec.replace("CLASS", class);
            format!("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: main}}\nspec:\n{spec}")
        })
        .collect();
    check(
        &pools.iter().map(String::as_str).collect::<Vec<_>>(),
        wanted,
    );
}

#[test]
fn texts_that_are_not_manifests() {
    let mut report = String::new();
    let deep = format!("{}1{}", "{\"a\":".repeat(3000), "}".repeat(3000));
    let texts: Vec<(&str, Vec<u8>)> = vec![
        ("empty", b"".to_vec()),
        ("blank", b" \n\t\n".to_vec()),
        ("utf-16", b"\xff\xfea\0p\0".to_vec()),
        ("latin-1", b"kind: Pod\nname: caf\xe9\n".to_vec()),
        ("binary in json", b"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"\xff\"}}".to_vec()),
        ("a word", b"hello".to_vec()),
        ("html", b"<html>\n<body>\n".to_vec()),
        ("a list of numbers", b"- 1\n- 2\n".to_vec()),
        ("cut short", b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\n\"items\":[{\"kind\":\"P".to_vec()),
        ("comma missing", b"{\"apiVersion\":\"v1\"\n\"kind\":\"Pod\"}".to_vec()),
        ("comma too many", b"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",}".to_vec()),
        ("bracket too many", b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}}".to_vec()),
        (
            "deep json",
            format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"a\"}},\"x\":{deep}}}").into(),
        ),
        ("deep yaml", format!("a: {}", "[".repeat(5000)).into()),
        ("tabs", b"kind: Pod\nmetadata:\n\tname: a\n".to_vec()),
        ("indentation", b"kind: Pod\n  apiVersion: v1\n".to_vec()),
        ("open quote", b"kind: \"Pod\napiVersion: v1\n".to_vec()),
        ("unknown alias", b"kind: *a\n".to_vec()),
        ("merge key", b"a: &a {b: c}\nd:\n  <<: *a\n".to_vec()),
        ("tag", b"kind: !!binary aGVsbG8=\n".to_vec()),
        ("key is a list", b"? [a, b]\n: c\n".to_vec()),
        (
            "aliases",
            (0..30)
                .fold("a0: &a0 [xxxxxxxxxx]\n".to_owned(), |t, n| {
                    t + &format!("a{}: &a{} [*a{n}, *a{n}, *a{n}]\n", n + 1, n + 1)
                })
                .into(),
        ),
    ];
    for (name, text) in texts {
        let (_, problems) = read_bytes(&text);
        assert!(!problems.is_empty(), "{name}");
        report += &format!("{name}: {problems}");
    }
    expect![[r#"
        empty: cluster.yaml:1: is empty; check the command that made it
        blank: cluster.yaml:1: is empty; check the command that made it
        utf-16: cluster.yaml:1: is UTF-16; save it as UTF-8 (PowerShell: `| Out-File -Encoding utf8`)
        latin-1: cluster.yaml:2: is not UTF-8; save it as UTF-8 text
        binary in json: cluster.yaml:1 (document 1): is not UTF-8; save it as UTF-8 text
        a word: cluster.yaml:1 (document 1): is not an object: `"hello"`; a manifest starts with apiVersion and kind
        html: cluster.yaml:1 (document 1): is not an object: `"<html> <body>"`; a manifest starts with apiVersion and kind
        a list of numbers: cluster.yaml:1 (document 1, item 1): is not an object; a manifest starts with apiVersion and kind
        cluster.yaml:2 (document 1, item 2): is not an object; a manifest starts with apiVersion and kind
        cut short: cluster.yaml:2 (document 1): is not JSON: the text ends in the middle of an object; the file may have been cut short
        comma missing: cluster.yaml:2 (document 1): is not JSON: unexpected `"kind":"Pod"}`; check commas, colons and quotes before it
        comma too many: cluster.yaml:1 (document 1): is not JSON: unexpected `}`; check commas, colons and quotes before it
        bracket too many: cluster.yaml:1 (document 2): is not JSON: unexpected `}`; check commas, colons and quotes before it
        deep json: cluster.yaml:1 (document 1): Pod default/a: spec: is missing; a pod needs its spec
        deep yaml: cluster.yaml:1 (document 1): is not YAML: recursion limit exceeded; no Kubernetes object is nested that deeply
        tabs: cluster.yaml:3 (document 1): is not YAML: tabs disallowed within this context (block indentation); indent with spaces, not with tabs
        indentation: cluster.yaml:2 (document 1): is not YAML: mapping values are not allowed in this context; check the indentation and the quotes around this line
        open quote: cluster.yaml:1 (document 1): is not YAML: invalid indentation in quoted scalar; check the indentation and the quotes around this line
        unknown alias: cluster.yaml:1 (document 1): is not YAML: while parsing node, found unknown anchor; define the anchor in the same document, before its first use
        merge key: cluster.yaml:1 (document 1): kind: is missing; every object needs apiVersion and kind
        tag: cluster.yaml:1 (document 1): tags other than !!str are not read; remove the tag
        key is a list: cluster.yaml:1 (document 1): a map has a key that is not a string; put the key in quotes
        aliases: cluster.yaml:12 (document 1): aliases unfold to more than 4 MiB; write the values out
    "#]].assert_eq(&report);
}

#[test]
fn objects_that_do_not_say_what_they_are() {
    check(
        &[
            "kind: Pod\nmetadata: {name: a}",
            "apiVersion: v1\nmetadata: {name: a}",
            "apiVersion: v1\nkind: 5\nmetadata: {name: a}",
            "apiVersion: v1\nkind: Pod\nspec: {}",
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}",
            "apiVersion: v1\nkind: Pod\nmetadata: [a]",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: []",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 5}",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nmetadata: {name: b}",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, creationTimestamp: yesterday}\nspec: {}",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {version: 1.5}}\nspec: {}",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {}",
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}",
            r#"{"kind":"List","apiVersion":"v1","items":[7,{"metadata":{"name":"a"}},null]}"#,
        ],
        expect![[r#"
            cluster.yaml:1 (document 1): Pod: apiVersion: is missing; every object needs apiVersion and kind
            cluster.yaml:1 (document 1): kind: is missing; every object needs apiVersion and kind
            cluster.yaml:2 (document 1): kind: is missing; every object needs apiVersion and kind
            cluster.yaml:1 (document 1): Pod: metadata.name: is missing; give it one
            cluster.yaml:3 (document 1): Pod: metadata.name: is missing; generateName only works in a cluster; give it a name
            cluster.yaml:3 (document 1): Pod: metadata: invalid type: sequence, expected a map; write it as `key: value`
            cluster.yaml:4 (document 1): Pod a: spec: invalid type: sequence, expected a map; write it as `key: value`
            cluster.yaml:3 (document 1): Pod: metadata.name: invalid type: integer `5`, expected a string; put the value in quotes
            cluster.yaml:1 (document 1): Pod a: duplicate field `metadata`; keep one of the two
            cluster.yaml:3 (document 1): Pod default/a: metadata.creationTimestamp: `yesterday` is not a time; write it like 2026-11-01T00:00:00Z
            cluster.yaml:3 (document 1): Pod a: metadata.labels.version: invalid type: floating point `1.5`, expected a string; put the value in quotes
            cluster.yaml:1 (document 1): Pod default/a: spec: is missing; a pod needs its spec
            cluster.yaml:6 (document 2): Pod default/good: is there twice; remove one; the first is used
            cluster.yaml:1 (document 1): NodePool a: apiVersion: `karpenter.sh/v1beta1` is not read; convert it to karpenter.sh/v1
            cluster.yaml:1 (document 1, item 1): is not an object; a manifest starts with apiVersion and kind
            cluster.yaml:1 (document 1, item 2): kind: is missing; every object needs apiVersion and kind
        "#]],
    );
}

#[test]
fn pods_that_cannot_be_read() {
    check_pods(
        &[
            "  containers: {name: a}",
            "  containers: web",
            "  containers:\n  - resources:\n      requests:\n        cpu: -1",
            "  containers:\n  - resources: {requests: {cpu: 1.5.5}}",
            "  containers:\n  - resources: {requests: {memory: 4GB}}",
            "  containers:\n  - resources: {requests: {memory: ''}}",
            "  containers:\n  - resources: {requests: {cpu: [1]}}",
            "  containers:\n  - resources: {requests: {cpu: 1e400}}",
            "  initContainers:\n  - resources: {requests: {cpu: much}}",
            "  overhead: {cpu: -1m}",
            "  resources: {requests: {memory: lots}}",
            "  priority: high",
            "  priority: 99999999999",
            "  tolerations: all",
            "  nodeSelector: {disks: 2}",
            "  topologySpreadConstraints: [{maxSkew: one}]",
            "  affinity: []",
            "  containers: [[]]",
            "  containers: [{resources: []}]",
        ],
        expect![[r#"
            cluster.yaml:5 (document 1): Pod shop/web: spec.containers: invalid type: map, expected a list; write a list: `[…]`, or entries that start with `-`
            cluster.yaml:5 (document 1): Pod shop/web: spec.containers: invalid type: string "web", expected a list; write a list: `[…]`, or entries that start with `-`
            cluster.yaml:8 (document 1): Pod shop/web: spec.containers[0].resources.requests[cpu]: quantity `-1` is negative; amounts start at 0
            cluster.yaml:6 (document 1): Pod shop/web: spec.containers[0].resources.requests[cpu]: quantity `1.5.5` does not start with a number; write it like 500m, 2 or 4Gi
            cluster.yaml:6 (document 1): Pod shop/web: spec.containers[0].resources.requests[memory]: quantity `4GB` has an unknown suffix (expected m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent like e3); write it like 500m, 2 or 4Gi
            cluster.yaml:6 (document 1): Pod shop/web: spec.containers[0].resources.requests[memory]: quantity `` is empty; write it like 500m, 2 or 4Gi
            cluster.yaml:6 (document 1): Pod shop/web: spec.containers[0].resources.requests.cpu: invalid type: sequence, expected a quantity such as 500m or 2Gi; write it like 500m, 2 or 4Gi
            cluster.yaml:6 (document 1): Pod shop/web: spec.containers[0].resources.requests.cpu: number out of range; write a smaller number
            cluster.yaml:6 (document 1): Pod shop/web: spec.initContainers[0].resources.requests[cpu]: quantity `much` does not start with a number; write it like 500m, 2 or 4Gi
            cluster.yaml:5 (document 1): Pod shop/web: spec.overhead[cpu]: quantity `-1m` is negative; amounts start at 0
            cluster.yaml:5 (document 1): Pod shop/web: spec.resources.requests[memory]: quantity `lots` does not start with a number; write it like 500m, 2 or 4Gi
            cluster.yaml:5 (document 1): Pod shop/web: spec.priority: invalid type: string "high", expected i32; write a whole number without quotes
            cluster.yaml:5 (document 1): Pod shop/web: spec.priority: invalid value: integer `99999999999`, expected i32; write a whole number without quotes
            cluster.yaml:5 (document 1): Pod shop/web: spec.tolerations: invalid type: string "all", expected a list; write a list: `[…]`, or entries that start with `-`
            cluster.yaml:5 (document 1): Pod shop/web: spec.nodeSelector.disks: invalid type: integer `2`, expected a string; put the value in quotes
            cluster.yaml:5 (document 1): Pod shop/web: spec.topologySpreadConstraints[0].maxSkew: invalid type: string "one", expected i64; write a whole number without quotes
            cluster.yaml:5 (document 1): Pod shop/web: spec.affinity: invalid type: sequence, expected a map; write it as `key: value`
            cluster.yaml:5 (document 1): Pod shop/web: spec.containers[0]: invalid type: sequence, expected a map; write it as `key: value`
            cluster.yaml:5 (document 1): Pod shop/web: spec.containers[0].resources: invalid type: sequence, expected a map; write it as `key: value`
        "#]],
    );
}

#[test]
fn pods_that_can_never_be_planned() {
    let node = |text: &str| {
        format!(
            "  affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{text}]}}}}}}"
        )
    };
    let affinities = [
        node("{matchFields: [{key: metadata.name, operator: In, values: [a]}]}"),
        node("{matchExpressions: [{key: a, operator: Near, values: [a]}]}"),
        node("{matchExpressions: [{key: a, operator: Gte, values: ['1']}]}"),
        node("{matchExpressions: [{key: a, operator: In}]}"),
        node("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}"),
        node("{matchExpressions: [{key: a, operator: Gt, values: [many]}]}"),
        node("{matchExpressions: [{key: a, operator: Lt, values: ['1', '2']}]}"),
        node("{matchExpressions: [{operator: Exists}]}"),
        node("{}"),
        node(""),
        node("{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}"),
    ];
    let mut specs: Vec<&str> = affinities.iter().map(String::as_str).collect();
    specs.extend([
        "  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}",
        "  affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}",
        "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: Is}]}}]}}",
        "  affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: z}}]}}",
        "  topologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]",
        "  topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]",
        "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: Sometimes}]",
        "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]",
        "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Maybe}]",
        "  tolerations: [{operator: Like, key: a}]",
        "  tolerations: [{key: a, effect: Never}]",
        "  tolerations: [{operator: Equal, value: a}]",
        "  containers: [{ports: [{hostPort: 70000}]}]",
    ]);
    check_pods(
        &specs,
        expect![[r#"
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields: node selector terms with matchFields are not supported; a node that does not exist yet has no fields; use matchExpressions on labels
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: unknown operator `Near`; expected In, NotIn, Exists, DoesNotExist, Gt or Lt
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: unknown operator `Gte`; expected In, NotIn, Exists, DoesNotExist, Gt or Lt
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: In of `a` has no values; list at least one value, or use Exists or DoesNotExist
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Exists of `a` takes no values; remove them, or use In or NotIn
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: `many` is not an integer; give exactly one integer
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Lt of `a` has 2 values; give exactly one integer
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: a requirement has no key; name the label
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: selects no node: it has no term with an expression; add one, or remove the affinity
        web never: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: selects no node: it has no term with an expression; add one, or remove the affinity
        web never: spec.affinity: requires karpenter.sh/nodepool to be absent; such a pod only runs on nodes that no NodePool owns
        web never: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: 0 is out of range; weights go from 1 to 100
        web never: spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: is missing; name a label such as topology.kubernetes.io/zone
        web never: spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator: unknown operator `Is`; expected In, NotIn, Exists or DoesNotExist
        web never: spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: 101 is out of range; weights go from 1 to 100
        web never: spec.topologySpreadConstraints[0].maxSkew: 0 is out of range; it starts at 1
        web never: spec.topologySpreadConstraints[0].topologyKey: is missing; name a label such as topology.kubernetes.io/zone
        web never: spec.topologySpreadConstraints[0].whenUnsatisfiable: `Sometimes` is not a policy; expected DoNotSchedule or ScheduleAnyway
        web never: spec.topologySpreadConstraints[0].minDomains: only goes with DoNotSchedule; set whenUnsatisfiable to DoNotSchedule or remove it
        web never: spec.topologySpreadConstraints[0].nodeTaintsPolicy: `Maybe` is not a policy; expected Honor or Ignore
        web never: spec.tolerations[0].operator: unknown operator `Like`; expected Exists or Equal
        web never: spec.tolerations[0].effect: `Never` is not an effect of a taint; expected NoSchedule, PreferNoSchedule or NoExecute
        web never: spec.tolerations[0].key: is missing; only operator Exists goes without a key
        web never: spec.containers[].ports[].hostPort: 70000 is not a port; ports go from 1 to 65535
    "#]],
    );
}

#[test]
fn nodepools_that_break_their_rules() {
    let requirement =
        |text: &str| format!("  template: {{spec: {{CLASS, requirements: [{text}]}}}}");
    let requirements = [
        requirement("{key: a, operator: In, values: []}"),
        requirement("{key: a, operator: Gt, values: ['-1']}"),
        requirement("{key: a, operator: Gte, values: [x]}"),
        requirement("{key: a, operator: Around, values: ['1']}"),
        requirement("{key: a, operator: In, values: [x], minValues: 2}"),
        requirement("{key: a, operator: Exists, minValues: 51}"),
        requirement("{key: kubernetes.io/hostname, operator: In, values: [x]}"),
        requirement("{key: karpenter.sh/nodepool, operator: In, values: [x]}"),
        requirement("{key: x.karpenter.sh/y, operator: Exists}"),
        requirement("{key: 'a b', operator: Exists}"),
        requirement("{key: a, operator: In, values: ['b c']}"),
        requirement("{key: karpenter.sh/capacity-type, operator: In, values: [cheap]}"),
    ];
    let mut specs: Vec<&str> = requirements.iter().map(String::as_str).collect();
    specs.extend([
        "  template: {}",
        "  template: {spec: {requirements: []}}",
        "  template: {spec: {nodeClassRef: {group: g.io, kind: KWOKNodeClass}}}",
        "  template: {spec: {nodeClassRef: {group: g.io/v1, kind: KWOKNodeClass, name: a}}}",
        "  template: {metadata: {labels: {karpenter.sh/x: y}}, spec: {CLASS}}",
        "  template: {metadata: {labels: {x: 'y z'}}, spec: {CLASS}}",
        "  template: {spec: {CLASS, taints: [{key: a, effect: Never}]}}",
        "  template: {spec: {CLASS, taints: [{effect: NoSchedule}]}}",
        "  template: {spec: {CLASS, taints: [{key: a, effect: NoSchedule}], startupTaints: [{key: a, value: b, effect: NoSchedule}]}}",
        "  template: {spec: {CLASS, expireAfter: 30d}}",
        "  template: {spec: {CLASS, terminationGracePeriod: Never}}",
        "  template: {spec: {CLASS}}\n  weight: 0",
        "  template: {spec: {CLASS}}\n  weight: 101",
        "  template: {spec: {CLASS}}\n  replicas: -1",
        "  template: {spec: {CLASS}}\n  replicas: 1\n  weight: 1",
        "  template: {spec: {CLASS}}\n  replicas: 1\n  limits: {cpu: 1}",
        "  template: {spec: {CLASS}}\n  limits: {cpu: lots}",
        "  template: {spec: {CLASS}}\n  disruption: {consolidateAfter: soon}",
        "  template: {spec: {CLASS}}\n  disruption: {consolidationPolicy: Always}",
        "  template: {spec: {CLASS}}\n  disruption: {budgets: [{nodes: 101%}]}",
        "  template: {spec: {CLASS}}\n  disruption: {budgets: [{nodes: '1', schedule: '@daily'}]}",
        "  template: {spec: {CLASS}}\n  disruption: {budgets: [{nodes: '1', schedule: noon, duration: 1h}]}",
        "  template: {spec: {CLASS}}\n  disruption: {budgets: [{nodes: '1', schedule: '@daily', duration: 90s}]}",
        "  template: {spec: {CLASS}}\n  disruption: {budgets: [{nodes: '1', reasons: [Boredom]}]}",
    ]);
    check_pools(
        &specs,
        expect![[r#"
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].values: In of `a` has no values; list at least one value, or use Exists or DoesNotExist
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].values: -1 is negative; bounds of a NodePool start at 0
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].values: `x` is not an integer; give exactly one integer
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].operator: unknown operator `Around`; expected In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].minValues: 2 distinct values are wanted, but only 1 are listed; list more values or lower minValues
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].minValues: 51 is out of range; minValues goes from 1 to 50
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].key: label `kubernetes.io/hostname` is restricted: kubernetes.io/hostname differs from node to node; use another label
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].key: label `karpenter.sh/nodepool` is restricted: karpenter.sh/nodepool is set by the autoscaler; use another label
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].key: label `x.karpenter.sh/y` is restricted: labels under karpenter.sh are the autoscaler's own; use another label
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].key: `a b` is not a label key; write it like team or example.com/team
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].values: `b c` is not a label value; at most 63 letters, digits, `-`, `_` and `.`, first and last a letter or digit
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.requirements[0].values: no value is a capacity type; expected on-demand, spot or reserved
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec: is missing; a NodePool needs requirements and a nodeClassRef there
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.nodeClassRef: is missing; name a node class by group, kind and name, such as karpenter.k8s.aws, EC2NodeClass, default
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.nodeClassRef.name: is missing; name a node class by group, kind and name, such as karpenter.k8s.aws, EC2NodeClass, default
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.nodeClassRef.group: `g.io/v1` is not a group; leave out the version
            cluster.yaml:5 (document 1): NodePool main: spec.template.metadata.labels[karpenter.sh/x]: label `karpenter.sh/x` is restricted: labels under karpenter.sh are the autoscaler's own; use another label
            cluster.yaml:5 (document 1): NodePool main: spec.template.metadata.labels[x]: `y z` is not a label value; at most 63 letters, digits, `-`, `_` and `.`, first and last a letter or digit
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.taints[0].effect: `Never` is not an effect of a taint; expected NoSchedule, PreferNoSchedule or NoExecute
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.taints[0]: a taint has no key; give it one
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.taints: taint `a` with effect NoSchedule is there twice; keep one, over taints and startupTaints together
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.expireAfter: `30d` is not a duration; write it in hours, minutes and seconds, like 720h, 1h30m or 300s, or Never
            cluster.yaml:5 (document 1): NodePool main: spec.template.spec.terminationGracePeriod: `Never` is not a duration; write it in hours, minutes and seconds, like 720h, 1h30m or 300s
            cluster.yaml:6 (document 1): NodePool main: spec.weight: 0 is out of range; weights go from 1 to 100
            cluster.yaml:6 (document 1): NodePool main: spec.weight: 101 is out of range; weights go from 1 to 100
            cluster.yaml:6 (document 1): NodePool main: spec.replicas: -1 is negative; it starts at 0
            cluster.yaml:7 (document 1): NodePool main: spec.weight: a static NodePool has no weight; remove weight, or replicas
            cluster.yaml:7 (document 1): NodePool main: spec.limits: a static NodePool is limited by nodes only; remove the other limits, or replicas
            cluster.yaml:6 (document 1): NodePool main: spec.limits[cpu]: quantity `lots` does not start with a number; write it like 500m, 2 or 4Gi
            cluster.yaml:6 (document 1): NodePool main: spec.disruption.consolidateAfter: `soon` is not a duration; write it in hours, minutes and seconds, like 720h, 1h30m or 300s, or Never
            cluster.yaml:6 (document 1): NodePool main: spec.disruption.consolidationPolicy: `Always` is not a policy; expected WhenEmpty, WhenEmptyOrUnderutilized or Balanced
            cluster.yaml:6 (document 1): NodePool main: spec.disruption.budgets[0].nodes: `101%` is neither a count nor a percentage; write it like "5" or "10%"
            cluster.yaml:6 (document 1): NodePool main: spec.disruption.budgets[0]: schedule and duration only go together; set both or neither
            cluster.yaml:6 (document 1): NodePool main: spec.disruption.budgets[0].schedule: `noon` is not a cron schedule; write five fields like `0 9 * * 1-5`, or @daily
            cluster.yaml:6 (document 1): NodePool main: spec.disruption.budgets[0].duration: `90s` is not a duration in hours and minutes; write it like 8h or 1h30m
            cluster.yaml:6 (document 1): NodePool main: spec.disruption.budgets[0].reasons[0]: `Boredom` is not a reason; expected Underutilized, Empty, Drifted or Unhealthy
        "#]],
    );
}

#[test]
fn other_objects_that_break_their_rules() {
    check(
        &[
            "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: -4}}",
            "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {taints: [{key: a, effect: Sometimes}]}",
            "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: a}\nspec: {requirements: [{key: a, operator: Is}]}",
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {}",
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{resources: {requests: {cpu: x}}}]}}}",
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {template: {spec: {tolerations: [{operator: Is}]}}}",
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {minAvailable: 1, maxUnavailable: 1}",
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {minAvailable: most}",
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\nspec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: z, operator: At}]}]}}}",
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: a}",
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: a}\nprovisioner: p\nallowedTopologies: [{matchLabelExpressions: [{key: z}]}]",
            "apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: a}\nspec: {drivers: [{name: d, allocatable: {count: -1}}]}",
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}",
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a}\nspec: {selector: {matchExpressions: [{key: a, operator: In}]}}",
            "apiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\nspec: {limits: [{type: Container, max: {cpu: much}}]}",
        ],
        expect![[r#"
            cluster.yaml:4 (document 1): Node a: status.allocatable[cpu]: quantity `-4` is negative; amounts start at 0
            cluster.yaml:4 (document 1): Node a: spec.taints[0].effect: `Sometimes` is not an effect of a taint; expected NoSchedule, PreferNoSchedule or NoExecute
            cluster.yaml:4 (document 1): NodeClaim a: spec.requirements[0].operator: unknown operator `Is`; expected In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte
            cluster.yaml:4 (document 1): DaemonSet default/a: spec.template.spec: is missing; a workload needs a pod template
            cluster.yaml:4 (document 1): DaemonSet default/a: spec.template.spec.containers[0].resources.requests[cpu]: quantity `x` does not start with a number; write it like 500m, 2 or 4Gi
            cluster.yaml:4 (document 1): DaemonSet default/a: spec.template.spec.tolerations[0].operator: unknown operator `Is`; expected Exists or Equal
            cluster.yaml:4 (document 1): PodDisruptionBudget default/a: spec: has both minAvailable and maxUnavailable; remove one
            cluster.yaml:4 (document 1): PodDisruptionBudget default/a: spec.minAvailable: `most` is neither a count nor a percentage; write it like 1 or "10%"
            cluster.yaml:4 (document 1): PersistentVolume a: spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator: unknown operator `At`; expected In, NotIn, Exists, DoesNotExist, Gt or Lt
            cluster.yaml:1 (document 1): StorageClass a: provisioner: is missing; name the CSI driver
            cluster.yaml:5 (document 1): StorageClass a: allowedTopologies[0].matchLabelExpressions[0]: has no key or no values; give both
            cluster.yaml:4 (document 1): CSINode a: spec.drivers[0].allocatable.count: -1 is out of range; it starts at 0
            cluster.yaml:1 (document 1): PriorityClass a: value: is missing; a PriorityClass needs a number
            cluster.yaml:4 (document 1): ReplicaSet default/a: spec.selector.matchExpressions[0].values: In of `a` has no values; list at least one value, or use Exists or DoesNotExist
            cluster.yaml:4 (document 1): LimitRange default/a: spec.limits[0].max[cpu]: quantity `much` does not start with a number; write it like 500m, 2 or 4Gi
        "#]],
    );
}

#[test]
fn a_move_cost_that_cannot_be_read_does_not_keep_its_node_pool_out() {
    let pool = |cost: &str| {
        let (world, problems) = read_bytes(
            format!(
                "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: main\n  \
                 annotations: {{longshore.dev/move-cost: '{cost}'}}\nspec: {{template: {{spec: \
                 {{nodeClassRef: {{group: g.io, kind: KWOKNodeClass, name: default}}}}}}}}\n"
            )
            .as_bytes(),
        );
        format!("{cost:?} is {:?}\n{problems}", world.pools[0].move_cost)
    };
    let costs = ["25%", " 0.002 ", "0", "-1", "1e999", "%", "ten"];
    let report: String = costs.map(pool).concat();
    expect![[r#"
        "25%" is Some(Share(0.25))
        " 0.002 " is Some(Amount(0.002))
        "0" is Some(Amount(0.0))
        "-1" is None
        cluster.yaml:5 (document 1): NodePool main: metadata.annotations[longshore.dev/move-cost]: `-1` is neither a share nor an amount of USD per hour; write it as "10%" or "0.002"; until then the default counts
        "1e999" is None
        cluster.yaml:5 (document 1): NodePool main: metadata.annotations[longshore.dev/move-cost]: `1e999` is neither a share nor an amount of USD per hour; write it as "10%" or "0.002"; until then the default counts
        "%" is None
        cluster.yaml:5 (document 1): NodePool main: metadata.annotations[longshore.dev/move-cost]: `%` is neither a share nor an amount of USD per hour; write it as "10%" or "0.002"; until then the default counts
        "ten" is None
        cluster.yaml:5 (document 1): NodePool main: metadata.annotations[longshore.dev/move-cost]: `ten` is neither a share nor an amount of USD per hour; write it as "10%" or "0.002"; until then the default counts
    "#]].assert_eq(&report);
}

#[test]
fn a_pod_that_cannot_be_read_takes_what_can_be_read_of_its_requests() {
    let takes = |spec: &str| {
        let labels = "metadata: {name: a, labels: {app: web}}";
        let text = format!("apiVersion: v1\nkind: Pod\n{labels}\nspec: {spec}");
        let (world, problems) = read_bytes(text.as_bytes());
        let pod = &world.pods[0];
        assert!(pod.unreadable, "{spec}");
        let shape = world.shapes.get(pod.shape);
        assert_eq!(shape.labels.iter().count(), 1);
        let amounts = shape.requests.iter().map(|(resource, amount)| {
            let full = amount == i64::MAX;
            let amount = if full {
                "all".into()
            } else {
                amount.to_string()
            };
            format!("{} {amount}", resource.name(&world.names))
        });
        let amounts = amounts.collect::<Vec<_>>().join(", ");
        let problem = problems.list[0].to_string();
        let word = problem
            .split("; ")
            .find(|part| part.contains("its node counts"));
        format!("{amounts}: {}", word.unwrap_or("no word"))
    };
    let one = |resources: &str| format!("{{name: c, resources: {resources}}}");
    let two = |first: &str| {
        let second = one("{requests: {cpu: 2, memory: 1Ki}}");
        format!("{{nodeName: n1, priority: much, containers: [{first}, {second}]}}")
    };
    for (spec, wanted) in [
        (
            two(&one("{requests: {cpu: 500m}}")),
            "cpu 2500, memory 1024, pods 1: no word",
        ),
        (
            two(&one("{requests: {cpu: -1}, limits: {memory: 1Ki}}")),
            "cpu all, memory 2048, pods 1: until then its node counts as full of cpu",
        ),
        (
            two(&one("{requests: {cpu: 1}, limits: {cpu: some}}")),
            "cpu 3000, memory 1024, pods 1: no word",
        ),
        (
            two("5"),
            "cpu all, memory all, pods 1: until then its node counts as full of cpu, memory",
        ),
        (
            "{nodeName: n1, containers: 5}".to_owned(),
            "cpu all, memory all, pods 1: until then its node counts as full of cpu, memory",
        ),
    ] {
        assert_eq!(takes(&spec), wanted, "{spec}");
    }
}

#[test]
fn a_pod_that_cannot_be_read_keeps_its_host_ports_and_claims() {
    let keeps = |spec: &str| {
        let labels = "metadata: {name: a, labels: {app: web}}";
        let text = format!(
            "apiVersion: v1\nkind: Pod\n{labels}\nspec: {{nodeName: n1, priority: much, {spec}}}"
        );
        let (world, _) = read_bytes(text.as_bytes());
        let pod = &world.pods[0];
        assert!(pod.unreadable, "{spec}");
        let ports = &world.shapes.get(pod.shape).ports;
        let ports = ports.iter().map(|port| port.port.to_string());
        let claims = pod
            .claims
            .iter()
            .map(|claim| world.names.text(*claim).to_owned());
        ports.chain(claims).collect::<Vec<_>>().join(" ")
    };
    for (spec, wanted) in [
        (
            "containers: [{ports: [{hostPort: 80}, {containerPort: 81}]}]",
            "80",
        ),
        (
            "hostNetwork: true, containers: [{ports: [{containerPort: 81}]}]",
            "81",
        ),
        (
            "containers: [{ports: [{hostPort: many}, {hostPort: 82}]}, 7]",
            "82",
        ),
        (
            "initContainers: [{ports: [{hostPort: 83}]}, {restartPolicy: Always, ports: [{hostPort: 84}]}]",
            "84",
        ),
        (
            "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}, {name: w, ephemeral: {}}]",
            "data a-w",
        ),
        (
            "volumes: [5, {name: v, persistentVolumeClaim: {claimName: data}}]",
            "data",
        ),
        ("volumes: none", ""),
    ] {
        assert_eq!(keeps(spec), wanted, "{spec}");
    }
}

#[test]
fn a_pod_that_cannot_be_read_is_on_its_node_if_that_can() {
    let held = |text: &str| {
        let mut reader = crate::manifests::Reader::of_manifests();
        reader.read(
            "cluster.yaml",
            format!("apiVersion: v1\nkind: Pod\n{text}").as_bytes(),
        );
        let (world, problems) = reader.finish();
        assert_eq!(problems.list.len(), 1, "{problems}");
        let pods = world.pods.iter().filter(|pod| pod.unreadable);
        let lines = pods.map(|pod| {
            let node = pod.node.map(|node| world.names.text(node));
            format!("{} on {}", pod.name, node.unwrap_or("no node"))
        });
        lines.collect::<Vec<_>>().join(", ")
    };
    let on_n1 = "spec: {nodeName: n1, containers: [{name: a}]}";
    for (text, wanted) in [
        (
            format!("metadata: {{name: a, labels: {{b: [1]}}}}\n{on_n1}"),
            "a on n1",
        ),
        (format!("metadata: {{name: a_B}}\n{on_n1}"), "a_B on n1"),
        (
            format!("metadata: {{generateName: a-}}\n{on_n1}"),
            "a- on n1",
        ),
        (format!("metadata: 5\n{on_n1}"), "? on n1"),
        (
            "metadata: {name: a}\nspec: {nodeName: n1, containers: 7}".to_owned(),
            "a on n1",
        ),
        ("metadata: {name: a}\nspec: 7".to_owned(), "a on no node"),
    ] {
        assert_eq!(held(&text), wanted, "{text}");
    }
}

/// A status that cannot be read in part: what is known without it, and the problems.
fn passed_over(manifest: &str) -> (longshore_core::model::ClusterObjects, String) {
    let mut reader = crate::manifests::Reader::new();
    reader.read("s.yaml", manifest.as_bytes());
    let (world, problems) = reader.finish();
    (world, problems.to_string())
}

#[test]
fn a_status_that_cannot_be_read_hides_no_object() {
    let (world, said) = passed_over(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {maxUnavailable: 1, selector: {}}\nstatus: {disruptionsAllowed: many}\n\
         ---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {capacity: {cpu: [4]}, allocatable: {cpu: 4}, conditions: [{type: 5}, {type: Ready, status: 'True'}]}\n\
         ---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\nstatus: {startTime: later}\n",
    );
    assert_eq!((world.budgets.len(), world.pods.len()), (1, 1));
    assert_eq!(world.budgets[0].allowed, 0);
    let node = world.nodes.iter().next().unwrap();
    assert!(node.ready);
    let protected = world.names.get("karpenter.sh/do-not-disrupt").unwrap();
    assert!(node.annotations.get(protected).is_some());
    for part in [
        "status.disruptionsAllowed",
        "status.capacity.cpu",
        "status.conditions[0].type",
        "status.startTime",
    ] {
        let is_said = said
            .lines()
            .any(|line| line.contains(part) && line.contains("passed over"));
        assert!(is_said, "{part}: {said}");
    }
}
