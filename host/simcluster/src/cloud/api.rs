//! The cloud's interface for the daemon.

use std::sync::Arc;

use async_trait::async_trait;
use longshore_cloud::{CloudError, CloudProvider, Instance, Launch, RebootError};
use tokio::sync::oneshot;

use super::{Answer, Cloud, Inner, InstanceState, QueuedLaunch, Work};
use crate::fields;
use crate::server::resources;

#[async_trait]
impl CloudProvider for Cloud {
    fn name(&self) -> &'static str {
        "sim"
    }

    async fn create(&self, launch: &Launch) -> Result<Instance, CloudError> {
        let answer = self.ask(launch)?;
        let (wait, answer) = answer
            .await
            .map_err(|_| CloudError::Other("the cloud is gone".to_owned()))?;
        tokio::time::sleep(wait).await;
        answer
    }

    async fn delete(&self, provider_id: &str) -> Result<(), CloudError> {
        let answer = self.end_now(provider_id);
        tokio::time::sleep(self.0.latencies.call).await;
        answer
    }

    async fn reboot(&self, provider_id: &str, operation: &str) -> Result<(), RebootError> {
        let answer = self.reboot_now(provider_id, operation);
        tokio::time::sleep(self.0.latencies.call).await;
        answer
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        tokio::time::sleep(self.0.latencies.call).await;
        let inner = self.inner();
        let machine = inner.by_id.get(provider_id).map(|at| &inner.machines[*at]);
        machine
            .filter(|m| m.state != InstanceState::Gone)
            .map(|m| (*m.instance).clone())
            .ok_or_else(|| gone(provider_id))
    }

    async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
        tokio::time::sleep(self.0.latencies.call).await;
        let inner = self.inner();
        Ok(inner.there().map(|m| m.instance.clone()).collect())
    }
}

impl Cloud {
    /// Puts a launch on the event queue. The result does not depend on whether the caller waits.
    fn ask(&self, launch: &Launch) -> Result<oneshot::Receiver<Answer>, CloudError> {
        let (reply, answer) = oneshot::channel();
        let mut inner = self.inner();
        inner.class_is_there(launch)?;
        let tries = inner.tries.entry(launch.uid.clone()).or_default();
        let before = *tries;
        *tries += 1;
        let about = format!("{}/{before}", launch.uid);
        let pace = &inner.options.latencies;
        let mut wait = inner
            .chance
            .around(pace.launch, pace.spread, "launch", &about);
        if inner.chance.hits(inner.options.faults.slow, "slow", &about) {
            wait *= 10;
        }
        inner.number += 1;
        let (number, due) = (inner.number, inner.clock.elapsed() + wait);
        inner.launches.insert(
            number,
            QueuedLaunch {
                launch: launch.clone(),
                reply,
                before,
            },
        );
        inner.event_queue.at(due, Work::Launch(number));
        drop(inner);
        self.0.asked.notify_one();
        Ok(answer)
    }

    /// The machine is up again after as long as one takes that is launched.
    fn reboot_now(&self, provider_id: &str, operation: &str) -> Result<(), RebootError> {
        let mut inner = self.inner();
        let at = inner
            .running(provider_id)
            .ok_or_else(|| gone(provider_id))?;
        let due = inner.clock.elapsed() + inner.options.latencies.boot;
        let work = Work::Rebooted(at, operation.to_owned());
        inner.event_queue.at(due, work);
        drop(inner);
        self.0.asked.notify_one();
        Ok(())
    }

    fn end_now(&self, provider_id: &str) -> Result<(), CloudError> {
        let mut inner = self.inner();
        let at = inner
            .by_id
            .get(provider_id)
            .copied()
            .filter(|at| inner.machines[*at].state != InstanceState::Gone);
        let at = at.ok_or_else(|| gone(provider_id))?;
        let now = inner.clock.elapsed();
        inner.end(now, at, "ended");
        drop(inner);
        self.0.asked.notify_one();
        Ok(())
    }
}

impl Inner {
    /// Whether the cloud does what it is asked, as its faults say.
    pub(super) fn may_launch(&self, launch: &Launch, about: &str) -> Result<(), CloudError> {
        let faults = &self.options.faults;
        if self.chance.hits(faults.fail, "fail", about) {
            self.say(format!("the launch of {} fails", launch.name));
            return Err(CloudError::Other(format!(
                "launch of {} failed: the cloud has a bad moment",
                launch.name
            )));
        }
        if self.chance.hits(faults.unauthorized, "unauthorized", about) {
            let why = format!("launch of {}: no permission", launch.name);
            return Err(CloudError::Unauthorized(why));
        }
        Ok(())
    }

    /// A KWOKNodeClass must exist; other kinds of classes are ignored.
    fn class_is_there(&self, launch: &Launch) -> Result<(), CloudError> {
        let key = fields::key(resources::KWOK_NODE_CLASS, "", &launch.class_name);
        if launch.class_kind == key.resource.kind && self.server.get(&key).is_none() {
            return Err(CloudError::NodeClassNotReady(format!(
                "{} {} does not exist",
                launch.class_kind, key.name
            )));
        }
        Ok(())
    }
}

fn gone(provider_id: &str) -> CloudError {
    CloudError::NotFound(format!("there is no instance {provider_id}"))
}
