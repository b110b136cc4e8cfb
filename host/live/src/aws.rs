//! EC2 as the daemon's cloud: starts the provider, and runs what it does by itself.
//!
//! Replicas that stand by read types and prices too, so that one that takes over is up to date. What
//! changes anything runs on the leader alone. A task that is stopped anywhere is carried on by the
//! next leader.

mod boot;
mod claims;
mod interruptions;
mod observed;
mod reservations;
mod scores;
mod status_checks;
mod zonal_shift;

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::{Client, ResourceExt as _};
use longshore_api::crd::NodeClaim;
use longshore_aws::clients::{Access, Clients};
use longshore_aws::controller::Controller;
use longshore_aws::interruption::queue::Queue;
use longshore_aws::provider::{Clock, Ec2, Settings as Ec2Settings};
use longshore_aws::store::{KubeClasses, NodeClasses as _, kube_dns_ip};
use longshore_core::model::{Catalogue, Symbols};
use longshore_ec2::catalogue::machine::OWN_RESOURCES;
use longshore_ec2::nodeclass::due::KUBERNETES_VERSION_POLL_SECONDS;
use longshore_ec2::nodeclass::{self, EC2NodeClass};
use longshore_ec2::tags::{CLUSTER_TAGGED, TAGGED};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

use claims::Claims;
use interruptions::Interruptions;
use observed::{ClassesWithEvents, Counting};

use super::metrics::ec2::Ec2Metrics;
use super::policies::{LiveBootstrap, PolicyReloader};
use crate::act::claim_writes;
use crate::act::cloud::{Cloud, Tasks};
use crate::act::context::Context;
use crate::error::Failure;
use crate::observe::node_claim;
use crate::observe::offers::Offers;
use crate::observe::state::ClassView;
use crate::process::backoff::back_off;
use crate::process::leader::Leadership;
use crate::process::step_error::StepError;
use longshore_api::kinds::ObjectKind;

/// The certificate of the API server as a pod has it.
const CERTIFICATE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
/// How often a replica that stands by asks whether it leads, and a leader whether it still does.
const LEADERSHIP_POLL: Duration = Duration::from_millis(250);
/// How often the version of Kubernetes is read.
const KUBERNETES_VERSION_POLL: Duration = Duration::from_secs(KUBERNETES_VERSION_POLL_SECONDS);
/// How soon an instance is tagged again after a call failed; twice as long each time.
const TAG_RETRY: Duration = Duration::from_secs(10);
/// Longest wait before an instance is tagged again.
const MAX_TAG_RETRY: Duration = Duration::from_secs(300);

/// What an operator asked for.
pub struct Start {
    /// The provider's settings. Those that are empty are asked of the cluster: its Kubernetes version,
    /// its certificate and its DNS address.
    pub how: Ec2Settings,
    /// The Kubernetes version is asked of EKS and not of the API server.
    pub eks_says_version: bool,
    /// Name of the queue with interruptions, if there is one.
    pub queue: Option<String>,
}

/// Makes the provider: asks AWS for the cluster, instance types and prices. While AWS is slow or down it
/// goes on asking.
///
/// # Errors
/// AWS refuses, or does not know what nothing works without.
pub async fn start(
    asked: Start,
    client: &Client,
    clock: &crate::process::clock::Clock,
    policies: PolicyReloader,
) -> Result<Cloud, Failure> {
    let failed = |message: String, hint: &str| Failure::Usage {
        message,
        hint: hint.to_owned(),
    };
    let clients = Clients::new(&Access::default()).await.map_err(|why| {
        let hint = "in a pod with a ServiceAccount that may call AWS it comes from the environment";
        failed(why.to_string(), hint)
    })?;
    let metrics = Arc::new(Ec2Metrics::new());
    let clients = clients.observed_by(Arc::new(Counting(metrics.clone())));
    let Start {
        mut how,
        eks_says_version,
        queue,
    } = asked;
    if !eks_says_version {
        how.kubernetes = kubernetes_version(client).await?;
    }
    if how.cluster.ca_bundle.is_empty() {
        how.cluster.ca_bundle = own_certificate();
    }
    how.cluster.kube_dns_ip = kube_dns_ip(client.clone()).await.unwrap_or_default();
    let clock = clock.clone();
    let clock = Arc::new(move || SystemTime::from(clock.now()));
    begin(clients, client, metrics, how, queue, clock, policies).await
}

/// What a simulated process begins with: the provider with its tasks. Classes are those that
/// `client` sees; `queue` has the interruptions.
///
/// # Errors
/// AWS refuses, or does not know what nothing works without.
pub async fn simulated(
    clients: Clients,
    client: &Client,
    meant: Ec2Settings,
    queue: Option<String>,
    clock: Clock,
    policies: PolicyReloader,
) -> Result<Cloud, Failure> {
    let metrics = Arc::new(Ec2Metrics::new());
    let clients = clients.observed_by(Arc::new(Counting(metrics.clone())));
    begin(clients, client, metrics, meant, queue, clock, policies).await
}

async fn begin(
    clients: Clients,
    client: &Client,
    metrics: Arc<Ec2Metrics>,
    meant: Ec2Settings,
    queue: Option<String>,
    clock: Clock,
    policies: PolicyReloader,
) -> Result<Cloud, Failure> {
    let classes = Arc::new(KubeClasses::new(client.clone()));
    let with_events = Arc::new(ClassesWithEvents::new(classes.clone()));
    let zonal_shift = meant.zonal_shift;
    let eks_says_version = meant.kubernetes.is_empty();
    let clients = Arc::new(clients);
    let mut failures = 0;
    let ec2 = loop {
        let begun = Ec2::start(
            clients.clone(),
            with_events.clone(),
            meant.clone(),
            clock.clone(),
        );
        match begun.await {
            Err(why) if why.passes() => {
                failures += 1;
                let again = back_off(failures);
                tracing::warn!(%why, seconds = again.as_secs(), "EC2 does not answer; retrying");
                tokio::time::sleep(again).await;
            }
            begun => break begun,
        }
    };
    let ec2 = ec2.map_err(|why| {
        let failed = |message: String, hint: &str| Failure::Usage {
            message,
            hint: hint.to_owned(),
        };
        let hint = "look at the region, the credentials and their policy (deploy/aws)";
        failed(format!("EC2 cannot be used: {why}"), hint)
    })?;
    for class in classes.list().await.unwrap_or_default() {
        classes.note(&class.name_any(), Some(class));
    }
    let boot = Arc::new(LiveBootstrap::new(policies.clone()));
    ec2.boot_with(boot.clone());
    let configured = policies.clone();
    ec2.take_min_values_as(Arc::new(move || configured.min_values()));
    let offers = Arc::new(Ec2Offers {
        ec2: ec2.clone(),
        classes: classes.clone(),
        boot,
        metrics: metrics.clone(),
        changes: AtomicU64::new(0),
    });
    // Names of types, zones and labels are never swept: most catalogues are written with them alone.
    let mut names = Symbols::default();
    _ = offers.catalogue(&mut names);
    // The catalogues know the IDs of zones.
    policies.ask_scores_with(scores::asker(&ec2));
    let types = ec2.region().types().len();
    let tasks: Tasks = Box::new({
        let ec2 = ec2.clone();
        let duties = Duties {
            queue,
            classes,
            zonal_shift,
            eks_says_version,
            metrics: metrics.clone(),
        };
        move |ctx| {
            ctx.metrics.also(metrics.registry());
            with_events.write_events_with(&ctx);
            run(&ec2, duties, &ctx)
        }
    });
    Ok(Cloud {
        provider: Arc::new(ec2),
        offers,
        names,
        types,
        resources: &OWN_RESOURCES,
        tasks: Some(tasks),
    })
}

/// `1.35`, as the API server says.
async fn kubernetes_version(client: &Client) -> Result<String, Failure> {
    let version = client.apiserver_version().await;
    let version = version.map_err(|why| Failure::Usage {
        message: format!("the API server does not say its version: {why}"),
        hint: "check the kubeconfig, or let EKS say it with --eks-control-plane".to_owned(),
    })?;
    let digits = |text: &str| {
        let digits = text.chars().take_while(char::is_ascii_digit);
        digits.collect::<String>()
    };
    Ok(format!(
        "{}.{}",
        digits(&version.major),
        digits(&version.minor)
    ))
}

/// The certificate of the API server in base64, as a pod has it; empty outside of one.
fn own_certificate() -> String {
    let pem = std::fs::read(CERTIFICATE);
    pem.map(|pem| STANDARD.encode(pem)).unwrap_or_default()
}

/// What the classes of the cluster offer.
struct Ec2Offers {
    ec2: Ec2,
    classes: Arc<KubeClasses>,
    boot: Arc<LiveBootstrap>,
    metrics: Arc<Ec2Metrics>,
    /// How often a class has changed.
    changes: AtomicU64,
}

impl Offers for Ec2Offers {
    fn version(&self) -> u64 {
        self.ec2.version() + self.changes.load(Ordering::Relaxed)
    }

    fn catalogue(&self, names: &mut Symbols) -> Catalogue {
        self.ec2.catalogue(&self.classes.watched(), names)
    }

    fn class_kind(&self) -> ObjectKind {
        ObjectKind::Ec2NodeClass
    }

    fn class_views(&self) -> Vec<ClassView> {
        let view = |class: EC2NodeClass| ClassView {
            name: class.name_any(),
            deletion: class.metadata.deletion_timestamp,
            conditions: class.status.unwrap_or_default().conditions,
        };
        self.classes.watched().into_iter().map(view).collect()
    }

    fn follows(&self, kind: ObjectKind) -> bool {
        matches!(kind, ObjectKind::Ec2NodeClass | ObjectKind::NodePool)
    }

    fn changed(&self, kind: ObjectKind, name: &str, json: Option<&str>) {
        if kind == ObjectKind::NodePool {
            self.boot.note_pool(name, json);
            return;
        }
        let object = json.and_then(|json| serde_json::from_str(json).ok());
        for (field, why) in object.iter().flat_map(nodeclass::unreadable) {
            tracing::warn!(
                nodeclass = name,
                field,
                why,
                "part of the status of an EC2NodeClass cannot be read and is passed over"
            );
        }
        let class = match json.map(serde_json::from_str::<EC2NodeClass>) {
            None => None,
            Some(Ok(class)) => Some(class),
            Some(Err(why)) => {
                tracing::warn!(nodeclass = name, %why, "EC2NodeClass cannot be read; the last version counts");
                return;
            }
        };
        if class.is_none() {
            self.metrics.class_gone(name);
        }
        self.classes.note(name, class);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Settings of the tasks beside the loop.
struct Duties {
    /// Name of the queue with interruptions, if there is one.
    queue: Option<String>,
    classes: Arc<KubeClasses>,
    /// Whether zonal shifts are obeyed.
    zonal_shift: bool,
    /// Whether the version of Kubernetes is EKS's word, and not the API server's.
    eks_says_version: bool,
    metrics: Arc<Ec2Metrics>,
}

/// What runs beside the daemon's loop.
fn run(ec2: &Ec2, duties: Duties, ctx: &Arc<Context>) -> JoinSet<()> {
    let duties = Arc::new(duties);
    let mut tasks = JoinSet::new();
    let reading = ec2.clone();
    tasks.spawn(async move { reading.follow().await });
    {
        let (ec2, client, eks) = (ec2.clone(), ctx.client.clone(), duties.eks_says_version);
        tasks.spawn(async move { follow_version(&ec2, &client, eks).await });
    }
    if duties.zonal_shift {
        let (ec2, ctx) = (ec2.clone(), ctx.clone());
        tasks.spawn(async move { zonal_shift::follow(&ec2, &ctx).await });
    }
    let (ec2, ctx) = (ec2.clone(), ctx.clone());
    tasks.spawn(async move {
        loop {
            while !ctx.leadership.is_leader() {
                tokio::time::sleep(LEADERSHIP_POLL).await;
            }
            tokio::select! {
                // In this order, so that two runs of a simulation are equal.
                biased;
                () = lost(&ctx.leadership) => {}
                () = lead(&ec2, &duties, &ctx) => {}
            }
        }
    });
    tasks
}

/// Reads the version of Kubernetes anew, until it is dropped. After an upgrade of the cluster classes
/// follow, and images of aliases drift.
async fn follow_version(ec2: &Ec2, client: &Client, eks: bool) {
    loop {
        tokio::time::sleep(KUBERNETES_VERSION_POLL).await;
        let found = match eks {
            true => ec2.eks_version().await.map_err(|why| why.with_hint()),
            false => {
                let version = kubernetes_version(client).await;
                version.map_err(|why| why.to_string())
            }
        };
        let before = ec2.kubernetes();
        match found {
            Ok(version) if ec2.set_kubernetes(&version) => {
                tracing::info!(version, before, "Kubernetes version of the cluster changed");
            }
            Ok(_) => {}
            Err(why) => {
                tracing::warn!(
                    why,
                    before,
                    "reading the Kubernetes version failed; the last one counts"
                );
            }
        }
    }
}

async fn lost(leadership: &Leadership) {
    while leadership.is_leader() {
        tokio::time::sleep(LEADERSHIP_POLL).await;
    }
}

async fn lead(ec2: &Ec2, duties: &Duties, ctx: &Arc<Context>) {
    let claims = Arc::new(Claims::new(ctx.managed));
    let interruptions = async {
        match duties.queue.as_deref() {
            None => pending().await,
            Some(name) => {
                let handler = Arc::new(Interruptions {
                    ec2: ec2.clone(),
                    ctx: ctx.clone(),
                    claims: claims.clone(),
                });
                Queue::new(ec2.clone(), name, handler).run().await;
            }
        }
    };
    let (changed, changes) = unbounded_channel();
    tokio::join!(
        Controller::new(ec2.clone()).run(),
        ec2.keep_clean(),
        claims.clone().follow(ctx.client.clone(), changed),
        tag_nodes(ec2, ctx, &claims, changes),
        interruptions,
        status_checks::run(ec2, ctx, &claims, &duties.metrics),
        reservations::run(ec2, &duties.classes, ctx),
    );
}

/// Gives instances the names of their nodes as tags. What failed is tried again.
async fn tag_nodes(
    ec2: &Ec2,
    ctx: &Arc<Context>,
    claims: &Claims,
    mut changes: UnboundedReceiver<NodeClaim>,
) {
    let mut failed: BTreeMap<String, NotTagged> = BTreeMap::new();
    loop {
        let next = failed.iter().map(|(name, own)| (own.at, name)).min();
        let next = next.map(|(at, name)| (at, name.clone()));
        let due = next.as_ref().map(|(at, _)| *at);
        let claim = tokio::select! {
            biased;
            changed = changes.recv() => match changed {
                Some(claim) => match failed.get_mut(&claim.name_any()) {
                    Some(own) if own.at > Instant::now() => {
                        own.claim = claim;
                        continue;
                    }
                    _ => claim,
                },
                None => return,
            },
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let Some((_, name)) = next else { continue };
                match failed.get(&name) {
                    Some(own) if claims.contains(&name) => own.claim.clone(),
                    _ => {
                        failed.remove(&name);
                        continue;
                    }
                }
            }
        };
        let name = claim.name_any();
        let before = failed.remove(&name);
        if let Err(why) = tag_node(ec2, ctx, claim.clone()).await {
            let pause = before.map_or(TAG_RETRY, |own| (2 * own.pause).min(MAX_TAG_RETRY));
            if !ec2.is_shifted(node_claim::provider_id(&claim)) {
                let (why, again) = (&*why, pause.as_secs());
                tracing::warn!(
                    nodeclaim = name,
                    why,
                    again,
                    "tagging instance failed; retrying"
                );
            }
            let at = Instant::now() + pause;
            failed.insert(name, NotTagged { at, pause, claim });
        }
    }
}

/// An instance whose tags could not be written.
struct NotTagged {
    /// When it is tried again.
    at: Instant,
    pause: Duration,
    claim: NodeClaim,
}

async fn tag_node(ec2: &Ec2, ctx: &Context, claim: NodeClaim) -> Result<(), String> {
    // Tags of instances are written before the NodeClaim, so it is asked here.
    if !ctx.managed.claim(&claim) {
        return Ok(());
    }
    let id = node_claim::provider_id(&claim);
    let node = claim.status.as_ref().map_or("", |status| &status.node_name);
    let annotations = claim.annotations();
    let done = annotations.contains_key(TAGGED) && annotations.contains_key(CLUSTER_TAGGED);
    let leaving = claim.metadata.deletion_timestamp.is_some();
    if done || leaving || id.is_empty() || node.is_empty() {
        return Ok(());
    }
    match ec2.tag_node(id, node, &claim.name_any()).await {
        Ok(()) => {}
        // It is gone, and its claim goes.
        Err(longshore_cloud::CloudError::NotFound(_)) => return Ok(()),
        Err(why) => return Err(why.to_string()),
    }
    match claim_writes::annotate(ctx, &claim, json!({TAGGED: "true", CLUSTER_TAGGED: "true"})).await
    {
        Err(StepError::Gone) => Ok(()),
        written => written.map_err(|why| why.to_string()),
    }
}
