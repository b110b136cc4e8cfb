//! An AWS that was not written here: the provider through the real SDK against moto's server
//! (`pip install 'moto[server]'`). Not run where python3 has no moto; `LONGSHORE_PYTHON` names
//! another python3.
//!
//! What moto 5.2 has is tested here: instance types, where they are offered, subnets, groups,
//! images by name and by parameter, launch templates, fleets on demand and on spot, instances, tags,
//! instance profiles, EKS' description of the cluster, and the queue. What it has not, and what is
//! tested on our own emulator alone (`emulated.rs`):
//!
//! - capacity reservations, placement groups, spot placement scores, Pricing, zonal shifts: HTTP 500;
//! - errors of a fleet: capacity is endless, and the first override is launched whatever it costs;
//! - tokens: the same one launches again, so that a lost reply cannot be repeated;
//! - prices: each spot price is 0.00001, of 2006;
//! - pages of instance types, dry runs of DescribeInstanceTypes, filters of DescribeInstanceStatus;
//! - security groups of instances of a fleet, so that each of them drifts; the ID of a spot request;
//! - parameters below /aws/service/eks, so that no alias of images can be resolved;
//! - ListInstanceProfiles by path: it lists all, so that what is not ours is looked at as well;
//! - lag, throttling, interruptions by EC2 itself.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_aws::clients::{Access, Clients};
use longshore_aws::controller::Controller;
use longshore_aws::error::Class;
use longshore_aws::interruption::queue::Queue;
use longshore_aws::interruption::{Handler, InterruptionKind};
use longshore_aws::provider::{Ec2, Settings};
use longshore_aws::store::{MemoryClasses, NodeClasses as _};
use longshore_cloud::{CloudError, CloudProvider as _, Launch, Operator, Requirement};
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::Cluster;
use serde_json::{Value, json};

/// An image that moto has.
const IMAGE: &str = "amzn-ami-hvm-2017.09.1.20171103-x86_64-gp2";
const TRUST: &str = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
    "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}"#;

/// A test: what holds of a cloud.
type Test = fn(&mut Cloud, &tokio::runtime::Runtime);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They share one server, which is emptied before each.
    arguments.test_threads = Some(1);
    let missing = missing();
    let tests: [(&str, Test); 6] = [
        ("a_class_gets_its_status", status),
        ("claims_get_instances_and_give_them_back", instances),
        ("launch_templates_are_found_again_and_deleted", templates),
        ("instance_profiles_follow_their_class", profiles),
        ("images_are_found_by_a_parameter", parameters),
        ("interruptions_are_read_from_the_queue", queue),
    ];
    let server = Arc::new(Mutex::new(None));
    let trial = |(name, test): (&str, Test)| {
        let name = match &missing {
            None => name.to_owned(),
            Some(reason) => format!("{name} (not run: {reason})"),
        };
        let server = server.clone();
        Trial::test(name, move || on_moto(&server, test)).with_ignored_flag(missing.is_some())
    };
    let trials = tests.into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn python() -> String {
    std::env::var("LONGSHORE_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

fn missing() -> Option<String> {
    let import = ["-c", "import moto.server"];
    match Command::new(python()).args(import).output() {
        Err(error) => Some(format!("{}: {error}", python())),
        Ok(done) if done.status.success() => None,
        Ok(_) => Some(format!("{} has no moto[server]", python())),
    }
}

/// moto's server; ended when it is dropped.
struct Moto {
    child: Child,
    port: u16,
}

impl Moto {
    fn start() -> Result<Self, Failed> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(python())
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p"])
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let moto = Moto { child, port };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(120) {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(moto);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("moto's server does not listen within two minutes".into())
    }

    /// Forgets everything.
    fn reset(&self) -> Result<(), Failed> {
        use std::io::{Read as _, Write as _};
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            stream,
            "POST /moto-api/reset HTTP/1.1\r\nHost: moto\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.contains(" 200 ") {
            true => Ok(()),
            false => Err(answer.into()),
        }
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn on_moto(server: &Mutex<Option<Moto>>, test: Test) -> Result<(), Failed> {
    let mut server = server
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if server.is_none() {
        *server = Some(Moto::start()?);
    }
    let Some(moto) = &*server else {
        return Err("no server".into());
    };
    moto.reset()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut cloud = runtime.block_on(Cloud::new(moto.port));
    test(&mut cloud, &runtime);
    Ok(())
}

/// An account at moto and a provider that has started.
struct Cloud {
    clients: Arc<Clients>,
    classes: Arc<MemoryClasses>,
    provider: Ec2,
    /// Seconds that the provider's clock is ahead.
    ahead: Arc<AtomicI64>,
}

impl Cloud {
    /// A cluster, a role, a queue, and the default VPC's subnets and group with the usual tag.
    async fn new(port: u16) -> Self {
        let access = Access {
            region: Some("us-east-1".to_owned()),
            endpoint: Some(format!("http://127.0.0.1:{port}")),
            keys: Some(("key".to_owned(), "secret".to_owned())),
            ..Access::default()
        };
        let clients = Arc::new(Clients::new(&access).await.unwrap());
        prepare(&clients).await;
        let ahead = Arc::new(AtomicI64::new(0));
        let classes = Arc::new(MemoryClasses::default());
        let provider = start(&clients, &classes, &ahead).await;
        Cloud {
            clients,
            classes,
            provider,
            ahead,
        }
    }

    /// Another process in place of the first: nothing is remembered.
    async fn restart(&mut self) {
        self.provider = start(&self.clients, &self.classes, &self.ahead).await;
    }

    async fn with_class(&self, more: Value) {
        self.classes.put(class(more));
        let mut controller = Controller::new(self.provider.clone());
        for _ in 0..2 {
            controller.round().await.unwrap();
        }
    }

    /// Status, reason and message of a condition of the class.
    async fn condition(&self, type_: &str) -> (String, String, String) {
        let class = self.classes.get("default").await.unwrap().unwrap();
        let conditions = class.status.unwrap_or_default().conditions;
        let found = conditions.iter().find(|own| own.type_ == type_);
        let own = found.unwrap_or_else(|| panic!("no {type_}: {conditions:?}"));
        let status = own.status.text().to_owned();
        (status, own.reason.clone(), own.message.clone())
    }

    async fn is_ready(&self) {
        let ready = self.condition("Ready").await;
        assert_eq!(ready.0, "True", "{ready:?}");
    }

    /// Names of the launch templates that there are.
    async fn templates(&self) -> Vec<String> {
        let found = self.clients.ec2.describe_launch_templates().send().await;
        let found = found.unwrap();
        let names = found.launch_templates().iter();
        names
            .map(|one| one.launch_template_name().unwrap_or_default().to_owned())
            .collect()
    }

    /// Roles of the instance profiles that there are.
    async fn profiles(&self) -> Vec<Vec<String>> {
        let found = self.clients.iam.list_instance_profiles().send().await;
        let found = found.unwrap();
        let roles = found.instance_profiles().iter().map(|one| {
            let roles = one.roles().iter();
            roles.map(|role| role.role_name().to_owned()).collect()
        });
        roles.collect()
    }
}

async fn start(
    clients: &Arc<Clients>,
    classes: &Arc<MemoryClasses>,
    ahead: &Arc<AtomicI64>,
) -> Ec2 {
    let settings = Settings {
        cluster: Cluster {
            name: "demo".to_owned(),
            ..Cluster::default()
        },
        kubernetes: "1.36".to_owned(),
        // DescribeCapacityReservations is not there.
        reserved_capacity: false,
        ..Settings::default()
    };
    let ahead = ahead.clone();
    let clock = move || {
        let ahead = u64::try_from(ahead.load(Ordering::Relaxed)).unwrap_or(0);
        SystemTime::now() + Duration::from_secs(ahead)
    };
    let provider = Ec2::start(clients.clone(), classes.clone(), settings, Arc::new(clock));
    provider.await.unwrap()
}

/// What there is in an account before Longshore comes.
async fn prepare(clients: &Clients) {
    use aws_sdk_ec2::types::Tag;
    let subnets = clients.ec2.describe_subnets().send().await.unwrap();
    let groups = clients.ec2.describe_security_groups().send().await.unwrap();
    let subnets = subnets.subnets().iter().filter_map(|one| one.subnet_id());
    let groups = groups.security_groups().iter();
    let groups = groups.filter_map(|one| one.group_id());
    let all: Vec<String> = subnets.chain(groups).map(str::to_owned).collect();
    assert!(all.len() > 3, "{all:?}");
    let tag = Tag::builder()
        .key("karpenter.sh/discovery")
        .value("demo")
        .build();
    let tagged = clients.ec2.create_tags().set_resources(Some(all)).tags(tag);
    tagged.send().await.unwrap();
    for role in ["node", "other"] {
        let made = clients.iam.create_role().role_name(role);
        let made = made.assume_role_policy_document(TRUST);
        made.send().await.unwrap();
    }
    let network = aws_sdk_eks::types::VpcConfigRequest::builder().build();
    let cluster = clients.eks.create_cluster().name("demo");
    let cluster = cluster.role_arn("arn:aws:iam::123456789012:role/node");
    let cluster = cluster.resources_vpc_config(network);
    cluster.send().await.unwrap();
    let queue = clients.sqs.create_queue().queue_name("demo");
    queue.send().await.unwrap();
}

fn class(more: Value) -> EC2NodeClass {
    let mut spec = json!({
        "amiFamily": "AL2023",
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
        "amiSelectorTerms": [{"name": IMAGE, "owner": "137112412989"}],
        "role": "node",
        "tags": {"team": "a"},
    });
    let own = spec.as_object_mut().unwrap();
    own.extend(more.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default"}, "spec": spec,
    }))
    .unwrap()
}

/// A claim for one of two types, as cheap as the capacity type allows.
fn claim(number: u32, capacity_type: &str) -> Launch {
    let requirement = |key: &str, values: &[&str]| Requirement {
        key: key.to_owned(),
        operator: Operator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    Launch {
        name: format!("default-{number}"),
        uid: format!("7d1c5b1e-0000-4000-8000-{number:012}"),
        nodepool: Some("default".to_owned()),
        labels: BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "default".to_owned())]),
        requirements: vec![
            requirement(
                "node.kubernetes.io/instance-type",
                &["m5.large", "m5.xlarge"],
            ),
            requirement("karpenter.sh/capacity-type", &[capacity_type]),
        ],
        requests: BTreeMap::from([("cpu".to_owned(), "1".to_owned())]),
        class_kind: "EC2NodeClass".to_owned(),
        class_name: "default".to_owned(),
        ..Launch::default()
    }
}

fn status(cloud: &mut Cloud, runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {
        assert!(cloud.provider.region().types().len() > 1000);
        cloud.with_class(json!({})).await;
        cloud.is_ready().await;
        let class = cloud.classes.get("default").await.unwrap().unwrap();
        let status = class.status.unwrap();
        assert_eq!(status.subnets.len(), 6);
        assert!(status.subnets.iter().all(|one| one.zone_id.is_some()));
        assert_eq!(status.security_groups.len(), 1);
        assert_eq!(status.amis.len(), 1);
        assert_eq!(status.amis[0].name.as_deref(), Some(IMAGE));
        // What selects nothing is said.
        let nothing = json!({"subnetSelectorTerms": [{"tags": {"no": "such"}}]});
        cloud.with_class(nothing).await;
        let subnets = cloud.condition("SubnetsReady").await;
        assert_eq!((&*subnets.0, &*subnets.1), ("False", "SubnetsNotFound"));
    });
}

fn instances(cloud: &mut Cloud, runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {
        cloud.with_class(json!({})).await;
        cloud.is_ready().await;
        let mut launched = Vec::new();
        for (number, capacity_type) in [(1, "on-demand"), (2, "spot")] {
            let launch = claim(number, capacity_type);
            let made = cloud.provider.create(&launch).await.unwrap();
            assert_eq!(made.labels["karpenter.sh/capacity-type"], capacity_type);
            assert_eq!(made.claim_uid.as_deref(), Some(&*launch.uid));
            let described = cloud.provider.get(&made.provider_id).await.unwrap();
            let key = "node.kubernetes.io/instance-type";
            assert_eq!(described.labels[key], made.labels[key]);
            assert_eq!(described.capacity, made.capacity);
            assert_eq!(described.image_id, made.image_id);
            // The same claim again, of a process that remembers it.
            let again = cloud.provider.create(&launch).await.unwrap();
            assert_eq!(again.provider_id, made.provider_id);
            let tagged = cloud
                .provider
                .tag_node(&made.provider_id, "ip-10-0-0-1", "claim-1");
            tagged.await.unwrap();
            launched.push(made.provider_id);
        }
        assert_eq!(cloud.provider.list().await.unwrap().len(), 2);
        let found = cloud.clients.ec2.describe_instances().send().await.unwrap();
        let all = found.reservations().iter().flat_map(|one| one.instances());
        for instance in all {
            let tags: BTreeMap<&str, &str> = instance
                .tags()
                .iter()
                .filter_map(|tag| Some((tag.key()?, tag.value()?)))
                .collect();
            for (key, value) in [
                ("kubernetes.io/cluster/demo", "owned"),
                ("eks:eks-cluster-name", "demo"),
                ("karpenter.sh/nodepool", "default"),
                ("karpenter.k8s.aws/ec2nodeclass", "default"),
                ("team", "a"),
                ("Name", "ip-10-0-0-1"),
            ] {
                assert_eq!(tags.get(key), Some(&value), "{tags:?}");
            }
        }
        for id in &launched {
            cloud.provider.delete(id).await.unwrap();
            let gone = cloud.provider.get(id).await;
            assert!(matches!(gone, Err(CloudError::NotFound(_))), "{gone:?}");
        }
        assert_eq!(cloud.provider.list().await.unwrap().len(), 0);
        let unknown = "aws:///us-east-1a/i-0123456789abcdef0";
        let gone = cloud.provider.delete(unknown).await;
        assert!(matches!(gone, Err(CloudError::NotFound(_))), "{gone:?}");
    });
}

fn templates(cloud: &mut Cloud, runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {
        cloud.with_class(json!({})).await;
        cloud.is_ready().await;
        cloud.provider.create(&claim(1, "on-demand")).await.unwrap();
        let made = cloud.templates().await;
        assert!(!made.is_empty());
        // Found again by its tag, and not made a second time, which moto would refuse.
        cloud.restart().await;
        cloud.provider.create(&claim(2, "on-demand")).await.unwrap();
        assert_eq!(cloud.templates().await, made);
        // One that somebody deleted is made again.
        for name in &made {
            let delete = cloud.clients.ec2.delete_launch_template();
            delete.launch_template_name(name).send().await.unwrap();
        }
        cloud.provider.create(&claim(3, "on-demand")).await.unwrap();
        let again = cloud.templates().await;
        // That of the class's validation is not needed now.
        assert!(!again.is_empty() && again.iter().all(|name| made.contains(name)));
        cloud.ahead.store(1000, Ordering::Relaxed);
        cloud.provider.sweep().await;
        assert_eq!(cloud.templates().await, [""; 0]);
    });
}

fn profiles(cloud: &mut Cloud, runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {
        cloud.with_class(json!({})).await;
        assert_eq!(cloud.profiles().await, [["node"]]);
        // The same role again: nothing is made.
        cloud.with_class(json!({})).await;
        assert_eq!(cloud.profiles().await, [["node"]]);
        cloud.with_class(json!({"role": "other"})).await;
        cloud.is_ready().await;
        let mut roles = cloud.profiles().await.concat();
        roles.sort();
        assert!(roles.contains(&"other".to_owned()), "{roles:?}");
        cloud.with_class(json!({"role": "nobody"})).await;
        let profile = cloud.condition("InstanceProfileReady").await;
        assert_eq!(profile.0, "False", "{profile:?}");
        assert!(profile.2.contains("nobody"), "{profile:?}");
        // A class that leaves takes its profiles along.
        cloud.with_class(json!({})).await;
        let mut leaving = cloud.classes.get("default").await.unwrap().unwrap();
        let now = "2026-11-26T00:00:00Z".parse().unwrap();
        leaving.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        cloud.classes.put(leaving);
        let mut controller = Controller::new(cloud.provider.clone());
        controller.round().await.unwrap();
        assert!(cloud.classes.get("default").await.unwrap().is_none());
        assert_eq!(cloud.profiles().await, [[""; 0]; 0]);
    });
}

fn parameters(cloud: &mut Cloud, runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {
        let images = cloud.clients.ec2.describe_images();
        let images = images.owners("137112412989").send().await.unwrap();
        let image = images.images().iter().find(|one| one.name() == Some(IMAGE));
        let image = image.unwrap().image_id().unwrap().to_owned();
        let put = cloud.clients.ssm.put_parameter().name("/own/image");
        let put = put
            .value(&image)
            .r#type(aws_sdk_ssm::types::ParameterType::String);
        put.send().await.unwrap();
        let terms = json!({"amiSelectorTerms": [{"ssmParameter": "/own/image"}]});
        cloud.with_class(terms).await;
        cloud.is_ready().await;
        let class = cloud.classes.get("default").await.unwrap().unwrap();
        let amis = class.status.unwrap().amis;
        assert_eq!(amis.len(), 1);
        assert_eq!(amis[0].id, image);
        let terms = json!({"amiSelectorTerms": [{"ssmParameter": "/no/such"}]});
        cloud.with_class(terms).await;
        let images = cloud.condition("AMIsReady").await;
        assert_eq!(images.0, "False", "{images:?}");
    });
}

/// The interruptions that the handler got.
#[derive(Default)]
struct Remembers(Mutex<Vec<(InterruptionKind, String)>>);

#[async_trait]
impl Handler for Remembers {
    async fn interrupted(&self, kind: InterruptionKind, instance: &str) -> Result<(), String> {
        self.0.lock().unwrap().push((kind, instance.to_owned()));
        Ok(())
    }
}

fn queue(cloud: &mut Cloud, runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {
        cloud.with_class(json!({})).await;
        cloud.is_ready().await;
        let spot = cloud.provider.create(&claim(1, "spot")).await.unwrap();
        let id = spot.provider_id.rsplit('/').next().unwrap().to_owned();
        let url = cloud.clients.sqs.get_queue_url().queue_name("demo");
        let url = url.send().await.unwrap().queue_url().unwrap().to_owned();
        let warning = json!({
            "version": "0", "source": "aws.ec2", "region": "us-east-1",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "detail": {"instance-id": id, "instance-action": "terminate"},
        });
        for body in ["rubbish".to_owned(), warning.to_string()] {
            let send = cloud.clients.sqs.send_message().queue_url(&url);
            send.message_body(body).send().await.unwrap();
        }
        let handler = Arc::new(Remembers::default());
        let shared: Arc<dyn Handler> = handler.clone();
        let mut queue = Queue::new(cloud.provider.clone(), "demo", shared.clone());
        let begun = Instant::now();
        while handler.0.lock().unwrap().is_empty() && begun.elapsed() < Duration::from_secs(60) {
            queue.batch().await.unwrap();
        }
        let interrupted = handler.0.lock().unwrap().clone();
        assert_eq!(interrupted, [(InterruptionKind::SpotInterrupted, id)]);
        // What was handled is deleted, rubbish too.
        let left = cloud.clients.sqs.get_queue_attributes().queue_url(&url);
        let left = left.attribute_names(aws_sdk_sqs::types::QueueAttributeName::All);
        let left = left.send().await.unwrap();
        let left = left.attributes().unwrap();
        for key in [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
        ] {
            let key = aws_sdk_sqs::types::QueueAttributeName::from(key);
            assert_eq!(left.get(&key).map(String::as_str), Some("0"), "{key}");
        }
        let mut none = Queue::new(cloud.provider.clone(), "no-such-queue", shared);
        let error = none.batch().await.unwrap_err();
        assert_eq!(error.class, Class::NotFound, "{error}");
    });
}
