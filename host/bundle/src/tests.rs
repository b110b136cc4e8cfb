//! Whole fetches, from a registry that answers as the specification says and otherwise.

mod kept;
mod layouts;
mod recorded;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::testing::{IN_TOTO, Reply, Request, SIGN, Server, Shelf, Signer, statement};
use crate::{
    Digest, Error, OciReference, Patience, Policy, RegistrySettings, Sources, Step, TrustSettings,
};

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0 a component";

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NTH: AtomicU64 = AtomicU64::new(0);
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let name = format!("longshore-bundle-{}-{nth}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What is configured for a registry on this machine, which is waited for a moment.
fn sources(host: &str) -> Sources {
    let settings = RegistrySettings {
        plain_http: true,
        ..Default::default()
    };
    let (silence, request) = (Duration::from_millis(400), Duration::from_millis(900));
    Sources {
        registries: [(host.to_string(), settings)].into(),
        patience: Patience {
            silence,
            request,
            whole: Duration::from_secs(5),
        },
        ..Default::default()
    }
}

fn trusted(host: &str, key: &Path) -> Sources {
    let (key_file, names) = (key.to_path_buf(), vec!["*/policies/*".into()]);
    let trust = vec![TrustSettings { key_file, names }];
    Sources {
        trust,
        ..sources(host)
    }
}

fn reference(host: &str, digest: &Digest) -> OciReference {
    OciReference::try_from(format!("{host}/policies/carbon:1.4@{digest}")).unwrap()
}

fn fetched(sources: &Sources, host: &str, digest: &Digest) -> Result<Policy, Error> {
    let (policy, note) = sources.oci(&reference(host, digest))?;
    assert_eq!(note, None);
    Ok(policy)
}

/// From a registry that answers so.
fn from(
    digest: &Digest,
    answer: impl Fn(&Request) -> Reply + Send + 'static,
) -> Result<Policy, Error> {
    let server = Server::start(answer);
    fetched(&sources(&server.host), &server.host, digest)
}

/// From a registry with signatures, of which one by that key is demanded.
fn signed(shelf: Shelf, digest: &Digest, signer: &Signer) -> Result<Policy, Error> {
    let folder = Folder::new();
    let key = folder.file("vendor.pub", signer.pem());
    let server = Server::start(move |request| shelf.answer(request));
    let got = fetched(&trusted(&server.host, &key), &server.host, digest);
    let asked = server.asked();
    if got.is_err() {
        let component = Digest::of(COMPONENT).to_string();
        let read = asked
            .iter()
            .any(|request| request.path.contains(&component));
        assert!(
            !read,
            "nothing of a component is read before its signature holds"
        );
    }
    got
}

#[test]
fn a_policy_is_fetched_by_its_digest() {
    let (shelf, digest) = Shelf::of(COMPONENT);
    let policy = from(&digest, move |request| shelf.answer(request)).unwrap();
    assert_eq!(policy.component, COMPONENT);
    assert_eq!(policy.component_digest, Digest::of(COMPONENT));
    assert_eq!(policy.signed_by, None);
}

#[test]
fn a_signature_is_found_by_the_referrers_api_and_by_the_tag() {
    for api in [true, false] {
        let signer = Signer::random();
        let (mut shelf, digest) = Shelf::of(COMPONENT);
        shelf.api = api;
        let attestation = statement(&digest, "https://cosign.sigstore.dev/attestation/v1");
        shelf.refer(&digest, &Signer::random().sign(&digest));
        shelf.refer(&digest, &signer.bundle(&attestation, IN_TOTO));
        shelf.refer(&digest, &signer.sign(&digest));
        let policy = signed(shelf, &digest, &signer).unwrap();
        assert!(policy.signed_by.unwrap().ends_with("vendor.pub"));
    }
}

#[test]
fn each_refusal_of_a_signature_has_its_sentence() {
    let signer = Signer::random();
    let (_, digest) = Shelf::of(COMPONENT);
    let said = |bundle: Option<String>| {
        let (mut shelf, digest) = Shelf::of(COMPONENT);
        if let Some(bundle) = bundle {
            shelf.refer(&digest, &bundle);
        }
        let error = signed(shelf, &digest, &signer).unwrap_err();
        assert_eq!(error.step, Step::Signature);
        error.reason
    };
    let bundle =
        |predicate: &str, kind: &str| Some(signer.bundle(&statement(&digest, predicate), kind));
    assert!(said(None).contains("`oras cp -r`"));
    assert!(said(Some(Signer::random().sign(&digest))).contains("not made with"));
    assert!(said(Some(signer.sign(&Digest::of(b"other")))).contains("it signs sha256:"));
    assert!(said(bundle("https://slsa.dev/provenance/v1", IN_TOTO)).contains("attestation"));
    assert!(said(bundle("https://sigstore.dev/cosign/sign/v9", IN_TOTO)).contains("predicate"));
    assert!(said(bundle(SIGN, "text/plain")).contains("payload is `text/plain`"));
}

#[test]
fn a_tag_that_is_no_index_holds_no_signature() {
    let signer = Signer::random();
    let (mut shelf, digest) = Shelf::of(COMPONENT);
    shelf.api = false;
    shelf.tag_is_policy = true;
    let error = signed(shelf, &digest, &signer).unwrap_err();
    assert!(error.reason.starts_with("there is no signature"), "{error}");
}

#[test]
fn too_many_referrers_are_not_read() {
    let signer = Signer::random();
    let (mut shelf, digest) = Shelf::of(COMPONENT);
    for nth in 0..65 {
        shelf.refer(&digest, &format!("bundle {nth}"));
    }
    let error = signed(shelf, &digest, &signer).unwrap_err();
    assert_eq!(error.step, Step::Referrers);
    assert_eq!(error.reason, "more than 64 manifests refer to it");
}

#[test]
fn what_a_registry_says_is_told_with_the_step() {
    for (status, said) in [
        (401, "it wants credentials"),
        (403, "it wants credentials"),
        (404, "it is not there"),
        (429, "it was asked too often"),
        (500, "the registry failed"),
        (418, "unexpected"),
    ] {
        let (_, digest) = Shelf::of(COMPONENT);
        let body = r#"{"errors":[{"code":"WHY","message":"because"}]}"#;
        let answer = move |_: &Request| Reply::new(status, body).header("Retry-After", "7");
        let error = from(&digest, answer).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("manifest: ") && text.contains(said), "{text}");
        assert!(
            text.ends_with(&format!("status {status} (WHY: because)")),
            "{text}"
        );
        assert_eq!((error.not_found, error.after), (status == 404, Some(7)));
    }
}

/// A registry that spoils what it has of the component, and what is said then.
fn spoiled(spoil: impl Fn(Reply) -> Reply + Send + 'static) -> String {
    let (shelf, digest) = Shelf::of(COMPONENT);
    let component = Digest::of(COMPONENT).to_string();
    let error = from(&digest, move |request| {
        let reply = shelf.answer(request);
        if request.path.contains(&component) {
            spoil(reply)
        } else {
            reply
        }
    });
    let error = error.unwrap_err();
    assert_eq!(error.step, Step::Component);
    error.reason
}

#[test]
fn a_component_that_is_not_what_its_digest_says_is_refused() {
    let corrupt = spoiled(|mut reply| {
        reply.body[9] ^= 1;
        reply
    });
    assert!(
        corrupt.starts_with("what came has the digest sha256:"),
        "{corrupt}"
    );
}

#[test]
fn a_component_larger_than_its_manifest_says_is_not_read() {
    let large = spoiled(|mut reply| {
        reply.body.push(0);
        reply
    });
    assert_eq!(large, format!("it has more than {} bytes", COMPONENT.len()));
    let unsaid = spoiled(|mut reply| {
        reply.body.resize(1 << 20, 0);
        reply.length = false;
        reply
    });
    assert_eq!(unsaid, large);
}

#[test]
fn an_answer_that_is_cut_off_is_an_error() {
    let cut = spoiled(|mut reply| {
        reply.sent = Some(5);
        reply
    });
    assert!(cut.starts_with("cut off after 5 bytes"), "{cut}");
}

#[test]
fn a_registry_that_is_slow_is_left() {
    let slow = spoiled(|mut reply| {
        reply.stalls = Duration::from_millis(700);
        reply
    });
    assert!(slow.contains("timeout"), "{slow}");
}

#[test]
fn a_registry_that_is_always_nearly_done_is_left() {
    let (shelf, digest) = Shelf::of(COMPONENT);
    let server = Server::start(move |request| {
        std::thread::sleep(Duration::from_millis(60));
        shelf.answer(request)
    });
    let mut sources = sources(&server.host);
    sources.patience.whole = Duration::from_millis(50);
    let error = fetched(&sources, &server.host, &digest).unwrap_err();
    assert!(server.asked().len() < 3, "{error}");
    sources.patience.whole = Duration::from_secs(5);
    assert!(fetched(&sources, &server.host, &digest).is_ok());
}

#[test]
fn another_manifest_is_refused_by_its_digest() {
    let (_, digest) = Shelf::of(COMPONENT);
    let error = from(&digest, |_| Reply::new(200, "{}")).unwrap_err();
    assert!(
        error.reason.starts_with("what came has the digest"),
        "{error}"
    );
}

#[test]
fn manifests_that_are_no_policy_are_refused() {
    let (shelf, digest) = Shelf::of(COMPONENT);
    let good = shelf.text(&digest);
    let layer = &good[good.find("[{").unwrap() + 1..good.find("}]").unwrap() + 1];
    for (text, said) in [
        (
            good.replace("wasm.config.v0", "oci.empty.v1"),
            "push with `wkg oci push`",
        ),
        (
            good.replace(layer, &format!("{layer},{layer}")),
            "it has 2 layers",
        ),
        (
            good.replace("application/wasm", "text/plain"),
            "its layer is `text/plain`",
        ),
        (
            good.replace(r#""size":20"#, r#""size":67108865"#),
            "at most 64 MiB",
        ),
        (r#"{"manifests":[]}"#.into(), "it is an index"),
        ("{".into(), "it is not an OCI manifest"),
    ] {
        assert_ne!(text, good, "{said}");
        let digest = Digest::of(text.as_bytes());
        let error = from(&digest, move |_| Reply::new(200, &text)).unwrap_err();
        assert!(error.reason.contains(said), "{said}: {error}");
    }
}

#[test]
fn another_origin_is_shown_no_credentials() {
    let folder = Folder::new();
    let auth = r#"{"auths":{"HOST":{"username":"u","password":"p"}}}"#;
    let (shelf, digest) = Shelf::of(COMPONENT);
    let storage = Server::start(|_| Reply::new(200, COMPONENT));
    let to = format!("http://{}/bytes?key=secret", storage.host);
    let server = Server::start(move |request| match request.header("authorization") {
        None => Reply::new(401, "").header("WWW-Authenticate", "Basic realm=\"r\""),
        Some(_) if request.path.contains("/blobs/") => Reply::new(307, "").header("Location", &to),
        Some(_) => shelf.answer(request),
    });
    let mut sources = sources(&server.host);
    let auth = folder.file("auth", auth.replace("HOST", &server.host));
    sources.registries.get_mut(&server.host).unwrap().auth_file = Some(auth);
    let policy = fetched(&sources, &server.host, &digest).unwrap();
    assert_eq!(policy.component, COMPONENT);
    let asked = storage.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].header("authorization"), None);
    let shown = server.asked().last().unwrap().header("authorization");
    assert_eq!(shown.as_deref(), Some("Basic dTpw"));
}

#[test]
fn storage_that_wants_credentials_is_given_none() {
    let folder = Folder::new();
    let (_, digest) = Shelf::of(COMPONENT);
    let thief = Server::start(|_| Reply::new(200, r#"{"token":"t"}"#));
    let challenge = format!("Bearer realm=\"http://{}/t\"", thief.host);
    let storage =
        Server::start(move |_| Reply::new(401, "").header("WWW-Authenticate", &challenge));
    let to = format!("http://{}/bytes", storage.host);
    let server = Server::start(move |_| Reply::new(307, "").header("Location", &to));
    let auth = r#"{"auths":{"HOST":{"username":"u","password":"p"}}}"#;
    let auth = folder.file("auth", auth.replace("HOST", &server.host));
    let mut sources = sources(&server.host);
    let own = sources.registries.get_mut(&server.host).unwrap();
    own.auth_file = Some(auth);
    let error = fetched(&sources, &server.host, &digest).unwrap_err();
    assert!(error.reason.contains("status 401"), "{error}");
    assert_eq!(storage.asked().len(), 1);
    assert!(thief.asked().is_empty());
}

#[test]
fn nothing_without_tls_is_asked_elsewhere() {
    let (_, digest) = Shelf::of(COMPONENT);
    let to = "http://reg.example/v2/";
    let error = from(&digest, move |_| Reply::new(302, "").header("Location", to));
    let error = error.unwrap_err();
    assert!(
        error.reason.ends_with("sent us here, which has no TLS"),
        "{error}"
    );
    let turns = from(&digest, |request| {
        Reply::new(302, "").header("Location", &request.path)
    });
    assert!(turns.unwrap_err().reason.contains("more than 5 times"));
}

#[test]
fn a_token_is_fetched_where_the_registry_says() {
    for answer in [
        r#"{"token":"right"}"#,
        r#"{"access_token":"right","expires_in":"300","issued_at":"never"}"#,
        r#"{"token":"","access_token":"right"}"#,
        r#"{"token":"wrong","access_token":"right"}"#,
        r#"{"token":"right","access_token":"wrong"}"#,
    ] {
        let (shelf, digest) = Shelf::of(COMPONENT);
        let tokens = Server::start(move |_| Reply::new(200, answer));
        let challenge = format!(
            "bearer  realm=\"http://{}/t?a=b\",service=\"s\"",
            tokens.host
        );
        let policy = from(&digest, move |request| {
            match request.header("authorization").as_deref() {
                Some("Bearer right") => shelf.answer(request),
                _ => Reply::new(401, "").header("WWW-Authenticate", &challenge),
            }
        });
        assert_eq!(policy.unwrap().component, COMPONENT, "{answer}");
        let asked = tokens.asked();
        assert_eq!(asked.len(), 1, "a token is kept");
        let path = "/t?a=b&service=s&scope=repository:policies/carbon:pull";
        assert_eq!(asked[0].path, path);
    }
}

#[test]
fn a_mirror_is_asked_first_and_shown_nothing_of_the_registry() {
    let folder = Folder::new();
    let (shelf, digest) = Shelf::of(COMPONENT);
    let mirror = Server::start(|_| Reply::new(404, ""));
    let server = Server::start(move |request| shelf.answer(request));
    let mut sources = sources(&server.host);
    let own = sources.registries.get_mut(&server.host).unwrap();
    own.mirror = Some(format!("{}/proxy", mirror.host));
    own.auth_file = Some(folder.file("auth", "{}"));
    let plain = RegistrySettings {
        plain_http: true,
        ..Default::default()
    };
    sources.registries.insert(mirror.host.clone(), plain);
    assert!(fetched(&sources, &server.host, &digest).is_ok());
    let asked = mirror.asked();
    let path = format!("/v2/proxy/policies/carbon/manifests/{digest}");
    assert_eq!(asked.iter().map(|r| &r.path).collect::<Vec<_>>(), [&path]);
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    let (shelf, digest) = Shelf::of(COMPONENT);
    let server = Server::start(move |request| shelf.answer(request));
    let said = |change: &dyn Fn(&mut RegistrySettings)| {
        let mut sources = sources(&server.host);
        change(sources.registries.get_mut(&server.host).unwrap());
        let error = fetched(&sources, &server.host, &digest).unwrap_err();
        assert_eq!(error.step, Step::Settings);
        error.reason
    };
    let empty = folder.file("empty.pem", "");
    let none = said(&move |settings| settings.ca_file = Some(empty.clone()));
    assert_eq!(none, "it has no certificate in PEM");
    let scheme = said(&|settings| settings.mirror = Some("https://mirror.local".into()));
    assert!(scheme.contains("without a scheme"), "{scheme}");
    let key = trusted(&server.host, Path::new("/nowhere/vendor.pub"));
    let error = fetched(&key, &server.host, &digest).unwrap_err();
    assert_eq!(
        (error.step, &*error.place),
        (Step::Settings, "/nowhere/vendor.pub")
    );
}
