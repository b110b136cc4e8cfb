//! Volumes: claims, volumes, classes, and limits per node. Drivers that were once part of
//! Kubernetes get the name of the CSI driver that replaced them.

use longshore_core::model::storage::{CsiNode, StorageClass, Volume, VolumeClaim};
use longshore_core::model::{Op, Requirement};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ObjectsBuilder;
use super::diagnostic::{Fault, Path};
use super::object::symbol;
use super::pod::WireNodeSelector;
use super::requirement::{Of, requirements};
use super::wire::{List, Meta, Text, only_from_maps};
use crate::labels;

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

only_from_maps!(
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
        deleting: meta.deletion_timestamp.is_some(),
    };
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
    let volume = Volume {
        name: names.intern(meta.name.as_deref().unwrap_or_default()),
        node_affinity,
        driver: driver.map(|driver| names.intern(driver)),
        local: spec.local.is_some() || spec.host_path.is_some(),
        deleting: meta.deletion_timestamp.is_some(),
    };
    objects.world.volumes.push(volume);
    Ok(())
}

/// Takes a StorageClass in.
pub(super) fn read_class(wire: WireClass<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let names = &mut objects.world.names;
    let meta = &wire.metadata;
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
                names.intern(labels::stable(&label.key)),
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
    };
    objects.world.storage_classes.push(class);
    Ok(())
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
