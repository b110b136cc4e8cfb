//! Commands with policies from registries and layouts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use longshore_bundle::Digest;
use longshore_bundle::testing::{Server, Shelf, Signer};
use longshore_policy::golden::with_cases;

/// The manifest in `host/bundle/vectors/signed`, by real tools.
const RECORDED: &str = "sha256:b6fdaf496e866dab10b0d37f6474463f3855d0efd43dba03c151128f83686287";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("longshore-bundle-commands-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.0.join(name).display().to_string()
    }

    /// What a command says, with a cache of this folder's own: standard output, or standard error
    /// where it fails.
    fn run(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        command.current_dir(folder).args(args);
        command.env("XDG_CACHE_HOME", &self.0);
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        match status.success() {
            true => Ok(text(stdout)),
            false => Err(text(stderr)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn vector(name: &str) -> PathBuf {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundle/vectors");
    vectors.canonicalize().unwrap().join(name)
}

fn component() -> Vec<u8> {
    let blob = "797ee4796c4fd3f4402d344efbb6bfec35ebd223f416ee618fa51ae6c2d2427f";
    std::fs::read(vector("signed/blobs/sha256").join(blob)).unwrap()
}

#[test]
fn policy_check_says_what_it_verified_and_then_what_the_component_is() {
    let folder = Folder::new("check");
    let place = vector("signed");
    let trust = |key: &str| {
        let key = vector(key);
        let (key, place) = (key.display(), place.display());
        format!("[[trust]]\nkey-file = '{key}'\nfor = ['{place}']\n")
    };
    let reference = format!("{}@{RECORDED}", place.display());
    let check = |name: &str, key: &str| {
        let config = folder.file(name, trust(key));
        folder.run(&["policy", "check", "--config", &config, &reference])
    };
    let text = check("good.toml", "cosign.pub").unwrap();
    let found = format!("found        in {}", place.display());
    let signed = format!(
        "signature    of this manifest, made with {}",
        vector("cosign.pub").display()
    );
    for line in [
        &format!("bundle       {reference}"),
        &found,
        &format!("manifest     {RECORDED}, as asked for"),
        &signed,
        "policy       flat 1.4.0",
        "implements   scorer",
    ] {
        assert!(text.lines().any(|said| said == line), "{line}\n{text}");
    }
    let refused = check("ed.toml", "ed.pub").unwrap_err();
    assert!(
        refused.contains("settings: it is an Ed25519 key"),
        "{refused}"
    );
    let unsigned = folder.run(&["policy", "check", &reference]).unwrap();
    assert!(
        unsigned.contains("not demanded: no [[trust]]"),
        "{unsigned}"
    );
}

#[test]
fn a_plan_fetches_a_policy_once_and_then_needs_no_registry() {
    let (folder, signer) = (Folder::new("plan"), Signer::random());
    let (mut shelf, digest) = Shelf::of(&component());
    shelf.refer(&digest, &signer.sign(&digest));
    let server = Server::start(move |request| shelf.answer(request));
    folder.file("vendor.pub", signer.pem());
    let host = server.host.clone();
    let config = folder.file(
        "longshore.toml",
        format!(
            "[[policy]]\nname = 'flat'\noci = '{host}/policies/carbon:1.4@{digest}'\n\
             [registries.'{host}']\nplain-http = true\n\
             [[trust]]\nkey-file = 'vendor.pub'\nfor = ['{host}/*']\n"
        ),
    );
    let plan = || {
        folder.run(&[
            "plan",
            "--snapshot",
            "tests/data/small.yaml",
            "--instance-types",
            "tests/data/types.json",
            "--config",
            &config,
        ])
    };
    let first = plan().unwrap();
    drop(server);
    let decided = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with("Decided in "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(decided(&plan().unwrap()), decided(&first));
    folder.file("vendor.pub", Signer::random().pem());
    let said = plan().unwrap_err();
    assert!(
        said.contains("cannot fetch ") && !said.contains("panicked"),
        "{said}"
    );
}

#[test]
fn a_reference_that_cannot_be_used_is_an_error_with_its_place() {
    let folder = Folder::new("typed");
    let digest = Digest::of(b"x");
    let typed = format!("reg.example/Policies/a@{digest}");
    let said = folder.run(&["policy", "check", &typed]).unwrap_err();
    assert!(
        said.contains("character 13: `Policies/a` is not a repository"),
        "{said}"
    );
}

#[test]
fn a_bundle_that_does_not_answer_as_it_says_of_itself_is_refused() {
    let case = "expected = [12345.0]\n[[offerings]]\ninstance-type = 'm7g.large'\n\
                zone = 'us-east-1a'\nprice = 0.0816\n";
    let cases = [("dear".to_owned(), case.to_owned())];
    let folder = Folder::new("vectors");
    let (mut shelf, digest) = Shelf::of(&with_cases(&component(), &cases).unwrap());
    let signer = Signer::random();
    shelf.refer(&digest, &signer.sign(&digest));
    let server = Server::start(move |request| shelf.answer(request));
    let host = server.host.clone();
    let config = folder.file(
        "longshore.toml",
        format!(
            "[[policy]]\nname = 'flat'\noci = '{host}/policies/carbon@{digest}'\n\
             [registries.'{host}']\nplain-http = true\n"
        ),
    );
    let (cluster, types) = ("tests/data/small.yaml", "tests/data/types.json");
    let plan = ["plan", "--snapshot", cluster, "--instance-types", types];
    for command in [&plan[..], &["policy", "check"]] {
        let said = folder.run(&[command, &["--config", &config]].concat());
        let said = said.unwrap_err();
        assert!(said.contains("golden vector `dear` is not met"), "{said}");
        assert!(said.contains("policy flat is refused"), "{said}");
    }
}
