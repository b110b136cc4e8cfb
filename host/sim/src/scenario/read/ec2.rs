//! `provider = "aws"`: the account that nodes come from.

use std::path::Path;

use longshore_emulator::Account;
use longshore_live::config::reader::Table;
use serde_json::json;

use super::files::MAX_WORLD_BYTES;
use super::values::path;
use crate::harness::aws::AccountOptions;
use longshore_simcluster::cloud;

/// The account: that of `world`, or the built-in region.
pub fn account(root: &mut Table, folder: &Path) -> AccountOptions {
    let mut options = AccountOptions::default();
    if root.text("instance-types").is_some() {
        let message = "`instance-types` means nothing with `provider = \"aws\"`".into();
        let hint = "EC2 says which types there are: name a file of a region under `world`, or \
                    leave it out for the built-in region";
        root.fault_at("instance-types", message, hint.into());
    }
    let Some(typed) = root.text("world") else {
        return options;
    };
    let file = path(folder, typed);
    let read = longshore_files::read(&file, MAX_WORLD_BYTES)
        .map_err(|error| format!("cannot read it: {error}"));
    let read = read.and_then(|bytes| {
        let read = Account::read(&file.display().to_string(), &bytes, None);
        read.map_err(|error| error.to_string())
    });
    match read {
        Ok((account, _)) => options.account = account,
        Err(why) => {
            let message = format!("`world`: {}: {why}", file.display());
            let hint = "as for `longshore emulate aws --world`: host/emulator/README.md";
            root.fault_at("world", message, hint.into());
        }
    }
    options
}

/// What can be bought: type, zone and capacity type of each.
pub fn offerings(options: &AccountOptions) -> Vec<[String; 3]> {
    let mut all = Vec::new();
    for one in options.account.types.values() {
        for zone in &one.zones {
            if one.on_demand.is_some() {
                all.push([one.name.clone(), zone.clone(), "on-demand".to_owned()]);
            }
            if one.spot.contains_key(zone) {
                all.push([one.name.clone(), zone.clone(), "spot".to_owned()]);
            }
        }
    }
    all
}

/// What [cloud] and [spot] say.
pub fn apply(options: &mut AccountOptions, cloud: &cloud::CloudOptions) {
    let spread = |mean: std::time::Duration, spread: f64| {
        let of = |share: f64| i64::try_from(mean.mul_f64(share).as_millis()).unwrap_or(i64::MAX);
        (of(1.0 - spread), of(1.0 + spread))
    };
    let pace = &cloud.latencies;
    let settings = &mut options.account.settings;
    settings.start_milliseconds = spread(pace.launch, pace.spread);
    settings.boot_milliseconds = spread(pace.boot, pace.spread);
    settings.stop_milliseconds = spread(pace.end, pace.spread);
    options.interruptions = cloud.disturbances.interruptions;
    if let Some(capacity) = cloud.capacity {
        let rules = serde_json::from_value(json!([{"free": capacity}]));
        options.account.capacity = rules.unwrap_or_default();
    }
}
