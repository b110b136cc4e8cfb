//! Signs as cosign 3.1.3 does, in the shape that was measured of it, or wrong in one way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

use crate::{Digest, Key};

/// The predicate of a signature.
pub const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
/// The type of what is signed.
pub const IN_TOTO: &str = "application/vnd.in-toto+json";

/// A P-256 key.
#[derive(Debug)]
pub struct Signer(EcdsaKeyPair);

impl Signer {
    /// A new key.
    ///
    /// # Panics
    /// There is no randomness.
    pub fn random() -> Self {
        let (kind, rng) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
        let made = EcdsaKeyPair::generate_pkcs8(kind, &rng).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &rng).unwrap())
    }

    fn der(&self) -> Vec<u8> {
        let mut der = STANDARD
            .decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=")
            .unwrap();
        der.extend(self.0.public_key().as_ref());
        der
    }

    /// The public key as `cosign.pub` has it.
    pub fn pem(&self) -> String {
        let text = STANDARD.encode(self.der());
        let lines: Vec<&str> = [&text[..64], &text[64..]].into();
        format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            lines.join("\n")
        )
    }

    /// The key as the crate has it.
    ///
    /// # Panics
    /// Never.
    pub fn key(&self, name: &str) -> Key {
        Key::from_pem(name, &self.pem()).unwrap()
    }

    /// What `cosign sign` writes.
    pub fn sign(&self, manifest: &Digest) -> String {
        self.bundle(&statement(manifest, SIGN), IN_TOTO)
    }

    /// A bundle that says something.
    ///
    /// # Panics
    /// There is no randomness.
    pub fn bundle(&self, payload: &str, kind: &str) -> String {
        let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
        let message = format!("{head}{payload}");
        let sig = self
            .0
            .sign(&SystemRandom::new(), message.as_bytes())
            .unwrap();
        let sig = STANDARD.encode(sig);
        let payload = STANDARD.encode(payload);
        let sum = ring::digest::digest(&ring::digest::SHA256, &self.der());
        let hint = STANDARD.encode(sum);
        format!(
            r#"{{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{{"publicKey":{{"hint":"{hint}"}}}},"dsseEnvelope":{{"payload":"{payload}","payloadType":"{kind}","signatures":[{{"sig":"{sig}"}}]}}}}"#
        )
    }
}

/// What a signature says of a manifest.
pub fn statement(manifest: &Digest, predicate: &str) -> String {
    let hex = manifest.hex();
    format!(
        r#"{{"_type":"https://in-toto.io/Statement/v1","subject":[{{"digest":{{"sha256":"{hex}"}},"annotations":{{"key":"value"}}}}],"predicateType":"{predicate}","predicate":{{}}}}"#
    )
}
