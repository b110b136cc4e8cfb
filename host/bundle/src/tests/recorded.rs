//! What the tools themselves wrote (`vectors/README.md`).

use std::path::{Path, PathBuf};

use crate::{Digest, Key, LayoutReference, Sources, TrustSettings, verify};

/// The manifest that `oras push` made.
const MANIFEST: &str = "sha256:b6fdaf496e866dab10b0d37f6474463f3855d0efd43dba03c151128f83686287";

fn vector(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("vectors")
        .join(name)
}

fn manifest() -> Digest {
    Digest::try_from(MANIFEST.to_owned()).unwrap()
}

fn key(name: &str) -> Result<Key, String> {
    let pem = std::fs::read_to_string(vector(name)).unwrap();
    Key::from_pem(name, &pem).map_err(|why| why.to_string())
}

/// What is said of a bundle where a signature by `cosign.pub` is demanded.
fn said(bundle: &str) -> Result<(), String> {
    let bytes = std::fs::read(vector("bundles").join(bundle)).unwrap();
    let keys = [key("cosign.pub").unwrap()];
    let verified = verify(&bytes, &manifest(), &keys).map(drop);
    verified.map_err(|why| why.to_string())
}

#[test]
fn what_oras_pushed_and_cosign_signed_is_read_from_both_their_layouts() {
    for layout in ["signed", "saved"] {
        let folder = vector(layout);
        let trust = vec![TrustSettings {
            key_file: vector("cosign.pub"),
            names: vec![folder.display().to_string()],
        }];
        let sources = Sources {
            trust,
            ..Sources::default()
        };
        let digest = manifest();
        let policy = sources.layout(&LayoutReference { folder, digest }).unwrap();
        assert_eq!(policy.component.len(), 2546, "{layout}");
        assert!(policy.signed_by.unwrap().ends_with("cosign.pub"));
        let created = policy.annotations.get("org.opencontainers.image.created");
        assert_eq!(created.map(String::as_str), Some("2026-11-29T00:00:00Z"));
    }
}

#[test]
fn what_wkg_pushed_is_the_component_that_oras_pushed() {
    let read = |bytes: Vec<u8>| crate::manifest::policy(&bytes).unwrap();
    let wkg = read(std::fs::read(vector("wkg.json")).unwrap());
    let blob = MANIFEST.replace(':', "/");
    let oras = read(std::fs::read(vector("signed/blobs").join(blob)).unwrap());
    assert_eq!(wkg.layer.digest, oras.layer.digest);
    assert!(wkg.annotations.is_empty(), "{:?}", wkg.annotations);
}

#[test]
fn a_signature_with_annotations_is_one() {
    assert_eq!(said("annotated.json"), Ok(()));
}

#[test]
fn what_cosign_writes_otherwise_is_refused_each_in_its_words() {
    let refused = |bundle| said(bundle).unwrap_err();
    let other_key = "the signature was not made with cosign.pub, or it was changed since";
    for bundle in ["other-key.json", "ed.json", "p384.json", "rsa.json"] {
        assert_eq!(refused(bundle), other_key, "{bundle}");
    }
    let signed = "sha256:4a3072e6b84bbcb1560dd234bd4bf8703b59c5ecab34e58db237bce33bd2449b";
    let said = format!("it signs {signed}, not {MANIFEST}");
    assert_eq!(refused("other-digest.json"), said);
    assert_eq!(
        refused("attestation.json"),
        "it is an attestation (`https://cosign.sigstore.dev/attestation/v1`), not a signature: \
         sign with `cosign sign --key`"
    );
    let blob = refused("blob.json");
    assert!(blob.ends_with("it has no dsseEnvelope"), "{blob}");
}

#[test]
fn keys_that_cosign_signs_otherwise_with_are_refused() {
    let refused = |name| key(name).unwrap_err();
    assert!(refused("ed.pub").contains("Ed25519ph"));
    assert!(refused("p384.pub").starts_with("it is a P-384 key: only P-256"));
    assert!(refused("rsa.pub").starts_with("it is an RSA key: only P-256"));
}
