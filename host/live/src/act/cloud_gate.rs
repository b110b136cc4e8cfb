//! Wraps a cloud: calls have timeouts and are timed, and their errors are counted. Mutating calls
//! are made only while this replica leads, and count as in flight like writes to the cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use longshore_cloud::{
    CloudError, CloudProvider, GroupAnswer, GroupLaunch, Instance, Launch, NodeShows, RebootError,
    RepairPolicy,
};
use tokio::time::{Instant, timeout};

use crate::metrics::Metrics;
use crate::process::leader::Leadership;

/// A cloud that refuses mutating calls unless this replica leads, and counts and times all calls.
pub struct GatedCloud {
    cloud: Arc<dyn CloudProvider>,
    metrics: Arc<Metrics>,
    leadership: Leadership,
}

/// Timeout of a call to the cloud. A launch that was given up is asked for again with the same
/// token, so that it is not made twice.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a call that lists instances.
const LIST_TIMEOUT: Duration = Duration::from_secs(180);

impl GatedCloud {
    /// Measures the calls to `cloud`.
    pub fn new(
        cloud: Arc<dyn CloudProvider>,
        metrics: Arc<Metrics>,
        leadership: Leadership,
    ) -> Self {
        GatedCloud {
            cloud,
            metrics,
            leadership,
        }
    }

    /// A call that changes something, for a NodePool if that is known.
    async fn writing<T>(
        &self,
        method: &str,
        nodepool: Option<&str>,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let _under_way = self
            .leadership
            .begin_write()
            .map_err(|refused| CloudError::Other(refused.to_string()))?;
        let of = ("nodeclaim.lifecycle", method, nodepool);
        self.timed(of, CALL_TIMEOUT, call).await
    }

    /// A call: controller, method and NodePool for metrics, and how long it may take.
    async fn timed<T>(
        &self,
        (controller, method, nodepool): (&str, &str, Option<&str>),
        limit: Duration,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let begun = Instant::now();
        let late = |_| {
            Err(CloudError::Other(format!(
                "the cloud did not answer {method} within {} s",
                limit.as_secs()
            )))
        };
        let answer = timeout(limit, call).await.unwrap_or_else(late);
        let provider = self.cloud.name();
        let labels = [controller, method, provider];
        self.metrics
            .cloud_seconds
            .with_label_values(&labels)
            .observe(begun.elapsed().as_secs_f64());
        if let Err(error) = &answer
            && !is_answer(method, error)
        {
            let pool = nodepool.unwrap_or_default();
            let karpenters = [controller, method, provider, karpenters_word(error), pool];
            let ours = [controller, method, provider, error.reason(), pool];
            let metrics = &self.metrics;
            metrics.cloud_errors.with_label_values(&karpenters).inc();
            metrics.finer_cloud_errors.with_label_values(&ours).inc();
        }
        answer
    }
}

/// Whether an error says what was asked for: an instance that is gone is how every termination ends.
fn is_answer(method: &str, error: &CloudError) -> bool {
    matches!(error, CloudError::NotFound(_)) && matches!(method, "Delete" | "Get")
}

/// Karpenter's word for an error, which alert rules name.
fn karpenters_word(error: &CloudError) -> &'static str {
    match error {
        CloudError::InsufficientCapacity(_) => "InsufficientCapacityError",
        CloudError::NodeClassNotReady(_) => "NodeClassNotReadyError",
        CloudError::NotFound(_) => "NodeClaimNotFoundError",
        CloudError::Throttled(_)
        | CloudError::Unauthorized(_)
        | CloudError::Invalid(_)
        | CloudError::Other(_) => "unknown",
    }
}

#[async_trait]
impl CloudProvider for GatedCloud {
    fn name(&self) -> &'static str {
        self.cloud.name()
    }

    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        let nodepool = launch.nodepool.as_deref();
        let call = self.cloud.create(launch);
        self.writing("Create", nodepool, call).await
    }

    fn most_in_group(&self) -> usize {
        self.cloud.most_in_group()
    }

    async fn create_group(&self, group: &GroupLaunch) -> Result<GroupAnswer, CloudError> {
        let nodepool = group.launch.nodepool.as_deref();
        let call = self.cloud.create_group(group);
        self.writing("Create", nodepool, call).await
    }

    async fn restore_launches(&self, launched: Vec<Launch>) {
        self.cloud.restore_launches(launched).await;
    }

    fn node_shows(&self, node: &NodeShows<'_>) {
        self.cloud.node_shows(node);
    }

    async fn delete(&self, provider_id: &str) -> Result<(), CloudError> {
        let call = self.cloud.delete(provider_id);
        self.writing("Delete", None, call).await
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.cloud.repair_policies()
    }

    async fn reboot(&self, provider_id: &str, operation: &str) -> Result<(), RebootError> {
        // A final refusal is counted as an answer: it is no failure of the call.
        let mut refused = None;
        let call = async {
            match self.cloud.reboot(provider_id, operation).await {
                Ok(()) => Ok(()),
                Err(RebootError::Again(error)) => Err(error),
                Err(last) => {
                    refused = Some(last);
                    Ok(())
                }
            }
        };
        self.writing("Reboot", None, call).await?;
        refused.map_or(Ok(()), Err)
    }

    fn drift_interval(&self) -> Option<Duration> {
        self.cloud.drift_interval()
    }

    async fn drifted(
        &self,
        provider_id: &str,
        launch: &Launch,
    ) -> Result<Option<String>, CloudError> {
        let call = self.cloud.drifted(provider_id, launch);
        let nodepool = launch.nodepool.as_deref();
        let of = ("nodeclaim.disruption", "IsDrifted", nodepool);
        self.timed(of, CALL_TIMEOUT, call).await
    }

    fn ends_with_node(&self) -> bool {
        self.cloud.ends_with_node()
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        let of = ("node.termination", "Get", None);
        self.timed(of, CALL_TIMEOUT, self.cloud.get(provider_id))
            .await
    }

    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        let of = ("nodeclaim.garbagecollection", "List", None);
        self.timed(of, LIST_TIMEOUT, self.cloud.list()).await
    }
}

#[cfg(test)]
mod tests {
    use longshore_cloud::Shortage;

    use super::*;
    use crate::test_cluster::{context, fresh, instance};

    /// What metrics count after calls that end with an error.
    async fn counted(calls: &[(&str, CloudError)]) -> String {
        let metrics = Arc::new(Metrics::new());
        let cloud = context(&fresh().0, Ok(instance())).provider;
        let measured = GatedCloud::new(cloud, metrics.clone(), Leadership::new(true));
        for (method, error) in calls {
            let call = async { Err::<(), _>(error.clone()) };
            let of = ("nodeclaim.lifecycle", *method, Some("general"));
            measured.timed(of, CALL_TIMEOUT, call).await.unwrap_err();
        }
        let text = metrics.text();
        let errors = text.lines().filter(|line| line.contains("errors_total{"));
        let words = errors.filter_map(|line| line.split_once("error=")?.1.split(',').next());
        words.collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn errors_have_karpenters_words_and_an_instance_that_is_gone_is_none() {
        let gone = CloudError::NotFound("i-1".into());
        assert_eq!(
            counted(&[("Delete", gone.clone()), ("Get", gone)]).await,
            ""
        );
        let calls = [
            (
                "Create",
                CloudError::InsufficientCapacity(Shortage::default()),
            ),
            ("Create", CloudError::Throttled("slow down".into())),
        ];
        assert_eq!(
            counted(&calls).await,
            r#""InsufficientCapacityError" "unknown" "InsufficientCapacity" "Throttled""#
        );
    }
}
