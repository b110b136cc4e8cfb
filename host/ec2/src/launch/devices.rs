//! Disks of a launch template: the NodeClass's, or its family's.

use super::template::{BlockDeviceMapping, Ebs};
use crate::catalogue::amount::{Amount, GIB};
use crate::nodeclass::{self, AmiFamily, EC2NodeClassSpec};

/// The disks, in the order written.
pub(super) fn mappings(spec: &EC2NodeClassSpec) -> Vec<BlockDeviceMapping> {
    match spec.block_device_mappings() {
        [] => defaults(spec.family()),
        given => given.iter().map(mapping).collect(),
    }
}

/// The disks that a family's images expect; images of one's own bring theirs along.
fn defaults(family: AmiFamily) -> Vec<BlockDeviceMapping> {
    let disks: &[(&str, i64)] = match family {
        AmiFamily::AL2 | AmiFamily::AL2023 => &[("/dev/xvda", 20)],
        // The first has the operating system, the second images, logs and writable layers.
        AmiFamily::Bottlerocket => &[("/dev/xvda", 6), ("/dev/xvdb", 20)],
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            &[("/dev/sda1", 50)]
        }
        AmiFamily::Custom => &[],
    };
    let disk = |&(name, gib): &(&str, i64)| BlockDeviceMapping {
        device_name: Some(name.to_owned()),
        ebs: Some(Ebs {
            encrypted: Some(true),
            volume_size: Some(gib),
            volume_type: Some("gp3"),
            ..Ebs::default()
        }),
    };
    disks.iter().map(disk).collect()
}

/// Bytes of the volume that a node boots from; nothing where its image says it, or which of several
/// it is.
pub fn root_bytes(spec: &EC2NodeClassSpec) -> Option<i64> {
    let root = root_device(spec.family())?;
    let mappings = mappings(spec);
    let mut volumes = mappings.iter();
    let volume = volumes.find(|one| one.device_name.as_deref() == Some(root))?;
    volume.ebs.as_ref()?.volume_size?.checked_mul(GIB)
}

/// The device that the images of a family boot from; nothing for images of one's own.
fn root_device(family: AmiFamily) -> Option<&'static str> {
    match family {
        AmiFamily::AL2 | AmiFamily::AL2023 | AmiFamily::Bottlerocket => Some("/dev/xvda"),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            Some("/dev/sda1")
        }
        AmiFamily::Custom => None,
    }
}

fn mapping(mapping: &nodeclass::BlockDeviceMapping) -> BlockDeviceMapping {
    BlockDeviceMapping {
        device_name: mapping.device_name.clone(),
        ebs: mapping.ebs.as_ref().map(|ebs| Ebs {
            delete_on_termination: ebs.delete_on_termination,
            encrypted: ebs.encrypted,
            iops: ebs.iops,
            kms_key_id: ebs.kms_key_id.clone(),
            snapshot_id: ebs.snapshot_id.clone(),
            throughput: ebs.throughput,
            volume_initialization_rate: ebs.volume_initialization_rate,
            volume_size: ebs.volume_size.as_ref().and_then(|size| gib(&size.0)),
            volume_type: ebs.volume_type.map(|kind| kind.as_str()),
        }),
    }
}

/// A size in GiB, rounded up. `None` for what the schema refuses.
fn gib(size: &str) -> Option<i64> {
    let bytes = Amount::parse(size).ok()?.units();
    Some(bytes.div_euclid(GIB) + i64::from(bytes.rem_euclid(GIB) != 0))
}
