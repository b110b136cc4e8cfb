//! Signatures that cosign 3 makes with a key: a Sigstore bundle v0.3 with one DSSE envelope around
//! an in-toto statement. Verified without any network and without a transparency log.
//!
//! P-256 alone. cosign signs Ed25519ph with an Ed25519 key, and P-384 over SHA-384; it refuses both
//! itself when it verifies with its defaults. A signature without a key (by an identity) needs
//! Sigstore's services: `cosign verify` before the digest is written down is the way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::Deserialize;

use crate::Digest;

/// The `artifactType` of a bundle's manifest.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD: &str = "application/vnd.in-toto+json";
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// What a signature says; each kind of attestation says something else.
const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
const PREDICATES: &str = "https://sigstore.dev/cosign/sign/";

/// The SubjectPublicKeyInfo of a key on P-256, before its point.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Identifiers of other kinds of key, as they stand in their SubjectPublicKeyInfo.
const ED25519: [u8; 5] = [0x06, 0x03, 0x2b, 0x65, 0x70];
const P384: [u8; 7] = [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
const RSA: [u8; 11] = [
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01,
];
/// A point: 4, then both coordinates.
const POINT_BYTES: usize = 65;

/// A public key and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// For messages: the file.
    pub name: String,
    point: Vec<u8>,
    /// What a bundle says of its key.
    hint: String,
}

/// Why a key file is not used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeyError {
    /// It has no public key in PEM.
    #[error("it has no `-----BEGIN PUBLIC KEY-----`: use the file `cosign.pub`")]
    NotPem,
    /// It is the other half.
    #[error("it is a private key, which does not belong here: use the file `cosign.pub`")]
    Private,
    /// Several keys.
    #[error("it has more than one key: give each a file and a [[trust]] of its own")]
    Several,
    /// An Ed25519 key.
    #[error(
        "it is an Ed25519 key: cosign signs Ed25519ph with it, which cannot be verified here; \
         make a P-256 key with `cosign generate-key-pair`"
    )]
    Ed25519,
    /// Another kind.
    #[error("it is {0}: only P-256 is verified; make one with `cosign generate-key-pair`")]
    Kind(&'static str),
    /// Bytes that are no key.
    #[error("the text between its PEM lines is not a key")]
    Damaged,
}

/// Why a bundle is not a signature of this manifest by one of these keys.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read.
    #[error("the signature is not a Sigstore bundle v0.3 with a DSSE envelope: {0}")]
    NotABundle(String),
    /// None, or several.
    #[error("the envelope has {0} signatures, and exactly one is accepted")]
    Count(usize),
    /// Another type of payload.
    #[error("the envelope's payload is `{0}`, not `application/vnd.in-toto+json`")]
    PayloadType(String),
    /// No key fits.
    #[error("the signature was not made with {0}, or it was changed since")]
    Key(String),
    /// Signed, and not a statement.
    #[error("the signed payload is not an in-toto statement v1: {0}")]
    Statement(String),
    /// An attestation.
    #[error("it is an attestation (`{0}`), not a signature: sign with `cosign sign --key`")]
    Attestation(String),
    /// A signature of another release of cosign.
    #[error("the signed predicate is `{0}`, not `https://sigstore.dev/cosign/sign/v1`")]
    Predicate(String),
    /// A signature of something else.
    #[error("it signs {signed}, not {manifest}")]
    Digest {
        /// What it signs.
        signed: String,
        /// What was asked for.
        manifest: Digest,
    },
}

impl Key {
    /// Reads a public key in PEM.
    ///
    /// # Errors
    /// Why it is not used.
    pub fn from_pem(name: &str, pem: &str) -> Result<Self, KeyError> {
        if pem.contains("PRIVATE KEY-----") {
            return Err(KeyError::Private);
        }
        let (_, rest) = pem
            .split_once("-----BEGIN PUBLIC KEY-----")
            .ok_or(KeyError::NotPem)?;
        let (body, rest) = rest
            .split_once("-----END PUBLIC KEY-----")
            .ok_or(KeyError::NotPem)?;
        if rest.contains("-----BEGIN") {
            return Err(KeyError::Several);
        }
        let body: String = body.split_whitespace().collect();
        let der = STANDARD.decode(body).map_err(|_| KeyError::Damaged)?;
        let point = match der.strip_prefix(&P256[..]) {
            Some(point) if point.len() == POINT_BYTES && point[0] == 4 => point.to_vec(),
            Some(_) => return Err(KeyError::Damaged),
            None => return Err(other_kind(&der)),
        };
        let sum = ring::digest::digest(&ring::digest::SHA256, &der);
        let hint = STANDARD.encode(sum);
        let name = name.into();
        Ok(Self { name, point, hint })
    }
}

fn other_kind(der: &[u8]) -> KeyError {
    // The identifier stands at the beginning of each: within its first 24 bytes.
    let head = &der[..der.len().min(24)];
    let has = |id: &[u8]| head.windows(id.len()).any(|window| window == id);
    if has(&ED25519) {
        KeyError::Ed25519
    } else if has(&P384) {
        KeyError::Kind("a P-384 key")
    } else if has(&RSA) {
        KeyError::Kind("an RSA key")
    } else {
        KeyError::Damaged
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    #[serde(default)]
    verification_material: Material,
    dsse_envelope: Option<Envelope>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Material {
    public_key: Option<Hint>,
}

#[derive(Deserialize)]
struct Hint {
    #[serde(default)]
    hint: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    #[serde(default)]
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

/// The key that signed the manifest, by this bundle.
///
/// # Errors
/// The first reason why it is no such signature.
pub fn verify<'k>(bundle: &[u8], manifest: &Digest, keys: &'k [Key]) -> Result<&'k Key, Refusal> {
    let not = |error: serde_json::Error| Refusal::NotABundle(error.to_string());
    let bundle: Bundle = serde_json::from_slice(bundle).map_err(not)?;
    if bundle.media_type != BUNDLE {
        let said = format!("its mediaType is `{}`", bundle.media_type);
        return Err(Refusal::NotABundle(said));
    }
    let hint = bundle.verification_material.public_key.map(|key| key.hint);
    let Some(envelope) = bundle.dsse_envelope else {
        return Err(Refusal::NotABundle("it has no dsseEnvelope".into()));
    };
    let (key, payload) = opened(&envelope, hint.as_deref(), keys)?;
    says(&payload, manifest)?;
    Ok(key)
}

/// The key that signed an envelope, and what it signed.
fn opened<'k>(
    envelope: &Envelope,
    hint: Option<&str>,
    keys: &'k [Key],
) -> Result<(&'k Key, Vec<u8>), Refusal> {
    let [signature] = &envelope.signatures[..] else {
        return Err(Refusal::Count(envelope.signatures.len()));
    };
    if envelope.payload_type != PAYLOAD {
        return Err(Refusal::PayloadType(envelope.payload_type.clone()));
    }
    let decoded = |text: &str, what: &str| {
        let said = |_| Refusal::NotABundle(format!("its {what} is not base64"));
        STANDARD.decode(text).map_err(said)
    };
    let payload = decoded(&envelope.payload, "payload")?;
    let signature = decoded(&signature.sig, "signature")?;
    let message = pae(&envelope.payload_type, &payload);
    // The hint is not signed: it only says which key is tried first.
    let mut tried: Vec<&Key> = keys.iter().collect();
    tried.sort_by_key(|key| Some(key.hint.as_str()) != hint);
    let signed = |key: &&&Key| {
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &key.point);
        public.verify(&message, &signature).is_ok()
    };
    match tried.iter().find(signed) {
        Some(key) => Ok((*key, payload)),
        None => {
            let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
            Err(Refusal::Key(names.join(" or ")))
        }
    }
}

/// Whether a signed payload says that the manifest is signed.
fn says(payload: &[u8], manifest: &Digest) -> Result<(), Refusal> {
    let not = |error: serde_json::Error| Refusal::Statement(error.to_string());
    let statement: Statement = serde_json::from_slice(payload).map_err(not)?;
    let predicate = statement.predicate_type;
    if predicate.is_empty() || (predicate != PREDICATE && predicate.starts_with(PREDICATES)) {
        return Err(Refusal::Predicate(predicate));
    }
    // Before the type: `cosign attest` of 3.1.3 still writes statements v0.1.
    if predicate != PREDICATE {
        return Err(Refusal::Attestation(predicate));
    }
    if statement.kind != STATEMENT {
        return Err(Refusal::Statement(format!(
            "its _type is `{}`",
            statement.kind
        )));
    }
    let signed = match &statement.subject[..] {
        [one] => one.digest.sha256.clone(),
        more => {
            return Err(Refusal::Statement(format!(
                "it has {} subjects",
                more.len()
            )));
        }
    };
    if signed.as_deref() == Some(manifest.hex()) {
        return Ok(());
    }
    let signed = signed.map_or("nothing".into(), |hex| format!("sha256:{hex}"));
    Err(Refusal::Digest {
        signed,
        manifest: manifest.clone(),
    })
}

/// What DSSE signs: type and payload with their lengths.
fn pae(kind: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests;
