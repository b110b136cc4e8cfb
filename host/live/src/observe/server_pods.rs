//! Asks the API server itself about pods, where a second purchase for a pod must not come from a
//! watch that is behind.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams, ObjectMeta};

/// Asks which of the pods that wait have no node, as the server has it now: a read that no cache
/// answers. Where it does not say, the doubtful ones among them stay unread.
pub async fn unbound(client: &Client, waiting: &[String], doubtful: &[String]) -> Asked {
    let params = ListParams::default().fields("spec.nodeName=");
    let stays = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_none();
    let there = pods_of(client, params, stays).await;
    Asked::of(if there.is_ok() { waiting } else { doubtful }, there)
}

/// As many pods are asked for one by one; more are listed.
const ONE_BY_ONE: usize = 100;

/// What the server said of pods.
#[derive(Default)]
pub struct Asked {
    /// They do not exist, or have a node by now.
    pub gone: BTreeSet<String>,
    pub unread: BTreeSet<String>,
}

impl Asked {
    fn of(pods: &[String], there: Result<BTreeSet<String>, kube::Error>) -> Asked {
        match there {
            Ok(there) => {
                let gone = pods.iter().filter(|pod| !there.contains(*pod));
                Asked {
                    gone: gone.cloned().collect(),
                    ..Asked::default()
                }
            }
            Err(error) => {
                tracing::warn!(%error, pods = pods.len(), "pods could not be listed; nothing is \
                    bought for them in this round");
                Asked {
                    unread: pods.iter().cloned().collect(),
                    ..Asked::default()
                }
            }
        }
    }

    pub fn extend(&mut self, other: Asked) {
        self.gone.extend(other.gone);
        self.unread.extend(other.unread);
    }
}

/// Asks which of these pods exist.
pub async fn existing(client: &Client, pods: &[String]) -> Asked {
    if pods.len() > ONE_BY_ONE {
        let there = pods_of(client, ListParams::default(), |_| true).await;
        return Asked::of(pods, there);
    }
    let asked = pods.iter().map(|pod| async move {
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        (pod.clone(), api.get_metadata_opt(name).await)
    });
    let asked: Vec<_> = asked.collect();
    let answers = futures::stream::iter(asked).buffered(READS_AT_ONCE);
    answers
        .fold(Asked::default(), |mut asked, (pod, found)| async move {
            match found {
                Ok(Some(_)) => {}
                Ok(None) => drop(asked.gone.insert(pod)),
                Err(error) => {
                    tracing::warn!(pod, %error, "a pod of a terminating node could not be read; \
                        nothing is bought for it in this round");
                    asked.unread.insert(pod);
                }
            }
            asked
        })
        .await
}

/// Pods that are read at a time.
const READS_AT_ONCE: usize = 16;

async fn pods_of(
    client: &Client,
    params: ListParams,
    counts: impl Fn(&ObjectMeta) -> bool,
) -> Result<BTreeSet<String>, kube::Error> {
    let api: Api<Pod> = Api::all(client.clone());
    let mut params = params.limit(500);
    let mut found = BTreeSet::new();
    loop {
        let page = api.list_metadata(&params).await?;
        found.extend(
            page.items
                .into_iter()
                .filter(|pod| counts(&pod.metadata))
                .filter_map(|pod| {
                    Some(format!(
                        "{}/{}",
                        pod.metadata.namespace?, pod.metadata.name?
                    ))
                }),
        );
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}
