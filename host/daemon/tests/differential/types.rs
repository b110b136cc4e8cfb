//! What can be bought.

use serde_json::{Value, json};

use super::{Making, Theme};

/// Instance types: three to twelve, in one to three sizes of a few families.
pub fn make(making: &mut Making) {
    let wanted = making.random.between(3, 12);
    for _ in 0..wanted * 2 {
        if making.types.len() < wanted {
            let made = instance_type(making);
            if making
                .types
                .iter()
                .all(|other| other["name"] != made["name"])
            {
                making.types.push(made);
            }
        }
    }
}

fn instance_type(making: &mut Making) -> Value {
    let random = &mut making.random;
    let (family, gib) = *random.pick(&[("c", 2), ("s", 4), ("m", 8)]);
    let cpus = *random.pick(&[1, 2, 2, 4, 4, 8, 16]);
    let arch = if random.chance(30) { "arm64" } else { "amd64" };
    let os = if random.chance(12) {
        "windows"
    } else {
        "linux"
    };
    let ec2 = match cpus {
        2 => "large".to_owned(),
        4 => "xlarge".to_owned(),
        more => format!("{}xlarge", more / 4),
    };
    let name = match cpus > 1 && os == "linux" && random.chance(40) {
        true => format!("{family}{}.{ec2}", if arch == "arm64" { "6g" } else { "5" }),
        false => format!("{family}-{cpus}x-{arch}-{os}"),
    };
    let price = (cpus * 25 + cpus * gib + random.below(20)) as f64 / 1000.0;
    let mut resources = json!({
        "cpu": cpus.to_string(),
        "memory": format!("{}Gi", cpus * gib),
        "pods": random.pick(&["4", "8", "16", "110"]),
        "ephemeral-storage": "20Gi",
    });
    if making.themes.contains(&Theme::Resources) && making.random.chance(30) {
        resources["nvidia.com/gpu"] = json!(making.random.between(1, 4).to_string());
    }
    let offerings = offerings(making, price);
    let systems = if making.random.chance(5) {
        vec!["linux", "windows"]
    } else {
        vec![os]
    };
    json!({"name": name, "offerings": offerings, "architecture": arch, "operatingSystems": systems, "resources": resources})
}

fn offerings(making: &mut Making, price: f64) -> Vec<Value> {
    let random = &mut making.random;
    let mut all = Vec::new();
    for zone in &making.zones {
        for capacity in ["spot", "on-demand"] {
            if random.chance(20) {
                continue;
            }
            let share = if capacity == "spot" {
                random.between(35, 80) as f64 / 100.0
            } else {
                1.0
            };
            let price = (price * share * 1e5).round() / 1e5;
            // drawn when some were not available, which the provider does not look at
            random.below(100);
            all.push(offering(price, zone, capacity));
        }
    }
    if all.is_empty() {
        all.push(offering(price, making.zones[0], "on-demand"));
    }
    all
}

fn offering(price: f64, zone: &str, capacity: &str) -> Value {
    json!({"Price": price, "Available": true, "Requirements": [
        {"key": super::rules::CAPACITY, "operator": "In", "values": [capacity]},
        {"key": super::rules::ZONE, "operator": "In", "values": [zone]},
    ]})
}
