//! The cloud as one process sees it: calls are counted, may fail, and are not answered once the
//! process is dead.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use longshore_cloud::{
    CloudError, CloudProvider, Instance, Launch, RebootError, RepairAction, RepairPolicy,
};
#[cfg(feature = "aws")]
use longshore_cloud::{GroupAnswer, GroupLaunch};

use super::interceptor::{Call, Interceptor};
use super::judges::Judges;
use super::safety;
use longshore_simcluster::cloud::Cloud;

/// A node that does not get ready, or is not any more, is replaced after this.
const UNREADY_TOLERATION: Duration = Duration::from_secs(180);
const REPAIRED: [RepairPolicy; 3] = [
    RepairPolicy {
        condition: "Ready",
        status: "False",
        reason: "",
        toleration: UNREADY_TOLERATION,
        grace: Some(Duration::from_secs(60)),
        priority: 0,
        action: RepairAction::Replace,
    },
    RepairPolicy {
        condition: "Ready",
        status: "Unknown",
        reason: ".*",
        toleration: UNREADY_TOLERATION,
        grace: Some(Duration::from_secs(60)),
        priority: 0,
        action: RepairAction::Replace,
    },
    RepairPolicy {
        condition: "RebootRequired",
        status: "True",
        reason: ".*",
        toleration: Duration::from_secs(30),
        grace: Some(Duration::from_secs(60)),
        priority: 0,
        action: RepairAction::Reboot,
    },
];

/// A process's way to the cloud.
pub(super) struct InterceptedProvider {
    pub cloud: Cloud,
    pub interceptor: Arc<Interceptor>,
    pub judges: Arc<Judges>,
    pub client: String,
}

impl InterceptedProvider {
    async fn pass<T: Send + 'static>(
        &self,
        what: String,
        may_fail: bool,
        call: impl Future<Output = Result<T, CloudError>> + Send + 'static,
    ) -> Result<T, CloudError> {
        let server = &self.interceptor.server;
        if server.is_stopped(&self.client) {
            // A timer of a process that is stopped: it goes off when the process goes on, and asks
            // nothing before.
            server.until_it_goes_on(&self.client).await;
            return Err(CloudError::Other(format!(
                "{what}: the process was stopped"
            )));
        }
        let fate = self.interceptor.call(&self.client, &what, may_fail);
        match fate {
            Call::Never => return pending().await,
            Call::Fail => {
                return Err(CloudError::Other(format!(
                    "{what}: the cloud has a bad moment"
                )));
            }
            Call::During => {
                // Sent without waiting for the answer.
                tokio::spawn(call);
                tokio::task::yield_now().await;
                self.interceptor
                    .kill(&self.client, &format!(" during {what}"));
                return pending().await;
            }
            Call::Go | Call::After | Call::Struck(_) => {}
        }
        if fate == Call::Go && self.interceptor.is_throttled() {
            return Err(CloudError::Throttled(format!("{what}: too many requests")));
        }
        let answer = call.await;
        server.until_it_goes_on(&self.client).await;
        if fate == Call::After {
            self.interceptor
                .kill(&self.client, &format!(" after {what}"));
        }
        if !self.interceptor.lives(&self.client) {
            return pending().await;
        }
        answer
    }
}

/// A provider whose launches and ends are judged, and whose calls are somebody else's concern.
#[cfg(feature = "aws")]
pub(super) struct JudgedProvider {
    pub provider: Arc<dyn CloudProvider>,
    pub interceptor: Arc<Interceptor>,
    pub judges: Arc<Judges>,
    pub client: String,
}

#[cfg(feature = "aws")]
#[async_trait]
impl CloudProvider for JudgedProvider {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        if self.interceptor.lives(&self.client) {
            safety::launch(&self.judges, &self.client, launch);
        }
        self.provider.create(launch).await
    }

    fn most_in_group(&self) -> usize {
        self.provider.most_in_group()
    }

    async fn create_group(&self, group: &GroupLaunch) -> Result<GroupAnswer, CloudError> {
        if self.interceptor.lives(&self.client) {
            safety::launch_group(&self.judges, &self.client, group);
        }
        self.provider.create_group(group).await
    }

    async fn restore_launches(&self, launched: Vec<Launch>) {
        self.provider.restore_launches(launched).await;
    }

    async fn delete(&self, provider_id: &str) -> Result<(), CloudError> {
        if self.interceptor.lives(&self.client) {
            safety::end(&self.judges, &self.client, provider_id);
        }
        self.provider.delete(provider_id).await
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.provider.repair_policies()
    }

    async fn reboot(&self, provider_id: &str, operation: &str) -> Result<(), RebootError> {
        self.provider.reboot(provider_id, operation).await
    }

    fn drift_interval(&self) -> Option<Duration> {
        self.provider.drift_interval()
    }

    async fn drifted(
        &self,
        provider_id: &str,
        launch: &Launch,
    ) -> Result<Option<String>, CloudError> {
        self.provider.drifted(provider_id, launch).await
    }

    fn ends_with_node(&self) -> bool {
        self.provider.ends_with_node()
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        self.provider.get(provider_id).await
    }

    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        self.provider.list().await
    }
}

#[async_trait]
impl CloudProvider for InterceptedProvider {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &REPAIRED
    }

    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        if self.interceptor.lives(&self.client) {
            safety::launch(&self.judges, &self.client, launch);
        }
        let (cloud, asked) = (self.cloud.clone(), launch.clone());
        // The cloud itself knows which launches fail.
        self.pass(format!("launch {}", launch.name), false, async move {
            cloud.create(&asked).await
        })
        .await
    }

    async fn delete(&self, provider_id: &str) -> Result<(), CloudError> {
        if self.interceptor.lives(&self.client) {
            safety::end(&self.judges, &self.client, provider_id);
        }
        let (cloud, id) = (self.cloud.clone(), provider_id.to_owned());
        let refused = self.interceptor.ends_nothing();
        let call = async move {
            match refused {
                true => Err(CloudError::Other(format!("{id} cannot be ended now"))),
                false => cloud.delete(&id).await,
            }
        };
        self.pass(format!("end {provider_id}"), true, call).await
    }

    async fn reboot(&self, provider_id: &str, operation: &str) -> Result<(), RebootError> {
        let (cloud, id, name) = (
            self.cloud.clone(),
            provider_id.to_owned(),
            operation.to_owned(),
        );
        let call = async move {
            match cloud.reboot(&id, &name).await {
                Err(RebootError::Again(error)) => Err(error),
                other => Ok(other),
            }
        };
        self.pass(format!("reboot {provider_id}"), true, call)
            .await?
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        let (cloud, id) = (self.cloud.clone(), provider_id.to_owned());
        self.pass(format!("get {provider_id}"), true, async move {
            cloud.get(&id).await
        })
        .await
    }

    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        let cloud = self.cloud.clone();
        let mut all = self
            .pass("list".to_owned(), true, async move { cloud.list().await })
            .await?;
        all.retain(|instance| self.interceptor.is_listed(&instance.provider_id));
        Ok(all)
    }
}
