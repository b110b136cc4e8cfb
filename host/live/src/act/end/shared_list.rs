//! A list of all instances that many steps share, so that a thousand claims that end ask the cloud
//! once and not a thousand times.

use std::sync::Arc;
use std::time::Duration;

use longshore_cloud::{CloudError, CloudProvider, Instance};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// For so long a list serves others. Whoever takes an instance for missing asks for minutes, see
/// [`launches`](crate::act::launch::launches).
const LIST_LIFETIME: Duration = Duration::from_secs(10);

type List = Arc<Vec<Arc<Instance>>>;

#[derive(Default)]
pub struct SharedList(Mutex<Option<(Instant, List)>>);

impl SharedList {
    /// Every instance, as of at most ten seconds ago. Those who ask meanwhile wait for the same answer.
    ///
    /// # Errors
    /// What the cloud says; the next one asks again.
    pub async fn get(&self, provider: &dyn CloudProvider) -> Result<List, CloudError> {
        let mut last = self.0.lock().await;
        if let Some((at, list)) = &*last
            && at.elapsed() < LIST_LIFETIME
        {
            return Ok(list.clone());
        }
        let begun = Instant::now();
        let list = Arc::new(provider.list().await?);
        *last = Some((begun, list.clone()));
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use longshore_cloud::Launch;

    use super::*;

    /// A cloud that counts its lists; a list takes a second, and the first one fails.
    #[derive(Default)]
    struct Cloud(AtomicUsize);

    #[async_trait]
    impl CloudProvider for Cloud {
        fn name(&self) -> &'static str {
            "test"
        }
        async fn create(&self, _: &Launch) -> Result<Instance, CloudError> {
            Err(CloudError::Other("not asked".into()))
        }
        async fn delete(&self, _: &str) -> Result<(), CloudError> {
            Ok(())
        }
        async fn get(&self, id: &str) -> Result<Instance, CloudError> {
            Err(CloudError::NotFound(id.to_owned()))
        }
        async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Err(CloudError::Throttled("too many".into())),
                _ => Ok(vec![Arc::default()]),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn five_hundred_that_ask_within_ten_seconds_cost_one_list() {
        let (list, cloud) = (SharedList::default(), Cloud::default());
        assert!(list.get(&cloud).await.is_err(), "an error is not kept");
        let asked = (0..500).map(|_| list.get(&cloud));
        let all = futures::future::join_all(asked).await;
        assert!(
            all.iter()
                .all(|list| list.as_ref().is_ok_and(|list| list.len() == 1))
        );
        assert_eq!(cloud.0.load(Ordering::Relaxed), 2);
        tokio::time::advance(LIST_LIFETIME).await;
        assert!(list.get(&cloud).await.is_ok());
        assert_eq!(cloud.0.load(Ordering::Relaxed), 3, "the old one is too old");
    }
}
