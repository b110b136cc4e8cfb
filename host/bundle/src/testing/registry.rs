//! A small registry, which does what the distribution specification says, or something else.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::Digest;
use crate::manifest::{INDEX, MANIFEST};
use crate::signature::BUNDLE;

/// What a registry is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Path and query.
    pub path: String,
    headers: BTreeMap<String, String>,
}

impl Request {
    /// A header, its name in lower case.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).cloned()
    }
}

/// What it answers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the length is said.
    pub length: bool,
    /// How much of the body comes before the connection ends.
    pub sent: Option<usize>,
    /// For how long nothing comes.
    pub stalls: Duration,
}

impl Reply {
    /// With its length and all of its body.
    pub fn new(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.as_ref().to_vec(),
            length: true,
            sent: None,
            stalls: Duration::ZERO,
        }
    }

    /// With a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        std::thread::sleep(self.stalls);
        write!(to, "HTTP/1.1 {} Said\r\nConnection: close\r\n", self.status)?;
        for (name, value) in &self.headers {
            write!(to, "{name}: {value}\r\n")?;
        }
        if self.length {
            write!(to, "Content-Length: {}\r\n", self.body.len())?;
        }
        to.write_all(b"\r\n")?;
        to.write_all(&self.body[..self.sent.unwrap_or(self.body.len())])?;
        to.flush()
    }
}

/// Answers until it is dropped.
pub struct Server {
    /// Address and port.
    pub host: String,
    asked: Arc<Mutex<Vec<Request>>>,
    ends: Arc<AtomicBool>,
}

impl Server {
    /// Answers one request after the other, each on a connection of its own.
    ///
    /// # Panics
    /// No port is free.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + 'static) -> Self {
        Self::over(Some, answer)
    }

    /// As [`Server::start`], over what `open` makes of a connection.
    ///
    /// # Panics
    /// No port is free.
    pub fn over<S: Read + Write>(
        open: impl Fn(TcpStream) -> Option<S> + Send + 'static,
        answer: impl Fn(&Request) -> Reply + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (asked, ends) = (
            Arc::<Mutex<Vec<Request>>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let server = Self {
            host,
            asked: asked.clone(),
            ends: ends.clone(),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let Some(mut stream) = open(stream) else {
                    continue;
                };
                let Some(request) = read(&mut stream) else {
                    continue;
                };
                asked.lock().unwrap().push(request.clone());
                // Whoever asked may be gone.
                let _ = answer(&request).write(&mut stream);
            }
        });
        server
    }

    /// What it was asked so far.
    ///
    /// # Panics
    /// An answer has panicked.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.host);
    }
}

fn read(stream: &mut impl Read) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let path = first.split(' ').nth(1)?.to_string();
    let header = |line: String| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_string()))
    };
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(header);
    Some(Request {
        path,
        headers: headers.collect(),
    })
}

/// What a registry has of `policies/carbon`.
#[derive(Clone, Debug)]
pub struct Shelf {
    content: BTreeMap<String, Vec<u8>>,
    policy: Digest,
    referrers: Vec<Digest>,
    /// Whether it has the referrers API.
    pub api: bool,
    /// Whether a tool wrote the policy itself under the tag for referrers.
    pub tag_is_policy: bool,
}

impl Shelf {
    /// One policy, as `wkg oci push` writes it, and the digest of its manifest.
    pub fn of(component: &[u8]) -> (Self, Digest) {
        let (config, bytes, size) = (Digest::of(b"{}"), component, component.len());
        let component = Digest::of(component);
        let manifest = format!(
            r#"{{"config":{{"digest":"{config}","mediaType":"application/vnd.wasm.config.v0+json","size":2}},"layers":[{{"annotations":{{"org.opencontainers.image.title":"policy.wasm"}},"digest":"{component}","mediaType":"application/wasm","size":{size}}}],"mediaType":"{MANIFEST}","schemaVersion":2}}"#
        );
        let digest = Digest::of(manifest.as_bytes());
        let mut shelf = Self {
            content: BTreeMap::new(),
            policy: digest.clone(),
            referrers: Vec::new(),
            api: true,
            tag_is_policy: false,
        };
        for bytes in [manifest.as_bytes(), bytes, b"{}"] {
            shelf.put(bytes);
        }
        (shelf, digest)
    }

    /// Has these bytes under their digest.
    pub fn put(&mut self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.content.insert(digest.to_string(), bytes.to_vec());
        digest
    }

    /// A bundle about a manifest, as cosign 3.1.3 writes it.
    pub fn refer(&mut self, subject: &Digest, bundle: &str) -> Digest {
        let layer = self.put(bundle.as_bytes());
        let empty = Digest::of(b"{}");
        let (bundle_size, size) = (bundle.len(), self.content[&subject.to_string()].len());
        let manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{{"mediaType":"application/vnd.oci.empty.v1+json","size":2,"digest":"{empty}","artifactType":"{BUNDLE}"}},"layers":[{{"mediaType":"{BUNDLE}","size":{bundle_size},"digest":"{layer}"}}],"annotations":{{"dev.sigstore.bundle.content":"dsse-envelope"}},"subject":{{"mediaType":"{MANIFEST}","size":{size},"digest":"{subject}"}},"artifactType":"{BUNDLE}"}}"#
        );
        let digest = self.put(manifest.as_bytes());
        self.referrers.push(digest.clone());
        digest
    }

    /// What is under a digest.
    ///
    /// # Panics
    /// Nothing, or no text.
    pub fn text(&self, digest: &Digest) -> String {
        String::from_utf8(self.content[&digest.to_string()].clone()).unwrap()
    }

    /// What refers to the policy, with the wrong `artifactType` of crane's registry.
    pub fn index(&self) -> String {
        let entry = |digest: &Digest| {
            let size = self.content[&digest.to_string()].len();
            format!(
                r#"{{"mediaType":"{MANIFEST}","size":{size},"digest":"{digest}","artifactType":"application/vnd.oci.empty.v1+json"}}"#
            )
        };
        let entries: Vec<String> = self.referrers.iter().map(entry).collect();
        let entries = entries.join(",");
        format!(r#"{{"schemaVersion":2,"mediaType":"{INDEX}","manifests":[{entries}]}}"#)
    }

    /// The blobs by the digits of their digest.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let hex = "sha256:".len();
        self.content
            .iter()
            .map(move |(name, bytes)| (&name[hex..], &bytes[..]))
    }

    /// Like distribution 3.1.2, it answers with a manifest only where `Accept` names the media type.
    pub fn answer(&self, request: &Request) -> Reply {
        let accept = request.header("accept").unwrap_or_default();
        let Some(path) = request.path.strip_prefix("/v2/policies/carbon/") else {
            return Reply::new(404, r#"{"errors":[{"code":"NAME_UNKNOWN"}]}"#);
        };
        let (kind, name) = path.split_once('/').unwrap_or((path, ""));
        match kind {
            "referrers" if self.api => Reply::new(200, self.index()),
            "manifests" if name.starts_with("sha256-") => self.tag(&accept),
            "manifests" if !accept.contains(MANIFEST) => {
                Reply::new(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#)
            }
            "manifests" | "blobs" => match self.content.get(name) {
                Some(bytes) => Reply::new(200, bytes),
                None => Reply::new(404, r#"{"errors":[{"code":"BLOB_UNKNOWN"}]}"#),
            },
            _ => Reply::new(404, "404 page not found"),
        }
    }

    fn tag(&self, accept: &str) -> Reply {
        match (self.tag_is_policy, self.referrers.is_empty()) {
            (true, _) => Reply::new(200, &self.content[&self.policy.to_string()]),
            (_, false) if accept.contains(INDEX) => Reply::new(200, self.index()),
            _ => Reply::new(404, "404 page not found"),
        }
    }
}
