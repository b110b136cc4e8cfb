//! A region as EC2 describes it to an account, in the format that commands read with `--world`
//! ([`longshore_ec2::catalogue::world`]).

use std::collections::BTreeMap;
use std::time::SystemTime;

use longshore_ec2::catalogue::Region;
use serde_json::{Value, json};

use crate::clients::Clients;
use crate::discovery;
use crate::error::ApiError;
use crate::records::Filters;
use crate::{prices, wire};

/// What was read.
#[derive(Clone, Debug)]
pub struct SavedWorld {
    /// The file.
    pub json: Value,
    /// What it lacks, and why.
    pub notes: Vec<String>,
    /// The region.
    pub region: String,
    /// How many zones there are.
    pub zones: usize,
    /// How many instance types there are.
    pub types: usize,
    /// How many instance types have an on-demand price.
    pub on_demand: usize,
    /// How many instance types have a spot price somewhere.
    pub spot: usize,
}

/// Asks for instance types, where they are offered, prices, and the IDs of zones, which subnets
/// alone name.
///
/// # Errors
/// The types are not known. Prices and IDs that cannot be had are noted.
pub async fn read(clients: &Clients, now: SystemTime) -> Result<SavedWorld, ApiError> {
    let mut notes = Vec::new();
    let types = wire::types::descriptions(clients).await?;
    let offered = wire::types::offerings(clients).await?;
    let subnets = wire::network::subnets(clients, &Filters::new()).await;
    let subnets = subnets.unwrap_or_else(|why| {
        notes.push(format!("zones have no IDs: {}", why.with_hint()));
        Vec::new()
    });
    let ids: BTreeMap<String, String> = subnets
        .into_iter()
        .map(|subnet| (subnet.zone, subnet.zone_id))
        .collect();
    let (mut region, problems) = discovery::region(clients.region(), &types, &offered, &ids);
    notes.extend(problems.list.iter().map(ToString::to_string));
    match prices::has_list(clients.region()) {
        false => {
            notes.push("there is no price list of this region; recorded prices stand in".into())
        }
        true => {
            let (list, all) = prices::price_list(clients).await;
            discovery::set_on_demand_prices(&mut region, &list);
            if let Err(why) = all {
                let why = why.with_hint();
                notes.push(format!("some on-demand prices are recorded ones: {why}"));
            }
        }
    }
    match wire::types::spot_prices(clients, now).await {
        Ok(all) if !all.is_empty() => discovery::set_spot_prices(&mut region, &all),
        Ok(_) => notes.push("EC2 has no spot prices; on-demand prices hold".into()),
        Err(why) => {
            let why = why.with_hint();
            notes.push(format!("no spot prices, on-demand prices hold: {why}"));
        }
    }
    Ok(saved(&region, types, notes))
}

/// The file of a region whose types EC2 describes so.
fn saved(region: &Region, types: Vec<Value>, notes: Vec<String>) -> SavedWorld {
    let zones = region.zones();
    let (mut offered, mut on_demand, mut spot) = (json!({}), json!({}), json!({}));
    for (at, kind) in region.types().iter().enumerate() {
        let here = region.offered_in(at);
        let names = here.iter().filter_map(|zone| zones.get(zone));
        offered[&*kind.name] = names.map(|zone| &*zone.name).collect();
        if let Some(price) = region.on_demand(at) {
            on_demand[&*kind.name] = price.into();
        }
        let prices = here.iter().filter_map(|zone| {
            let price = region.known_spot(at, zone)?;
            Some((zones.get(zone)?.name.to_string(), Value::from(price)))
        });
        let prices: serde_json::Map<String, Value> = prices.collect();
        if !prices.is_empty() {
            spot[&*kind.name] = prices.into();
        }
    }
    let count = |of: &Value| of.as_object().map_or(0, serde_json::Map::len);
    let (with_on_demand, with_spot) = (count(&on_demand), count(&spot));
    let mut prices = json!({"onDemand": on_demand});
    if with_spot > 0 {
        prices["spot"] = spot;
    }
    let ids = zones.iter().map(|zone| {
        let (name, id): (&str, &str) = (&zone.name, &zone.id);
        (name.to_owned(), Value::from(id))
    });
    let ids: serde_json::Map<String, Value> = ids.collect();
    SavedWorld {
        json: json!({
            "region": region.name(), "zones": ids, "offeredIn": offered, "prices": prices,
            "instanceTypes": types,
        }),
        notes,
        region: region.name().to_owned(),
        zones: zones.len(),
        types: region.types().len(),
        on_demand: with_on_demand,
        spot: with_spot,
    }
}
