//! Keeps types, prices and launch templates as EC2 has them, and lets go what is over.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_ec2::tags;
use tokio::time::Instant;

use super::{Ec2, ProviderState};
use crate::error::ApiError;
use crate::records::Filters;
use crate::{discovery, wire};

/// How often types and prices are read anew.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(12 * 3600);
/// How often what is over is let go.
const STATE_SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How often the leader looks for launch templates that others have made.
const TEMPLATE_SEARCH_INTERVAL: Duration = Duration::from_secs(3600);
/// How soon the search for launch templates is repeated after it failed.
const TEMPLATE_SEARCH_RETRY: Duration = Duration::from_secs(60);

impl Ec2 {
    /// Keeps types and prices up to date, until it is dropped. It only reads: a replica that stands
    /// by does so too.
    pub async fn follow(&self) {
        tokio::join!(self.follow_types(), self.follow_price_list());
    }

    async fn follow_types(&self) {
        loop {
            tokio::time::sleep(REFRESH_INTERVAL).await;
            if let Err(error) = self.refresh_types().await {
                tracing::warn!(
                    error = error.with_hint(),
                    "reading instance types failed; the last ones count"
                );
            }
            if let Err(error) = self.refresh_prices().await {
                tracing::warn!(
                    error = error.with_hint(),
                    "reading spot prices failed; the last ones count"
                );
            }
        }
    }

    /// Lets go what is over, until it is dropped. For the replica that leads. Launch templates are
    /// found again first, and from time to time: whoever led before has made some.
    pub async fn keep_clean(&self) {
        let mut due = Instant::now();
        loop {
            if due <= Instant::now() {
                due = Instant::now() + TEMPLATE_SEARCH_INTERVAL;
                if let Err(error) = self.find_templates().await {
                    due = Instant::now() + TEMPLATE_SEARCH_RETRY;
                    tracing::warn!(
                        error = error.with_hint(),
                        "finding launch templates failed; retrying"
                    );
                }
            }
            tokio::time::sleep(STATE_SWEEP_INTERVAL).await;
            self.sweep().await;
        }
    }

    /// Lets go what is over: offerings come back, templates that no launch uses are deleted.
    pub async fn sweep(&self) {
        let now = self.now();
        let idle = {
            let mut state = self.state();
            state.expire(now);
            state.templates.idle(now)
        };
        for name in idle {
            if let Err(error) = wire::templates::delete(&self.inner.clients, &name).await {
                // It is found again by its tag, and tried then.
                tracing::warn!(
                    template = name,
                    error = error.with_hint(),
                    "deleting launch template failed"
                );
                self.state().templates.add(&name, now);
            }
        }
    }

    /// Reads instance types and where they are offered.
    ///
    /// # Errors
    /// A call failed: the types stay as they were.
    pub async fn refresh_types(&self) -> Result<(), ApiError> {
        let clients = &self.inner.clients;
        let types = wire::types::descriptions(clients).await?;
        let offered = wire::types::offerings(clients).await?;
        let (mut new, _) = discovery::region(clients.region(), &types, &offered, &BTreeMap::new());
        if new.types().is_empty() {
            return Ok(());
        }
        let mut state = self.state();
        let reservations = state.reservations.clone();
        discovery::inherit(&mut new, &state.region, reservations.iter());
        state.replace_region(new);
        Ok(())
    }

    /// Reads spot prices.
    ///
    /// # Errors
    /// A call failed: prices stay as they were.
    pub async fn refresh_prices(&self) -> Result<(), ApiError> {
        let now = (self.inner.clock)();
        let prices = wire::types::spot_prices(&self.inner.clients, now).await?;
        let mut state = self.state();
        state.prices = discovery::newest_prices(prices.iter().chain(&state.prices));
        let ProviderState { region, prices, .. } = &mut *state;
        discovery::set_spot_prices(region, prices);
        Ok(())
    }

    /// Finds the cluster's launch templates again, after a start.
    ///
    /// # Errors
    /// The call failed.
    pub async fn find_templates(&self) -> Result<(), ApiError> {
        let cluster = self.inner.settings.cluster.name.clone();
        let query: Filters = vec![(format!("tag:{}", tags::CLUSTER), vec![cluster])];
        let found = wire::templates::find(&self.inner.clients, &query).await?;
        let now = self.now();
        let mut state = self.state();
        // Karpenter's own have the same prefix; others with the cluster's tag are none of ours.
        let ours = found
            .iter()
            .filter(|one| one.name.starts_with("karpenter.k8s.aws/"));
        ours.for_each(|one| state.templates.add(&one.name, now));
        Ok(())
    }
}
