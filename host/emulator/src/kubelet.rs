//! What the kubelet of an instance would do: read the user data, and join or not.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longshore_ec2::bootstrap::{ReadBack, read_back};
use longshore_ec2::kubelet::{Base, Kubelets};
use longshore_ec2::userdata::Family;
use longshore_ec2::validation::starts;
use serde::Serialize;
use serde_json::{Value, json};

use crate::chance::draw;
use crate::time::Time;
use crate::world::{Account, Instance, InstanceState, World};

/// A Node that would register.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Joining {
    pub instance: String,
    /// The Node's name: the instance's private DNS name.
    pub name: String,
    /// `aws:///zone/instance`.
    pub provider_id: String,
    /// Labels that the kubelet and the cloud controller give the Node.
    pub labels: BTreeMap<String, String>,
    /// Taints, as `key=value:Effect`.
    pub taints: Vec<String>,
    /// Most pods, if the user data says.
    pub max_pods: Option<i64>,
    /// The cluster that it joins.
    pub cluster: String,
    /// `status.nodeInfo.bootID`: another one after each reboot.
    pub boot_id: String,
}

/// Why an instance does not become a Node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotJoining {
    /// It has not started yet, or it ends.
    #[error("the instance is {0}")]
    NotRunning(&'static str),
    /// The kubelet has not got that far.
    #[error("the instance boots until {0}")]
    Booting(String),
    /// User data does not bring it into a cluster.
    #[error("the user data {0}")]
    UserData(String),
    /// User data means another cluster.
    #[error("the user data names the cluster {0:?}, which is not there")]
    OtherCluster(String),
    /// User data means another API server, CA or nothing at all.
    #[error("the user data has no {0}")]
    Lacking(&'static str),
}

/// Whether and as what an instance joins.
///
/// # Errors
/// Why it does not join, or not yet.
pub fn join(world: &World, instance: &Instance, now: Time) -> Result<Joining, NotJoining> {
    if instance.state != InstanceState::Running {
        return Err(NotJoining::NotRunning(instance.state.name()));
    }
    let ready = boots_until(world, instance);
    if now < ready {
        return Err(NotJoining::Booting(ready.iso()));
    }
    read(&world.account, instance)
}

/// When the kubelet registers: after launch, start and boot, drawn per instance.
pub fn boots_until(world: &World, instance: &Instance) -> Time {
    let settings = &world.account.settings;
    let span = |(least, most): (i64, i64), name: &str| {
        let drawn = draw(world.seed, &[name, &instance.id], 0);
        least + (drawn * (most - least) as f64) as i64
    };
    instance
        .launched
        .plus(settings.start_milliseconds.1 + span(settings.boot_milliseconds, "boot"))
}

/// Reads the user data of an instance, whether it has booted or not.
///
/// # Errors
/// What keeps it from joining the account's cluster.
pub fn read(account: &Account, instance: &Instance) -> Result<Joining, NotJoining> {
    let bytes = STANDARD.decode(&*instance.user_data);
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(|| NotJoining::UserData("is not text in base64".to_owned()))?;
    let image = account
        .images
        .get(&instance.image)
        .map_or("", |image| &image.name);
    let family = of_image(image).or_else(|| of_text(&text));
    let family = family.ok_or_else(|| NotJoining::UserData("names no cluster".to_owned()))?;
    let said = read_back(family, &text).map_err(NotJoining::UserData)?;
    let kubelets = Kubelets::of(&account.cluster.version);
    let faults = Base::of(family).map(|base| starts(&said, base, &kubelets));
    if let Some(fault) = faults.iter().flatten().next() {
        let why = format!("has {}, which {}", fault.field, fault.what);
        return Err(NotJoining::UserData(why));
    }
    let cluster = said
        .cluster_name
        .clone()
        .ok_or(NotJoining::Lacking("name of a cluster"))?;
    if cluster != account.cluster.name {
        return Err(NotJoining::OtherCluster(cluster));
    }
    let windows = matches!(
        family,
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025
    );
    let name = instance.dns_name(&account.region);
    Ok(Joining {
        provider_id: format!("aws:///{}/{}", instance.zone, instance.id),
        labels: labels(account, instance, &said, &name, windows),
        taints: said.taints.iter().map(taint).collect(),
        max_pods: said.kubelet.max_pods,
        instance: instance.id.clone(),
        boot_id: boot_id(instance),
        cluster,
        name,
    })
}

/// What the kubelet of an instance reports as `status.nodeInfo.bootID`.
#[must_use]
pub fn boot_id(instance: &Instance) -> String {
    format!("{}-{}", instance.id, instance.reboots)
}

/// The family of images that EKS publishes, by name.
fn of_image(name: &str) -> Option<Family> {
    let known = [
        ("amazon-eks-node-al2023-", Family::AL2023),
        ("amazon-eks-node-", Family::AL2),
        ("amazon-eks-gpu-node-", Family::AL2),
        ("amazon-eks-arm64-node-", Family::AL2),
        ("bottlerocket-", Family::Bottlerocket),
        ("Windows_Server-2019-", Family::Windows2019),
        ("Windows_Server-2022-", Family::Windows2022),
        ("Windows_Server-2025-", Family::Windows2025),
    ];
    known
        .into_iter()
        .find(|(start, _)| name.starts_with(start))
        .map(|(_, family)| family)
}

/// The family that user data is written for; images of people's own have any name.
fn of_text(text: &str) -> Option<Family> {
    let known = [
        ("node.eks.aws", Family::AL2023),
        ("/etc/eks/bootstrap.sh", Family::AL2),
        ("[settings", Family::Bottlerocket),
        ("<powershell>", Family::Windows2022),
    ];
    known
        .into_iter()
        .find(|(part, _)| text.contains(part))
        .map(|(_, family)| family)
}

fn taint((key, value, effect): &(String, String, String)) -> String {
    match value.is_empty() {
        true => format!("{key}:{effect}"),
        false => format!("{key}={value}:{effect}"),
    }
}

fn labels(
    account: &Account,
    instance: &Instance,
    said: &ReadBack,
    name: &str,
    windows: bool,
) -> BTreeMap<String, String> {
    let arch = match &*instance.architecture {
        "arm64" => "arm64",
        _ => "amd64",
    };
    let own = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/arch", arch),
        (
            "kubernetes.io/os",
            if windows { "windows" } else { "linux" },
        ),
        ("node.kubernetes.io/instance-type", &instance.instance_type),
        ("topology.kubernetes.io/zone", &instance.zone),
        ("topology.kubernetes.io/region", &account.region),
        ("topology.k8s.aws/zone-id", &instance.zone_id),
    ];
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    said.labels.clone().into_iter().chain(own).collect()
}

/// All instances that live, with the Node of each or why there is none.
pub(crate) fn list(world: &World, now: Time) -> Value {
    let live = world.instances.iter().filter(|(_, one)| one.state.lives());
    let entries = live.map(|(id, one)| match join(world, one, now) {
        Ok(node) => json!({"instance": id, "node": node}),
        Err(why) => json!({"instance": id, "why": why.to_string()}),
    });
    json!({"nodes": entries.collect::<Vec<_>>()})
}

impl World {
    /// All instances, by id.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().map(|(_, one)| &**one)
    }
}
