//! A folder in the OCI image layout, as oras, regctl, skopeo and cosign write it.
//!
//! The manifest is chosen by its digest: the order of entries differs, and names may be missing.
//! A signature is found in three ways: as an entry of `index.json` (oras), in an index that is named
//! `sha256-…` (regctl), or in any blob that says what it is about (`cosign save`).

use std::path::{Path, PathBuf};

use crate::fetch::Source;
use crate::manifest::{self, MAX_MANIFEST_BYTES, MAX_REFERRERS};
use crate::{Digest, Error, Step};

const NAME: &str = "org.opencontainers.image.ref.name";
/// A folder with more blobs is no folder of policies.
const MAX_BLOBS: usize = 4096;

pub(crate) struct Layout<'a> {
    pub folder: &'a Path,
}

impl Layout<'_> {
    fn file(&self, digest: &Digest) -> PathBuf {
        self.folder.join("blobs/sha256").join(digest.hex())
    }

    /// Entries of `index.json`, and of the index in it that is named after the subject.
    fn listed(&self, subject: &Digest) -> Result<Vec<Digest>, Error> {
        let path = self.folder.join("index.json");
        let bytes = read(&path, MAX_MANIFEST_BYTES, Step::Referrers)?;
        let entries = manifest::index(&bytes)
            .ok_or_else(|| Error::new(Step::Referrers, path.display(), "it is not an OCI index"))?;
        let mut found = Vec::new();
        for entry in entries {
            let named = entry.annotations.get(NAME) == Some(&subject.tag());
            match named.then(|| self.manifest(&entry.digest, Step::Referrers)) {
                Some(bytes) => found.extend(manifest::index(&bytes?).into_iter().flatten()),
                None => found.push(entry),
            }
        }
        Ok(found.into_iter().map(|entry| entry.digest).collect())
    }

    /// Whether a blob is a manifest about the subject. What cannot be read is none.
    fn is_about(&self, digest: &Digest, subject: &Digest) -> bool {
        let bytes = self.manifest(digest, Step::Referrers);
        bytes.is_ok_and(|bytes| manifest::subject(&bytes).as_ref() == Some(subject))
    }

    fn blobs(&self) -> Result<Vec<Digest>, Error> {
        let folder = self.folder.join("blobs/sha256");
        let said = |error: std::io::Error| {
            Error::new(Step::Referrers, folder.display(), error.to_string())
        };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(said)? {
            let name = entry.map_err(said)?.file_name();
            let name = name.to_string_lossy();
            found.extend(Digest::try_from(format!("sha256:{name}")).ok());
            if found.len() > MAX_BLOBS {
                let said = format!("it has more than {MAX_BLOBS} blobs");
                return Err(Error::new(Step::Referrers, folder.display(), said));
            }
        }
        found.sort();
        Ok(found)
    }
}

impl Source for Layout<'_> {
    fn manifest(&self, digest: &Digest, step: Step) -> Result<Vec<u8>, Error> {
        self.blob(digest, MAX_MANIFEST_BYTES, step)
    }

    fn blob(&self, digest: &Digest, most: u64, step: Step) -> Result<Vec<u8>, Error> {
        let path = self.file(digest);
        let bytes = read(&path, most, step)?;
        match Digest::of(&bytes) == *digest {
            true => Ok(bytes),
            false => Err(Error::new(
                step,
                path.display(),
                "its bytes have another digest",
            )),
        }
    }

    fn referrers(&self, subject: &Digest) -> Result<Vec<Digest>, Error> {
        let about = |digest: &Digest| self.is_about(digest, subject);
        let mut found: Vec<Digest> = self.listed(subject)?.into_iter().filter(about).collect();
        if found.is_empty() {
            found = self.blobs()?.into_iter().filter(about).collect();
        }
        found.sort();
        found.dedup();
        found.truncate(MAX_REFERRERS + 1);
        Ok(found)
    }

    fn place(&self) -> String {
        self.folder.display().to_string()
    }
}

/// A whole file of at most so many bytes.
fn read(path: &Path, most: u64, step: Step) -> Result<Vec<u8>, Error> {
    let said = |reason: String| Error::new(step, path.display(), reason);
    longshore_files::read(path, most).map_err(|error| {
        let absent = error.kind() == std::io::ErrorKind::NotFound;
        let error = said(error.to_string());
        if absent { error.absent() } else { error }
    })
}
