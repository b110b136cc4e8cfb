//! The provider through the real SDK, against the emulated endpoint on loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use longshore_aws::calls::Call;
use longshore_aws::clients::{Access, Clients};
use longshore_aws::controller::Controller;
use longshore_aws::interruption::queue::Queue;
use longshore_aws::interruption::{Handler, InterruptionKind};
use longshore_aws::provider::{Clock, Ec2, Settings, StartError};
use longshore_aws::store::{ClaimFacts, MemoryClasses, NodeClasses as _};
use longshore_cloud::{CloudError, CloudProvider as _, Launch, Operator, Requirement};
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::Cluster;
use longshore_emulator::policies::karpenter::{self, Names, VERSIONS};
use longshore_emulator::serve::{Server, SystemClock, serve};
use longshore_emulator::shell::Shell;
use longshore_emulator::{Account, Request, World};
use serde_json::{Value, json};

#[path = "emulated/bad_input.rs"]
mod bad_input;
#[path = "emulated/groups.rs"]
mod groups;
#[path = "emulated/interruption_load.rs"]
mod interruption_load;
#[path = "emulated/services.rs"]
mod services;

/// Asks the emulator something that AWS does not answer: its faults, its calls, its world.
async fn emulator(shell: &Shell<SystemClock>, method: &str, path: &str, body: Value) -> Value {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        body: body.to_string().into_bytes(),
        ..Request::default()
    };
    let reply = shell.call(request).await.unwrap();
    let text = String::from_utf8(reply.body).unwrap();
    assert_eq!(reply.status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// An emulated account and a provider that has started.
struct Cloud {
    shell: Arc<Shell<SystemClock>>,
    clients: Arc<Clients>,
    classes: Arc<MemoryClasses>,
    provider: Ec2,
    /// Seconds that the provider's clock is ahead.
    ahead: Arc<AtomicI64>,
}

/// An account that answers at once: no lag, no limits.
fn account() -> Account {
    account_with(&json!({}))
}

/// The account of `account` with more in it.
fn account_with(own: &Value) -> Account {
    const SMALL: &str = include_str!("../../emulator/data/small.json");
    let world = SMALL.replacen('{', &format!("{{\"account\": {own},"), 1);
    let (mut account, problems) = Account::read("world", world.as_bytes(), None).unwrap();
    assert!(problems.is_empty());
    account.settings.lag_milliseconds = (0, 0);
    account.settings.profile_milliseconds = 0;
    account.settings.throttle = false;
    account.settings.duplicate_share = 0.0;
    account.settings.state_changes = false;
    account.roles.insert("node".to_owned());
    account
}

async fn access(server: &Server) -> Arc<Clients> {
    let access = Access {
        region: Some("us-east-1".to_owned()),
        endpoint: Some(format!("http://{}", server.address().unwrap())),
        keys: Some(("key".to_owned(), "secret".to_owned())),
        ..Access::default()
    };
    Arc::new(Clients::new(&access).await.unwrap())
}

fn settings() -> Settings {
    Settings {
        cluster: Cluster {
            name: "demo".to_owned(),
            ..Cluster::default()
        },
        reserved_capacity: true,
        ..Settings::default()
    }
}

fn clock(ahead: &Arc<AtomicI64>) -> Clock {
    let ahead = ahead.clone();
    Arc::new(move || SystemTime::now() + Duration::from_secs(ahead.load(Ordering::Relaxed) as u64))
}

impl Cloud {
    /// A cloud whose class `default` is ready.
    async fn new(account: Account) -> Self {
        let cloud = Self::without_class(account).await;
        cloud.classes.put(class("default", json!({})));
        cloud.reconcile().await;
        let ready = cloud.condition("default", "Ready").await;
        assert_eq!(ready.0, "True", "{ready:?}");
        cloud
    }

    async fn without_class(account: Account) -> Self {
        Self::started(account, settings()).await.unwrap()
    }

    async fn started(account: Account, settings: Settings) -> Result<Self, StartError> {
        let server = serve(0, World::new(account, 1)).await.unwrap();
        let clients = access(&server).await;
        let shell = server.shell();
        tokio::spawn(server.run());
        let ahead = Arc::new(AtomicI64::new(0));
        let classes = Arc::new(MemoryClasses::default());
        let provider = Ec2::start(clients.clone(), classes.clone(), settings, clock(&ahead)).await;
        Ok(Cloud {
            shell,
            clients,
            classes,
            provider: provider?,
            ahead,
        })
    }

    /// Another process in place of the first: nothing is remembered.
    async fn restart(&mut self) {
        let (clients, classes) = (self.clients.clone(), self.classes.clone());
        let provider = Ec2::start(clients, classes, settings(), clock(&self.ahead)).await;
        self.provider = provider.unwrap();
    }

    /// Looks at the classes: once for finalizer and hash, once for the status.
    async fn reconcile(&self) {
        let mut controller = Controller::new(self.provider.clone());
        for _ in 0..2 {
            controller.round().await.unwrap();
        }
    }

    async fn class(&self, name: &str) -> EC2NodeClass {
        self.classes.get(name).await.unwrap().unwrap()
    }

    /// Status, reason and message of a condition.
    async fn condition(&self, class: &str, type_: &str) -> (String, String, String) {
        let status = self.class(class).await.status.unwrap_or_default();
        let found = status.conditions.iter().find(|own| own.type_ == type_);
        let own = found.unwrap_or_else(|| panic!("no condition {type_}: {status:?}"));
        (
            own.status.text().to_owned(),
            own.reason.clone(),
            own.message.clone(),
        )
    }

    async fn emulator(&self, method: &str, path: &str, body: Value) -> Value {
        emulator(&self.shell, method, path, body).await
    }

    /// Calls IAM as another program does.
    async fn iam(&self, action: &str, parameters: &str) {
        let body = format!("Action={action}&Version=2010-05-08&{parameters}");
        let request = Request {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            body: body.into_bytes(),
            ..Request::default()
        };
        let reply = self.shell.call(request).await.unwrap();
        assert_eq!(reply.status, 200, "{:?}", String::from_utf8(reply.body));
    }

    async fn faults(&self, faults: Value) {
        self.emulator("POST", "/_emulator/faults", faults).await;
    }

    async fn without_faults(&self) {
        self.emulator("DELETE", "/_emulator/faults", Value::Null)
            .await;
    }

    async fn world(&self) -> Value {
        self.emulator("GET", "/_emulator/world", Value::Null).await
    }

    /// IDs of instances that live.
    async fn living(&self) -> Vec<String> {
        let world = self.world().await;
        let all = world["instances"].as_array().unwrap().iter();
        let living =
            all.filter(|one| ["pending", "running"].contains(&one["state"].as_str().unwrap()));
        living
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// How often an action was called.
    async fn count(&self, action: &str) -> usize {
        let log = self
            .emulator("GET", "/_emulator/calls?after=0", Value::Null)
            .await;
        let all = log["calls"].as_array().unwrap().iter();
        all.filter(|one| one["action"] == action).count()
    }

    async fn delete_templates(&self) {
        let world = self.world().await;
        for template in world["launchTemplates"].as_array().unwrap() {
            let name = template["name"].as_str().unwrap();
            let delete = self.clients.ec2.delete_launch_template();
            delete.launch_template_name(name).send().await.unwrap();
        }
    }

    async fn launch(
        &self,
        number: u32,
        requirements: &[(&str, &[&str])],
    ) -> Result<String, CloudError> {
        let instance = self.provider.create(&claim(number, requirements)).await?;
        Ok(instance.provider_id)
    }
}

fn class(name: &str, spec: Value) -> EC2NodeClass {
    let mut whole = json!({
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "node",
        "tags": {"team": "a"},
    });
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": name}, "spec": whole,
    }))
    .unwrap()
}

/// A claim that asks for one CPU.
fn claim(number: u32, requirements: &[(&str, &[&str])]) -> Launch {
    let requirement = |(key, values): &(&str, &[&str])| Requirement {
        key: (*key).to_owned(),
        operator: Operator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    Launch {
        name: format!("default-{number}"),
        uid: format!("7d1c5b1e-0000-4000-8000-{number:012}"),
        nodepool: Some("default".to_owned()),
        labels: BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "default".to_owned())]),
        requirements: requirements.iter().map(requirement).collect(),
        requests: BTreeMap::from([("cpu".to_owned(), "1".to_owned())]),
        class_kind: "EC2NodeClass".to_owned(),
        class_name: "default".to_owned(),
        ..Launch::default()
    }
}

const KIND: &str = "node.kubernetes.io/instance-type";
const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

fn id(provider_id: &str) -> String {
    provider_id.rsplit('/').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_gets_its_status_and_a_claim_its_instance() {
    let cloud = Cloud::new(account()).await;
    let status = cloud.class("default").await.status.unwrap();
    assert_eq!(status.subnets.len(), 3);
    assert!(status.subnets.iter().all(|one| one.zone_id.is_some()));
    assert!(
        !status.security_groups.is_empty() && status.amis.len() >= 4,
        "{status:?}"
    );
    let profile = status.instance_profile.clone().unwrap();
    assert!(profile.starts_with("demo_"), "{profile}");
    let wanted: &[(&str, &[&str])] = &[(KIND, &["m5.large"]), (CAPACITY_TYPE, &["on-demand"])];
    let launch = claim(1, wanted);
    let instance = cloud.provider.create(&launch).await.unwrap();
    for (key, value) in [
        (KIND, "m5.large"),
        (CAPACITY_TYPE, "on-demand"),
        ("kubernetes.io/arch", "amd64"),
        ("karpenter.sh/nodepool", "default"),
        ("topology.kubernetes.io/region", "us-east-1"),
    ] {
        assert_eq!(
            instance.labels.get(key).map(String::as_str),
            Some(value),
            "{key}"
        );
    }
    assert_eq!(instance.claim_uid.as_deref(), Some(&*launch.uid));
    assert_eq!(instance.capacity.get("cpu").map(String::as_str), Some("2"));
    assert!(
        instance
            .image_id
            .as_deref()
            .is_some_and(|id| id.starts_with("ami-"))
    );
    // What EC2 says of it is what was said of it at launch.
    let described = cloud.provider.get(&instance.provider_id).await.unwrap();
    assert_eq!(described.labels, instance.labels);
    assert_eq!(described.capacity, instance.capacity);
    assert_eq!(described.image_id, instance.image_id);
    let world = cloud.world().await;
    let tags = &world["instances"][0]["tags"];
    for (key, value) in [
        ("kubernetes.io/cluster/demo", "owned"),
        ("eks:eks-cluster-name", "demo"),
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("karpenter.sh/nodeclaim", "default-1"),
        ("team", "a"),
    ] {
        assert_eq!(tags[key], value, "{tags}");
    }
    assert_eq!(cloud.provider.list().await.unwrap().len(), 1);
    assert_eq!(
        cloud.provider.drifted(&instance.provider_id, &launch).await,
        Ok(None)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emulated_kubelet_joins_with_the_user_data_of_the_launch() {
    let mut account = account();
    account.settings.start_milliseconds = (0, 0);
    account.settings.boot_milliseconds = (0, 0);
    let cloud = Cloud::new(account).await;
    cloud.launch(1, &[]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let nodes = cloud.emulator("GET", "/_emulator/nodes", Value::Null).await;
    let text = nodes.to_string();
    assert!(text.contains("karpenter.sh/unregistered"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launch_that_is_asked_for_again_makes_no_second_instance() {
    let mut cloud = Cloud::new(account()).await;
    let first = cloud.launch(1, &[]).await.unwrap();
    assert_eq!(cloud.launch(1, &[]).await.unwrap(), first);
    assert_eq!(
        cloud.count("CreateFleet").await,
        2,
        "a dry run and a launch"
    );
    // Another process, to which prices and addresses look different, finds it by its token and tag.
    cloud.restart().await;
    assert_eq!(cloud.launch(1, &[]).await.unwrap(), first);
    cloud.restart().await;
    let wanted: &[(&str, &[&str])] = &[(CAPACITY_TYPE, &["on-demand"])];
    assert_eq!(
        cloud.launch(1, wanted).await.unwrap(),
        first,
        "with another request"
    );
    assert_eq!(cloud.living().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coinciding_launches_share_a_template_and_each_gets_its_instance() {
    let cloud = Cloud::new(account()).await;
    let before = cloud.count("CreateLaunchTemplate").await;
    let mut tasks = Vec::new();
    for number in 0..20 {
        let provider = cloud.provider.clone();
        // Each claim is asked for twice at once.
        for _ in 0..2 {
            let provider = provider.clone();
            let launch = claim(number, &[(KIND, &["m5.large"])]);
            tasks.push(tokio::spawn(async move { provider.create(&launch).await }));
        }
    }
    let mut ids = BTreeSet::new();
    for task in tasks {
        ids.insert(task.await.unwrap().unwrap().provider_id);
    }
    assert_eq!(ids.len(), 20);
    assert_eq!(cloud.living().await.len(), 20);
    let templates = cloud.count("CreateLaunchTemplate").await - before;
    assert_eq!(templates, 1, "spot instances of one image");
    assert_eq!(cloud.provider.list().await.unwrap().len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_capacity_is_not_asked_for_again_in_its_time() {
    let cloud = Cloud::new(account()).await;
    let short =
        |zone: &str| json!({"capacity": {"instanceType": "m5.large", "zone": zone, "free": 0}});
    cloud
        .faults(json!([short("us-east-1a"), short("us-east-1b")]))
        .await;
    let wanted: &[(&str, &[&str])] = &[
        (KIND, &["m5.large"]),
        (ZONE, &["us-east-1a", "us-east-1b"]),
        (CAPACITY_TYPE, &["on-demand"]),
    ];
    let error = cloud.launch(1, wanted).await.unwrap_err();
    let CloudError::InsufficientCapacity(short) = &error else {
        panic!("{error:?}")
    };
    let zones: BTreeSet<&str> = short.offerings.iter().map(|one| &*one.zone).collect();
    assert_eq!(zones, BTreeSet::from(["us-east-1a", "us-east-1b"]));
    let asked = cloud.count("CreateFleet").await;
    let error = cloud.launch(2, wanted).await.unwrap_err();
    assert!(
        matches!(error, CloudError::InsufficientCapacity(_)),
        "{error:?}"
    );
    assert_eq!(
        cloud.count("CreateFleet").await,
        asked,
        "nothing is left to ask for"
    );
    // Another zone has some.
    let elsewhere: &[(&str, &[&str])] = &[(KIND, &["m5.large"]), (CAPACITY_TYPE, &["on-demand"])];
    let found = cloud.launch(3, elsewhere).await.unwrap();
    assert!(found.contains("us-east-1c"), "{found}");
    // After its time it is asked for again.
    cloud.without_faults().await;
    cloud.ahead.store(200, Ordering::Relaxed);
    let found = cloud.launch(4, wanted).await.unwrap();
    assert!(
        found.contains("us-east-1a") || found.contains("us-east-1b"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_lost_is_asked_for_again_with_the_same_token() {
    let cloud = Cloud::new(account()).await;
    let lost = json!([{"drop": {"when": "after", "on": {"action": "CreateFleet", "times": 1}}}]);
    cloud.faults(lost).await;
    let launched = cloud.launch(1, &[]).await.unwrap();
    assert_eq!(cloud.living().await, [id(&launched)]);
    // All three replies of a call are lost: the next call asks with the same token.
    let lost = json!([{"drop": {"when": "after", "on": {"action": "CreateFleet", "times": 3}}}]);
    cloud.faults(lost).await;
    let error = cloud.launch(2, &[]).await.unwrap_err();
    assert!(matches!(error, CloudError::Other(_)), "{error:?}");
    assert_eq!(cloud.living().await.len(), 2);
    cloud.launch(2, &[]).await.unwrap();
    assert_eq!(cloud.living().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_after_the_launch_is_followed_by_one_that_finds_the_instance() {
    let mut cloud = Cloud::new(account()).await;
    let lost = json!([{"drop": {"when": "after", "on": {"action": "CreateFleet", "times": 3}}}]);
    cloud.faults(lost).await;
    cloud.launch(1, &[]).await.unwrap_err();
    let living = cloud.living().await;
    assert_eq!(living.len(), 1);
    // The next one would choose something else: addresses were used, prices differ.
    cloud.restart().await;
    let other: &[(&str, &[&str])] = &[(CAPACITY_TYPE, &["on-demand"])];
    let found = cloud.launch(1, other).await.unwrap();
    assert_eq!(cloud.living().await, [id(&found)]);
    assert_eq!(living, [id(&found)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_refused_whole_leaves_its_token_to_the_next_one() {
    let mut cloud = Cloud::new(account()).await;
    let on = json!({"action": "CreateFleet", "times": 1});
    let code = "MaxSpotInstanceCountExceeded";
    cloud
        .faults(json!([{"error": {"code": code, "on": on, "when": "before"}}]))
        .await;
    let error = cloud.launch(1, &[]).await.unwrap_err();
    let is_short = matches!(error, CloudError::InsufficientCapacity(_));
    assert!(is_short, "{error:?}");
    let lost = json!([{"drop": {"when": "after", "on": {"action": "CreateFleet", "times": 3}}}]);
    cloud.faults(lost).await;
    let on_demand: &[(&str, &[&str])] = &[(CAPACITY_TYPE, &["on-demand"])];
    cloud.launch(1, on_demand).await.unwrap_err();
    let living = cloud.living().await;
    assert_eq!(living.len(), 1);
    // The next process knows of no refusal. It begins with the token of the instance.
    cloud.restart().await;
    let found = cloud.launch(1, &[]).await.unwrap();
    assert_eq!(cloud.living().await, [id(&found)]);
    assert_eq!(living, [id(&found)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_ec2_is_blind_nothing_is_bought_twice_and_nothing_counts_as_gone() {
    let mut cloud = Cloud::new(account()).await;
    cloud.faults(json!([{"lag": [600_000, 600_000]}])).await;
    let launched = cloud.launch(1, &[]).await.unwrap();
    assert_eq!(
        cloud.provider.list().await.unwrap().len(),
        1,
        "listed though not described"
    );
    assert!(cloud.provider.get(&launched).await.is_ok());
    cloud.restart().await;
    let other: &[(&str, &[&str])] = &[(CAPACITY_TYPE, &["on-demand"])];
    let error = cloud.launch(1, other).await.unwrap_err();
    assert!(error.to_string().contains("does not show yet"), "{error}");
    assert_eq!(cloud.living().await.len(), 1);
    cloud.faults(json!([{"lag": [0, 0]}])).await;
    assert_eq!(cloud.launch(1, other).await.unwrap(), launched);
    assert_eq!(cloud.living().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_terminated_once_it_is_asked_for_and_gone_when_ec2_says_so() {
    let mut account = account();
    account.settings.stop_milliseconds = (50, 50);
    let cloud = Cloud::new(account).await;
    let mut launched = Vec::new();
    for number in 0..5 {
        launched.push(cloud.launch(number, &[]).await.unwrap());
    }
    let ends = |provider: &Ec2, id: &String| {
        let (provider, id) = (provider.clone(), id.clone());
        tokio::spawn(async move { provider.delete(&id).await })
    };
    let before = cloud.count("TerminateInstances").await;
    let tasks: Vec<_> = launched
        .iter()
        .map(|id| ends(&cloud.provider, id))
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), Ok(()));
    }
    assert_eq!(
        cloud.count("TerminateInstances").await - before,
        1,
        "one call for all"
    );
    tokio::time::sleep(Duration::from_millis(150)).await;
    let gone = cloud.provider.delete(&launched[0]).await;
    assert!(matches!(gone, Err(CloudError::NotFound(_))), "{gone:?}");
    // What EC2 has called terminated is not asked for again, and it is terminated once.
    let described = cloud.count("DescribeInstances").await;
    let gone = cloud.provider.delete(&launched[0]).await;
    assert!(matches!(gone, Err(CloudError::NotFound(_))), "{gone:?}");
    assert_eq!(cloud.count("DescribeInstances").await, described);
    assert_eq!(cloud.count("TerminateInstances").await - before, 1);
    let gone = cloud.provider.get(&launched[1]).await;
    assert!(matches!(gone, Err(CloudError::NotFound(_))), "{gone:?}");
    assert!(cloud.provider.list().await.unwrap().is_empty());
    // One that never was does not hold up the others.
    let other = cloud.launch(9, &[]).await.unwrap();
    let never = "aws:///us-east-1a/i-0123456789abcdef0".to_owned();
    let tasks = [ends(&cloud.provider, &never), ends(&cloud.provider, &other)];
    let [never, other] = tasks;
    assert!(matches!(never.await.unwrap(), Err(CloudError::NotFound(_))));
    assert_eq!(other.await.unwrap(), Ok(()));
    for wrong in ["", "kwok://x", "aws:///us-east-1a/x"] {
        let wrong = cloud.provider.delete(wrong).await;
        assert!(matches!(wrong, Err(CloudError::NotFound(_))), "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn launch_templates_are_found_again_and_deleted_when_no_launch_uses_them() {
    let mut cloud = Cloud::new(account()).await;
    let wanted: &[(&str, &[&str])] = &[(KIND, &["m5.large"])];
    cloud.launch(1, wanted).await.unwrap();
    let made = cloud.count("CreateLaunchTemplate").await;
    cloud.restart().await;
    cloud.launch(2, wanted).await.unwrap();
    assert_eq!(
        cloud.count("CreateLaunchTemplate").await,
        made,
        "found again"
    );
    cloud.provider.sweep().await;
    assert_eq!(cloud.count("DeleteLaunchTemplate").await, 0);
    cloud.ahead.store(1000, Ordering::Relaxed);
    cloud.provider.sweep().await;
    let world = cloud.world().await;
    assert_eq!(world["launchTemplates"], json!([]));
    cloud.launch(3, wanted).await.unwrap();
    // A user deletes one that a process still knows.
    cloud.delete_templates().await;
    cloud.launch(4, wanted).await.unwrap();
    assert_eq!(cloud.living().await.len(), 4);
    // Or another process has deleted the one of the dry run.
    cloud.reconcile().await;
    cloud.delete_templates().await;
    let (fleets, made) = (
        cloud.count("CreateFleet").await,
        cloud.count("CreateLaunchTemplate").await,
    );
    cloud.reconcile().await;
    assert!(cloud.count("CreateFleet").await > fleets + 1, "tried again");
    assert_eq!(cloud.count("CreateLaunchTemplate").await, made + 1);
    let (status, _, message) = cloud.condition("default", "ValidationSucceeded").await;
    assert_eq!(status, "True", "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn throttled_calls_are_slower_and_no_shortage() {
    let cloud = Cloud::new(account()).await;
    let throttled = json!([{"error": {"when": "before", "code": "RequestLimitExceeded",
        "on": {"action": "CreateFleet", "times": 1}}}]);
    cloud.faults(throttled).await;
    let error = cloud.launch(1, &[]).await.unwrap_err();
    assert!(matches!(error, CloudError::Throttled(_)), "{error:?}");
    cloud.launch(1, &[]).await.unwrap();
    assert_eq!(cloud.living().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_permitted_names_the_action() {
    let cloud = Cloud::new(account()).await;
    let denied = |action: &str| {
        json!([{"error": {"when": "before", "code": "UnauthorizedOperation",
            "on": {"action": action}}}])
    };
    cloud.faults(denied("CreateFleet")).await;
    let error = cloud.launch(1, &[]).await.unwrap_err();
    assert!(
        matches!(&error, CloudError::Unauthorized(text) if text.contains("allow ec2:CreateFleet")),
        "{error:?}"
    );
    cloud.without_faults().await;
    // A class of which something is denied is not ready, and the other one is.
    cloud.faults(denied("DescribeSubnets")).await;
    cloud.classes.put(class("denied", json!({})));
    let mut controller = Controller::new(cloud.provider.clone());
    controller.round().await.unwrap();
    cloud.without_faults().await;
    controller.round().await.unwrap();
    let subnets = cloud.condition("denied", "SubnetsReady").await;
    // The first round wrote the finalizer, so the second saw no fault.
    assert_eq!(subnets.0, "True", "{subnets:?}");
    cloud.faults(denied("DescribeSubnets")).await;
    cloud.ahead.store(3600, Ordering::Relaxed);
    controller.round().await.unwrap();
    let subnets = cloud.condition("denied", "SubnetsReady").await;
    assert_eq!((&*subnets.0, &*subnets.1), ("False", "Unauthorized"));
    assert!(
        subnets.2.contains("allow ec2:DescribeSubnets"),
        "{}",
        subnets.2
    );
}

/// Spot and on demand, with every version of Karpenter's policies: the dry run of a class as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karpenters_policies_allow_a_class_to_be_ready_and_to_launch() {
    for minor in [*VERSIONS.start(), 11, 14, *VERSIONS.end()] {
        let names = Names {
            cluster: "demo",
            region: "us-east-1",
            account: "123456789012",
            node_role: "arn:aws:iam::123456789012:role/node",
            queue: "arn:aws:sqs:us-east-1:123456789012:demo",
        };
        let policies = json!({"policies": [karpenter::policy(minor, names)]});
        let cloud = Cloud::new(account_with(&policies)).await;
        for (number, capacity_type) in [(1, "on-demand"), (2, "spot")] {
            let launched = cloud
                .launch(number, &[(CAPACITY_TYPE, &[capacity_type])])
                .await;
            assert!(launched.is_ok(), "1.{minor}: {launched:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_and_roles_that_do_not_exist_are_conditions_of_their_class_alone() {
    let cloud = Cloud::new(account()).await;
    cloud.classes.put(class(
        "wrong",
        json!({
            "subnetSelectorTerms": [{"tags": {"no": "such"}}],
            "amiSelectorTerms": [{"alias": "al2023@v19990101"}],
            "role": "nobody",
        }),
    ));
    cloud.reconcile().await;
    let of = |type_| cloud.condition("wrong", type_);
    assert_eq!(of("SubnetsReady").await.1, "SubnetsNotFound");
    assert_eq!(of("AMIsReady").await.1, "AMINotFound");
    assert_eq!(of("InstanceProfileReady").await.1, "RoleNotFound");
    assert_eq!(of("Ready").await.0, "False");
    assert_eq!(cloud.condition("default", "Ready").await.0, "True");
    let mut launch = claim(1, &[]);
    launch.class_name = "wrong".to_owned();
    let error = cloud.provider.create(&launch).await.unwrap_err();
    assert!(
        matches!(error, CloudError::NodeClassNotReady(_)),
        "{error:?}"
    );
    launch.class_name = "missing".to_owned();
    let error = cloud.provider.create(&launch).await.unwrap_err();
    assert!(
        matches!(error, CloudError::NodeClassNotReady(_)),
        "{error:?}"
    );
    // The profile that no instance could use is not left behind.
    let world = cloud.world().await;
    assert_eq!(
        world["instanceProfiles"].as_array().unwrap().len(),
        1,
        "{world}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_is_deleted_waits_for_its_claims_and_leaves_nothing_behind() {
    let cloud = Cloud::new(account()).await;
    let launched = cloud.launch(1, &[]).await.unwrap();
    let mut leaving = cloud.class("default").await;
    let now = longshore_api::crd::Time(longshore_api::crd::Timestamp::now());
    leaving.metadata.deletion_timestamp = Some(now);
    cloud.classes.put(leaving);
    let claim = ClaimFacts {
        name: "default-1".to_owned(),
        ..ClaimFacts::default()
    };
    cloud.classes.set_claims("default", vec![claim]);
    let mut controller = Controller::new(cloud.provider.clone());
    controller.round().await.unwrap();
    assert!(
        cloud.classes.get("default").await.unwrap().is_some(),
        "it waits"
    );
    assert_eq!(
        cloud.world().await["instanceProfiles"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    cloud.provider.delete(&launched).await.unwrap();
    cloud.classes.set_claims("default", Vec::new());
    controller.round().await.unwrap();
    assert!(
        cloud.classes.get("default").await.unwrap().is_none(),
        "the finalizer is gone"
    );
    let world = cloud.world().await;
    assert_eq!(
        (&world["instanceProfiles"], &world["launchTemplates"]),
        (&json!([]), &json!([]))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_found_by_what_ec2_says_of_the_instance() {
    let cloud = Cloud::new(account()).await;
    let launch = claim(1, &[]);
    let launched = cloud.provider.create(&launch).await.unwrap().provider_id;
    let drifted = || cloud.provider.drifted(&launched, &launch);
    assert_eq!(drifted().await, Ok(None));
    let ready = cloud.class("default").await;
    let with = |change: &dyn Fn(&mut longshore_ec2::nodeclass::EC2NodeClassStatus)| {
        let mut changed = ready.clone();
        change(changed.status.as_mut().unwrap());
        cloud.classes.put(changed);
    };
    with(&|status| status.subnets.retain(|one| !launched.contains(&one.zone)));
    assert_eq!(drifted().await, Ok(Some("SubnetDrift".to_owned())));
    with(&|status| status.security_groups[0].id = "sg-other".to_owned());
    assert_eq!(drifted().await, Ok(Some("SecurityGroupDrift".to_owned())));
    with(&|status| status.amis.iter_mut().for_each(|ami| ami.id += "0"));
    assert_eq!(drifted().await, Ok(Some("AMIDrift".to_owned())));
    with(&|status| status.amis.clear());
    assert!(drifted().await.is_err(), "nothing to compare with");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_is_used_counted_and_given_back() {
    let reservations = json!([{
        "id": "cr-0123456789abcdef0", "instanceType": "m5.large", "zone": "us-east-1b",
        "total": 2, "available": 2, "tags": {"team": "a"},
    }]);
    let mut account = account_with(&json!({"reservations": reservations}));
    account.settings.stop_milliseconds = (0, 0);
    let cloud = Cloud::without_class(account).await;
    let terms = json!({"capacityReservationSelectorTerms": [{"tags": {"team": "a"}}]});
    cloud.classes.put(class("default", terms));
    cloud.reconcile().await;
    assert_eq!(
        cloud
            .class("default")
            .await
            .status
            .unwrap()
            .capacity_reservations
            .len(),
        1
    );
    let wanted: &[(&str, &[&str])] = &[(KIND, &["m5.large"]), (CAPACITY_TYPE, &["reserved"])];
    let one = cloud.provider.create(&claim(1, wanted)).await.unwrap();
    assert_eq!(one.labels[CAPACITY_TYPE], "reserved");
    let label = "karpenter.k8s.aws/capacity-reservation-id";
    assert_eq!(one.labels[label], "cr-0123456789abcdef0");
    assert_eq!(
        cloud.provider.get(&one.provider_id).await.unwrap().labels,
        one.labels
    );
    cloud.launch(2, wanted).await.unwrap();
    let error = cloud.launch(3, wanted).await.unwrap_err();
    assert!(
        matches!(error, CloudError::InsufficientCapacity(_)),
        "{error:?}"
    );
    cloud.provider.delete(&one.provider_id).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let gone = cloud.provider.get(&one.provider_id).await;
    assert!(matches!(gone, Err(CloudError::NotFound(_))), "{gone:?}");
    cloud.launch(3, wanted).await.unwrap();
}

/// Remembers what it was asked to do; fails the first `failing` times.
#[derive(Default)]
struct Remembers {
    done: Mutex<Vec<(InterruptionKind, String)>>,
    failing: AtomicI64,
}

#[async_trait]
impl Handler for Remembers {
    async fn interrupted(&self, kind: InterruptionKind, instance: &str) -> Result<(), String> {
        if self.failing.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Err("not now".to_owned());
        }
        self.done.lock().unwrap().push((kind, instance.to_owned()));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_interruption_is_handled_once_and_its_messages_are_deleted() {
    let mut account = account();
    account.settings.duplicate_share = 0.3;
    let cloud = Cloud::new(account).await;
    let wanted: &[(&str, &[&str])] = &[(KIND, &["m5.large"]), (CAPACITY_TYPE, &["spot"])];
    let mut launched = Vec::new();
    for number in 0..4 {
        launched.push(id(&cloud.launch(number, wanted).await.unwrap()));
    }
    let interrupt =
        |at: usize, kind: &str| json!({"interrupt": {"instance": launched[at], "kind": kind}});
    let rubbish = |body: &str| json!({"message": {"body": body, "copies": 5}});
    cloud
        .faults(json!([
            rubbish("rubbish"),
            interrupt(0, "spot"),
            rubbish("{}"),
            interrupt(1, "rebalance"),
            interrupt(2, "scheduledChange"),
            rubbish("null"),
            interrupt(3, "reservation"),
        ]))
        .await;
    let handler = Arc::new(Remembers::default());
    handler.failing.store(1, Ordering::Relaxed);
    let mut queue = Queue::new(cloud.provider.clone(), "demo", handler.clone());
    let left = || async {
        cloud.world().await["queues"][0]["messages"]
            .as_u64()
            .unwrap()
    };
    // What failed is hidden for 20 seconds and comes again.
    let began = tokio::time::Instant::now();
    while left().await > 0 && began.elapsed() < Duration::from_secs(60) {
        queue.batch().await.unwrap();
    }
    assert_eq!(left().await, 0);
    let mut done = handler.done.lock().unwrap().clone();
    done.sort();
    let mut expected = vec![
        (InterruptionKind::SpotInterrupted, launched[0].clone()),
        (
            InterruptionKind::RebalanceRecommendation,
            launched[1].clone(),
        ),
        (InterruptionKind::ScheduledChange, launched[2].clone()),
        (
            InterruptionKind::ReservationInterrupted,
            launched[3].clone(),
        ),
    ];
    expected.sort();
    assert_eq!(done, expected);
    // What EC2 takes back has no capacity for a while.
    let world = cloud.world().await;
    let instances = world["instances"].as_array().unwrap();
    let zone = instances
        .iter()
        .find(|one| one["id"] == *launched[0])
        .unwrap()["zone"]
        .clone();
    let region = cloud.provider.region();
    let short = region
        .unavailable()
        .of("m5.large")
        .any(|short| *short.zone == *zone.as_str().unwrap());
    assert!(short);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_gone_is_an_error_and_one_that_comes_is_found() {
    let cloud = Cloud::without_class(account()).await;
    let handler = Arc::new(Remembers::default());
    let mut queue = Queue::new(cloud.provider.clone(), "no-such-queue", handler);
    let error = queue.batch().await.unwrap_err();
    assert_eq!(
        error.class,
        longshore_aws::error::Class::NotFound,
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_no_answers_are_unknown_outcomes_with_a_hint() {
    let cloud = Cloud::new(account()).await;
    let html = json!([{"body": {"body": "<html>proxy</html>", "status": 502,
        "on": {"action": "CreateFleet", "times": 3}}}]);
    cloud.faults(html).await;
    let error = cloud.launch(1, &[]).await.unwrap_err();
    assert!(
        error.to_string().contains("proxy lets it through"),
        "{error}"
    );
    // The call was carried out: the next one answers with its instance.
    cloud.launch(1, &[]).await.unwrap();
    assert_eq!(cloud.living().await.len(), 1);
    let expired = json!([{"error": {"when": "before", "code": "ExpiredToken",
        "on": {"action": "DescribeInstances"}}}]);
    cloud.faults(expired).await;
    let error = cloud.provider.list().await.unwrap_err();
    assert!(
        error.to_string().contains("credentials have expired"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_arrives_is_a_call_of_the_policy() {
    let cloud = Cloud::new(account()).await;
    let launched = cloud.launch(1, &[]).await.unwrap();
    cloud
        .provider
        .tag_node(&launched, "ip-10-0-0-1", "claim-1")
        .await
        .unwrap();
    cloud.provider.delete(&launched).await.unwrap();
    let log = cloud
        .emulator("GET", "/_emulator/calls?after=0", Value::Null)
        .await;
    let name = |call: &Call| format!("{}:{}", call.service().prefix(), call.name());
    let known: BTreeSet<String> = Call::ALL.iter().map(name).collect();
    for call in log["calls"].as_array().unwrap() {
        let service = call["service"].as_str().unwrap();
        let action = format!("{service}:{}", call["action"].as_str().unwrap());
        assert!(known.contains(&action), "{action}");
        assert!(
            call["error"].is_null() || call["error"] == "DryRunOperation" || call["status"] == 404,
            "{call}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashes_of_an_older_version_are_migrated_and_no_node_drifts_or_stops_to() {
    const HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
    const VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
    let cloud = Cloud::without_class(account()).await;
    let of = |hash: &str, version: &str| {
        let pairs = [(HASH, hash), (VERSION, version)];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        BTreeMap::from(pairs)
    };
    let mut old = class("default", json!({}));
    old.metadata.annotations = Some(of("1", "v5"));
    cloud.classes.put(old);
    let claim = |name: &str, annotations, drifted| ClaimFacts {
        name: name.to_owned(),
        annotations,
        drifted,
    };
    let claims = vec![
        claim("current", of("1", "v5"), false),
        claim("differs", of("2", "v5"), false),
        claim("drifted", of("1", "v5"), true),
    ];
    cloud.classes.set_claims("default", claims);
    cloud.reconcile().await;
    let class = cloud.class("default").await;
    let own = class.metadata.annotations.unwrap();
    assert_eq!(own[VERSION], "v6");
    let claims = cloud.classes.claims_of("default").await.unwrap();
    let hashes: Vec<(&str, bool)> = claims
        .iter()
        .map(|claim| {
            (
                &*claim.annotations[VERSION],
                claim.annotations[HASH] == own[HASH],
            )
        })
        .collect();
    assert_eq!(hashes, [("v6", true), ("v6", false), ("v6", false)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launch_answers_with_the_hash_of_its_class() {
    let cloud = Cloud::new(account()).await;
    let claim = claim(1, &[]);
    let launched = cloud.provider.create(&claim).await.unwrap();
    let class = cloud.class("default").await;
    let own = class.metadata.annotations.unwrap();
    let hash = "karpenter.k8s.aws/ec2nodeclass-hash";
    assert_eq!(launched.annotations[hash], own[hash]);
    assert_eq!(
        launched.annotations["longshore.dev/bootstrap-digest"].len(),
        32
    );
    let again = cloud.provider.create(&claim).await.unwrap();
    assert_eq!(
        again.annotations[hash], own[hash],
        "asked again it says so too"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spot_without_capacity_becomes_on_demand_in_the_next_round_and_spot_again_after_its_time() {
    let cloud = Cloud::new(account()).await;
    let short =
        json!([{"capacity": {"instanceType": "m5.large", "capacityType": "spot", "free": 0}}]);
    cloud.faults(short).await;
    let wanted: &[(&str, &[&str])] = &[
        (KIND, &["m5.large"]),
        (CAPACITY_TYPE, &["spot", "on-demand"]),
    ];
    let kind = |instance: &longshore_cloud::Instance| instance.labels[CAPACITY_TYPE].clone();
    let spot_is_offered = || async {
        let classes = [cloud.class("default").await];
        let mut names = longshore_core::model::Symbols::default();
        let catalogue = cloud.provider.catalogue(&classes, &mut names);
        let name = names.get("m5.large").unwrap();
        let types = catalogue.types().iter().zip(0..);
        let mut of_name = types.filter(|(kind, _)| kind.name == name);
        let at = longshore_core::model::TypeId(of_name.next().unwrap().1);
        let spot = names.get("spot");
        let mut all = catalogue.offerings_of(at).iter();
        all.any(|one| one.available && one.capacity_type == spot)
    };
    assert!(spot_is_offered().await);
    let error = cloud.provider.create(&claim(1, wanted)).await.unwrap_err();
    assert!(
        matches!(error, CloudError::InsufficientCapacity(_)),
        "{error:?}"
    );
    // The next plan knows, and its claim buys on demand without another look at spot.
    assert!(!spot_is_offered().await);
    let asked = cloud.count("CreateFleet").await;
    let instance = cloud.provider.create(&claim(2, wanted)).await.unwrap();
    assert_eq!(kind(&instance), "on-demand");
    assert_eq!(cloud.count("CreateFleet").await, asked + 1);
    // After its time spot is planned with and bought again.
    cloud.without_faults().await;
    cloud.ahead.store(181, Ordering::Relaxed);
    assert!(spot_is_offered().await);
    let instance = cloud.provider.create(&claim(3, wanted)).await.unwrap();
    assert_eq!(kind(&instance), "spot");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_profile_that_karpenter_made_stays_the_one_of_its_class() {
    let cloud = Cloud::without_class(account()).await;
    let name = "demo_42";
    let path = "/karpenter/us-east-1/demo/uid-of-default/";
    let tags = [
        ("team", "a"),
        ("kubernetes.io/cluster/demo", "owned"),
        ("eks:eks-cluster-name", "demo"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("topology.kubernetes.io/region", "us-east-1"),
    ];
    let tags = (1..).zip(tags).map(|(at, (key, value))| {
        format!("&Tags.member.{at}.Key={key}&Tags.member.{at}.Value={value}")
    });
    let profile = format!("InstanceProfileName={name}");
    let tags: String = tags.collect();
    cloud
        .iam(
            "CreateInstanceProfile",
            &format!("{profile}&Path={path}{tags}"),
        )
        .await;
    cloud
        .iam(
            "AddRoleToInstanceProfile",
            &format!("{profile}&RoleName=node"),
        )
        .await;
    let mut own = class("default", json!({}));
    own.status = Some(serde_json::from_value(json!({"instanceProfile": name})).unwrap());
    cloud.classes.put(own);
    cloud.reconcile().await;
    let status = cloud.class("default").await.status.unwrap();
    assert_eq!(status.instance_profile.as_deref(), Some(name));
    // One was made and tagged, above; nothing was done since.
    let writes = [
        "CreateInstanceProfile",
        "AddRoleToInstanceProfile",
        "TagInstanceProfile",
    ];
    for (action, times) in writes.into_iter().zip([1, 1, 0]) {
        assert_eq!(cloud.count(action).await, times, "{action}");
    }
    let launched = cloud.provider.create(&claim(1, &[])).await.unwrap();
    assert_eq!(
        launched.annotations["karpenter.k8s.aws/instance-profile-name"],
        name
    );
    // With another role it is not that of the class any more.
    cloud
        .iam(
            "RemoveRoleFromInstanceProfile",
            &format!("{profile}&RoleName=node"),
        )
        .await;
    cloud.reconcile().await;
    let status = cloud.class("default").await.status.unwrap();
    assert_ne!(status.instance_profile.as_deref(), Some(name));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_that_an_instance_has_are_left_alone() {
    let cloud = Cloud::new(account()).await;
    let launched = cloud.launch(1, &[]).await.unwrap();
    for _ in 0..2 {
        let tagged = cloud
            .provider
            .tag_node(&launched, "ip-10-0-0-1", "default-1");
        tagged.await.unwrap();
        assert_eq!(cloud.count("CreateTags").await, 1);
    }
    // Another process asks EC2 what there is.
    let mut cloud = cloud;
    cloud.restart().await;
    let tagged = cloud.provider.tag_node(&launched, "another", "another");
    tagged.await.unwrap();
    assert_eq!(cloud.count("CreateTags").await, 1);
}
