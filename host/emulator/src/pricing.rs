//! Pricing: GetProducts of AmazonEC2, on demand.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::action::Context;
use crate::json::{read, unknown};
use crate::wire::Refusal;
use crate::world::World;
use crate::world::account::InstanceType;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Wanted {
    service_code: String,
    #[serde(default)]
    filters: Vec<Filter>,
    #[serde(default, rename = "FormatVersion")]
    _format: Option<String>,
    #[serde(default)]
    next_token: Option<String>,
    #[serde(default)]
    max_results: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Filter {
    r#type: String,
    field: String,
    value: String,
}

pub(crate) fn answer(world: &World, context: &Context, body: &[u8]) -> Result<Value, Refusal> {
    if context.action != "GetProducts" {
        return Err(unknown(&context.action));
    }
    let wanted: Wanted = read(body)?;
    if wanted.service_code != "AmazonEC2" {
        let message = format!("Service {} not found", wanted.service_code);
        return Err(Refusal::new("NotFoundException", message));
    }
    if let Some(other) = wanted.filters.iter().find(|one| one.r#type != "TERM_MATCH") {
        let message = format!("the filter type {} is not emulated", other.r#type);
        return Err(Refusal::new("InvalidParameterException", message));
    }
    let most = wanted.max_results.unwrap_or(100);
    if !(1..=100).contains(&most) {
        let message = format!("MaxResults is {most}; it goes from 1 to 100");
        return Err(Refusal::new("InvalidParameterException", message));
    }
    let after = wanted.next_token.unwrap_or_default();
    let types = world.account.types.values().filter(|one| one.name > after);
    let products = types.filter_map(|one| Some((&one.name, product(world, one)?)));
    let mut products = products.filter(|(_, product)| fits(product, &wanted.filters));
    let page: Vec<_> = products.by_ref().take(most).collect();
    let more = products.next().is_some();
    let texts: Vec<String> = page
        .iter()
        .map(|(_, product)| product.to_string())
        .collect();
    let mut answer = json!({"FormatVersion": "aws_v1", "PriceList": texts});
    if let (true, Some((last, _))) = (more, page.last()) {
        answer["NextToken"] = json!(last);
    }
    Ok(answer)
}

fn fits(product: &Value, filters: &[Filter]) -> bool {
    let field = |name: &str| match name {
        "serviceCode" | "ServiceCode" => product["serviceCode"].as_str(),
        "productFamily" => product["product"]["productFamily"].as_str(),
        name => product["product"]["attributes"][name].as_str(),
    };
    filters
        .iter()
        .all(|one| field(&one.field) == Some(&*one.value))
}

/// Codes of offer terms and rates are the same for every product.
const TERM: &str = "JRTCKXETXF";
const RATE: &str = "6YS6EN2CT7";

fn product(world: &World, one: &InstanceType) -> Option<Value> {
    let price = one.on_demand?;
    let metal = one.record["BareMetal"].as_bool().unwrap_or(false);
    let china = world.account.region.starts_with("cn-");
    let drawn = crate::chance::draw(0, &["sku", &one.name], 0);
    let sku = format!("{:016X}", drawn.to_bits());
    let (term, rate) = (format!("{sku}.{TERM}"), format!("{sku}.{TERM}.{RATE}"));
    let family = if metal {
        "Compute Instance (bare metal)"
    } else {
        "Compute Instance"
    };
    let amount = json!({if china { "CNY" } else { "USD" }: format!("{price:.10}")});
    Some(json!({
        "product": {
            "productFamily": family,
            "attributes": {
                "instanceType": one.name,
                "regionCode": world.account.region,
                "servicecode": "AmazonEC2",
                "operatingSystem": "Linux",
                "preInstalledSw": "NA",
                "tenancy": if metal { "Dedicated" } else { "Shared" },
                "capacitystatus": "Used",
                "marketoption": "OnDemand",
                "vcpu": one.vcpus.to_string(),
            },
            "sku": sku,
        },
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {term: {
            "priceDimensions": {rate.clone(): {
                "unit": "Hrs",
                "beginRange": "0",
                "endRange": "Inf",
                "rateCode": rate,
                "appliesTo": [],
                "pricePerUnit": amount,
            }},
            "sku": sku,
            "offerTermCode": TERM,
            "effectiveDate": "2026-11-01T00:00:00Z",
            "termAttributes": {},
        }}},
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
    }))
}
