//! Manifests that are mutated from valid ones, given to a real API server (a dry run in kubectl's
//! strict mode) and to the readers of our offline commands. What the API server refuses we do not
//! take without a word, and what it stores we can read.
//!
//! `LONGSHORE_CROSSING="COUNT SEED"` asks for others than CI's; `cargo xtask bench api-crossing` sets
//! it.

mod generate;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use longshore_api::crd::{KWOKNodeClass, NodeClaim, NodeOverlay, NodePool};
use longshore_api::manifests::{Reader, Store, overlays};
use longshore_core::model::Symbols;
use longshore_ec2::nodeclass::{self, EC2NodeClass};
use longshore_ec2::validation::rules;
use longshore_xtask::control_plane::ControlPlane;
use serde::de::DeserializeOwned;
use serde_json::Value;

use generate::{Manifest, bases, manifest};

/// Manifests of CI's run, and its seed.
const FEW: (u64, u64) = (400, 2);
/// Requests under way at once.
const AT_ONCE: usize = 3;
/// Differences that are shown in full.
const SHOWN: usize = 60;

/// What we refuse though the API server takes it, by a part of our words: Karpenter refuses it too, or
/// `docs/differences-from-karpenter.md` has a row.
const OURS: [(&str, &str); 22] = [
    // ValidationSucceeded is False in Karpenter too.
    ("NodePool", "is not a label value"),
    ("NodePool", "is not a label key"),
    ("NodePool", "is restricted"),
    ("NodePool", "is not a taint"),
    ("NodePool", "is there twice"),
    ("NodePool", "are capacity types"),
    ("NodePool", "is a capacity type"),
    ("NodeOverlay", "is not a label value"),
    ("NodeOverlay", "is not a label key"),
    ("NodeOverlay", "is restricted"),
    ("NodeOverlay", "has no single bound"),
    ("NodeOverlay", "is known from the cloud"),
    // Karpenter cannot read it.
    ("NodePool", "is not a duration"),
    // Rows of the page.
    ("NodePool", "nodes carry it as a label value"),
    ("NodeOverlay", "is negative"),
    (
        "EC2NodeClass",
        "spec.role: is missing, and so is instanceProfile",
    ),
    ("Pod", "selects no node"),
    ("Pod", "is not an integer"),
    ("Pod", "invalid type: null, expected a string"),
    ("DaemonSet", "is not an integer"),
    ("DaemonSet", "invalid type: null, expected a string"),
    ("DaemonSet", "selects no node"),
];
/// What the API server refuses and we take without a word, by a part of its words; each has a row in
/// `docs/differences-from-karpenter.md`.
const THEIRS: [(&str, &str); 6] = [
    ("Pod", "].image: Required value"),
    ("Pod", "].name: Required value"),
    ("DaemonSet", "].image: Required value"),
    ("DaemonSet", "].name: Required value"),
    ("DaemonSet", "empty selector is invalid for daemonset"),
    ("DaemonSet", "`selector` does not match template `labels`"),
];

/// A way to the API server without TLS.
struct Proxy {
    child: Child,
    url: String,
    agent: ureq::Agent,
}

impl Proxy {
    fn start(plane: &ControlPlane) -> Result<Self, String> {
        let mut command = plane.kubectl().map_err(|error| format!("{error:#}"))?;
        command.args(["proxy", "--port=0"]).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let out = child.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        let read = BufReader::new(out).read_line(&mut line);
        read.map_err(|error| error.to_string())?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default();
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        Ok(Proxy {
            child,
            url: format!("http://{address}"),
            agent: config.build().into(),
        })
    }

    /// The object as it would be stored, or the reason why it is not.
    fn ask(&self, manifest: &Manifest) -> Result<String, String> {
        let path = match manifest.kind.as_str() {
            "NodePool" => "apis/karpenter.sh/v1/nodepools",
            "NodeClaim" => "apis/karpenter.sh/v1/nodeclaims",
            "NodeOverlay" => "apis/karpenter.sh/v1alpha1/nodeoverlays",
            "KWOKNodeClass" => "apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
            "EC2NodeClass" => "apis/karpenter.k8s.aws/v1/ec2nodeclasses",
            "DaemonSet" => "apis/apps/v1/namespaces/default/daemonsets",
            _ => "api/v1/namespaces/default/pods",
        };
        let url = format!("{}/{path}?dryRun=All&fieldValidation=Strict", self.url);
        let request = self
            .agent
            .post(&url)
            .header("content-type", "application/json");
        let answer = request.send(manifest.text.as_bytes());
        let mut answer = answer.map_err(|error| format!("not asked: {error}"))?;
        let body = answer.body_mut().read_to_string();
        let body = body.map_err(|error| format!("not asked: {error}"))?;
        if answer.status().is_success() {
            return Ok(body);
        }
        let said: Value = serde_json::from_str(&body).unwrap_or_default();
        Err(format!(
            "{}: {}",
            answer.status().as_u16(),
            said["message"].as_str().unwrap_or(&body)
        ))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What offline commands make of a manifest: whether it is taken, and what is said.
fn ours(manifest: &Manifest) -> (bool, Vec<String>) {
    let bytes = manifest.text.as_bytes();
    let mut reader = Reader::of_manifests();
    reader.read("m", bytes);
    let (world, problems) = reader.finish();
    let mut said: Vec<String> = problems.list.iter().map(ToString::to_string).collect();
    said.extend(
        world
            .pods
            .iter()
            .filter_map(|pod| pod.invalid.as_deref().map(str::to_owned)),
    );
    let taken = match manifest.kind.as_str() {
        "NodePool" => world.pools.len() == 1,
        "NodeClaim" => world.claims.len() == 1,
        "KWOKNodeClass" => world.classes.len() == 1,
        "DaemonSet" => world.daemons.len() == 1,
        "Pod" => {
            world
                .pods
                .iter()
                .filter(|pod| pod.invalid.is_none())
                .count()
                == 1
        }
        "NodeOverlay" => {
            let (found, problems) = overlays("m", bytes, &[], &mut Symbols::default());
            said.extend(problems.list.iter().map(ToString::to_string));
            found.len() == 1
        }
        _ => {
            let (found, problems) = nodeclass::read("m", bytes);
            said.extend(problems.list.iter().map(ToString::to_string));
            let faults = found.iter().flat_map(|class| rules(&class.spec));
            let before = said.len();
            said.extend(faults.map(|fault| format!("spec.{}: {}", fault.field, fault.what)));
            found.len() == 1 && said.len() == before
        }
    };
    (taken, said)
}

/// Why an object that the API server has stored cannot be read, if it cannot.
fn unreadable(kind: &str, stored: &str) -> Option<String> {
    fn typed<T: DeserializeOwned>(text: &str) -> Option<String> {
        serde_json::from_str::<T>(text)
            .err()
            .map(|error| error.to_string())
    }
    let of_type = match kind {
        "NodePool" => typed::<NodePool>(stored),
        "NodeClaim" => typed::<NodeClaim>(stored),
        "NodeOverlay" => typed::<NodeOverlay>(stored),
        "KWOKNodeClass" => typed::<KWOKNodeClass>(stored),
        "EC2NodeClass" => {
            let mut object: Value = serde_json::from_str(stored).unwrap_or_default();
            nodeclass::give_spec(&mut object);
            serde_json::from_value::<EC2NodeClass>(object)
                .err()
                .map(|error| error.to_string())
        }
        _ => None,
    };
    let mut store = Store::new();
    let object: Value = serde_json::from_str(stored).unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let applied = store
        .apply(version, kind, stored)
        .err()
        .map(|error| error.to_string());
    let pod = || {
        let world = store.world();
        let pod = world.pods.iter().find(|pod| pod.unreadable);
        pod.and_then(|pod| pod.invalid.as_deref().map(str::to_owned))
    };
    of_type.or(applied).or_else(pod)
}

/// What came of all manifests.
#[derive(Default)]
struct Total {
    /// By kind: asked, refused by the API server, of those without a word of ours, stored and not
    /// readable, taken and refused by us.
    kinds: BTreeMap<String, [usize; 5]>,
    /// Rules of the cluster, not of the object.
    forbidden: usize,
    /// By what differs.
    faults: BTreeMap<(&'static str, String), Vec<String>>,
}

impl Total {
    fn add(
        &mut self,
        at: u64,
        manifest: &Manifest,
        answer: Result<String, String>,
    ) -> Result<(), String> {
        let (taken, said) = ours(manifest);
        let counts = self.kinds.entry(manifest.kind.clone()).or_default();
        counts[0] += 1;
        let known = |all: &[(&str, &str)], text: &str| {
            all.iter()
                .any(|(kind, part)| *kind == manifest.kind && text.contains(part))
        };
        let mut fault = None;
        match answer {
            Err(why) if why.starts_with("not asked") => return Err(why),
            Err(why) if why.starts_with("403") => self.forbidden += 1,
            Err(why) => {
                counts[1] += 1;
                if said.is_empty() {
                    counts[2] += 1;
                    fault = (!known(&THEIRS, &why)).then_some(("taken without a word", why));
                }
            }
            Ok(stored) => match unreadable(&manifest.kind, &stored) {
                Some(why) => {
                    counts[3] += 1;
                    fault = (!known(&OURS, &why)).then_some(("stored and not readable", why));
                }
                None if !taken => {
                    counts[4] += 1;
                    let why = said.first().cloned().unwrap_or_default();
                    fault = (!known(&OURS, &why))
                        .then_some(("refused, and taken by the API server", why));
                }
                None => {}
            },
        }
        if let Some((what, why)) = fault {
            let shape: String = why
                .chars()
                .filter(|c| !c.is_ascii_digit())
                .take(110)
                .collect();
            let all = self
                .faults
                .entry((what, format!("{} {shape}", manifest.kind)))
                .or_default();
            all.push(format!(
                "{at}: {}\n    {why}\n    {}",
                manifest.changes, manifest.text
            ));
        }
        Ok(())
    }

    fn table(&self) -> String {
        let mut out = String::from(
            "kind           asked  refused  without a word  not readable  refused by us alone\n",
        );
        let mut sum = [0; 5];
        let mut row = |kind: &str, counts: &[usize; 5]| {
            let [asked, refused, silent, lost, strict] = counts;
            let _ = writeln!(
                out,
                "{kind:<14} {asked:>5}  {refused:>7}  {silent:>14}  {lost:>12}  {strict:>19}"
            );
        };
        for (kind, counts) in &self.kinds {
            row(kind, counts);
            (0..5).for_each(|at| sum[at] += counts[at]);
        }
        row("all", &sum);
        let _ = writeln!(
            out,
            "not of the manifest (quota, priority, …): {}",
            self.forbidden
        );
        out
    }
}

/// Asks both about the manifests of a seed.
pub fn agrees(plane: &ControlPlane) -> Result<(), String> {
    let asked = std::env::var("LONGSHORE_CROSSING").unwrap_or_default();
    let mut numbers = asked
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    let (count, seed) = (
        numbers.next().unwrap_or(FEW.0),
        numbers.next().unwrap_or(FEW.1),
    );
    let proxy = Proxy::start(plane)?;
    let bases = bases();
    for base in &bases {
        let kind = base["kind"].as_str().unwrap_or_default().to_owned();
        let base = Manifest {
            kind,
            text: base.to_string(),
            changes: String::new(),
        };
        let stored = proxy
            .ask(&base)
            .map_err(|why| format!("{}: {why}", base.text))?;
        let (taken, said) = ours(&base);
        if !taken || !said.is_empty() {
            return Err(format!("{said:?}: {}", base.text));
        }
        if let Some(why) = unreadable(&base.kind, &stored) {
            return Err(format!("{why}: {stored}"));
        }
    }
    let (next, total) = (AtomicU64::new(0), Mutex::new(Ok(Total::default())));
    let ask = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            let manifest = manifest(&bases, seed, at);
            let answer = proxy.ask(&manifest);
            let Ok(mut total) = total.lock() else { return };
            let added = match &mut *total {
                Ok(total) => total.add(at, &manifest, answer),
                Err(_) => return,
            };
            if let Err(why) = added {
                *total = Err(why);
            }
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(ask))));
    let total = total.into_inner().map_err(|error| error.to_string())??;
    let mut report = total.table();
    let mut shown = 0;
    for ((what, shape), all) in &total.faults {
        let _ = writeln!(report, "\n{what}, {} times: {shape}", all.len());
        for one in all.iter().take(2) {
            if shown < SHOWN {
                let _ = writeln!(report, "  {one}");
                shown += 1;
            }
        }
    }
    println!("{report}");
    match total.faults.is_empty() {
        true => Ok(()),
        false => Err(report),
    }
}
