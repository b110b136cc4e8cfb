//! What was fetched once.

use std::os::unix::fs::PermissionsExt as _;

use super::{COMPONENT, Folder, Shelf, Signer, fetched, reference, sources, trusted};
use crate::testing::Server;
use crate::{Cache, Digest, Sources, Step};

struct Kept {
    folder: Folder,
    sources: Sources,
    host: String,
    digest: Digest,
    server: Option<Server>,
}

impl Kept {
    /// Fetched once with a signature.
    fn new() -> Self {
        let (folder, signer) = (Folder::new(), Signer::random());
        let (mut shelf, digest) = Shelf::of(COMPONENT);
        shelf.refer(&digest, &signer.sign(&digest));
        let server = Server::start(move |request| shelf.answer(request));
        let host = server.host.clone();
        let key = folder.file("vendor.pub", signer.pem());
        let cache = Some(Cache::new(&folder.0.join("cache")));
        let sources = Sources {
            cache,
            ..trusted(&host, &key)
        };
        fetched(&sources, &host, &digest).unwrap();
        Self {
            folder,
            sources,
            host,
            digest,
            server: Some(server),
        }
    }

    fn blob(&self, digest: &Digest) -> std::path::PathBuf {
        self.folder.0.join("cache/blobs/sha256").join(digest.hex())
    }
}

#[test]
fn a_start_needs_no_registry() {
    let mut kept = Kept::new();
    drop(kept.server.take());
    let policy = fetched(&kept.sources, &kept.host, &kept.digest).unwrap();
    assert_eq!(policy.component, COMPONENT);
    assert!(policy.signed_by.unwrap().ends_with("vendor.pub"));
}

#[test]
fn the_signature_is_verified_again_with_the_keys_of_now() {
    let kept = Kept::new();
    kept.folder.file("vendor.pub", Signer::random().pem());
    let error = fetched(&kept.sources, &kept.host, &kept.digest).unwrap_err();
    assert_eq!(error.step, Step::Signature);
}

#[test]
fn what_was_kept_unsigned_is_not_used_once_a_key_is_there() {
    let (folder, signer) = (Folder::new(), Signer::random());
    let (shelf, digest) = Shelf::of(COMPONENT);
    let server = Server::start(move |request| shelf.answer(request));
    let cache = Some(Cache::new(&folder.0.join("cache")));
    let without = Sources {
        cache: cache.clone(),
        ..sources(&server.host)
    };
    fetched(&without, &server.host, &digest).unwrap();
    let key = folder.file("vendor.pub", signer.pem());
    let with = Sources {
        cache,
        ..trusted(&server.host, &key)
    };
    let error = fetched(&with, &server.host, &digest).unwrap_err();
    assert!(error.reason.starts_with("there is no signature"), "{error}");
}

#[test]
fn a_damaged_file_is_told_and_fetched_again() {
    let kept = Kept::new();
    let blob = kept.blob(&Digest::of(COMPONENT));
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&blob, bytes).unwrap();
    let (policy, note) = kept
        .sources
        .oci(&reference(&kept.host, &kept.digest))
        .unwrap();
    assert_eq!(policy.component, COMPONENT);
    let note = note.unwrap();
    assert_eq!(note.step, Step::Cache);
    assert!(note.reason.starts_with("damaged"), "{note}");
    assert_eq!(std::fs::read(&blob).unwrap(), COMPONENT);
}

#[test]
fn a_file_that_others_can_change_is_not_used() {
    let kept = Kept::new();
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(kept.blob(&kept.digest), open).unwrap();
    let (_, note) = kept
        .sources
        .oci(&reference(&kept.host, &kept.digest))
        .unwrap();
    assert!(note.unwrap().reason.contains("closed to others"));
}
