//! `[cloud]`, `[spot]`, `[[faults]]`: properties of the cloud, its disturbances, and faults with
//! their times.

use std::time::Duration;

use longshore_live::config::reader::Table;

use super::known::ScenarioBasics;
use super::values::{MAX_SCENARIO, moment, share};
use crate::scenario::Window;
use longshore_simcluster::cloud::{self, CloudOptions, Disturbances, Latencies};
use longshore_simcluster::faults::RequestFaults;

/// The cloud, and the windows in which things go wrong.
pub fn disturbances(root: &mut Table, known: &ScenarioBasics) -> (CloudOptions, Vec<Window>) {
    let mut options = CloudOptions::default();
    if let Some(mut table) = root.table("cloud") {
        options.latencies = pace(&mut table);
        if known.on_ec2 {
            not_on_ec2(
                &mut table,
                &["notice"],
                "EC2 gives notice two minutes before",
            );
        }
        options.capacity = table
            .number(
                "capacity",
                0.0..=1e6,
                "how many instances there can be of each offering",
            )
            .map(|capacity| capacity as u32);
        table.finish();
    }
    if let Some(mut table) = root.table("spot") {
        options.disturbances = spot(&mut table);
        if known.on_ec2 {
            let hint = "prices of the emulated EC2 stay; write an [[event]] with `do = \
                        \"shortage\"` for a storm";
            let keys = ["prices-every", "volatility", "storms", "storm-length"];
            not_on_ec2(&mut table, &keys, hint);
        }
        table.finish();
    }
    let windows = root
        .tables("faults")
        .into_iter()
        .map(|table| window(table, known))
        .collect();
    (options, windows)
}

/// Keys that the emulated EC2 does not have.
fn not_on_ec2(table: &mut Table, keys: &[&str], hint: &str) {
    for key in keys {
        if table.has(key) {
            let message = format!("`{key}` means nothing with `provider = \"aws\"`");
            table.fault_at(key, message, hint.to_owned());
        }
    }
}

fn pace(table: &mut Table) -> Latencies {
    let default = Latencies::default();
    let range = || Duration::ZERO..=Duration::from_secs(3600);
    Latencies {
        launch: table.duration("launch", range()).unwrap_or(default.launch),
        boot: table.duration("boot", range()).unwrap_or(default.boot),
        end: table.duration("end", range()).unwrap_or(default.end),
        notice: table.duration("notice", range()).unwrap_or(default.notice),
        ..default
    }
}

fn spot(table: &mut Table) -> Disturbances {
    let default = Disturbances::default();
    let disturbances = Disturbances {
        prices_every: table
            .duration("prices-every", Duration::from_secs(10)..=MAX_SCENARIO)
            .unwrap_or_default(),
        volatility: table
            .number(
                "volatility",
                0.0..=1.0,
                "the largest change in one move, as a share",
            )
            .unwrap_or(0.0),
        interruptions: table
            .number("interruptions", 0.0..=60.0, "of one instance in an hour")
            .unwrap_or(0.0),
        capacity_outages: table
            .number("storms", 0.0..=60.0, "in an hour")
            .unwrap_or(0.0),
        outage_length: table
            .duration("storm-length", Duration::from_secs(60)..=MAX_SCENARIO)
            .unwrap_or(default.outage_length),
    };
    if disturbances.prices_every.is_zero() != (disturbances.volatility <= 0.0) {
        let message =
            "prices move by `volatility`, every `prices-every`: expected both or none".into();
        let key = if table.has("volatility") {
            "volatility"
        } else {
            "prices-every"
        };
        table.fault_at(
            key,
            message,
            "for example `prices-every = \"5m\"` and `volatility = 0.03`".into(),
        );
    }
    disturbances
}

fn window(mut table: Table, known: &ScenarioBasics) -> Window {
    let from = moment(&mut table, "from", known.duration).unwrap_or_default();
    let to = table
        .duration("to", Duration::ZERO..=MAX_SCENARIO)
        .unwrap_or(known.duration);
    if to <= from || to > known.duration {
        let message = format!(
            "`to` is {}: expected a moment after `from` and not after the end",
            crate::scenario::acts::text(to)
        );
        table.fault_at("to", message, "leave it out for the whole scenario".into());
    }
    let mut of = |key: &str, of: &str| share(&mut table, key, of).unwrap_or(0.0);
    let server = RequestFaults {
        conflict: of("conflict", "writes, which are answered with 409"),
        busy: of("busy", "requests, which are answered with 429"),
        failing: of("failing", "requests, which are answered with 500"),
        lost_request: of("lost-requests", "requests that do not arrive"),
        lost_answer: of("lost-answers", "requests whose answer does not arrive"),
        late_request: of("late", "requests that arrive up to six seconds later"),
        stale: of("stale", "lists that are up to three seconds old"),
        kill: of("kill", "requests with which the daemon dies"),
        calls: of("calls-fail", "calls of the cloud that are no launches"),
        ..RequestFaults::default()
    };
    let cloud = cloud::LaunchFaults {
        fail: of("launches-fail", "launches"),
        slow: of("launches-slow", "launches, which take ten times as long"),
        lost: of("launch-answers-lost", "launches"),
        never_register: of("nodes-never-join", "instances"),
        never_ready: of("nodes-never-ready", "nodes"),
        ..cloud::LaunchFaults::default()
    };
    if known.on_ec2 {
        let hint = "launches of EC2 fail by `launches-fail` and `launch-answers-lost`";
        not_on_ec2(&mut table, &["calls-fail"], hint);
    }
    if server == RequestFaults::default()
        && [
            cloud.fail,
            cloud.slow,
            cloud.lost,
            cloud.never_register,
            cloud.never_ready,
        ] == [0.0; 5]
    {
        let hint = "add a share, as `busy = 0.02`, or delete the table".into();
        table.fault_at(
            "from",
            "[[faults]] in which nothing goes wrong".into(),
            hint,
        );
    }
    table.finish();
    Window {
        from,
        to,
        server,
        cloud,
    }
}
