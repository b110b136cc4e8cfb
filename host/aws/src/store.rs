//! Where EC2NodeClasses are: the API server, or this process's memory in tests and simulations.

use longshore_core::model::conditions::DRIFTED;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use longshore_api::crd::{NodeClaim, condition};
use longshore_ec2::nodeclass::{self, EC2NodeClass, EC2NodeClassStatus};
use serde_json::{Value, json};

use crate::lock::lock;

/// Whether a NodeClaim is of a class of EC2, and not of another provider such as EKS Auto Mode, whose
/// classes may have the same names.
pub fn is_of_ec2(claim: &NodeClaim) -> bool {
    let class = &claim.spec.node_class_ref;
    class.group == nodeclass::GROUP && class.kind == "EC2NodeClass"
}

/// How often the Service of the cluster's DNS is asked for.
const DNS_READ_ATTEMPTS: u32 = 3;
/// Pause between two attempts to read the Service of the cluster's DNS.
const DNS_READ_RETRY: Duration = Duration::from_secs(1);

/// EC2NodeClasses and what names them. Errors are texts for a log: each is followed by another try.
#[async_trait]
pub trait NodeClasses: Send + Sync {
    /// The class of a name.
    ///
    /// # Errors
    /// The store cannot be asked.
    async fn get(&self, name: &str) -> Result<Option<EC2NodeClass>, String>;

    /// All classes.
    ///
    /// # Errors
    /// The store cannot be asked.
    async fn list(&self) -> Result<Vec<EC2NodeClass>, String>;

    /// The NodeClaims that name a class.
    ///
    /// # Errors
    /// The store cannot be asked.
    async fn claims_of(&self, name: &str) -> Result<Vec<ClaimFacts>, String>;

    /// Writes annotations of a NodeClaim; those that are not named stay. One that is gone needs none.
    ///
    /// # Errors
    /// The store cannot be asked.
    async fn annotate_claim(
        &self,
        name: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), String>;

    /// Writes the status, if the class has not changed since it was read.
    ///
    /// # Errors
    /// It has changed, is gone, or the store cannot be asked.
    async fn write_status(
        &self,
        class: &EC2NodeClass,
        status: &EC2NodeClassStatus,
    ) -> Result<(), String>;

    /// Writes finalizers and annotations, if the class has not changed since it was read.
    /// Annotations that are not named stay.
    ///
    /// # Errors
    /// As above.
    async fn write_metadata(
        &self,
        class: &EC2NodeClass,
        finalizers: &[String],
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), String>;

    /// Says something about a class in an Event. One that cannot be written is left out.
    async fn say(&self, class: &EC2NodeClass, event: ClassEvent) {
        _ = (class, event);
    }
}

/// An Event about an EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassEvent {
    /// Whether somebody has to do something.
    pub warning: bool,
    /// One word.
    pub reason: String,
    /// What happens, and what can be done.
    pub message: String,
}

/// What an EC2NodeClass has to know of a NodeClaim that names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFacts {
    /// Its name.
    pub name: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether it has the condition Drifted, whatever the condition's status.
    pub drifted: bool,
}

/// The address of the cluster's DNS: that of the Service kube-dns in kube-system. Nothing if there is
/// no such Service or it cannot be read; nodes then find their DNS server as their image says.
pub async fn kube_dns_ip(client: Client) -> Option<String> {
    let services: Api<Service> = Api::namespaced(client, "kube-system");
    let mut found = services.get_opt("kube-dns").await;
    for _ in 1..DNS_READ_ATTEMPTS {
        if found.is_ok() {
            break;
        }
        tokio::time::sleep(DNS_READ_RETRY).await;
        found = services.get_opt("kube-dns").await;
    }
    let found = found.unwrap_or_else(|why| {
        tracing::warn!(
            %why,
            "Service kube-system/kube-dns cannot be read; nodes find their DNS server as their image \
             says, and have no IPv6 addresses"
        );
        None
    })?;
    let address = found.spec?.cluster_ip?;
    (!address.is_empty() && address != "None").then_some(address)
}

/// Classes of the API server.
#[derive(Clone)]
pub struct KubeClasses {
    classes: Api<EC2NodeClass>,
    /// The same, whatever is in them: one that cannot be read must not hide the others.
    any: Api<DynamicObject>,
    claims: Api<NodeClaim>,
    /// Those that a watch has brought.
    watched: Arc<Mutex<BTreeMap<String, EC2NodeClass>>>,
}

impl KubeClasses {
    /// Those that a client sees.
    pub fn new(client: Client) -> Self {
        KubeClasses {
            classes: Api::all(client.clone()),
            any: Api::all_with(client.clone(), &ApiResource::erase::<EC2NodeClass>(&())),
            claims: Api::all(client),
            watched: Arc::default(),
        }
    }

    /// A class as a watch has brought it, or that it is gone. [`NodeClasses::get`] answers with it
    /// from now on.
    pub fn note(&self, name: &str, class: Option<EC2NodeClass>) {
        let mut watched = lock(&self.watched);
        match class {
            Some(class) => drop(watched.insert(name.to_owned(), class)),
            None => drop(watched.remove(name)),
        }
    }

    /// The classes that a watch has brought.
    pub fn watched(&self) -> Vec<EC2NodeClass> {
        lock(&self.watched).values().cloned().collect()
    }

    async fn patch(&self, class: &EC2NodeClass, mut patch: Value) -> Result<(), String> {
        // With the version, the API server refuses what was read before another write.
        patch["metadata"]["resourceVersion"] = json!(class.metadata.resource_version);
        let params = PatchParams::default();
        let (name, patch) = (class.name_any(), Patch::Merge(&patch));
        let written = self.classes.patch(&name, &params, &patch).await;
        written.map(drop).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl NodeClasses for KubeClasses {
    async fn get(&self, name: &str) -> Result<Option<EC2NodeClass>, String> {
        let watched = lock(&self.watched).get(name).cloned();
        if watched.is_some() {
            return Ok(watched);
        }
        self.classes
            .get_opt(name)
            .await
            .map_err(|error| error.to_string())
    }

    async fn list(&self) -> Result<Vec<EC2NodeClass>, String> {
        // The server's cache will do: what is written is checked by its version.
        let params = ListParams::default().match_any();
        let found = self.any.list(&params).await;
        let found = found.map_err(|error| error.to_string())?;
        let read = |mut object: DynamicObject| {
            nodeclass::give_spec(&mut object.data);
            let name = object.name_any();
            let class: Result<EC2NodeClass, _> = object.try_parse();
            class
                .inspect_err(|error| {
                    tracing::warn!(nodeclass = name, %error, "EC2NodeClass cannot be read; left out");
                })
                .ok()
        };
        Ok(found.items.into_iter().filter_map(read).collect())
    }

    async fn claims_of(&self, name: &str) -> Result<Vec<ClaimFacts>, String> {
        let found = self.claims.list(&ListParams::default()).await;
        let found = found.map_err(|error| error.to_string())?;
        let names = |claim: &&NodeClaim| is_of_ec2(claim) && claim.spec.node_class_ref.name == name;
        let facts = |claim: &NodeClaim| {
            let conditions = claim.status.as_ref().map_or(&[][..], |s| &s.conditions);
            ClaimFacts {
                name: claim.name_any(),
                annotations: claim.annotations().clone(),
                drifted: condition(conditions, DRIFTED).is_some(),
            }
        };
        Ok(found.items.iter().filter(names).map(facts).collect())
    }

    async fn annotate_claim(
        &self,
        name: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        match self
            .claims
            .patch(name, &PatchParams::default(), &patch)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            written => written.map(drop).map_err(|error| error.to_string()),
        }
    }

    async fn write_status(
        &self,
        class: &EC2NodeClass,
        status: &EC2NodeClassStatus,
    ) -> Result<(), String> {
        let mut class = class.clone();
        class.status = Some(status.clone());
        // Replaced whole: an empty list must not leave what was there.
        let params = kube::api::PostParams::default();
        let name = class.name_any();
        let written = self.classes.replace_status(&name, &params, &class).await;
        written.map(drop).map_err(|error| error.to_string())
    }

    async fn write_metadata(
        &self,
        class: &EC2NodeClass,
        finalizers: &[String],
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let metadata = json!({"finalizers": finalizers, "annotations": annotations});
        self.patch(class, json!({ "metadata": metadata })).await
    }
}

/// Events that classes in memory keep.
const MAX_SAID: usize = 1000;

/// Classes in memory.
#[derive(Debug, Default)]
pub struct MemoryClasses {
    all: Mutex<BTreeMap<String, EC2NodeClass>>,
    claims: Mutex<BTreeMap<String, Vec<ClaimFacts>>>,
    said: Mutex<Vec<(String, ClassEvent)>>,
}

impl MemoryClasses {
    /// Adds or replaces a class; one without a UID and a generation gets them.
    pub fn put(&self, mut class: EC2NodeClass) {
        let name = class.name_any();
        let mut all = self.all();
        let old = all.get(&name);
        let changed = old.is_none_or(|old| old.spec != class.spec);
        let generation = old.and_then(|old| old.metadata.generation).unwrap_or(0);
        class.metadata.generation = Some(generation + i64::from(changed));
        class
            .metadata
            .uid
            .get_or_insert_with(|| format!("uid-of-{name}"));
        all.insert(name, class);
    }

    /// Says which claims name a class.
    pub fn set_claims(&self, name: &str, claims: Vec<ClaimFacts>) {
        lock(&self.claims).insert(name.to_owned(), claims);
    }

    /// Events since this was last asked, with the names of their classes.
    pub fn events(&self) -> Vec<(String, ClassEvent)> {
        std::mem::take(&mut lock(&self.said))
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, EC2NodeClass>> {
        lock(&self.all)
    }

    fn change(
        &self,
        class: &EC2NodeClass,
        act: impl FnOnce(&mut EC2NodeClass),
    ) -> Result<(), String> {
        let mut all = self.all();
        let name = class.name_any();
        let Some(own) = all.get_mut(&name) else {
            return Err(format!("EC2NodeClass {name} is gone"));
        };
        if own.metadata.generation != class.metadata.generation {
            return Err(format!("EC2NodeClass {name} has changed"));
        }
        act(own);
        let leaving = own.metadata.deletion_timestamp.is_some();
        let held = own
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        if leaving && !held {
            all.remove(&name);
        }
        Ok(())
    }
}

#[async_trait]
impl NodeClasses for MemoryClasses {
    async fn get(&self, name: &str) -> Result<Option<EC2NodeClass>, String> {
        Ok(self.all().get(name).cloned())
    }

    async fn list(&self) -> Result<Vec<EC2NodeClass>, String> {
        Ok(self.all().values().cloned().collect())
    }

    async fn claims_of(&self, name: &str) -> Result<Vec<ClaimFacts>, String> {
        let claims = lock(&self.claims);
        Ok(claims.get(name).cloned().unwrap_or_default())
    }

    async fn annotate_claim(
        &self,
        name: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let mut claims = lock(&self.claims);
        let mut all = claims.values_mut().flatten();
        if let Some(claim) = all.find(|claim| claim.name == name) {
            claim.annotations.extend(annotations.clone());
        }
        Ok(())
    }

    async fn write_status(
        &self,
        class: &EC2NodeClass,
        status: &EC2NodeClassStatus,
    ) -> Result<(), String> {
        self.change(class, |own| own.status = Some(status.clone()))
    }

    async fn write_metadata(
        &self,
        class: &EC2NodeClass,
        finalizers: &[String],
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        self.change(class, |own| {
            own.metadata.finalizers = Some(finalizers.to_vec());
            let all = own.metadata.annotations.get_or_insert_default();
            all.extend(annotations.clone());
        })
    }

    async fn say(&self, class: &EC2NodeClass, event: ClassEvent) {
        let mut said = lock(&self.said);
        // Nobody may ask: the last ones do.
        if said.len() == MAX_SAID {
            said.remove(0);
        }
        said.push((class.name_any(), event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodeclaim_of_another_providers_class_of_the_same_name_is_none_of_ec2() {
        for (group, kind, ours) in [
            ("karpenter.k8s.aws", "EC2NodeClass", true),
            ("eks.amazonaws.com", "NodeClass", false),
            ("eks.amazonaws.com", "EC2NodeClass", false),
            ("karpenter.k8s.aws", "NodeClass", false),
        ] {
            let class = json!({"group": group, "kind": kind, "name": "default"});
            let claim = json!({
                "metadata": {"name": "a"}, "spec": {"requirements": [], "nodeClassRef": class},
            });
            let claim: NodeClaim = serde_json::from_value(claim).unwrap();
            assert_eq!(is_of_ec2(&claim), ours, "{group} {kind}");
        }
    }
}
