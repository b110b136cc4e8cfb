//! Manifests and indexes, as far as they matter here.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Digest;
use crate::signature::BUNDLE;

/// 64 MiB: the largest component measured, Python's, has 11 MiB.
pub const MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// What registries and tools take at most.
pub const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// A bundle of cosign's has 700 bytes.
pub const MAX_BUNDLE_BYTES: u64 = 1 << 20;
/// Each costs two requests.
pub const MAX_REFERRERS: usize = 64;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    artifact_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
    subject: Option<Descriptor>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// What a policy's manifest says.
#[derive(Debug)]
pub(crate) struct PolicyManifest {
    pub layer: Descriptor,
    pub annotations: BTreeMap<String, String>,
}

/// Reads a policy's manifest as `wkg oci push` and `oras push` write it.
///
/// What its config says of imports and exports is never looked at: a WIT package claims every
/// export there, and a core module none.
pub(crate) fn policy(bytes: &[u8]) -> Result<PolicyManifest, String> {
    let manifest: Manifest = match serde_json::from_slice(bytes) {
        Ok(manifest) => manifest,
        Err(_) if index(bytes).is_some() => {
            return Err("it is an index: give the digest of one manifest in it".into());
        }
        Err(error) => return Err(format!("it is not an OCI manifest: {error}")),
    };
    if manifest.config.media_type != CONFIG {
        return Err(format!(
            "its config is `{}`, not `{CONFIG}`: push with `wkg oci push`",
            manifest.config.media_type
        ));
    }
    if manifest.config.size > MAX_BUNDLE_BYTES {
        return Err(format!(
            "its config has {} bytes, at most 1 MiB is read",
            manifest.config.size
        ));
    }
    let [layer] = &manifest.layers[..] else {
        return Err(format!(
            "it has {} layers, a policy has one",
            manifest.layers.len()
        ));
    };
    if layer.media_type != LAYER {
        return Err(format!(
            "its layer is `{}`, not `{LAYER}`",
            layer.media_type
        ));
    }
    if layer.size > MAX_COMPONENT_BYTES {
        return Err(format!(
            "its component has {} bytes, at most 64 MiB are read",
            layer.size
        ));
    }
    let (layer, annotations) = (layer.clone(), manifest.annotations);
    Ok(PolicyManifest { layer, annotations })
}

/// The bundle's descriptor, if this manifest holds a bundle about that subject.
///
/// Only the manifest tells: descriptors in lists of referrers have a wrong `artifactType` or none.
pub(crate) fn bundle(bytes: &[u8], subject: &Digest) -> Option<Descriptor> {
    let manifest: Manifest = serde_json::from_slice(bytes).ok()?;
    let about = manifest.subject.as_ref().map(|of| &of.digest) == Some(subject);
    let [layer] = &manifest.layers[..] else {
        return None;
    };
    let is = about && manifest.artifact_type.as_deref() == Some(BUNDLE);
    (is && layer.media_type == BUNDLE).then(|| layer.clone())
}

/// What a manifest is about.
pub(crate) fn subject(bytes: &[u8]) -> Option<Digest> {
    let manifest: Manifest = serde_json::from_slice(bytes).ok()?;
    Some(manifest.subject?.digest)
}

/// What is in an index; nothing if it is none. Entries that cannot be read, such as those with
/// another kind of digest, are passed over: they hide no other.
pub(crate) fn index(bytes: &[u8]) -> Option<Vec<Descriptor>> {
    #[derive(Deserialize)]
    struct Index {
        manifests: Vec<serde_json::Value>,
    }
    let index: Index = serde_json::from_slice(bytes).ok()?;
    let read = |entry| serde_json::from_value(entry).ok();
    Some(index.manifests.into_iter().filter_map(read).collect())
}
