//! The ConfigMap in which the cluster remembers the canaries of policies, and in which operators say
//! what they want of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use serde::{Deserialize, Serialize};

use super::context::Context;
use crate::canary::{Request, Rollout};
use crate::process::step_error::StepError;
use longshore_report::hex::hex;

/// Its name, in the namespace of the Lease.
pub const NAME: &str = "longshore-policy-canaries";
/// What the key of an operator's request ends with.
const REQUEST: &str = ".request";

/// The ConfigMap as it was read or written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CanaryMap {
    /// Its version; none if there is none yet.
    version: Option<String>,
    data: BTreeMap<String, String>,
}

/// What it has of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The policy's name in the configuration.
    pub policy: String,
    /// How its canary did when this was written, in one sentence.
    pub verdict: String,
    /// How far it has come.
    #[serde(flatten)]
    pub rollout: Rollout,
}

/// What an operator wants of a policy's canary, as it was when this was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wish {
    /// The policy's name in the configuration.
    pub policy: String,
    /// The version that it is about.
    pub version: String,
    /// The step that it was at.
    pub step: usize,
    /// Whether to promote or to abort it.
    pub request: Request,
}

/// A policy's key: its name, or a sum where a ConfigMap has no such keys.
fn key(policy: &str) -> String {
    use sha2::{Digest as _, Sha256};
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_key = policy.chars().all(fits) && !policy.is_empty() && policy.len() < 200;
    match is_key && !policy.ends_with(REQUEST) && !policy.starts_with("sha-") {
        true => policy.to_owned(),
        false => format!("sha-{}", hex(&Sha256::digest(policy)[..16])),
    }
}

impl CanaryMap {
    /// What it has of a policy; none if it has nothing, or nothing that can be read.
    pub fn entry(&self, policy: &str) -> Option<Entry> {
        let text = self.data.get(&key(policy))?;
        match serde_json::from_str(text) {
            Ok(entry) => Some(entry),
            Err(error) => {
                tracing::warn!(policy, %error, "canary in ConfigMap {NAME} cannot be read: it begins anew");
                None
            }
        }
    }

    /// Everything that can be read of it.
    pub fn entries(&self) -> Vec<Entry> {
        let texts = self.data.iter().filter(|(key, _)| !key.ends_with(REQUEST));
        texts
            .filter_map(|(_, text)| serde_json::from_str(text).ok())
            .collect()
    }

    /// What an operator wants of the canary of a policy, if that is still meant.
    pub fn wish(&self, policy: &str, rollout: &Rollout) -> Option<Request> {
        let text = self.data.get(&format!("{}{REQUEST}", key(policy)))?;
        let wish: Wish = serde_json::from_str(text).ok()?;
        let is_meant = wish.version == rollout.version
            && (wish.step == rollout.step || wish.request == Request::Abort);
        is_meant.then_some(wish.request)
    }

    /// The same with an entry.
    pub fn with(mut self, entry: &Entry) -> Self {
        let text = serde_json::to_string(entry).unwrap_or_default();
        self.data.insert(key(&entry.policy), text);
        self
    }

    /// The same with a wish.
    pub fn wishing(mut self, wish: &Wish) -> Self {
        let text = serde_json::to_string(wish).unwrap_or_default();
        self.data
            .insert(format!("{}{REQUEST}", key(&wish.policy)), text);
        self
    }
}

impl From<ConfigMap> for CanaryMap {
    fn from(map: ConfigMap) -> Self {
        CanaryMap {
            version: map.metadata.resource_version,
            data: map.data.unwrap_or_default(),
        }
    }
}

/// Reads it.
///
/// # Errors
/// What the server says; one that is not there is empty.
pub async fn read(client: &Client, namespace: &str) -> Result<CanaryMap, StepError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    Ok(maps
        .get_opt(NAME)
        .await?
        .map(CanaryMap::from)
        .unwrap_or_default())
}

/// Writes it if it still is what was read.
///
/// # Errors
/// What the server says; a conflict if another writer has changed it since.
pub async fn write(
    client: &Client,
    namespace: &str,
    map: CanaryMap,
) -> Result<CanaryMap, StepError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            resource_version: map.version.clone(),
            ..ObjectMeta::default()
        },
        data: Some(map.data),
        ..ConfigMap::default()
    };
    let how = PostParams::default();
    let written = match map.version {
        Some(_) => maps.replace(NAME, &how, &object).await,
        None => maps.create(&how, &object).await,
    };
    match written {
        Ok(written) => Ok(CanaryMap::from(written)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            Err(StepError::Conflict(status.message))
        }
        Err(error) => Err(StepError::from(error)),
    }
}

/// As [`write()`], by the replica that leads.
///
/// # Errors
/// As [`write()`]; another replica may have taken over.
pub async fn write_leading(ctx: &Context, map: CanaryMap) -> Result<CanaryMap, StepError> {
    ctx.may_write()?;
    write(&ctx.client, ctx.events.namespace(), map).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::{ALL, Promotion, Terms};

    fn rollout(version: &str) -> Rollout {
        let terms = Terms {
            order: vec![vec![ALL.to_owned()]],
            hold: 60,
            promote: Promotion::Ask,
            max_cost_increase: 0.1,
        };
        Rollout::begin(version, "old", false, &terms, 100)
    }

    #[test]
    fn what_is_written_of_a_policy_is_read_again_whatever_its_name() {
        for policy in ["carbon", "carbon copy", "", "a.request"] {
            let entry = Entry {
                policy: policy.to_owned(),
                verdict: "good".to_owned(),
                rollout: rollout("new"),
            };
            let map = CanaryMap::default().with(&entry);
            assert_eq!(map.entry(policy), Some(entry.clone()), "{policy}");
            assert_eq!(map.entries(), [entry]);
        }
        assert_eq!(CanaryMap::default().entry("carbon"), None);
    }

    #[test]
    fn a_wish_is_about_one_version_and_promotes_one_step() {
        let wish = |request| Wish {
            policy: "carbon".to_owned(),
            version: "new".to_owned(),
            step: 0,
            request,
        };
        let map = CanaryMap::default().wishing(&wish(Request::Promote));
        assert_eq!(map.wish("carbon", &rollout("new")), Some(Request::Promote));
        assert_eq!(map.wish("carbon", &rollout("newer")), None);
        let mut later = rollout("new");
        later.step = 1;
        assert_eq!(
            map.wish("carbon", &later),
            None,
            "it was for the step before"
        );
        let map = map.wishing(&wish(Request::Abort));
        assert_eq!(map.wish("carbon", &later), Some(Request::Abort));
    }
}
