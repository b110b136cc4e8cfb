//! A registry with a certificate of an authority of its own (`vectors/tls`).

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{COMPONENT, Folder, fetched, sources};
use crate::testing::{Server, Shelf};
use crate::{Digest, Error, Policy};

fn vector(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("vectors/tls").join(name)
}

/// What comes from the registry when these authorities are trusted.
fn trusting(authorities: Option<PathBuf>) -> Result<Policy, Error> {
    let certificate = CertificateDer::from_pem_file(vector("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(vector("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let (shelf, digest): (Shelf, Digest) = Shelf::of(COMPONENT);
    let server = Server::over(
        move |stream| {
            let connection = ServerConnection::new(config.clone()).ok()?;
            Some(StreamOwned::new(connection, stream))
        },
        move |request| shelf.answer(request),
    );
    let mut sources = sources(&server.host);
    let settings = sources.registries.get_mut(&server.host).unwrap();
    (settings.plain_http, settings.ca_file) = (false, authorities);
    fetched(&sources, &server.host, &digest)
}

#[test]
fn the_authority_of_a_registry_is_trusted_for_it() {
    let policy = trusting(Some(vector("ca.pem"))).unwrap();
    assert_eq!(policy.component, COMPONENT);
}

#[test]
fn a_registry_without_tls_is_asked_without_it_only_if_that_is_configured() {
    // As Go's server does.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
        }
    });
    let mut sources = sources(&host);
    sources.registries.get_mut(&host).unwrap().plain_http = false;
    let (_, digest): (Shelf, Digest) = Shelf::of(COMPONENT);
    let error = fetched(&sources, &host, &digest).unwrap_err();
    assert_eq!(
        error.reason,
        format!(
            "no TLS is spoken there; `plain-http = true` in [registries.\"{host}\"] asks it without"
        )
    );
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    let error = trusting(None).unwrap_err();
    assert!(error.reason.contains("certificate"), "{error}");
    // The server's own certificate is no authority.
    let error = trusting(Some(vector("server.pem"))).unwrap_err();
    assert!(error.reason.contains("certificate"), "{error}");
}

#[test]
fn a_file_with_a_key_is_not_one_of_authorities() {
    let folder = Folder::new();
    let key = std::fs::read(vector("server.key")).unwrap();
    let error = trusting(Some(folder.file("ca.pem", key))).unwrap_err();
    assert_eq!(error.reason, "it has something else than certificates");
}
