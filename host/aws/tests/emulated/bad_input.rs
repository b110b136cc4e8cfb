//! What people see when something is wrong: conditions and Events with what to do, how often it is
//! tried again, and that another EC2NodeClass stays ready. Through the real SDK, against the emulated
//! endpoint on loopback; minutes pass on the provider's clock.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use expect_test::{Expect, expect};
use longshore_api::crd::condition;
use longshore_aws::clients::{Access, Clients};
use longshore_aws::controller::Controller;
use longshore_aws::interruption::queue::Queue;
use longshore_aws::interruption::{Handler, InterruptionKind};
use longshore_aws::provider::{Ec2, Settings};
use longshore_aws::store::{MemoryClasses, NodeClasses as _};
use longshore_cloud::{CloudProvider as _, Launch, Operator, Requirement};
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::Cluster;
use longshore_emulator::serve::{SystemClock, serve};
use longshore_emulator::shell::Shell;
use longshore_emulator::{Account, World};
use serde_json::{Value, json};

use super::emulator;

/// An account that answers at once, with more in it.
fn account(own: &Value) -> Account {
    const SMALL: &str = include_str!("../../../emulator/data/small.json");
    let world = SMALL.replacen('{', &format!("{{\"account\": {own},"), 1);
    let (mut account, problems) = Account::read("world", world.as_bytes(), None).unwrap();
    assert!(problems.is_empty());
    account.settings.lag_milliseconds = (0, 0);
    account.settings.profile_milliseconds = 0;
    account.settings.throttle = false;
    account.settings.state_changes = false;
    account.roles.insert("node".to_owned());
    account
}

/// A class. Calls of `bad-class` alone have `of-bad` in them, or its name.
fn class(name: &str, spec: Value) -> EC2NodeClass {
    let mark = if name == "bad-class" {
        "of-bad"
    } else {
        "of-others"
    };
    let terms = json!([{"tags": {"karpenter.sh/discovery": "demo"}}, {"tags": {"team": mark}}]);
    let mut whole = json!({
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "node",
    });
    let own = spec.as_object().unwrap().clone();
    whole.as_object_mut().unwrap().extend(own);
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": name}, "spec": whole,
    }))
    .unwrap()
}

/// Two classes and a controller that looks at them.
struct Scene {
    shell: Arc<Shell<SystemClock>>,
    classes: Arc<MemoryClasses>,
    provider: Ec2,
    controller: Controller,
    /// Seconds that the provider's clock is ahead.
    ahead: Arc<AtomicI64>,
    /// Calls of before.
    before: u64,
}

impl Scene {
    /// `good` is ready, and so is `bad-class` unless its spec is wrong from the beginning.
    async fn new(spec: Value) -> Self {
        Scene::with(account(&json!({})), spec, None).await
    }

    async fn with(account: Account, spec: Value, patience: Option<Duration>) -> Self {
        let server = serve(0, World::new(account, 1)).await.unwrap();
        let access = Access {
            region: Some("us-east-1".to_owned()),
            endpoint: Some(format!("http://{}", server.address().unwrap())),
            keys: Some(("key".to_owned(), "secret".to_owned())),
            patience,
            ..Access::default()
        };
        let shell = server.shell();
        tokio::spawn(server.run());
        let clients = Arc::new(Clients::new(&access).await.unwrap());
        let ahead = Arc::new(AtomicI64::new(0));
        let seconds = ahead.clone();
        let clock = Arc::new(move || {
            let seconds = seconds.load(Ordering::Relaxed);
            SystemTime::now() + Duration::from_secs(seconds.unsigned_abs())
        });
        let classes = Arc::new(MemoryClasses::default());
        let settings = Settings {
            cluster: Cluster {
                name: "demo".to_owned(),
                ..Cluster::default()
            },
            ..Settings::default()
        };
        let provider = Ec2::start(clients, classes.clone(), settings, clock).await;
        let provider = provider.unwrap();
        let mut scene = Scene {
            shell,
            classes,
            controller: Controller::new(provider.clone()),
            provider,
            ahead,
            before: 0,
        };
        scene.classes.put(class("good", json!({})));
        scene.classes.put(class("bad-class", spec));
        // Once for finalizer and hash, once for the status.
        for _ in 0..2 {
            scene.controller.round().await.unwrap();
        }
        scene
    }

    /// The same, with `bad-class` ready and its Events forgotten.
    async fn ready() -> Self {
        let mut scene = Scene::new(json!({})).await;
        scene.forget().await;
        scene
    }

    async fn forget(&mut self) {
        self.classes.events();
        let log = self.log(self.before).await;
        let last = log.last().and_then(|call| call["number"].as_u64());
        self.before = last.unwrap_or(self.before);
    }

    async fn emulator(&self, method: &str, path: &str, body: Value) -> Value {
        emulator(&self.shell, method, path, body).await
    }

    async fn fault(&self, fault: Value) {
        self.emulator("POST", "/_emulator/faults", json!([fault]))
            .await;
    }

    async fn without_faults(&self) {
        self.emulator("DELETE", "/_emulator/faults", Value::Null)
            .await;
    }

    async fn log(&self, after: u64) -> Vec<Value> {
        let path = format!("/_emulator/calls?after={after}");
        let log = self.emulator("GET", &path, Value::Null).await;
        log["calls"].as_array().unwrap().clone()
    }

    /// Minutes pass, and the controller looks every five seconds.
    async fn pass(&mut self, minutes: u32) {
        for _ in 0..minutes * 12 {
            self.ahead.fetch_add(5, Ordering::Relaxed);
            self.controller.round().await.unwrap();
        }
    }

    /// Conditions of `bad-class` that are not true, its Events, the other class, and calls that went
    /// wrong.
    async fn report(&mut self) -> String {
        let mut text = String::new();
        for name in ["bad-class", "good"] {
            let class = self.classes.get(name).await.unwrap().unwrap();
            let conditions = class.status.unwrap_or_default().conditions;
            let ready = condition(&conditions, "Ready").unwrap();
            _ = writeln!(text, "{name}: Ready={}", ready.status.text());
            for own in &conditions {
                if own.status.text() != "True" && own.type_ != "Ready" {
                    let (status, reason) = (own.status.text(), &own.reason);
                    _ = writeln!(text, "  {}={status} {reason}: {}", own.type_, own.message);
                }
            }
        }
        let mut events: BTreeMap<String, usize> = BTreeMap::new();
        for (name, event) in self.classes.events() {
            let kind = ["Normal", "Warning"][usize::from(event.warning)];
            let said = format!("{name}: {kind} {}: {}", event.reason, event.message);
            *events.entry(said).or_default() += 1;
        }
        for (said, times) in events {
            _ = writeln!(text, "Event ×{times} of {said}");
        }
        let mut calls: BTreeMap<String, usize> = BTreeMap::new();
        for call in self.log(self.before).await {
            let faults = call["faults"].as_array();
            let was_met = faults.is_some_and(|faults| !faults.is_empty());
            // A profile is looked for before it is made.
            let looks = call["action"] == "GetInstanceProfile";
            let refused = ["NoSuchEntity", "ParameterNotFound"];
            let refused = !looks && refused.iter().any(|code| call["error"] == *code);
            if was_met || refused {
                let action = call["action"].as_str().unwrap().to_owned();
                *calls.entry(action).or_default() += 1;
            }
        }
        for (action, times) in calls {
            _ = writeln!(text, "went wrong: {action} ×{times}");
        }
        self.forget().await;
        text
    }

    async fn shows(&mut self, expected: Expect) {
        expected.assert_eq(&self.report().await);
    }
}

fn error(code: &str, message: &str, on: Value) -> Value {
    json!({"error": {"when": "before", "code": code, "message": message, "on": on}})
}

/// A NodeClaim of a class that asks for a CPU of amd64.
fn launch(class: &str) -> Launch {
    Launch {
        name: "default-1".to_owned(),
        uid: format!("7d1c5b1e-0000-4000-8000-{class:0>12}"),
        nodepool: Some("default".to_owned()),
        requirements: vec![Requirement {
            key: "kubernetes.io/arch".to_owned(),
            operator: Operator::In,
            values: vec!["amd64".to_owned()],
        }],
        requests: BTreeMap::from([("cpu".to_owned(), "1".to_owned())]),
        class_kind: "EC2NodeClass".to_owned(),
        class_name: class.to_owned(),
        ..Launch::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_missing_is_named_and_used_once_it_is_there() {
    let mut scene = Scene::ready().await;
    let message = "You are not authorized to perform this operation. User: \
                   arn:aws:sts::123456789012:assumed-role/longshore/1 is not authorized to perform: \
                   ec2:DescribeSecurityGroups because no identity-based policy allows the \
                   ec2:DescribeSecurityGroups action";
    let on = json!({"action": "DescribeSecurityGroups", "contains": "of-bad"});
    scene
        .fault(error("UnauthorizedOperation", message, on))
        .await;
    scene.pass(15).await;
    scene.shows(expect![[r#"
        bad-class: Ready=False
          SecurityGroupsReady=False Unauthorized: ec2:DescribeSecurityGroups: UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::123456789012:assumed-role/longshore/1 is not authorized to perform: ec2:DescribeSecurityGroups because no identity-based policy allows the ec2:DescribeSecurityGroups action; allow ec2:DescribeSecurityGroups in the policy of Longshore's role
          ValidationSucceeded=False DependenciesNotReady: waits for SecurityGroupsReady
        good: Ready=True
        Event ×1 of bad-class: Warning Unauthorized: SecurityGroupsReady: ec2:DescribeSecurityGroups: UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::123456789012:assumed-role/longshore/1 is not authorized to perform: ec2:DescribeSecurityGroups because no identity-based policy allows the ec2:DescribeSecurityGroups action; allow ec2:DescribeSecurityGroups in the policy of Longshore's role
        went wrong: DescribeSecurityGroups ×11
    "#]]).await;
    scene.without_faults().await;
    scene.pass(2).await;
    scene
        .shows(expect![[r#"
        bad-class: Ready=True
        good: Ready=True
        Event ×1 of bad-class: Normal Ready: nodes can be launched again
    "#]])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_be_passed_on_is_named_with_the_action() {
    let mut scene = Scene::new(json!({})).await;
    let message = "You are not authorized to perform this operation. User: \
                   arn:aws:sts::123456789012:assumed-role/longshore/1 is not authorized to perform: \
                   iam:PassRole on resource: arn:aws:iam::123456789012:role/node because no \
                   identity-based policy allows the iam:PassRole action. Encoded authorization \
                   failure message: fL3xyzQ";
    let on = json!({"action": "CreateFleet", "contains": "bad-class"});
    scene
        .fault(error("UnauthorizedOperation", message, on))
        .await;
    scene.forget().await;
    // A launch that passed is tried again every half hour.
    scene.pass(50).await;
    scene.shows(expect![[r#"
        bad-class: Ready=False
          ValidationSucceeded=False CreateFleetAuthCheckFailed: ec2:CreateFleet: UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::123456789012:assumed-role/longshore/1 is not authorized to perform: iam:PassRole on resource: arn:aws:iam::123456789012:role/node because no identity-based policy allows the iam:PassRole action; allow iam:PassRole on arn:aws:iam::123456789012:role/node in the policy of Longshore's role
        good: Ready=True
        Event ×1 of bad-class: Warning CreateFleetAuthCheckFailed: ValidationSucceeded: ec2:CreateFleet: UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::123456789012:assumed-role/longshore/1 is not authorized to perform: iam:PassRole on resource: arn:aws:iam::123456789012:role/node because no identity-based policy allows the iam:PassRole action; allow iam:PassRole on arn:aws:iam::123456789012:role/node in the policy of Longshore's role
        went wrong: CreateFleet ×5
    "#]]).await;
    scene.without_faults().await;
    scene.pass(6).await;
    scene
        .shows(expect![[r#"
        bad-class: Ready=True
        good: Ready=True
        Event ×1 of bad-class: Normal Ready: nodes can be launched again
    "#]])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_does_not_exist() {
    let mut scene = Scene::new(json!({"role": "nobody"})).await;
    scene.pass(10).await;
    scene.shows(expect![[r#"
        bad-class: Ready=False
          InstanceProfileReady=False RoleNotFound: the role nobody does not exist; create it or correct spec.role
          ValidationSucceeded=False DependenciesNotReady: waits for InstanceProfileReady
        good: Ready=True
        Event ×1 of bad-class: Warning RoleNotFound: InstanceProfileReady: the role nobody does not exist; create it or correct spec.role
        went wrong: AddRoleToInstanceProfile ×3
    "#]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_that_match_nothing() {
    let none = json!([{"tags": {"no": "such"}}]);
    let spec = json!({
        "subnetSelectorTerms": none,
        "securityGroupSelectorTerms": none,
        "amiFamily": "AL2023",
        "amiSelectorTerms": [{"tags": {"no": "such"}}],
    });
    let mut scene = Scene::new(spec).await;
    scene.pass(10).await;
    scene.shows(expect![[r#"
        bad-class: Ready=False
          AMIsReady=False AMINotFound: spec.amiSelectorTerms select no image; see that IDs, names and tags are those of images in this region, and that the owner is right
          SubnetsReady=False SubnetsNotFound: spec.subnetSelectorTerms select no subnet; see that tags and IDs are those of subnets in this region
          SecurityGroupsReady=False SecurityGroupsNotFound: spec.securityGroupSelectorTerms select no security group; see that tags, names and IDs are those of groups in this region
          ValidationSucceeded=False DependenciesNotReady: waits for AMIsReady, SecurityGroupsReady, SubnetsReady
        good: Ready=True
        Event ×1 of bad-class: Warning AMINotFound: AMIsReady: spec.amiSelectorTerms select no image; see that IDs, names and tags are those of images in this region, and that the owner is right
        Event ×1 of bad-class: Warning SecurityGroupsNotFound: SecurityGroupsReady: spec.securityGroupSelectorTerms select no security group; see that tags, names and IDs are those of groups in this region
        Event ×1 of bad-class: Warning SubnetsNotFound: SubnetsReady: spec.subnetSelectorTerms select no subnet; see that tags and IDs are those of subnets in this region
    "#]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_an_alias_that_does_not_exist() {
    let mut scene = Scene::new(json!({"amiSelectorTerms": [{"alias": "al2023@v19990101"}]})).await;
    scene.pass(10).await;
    scene.shows(expect![[r#"
        bad-class: Ready=False
          AMIsReady=False AMINotFound: spec.amiSelectorTerms select no image; see that the version of al2023@v19990101 exists; there is no SSM parameter /aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.36-v19990101/image_id, and 4 more do not exist
          ValidationSucceeded=False DependenciesNotReady: waits for AMIsReady
        good: Ready=True
        Event ×1 of bad-class: Warning AMINotFound: AMIsReady: spec.amiSelectorTerms select no image; see that the version of al2023@v19990101 exists; there is no SSM parameter /aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.36-v19990101/image_id, and 4 more do not exist
        went wrong: GetParameter ×15
    "#]]).await;
}

/// An image of an account, beside those that there are.
fn with_image(architecture: &str) -> Account {
    let mut account = account(&json!({}));
    let image = json!({"id": "ami-0123456789abcdef0", "name": "own", "architecture": architecture});
    let image = serde_json::from_value(image).unwrap();
    account
        .images
        .insert("ami-0123456789abcdef0".to_owned(), image);
    account
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_of_an_architecture_that_no_node_has() {
    let spec =
        json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}]});
    let mut scene = Scene::with(with_image("i386"), spec, None).await;
    scene.pass(10).await;
    scene.shows(expect![[r#"
        bad-class: Ready=False
          AMIsReady=False AMINotFound: spec.amiSelectorTerms select no image of an architecture that nodes can have: ami-0123456789abcdef0 (i386); select images of x86_64 or arm64
          ValidationSucceeded=False DependenciesNotReady: waits for AMIsReady
        good: Ready=True
        Event ×1 of bad-class: Warning AMINotFound: AMIsReady: spec.amiSelectorTerms select no image of an architecture that nodes can have: ami-0123456789abcdef0 (i386); select images of x86_64 or arm64
    "#]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_of_another_architecture_than_the_nodeclaim_asks_for() {
    let spec =
        json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}]});
    let mut scene = Scene::with(with_image("arm64"), spec, None).await;
    scene.pass(1).await;
    scene
        .shows(expect![[r#"
        bad-class: Ready=True
        good: Ready=True
    "#]])
        .await;
    let refused = scene.provider.create(&launch("bad-class")).await;
    expect!["invalid: EC2NodeClass bad-class: no image in the NodeClass's status fits any of the instance types; select images of their architecture in spec.amiSelectorTerms, or have the NodePool require that of the images"].assert_eq(&refused.unwrap_err().to_string());
    scene.provider.create(&launch("good")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_have_expired() {
    let mut scene = Scene::ready().await;
    let message = "Request has expired.";
    scene
        .fault(error("RequestExpired", message, json!({"service": "ec2"})))
        .await;
    scene
        .classes
        .put(class("bad-class", json!({"tags": {"team": "new"}})));
    scene.pass(10).await;
    scene.shows(expect![[r#"
        bad-class: Ready=Unknown
          AMIsReady=Unknown RequestFailed: ec2:DescribeImages: RequestExpired: Request has expired; the credentials have expired; see that the role can be assumed again and that the clock is right
          SubnetsReady=Unknown RequestFailed: ec2:DescribeSubnets: RequestExpired: Request has expired; the credentials have expired; see that the role can be assumed again and that the clock is right
          SecurityGroupsReady=Unknown RequestFailed: ec2:DescribeSecurityGroups: RequestExpired: Request has expired; the credentials have expired; see that the role can be assumed again and that the clock is right
          ValidationSucceeded=Unknown DependenciesNotReady: waits for AMIsReady, SecurityGroupsReady, SubnetsReady
        good: Ready=True
        Event ×6 of good: Warning RequestFailed: AMIsReady stays as it was: ec2:DescribeImages: RequestExpired: Request has expired; the credentials have expired; see that the role can be assumed again and that the clock is right
        Event ×6 of good: Warning RequestFailed: SecurityGroupsReady stays as it was: ec2:DescribeSecurityGroups: RequestExpired: Request has expired; the credentials have expired; see that the role can be assumed again and that the clock is right
        Event ×10 of good: Warning RequestFailed: SubnetsReady stays as it was: ec2:DescribeSubnets: RequestExpired: Request has expired; the credentials have expired; see that the role can be assumed again and that the clock is right
        went wrong: DescribeImages ×16
        went wrong: DescribeSecurityGroups ×16
        went wrong: DescribeSubnets ×20
    "#]]).await;
    // A launch says so in the condition of its NodeClaim.
    let refused = scene.provider.create(&launch("good")).await;
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("the credentials have expired"), "{said}");
    scene.forget().await;
    scene.without_faults().await;
    scene.pass(2).await;
    scene
        .shows(expect![[r#"
        bad-class: Ready=True
        good: Ready=True
    "#]])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_wrong() {
    let mut scene = Scene::ready().await;
    let message = "Signature not yet current: 20261126T073000Z is still later than \
                   20261126T070500Z (20261126T070000Z + 5 min.)";
    let on = json!({"action": "DescribeSubnets", "contains": "of-bad"});
    scene
        .fault(error("SignatureDoesNotMatch", message, on))
        .await;
    scene.pass(10).await;
    scene.shows(expect![[r#"
        bad-class: Ready=True
        good: Ready=True
        Event ×10 of bad-class: Warning RequestFailed: SubnetsReady stays as it was: ec2:DescribeSubnets: SignatureDoesNotMatch: Signature not yet current: 20261126T073000Z is still later than 20261126T070500Z (20261126T070000Z + 5 min.); AWS does not accept the credentials; see that this machine's clock is right, and that the role or the key still exists
        went wrong: DescribeSubnets ×10
    "#]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_html() {
    let mut scene = Scene::ready().await;
    let page = "<!DOCTYPE html><html><body>Sign in to the network</body></html>";
    let on = json!({"action": "DescribeSubnets", "contains": "of-bad"});
    scene
        .fault(json!({"body": {"body": page, "status": 200, "on": on}}))
        .await;
    scene.pass(5).await;
    scene.shows(expect![[r#"
        bad-class: Ready=True
        good: Ready=True
        Event ×5 of bad-class: Warning RequestFailed: SubnetsReady stays as it was: ec2:DescribeSubnets: the answer is a page of HTML (HTTP 200) and none of AWS; see that the endpoint is that of AWS, and that a firewall or a proxy lets it through
        went wrong: DescribeSubnets ×5
    "#]]).await;
    scene.without_faults().await;
    // A class that has never been ready says it in its condition.
    let on = json!({"service": "ec2", "contains": "of-bad"});
    scene
        .fault(json!({"body": {"body": page, "status": 502, "on": on}}))
        .await;
    let mut fresh = class("bad-class", json!({}));
    fresh.status = None;
    scene.classes.put(fresh);
    scene.controller = Controller::new(scene.provider.clone());
    scene.pass(2).await;
    scene.shows(expect![[r#"
        bad-class: Ready=Unknown
          SubnetsReady=Unknown RequestFailed: ec2:DescribeSubnets: the answer is a page of HTML (HTTP 502) and none of AWS; see that the endpoint is that of AWS, and that a firewall or a proxy lets it through
          SecurityGroupsReady=Unknown RequestFailed: ec2:DescribeSecurityGroups: the answer is a page of HTML (HTTP 502) and none of AWS; see that the endpoint is that of AWS, and that a firewall or a proxy lets it through
          ValidationSucceeded=Unknown DependenciesNotReady: waits for SecurityGroupsReady, SubnetsReady
        good: Ready=True
        went wrong: DescribeSecurityGroups ×6
        went wrong: DescribeSubnets ×6
    "#]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_hangs() {
    let patience = Some(Duration::from_millis(500));
    let mut scene = Scene::with(account(&json!({})), json!({}), patience).await;
    scene.forget().await;
    let on = json!({"action": "DescribeSubnets", "contains": "of-bad"});
    scene
        .fault(json!({"delay": {"milliseconds": 600_000, "on": on}}))
        .await;
    scene.pass(3).await;
    scene.shows(expect![[r#"
        bad-class: Ready=True
        good: Ready=True
        Event ×3 of bad-class: Warning RequestFailed: SubnetsReady stays as it was: ec2:DescribeSubnets: request has timed out: operation attempt timeout (single attempt) occurred after 500ms; see that the endpoint is that of AWS, and that a firewall or a proxy lets it through
        went wrong: DescribeSubnets ×9
    "#]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_whose_calls_hang_holds_up_no_other() {
    let scene = Scene::new(json!({})).await;
    let on = json!({"action": "DescribeSubnets", "contains": "of-bad"});
    scene
        .fault(json!({"delay": {"milliseconds": 600_000, "on": on}}))
        .await;
    scene.ahead.store(120, Ordering::Relaxed);
    let running = tokio::spawn(Controller::new(scene.provider.clone()).run());
    scene.classes.put(class("new", json!({})));
    let ready = async {
        loop {
            let new = scene.classes.get("new").await.unwrap().unwrap();
            let conditions = new.status.unwrap_or_default().conditions;
            if condition(&conditions, "Ready").is_some_and(|own| own.status.text() == "True") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // The class whose calls hang gives up after a minute and a half.
    let ready = tokio::time::timeout(Duration::from_secs(60), ready).await;
    running.abort();
    assert!(ready.is_ok(), "the new class is not ready");
}

/// Remembers what it was told of the queue.
#[derive(Default)]
struct Troubles(Mutex<Vec<String>>);

#[async_trait]
impl Handler for Troubles {
    async fn trouble(&self, why: Option<&str>) {
        let why = why.unwrap_or("messages come again");
        self.0.lock().unwrap().push(why.to_owned());
    }

    async fn interrupted(&self, _: InterruptionKind, _: &str) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_gone_and_comes_back() {
    let mut scene = Scene::ready().await;
    let message = "The specified queue does not exist.";
    let gone = error("QueueDoesNotExist", message, json!({"service": "sqs"}));
    scene.fault(gone).await;
    let handler = Arc::new(Troubles::default());
    let queue = Queue::new(scene.provider.clone(), "demo", handler.clone());
    let running = tokio::spawn(queue.run());
    // At once, after 1 s and after 2 s more.
    tokio::time::sleep(Duration::from_millis(4500)).await;
    let asked = scene.log(scene.before).await.len();
    assert!((2..=3).contains(&asked), "asked {asked} times in 4.5 s");
    scene.without_faults().await;
    let rubbish = json!({"message": {"body": "rubbish"}});
    scene.fault(rubbish).await;
    let recovers = async {
        while handler
            .0
            .lock()
            .unwrap()
            .last()
            .is_none_or(|last| last.contains("queue"))
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), recovers)
        .await
        .unwrap();
    running.abort();
    let mut said = handler.0.lock().unwrap().clone();
    said.dedup();
    expect![[r#"
        interruption queue demo: sqs:GetQueueUrl: AWS.SimpleQueueService.NonExistentQueue: The specified queue does not exist; create the queue, or correct --interruption-queue (INTERRUPTION_QUEUE); it is a name in this region and account
        messages come again"#]].assert_eq(&said.join("\n"));
    scene.pass(1).await;
    scene
        .shows(expect![[r#"
        bad-class: Ready=True
        good: Ready=True
        went wrong: GetQueueUrl ×3
    "#]])
        .await;
}
