//! Folders in the shapes that tools write.

use super::{COMPONENT, Folder, Shelf, Signer};
use crate::manifest::{INDEX, MANIFEST};
use crate::{Digest, Error, LayoutReference, Policy, Sources, Step, TrustSettings};

/// How a tool lists a policy and its signature.
type Listed = fn(policy: &Digest, signature: &Digest, index: &Digest) -> String;

fn entry(kind: &str, digest: &Digest, more: &str) -> String {
    format!(r#"{{"mediaType":"{kind}","size":1,"digest":"{digest}"{more}}}"#)
}

fn named(name: &str) -> String {
    format!(r#","annotations":{{"org.opencontainers.image.ref.name":"{name}"}}"#)
}

/// A folder with a signed policy.
fn folder(listed: Listed, signer: &Signer) -> (Folder, Digest) {
    let folder = Folder::new();
    let (mut shelf, digest) = Shelf::of(COMPONENT);
    let signature = shelf.refer(&digest, &signer.sign(&digest));
    let index = shelf.index();
    let index = shelf.put(index.as_bytes());
    for (name, bytes) in shelf.files() {
        folder.file(&format!("blobs/sha256/{name}"), bytes);
    }
    let entries = listed(&digest, &signature, &index);
    folder.file(
        "index.json",
        format!(r#"{{"schemaVersion":2,"manifests":[{entries}]}}"#),
    );
    (folder, digest)
}

fn read(folder: &Folder, digest: &Digest, signer: &Signer) -> Result<Policy, Error> {
    let key_file = folder.file("vendor.pub", signer.pem());
    let names = vec![format!("{}*", folder.0.display())];
    let trust = vec![TrustSettings { key_file, names }];
    let text = format!("{}@{digest}", folder.0.display());
    let reference = LayoutReference::try_from(text).unwrap();
    Sources {
        trust,
        ..Default::default()
    }
    .layout(&reference)
}

const ORAS: Listed = |policy, signature, _| {
    let policy = entry(MANIFEST, policy, &named("1.4"));
    format!("{},{policy}", entry(MANIFEST, signature, ""))
};
const REGCTL: Listed = |policy, _, index| {
    let index = entry(INDEX, index, &named(&format!("sha256-{}", policy.hex())));
    format!("{index},{}", entry(MANIFEST, policy, &named("1.4")))
};
const COSIGN: Listed = |policy, _, _| {
    let kind = r#","annotations":{"kind":"dev.cosignproject.cosign/image"}"#;
    entry(MANIFEST, policy, kind)
};

#[test]
fn a_signature_is_found_as_oras_regctl_and_cosign_leave_it() {
    for listed in [ORAS, REGCTL, COSIGN] {
        let signer = Signer::random();
        let (folder, digest) = folder(listed, &signer);
        let policy = read(&folder, &digest, &signer).unwrap();
        assert_eq!(policy.component, COMPONENT);
        assert!(policy.signed_by.is_some());
        let error = read(&folder, &digest, &Signer::random()).unwrap_err();
        assert_eq!(error.step, Step::Signature);
    }
}

#[test]
fn a_layout_without_a_signature_is_refused_when_one_is_demanded() {
    // What `skopeo copy` and plain `oras cp` write.
    let folder = Folder::new();
    let (shelf, digest) = Shelf::of(COMPONENT);
    for (name, bytes) in shelf.files() {
        folder.file(&format!("blobs/sha256/{name}"), bytes);
    }
    folder.file("index.json", r#"{"schemaVersion":2,"manifests":[]}"#);
    let error = read(&folder, &digest, &Signer::random()).unwrap_err();
    assert!(error.reason.starts_with("there is no signature"), "{error}");
}

#[test]
fn a_changed_blob_is_refused() {
    let signer = Signer::random();
    let (folder, digest) = folder(ORAS, &signer);
    let component = format!("blobs/sha256/{}", Digest::of(COMPONENT).hex());
    let mut bytes = COMPONENT.to_vec();
    bytes[9] ^= 1;
    folder.file(&component, bytes);
    let error = read(&folder, &digest, &signer).unwrap_err();
    assert_eq!(error.reason, "its bytes have another digest");
    assert!(error.place.ends_with(&component));
}

#[test]
fn another_digest_is_not_there() {
    let signer = Signer::random();
    let (folder, _) = folder(ORAS, &signer);
    let error = read(&folder, &Digest::of(b"other"), &signer).unwrap_err();
    assert!(error.not_found && error.step == Step::Manifest);
}
