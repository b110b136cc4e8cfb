//! Volumes: claims, volumes, classes, and limits per node. Drivers that were once part of
//! Kubernetes get the name of the CSI driver that replaced them.

use longshore_core::model::storage::{
    AccessModes, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume, VolumeAttachment,
    VolumeClaim,
};
use longshore_core::model::{Op, Requirement, fields};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::builder::ObjectsBuilder;
use super::diagnostic::{Fault, Path};
use super::object::{amount, created, symbol};
use super::pod::WireNodeSelector;
use super::requirement::{Of, requirements};
use super::selector::{WireSelector, selector};
use super::wire::{Amount, List, Map, Meta, Text, WireClaimResources, only_from_maps};
use crate::labels;

/// Names the node for which a volume is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireClaim<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireClaimSpec<'a>>,
    #[serde(borrow)]
    status: Option<WireClaimStatus<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireClaimSpec<'a> {
    #[serde(borrow)]
    volume_name: Option<Text<'a>>,
    #[serde(borrow)]
    storage_class_name: Option<Text<'a>>,
    #[serde(borrow)]
    access_modes: List<Text<'a>>,
    #[serde(borrow)]
    volume_mode: Option<Text<'a>>,
    #[serde(borrow)]
    resources: Option<WireClaimResources<'a>>,
    #[serde(borrow)]
    selector: Option<WireSelector<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireClaimStatus<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireVolume<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireVolumeSpec<'a>>,
    #[serde(borrow)]
    status: Option<WireClaimStatus<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireVolumeSpec<'a> {
    #[serde(borrow)]
    node_affinity: Option<WireVolumeAffinity<'a>>,
    #[serde(borrow)]
    csi: Option<WireCsiSource<'a>>,
    aws_elastic_block_store: Option<IgnoredAny>,
    gce_persistent_disk: Option<IgnoredAny>,
    azure_disk: Option<IgnoredAny>,
    azure_file: Option<IgnoredAny>,
    cinder: Option<IgnoredAny>,
    vsphere_volume: Option<IgnoredAny>,
    portworx_volume: Option<IgnoredAny>,
    rbd: Option<IgnoredAny>,
    local: Option<IgnoredAny>,
    host_path: Option<IgnoredAny>,
    #[serde(borrow)]
    storage_class_name: Option<Text<'a>>,
    #[serde(borrow)]
    access_modes: List<Text<'a>>,
    #[serde(borrow)]
    volume_mode: Option<Text<'a>>,
    #[serde(borrow)]
    capacity: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    claim_ref: Option<WireClaimRef<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireClaimRef<'a> {
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireVolumeAffinity<'a> {
    #[serde(borrow)]
    required: Option<WireNodeSelector<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireCsiSource<'a> {
    #[serde(borrow)]
    driver: Text<'a>,
    #[serde(borrow, rename = "volumeHandle")]
    handle: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireClass<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    provisioner: Text<'a>,
    #[serde(borrow)]
    volume_binding_mode: Option<Text<'a>>,
    #[serde(borrow)]
    allowed_topologies: List<WireTopology<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireTopology<'a> {
    #[serde(borrow)]
    match_label_expressions: List<WireTopologyLabel<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireTopologyLabel<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    values: List<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireCsiNode<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireCsiNodeSpec<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireCsiNodeSpec<'a> {
    #[serde(borrow)]
    drivers: List<WireDriver<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireDriver<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    allocatable: Option<WireDriverLimit>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireDriverLimit {
    count: Option<i64>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireCsiDriver<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    spec: Option<WireCsiDriverSpec>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireCsiDriverSpec {
    storage_capacity: Option<bool>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireCapacity<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    storage_class_name: Text<'a>,
    #[serde(borrow)]
    node_topology: Option<WireSelector<'a>>,
    #[serde(borrow)]
    capacity: Option<Amount<'a>>,
    #[serde(borrow)]
    maximum_volume_size: Option<Amount<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireAttachment<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireAttachmentSpec<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireAttachmentSpec<'a> {
    #[serde(borrow)]
    attacher: Text<'a>,
    #[serde(borrow)]
    node_name: Text<'a>,
    #[serde(borrow)]
    source: Option<WireAttachmentSource<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireAttachmentSource<'a> {
    #[serde(borrow)]
    persistent_volume_name: Option<Text<'a>>,
}

only_from_maps!(
    WireClaimRef<'a>,
    WireCsiDriver<'a>,
    WireCsiDriverSpec,
    WireCapacity<'a>,
    WireAttachment<'a>,
    WireAttachmentSpec<'a>,
    WireAttachmentSource<'a>,
    WireClaim<'a>,
    WireClaimSpec<'a>,
    WireClaimStatus<'a>,
    WireVolume<'a>,
    WireVolumeSpec<'a>,
    WireVolumeAffinity<'a>,
    WireCsiSource<'a>,
    WireClass<'a>,
    WireTopology<'a>,
    WireTopologyLabel<'a>,
    WireCsiNode<'a>,
    WireCsiNodeSpec<'a>,
    WireDriver<'a>,
    WireDriverLimit
);

/// The CSI driver that took over from a provisioner inside Kubernetes; any other provisioner is its
/// own driver.
fn csi_driver(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        "kubernetes.io/rbd" => "rbd.csi.ceph.com",
        other => other,
    }
}

/// Takes a PersistentVolumeClaim in.
pub(super) fn read_claim(wire: WireClaim<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let meta = &wire.metadata;
    let namespace = objects.namespace(meta);
    let names = &mut objects.world.names;
    let spec = wire.spec.unwrap_or_default();
    let status = wire.status.unwrap_or_default();
    let class = spec
        .storage_class_name
        .as_deref()
        .or_else(|| meta.annotation(labels::BETA_STORAGE_CLASS));
    let claim = VolumeClaim {
        namespace,
        name: names.intern(meta.name.as_deref().unwrap_or_default()),
        volume: symbol(&spec.volume_name, names),
        class: class.map(|class| names.intern(class)),
        lost: status.phase.as_deref() == Some("Lost"),
        bound: status.phase.as_deref() == Some("Bound")
            || meta.annotation(labels::BIND_COMPLETED).is_some(),
        selected_node: meta
            .annotation(SELECTED_NODE)
            .filter(|node| !node.is_empty())
            .map(|node| names.intern(node)),
        modes: AccessModes::named(spec.access_modes.iter().map(|mode| &**mode)),
        storage: storage(
            spec.resources.as_ref().map(|wire| &wire.requests),
            Path::Root.field("spec.resources.requests"),
        )?,
        block: spec.volume_mode.as_deref() == Some("Block"),
        selector: match &spec.selector {
            None => None,
            wire => Some(selector(
                wire.as_ref(),
                Path::Root.field("spec.selector"),
                names,
            )?),
        },
        deleting: meta.deletion_timestamp.is_some(),
    };
    if claim.selected_node.is_some() {
        names.intern(fields::NAME);
    }
    objects.world.volume_claims.push(claim);
    Ok(())
}

/// Takes a PersistentVolume in.
pub(super) fn read_volume(wire: WireVolume<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let meta = &wire.metadata;
    let names = &mut objects.world.names;
    let spec = wire.spec.unwrap_or_default();
    let in_tree = [
        (&spec.aws_elastic_block_store, "kubernetes.io/aws-ebs"),
        (&spec.gce_persistent_disk, "kubernetes.io/gce-pd"),
        (&spec.azure_disk, "kubernetes.io/azure-disk"),
        (&spec.azure_file, "kubernetes.io/azure-file"),
        (&spec.cinder, "kubernetes.io/cinder"),
        (&spec.vsphere_volume, "kubernetes.io/vsphere-volume"),
        (&spec.portworx_volume, "kubernetes.io/portworx-volume"),
        (&spec.rbd, "kubernetes.io/rbd"),
    ];
    let in_tree = in_tree
        .iter()
        .find(|(source, _)| source.is_some())
        .map(|(_, provisioner)| csi_driver(provisioner));
    let driver = spec
        .csi
        .as_ref()
        .map(|csi| csi_driver(&csi.driver))
        .or(in_tree);
    let mut node_affinity = Vec::new();
    if let Some(required) = spec
        .node_affinity
        .as_ref()
        .and_then(|affinity| affinity.required.as_ref())
    {
        let at = Path::Root.field("spec.nodeAffinity.required.nodeSelectorTerms");
        for (index, term) in required.node_selector_terms.iter().enumerate() {
            let at = at.index(index);
            node_affinity.push(requirements(
                &term.match_expressions,
                Of::Affinity,
                at.field("matchExpressions"),
                names,
            )?);
        }
    }
    let status = wire.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let volume = Volume {
        name: names.intern(meta.name.as_deref().unwrap_or_default()),
        node_affinity,
        driver: driver.map(|driver| names.intern(driver)),
        local: spec.local.is_some() || spec.host_path.is_some(),
        labels: super::object::labels(&meta.labels, names),
        handle: spec.csi.as_ref().and_then(|csi| symbol(&csi.handle, names)),
        class: symbol(&spec.storage_class_name, names),
        claim: spec
            .claim_ref
            .as_ref()
            .map(|claim| (names.intern(&claim.namespace), names.intern(&claim.name))),
        available: matches!(phase, None | Some("" | "Available" | "Pending")),
        released: matches!(phase, Some("Released" | "Failed")),
        modes: AccessModes::named(spec.access_modes.iter().map(|mode| &**mode)),
        storage: storage(Some(&spec.capacity), Path::Root.field("spec.capacity"))?,
        block: spec.volume_mode.as_deref() == Some("Block"),
        deleting: meta.deletion_timestamp.is_some(),
    };
    objects.world.volumes.push(volume);
    Ok(())
}

/// Takes a StorageClass in.
pub(super) fn read_class(wire: WireClass<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let meta = &wire.metadata;
    let created = created(meta)?;
    if wire.provisioner.is_empty() {
        return Err(Path::Root
            .field("provisioner")
            .fault("is missing", "name the CSI driver"));
    }
    let at = Path::Root.field("allowedTopologies");
    let mut topologies = Vec::new();
    for (index, topology) in wire.allowed_topologies.iter().enumerate() {
        let mut all = Vec::new();
        for (entry, label) in topology.match_label_expressions.iter().enumerate() {
            if label.key.is_empty() || label.values.is_empty() {
                let at = at.index(index);
                let at = at.field("matchLabelExpressions");
                return Err(at
                    .index(entry)
                    .fault("has no key or no values", "give both"));
            }
            let values = label
                .values
                .iter()
                .map(|value| names.intern(value))
                .collect();
            all.push(Requirement::new(
                names.intern(labels::of_topology(&label.key)),
                Op::In(values),
            ));
        }
        topologies.push(all);
    }
    let class = StorageClass {
        name: names.intern(meta.name.as_deref().unwrap_or_default()),
        provisioner: names.intern(csi_driver(&wire.provisioner)),
        topologies,
        wait_for_consumer: wire.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
        default: labels::DEFAULT_CLASS
            .iter()
            .any(|key| meta.annotation(key) == Some("true")),
        created,
    };
    objects.world.storage_classes.push(class);
    Ok(())
}

/// Takes a CSIDriver in.
pub(super) fn read_csi_driver(
    wire: WireCsiDriver<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let driver = CsiDriver {
        name: names.intern(csi_driver(
            wire.metadata.name.as_deref().unwrap_or_default(),
        )),
        counts_capacity: wire.spec.and_then(|spec| spec.storage_capacity) == Some(true),
    };
    objects.world.csi_drivers.push(driver);
    Ok(())
}

/// Takes a CSIStorageCapacity in.
pub(super) fn read_capacity(
    wire: WireCapacity<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let namespace = objects.namespace(&wire.metadata);
    let names = &mut objects.world.names;
    let largest = match wire.maximum_volume_size.as_ref().or(wire.capacity.as_ref()) {
        None => 0,
        Some(size) => amount("storage", size, Path::Root.field("capacity"))?,
    };
    let topology = selector(
        wire.node_topology.as_ref(),
        Path::Root.field("nodeTopology"),
        names,
    )?;
    let capacity = StorageCapacity {
        namespace,
        name: names.intern(wire.metadata.name.as_deref().unwrap_or_default()),
        class: names.intern(&wire.storage_class_name),
        topology,
        largest,
    };
    // New nodes are told apart from those that are there.
    names.intern(fields::NAME);
    objects.world.storage_capacities.push(capacity);
    Ok(())
}

/// Takes a VolumeAttachment in.
pub(super) fn read_attachment(
    wire: WireAttachment<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let spec = wire.spec.unwrap_or_default();
    let source = spec.source.unwrap_or_default();
    let attachment = VolumeAttachment {
        name: names.intern(wire.metadata.name.as_deref().unwrap_or_default()),
        driver: names.intern(csi_driver(&spec.attacher)),
        node: names.intern(&spec.node_name),
        volume: symbol(&source.persistent_volume_name, names),
    };
    objects.world.attachments.push(attachment);
    Ok(())
}

/// The storage that a claim asks for or a volume has, bytes.
fn storage(map: Option<&Map<'_, Amount<'_>>>, at: Path<'_>) -> Result<i64, Fault> {
    match map.and_then(|map| map.get("storage")) {
        None => Ok(0),
        Some(size) => amount("storage", size, at.field("storage")),
    }
}

/// Takes a CSINode in.
pub(super) fn read_csi_node(
    wire: WireCsiNode<'_>,
    objects: &mut ObjectsBuilder,
) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let spec = wire.spec.unwrap_or_default();
    let at = Path::Root.field("spec.drivers");
    let mut drivers = Vec::new();
    for (index, driver) in spec.drivers.iter().enumerate() {
        let count = match driver.allocatable.as_ref().and_then(|limit| limit.count) {
            None => None,
            Some(count) => match u32::try_from(count) {
                Ok(count) => Some(count),
                Err(_) => {
                    let at = at.index(index);
                    return Err(at
                        .field("allocatable.count")
                        .fault(format!("{count} is out of range"), "it starts at 0"));
                }
            },
        };
        drivers.push((names.intern(csi_driver(&driver.name)), count));
    }
    let name = names.intern(wire.metadata.name.as_deref().unwrap_or_default());
    objects.world.csi_nodes.push(CsiNode { name, drivers });
    Ok(())
}
