//! Policies that were fetched once, so that a start needs no registry.
//!
//! `blobs/sha256/…` as in an OCI layout, each file named after its digest, which is checked on each
//! read. The signature lies beside its manifest (`….sig`) and is verified again with the keys of
//! now. Folder and files must belong to this user and be closed to others
//! ([`longshore_files::private`]).

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use longshore_files::private::{read, write};

use crate::manifest::{self, MAX_BUNDLE_BYTES, MAX_MANIFEST_BYTES};
use crate::signature::verify;
use crate::{Digest, Error, Key, Policy, Step};

/// Three of the largest. The charts give a volume of 512 MiB, of which compiled code has 256 MiB.
const MAX_BYTES: u64 = 3 * manifest::MAX_COMPONENT_BYTES;
/// A policy has three.
const MAX_FILES: usize = 192;

/// A folder of policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// A cache in this folder, which is made when something is kept.
    pub fn new(folder: &Path) -> Self {
        let folder = folder.join("blobs/sha256");
        Self { folder }
    }

    /// A policy that was kept, if it is whole and signed as is demanded now.
    ///
    /// # Errors
    /// What was kept and cannot be used.
    pub fn get(&self, digest: &Digest, keys: &[Key]) -> Result<Option<Policy>, Error> {
        let Some(bytes) = self.blob(digest, MAX_MANIFEST_BYTES)? else {
            return Ok(None);
        };
        let read = manifest::policy(&bytes).map_err(|why| self.error(digest, why))?;
        let bundle = self.read(&self.signature_file(digest), MAX_BUNDLE_BYTES)?;
        let signed_by = match (keys, &bundle) {
            ([], _) => None,
            (_, None) => return Ok(None),
            (keys, Some(bundle)) => {
                let by = verify(bundle, digest, keys);
                Some(
                    by.map_err(|why| self.error(digest, why.to_string()))?
                        .name
                        .clone(),
                )
            }
        };
        let Some(component) = self.blob(&read.layer.digest, read.layer.size)? else {
            return Ok(None);
        };
        let place = self.folder.display().to_string();
        let policy = Policy::new(place, component, (digest, bytes, read), (signed_by, bundle));
        self.used(&policy);
        Ok(Some(policy))
    }

    /// Keeps a policy: the manifest last, so that what is found is whole.
    ///
    /// # Errors
    /// Why the next start asks the registry again.
    pub fn put(&self, policy: &Policy) -> Result<(), Error> {
        let digest = &policy.manifest_digest;
        let said = |why| self.error(digest, why);
        let keep = |path: &Path, bytes: &[u8]| write(&self.folder, path, bytes).map_err(said);
        keep(&self.file(&policy.component_digest), &policy.component)?;
        if let Some(bundle) = &policy.bundle {
            keep(&self.signature_file(digest), bundle)?;
        }
        keep(&self.file(digest), &policy.manifest)?;
        self.prune();
        Ok(())
    }

    /// Has what was read now go last when room is needed.
    fn used(&self, policy: &Policy) {
        let manifest = &policy.manifest_digest;
        let files = [
            self.file(&policy.component_digest),
            self.file(manifest),
            self.signature_file(manifest),
        ];
        for file in files {
            // Without it the next start may ask the registry.
            let opened = File::options().append(true).open(file);
            let _ = opened.and_then(|file| file.set_modified(SystemTime::now()));
        }
    }

    fn file(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.hex())
    }

    fn signature_file(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{}.sig", digest.hex()))
    }

    fn error(&self, digest: &Digest, why: impl Into<String>) -> Error {
        Error::new(Step::Cache, self.file(digest).display(), why)
    }

    fn read(&self, path: &Path, most: u64) -> Result<Option<Vec<u8>>, Error> {
        let said = |why: String| Error::new(Step::Cache, self.folder.display(), why);
        read(&self.folder, path, most).map_err(said)
    }

    fn blob(&self, digest: &Digest, most: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(bytes) = self.read(&self.file(digest), most)? else {
            return Ok(None);
        };
        match Digest::of(&bytes) == *digest {
            true => Ok(Some(bytes)),
            false => Err(self.error(digest, "damaged: its bytes have another digest")),
        }
    }

    /// Deletes the oldest files until the cache is within its limits.
    fn prune(&self) {
        let files = std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten();
        let mut found: Vec<_> = files
            .filter_map(|entry| {
                let is = entry.metadata().ok().filter(Metadata::is_file)?;
                Some((is.modified().ok()?, entry.path(), is.len()))
            })
            .collect();
        found.sort_by(|a, b| b.cmp(a));
        let mut sum = 0;
        for (nth, (_, path, size)) in found.iter().enumerate() {
            sum += size;
            if nth >= MAX_FILES || sum > MAX_BYTES {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
