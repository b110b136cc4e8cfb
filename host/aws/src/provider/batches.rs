//! Questions about instances that are asked together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{Batcher, Window};
use crate::clients::Clients;
use crate::error::{ApiError, Class};
use crate::records::{Filters, InstanceFacts};
use crate::wire;

/// Windows of batches, as Karpenter's.
pub(super) const BATCH: Window = Window {
    idle: Duration::from_millis(100),
    longest: Duration::from_secs(1),
    most: 200,
};
/// Whether instances that were terminated are gone: they are asked for every few seconds, each at
/// its own time, and nothing waits for the answer.
pub(super) const ENDINGS: Window = Window {
    idle: Duration::from_secs(1),
    longest: Duration::from_secs(2),
    ..BATCH
};

/// Collects questions about instances. `name` is its word of metrics.
pub(super) fn batcher<V, R>(
    clients: &Arc<Clients>,
    name: &'static str,
    window: Window,
    run: impl Fn(Arc<Clients>, Vec<String>) -> R + Send + Sync + 'static,
) -> Batcher<String, V>
where
    V: Send + 'static,
    R: Future<Output = Vec<V>> + Send + 'static,
{
    let (observed, asked) = (clients.clone(), clients.clone());
    let seen = move |size, waited| observed.observer().batched(name, size, waited);
    Batcher::seen(window, seen, move |ids| run(asked.clone(), ids))
}

pub(super) async fn describe(
    clients: Arc<Clients>,
    ids: Vec<String>,
) -> Vec<Result<Option<InstanceFacts>, ApiError>> {
    // A filter finds those that there are; IDs in the request would fail for one that is not.
    let query: Filters = vec![("instance-id".to_owned(), ids.clone())];
    match wire::instances::find(&clients, &query).await {
        Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        Ok(found) => {
            let of = |id: &String| found.iter().find(|facts| facts.id == *id).cloned();
            ids.iter().map(|id| Ok(of(id))).collect()
        }
    }
}

/// The state of each instance afterwards.
pub(super) async fn terminate(
    clients: Arc<Clients>,
    ids: Vec<String>,
) -> Vec<Result<String, ApiError>> {
    let state = |states: &BTreeMap<String, String>, id: &String| {
        // An instance that the reply leaves out was accepted with the others. It is asked for again
        // until it is gone.
        states
            .get(id)
            .cloned()
            .unwrap_or_else(|| "shutting-down".to_owned())
    };
    // EC2 refuses all of a request for one instance: it does not exist, is protected, or lacks the
    // tag that the policy asks for. The others wait for nothing.
    let of_one = |error: &ApiError| {
        let whole = [Class::Throttled, Class::Unknown];
        ids.len() > 1 && !whole.contains(&error.class) && !error.concerns_credentials()
    };
    match wire::instances::terminate(&clients, &ids).await {
        Ok(states) => ids.iter().map(|id| Ok(state(&states, id))).collect(),
        Err(error) if of_one(&error) => {
            let mut all = Vec::with_capacity(ids.len());
            for id in &ids {
                let one = wire::instances::terminate(&clients, std::slice::from_ref(id)).await;
                all.push(one.map(|states| state(&states, id)));
            }
            all
        }
        Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
    }
}
