//! A thousand pods on a real control plane with an emulated EC2: from nothing, down to 300, and up
//! again. The pods, budgets and judge are those of `disruption_live`; the catalogue is that of
//! us-east-1, and EC2's rate limits hold. All calls are kept with their replies, and counted.
//!
//! Run by `cargo test -p longshore --features aws --test on_aws -- --ignored aws_thousand::`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use longshore_aws::calls::Call;
use longshore_ec2::catalogue::tables::on_demand_price;
use longshore_xtask::control_plane::{self, ControlPlane};
use longshore_xtask::emulated_aws::EmulatedAws;
use serde_json::{Value, json};

#[path = "disruption_live/judge.rs"]
#[allow(dead_code, reason = "its other user needs the rest")]
mod judge;
#[path = "disruption_live/scaling.rs"]
mod scaling;

use super::plane::{self, Daemon, Suite, get, objects, until, within};
use scaling::{CONSOLIDATE_AFTER, LARGE, Load, Scaled, Scaling};

const WORLD: &str = "../../examples/catalogues/aws-us-east-1.json.gz";
/// Names Karpenter's controller, to count its calls (`emulator/README.md` says how it is built).
const KARPENTER: &str = "LONGSHORE_KARPENTER";
const SMALL: Load = Load {
    deployments: 4,
    many: 30,
    few: 9,
    percent: 30,
    killed_every: None,
};

/// They take minutes each, so only who asks for them runs them.
pub fn suite() -> Suite {
    let mut suite = Suite::empty("aws_thousand", Some(1))
        .test("a_hundred_pods_become_fewer_and_more_on_ec2", true, || {
            down_and_up(SMALL)
        })
        .test("a_thousand_pods_become_fewer_and_more_on_ec2", true, || {
            down_and_up(LARGE)
        });
    if let Some(program) = std::env::var_os(KARPENTER) {
        for (name, load) in [
            ("karpenter_with_a_hundred_pods", SMALL),
            ("karpenter_with_a_thousand_pods", LARGE),
        ] {
            let program = PathBuf::from(&program);
            suite = suite.test(name, true, move || karpenters(&program, load));
        }
    }
    suite
}

/// An account in us-east-1 with EC2's limits, lag, and boots of 15 to 40 s.
fn emulator(plane: &ControlPlane, name: &str) -> Result<EmulatedAws> {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join(WORLD);
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(packed)?).read_to_string(&mut text)?;
    let account = json!({"roles": ["node"], "settings": {"logReplies": true}});
    let world = file(&format!("{name}-world.json"));
    std::fs::write(
        &world,
        text.replacen('{', &format!("{{\"account\": {account},"), 1),
    )?;
    EmulatedAws::start(Path::new(env!("CARGO_BIN_EXE_longshore")), &world, plane)
}

/// A file that stays after the test.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("aws-thousand-{name}"))
}

/// A NodePool of on-demand nodes with up to eight CPUs, with budgets, and its class.
fn pool(budgets: &str) -> String {
    format!(
        "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: node
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: '*'}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: '*'}}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {{consolidateAfter: {CONSOLIDATE_AFTER}s, budgets: [{budgets}]}}
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
      - {{key: kubernetes.io/arch, operator: In, values: [amd64]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
      - {{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}}
      - {{key: karpenter.k8s.aws/instance-cpu, operator: In, values: ['2', '4', '8']}}
"
    )
}

fn down_and_up(load: Load) -> Result<()> {
    let plane = ControlPlane::start("aws-thousand")?;
    let aws = emulator(&plane, "longshore")?;
    let daemon = daemon(&plane, &aws)?;
    let log = RefCell::new(Log::new("longshore")?);
    let scaled = phases(&plane, &aws, load, &log);
    let said = daemon.log().unwrap_or_default();
    std::fs::write(file("longshore.log"), &said)?;
    let scaled = scaled.with_context(|| {
        let lines: Vec<&str> = said.lines().rev().take(60).collect();
        format!("the daemon's log, last line first:\n{}", lines.join("\n"))
    })?;
    scaled.judge(&plane)?;
    log.borrow().judge()
}

/// The same with Karpenter's controller, a client that nobody here wrote: its calls are counted.
fn karpenters(program: &Path, load: Load) -> Result<()> {
    let plane = ControlPlane::start("aws-karpenter")?;
    let aws = emulator(&plane, "karpenter")?;
    let [metrics, probes] = control_plane::free_ports()?;
    let child = Command::new(program)
        .env("KUBECONFIG", plane.other_kubeconfig())
        .env("CLUSTER_NAME", "demo")
        .env("INTERRUPTION_QUEUE", &aws.queue)
        .env("DISABLE_LEADER_ELECTION", "true")
        .env("SYSTEM_NAMESPACE", "kube-system")
        .env("METRICS_PORT", metrics.to_string())
        .env("HEALTH_PROBE_PORT", probes.to_string())
        .envs(aws.environment())
        .stdout(std::fs::File::create(file("karpenter.log"))?)
        .stderr(std::fs::File::create(file("karpenter-errors.log"))?)
        .spawn()?;
    let _controller = Foreign(child);
    let log = RefCell::new(Log::new("karpenter")?);
    let done = phases(&plane, &aws, load, &log).map(drop);
    done.with_context(|| format!("its log is {}", file("karpenter.log").display()))
}

/// Killed when dropped.
struct Foreign(Child);

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Up, down and up again, with the calls of each phase.
fn phases(
    plane: &ControlPlane,
    aws: &EmulatedAws,
    load: Load,
    log: &RefCell<Log>,
) -> Result<Scaled> {
    let scaling = Scaling {
        plane,
        load,
        pool: &pool,
        price: &|kind| on_demand_price("us-east-1", kind),
        over: &|phase| over(plane, aws, &mut log.borrow_mut(), phase),
    };
    ready(plane, &scaling)?;
    (scaling.over)("start")?;
    let scaled = scaling.run();
    if scaled.is_err() {
        log.borrow_mut().phase(aws, "failed")?;
    }
    scaled
}

fn daemon(plane: &ControlPlane, aws: &EmulatedAws) -> Result<Daemon> {
    let arguments = [
        "--provider",
        "aws",
        "--cluster-name",
        "demo",
        "--disable-leader-election",
        "--interruption-queue",
        &aws.queue,
    ];
    Daemon::with(
        &plane.longshore_kubeconfig(),
        &arguments,
        &aws.environment(),
    )
}

fn ready(plane: &ControlPlane, scaling: &Scaling<'_>) -> Result<()> {
    plane.apply(&pool(&scaling.percent()))?;
    let path = "{.status.conditions[?(@.type=='Ready')].status}";
    until("the EC2NodeClass is ready", || {
        Ok(get(plane, "ec2nodeclass/default", path)? == "True")
    })
}

/// A phase is over: what joined has its tag, each NodeClaim one instance and each instance one
/// NodeClaim.
fn over(plane: &ControlPlane, aws: &EmulatedAws, log: &mut Log, phase: &str) -> Result<()> {
    within(
        600,
        Duration::from_secs(1),
        "instances and NodeClaims are the same, and tagged",
        || {
            let claims = objects(plane, "nodeclaims", &[])?;
            let tagged = |claim: &&Value| {
                let annotations = &claim["metadata"]["annotations"];
                annotations["karpenter.k8s.aws/tagged"] == "true"
            };
            let id = |claim: &Value| {
                let id = claim["status"]["providerID"].as_str();
                id.and_then(|id| id.rsplit('/').next()).map(str::to_owned)
            };
            let mut claimed: Vec<String> = claims.iter().filter_map(id).collect();
            let mut living = aws.instances()?;
            claimed.sort();
            living.sort();
            Ok(claims.iter().filter(tagged).count() == claims.len() && claimed == living)
        },
    )?;
    log.phase(aws, phase)
}

/// One call of the log.
struct Logged {
    action: String,
    /// Seconds since 1970.
    at: f64,
    status: u64,
    error: String,
    request: String,
}

/// All calls so far, by phase, and the file where they are kept.
struct Log {
    file: std::fs::File,
    last: u64,
    phases: Vec<(String, Vec<Logged>)>,
}

impl Log {
    fn new(name: &str) -> Result<Self> {
        Ok(Log {
            file: std::fs::File::create(file(&format!("{name}-calls.jsonl")))?,
            last: 0,
            phases: Vec::new(),
        })
    }

    /// Reads the calls of a phase that is over, keeps them, and says how many there were.
    fn phase(&mut self, aws: &EmulatedAws, phase: &str) -> Result<()> {
        let path = format!("/_emulator/calls?after={}", self.last);
        let answer = aws.ask("GET", &path, &json!(null))?;
        let calls = answer["calls"].as_array().context("no list of calls")?;
        let mut all = Vec::new();
        for call in calls {
            // A poll that waits has no reply yet; it is read again with the next phase.
            let is_open = call["status"].is_null() && call["action"] == "ReceiveMessage";
            if is_open {
                continue;
            }
            writeln!(self.file, "{call}")?;
            let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
            let at: Timestamp = text("at").parse()?;
            all.push(Logged {
                action: text("action"),
                at: at.as_microsecond() as f64 / 1e6,
                status: call["status"].as_u64().unwrap_or(0),
                error: text("error"),
                request: text("request"),
            });
        }
        self.last = calls
            .last()
            .and_then(|call| call["number"].as_u64())
            .unwrap_or(self.last);
        let counts = counts(&all);
        let words: Vec<String> = counts
            .iter()
            .map(|(action, count)| format!("{count} {action}"))
            .collect();
        println!("{phase}: {} calls: {}", all.len(), words.join(", "));
        self.phases.push((phase.to_owned(), all));
        Ok(())
    }

    /// The rules that hold for all calls, and how many there may be.
    fn judge(&self) -> Result<()> {
        let all: Vec<&Logged> = self.phases.iter().flat_map(|(_, calls)| calls).collect();
        for call in &all {
            let expected = ["", "DryRunOperation"].contains(&&*call.error);
            let unknown = call.error.contains("NotFound") || call.error == "NoSuchEntity";
            ensure!(
                expected || unknown,
                "{}: {} {}",
                call.action,
                call.status,
                call.error
            );
        }
        within_rates(&all)?;
        for (phase, calls) in &self.phases {
            if phase != "start" {
                fewer_than_karpenter(phase, calls)?;
            }
        }
        Ok(())
    }
}

fn counts(calls: &[Logged]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(&*call.action).or_default() += 1;
    }
    counts
}

/// No action was called beyond its rate: at no time was more called than its bucket holds and gets
/// back. Calls arrive up to a second later than they were let go, on a machine that is busy.
fn within_rates(all: &[&Logged]) -> Result<()> {
    const MAX_DELAY_SECONDS: f64 = 1.0;
    for call in Call::ALL {
        let rate = call.rate();
        let times: Vec<f64> = all
            .iter()
            .filter(|one| one.action == call.name())
            .map(|one| one.at)
            .collect();
        for (first, from) in times.iter().enumerate() {
            for (last, to) in times.iter().enumerate().skip(first) {
                let most = rate.burst + (to - from + MAX_DELAY_SECONDS) * rate.per_second + 1.0;
                let count = last + 1 - first;
                ensure!(
                    count as f64 <= most,
                    "{}: {count} calls in {:.1} s; {most:.0} may be",
                    call.name(),
                    to - from
                );
            }
        }
    }
    Ok(())
}

/// How often Karpenter 1.15.1 calls AWS for an instance that it launches, and for one that it ends,
/// without the queue: what [`karpenters`] counted of a thousand pods (2026-11-26). 228 calls in
/// phase `up` for 68 instances; 513 in phase `down` for 47.
const KARPENTER_LAUNCHES: f64 = 228.0 / 68.0;
const KARPENTER_ENDS: f64 = 513.0 / 47.0;

/// Fewer calls than Karpenter makes for the same launches and terminations, and none that is for
/// nothing. By Karpenter's rules (`karpenter-aws.md`):
///
/// - TG3: CreateTags once for each instance that has joined;
/// - LT3, LT4: a template is described by its name, made, and deleted when nothing uses it;
/// - B3, IN3: instances that end within a second are terminated by one call, and described until
///   they are gone;
/// - GC1: all instances are listed every two minutes;
/// - SB1 and §6.1: subnets, groups and images of a class are described each minute.
///
/// Both send claims with the same request as one (B1). How many instances were launched is known by
/// their tags.
fn fewer_than_karpenter(phase: &str, calls: &[Logged]) -> Result<()> {
    let ours = counts(calls);
    let count = |action: &str| ours.get(action).copied().unwrap_or(0);
    let times = calls.iter().map(|call| call.at);
    let seconds = times.clone().fold(f64::MIN, f64::max) - times.fold(f64::MAX, f64::min);
    let minutes = (seconds / 60.0).ceil() as usize;
    let named = |action: &str, list: &str| -> Vec<&str> {
        let own = calls.iter().filter(|call| call.action == action);
        let pairs = own.flat_map(|call| call.request.split('&'));
        let ids = pairs.filter_map(|pair| pair.strip_prefix(list)?.split_once('='));
        ids.map(|(_, id)| id).collect()
    };
    let launched = BTreeSet::from_iter(named("CreateTags", "ResourceId.")).len();
    let named = named("TerminateInstances", "InstanceId.");
    let ended = BTreeSet::from_iter(&named).len();
    ensure!(
        named.len() == ended,
        "{phase}: {ended} instances are terminated {} times",
        named.len()
    );
    let templates = count("CreateLaunchTemplate");
    for (action, most) in [
        ("CreateTags", launched),
        // One for each maximum of pods.
        ("CreateLaunchTemplate", 5 * minutes),
        ("DeleteLaunchTemplate", 5 * minutes),
        ("DescribeLaunchTemplates", templates),
        ("TerminateInstances", ended),
        ("DescribeSubnets", minutes + 1),
        ("DescribeSecurityGroups", minutes + 1),
        ("DescribeImages", minutes + 1),
        ("DescribeInstanceStatus", 3 * minutes),
    ] {
        let count = count(action);
        ensure!(
            count <= most,
            "{phase}: {count} {action} in {seconds:.0} s for {launched} instances launched and \
             {ended} ended; there may be {most}"
        );
    }
    let queue = ["ReceiveMessage", "DeleteMessage", "DeleteMessageBatch"];
    let all = calls.iter().filter(|call| !queue.contains(&&*call.action));
    let all = all.count() as f64;
    let karpenter = KARPENTER_LAUNCHES * launched as f64 + KARPENTER_ENDS * ended as f64;
    println!(
        "{phase}: {launched} instances launched, {ended} ended in {seconds:.0} s: {all} calls; \
         Karpenter makes {karpenter:.0}"
    );
    ensure!(
        all < karpenter,
        "{phase}: {all} calls, and Karpenter makes {karpenter:.0}"
    );
    Ok(())
}
