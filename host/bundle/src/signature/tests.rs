use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Key, KeyError, Refusal, verify};
use crate::Digest;
use crate::testing::{IN_TOTO, SIGN, Signer, statement};

fn manifest() -> Digest {
    Digest::of(b"a manifest")
}

fn refused(signer: &Signer, bundle: &str) -> Refusal {
    verify(bundle.as_bytes(), &manifest(), &[signer.key("vendor.pub")]).unwrap_err()
}

#[test]
fn a_signature_is_verified_by_whichever_key_made_it() {
    let (one, two) = (Signer::random(), Signer::random());
    let keys = [one.key("one"), two.key("two")];
    let verified = |by: &Signer| {
        let bundle = by.sign(&manifest());
        verify(bundle.as_bytes(), &manifest(), &keys)
            .unwrap()
            .name
            .clone()
    };
    assert_eq!(verified(&one), "one");
    assert_eq!(verified(&two), "two");
}

#[test]
fn another_key_is_refused_by_the_name_of_the_file() {
    let signed = Signer::random().sign(&manifest());
    let said = refused(&Signer::random(), &signed).to_string();
    assert_eq!(
        said,
        "the signature was not made with vendor.pub, or it was changed since"
    );
}

#[test]
fn each_byte_of_payload_and_signature_counts() {
    let signer = Signer::random();
    let other = statement(&Digest::of(b"another"), SIGN);
    let (good, bad) = (signer.sign(&manifest()), STANDARD.encode(other));
    let payload = STANDARD.encode(statement(&manifest(), SIGN));
    assert!(good.contains(&payload));
    let changed = good.replace(&payload, &bad);
    assert!(matches!(refused(&signer, &changed), Refusal::Key(_)));
}

#[test]
fn a_signature_of_something_else_is_refused() {
    let signer = Signer::random();
    let other = Digest::of(b"another");
    let manifest = manifest();
    let signed = other.to_string();
    let refusal = refused(&signer, &signer.sign(&other));
    assert_eq!(refusal, Refusal::Digest { signed, manifest });
}

#[test]
fn an_attestation_is_no_signature() {
    let signer = Signer::random();
    let kind = "https://cosign.sigstore.dev/attestation/v1";
    let bundle = signer.bundle(&statement(&manifest(), kind), IN_TOTO);
    assert_eq!(refused(&signer, &bundle), Refusal::Attestation(kind.into()));
}

#[test]
fn another_predicate_of_cosign_is_refused() {
    let signer = Signer::random();
    let kind = "https://sigstore.dev/cosign/sign/v2";
    let bundle = signer.bundle(&statement(&manifest(), kind), IN_TOTO);
    assert_eq!(refused(&signer, &bundle), Refusal::Predicate(kind.into()));
}

#[test]
fn another_type_of_payload_is_refused() {
    let signer = Signer::random();
    let bundle = signer.bundle(&statement(&manifest(), SIGN), "text/plain");
    let refusal = refused(&signer, &bundle);
    assert_eq!(refusal, Refusal::PayloadType("text/plain".into()));
}

#[test]
fn two_signatures_are_refused() {
    let signer = Signer::random();
    let bundle = signer.sign(&manifest());
    let at = bundle.find(r#"{"sig""#).unwrap();
    let one = &bundle[at..bundle.len() - 3];
    let two = bundle.replace(one, &format!("{one},{one}"));
    assert_eq!(refused(&signer, &two), Refusal::Count(2));
    assert_eq!(
        refused(&signer, &bundle.replace(one, "")),
        Refusal::Count(0)
    );
}

#[test]
fn what_is_signed_and_no_statement_is_refused() {
    let signer = Signer::random();
    let statement = statement(&manifest(), SIGN);
    let two = statement.replace(r#""subject":["#, r#""subject":[{"digest":{}},"#);
    let old = statement.replace("Statement/v1", "Statement/v0.1");
    for payload in [&two, &old, "{}", "no JSON"] {
        let bundle = signer.bundle(payload, IN_TOTO);
        assert!(matches!(refused(&signer, &bundle), Refusal::Statement(_)));
    }
}

#[test]
fn what_is_no_bundle_is_refused() {
    let signer = Signer::random();
    let bundle = signer.sign(&manifest());
    let old = bundle.replace("bundle.v0.3", "bundle.v0.2");
    let other = bundle.replace("dsseEnvelope", "messageSignature");
    for bundle in [&bundle[..99], &old, &other, "", "[]"] {
        assert!(matches!(refused(&signer, bundle), Refusal::NotABundle(_)));
    }
}

fn spki(prefix: &[u8], point: usize) -> String {
    let text = STANDARD.encode([prefix, &vec![4u8; point]].concat());
    format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
}

#[test]
fn other_kinds_of_key_are_refused_each_in_its_words() {
    let read = |pem: &str| Key::from_pem("k", pem).unwrap_err();
    let ed = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
    assert_eq!(read(&spki(&ed, 32)), KeyError::Ed25519);
    assert!(
        read(&spki(&ed, 32))
            .to_string()
            .contains("cosign signs Ed25519ph")
    );
    let ec = [6u8, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    let head = [0x30u8, 0x76, 0x30, 0x10];
    let p384 = [&head[..], &ec, &super::P384, &[3, 0x62, 0]].concat();
    assert_eq!(read(&spki(&p384, 97)), KeyError::Kind("a P-384 key"));
    let rsa = [&[0x30u8, 0x82, 1, 0x22, 0x30, 0x0d][..], &super::RSA].concat();
    assert_eq!(read(&spki(&rsa, 270)), KeyError::Kind("an RSA key"));
    assert_eq!(read(&spki(&super::P256, 64)), KeyError::Damaged);
    assert_eq!(
        read("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----"),
        KeyError::Private
    );
    assert_eq!(read("ssh-ed25519 AAAA"), KeyError::NotPem);
    let pem = Signer::random().pem();
    assert_eq!(read(&format!("{pem}{pem}")), KeyError::Several);
}
