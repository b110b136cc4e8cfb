//! SHA-256 digests as registries write them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `sha256:` and 64 digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let sum = ring::digest::digest(&ring::digest::SHA256, bytes);
        Self(sum.as_ref().iter().map(|b| format!("{b:02x}")).collect())
    }

    /// The 64 digits.
    pub fn hex(&self) -> &str {
        &self.0
    }

    /// The tag under which registries without the referrers API keep what refers to it.
    pub(crate) fn tag(&self) -> String {
        format!("sha256-{}", self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let hex = text.strip_prefix("sha256:");
        let hex = hex.ok_or_else(|| format!("`{text}` does not begin with `sha256:`"))?;
        if hex.len() != 64 {
            return Err(format!("a SHA-256 has 64 digits, this has {}", hex.len()));
        }
        match hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            true => Ok(Self(hex.into())),
            false => Err("a digest has only the digits 0-9 and a-f, in lower case".into()),
        }
    }
}
