//! The order in which a policy is fetched and checked, the same for registries and folders.
//!
//! Manifest, sizes, signature, component: nothing of a component is read before its signature holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::{self, MAX_BUNDLE_BYTES, MAX_REFERRERS, PolicyManifest};
use crate::signature::verify;
use crate::{Digest, Error, Key, Step};

/// What cosign's signature is lost by, and what keeps it.
const UNSIGNED: &str = "there is no signature: sign with `cosign sign --key`. `crane copy`, \
    `skopeo copy` and plain `oras cp` leave it behind; copy with `oras cp -r` or `regctl image \
    copy --referrers`";

/// Where manifests and blobs are.
pub(crate) trait Source {
    /// A manifest of at most 4 MiB, its digest checked.
    fn manifest(&self, digest: &Digest, step: Step) -> Result<Vec<u8>, Error>;

    /// A blob of at most so many bytes, its digest checked.
    fn blob(&self, digest: &Digest, most: u64, step: Step) -> Result<Vec<u8>, Error>;

    /// What may refer to a manifest.
    fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>, Error>;

    /// For messages.
    fn place(&self) -> String;
}

/// A component whose digest holds, and its signature if one was demanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The component's bytes.
    pub component: Vec<u8>,
    /// Their digest. What remembers a component goes by this one: two pushes of one file have
    /// different manifests.
    pub component_digest: Digest,
    /// The manifest's digest.
    pub manifest_digest: Digest,
    /// The key file whose signature was verified; nothing if none was demanded.
    pub signed_by: Option<String>,
    /// Where it was found: a registry, a mirror, a folder.
    pub place: String,
    /// The manifest's annotations. Nothing vouches for them but the signature.
    pub annotations: BTreeMap<String, String>,
    pub(crate) manifest: Vec<u8>,
    pub(crate) bundle: Option<Vec<u8>>,
}

impl Policy {
    /// A component with what its manifest says, and the key and bundle that signed it.
    pub(crate) fn new(
        place: String,
        component: Vec<u8>,
        (manifest_digest, manifest, read): (&Digest, Vec<u8>, PolicyManifest),
        (signed_by, bundle): (Option<String>, Option<Vec<u8>>),
    ) -> Self {
        Policy {
            component,
            component_digest: read.layer.digest,
            manifest_digest: manifest_digest.clone(),
            signed_by,
            place,
            annotations: read.annotations,
            manifest,
            bundle,
        }
    }
}

/// Fetches a policy. With keys, a signature by one of them is demanded.
pub(crate) fn fetch(source: &dyn Source, digest: &Digest, keys: &[Key]) -> Result<Policy, Error> {
    let bytes = source.manifest(digest, Step::Manifest)?;
    let read = manifest::policy(&bytes);
    let read = read.map_err(|why| Error::new(Step::Manifest, source.place(), why))?;
    let signed = match keys {
        [] => None,
        keys => Some(signature(source, digest, keys)?),
    };
    let component = source.blob(&read.layer.digest, read.layer.size, Step::Component)?;
    Ok(Policy::new(
        source.place(),
        component,
        (digest, bytes, read),
        signed.unzip(),
    ))
}

/// The first bundle that one of the keys signed, and that key.
///
/// Everyone with the right to push can add referrers. One that cannot be read never hides a good one.
fn signature(
    source: &dyn Source,
    digest: &Digest,
    keys: &[Key],
) -> Result<(String, Vec<u8>), Error> {
    let referrers = source.referrers(digest)?;
    if referrers.len() > MAX_REFERRERS {
        let said = format!("more than {MAX_REFERRERS} manifests refer to it");
        return Err(Error::new(Step::Referrers, source.place(), said));
    }
    let mut refusals = BTreeSet::new();
    let mut failed = None;
    for referrer in referrers {
        let bundle = match bundle(source, digest, &referrer) {
            Ok(Some(bundle)) => bundle,
            Ok(None) => continue,
            Err(error) => {
                failed = failed.or(Some(error));
                continue;
            }
        };
        match verify(&bundle, digest, keys) {
            Ok(key) => return Ok((key.name.clone(), bundle)),
            Err(refusal) => refusals.insert(refusal.to_string()),
        };
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let said: Vec<String> = refusals.into_iter().collect();
    let said = if said.is_empty() {
        UNSIGNED.into()
    } else {
        said.join("; ")
    };
    Err(Error::new(Step::Signature, source.place(), said))
}

/// The bundle that a referrer holds, if it holds one.
fn bundle(
    source: &dyn Source,
    subject: &Digest,
    referrer: &Digest,
) -> Result<Option<Vec<u8>>, Error> {
    let bytes = source.manifest(referrer, Step::Signature)?;
    let Some(layer) = manifest::bundle(&bytes, subject) else {
        return Ok(None);
    };
    let most = layer.size.min(MAX_BUNDLE_BYTES);
    source.blob(&layer.digest, most, Step::Signature).map(Some)
}

/// From the first source that has it. The last one's failure counts, with what the others said.
pub(crate) fn first(
    sources: &[&dyn Source],
    digest: &Digest,
    keys: &[Key],
) -> Result<Policy, Error> {
    let mut said = String::new();
    let mut failed = None;
    for source in sources {
        match fetch(*source, digest, keys) {
            Ok(policy) => return Ok(policy),
            Err(error) => {
                if let Some(error) = failed.replace(error) {
                    said.push_str(&format!("; before, {error}"));
                }
            }
        }
    }
    let none = || Error::new(Step::Settings, digest, "it has no source");
    let mut error = failed.unwrap_or_else(none);
    error.reason.push_str(&said);
    Err(error)
}
