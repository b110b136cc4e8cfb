//! A cloud whose calls are timed and whose errors are counted.

use std::sync::Arc;

use async_trait::async_trait;
use longshore_cloud::{CloudError, CloudProvider, Instance, Launch, RepairPolicy};
use tokio::time::Instant;

use super::metrics::Metrics;

/// Passes everything on.
pub struct Measured {
    cloud: Arc<dyn CloudProvider>,
    metrics: Arc<Metrics>,
}

impl Measured {
    /// Measures the calls to `cloud`.
    pub fn new(cloud: Arc<dyn CloudProvider>, metrics: Arc<Metrics>) -> Self {
        Measured { cloud, metrics }
    }

    async fn timed<T>(
        &self,
        controller: &str,
        method: &str,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let begun = Instant::now();
        let answer = call.await;
        let provider = self.cloud.name();
        let labels = [controller, method, provider];
        self.metrics.cloud_seconds.with_label_values(&labels).observe(begun.elapsed().as_secs_f64());
        if let Err(error) = &answer {
            self.metrics.cloud_errors.with_label_values(&[controller, method, provider, error.reason()]).inc();
        }
        answer
    }
}

#[async_trait]
impl CloudProvider for Measured {
    fn name(&self) -> &'static str {
        self.cloud.name()
    }

    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        self.timed("nodeclaim.lifecycle", "Create", self.cloud.create(launch)).await
    }

    async fn resume(&self, launched: Vec<Launch>) {
        self.cloud.resume(launched).await;
    }

    async fn delete(&self, provider_id: &str) -> Result<(), CloudError> {
        self.timed("nodeclaim.lifecycle", "Delete", self.cloud.delete(provider_id)).await
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.cloud.repair_policies()
    }

    fn ends_with_node(&self) -> bool {
        self.cloud.ends_with_node()
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        self.timed("node.termination", "Get", self.cloud.get(provider_id)).await
    }

    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        self.timed("nodeclaim.garbagecollection", "List", self.cloud.list()).await
    }
}
