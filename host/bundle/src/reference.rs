//! Where a policy is: `host/repository:tag@sha256:…` in a registry, or `/folder@sha256:…` on disk.
//!
//! Only the digest says which policy it is. A tag is accepted, shown, and never asked for: tools
//! that raise versions (Renovate) need it.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use crate::Digest;

const NO_DIGEST: &str =
    "append `@sha256:…`: the digest that `oras push` printed, or `oras resolve`";

/// Why a reference cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}`, character {column}: {reason}; {hint}")]
pub struct ReferenceError {
    /// The whole reference.
    pub text: String,
    /// The character where it goes wrong, from 1.
    pub column: usize,
    /// What is wrong.
    pub reason: String,
    /// What can be done.
    pub hint: &'static str,
}

/// A manifest in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct OciReference {
    /// Host and port, in lower case, without the port 443.
    pub host: String,
    /// The path in the registry.
    pub repository: String,
    /// Shown, not asked for.
    pub tag: Option<String>,
    /// The digest of the manifest.
    pub digest: Digest,
}

/// A manifest in a folder in the OCI image layout.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LayoutReference {
    /// An absolute path.
    pub folder: PathBuf,
    /// The digest of the manifest.
    pub digest: Digest,
}

/// Where a policy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// In a registry.
    Oci(OciReference),
    /// In a folder.
    Layout(LayoutReference),
}

impl Reference {
    /// Reads either as it is typed: a folder's path begins with `/`. Nothing for a text without a
    /// digest, which is no reference.
    ///
    /// # Errors
    /// It has a digest and cannot be used.
    pub fn typed(text: &str) -> Result<Option<Self>, ReferenceError> {
        let text = text.to_owned();
        match (text.contains("@sha256:"), text.starts_with('/')) {
            (false, _) => Ok(None),
            (true, false) => OciReference::try_from(text).map(|at| Some(Self::Oci(at))),
            (true, true) => LayoutReference::try_from(text).map(|at| Some(Self::Layout(at))),
        }
    }

    /// What `for` of a key is compared with: host and repository, or the folder.
    pub fn name(&self) -> String {
        match self {
            Self::Oci(reference) => reference.name(),
            Self::Layout(reference) => reference.folder.to_string_lossy().into_owned(),
        }
    }

    /// The digest of the manifest.
    pub fn digest(&self) -> &Digest {
        match self {
            Self::Oci(reference) => &reference.digest,
            Self::Layout(reference) => &reference.digest,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oci(reference) => reference.fmt(f),
            Self::Layout(reference) => reference.fmt(f),
        }
    }
}

impl OciReference {
    /// What `for` of a key is compared with: host and repository.
    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.repository)
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        write!(f, "@{}", self.digest)
    }
}

impl fmt::Display for LayoutReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.folder.display(), self.digest)
    }
}

impl TryFrom<String> for OciReference {
    type Error = ReferenceError;

    fn try_from(text: String) -> Result<Self, ReferenceError> {
        let said = Said(&text);
        if let Some(end) = text.find("://") {
            let hint = "write it without the scheme: `plain-http` of the registry says which it is";
            return Err(said.at(0, format!("it begins with `{}`", &text[..end + 3]), hint));
        }
        let (name, digest) = said.digest()?;
        let Some((host, rest)) = name.split_once('/') else {
            let hint = "write `host/repository:tag@sha256:…`";
            return Err(said.at(0, "it names no registry", hint));
        };
        let host = host.to_ascii_lowercase();
        if !is_host(&host) {
            let hint = "begin with the registry's host, such as `ghcr.io/`: there is no default";
            return Err(said.at(0, format!("`{host}` is not a host"), hint));
        }
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        if !repository.split('/').all(is_path_part) {
            let hint = "use lower-case letters, digits, and `.`, `_`, `-` between them";
            let reason = format!("`{repository}` is not a repository");
            return Err(said.at(host.len() + 1, reason, hint));
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            let hint = "a tag has at most 128 letters, digits, `.`, `_` and `-`";
            let at = host.len() + repository.len() + 2;
            return Err(said.at(at, format!("`{tag}` is not a tag"), hint));
        }
        Ok(Self {
            host: host.strip_suffix(":443").unwrap_or(&host).into(),
            repository: repository.into(),
            tag: tag.map(Into::into),
            digest,
        })
    }
}

impl TryFrom<String> for LayoutReference {
    type Error = ReferenceError;

    fn try_from(text: String) -> Result<Self, ReferenceError> {
        let said = Said(&text);
        let (folder, digest) = said.digest()?;
        if !folder.starts_with('/') {
            let hint = "write the folder's whole path, such as `/policies@sha256:…`";
            return Err(said.at(0, "the path does not begin with `/`", hint));
        }
        let folder = folder.into();
        Ok(Self { folder, digest })
    }
}

/// The text that is read, for what is said of it.
struct Said<'a>(&'a str);

impl<'a> Said<'a> {
    fn at(&self, byte: usize, reason: impl Into<String>, hint: &'static str) -> ReferenceError {
        let column = self
            .0
            .get(..byte)
            .map_or(0, |before| before.chars().count())
            + 1;
        let (text, reason) = (self.0.into(), reason.into());
        ReferenceError {
            text,
            column,
            reason,
            hint,
        }
    }

    /// What stands before the digest, and the digest.
    fn digest(&self) -> Result<(&'a str, Digest), ReferenceError> {
        let Some((name, digest)) = self.0.rsplit_once('@') else {
            return Err(self.at(self.0.len(), "it has no digest", NO_DIGEST));
        };
        let digest = Digest::try_from(digest.to_string());
        match digest {
            Ok(digest) => Ok((name, digest)),
            Err(reason) => Err(self.at(name.len() + 1, reason, NO_DIGEST)),
        }
    }
}

/// Whether it is a host and perhaps a port. As everywhere, a name without a dot, a port or the word
/// `localhost` is no host.
pub(crate) fn is_host(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        let port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return port && address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let is_label = |label: &str| {
        let is = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !label.is_empty() && label.bytes().all(is)
    };
    let known = name.contains('.') || name == "localhost" || port.is_some();
    known && name.split('.').all(is_label) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_path_part(part: &str) -> bool {
    let inside = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    let end = |b: Option<u8>| b.is_some_and(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9'));
    let bytes = part.as_bytes();
    end(bytes.first().copied()) && end(bytes.last().copied()) && part.bytes().all(inside)
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = tag.as_bytes();
    bytes.len() <= 128
        && bytes.first().copied().is_some_and(word)
        && bytes.iter().all(|b| word(*b) || matches!(b, b'.' | b'-'))
}

#[cfg(test)]
mod tests;
