//! The interruption queue under load: ten thousand messages with duplicates and rubbish, through the
//! real SDK, against the emulated endpoint on loopback.
#![allow(clippy::print_stdout, reason = "what it takes is told")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use longshore_aws::clients::{Access, Clients};
use longshore_aws::interruption::queue::Queue;
use longshore_aws::interruption::{Handler, InterruptionKind};
use longshore_aws::observer::Observer;
use longshore_aws::provider::{Ec2, Settings};
use longshore_aws::store::MemoryClasses;
use longshore_ec2::userdata::Cluster;
use longshore_emulator::serve::{SystemClock, serve};
use longshore_emulator::shell::Shell;
use longshore_emulator::{Account, World};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::emulator;

const MESSAGES: usize = 10_000;
/// Instances of the cluster. Each is named by about 20 messages.
const OURS: usize = 300;
/// Messages come in waves: ten thousand within 30 seconds, twice what is asked for.
const WAVES: usize = 60;
const WAVE: Duration = Duration::from_millis(500);
/// What a handler's calls of the API server take.
const HANDLING: Duration = Duration::from_millis(40);

fn ours(number: usize) -> String {
    format!("i-{:017x}", number % OURS)
}

fn foreign(number: usize) -> String {
    format!("i-f{number:016x}")
}

fn event(version: &str, source: &str, kind: &str, detail: &Value) -> String {
    let time = "2026-11-21T08:00:00Z";
    let event = json!({"version": version, "id": "7d1c5b1e", "source": source, "account": "1",
        "detail-type": kind, "time": time, "region": "us-east-1", "detail": detail});
    event.to_string()
}

fn of_instance(kind: &str, id: &str) -> String {
    event("0", "aws.ec2", kind, &json!({"instance-id": id}))
}

fn state(id: &str, state: &str) -> String {
    let detail = json!({"instance-id": id, "state": state});
    event(
        "0",
        "aws.ec2",
        "EC2 Instance State-change Notification",
        &detail,
    )
}

const SPOT: &str = "EC2 Spot Instance Interruption Warning";
const REBALANCE: &str = "EC2 Instance Rebalance Recommendation";
const RESERVATION: &str = "EC2 Capacity Reservation Instance Interruption Warning";

/// The message of a number, and what it asks for of this cluster's instances.
fn message(number: usize) -> (String, Vec<(InterruptionKind, String)>) {
    // Neighbours differ, and the same comes again a few hundred messages later.
    let id = ours(number / 3);
    let nothing = |body: String| (body, Vec::new());
    match number % 20 {
        0..=5 => (
            of_instance(SPOT, &id),
            vec![(InterruptionKind::SpotInterrupted, id)],
        ),
        6 => (
            of_instance(REBALANCE, &id),
            vec![(InterruptionKind::RebalanceRecommendation, id)],
        ),
        7 => (
            of_instance(RESERVATION, &id),
            vec![(InterruptionKind::ReservationInterrupted, id)],
        ),
        8 => (
            state(&id, "stopping"),
            vec![(InterruptionKind::InstanceStopped, id)],
        ),
        9 => (
            state(&id, "terminated"),
            vec![(InterruptionKind::InstanceTerminated, id)],
        ),
        10 => {
            let named: Vec<String> = (number..number + 5).map(ours).collect();
            let entity = |id: &String| json!({"entityValue": id});
            let mut entities: Vec<Value> = named.iter().map(entity).collect();
            entities.push(json!({"entityValue": foreign(number)}));
            entities.push(json!({"entityValue": "vol-1"}));
            let detail = json!({"service": "EC2", "eventTypeCategory": "scheduledChange",
                "affectedEntities": entities});
            let all = named
                .into_iter()
                .map(|id| (InterruptionKind::ScheduledChange, id));
            (
                event("0", "aws.health", "AWS Health Event", &detail),
                all.collect(),
            )
        }
        11..=13 => nothing(of_instance(SPOT, &foreign(number))),
        14 => nothing(state(&foreign(number), "running")),
        15 => nothing("{\"version\":\"0\",".to_owned()),
        16 => nothing(String::new()),
        17 if number % 400 == 17 => nothing("x".repeat(250_000)),
        17 => nothing("[[[[[[".to_owned()),
        18 => nothing(event("1", "aws.ec2", SPOT, &json!({"instance-id": id}))),
        _ => nothing(event("0", "aws.s3", "Object Created", &json!({}))),
    }
}

/// Handles as the daemon does, with calls that take their time.
#[derive(Default)]
struct Records {
    /// When each thing was done.
    done: Mutex<HashMap<(InterruptionKind, String), Vec<SystemTime>>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

#[async_trait]
impl Handler for Records {
    fn is_foreign(&self, instance: &str) -> bool {
        instance.starts_with("i-f")
    }

    async fn interrupted(&self, kind: InterruptionKind, instance: &str) -> Result<(), String> {
        let now = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_once.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(HANDLING).await;
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        let mut done = self.done.lock().unwrap();
        let times = done.entry((kind, instance.to_owned())).or_default();
        times.push(SystemTime::now());
        Ok(())
    }
}

#[derive(Default)]
struct Counts {
    received: Mutex<BTreeMap<&'static str, usize>>,
    after: Mutex<Vec<Duration>>,
    deleted: AtomicUsize,
    failed: AtomicUsize,
}

impl Observer for Counts {
    fn received(&self, what: &'static str) {
        *self.received.lock().unwrap().entry(what).or_default() += 1;
    }

    fn message_done(&self, after: Duration) {
        self.after.lock().unwrap().push(after);
    }

    fn deleted(&self) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    fn message_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

async fn left(shell: &Shell<SystemClock>) -> u64 {
    let world = emulator(shell, "GET", "/_emulator/world", Value::Null).await;
    world["queues"][0]["messages"].as_u64().unwrap()
}

/// Peak memory of this process in MiB, the emulator's included.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

fn share(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_messages_are_answered_each_thing_once() {
    let small = include_str!("../../../emulator/data/small.json");
    let (mut account, _) = Account::read("world", small.as_bytes(), None).unwrap();
    account.settings.duplicate_share = 0.1;
    let server = serve(0, World::new(account, 1)).await.unwrap();
    let access = Access {
        region: Some("us-east-1".to_owned()),
        endpoint: Some(format!("http://{}", server.address().unwrap())),
        keys: Some(("key".to_owned(), "secret".to_owned())),
        ..Access::default()
    };
    let shell = server.shell();
    tokio::spawn(server.run());
    let counts = Arc::new(Counts::default());
    let clients = Clients::new(&access)
        .await
        .unwrap()
        .observed_by(counts.clone());
    let settings = Settings {
        cluster: Cluster {
            name: "demo".to_owned(),
            ..Cluster::default()
        },
        ..Settings::default()
    };
    let classes = Arc::new(MemoryClasses::default());
    let clock = Arc::new(SystemTime::now);
    let provider = Ec2::start(Arc::new(clients), classes, settings, clock).await;
    let handler = Arc::new(Records::default());
    let queue = Queue::new(provider.unwrap(), "demo", handler.clone());
    let before = peak_memory();

    let running = tokio::spawn(queue.run());
    let began = Instant::now();
    let mut first_sent: HashMap<(InterruptionKind, String), SystemTime> = HashMap::new();
    let numbers: Vec<usize> = (0..MESSAGES).collect();
    for (at, wave) in numbers.chunks(MESSAGES.div_ceil(WAVES)).enumerate() {
        tokio::time::sleep_until(began + WAVE * u32::try_from(at).unwrap()).await;
        let mut faults = Vec::new();
        for number in wave {
            let (body, asks) = message(*number);
            faults.push(json!({"message": {"body": body}}));
            for one in asks {
                first_sent.entry(one).or_insert_with(SystemTime::now);
            }
        }
        emulator(&shell, "POST", "/_emulator/faults", json!(faults)).await;
    }
    while left(&shell).await > 0 && began.elapsed() < Duration::from_secs(300) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = began.elapsed();
    running.abort();
    assert_eq!(left(&shell).await, 0, "messages are left after {took:?}");

    let done = handler.done.lock().unwrap().clone();
    let asked: BTreeSet<_> = first_sent.keys().cloned().collect();
    let handled: BTreeSet<_> = done.keys().cloned().collect();
    assert_eq!(handled, asked, "what was asked for and nothing else");
    let twice: Vec<_> = done.iter().filter(|(_, times)| times.len() != 1).collect();
    assert!(twice.is_empty(), "done again: {twice:?}");
    assert_eq!(counts.failed.load(Ordering::Relaxed), 0);
    let deleted = counts.deleted.load(Ordering::Relaxed);
    assert!(deleted >= MESSAGES, "{deleted}");

    // No instance of another cluster was asked for.
    let log = emulator(&shell, "GET", "/_emulator/calls?after=0", Value::Null).await;
    let calls = log["calls"].as_array().unwrap();
    let of = |action: &str| {
        let own = calls.iter().filter(|call| call["action"] == action);
        own.collect::<Vec<_>>()
    };
    let reads = of("DescribeInstances");
    let asks_foreign = |call: &&&Value| call["request"].as_str().unwrap().contains("i-f");
    assert_eq!(reads.iter().filter(asks_foreign).count(), 0);

    let mut nodes: Vec<Duration> = done
        .iter()
        .map(|(one, times)| times[0].duration_since(first_sent[one]).unwrap_or_default())
        .collect();
    nodes.sort();
    let mut messages = counts.after.lock().unwrap().clone();
    messages.sort();
    println!(
        "{MESSAGES} messages in {:.0} s, all deleted after {:.1} s; {} received: {:?}",
        (WAVE * u32::try_from(WAVES).unwrap()).as_secs_f64(),
        took.as_secs_f64(),
        messages.len(),
        counts.received.lock().unwrap(),
    );
    for (what, all) in [
        ("from the first message to the node handled", &nodes),
        ("from each message to done", &messages),
    ] {
        println!(
            "{what}: median {:.2?}, 99 of 100 {:.2?}, longest {:.2?} of {}",
            share(all, 50),
            share(all, 99),
            share(all, 100),
            all.len()
        );
    }
    println!(
        "{} ReceiveMessage, {} DeleteMessageBatch, {} DescribeInstances; at most {} at once; peak \
         memory {:.0} MiB, {:.0} MiB before",
        of("ReceiveMessage").len(),
        of("DeleteMessageBatch").len(),
        reads.len(),
        handler.most_at_once.load(Ordering::Relaxed),
        peak_memory().unwrap_or(f64::NAN),
        before.unwrap_or(f64::NAN),
    );
}
