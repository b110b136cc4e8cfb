//! A cloud without machines: an instance is a Node object, and kwok acts as its kubelet.
//!
//! The provider keeps nothing that it could not find again. The name of a node, and so its provider
//! ID, is derived from the claim's UID, and its offering from the claim alone, so that a repeated
//! launch makes one instance. Between the launch and the creation of the Node
//! (`nodeRegistrationDelay`) an instance is only a timer in this process. After a restart
//! [`CloudProvider::restore_launches`] starts the timers again from the claims.

mod choose;
mod faults;
mod repair;

pub use repair::POLICIES as REPAIR_POLICIES;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use longshore_api::crd::{ConditionStatus, KWOKNodeClass, condition};
use longshore_cloud::{
    CloudError, CloudProvider, Instance, Launch, RebootError, RepairPolicy, Taint,
};
use longshore_core::model::{Catalogue, Symbols};
use serde_json::json;
use tokio::time::Instant;

use choose::{Choice, choose};
use faults::{Faults, hit};

/// How long a class counts as just read.
const CLASS_CACHE_TTL: Duration = Duration::from_secs(1);
const SCHEME: &str = "kwok://";
/// Annotation of the nodes with the claim's UID.
const CLAIM_UID: &str = "kwok.longshore.dev/nodeclaim-uid";
/// Label and annotation by which kwok knows its nodes.
const FAKE: &str = "kwok.x-k8s.io/node";

/// The provider. Cheap to clone.
#[derive(Clone)]
pub struct Kwok {
    client: Client,
    types: Arc<(Catalogue, Symbols)>,
    /// Instances whose node has not appeared yet, by provider ID.
    scheduled: Arc<Mutex<HashMap<String, Instance>>>,
    /// Classes read a moment ago, so that a round of a hundred launches asks once.
    classes: Arc<Mutex<HashMap<String, (Instant, KWOKNodeClass)>>>,
}

impl Kwok {
    /// A provider of these instance types; `names` is the table that the catalogue was read with.
    pub fn new(client: Client, catalogue: Catalogue, names: Symbols) -> Self {
        Kwok {
            client,
            types: Arc::new((catalogue, names)),
            scheduled: Arc::default(),
            classes: Arc::default(),
        }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn scheduled(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instance>> {
        self.scheduled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The Node of an instance. A provider ID in another provider's format is an unknown instance,
    /// and so is a name that belongs to a Node with another provider ID.
    async fn node_of(&self, provider_id: &str) -> Result<Node, CloudError> {
        let name = name_in(provider_id).ok_or_else(|| gone(provider_id))?;
        let node = self.nodes().get_opt(name).await.map_err(other)?;
        let is_its = |node: &Node| {
            node.spec.as_ref().and_then(|s| s.provider_id.as_deref()) == Some(provider_id)
        };
        node.filter(is_its).ok_or_else(|| gone(provider_id))
    }

    async fn class(&self, launch: &Launch) -> Result<KWOKNodeClass, CloudError> {
        let name = &launch.class_name;
        if launch.class_kind != "KWOKNodeClass" {
            let kind = &launch.class_kind;
            return Err(CloudError::Invalid(format!(
                "nodeClassRef: {kind} {name} is not a KWOKNodeClass"
            )));
        }
        let known = self
            .classes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned();
        if let Some((_, class)) = known.filter(|(read, _)| read.elapsed() < CLASS_CACHE_TTL) {
            return Ok(class);
        }
        let class = Api::<KWOKNodeClass>::all(self.client.clone())
            .get_opt(name)
            .await
            .map_err(other)?;
        let Some(class) = class else {
            return Err(CloudError::InsufficientCapacity(
                format!("KWOKNodeClass {name} does not exist").into(),
            ));
        };
        let ready = class
            .status
            .as_ref()
            .and_then(|s| condition(&s.conditions, "Ready"));
        match ready {
            Some(c) if c.status == ConditionStatus::False => Err(CloudError::NodeClassNotReady(
                format!("KWOKNodeClass {name}: {}", c.message),
            )),
            _ => {
                let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
                classes.insert(name.clone(), (Instant::now(), class.clone()));
                Ok(class)
            }
        }
    }

    /// Makes the instance of a claim unless it is there, and sees to it that its node appears.
    async fn ensure(&self, launch: &Launch) -> Result<Instance, CloudError> {
        let node_name = node_name(launch);
        let provider_id = format!("{SCHEME}{node_name}");
        if let Some(node) = self.nodes().get_opt(&node_name).await.map_err(other)? {
            return Ok(instance(&node));
        }
        if let Some(instance) = self.scheduled().get(&provider_id) {
            return Ok(instance.clone());
        }
        let class = self.class(launch).await?;
        let faults = Faults::read([class.annotations(), &launch.annotations])?;
        tokio::time::sleep(faults.launch_delay).await;
        if hit(faults.fail_launch, &launch.uid, "fail-launch") {
            return Err(CloudError::Other(format!(
                "launch of NodeClaim {} failed, as asked for",
                launch.name
            )));
        }
        let choice = choose(&self.types.0, &self.types.1, launch, &faults)?;
        let delay = class
            .registration_delay()
            .map_err(|e| CloudError::Invalid(format!("{}: {e}", launch.class_name)))?;
        let instance = Instance {
            provider_id: provider_id.clone(),
            claim_uid: Some(launch.uid.clone()),
            group: None,
            image_id: None,
            labels: choice.labels.clone(),
            capacity: choice.capacity.clone(),
            allocatable: choice.allocatable.clone(),
            annotations: BTreeMap::new(),
            created: 0,
        };
        self.scheduled().insert(provider_id, instance.clone());
        if !hit(faults.never_register, &launch.uid, "never-register") {
            let fake = !hit(faults.never_ready, &launch.uid, "never-ready");
            let node = node(&node_name, launch, &choice, fake);
            tokio::spawn(self.clone().create_node(node, delay));
        }
        Ok(instance)
    }

    /// Creates the node after a while, unless the instance is deleted before.
    async fn create_node(self, node: Node, delay: Duration) {
        tokio::time::sleep(delay).await;
        let provider_id = format!("{SCHEME}{}", node.name_any());
        let mut pause = Duration::from_millis(100);
        while self.scheduled().contains_key(&provider_id) {
            match self.nodes().create(&PostParams::default(), &node).await {
                Ok(_) => {
                    // Deleted while it was being made: it goes again.
                    if self.scheduled().remove(&provider_id).is_none() {
                        let _ = self
                            .nodes()
                            .delete(&node.name_any(), &DeleteParams::default())
                            .await;
                    }
                    return;
                }
                Err(kube::Error::Api(status)) if status.code == 409 => break,
                // Refused for now (an admission policy, a server that restarts): asked again until
                // it is deleted.
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(Duration::from_secs(10));
        }
        self.scheduled().remove(&provider_id);
    }
}

#[async_trait]
impl CloudProvider for Kwok {
    fn name(&self) -> &'static str {
        "kwok"
    }

    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        self.ensure(launch).await
    }

    async fn restore_launches(&self, launched: Vec<Launch>) {
        for launch in launched {
            // What cannot be made again now is left to the claim's liveness limit.
            let _ = self.ensure(&launch).await;
        }
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &repair::POLICIES
    }

    async fn reboot(&self, provider_id: &str, operation: &str) -> Result<(), RebootError> {
        let node = self.node_of(provider_id).await?;
        repair::reboot(&self.nodes(), &node, operation)
            .await
            .map_err(|error| other(error).into())
    }

    fn ends_with_node(&self) -> bool {
        true
    }

    async fn delete(&self, provider_id: &str) -> Result<(), CloudError> {
        if self.scheduled().remove(provider_id).is_some() {
            return Ok(());
        }
        let node = self.node_of(provider_id).await?;
        let uid = node.metadata.uid.clone();
        let params = DeleteParams::default().preconditions(Preconditions {
            uid,
            resource_version: None,
        });
        match self.nodes().delete(&node.name_any(), &params).await {
            Ok(_) => Ok(()),
            // Gone, or another node has its name by now.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Err(gone(provider_id))
            }
            Err(error) => Err(other(error)),
        }
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        if let Some(instance) = self.scheduled().get(provider_id) {
            return Ok(instance.clone());
        }
        Ok(instance(&self.node_of(provider_id).await?))
    }

    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        let mut all: Vec<Arc<Instance>> =
            self.scheduled().values().cloned().map(Arc::new).collect();
        let mut page = ListParams::default().limit(500);
        loop {
            let nodes = self.nodes().list(&page).await.map_err(other)?;
            all.extend(
                nodes
                    .iter()
                    .filter(|n| n.annotations().contains_key(CLAIM_UID))
                    .map(instance)
                    .map(Arc::new),
            );
            match nodes.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}

/// `kwok-<claim>-<eight digits of the UID>`, the claim's name cut so that the whole can be a label.
fn node_name(launch: &Launch) -> String {
    let digits: String = launch
        .uid
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(8)
        .collect();
    let name: String = launch
        .name
        .chars()
        .take(63 - "kwok--".len() - digits.len())
        .collect();
    format!("kwok-{}-{digits}", name.trim_end_matches(['-', '.']))
}

/// The Node's name in a provider ID of KWOK's form, `kwok://NAME`.
fn name_in(provider_id: &str) -> Option<&str> {
    let is_name = |name: &&str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
    };
    provider_id.strip_prefix(SCHEME).filter(is_name)
}

fn gone(provider_id: &str) -> CloudError {
    CloudError::NotFound(format!("there is no instance {provider_id}"))
}

fn other(error: kube::Error) -> CloudError {
    match error {
        kube::Error::Api(status) if status.code == 403 => CloudError::Unauthorized(status.message),
        kube::Error::Api(status) if status.code == 429 => CloudError::Throttled(status.message),
        error => CloudError::Other(error.to_string()),
    }
}

fn instance(node: &Node) -> Instance {
    let spec = node.spec.as_ref();
    let status = node.status.as_ref();
    let amounts = |list: Option<
        &BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
    >| {
        list.into_iter()
            .flatten()
            .map(|(resource, amount)| (resource.clone(), amount.0.clone()))
            .collect()
    };
    Instance {
        provider_id: spec.and_then(|s| s.provider_id.clone()).unwrap_or_default(),
        claim_uid: node.annotations().get(CLAIM_UID).cloned(),
        group: None,
        image_id: None,
        labels: node.labels().clone(),
        capacity: amounts(status.and_then(|s| s.capacity.as_ref())),
        allocatable: amounts(status.and_then(|s| s.allocatable.as_ref())),
        annotations: BTreeMap::new(),
        created: node.creation_timestamp().map_or(0, |t| t.0.as_second()),
    }
}

/// The node of an instance, as its kubelet would register it.
fn node(name: &str, launch: &Launch, choice: &Choice, fake: bool) -> Node {
    let taint = |t: &Taint| json!({"key": t.key, "value": t.value, "effect": t.effect});
    let unregistered = json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"});
    let taints: Vec<_> = launch
        .taints
        .iter()
        .chain(&launch.startup_taints)
        .map(taint)
        .chain([unregistered])
        .collect();
    let mut labels = choice.labels.clone();
    labels.extend(launch.labels.clone());
    labels.insert("kubernetes.io/hostname".into(), name.into());
    let mut annotations = launch.annotations.clone();
    annotations.insert(CLAIM_UID.into(), launch.uid.clone());
    if fake {
        labels.insert(FAKE.into(), "fake".into());
        annotations.insert(FAKE.into(), "fake".into());
    }
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"providerID": format!("{SCHEME}{name}"), "taints": taints},
        "status": {"capacity": choice.capacity, "allocatable": choice.allocatable, "phase": "Pending"},
    });
    // Every field above is one of a Node, so reading it back cannot fail.
    serde_json::from_value(node).unwrap_or_default()
}
