//! Generated scenarios on EC2: workloads, users and processes as in the others, and faults of AWS:
//! storms, throttling, delays, errors and lost replies before and after the commit, reads that lag,
//! interruptions, messages that come twice or make no sense.
//!
//! Their seeds are independent of those of the others.

use std::fmt::Write as _;
use std::time::Duration;

use longshore_live::environment::RepairMode;
use serde_json::{Value, json};

use super::event::ScenarioEvent;
use super::pods::{self, Workloads};
use super::rng::Rng;
use super::scenario::{GeneratedScenario, HOUR};
use super::trouble::Trouble;
use super::usual::{faults_of, repairs_of};
use super::{acts, pools};
use crate::harness::aws::account::AccountOptions;
use longshore_simcluster::world;

/// Tells these dice from those of the other scenarios.
const EC2: u64 = 0x6563_3200_0000;

const CLASS: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: '*'}}]
";

/// The scenario of a seed.
pub(super) fn scenario(seed: u64, size: u32) -> GeneratedScenario {
    let mut rng = Rng::new(seed ^ EC2);
    let mut options = AccountOptions::default();
    account(&mut rng, &mut options);
    let replicas = if rng.hits(0.3) { 2 } else { 1 };
    let elects = replicas > 1 || rng.hits(0.15);
    let faults = faults_of(&mut rng);
    let disrupts = rng.hits(0.5);
    let mut base = on_ec2(&pools::pools(&mut rng));
    if disrupts {
        base = pools::disrupted(&base, &mut rng);
    }
    let workloads = workloads(&mut rng, size);
    let mut acts = acts::acts(&mut rng, &workloads, &faults, replicas);
    for (_, act) in &mut acts {
        if let ScenarioEvent::CapacityOutage(pattern, _) = act {
            *pattern = in_region(pattern);
        }
    }
    acts.extend(troubles(&mut rng));
    acts.retain(|(at, _)| *at < HOUR);
    acts.sort_by_key(|(at, _)| *at);
    let repairs = match repairs_of(&mut rng) {
        RepairMode::AtOnce if disrupts => RepairMode::WithinBudgets,
        repairs => repairs,
    };
    GeneratedScenario {
        seed,
        world: world::WorldOptions::default(),
        replicas,
        elects,
        repairs,
        disrupts,
        faults,
        base,
        acts,
        jumps: Vec::new(),
        operator: Vec::new(),
        ec2: Some(options),
    }
}

/// Names of zones of the other scenarios, in the region of the emulator.
fn in_region(text: &str) -> String {
    let zones = [("d", "a"), ("a", "a"), ("b", "b"), ("c", "c")];
    zones.iter().fold(text.to_owned(), |text, (from, to)| {
        text.replace(&format!("test-zone-{from}"), &format!("us-east-1{to}"))
    })
}

/// NodePools of the other scenarios, of instances of EC2.
fn on_ec2(pools: &str) -> String {
    let rest = pools.split_once("---\n").map_or("", |(_, rest)| rest);
    let mut text = CLASS.to_owned();
    let _ = write!(text, "---\n{rest}");
    let kwok = "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}";
    let ec2 = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}";
    text.replace(kwok, ec2)
}

fn workloads(rng: &mut Rng, size: u32) -> Workloads {
    let mut all = pods::workloads(rng, size);
    for workload in &mut all.workloads {
        workload.manifest = in_region(&workload.manifest);
    }
    all
}

/// Each habit of an account occurs in some scenarios only.
fn account(rng: &mut Rng, options: &mut AccountOptions) {
    options.never_register = rng.share(0.3, 0.1);
    options.never_ready = rng.share(0.2, 0.1);
    options.interruptions = rng.share(0.5, 1.0);
    let settings = &mut options.account.settings;
    settings.duplicate_share = rng.share(0.5, 0.5);
    if rng.hits(0.4) {
        let most = rng.between(1, 30) as i64 * 1000;
        settings.lag_milliseconds = (0, most);
    }
    if rng.hits(0.3) {
        options.latency = Duration::from_millis(rng.between(5, 2000));
    }
}

/// Codes of errors that say nothing of what was asked for.
const CODES: [(&str, u16); 5] = [
    ("InternalError", 500),
    ("InternalFailure", 500),
    ("Unavailable", 503),
    ("ServiceUnavailable", 503),
    ("RequestTimeout", 400),
];
/// Errors of a fleet.
const FLEET: [&str; 8] = [
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "InsufficientFreeAddressesInSubnet",
    "RequestLimitExceeded",
    "UnauthorizedOperation",
    "InvalidLaunchTemplateName.NotFoundException",
    "InternalError",
];
/// What a fault meets: everything, or one of these.
const ACTIONS: [&str; 10] = [
    "",
    "",
    "",
    "CreateFleet",
    "CreateFleet",
    "TerminateInstances",
    "DescribeInstances",
    "CreateLaunchTemplate",
    "ReceiveMessage",
    "DeleteMessageBatch",
];

fn on(rng: &mut Rng, most: f64) -> Value {
    let probability = rng.unit() * most;
    match rng.one_of(&ACTIONS) {
        "" => json!({"probability": probability}),
        // Of one action more may fail.
        action => json!({"action": action, "probability": (probability * 4.0).min(0.6)}),
    }
}

/// Faults of AWS, by time. Those that do not end by themselves end with the scenario.
fn troubles(rng: &mut Rng) -> Vec<(Duration, ScenarioEvent)> {
    let mut all: Vec<(Duration, Value)> = Vec::new();
    let minute = |n: u64| Duration::from_secs(60 * n);
    let mut some = |rng: &mut Rng, chance: f64, most: u64, make: &dyn Fn(&mut Rng) -> Value| {
        if !rng.hits(chance) {
            return;
        }
        for _ in 0..rng.between(1, most) {
            let at = rng.time(minute(55));
            let fault = make(rng);
            all.push((at, fault));
        }
    };
    some(rng, 0.4, 1, &|rng| {
        let every = rng.one_of(&[60u64, 60, 300]);
        let short = 0.3 + rng.unit() * 0.6;
        json!({"capacity": {"shortShare": short, "everySeconds": every}})
    });
    some(
        rng,
        0.2,
        1,
        &|_| json!({"capacity": {"capacityType": "spot", "free": 0}}),
    );
    some(rng, 0.3, 1, &|rng| {
        let share = rng.one_of(&[0.1, 0.1, 0.3]);
        json!({"throttle": {"share": share}})
    });
    some(rng, 0.3, 3, &|rng| {
        let times = rng.between(3, 60);
        let action = rng.one_of(&["CreateFleet", "DescribeInstances", "TerminateInstances"]);
        json!({"throttle": {"share": 0.0, "on": {"action": action, "times": times}}})
    });
    some(rng, 0.4, 2, &|rng| {
        let long = rng.between(500, 8000);
        json!({"delay": {"milliseconds": long, "on": on(rng, 0.2)}})
    });
    // Longer than an attempt may take, and than a whole call.
    some(rng, 0.3, 2, &|rng| {
        let long = rng.one_of(&[20_000u64, 45_000, 130_000]);
        json!({"delay": {"milliseconds": long, "on": on(rng, 0.03)}})
    });
    for (chance, most, when) in [(0.5, 0.1, "before"), (0.4, 0.06, "after")] {
        some(rng, chance, 2, &|rng| {
            let (code, status) = rng.one_of(&CODES);
            json!({"error": {"on": on(rng, most), "when": when, "code": code, "status": status}})
        });
        some(
            rng,
            chance,
            2,
            &|rng| json!({"drop": {"on": on(rng, most), "when": when}}),
        );
    }
    some(rng, 0.4, 4, &|rng| {
        let code = rng.one_of(&FLEET);
        let on = json!({"action": "CreateFleet", "times": rng.between(1, 6)});
        json!({"error": {"on": on, "when": "before", "code": code}})
    });
    some(rng, 0.2, 2, &|rng| {
        let on = json!({"times": rng.between(1, 5)});
        json!({"body": {"on": on, "body": "<html><body>Bad Gateway</body></html>", "status": 502}})
    });
    some(rng, 0.3, 3, &|rng| {
        let body = rng.one_of(&[
            "",
            "{}",
            "rubbish",
            "{\"version\":\"0\",\"source\":\"aws.ec2\"}",
        ]);
        json!({"message": {"body": body, "copies": rng.between(1, 40)}})
    });
    let mut events: Vec<(Duration, ScenarioEvent)> = all
        .into_iter()
        .map(|(at, fault)| (at, ScenarioEvent::Cloud(json!([fault]).to_string())))
        .collect();
    for _ in 0..rng.between(0, 4) {
        let at = minute(3) + rng.time(minute(52));
        events.push((at, ScenarioEvent::Interrupt(rng.between(0, 1 << 20))));
    }
    if rng.hits(0.3) {
        let (at, long) = (
            rng.time(minute(55)),
            Duration::from_secs(rng.between(5, 90)),
        );
        let frozen = Trouble::Freeze(rng.between(0, 9), long);
        events.push((at, ScenarioEvent::Trouble(frozen)));
    }
    if rng.hits(0.3) {
        let ended = Trouble::Terminate(rng.between(0, 9));
        events.push((rng.time(minute(55)), ScenarioEvent::Trouble(ended)));
    }
    events
}
