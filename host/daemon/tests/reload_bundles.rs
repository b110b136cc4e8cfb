//! Policies from registries and layouts: verified before anything is compiled, kept for a start
//! without a registry, and never waited for by a round. Whatever a registry does, what runs goes on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::reload::guest::{Way, guest};
use crate::scene::{Scene, setup};
use longshore_bundle::testing::{Reply, Request, SIGN, Server, Shelf, Signer, statement};
use longshore_bundle::{Digest, Patience};
use longshore_core::policy::Policies as _;
use longshore_live::policies::{Active, Fetching, NoticeKind, PolicyReloader, Setup};

/// How a registry answers, which may change.
type Answer = Box<dyn Fn(&Request) -> Reply + Send>;

/// A registry that keeps its address whatever it does.
struct Registry {
    server: Server,
    answer: Arc<Mutex<Answer>>,
}

impl Registry {
    fn new(shelf: Shelf) -> Self {
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(move |r| shelf.answer(r))));
        let asked = answer.clone();
        let server = Server::start(move |request| asked.lock().unwrap()(request));
        Registry { server, answer }
    }

    fn answers(&self, answer: impl Fn(&Request) -> Reply + Send + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }

    fn has(&self, shelf: Shelf) {
        self.answers(move |request| shelf.answer(request));
    }

    /// `longshore.toml` with a policy of this digest.
    fn config(&self, digest: &Digest) -> String {
        let host = &self.server.host;
        format!(
            "[[policy]]\nname = 'one'\noci = '{host}/policies/carbon:1.4@{digest}'\n\
             max-discount = '100%'\n[registries.'{host}']\nplain-http = true\n"
        )
    }
}

fn component(version: &str, cost: f64) -> Vec<u8> {
    guest(version, Way::Costs(cost))
}

fn folder(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("longshore-bundles-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn fetching(folder: &Path) -> Setup {
    let (silence, request) = (Duration::from_millis(300), Duration::from_secs(2));
    let whole = Duration::from_secs(5);
    Setup {
        fetching: Fetching {
            cache: Some(folder.join("bundles")),
            patience: Patience {
                silence,
                request,
                whole,
            },
            ..Fetching::default()
        },
        ..setup(folder)
    }
}

/// A process with this configuration.
fn begin(folder: &Path, config: &str) -> Scene {
    std::fs::write(folder.join("longshore.toml"), config).unwrap();
    Scene::with(folder.to_owned(), fetching)
}

/// Looks until something is so. Time goes on far enough for what failed to be tried again.
fn until(scene: &mut Scene, what: &str, is: impl Fn(&Scene) -> bool) {
    let mut now = SystemTime::now() + Duration::from_secs(60);
    for _ in 0..1000 {
        scene.watcher.step(now);
        if is(scene) {
            return;
        }
        now += Duration::from_secs(20);
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not {what}: {:?}", scene.policy("one"));
}

#[test]
fn a_signed_policy_comes_from_a_registry_and_then_from_the_cache() {
    let (folder, signer) = (folder("comes"), Signer::random());
    let (mut shelf, digest) = Shelf::of(&component("1.4.0", 0.25));
    shelf.refer(&digest, &signer.sign(&digest));
    let registry = Registry::new(shelf);
    std::fs::write(folder.join("vendor.pub"), signer.pem()).unwrap();
    let host = &registry.server.host;
    let trust = format!("[[trust]]\nkey-file = 'vendor.pub'\nfor = ['{host}/policies/*']\n");
    let config = registry.config(&digest) + &trust;
    let verified = |scene: &Scene| {
        let policy = scene.policy("one");
        assert_eq!(scene.cost(), 0.25);
        assert_eq!(policy.version.as_deref(), Some("flat 1.4.0"));
        assert!(policy.signed_by.unwrap().ends_with("vendor.pub"));
        assert_eq!((policy.fetching, policy.error), (false, None));
        let warnings = scene.manager.status().warnings;
        assert!(
            warnings.iter().all(|said| !said.contains("the key")),
            "{warnings:?}"
        );
    };
    {
        let mut scene = begin(&folder, &config);
        assert!(scene.policy("one").fetching && scene.cost() == scene.price());
        until(&mut scene, "loaded", |scene| scene.policy("one").loads == 1);
        verified(&scene);
        // The folder stays.
        scene.folder = folder.join("gone");
    }
    drop(registry);
    let scene = begin(&folder, &config);
    verified(&scene);
}

/// What a registry does with the component, and what is said of it.
type Spoils = (fn(Reply) -> Reply, &'static str);

#[test]
fn whatever_a_registry_does_the_old_version_goes_on_and_the_reason_is_said() {
    let folder = folder("spoiled");
    let (shelf, old) = Shelf::of(&component("1.0.0", 0.25));
    let registry = Registry::new(shelf);
    let mut scene = begin(&folder, &registry.config(&old));
    until(&mut scene, "loaded", |scene| scene.policy("one").loads == 1);
    scene.kinds();
    let status = |status: u16| Reply::new(status, "");
    let spoils: [Spoils; 10] = [
        (
            |mut reply| {
                reply.body[99] ^= 1;
                reply
            },
            "component: what came has the digest sha256:",
        ),
        (
            |mut reply| {
                reply.body.resize(1 << 20, 0);
                reply.length = false;
                reply
            },
            "component: it has more than ",
        ),
        (
            |mut reply| {
                reply.sent = Some(1000);
                reply
            },
            "component: cut off after 1000 bytes",
        ),
        (|_| Reply::new(401, ""), "it wants credentials"),
        (|_| Reply::new(404, ""), "it is not there"),
        (|_| Reply::new(429, ""), "it was asked too often"),
        (|_| Reply::new(500, ""), "the registry failed"),
        (
            |mut reply| {
                reply.stalls = Duration::from_millis(600);
                reply
            },
            "timeout",
        ),
        (
            |_| Reply::new(307, "").header("Location", "http://169.254.169.254/latest"),
            "sent us here, which has no TLS",
        ),
        (
            |_| Reply::new(302, "").header("Location", "/v2/policies/carbon/blobs/again"),
            "redirects",
        ),
    ];
    for (nth, (spoil, said)) in spoils.into_iter().enumerate() {
        let bytes = component(&format!("2.0.{nth}"), 0.5);
        let (shelf, new) = Shelf::of(&bytes);
        let path = Digest::of(&bytes).to_string();
        registry.answers(move |request| {
            let reply = shelf.answer(request);
            let is = request.path.contains(&path) || request.path.ends_with("/again");
            if is { spoil(reply) } else { reply }
        });
        scene.edit("longshore.toml", registry.config(&new).as_bytes());
        until(&mut scene, said, |scene| scene.error("one").contains(said));
        assert_eq!(scene.cost(), 0.25, "{said}");
        assert_eq!(scene.policy("one").version.as_deref(), Some("flat 1.0.0"));
        let refused = scene
            .kinds()
            .iter()
            .filter(|k| **k == NoticeKind::PolicyRefused)
            .count();
        assert!(refused >= 1, "{said}");
    }
    let (_, new) = Shelf::of(b"never asked for");
    registry.answers(move |_| status(200));
    scene.edit("longshore.toml", registry.config(&new).as_bytes());
    let said = "manifest: what came has the digest sha256:";
    until(&mut scene, said, |scene| scene.error("one").contains(said));
    // And once it has it, it comes by itself.
    let (shelf, new) = Shelf::of(&component("3.0.0", 0.75));
    registry.answers(|_| Reply::new(503, ""));
    scene.edit("longshore.toml", registry.config(&new).as_bytes());
    let said = "status 503";
    until(&mut scene, said, |scene| scene.error("one").contains(said));
    registry.has(shelf);
    until(&mut scene, "loaded", |scene| scene.policy("one").loads == 2);
    assert_eq!((scene.cost(), scene.error("one").as_str()), (0.75, ""));
}

#[test]
fn without_its_signature_nothing_of_a_component_is_fetched_or_compiled() {
    let (folder, signer) = (folder("unsigned"), Signer::random());
    std::fs::write(folder.join("vendor.pub"), signer.pem()).unwrap();
    // Compiling it would say that it is not WebAssembly.
    let bytes = b"not WebAssembly";
    let (shelf, digest) = Shelf::of(bytes);
    let registry = Registry::new(shelf.clone());
    let config = registry.config(&digest) + "[[trust]]\nkey-file = 'vendor.pub'\nfor = ['*']\n";
    let mut scene = begin(&folder, &config);
    let predicate = |predicate: &str| {
        let said = statement(&digest, predicate);
        signer.bundle(&said, "application/vnd.in-toto+json")
    };
    let cases = [
        (None, "there is no signature"),
        (Some(Signer::random().sign(&digest)), "was not made with"),
        (Some(signer.sign(&Digest::of(b"other"))), "it signs sha256:"),
        (
            Some(predicate("https://slsa.dev/provenance/v1")),
            "attestation",
        ),
        (
            Some(predicate(&format!("{SIGN}2"))),
            "the signed predicate is",
        ),
    ];
    for (bundle, said) in cases {
        let mut shelf = shelf.clone();
        if let Some(bundle) = bundle {
            shelf.refer(&digest, &bundle);
        }
        registry.has(shelf);
        until(&mut scene, said, |scene| scene.error("one").contains(said));
        assert!(scene.error("one").contains("signature: "), "{said}");
    }
    let path = Digest::of(bytes).to_string();
    let asked = registry.server.asked();
    assert!(asked.iter().all(|request| !request.path.contains(&path)));
    let mut shelf = shelf;
    shelf.refer(&digest, &signer.sign(&digest));
    registry.has(shelf);
    let said = "not WebAssembly: it begins with";
    until(&mut scene, said, |scene| scene.error("one").contains(said));
}

#[test]
fn another_key_has_what_runs_verified_again() {
    let (folder, signer) = (folder("key"), Signer::random());
    std::fs::write(folder.join("vendor.pub"), signer.pem()).unwrap();
    let (mut shelf, digest) = Shelf::of(&component("1.0.0", 0.25));
    shelf.refer(&digest, &signer.sign(&digest));
    let registry = Registry::new(shelf);
    let config = registry.config(&digest) + "[[trust]]\nkey-file = 'vendor.pub'\nfor = ['*']\n";
    let mut scene = begin(&folder, &config);
    until(&mut scene, "loaded", |scene| scene.policy("one").loads == 1);
    scene.edit("vendor.pub", Signer::random().pem().as_bytes());
    let said = "was not made with";
    until(&mut scene, said, |scene| scene.error("one").contains(said));
    assert_eq!(scene.cost(), 0.25, "what runs goes on");
    scene.edit("vendor.pub", signer.pem().as_bytes());
    until(&mut scene, "as before", |scene| {
        scene.error("one").is_empty()
    });
    assert_eq!(scene.policy("one").loads, 1);
}

#[test]
fn what_real_tools_pushed_signed_and_copied_is_loaded_from_its_folder() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundle/vectors");
    let vectors = vectors.canonicalize().unwrap();
    let digest = "sha256:b6fdaf496e866dab10b0d37f6474463f3855d0efd43dba03c151128f83686287";
    for layout in ["signed", "saved"] {
        let place = vectors.join(layout);
        let config = format!(
            "[[policy]]\nname = 'one'\noci-layout = '{}@{digest}'\nmax-discount = '100%'\n\
             [[trust]]\nkey-file = '{}'\nfor = ['{}']\n",
            place.display(),
            vectors.join("cosign.pub").display(),
            place.display(),
        );
        let scene = begin(&folder(layout), &config);
        let policy = scene.policy("one");
        assert_eq!(policy.version.as_deref(), Some("flat 1.4.0"), "{policy:?}");
        assert!(policy.signed_by.unwrap().ends_with("cosign.pub"));
        assert_eq!(scene.cost(), 0.25);
    }
}

#[test]
fn a_key_that_is_demanded_of_nothing_is_a_warning() {
    let folder = folder("unused");
    std::fs::write(folder.join("vendor.pub"), Signer::random().pem()).unwrap();
    let (shelf, digest) = Shelf::of(&component("1.0.0", 0.25));
    let registry = Registry::new(shelf);
    let trust = "[[trust]]\nkey-file = 'vendor.pub'\nfor = ['reg.exmple/policies/*']\n";
    let scene = begin(&folder, &(registry.config(&digest) + trust));
    let warnings = scene.manager.status().warnings;
    assert!(
        warnings[0].contains("vendor.pub is demanded of no policy"),
        "{warnings:?}"
    );
}

/// How a registry misbehaves by turns.
const TURNS: usize = 8;

#[test]
fn no_round_waits_for_a_registry() {
    let folder = folder("rounds");
    let (shelf, old) = Shelf::of(&component("1.0.0", 0.25));
    let registry = Registry::new(shelf);
    let setup = |folder: &Path| {
        let mut setup = fetching(folder);
        setup.fetching.retry = Duration::from_millis(1);
        // Longer than any round may take, so that one that waited would be seen.
        setup.fetching.patience.silence = Duration::from_secs(2);
        setup
    };
    std::fs::write(folder.join("longshore.toml"), registry.config(&old)).unwrap();
    let scene = Scene::with(folder.clone(), |folder| Setup {
        config: None,
        ..setup(folder)
    });
    let manager = PolicyReloader::start(setup(&folder)).unwrap();
    let loaded = || manager.status().policies[0].loads > 0;
    let begun = Instant::now();
    while !loaded() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(loaded());
    let (shelf, new) = Shelf::of(&component("2.0.0", 0.5));
    let turns = Mutex::new(0);
    registry.answers(move |request| {
        let mut turn = turns.lock().unwrap();
        *turn += 1;
        let mut reply = shelf.answer(request);
        match *turn % TURNS {
            0 => reply.stalls = Duration::from_millis(1500),
            1 => reply.body = vec![0; 8 << 20],
            2 => reply.sent = Some(reply.body.len() / 2),
            3 => reply = Reply::new(500, "x"),
            4 => reply = Reply::new(429, "").header("Retry-After", "0"),
            5 => reply.body[0] ^= 1,
            6 => reply = Reply::new(307, "").header("Location", "http://169.254.169.254/"),
            _ => reply = Reply::new(404, ""),
        }
        reply
    });
    scene.edit("longshore.toml", registry.config(&new).as_bytes());
    let (begun, before) = (Instant::now(), registry.server.asked().len());
    let (mut rounds, mut longest) = (0, Duration::ZERO);
    let asked = || registry.server.asked().len() - before;
    while asked() <= TURNS && begun.elapsed() < Duration::from_secs(30) {
        let round = Instant::now();
        let live = manager.take();
        live.begin_round(1_700_000_000);
        let world = &scene.snapshot.world;
        let scores = live.score(&world.catalogue, &world.names, scene.pool());
        assert_eq!(scores.cost[0], 0.25, "the version before answers");
        longest = longest.max(round.elapsed());
        rounds += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    let policy = manager.status().policies.remove(0);
    assert_eq!(policy.active, Some(Active::Current));
    assert!(policy.refused > 0 && policy.error.is_some(), "{policy:?}");
    assert!(asked() > TURNS, "it was asked {} times", asked());
    assert!(
        rounds > 100 && longest < Duration::from_secs(1),
        "{rounds} {longest:?}"
    );
}
