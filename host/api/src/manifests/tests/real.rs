//! What running clusters hold beside the plain cases: pods that are resized in place, pods of which a
//! part cannot be read, features of kubelets, volumes with their handles and labels.

use longshore_core::model::storage::AccessModes;
use longshore_core::model::{ClusterObjects, ResourceId, fields};

use super::read;

fn good(text: &str) -> ClusterObjects {
    let (world, problems) = read(text);
    assert_eq!(problems.to_string(), "");
    world
}

/// CPU in thousandths that a pod of one container counts with.
fn cpu(spec: &str, status: &str) -> i64 {
    let world = good(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {spec}, status: {status}}}"
    ));
    let pod = &world.pods[0];
    assert_eq!(pod.invalid, None);
    world.shapes.get(pod.shape).requests.get(ResourceId::Cpu)
}

fn one(cpu: &str) -> String {
    format!("{{containers: [{{name: c, resources: {{requests: {{cpu: '{cpu}'}}}}}}]}}")
}

fn has(resources: &str, allocated: &str, conditions: &str) -> String {
    format!(
        "{{containerStatuses: [{{name: c, resources: {{requests: {{cpu: '{resources}'}}}}, \
        allocatedResources: {{cpu: '{allocated}'}}}}], conditions: [{conditions}]}}"
    )
}

const INFEASIBLE: &str = "{type: PodResizePending, status: 'True', reason: Infeasible}";
const DEFERRED: &str = "{type: PodResizePending, status: 'True', reason: Deferred}";
const IN_PROGRESS: &str = "{type: PodResizeInProgress, status: 'True'}";

#[test]
fn a_pod_that_is_resized_counts_with_the_most_that_it_may_have() {
    assert_eq!(cpu(&one("3"), "{}"), 3000);
    assert_eq!(cpu(&one("3"), "{containerStatuses: [{name: c}]}"), 3000);
    assert_eq!(cpu(&one("3"), &has("1", "1", DEFERRED)), 3000);
    assert_eq!(cpu(&one("3"), &has("1", "1", "")), 3000);
    assert_eq!(
        cpu(&one("1"), &has("3", "3", IN_PROGRESS)),
        3000,
        "it shrinks"
    );
    assert_eq!(cpu(&one("1"), &has("1", "2", "")), 2000, "it grows");
}

#[test]
fn a_resize_that_can_never_be_does_not_count() {
    assert_eq!(cpu(&one("3"), &has("1", "1", INFEASIBLE)), 1000);
    assert_eq!(cpu(&one("1"), &has("3", "1", INFEASIBLE)), 3000);
}

#[test]
fn the_status_of_another_container_says_nothing() {
    let two = "{containers: [{name: c, resources: {requests: {cpu: 1}}}, {name: d, resources: \
        {requests: {cpu: 1}}}], initContainers: [{name: s, restartPolicy: Always, resources: \
        {requests: {cpu: 1}}}]}";
    assert_eq!(cpu(two, &has("2", "2", "")), 4000);
    let sidecar = "{initContainerStatuses: [{name: s, resources: {requests: {cpu: 5}}}]}";
    assert_eq!(cpu(two, sidecar), 7000);
}

#[test]
fn a_pod_that_is_resized_as_a_whole_counts_by_its_own_status() {
    let whole = "{resources: {requests: {cpu: 2}}, containers: [{name: c}]}";
    let status = |conditions: &str| {
        format!(
            "{{resources: {{requests: {{cpu: 5}}}}, allocatedResources: {{cpu: 4}}, conditions: \
            [{conditions}]}}"
        )
    };
    assert_eq!(cpu(whole, &status("")), 5000);
    let grown = "{resources: {requests: {cpu: 7}}, containers: [{name: c}]}";
    assert_eq!(cpu(grown, &status(DEFERRED)), 7000);
    assert_eq!(cpu(grown, &status(INFEASIBLE)), 5000);
}

/// What is known of a pod with such a spec beside the fault: tolerations, ports, terms of affinity,
/// of anti-affinity, spread constraints.
fn known(spec: &str) -> (String, [usize; 5]) {
    let world = good(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: a, labels: {{app: w}}}}, spec: {spec}}}"
    ));
    let pod = &world.pods[0];
    let shape = world.shapes.get(pod.shape);
    let counts = [
        shape.tolerations.len(),
        shape.ports.len(),
        shape.affinity.len(),
        shape.anti_affinity.len(),
        shape.spread.len(),
    ];
    (
        pod.invalid.as_deref().unwrap_or_default().to_owned(),
        counts,
    )
}

const TERM: &str = "{topologyKey: rack, labelSelector: {matchLabels: {app: w}}}";

#[test]
fn a_part_of_a_pod_that_cannot_be_read_leaves_the_rest() {
    let anti =
        format!("podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{TERM}]}}");
    let both = format!(
        "podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{TERM}]}}, {anti}"
    );
    let rest = "containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}], \
        topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: \
        DoNotSchedule, labelSelector: {matchLabels: {app: w}}}]";
    let (why, counts) = known(&format!(
        "{{tolerations: [{{key: a, operator: Gt, value: '9'}}, {{key: b, operator: Exists}}], \
        affinity: {{{both}}}, {rest}}}"
    ));
    assert!(
        why.starts_with("spec.tolerations[0].operator: unknown operator `Gt`"),
        "{why}"
    );
    assert_eq!(counts, [1, 1, 1, 1, 1]);
    let fields = "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
        {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}";
    let (why, counts) = known(&format!("{{affinity: {{{fields}, {both}}}, {rest}}}"));
    assert!(why.contains("matchFields"), "{why}");
    assert_eq!(counts, [0, 1, 1, 1, 1]);
    let two = format!(
        "podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{labelSelector: \
        {{}}}}, {TERM}]}}"
    );
    let (why, counts) = known(&format!("{{affinity: {{{two}}}, {rest}}}"));
    assert!(why.contains("topologyKey"), "{why}");
    assert_eq!(counts, [0, 1, 0, 1, 1]);
}

#[test]
fn a_pod_of_a_group_is_refused_by_the_name_of_the_group() {
    let (why, _) = known("{containers: [{name: c}], schedulingGroup: {podGroupName: train}}");
    assert_eq!(
        why,
        "spec.schedulingGroup: names PodGroup `train`; pods of a group are not planned for yet, for \
        they are bound all or none"
    );
}

#[test]
fn features_of_kubelets_are_labels_that_no_node_can_have() {
    let world = good(
        "
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c, restartPolicyRules: [{action: Restart}]}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: new}, status: {declaredFeatures: [RestartAllContainersOnContainerExits, Other]}}
---
{apiVersion: v1, kind: Node, metadata: {name: old}, spec: {unschedulable: true}}
---
{apiVersion: v1, kind: Node, metadata: {name: tainted}, spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}}
",
    );
    let asked = |at: usize| &world.shapes.get(world.pods[at].shape).node_selector;
    assert_eq!(
        world.names.text(asked(0)[0].key),
        fields::RESTART_ALL_CONTAINERS
    );
    assert!(asked(1).is_empty());
    let declared: Vec<usize> = world.nodes.iter().map(|node| node.features.len()).collect();
    assert_eq!(declared, [1, 0, 0]);
    let cordons: Vec<bool> = world
        .nodes
        .iter()
        .map(|node| node.cordon.is_some())
        .collect();
    assert_eq!(cordons, [false, true, false]);
}

#[test]
fn volumes_and_claims_say_what_binding_them_needs() {
    let world = good("
{apiVersion: v1, kind: PersistentVolume, metadata: {name: a, labels: {topology.kubernetes.io/zone: z}}, spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce, ReadOnlyMany], storageClassName: late, volumeMode: Block, csi: {driver: x.io, volumeHandle: h}, claimRef: {namespace: n, name: c}}, status: {phase: Released}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: n, annotations: {volume.kubernetes.io/selected-node: gone}}, spec: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Gi}}, selector: {matchLabels: {tier: fast}}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: x.io}, spec: {storageCapacity: true}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: k, namespace: n}, storageClassName: late, capacity: 9Gi, maximumVolumeSize: 4Gi, nodeTopology: {matchLabels: {rack: r}}}
---
{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: v}, spec: {attacher: x.io, nodeName: node, source: {persistentVolumeName: a}}}
");
    let text = |sym| world.names.text(sym);
    let volume = &world.volumes[0];
    assert!(volume.block && !volume.available && volume.labels.iter().count() == 1);
    assert_eq!(volume.handle.map(text), Some("h"));
    assert_eq!(volume.class.map(text), Some("late"));
    assert_eq!(
        volume.claim.map(|(n, c)| (text(n), text(c))),
        Some(("n", "c"))
    );
    assert_eq!((volume.modes, volume.storage), (AccessModes(0b11), 5 << 30));
    let claim = &world.volume_claims[0];
    assert!(claim.modes.one_pod() && claim.selector.is_some() && !claim.block);
    assert_eq!(claim.selected_node.map(text), Some("gone"));
    assert_eq!(claim.storage, 1 << 30);
    assert!(world.csi_drivers[0].counts_capacity);
    let capacity = &world.storage_capacities[0];
    assert_eq!((text(capacity.class), capacity.largest), ("late", 4 << 30));
    let attached = &world.attachments[0];
    assert_eq!(
        (text(attached.node), attached.volume.map(text)),
        ("node", Some("a"))
    );
}
