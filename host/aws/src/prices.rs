//! On-demand prices of the price list.
//!
//! Products are read by [`read`], a function of their texts. What is missing or makes no sense is
//! passed over: that type keeps the price that it had. Prices of dedicated hosts, of Windows and of
//! licences are none that an instance is bought at, so [`queries`] leave them out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::calls::Call;
use crate::clients::Clients;
use crate::error::{ApiError, Class};
use crate::provider::{Ec2, REFRESH};
use crate::{discovery, wire};

/// Prices in USD per hour (in China: CNY), by instance type.
pub type OnDemand = BTreeMap<String, f64>;

/// The region whose endpoint of the price list is asked about a region.
pub fn endpoint_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// Whether the price list can be asked about a region. It has none of those in GovCloud.
pub fn has_list(region: &str) -> bool {
    !region.starts_with("us-gov-")
}

/// What is asked for: instances that share their host, and machines of their own.
pub fn queries(region: &str) -> [Vec<(&str, &str)>; 2] {
    let query = |tenancy, family| {
        vec![
            ("regionCode", region),
            ("serviceCode", "AmazonEC2"),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", family),
        ]
    };
    [
        query("Shared", "Compute Instance"),
        query("Dedicated", "Compute Instance (bare metal)"),
    ]
}

#[derive(Deserialize)]
struct Item {
    product: Product,
    terms: Terms,
}

#[derive(Deserialize)]
struct Product {
    attributes: Attributes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    instance_type: String,
}

#[derive(Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    #[serde(default)]
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    #[serde(default)]
    price_per_unit: BTreeMap<String, String>,
}

/// The prices that products of a region have, and how many products have none that can be read. Of
/// several prices of a type the lowest counts: the order of a reply says nothing.
pub fn read(region: &str, products: &[String]) -> (OnDemand, usize) {
    let currency = if region.starts_with("cn-") {
        "CNY"
    } else {
        "USD"
    };
    let (mut all, mut unread) = (OnDemand::new(), 0);
    for text in products {
        let item: Option<Item> = serde_json::from_str(text).ok();
        let Some((name, price)) = item.and_then(|item| price(item, currency)) else {
            unread += 1;
            continue;
        };
        let known = all.entry(name).or_insert(price);
        *known = price.min(*known);
    }
    (all, unread)
}

fn price(item: Item, currency: &str) -> Option<(String, f64)> {
    let terms = item.terms.on_demand.values();
    let dimensions = terms.flat_map(|term| term.price_dimensions.values());
    let prices = dimensions.filter_map(|of| of.price_per_unit.get(currency)?.parse::<f64>().ok());
    let price = prices
        .filter(|price| price.is_finite() && *price > 0.0)
        .min_by(f64::total_cmp)?;
    Some((item.product.attributes.instance_type, price))
}

/// How soon the price list is asked for again after a call failed.
const PRICE_LIST_RETRY: Duration = Duration::from_secs(600);

impl Ec2 {
    /// Keeps on-demand prices up to date, until it is dropped. Without a way to the price list the
    /// recorded prices hold.
    pub(crate) async fn follow_price_list(&self) {
        let inner = self.inner();
        if inner.settings.isolated || !has_list(inner.clients.region()) {
            return;
        }
        loop {
            let pause = match self.refresh_price_list().await {
                Ok(types) => {
                    tracing::info!(types, "on-demand prices read");
                    REFRESH
                }
                Err(error) => {
                    tracing::warn!(
                        error = error.with_hint(),
                        "reading on-demand prices failed; the last ones count"
                    );
                    match error.class {
                        Class::Unauthorized => REFRESH,
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
        let (prices, all) = price_list(&self.inner().clients).await;
        let found = prices.len();
        {
            let mut state = self.state();
            discovery::set_on_demand_prices(&mut state.region, &prices);
            state.on_demand.extend(prices);
        }
        all.map(|()| found)
    }
}

/// On-demand prices of the clients' region, and what failed: a part of the list, or it is empty.
pub(crate) async fn price_list(clients: &Clients) -> (OnDemand, Result<(), ApiError>) {
    let region = clients.region();
    let [shared, metal] = queries(region);
    let (shared, metal) = tokio::join!(
        wire::prices::products(clients, &shared),
        wire::prices::products(clients, &metal),
    );
    let mut prices = OnDemand::new();
    for products in [&shared, &metal].into_iter().flatten() {
        let (read, unread) = read(region, products);
        if unread > 0 {
            tracing::warn!(unread, "products of the price list have no price");
        }
        prices.extend(read);
    }
    let empty = || ApiError {
        class: Class::Invalid,
        ..ApiError::new(Call::GetProducts, "", &format!("no prices of {region}"))
    };
    let all = match (shared, metal) {
        (Err(error), _) | (_, Err(error)) => Err(error),
        _ if prices.is_empty() => Err(empty()),
        _ => Ok(()),
    };
    (prices, all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn product(name: &str, currency: &str, price: &str) -> String {
        let rate = json!({"unit": "Hrs", "pricePerUnit": {currency: price}});
        json!({
            "product": {"productFamily": "Compute Instance", "attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"A.B": {"priceDimensions": {"A.B.C": rate}}}},
        })
        .to_string()
    }

    #[test]
    fn prices_are_read_and_what_is_none_is_counted() {
        let products = [
            product("m5.large", "USD", "0.0960000000"),
            product("m5.large", "USD", "0.1200000000"),
            product("m5.metal", "USD", "4.6080000000"),
            product("c5.large", "USD", "0.0000000000"),
            product("r5.large", "USD", "NaN"),
            product("t3.nano", "CNY", "0.03"),
            json!({"product": {"attributes": {"instanceType": "x1.32xlarge"}}, "terms": {}})
                .to_string(),
            "<html>".to_owned(),
        ];
        let (prices, unread) = read("us-east-1", &products);
        let shown: Vec<String> = prices
            .iter()
            .map(|(name, price)| format!("{name} {price}"))
            .collect();
        assert_eq!(shown, ["m5.large 0.096", "m5.metal 4.608"]);
        assert_eq!(unread, 5);
    }

    #[test]
    fn prices_in_china_are_in_its_currency() {
        let products = [
            product("m5.large", "CNY", "0.7"),
            product("c5.large", "USD", "1"),
        ];
        let (prices, unread) = read("cn-north-1", &products);
        assert_eq!((prices.get("m5.large"), unread), (Some(&0.7), 1));
    }

    #[test]
    fn each_region_asks_the_endpoint_that_is_near() {
        let asked = [
            "us-west-2",
            "sa-east-1",
            "ap-east-1",
            "eu-west-3",
            "cn-north-1",
        ];
        assert_eq!(
            asked.map(endpoint_region),
            [
                "us-east-1",
                "us-east-1",
                "ap-south-1",
                "eu-central-1",
                "cn-northwest-1"
            ]
        );
        assert!(!has_list("us-gov-west-1") && has_list("us-west-1"));
    }
}
