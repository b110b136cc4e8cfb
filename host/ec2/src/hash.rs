//! The drift hash of an EC2NodeClass: which nodes were made from a class that has changed since.
//!
//! The number must be Karpenter's own, version `v6`, or every node would drift when a cluster
//! migrates. The primitives are those of [`longshore_api::crd::hash`]. Four things are hashed as a
//! set: the spec, the resolved family of images, the cluster's CA bundle, and the kubelet's
//! settings as JSON text. So the order of `clusterDNS` and the spelling of a duration count.
//!
//! The hash does not cover what is compared with the instance itself: selectors of subnets,
//! security groups, capacity reservations and images. It does not cover `ipPrefixCount` either. An
//! empty list or map that is present is not absent.

mod canonical;
pub mod migration;

use longshore_api::crd::hash::structure::{self, Field, boolean, int32, int64, some, text};
use longshore_api::crd::{NodePool, admission, hash::nodepool_hash};
use longshore_api::manifests::{Diagnostic, Diagnostics, Document, documents};
use serde::Serialize;

use crate::nodeclass::{
    self, BlockDevice, BlockDeviceMapping, ConnectionTracking, EC2NodeClass, EC2NodeClassSpec,
    MetadataOptions, NetworkInterface, PlacementGroupSelector,
};

/// The version of the hash, as written beside it.
pub const VERSION: &str = "v6";

/// A volume size that the schema refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a size of a volume: {size:?}")]
pub struct NotAVolumeSize {
    /// The mapping's index in `spec.blockDeviceMappings`.
    pub index: usize,
    /// The size as written.
    pub size: String,
}

/// The hash of a class in a cluster, as written in annotations: a decimal number. `ca_bundle` is
/// the cluster's CA certificate in base64. Fails on a volume size that the schema refuses.
pub fn nodeclass_hash(
    class: &EC2NodeClass,
    ca_bundle: Option<&str>,
) -> Result<String, NotAVolumeSize> {
    let spec = &class.spec;
    let kubelet = canonical::kubelet(spec.kubelet.as_ref());
    let all = spec_hash(spec)?
        ^ text(spec.family().as_str())
        ^ text(ca_bundle.unwrap_or_default())
        ^ text(&kubelet);
    Ok(all.to_string())
}

fn spec_hash(spec: &EC2NodeClassSpec) -> Result<u64, NotAVolumeSize> {
    let disks = spec.block_device_mappings.as_ref().map(|list| {
        list.iter()
            .enumerate()
            .try_fold(0, |all, (index, one)| Ok(all ^ mapping(index, one)?))
    });
    let interfaces = spec
        .network_interfaces
        .as_ref()
        .map(|list| list.iter().fold(0, |all, one| all ^ interface(one)));
    let policy = spec.instance_store_policy.map(|_| text("RAID0"));
    // In the order of Karpenter's declaration, which counts.
    let fields: [Field; 15] = [
        (
            "PlacementGroupSelector",
            spec.placement_group_selector.as_ref().map(placement_group),
        ),
        (
            "AssociatePublicIPAddress",
            spec.associate_public_ip_address.map(boolean),
        ),
        ("UserData", spec.user_data.as_deref().map(text)),
        ("Role", spec.role.as_deref().and_then(some)),
        (
            "InstanceProfile",
            spec.instance_profile.as_deref().map(text),
        ),
        ("Tags", spec.tags.as_ref().map(structure::map)),
        ("BlockDeviceMappings", disks.transpose()?),
        ("InstanceStorePolicy", policy),
        ("NetworkInterfaces", interfaces),
        ("DetailedMonitoring", spec.detailed_monitoring.map(boolean)),
        (
            "MetadataOptions",
            // The default is one of the spec's fields: an object without a spec has none.
            (*spec != EC2NodeClassSpec::default()).then(|| metadata(&spec.metadata_options)),
        ),
        (
            "EnclaveOptions",
            spec.enclave_options.as_ref().map(|options| {
                let enabled = options.enabled.then(|| boolean(true));
                structure::structure("EnclaveOptions", &[("Enabled", enabled)])
            }),
        ),
        (
            "ConnectionTracking",
            spec.connection_tracking.as_ref().map(tracking),
        ),
        ("Context", spec.context.as_deref().map(text)),
        (
            "CPUOptions",
            spec.cpu_options.as_ref().map(|options| {
                let nested = options.nested_virtualization.map(|on| text(on.as_str()));
                structure::structure("CPUOptions", &[("NestedVirtualization", nested)])
            }),
        ),
    ];
    Ok(structure::structure("EC2NodeClassSpec", &fields))
}

fn placement_group(selector: &PlacementGroupSelector) -> u64 {
    let name = selector.name.as_deref().map(text);
    let id = selector.id.as_deref().map(text);
    structure::structure("PlacementGroupSelector", &[("Name", name), ("ID", id)])
}

fn mapping(index: usize, mapping: &BlockDeviceMapping) -> Result<u64, NotAVolumeSize> {
    let ebs = mapping.ebs.as_ref().map(|ebs| volume(index, ebs));
    let fields = [
        ("DeviceName", mapping.device_name.as_deref().map(text)),
        ("EBS", ebs.transpose()?),
        ("RootVolume", mapping.root_volume.then(|| boolean(true))),
    ];
    Ok(structure::structure("BlockDeviceMapping", &fields))
}

fn volume(index: usize, volume: &BlockDevice) -> Result<u64, NotAVolumeSize> {
    let size = volume.volume_size.as_ref().map(|size| {
        canonical::volume_size(&size.0)
            .map(|size| text(&size))
            .ok_or_else(|| NotAVolumeSize {
                index,
                size: size.0.clone(),
            })
    });
    let fields = [
        (
            "DeleteOnTermination",
            volume.delete_on_termination.map(boolean),
        ),
        ("Encrypted", volume.encrypted.map(boolean)),
        ("IOPS", volume.iops.map(int64)),
        ("KMSKeyID", volume.kms_key_id.as_deref().map(text)),
        ("SnapshotID", volume.snapshot_id.as_deref().map(text)),
        ("Throughput", volume.throughput.map(int64)),
        (
            "VolumeInitializationRate",
            volume.volume_initialization_rate.map(int32),
        ),
        ("VolumeSize", size.transpose()?),
        (
            "VolumeType",
            volume.volume_type.map(|kind| text(kind.as_str())),
        ),
    ];
    Ok(structure::structure("BlockDevice", &fields))
}

/// Numbers are not behind pointers, so 0 is no field.
fn interface(interface: &NetworkInterface) -> u64 {
    let index = |index: i32| (index != 0).then(|| int32(index));
    let fields = [
        ("NetworkCardIndex", index(interface.network_card_index)),
        ("DeviceIndex", index(interface.device_index)),
        (
            "InterfaceType",
            Some(text(interface.interface_type.as_str())),
        ),
    ];
    structure::structure("NetworkInterface", &fields)
}

fn metadata(options: &MetadataOptions) -> u64 {
    let fields = [
        ("HTTPEndpoint", Some(text(options.http_endpoint.as_str()))),
        (
            "HTTPProtocolIPv6",
            Some(text(options.http_protocol_ipv6.as_str())),
        ),
        (
            "HTTPPutResponseHopLimit",
            Some(int64(options.http_put_response_hop_limit)),
        ),
        ("HTTPTokens", Some(text(options.http_tokens.as_str()))),
    ];
    structure::structure("MetadataOptions", &fields)
}

fn tracking(tracking: &ConnectionTracking) -> u64 {
    let fields = [
        (
            "TCPEstablishedTimeout",
            tracking.tcp_established_timeout.map(int32),
        ),
        ("UDPStreamTimeout", tracking.udp_stream_timeout.map(int32)),
        ("UDPTimeout", tracking.udp_timeout.map(int32)),
    ];
    structure::structure("ConnectionTracking", &fields)
}

/// The hash of one object, as it stands in the object's annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hashed {
    /// `NodePool` or `EC2NodeClass`.
    pub kind: &'static str,
    /// The object's name.
    pub name: String,
    /// A decimal number.
    pub hash: String,
    /// Hashes of different versions cannot be compared.
    pub hash_version: &'static str,
}

/// The hashes of the NodePools and EC2NodeClasses of a text (YAML, JSON, Lists), in its order, and
/// diagnostics of those that have none. Other kinds are counted. `source` names the text in
/// diagnostics.
pub fn hashes(source: &str, bytes: &[u8], ca_bundle: Option<&str>) -> (Vec<Hashed>, Diagnostics) {
    let (found, mut problems) = documents(source, bytes);
    let mut all = Vec::new();
    for document in found.into_iter().flat_map(Document::items) {
        let hashed = match document.field("kind") {
            Some("NodePool") => of_pool(&document),
            Some("EC2NodeClass") => of_class(&document, ca_bundle),
            Some(other) => {
                let kind = other.chars().take(100).collect();
                *problems.ignored.entry(kind).or_default() += 1;
                continue;
            }
            None => Err(document.refuse(
                "kind",
                "is missing",
                "every object needs apiVersion and kind",
            )),
        };
        match hashed {
            Ok(hashed) => all.push(hashed),
            Err(problem) => problems.push(problem),
        }
    }
    (all, problems)
}

#[allow(
    clippy::result_large_err,
    reason = "one for each document that is refused"
)]
fn of_pool(document: &Document) -> Result<Hashed, Diagnostic> {
    let mut document = document.clone();
    let mut all = admission::all().iter();
    if let Some(admission) = all.find(|one| one.is_for("karpenter.sh", "NodePool")) {
        document.prune(admission)?;
    }
    let pool: NodePool = document.read()?;
    let hash = nodepool_hash(&pool).map_err(|error| {
        let field = match error.0 == pool.spec.template.spec.expire_after {
            true => "spec.template.spec.expireAfter",
            false => "spec.template.spec.terminationGracePeriod",
        };
        document.refuse(field, error.to_string(), "write it like 720h")
    })?;
    Ok(Hashed {
        kind: "NodePool",
        name: pool.metadata.name.unwrap_or_default(),
        hash,
        hash_version: longshore_api::crd::hash::VERSION,
    })
}

#[allow(
    clippy::result_large_err,
    reason = "one for each document that is refused"
)]
fn of_class(document: &Document, ca_bundle: Option<&str>) -> Result<Hashed, Diagnostic> {
    let class = nodeclass::of_document(document)?;
    let hash = nodeclass_hash(&class, ca_bundle).map_err(|error| {
        let field = format!("spec.blockDeviceMappings[{}].ebs.volumeSize", error.index);
        let hint = "write a whole number with Gi, G, Ti or T, up to 64T";
        document.refuse(&field, error.to_string(), hint)
    })?;
    Ok(Hashed {
        kind: "EC2NodeClass",
        name: class.metadata.name.unwrap_or_default(),
        hash,
        hash_version: VERSION,
    })
}
