//! Keeps the on-demand prices of a provider as the price list has them.

use std::time::Duration;

use super::Ec2;
use super::upkeep::REFRESH_INTERVAL;
use crate::error::{ApiError, Class};
use crate::{discovery, prices};

/// How soon the price list is asked for again after a call failed.
const PRICE_LIST_RETRY: Duration = Duration::from_secs(600);

impl Ec2 {
    /// Keeps on-demand prices up to date, until it is dropped. Without a way to the price list the
    /// recorded prices hold.
    pub(crate) async fn follow_price_list(&self) {
        let inner = self.inner();
        if inner.settings.isolated || !prices::has_list(inner.clients.region()) {
            return;
        }
        loop {
            let pause = match self.refresh_price_list().await {
                Ok(types) => {
                    tracing::info!(types, "on-demand prices read");
                    REFRESH_INTERVAL
                }
                Err(error) => {
                    tracing::warn!(
                        error = error.with_hint(),
                        "reading on-demand prices failed; the last ones count"
                    );
                    match error.class {
                        Class::Unauthorized => REFRESH_INTERVAL,
                        _ => PRICE_LIST_RETRY,
                    }
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads on-demand prices, and says how many types have one. What came counts, also if a part
    /// failed.
    ///
    /// # Errors
    /// A call failed, or the list is empty: types without an answer keep their price.
    pub async fn refresh_price_list(&self) -> Result<usize, ApiError> {
        let (prices, all) = prices::price_list(&self.inner().clients).await;
        let found = prices.len();
        {
            let mut state = self.state();
            discovery::set_on_demand_prices(&mut state.region, &prices);
            state.on_demand.extend(prices);
        }
        all.map(|()| found)
    }
}
