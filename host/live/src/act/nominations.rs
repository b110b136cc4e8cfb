//! Writes and clears nominations of pods.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use kube::api::{Api, Patch, PatchParams};
use kube::core::Request;
use serde_json::json;
use tokio::sync::Semaphore;

use super::context::Context;
use crate::decide::rollout::Nomination;
use longshore_api::kinds::ObjectKind;

/// Attempts to clear a nomination.
const CLEAR_ATTEMPTS: u32 = 5;

/// Number of nominations written at a time, so that other writes get their turn.
const NOMINATIONS_AT_ONCE: usize = 32;

/// Whether and how many nominations may be written.
pub struct Nominations {
    /// Those that may be written at a time.
    turns: Semaphore,
    /// Whether `status.nominatedNodeName` may be written; off after the first refusal.
    allowed: AtomicBool,
}

impl Default for Nominations {
    fn default() -> Self {
        Nominations {
            turns: Semaphore::new(NOMINATIONS_AT_ONCE),
            allowed: AtomicBool::new(true),
        }
    }
}

impl Context {
    /// Writes `status.nominatedNodeName` of pods, several at a time, and echoes each. kube-scheduler
    /// tries the nominated node first and, since 1.35, reserves its room. A refused write costs only
    /// the nomination.
    pub async fn nominate(&self, pods: &[Nomination]) {
        if !self.memory.nominations.allowed.load(Ordering::Relaxed) || self.may_write().is_err() {
            return;
        }
        futures::stream::iter(pods)
            .for_each_concurrent(NOMINATIONS_AT_ONCE, |(pod, node)| {
                self.nominate_one(pod, node)
            })
            .await;
    }

    async fn nominate_one(&self, pod: &str, node: &str) {
        let _turn = self.memory.nominations.turns.acquire().await;
        let Some((namespace, name)) = pod.split_once('/') else {
            return;
        };
        let patch = Patch::Strategic(json!({"status": {"nominatedNodeName": node}}));
        let path = Request::new(Pod::url_path(&(), Some(namespace)));
        let Ok(request) = path.patch_subresource("status", name, &PatchParams::default(), &patch)
        else {
            return;
        };
        match self.plain.request_text(request).await {
            // The pod itself comes by the watch as well, and is read there.
            Ok(text) => drop(self.echo(ObjectKind::Pod, pod, &text)),
            Err(kube::Error::Api(status))
                if status.code == 403
                    && self
                        .memory
                        .nominations
                        .allowed
                        .swap(false, Ordering::Relaxed) =>
            {
                tracing::warn!("missing permission to patch pods/status; pods are not nominated");
            }
            Err(_) => {}
        }
    }

    /// Clears the nomination of each of these pods, unless it has changed meanwhile.
    pub async fn clear_nominations(&self, pods: Vec<String>) {
        futures::stream::iter(pods)
            .for_each_concurrent(NOMINATIONS_AT_ONCE, |pod| async move {
                self.clear_nomination(&pod).await
            })
            .await;
    }

    async fn clear_nomination(&self, pod: &str) {
        let Some((namespace, name)) = pod.split_once('/') else {
            return;
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mut old = None;
        for attempt in 0..CLEAR_ATTEMPTS {
            if self.may_write().is_err() {
                return;
            }
            match self.try_clear_nomination(&api, name, &mut old).await {
                Ok(()) => return,
                Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => return,
                Err(_) => tokio::time::sleep(Duration::from_secs(1 << attempt)).await,
            }
        }
    }

    async fn try_clear_nomination(
        &self,
        api: &Api<Pod>,
        name: &str,
        old: &mut Option<String>,
    ) -> kube::Result<()> {
        let pod = api.get(name).await?;
        let nominated = pod
            .status
            .and_then(|status| status.nominated_node_name)
            .filter(|node| !node.is_empty());
        let Some(nominated) = nominated.filter(|node| old.as_ref().is_none_or(|old| old == node))
        else {
            return Ok(());
        };
        *old = Some(nominated);
        let version = json!({"resourceVersion": pod.metadata.resource_version});
        let patch =
            Patch::Strategic(json!({"metadata": version, "status": {"nominatedNodeName": null}}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .map(drop)
    }
}
