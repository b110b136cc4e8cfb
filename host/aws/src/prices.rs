//! On-demand prices of the price list.
//!
//! Products are read by [`read`], a function of their texts. What is missing or makes no sense is
//! passed over: that type keeps the price that it had. Prices of dedicated hosts, of Windows and of
//! licences are none that an instance is bought at, so [`queries`] leave them out.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::calls::Call;
use crate::clients::Clients;
use crate::error::{ApiError, Class};
use crate::wire;

/// Prices in USD per hour (in China: CNY), by instance type.
pub type OnDemand = BTreeMap<String, f64>;

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
    fn regions_of_govcloud_have_no_price_list() {
        assert!(!has_list("us-gov-west-1") && has_list("us-west-1"));
    }
}
