//! Business hours: windows in which nodes are left alone, or go only for enough savings.
//!
//! A proposal is put off until the first time at which no window of its NodePools keeps it, at most
//! a day ahead; it is asked about again then. Time zones are fixed offsets from UTC: daylight saving
//! time is not known here.

mod window;

use longshore_sdk::{About, Consolidation, Decision, glob, nodes, proposals, request};
use serde::Deserialize;

use window::{Settings as WindowSettings, Window, offset};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    time_zone: Option<String>,
    windows: Vec<WindowSettings>,
}

struct BusinessHours {
    windows: Vec<Window>,
}

impl Consolidation for BusinessHours {
    const ABOUT: About = About {
        name: "business-hours",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Leaves nodes alone in windows of time, unless enough is saved.",
        signals: &[],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        let zone = settings.time_zone.as_deref().unwrap_or("UTC");
        let zone = offset(zone).map_err(|error| format!("`time-zone`: {error}"))?;
        let windows = settings
            .windows
            .into_iter()
            .enumerate()
            .map(|(at, window)| {
                Window::new(window, zone).map_err(|error| format!("`windows` {at}: {error}"))
            });
        Ok(BusinessHours {
            windows: windows.collect::<Result<_, _>>()?,
        })
    }

    fn decide(&mut self) -> Result<Vec<Decision>, String> {
        let (pool_names, pools) = (nodes::node_pool_names(), nodes::node_pools());
        let (reason_names, reasons) = (proposals::reason_names(), proposals::reasons());
        let (removed, ends) = (proposals::removed(), proposals::removed_ends());
        let (savings, now) = (proposals::savings(), request::now());
        let decisions = proposals::parts(&removed, &ends)
            .zip(&reasons)
            .zip(&savings);
        Ok(decisions
            .map(|((rows, &reason), &savings)| {
                let reason = &reason_names[reason as usize];
                let of_pool = |window: &&Window| {
                    let name = |&row: &u32| &pool_names[pools[row as usize] as usize];
                    window.pools.is_empty()
                        || rows
                            .iter()
                            .any(|row| window.pools.iter().any(|known| glob(known, name(row))))
                };
                let keeps = |window: &&Window| window.keeps(reason, savings) && of_pool(window);
                let windows: Vec<&Window> = self.windows.iter().filter(keeps).collect();
                decision(&windows, now, savings)
            })
            .collect())
    }
}

/// What windows that would keep a proposal make of it at a time.
fn decision(windows: &[&Window], now: f64, savings: f64) -> Decision {
    let Some(first) = windows.iter().find(|window| window.end(now).is_some()) else {
        return Decision::yes(savings, "");
    };
    let mut free = now;
    // Windows that follow each other without a gap are one.
    while let Some(end) = windows
        .iter()
        .filter_map(|window| window.end(free))
        .reduce(f64::max)
    {
        free = end;
        if free > now + DAY {
            break;
        }
    }
    let reason = match first.least_savings {
        Some(least) => {
            format!("within {first} only for {least} USD per hour, and this saves {savings:.4}")
        }
        None => format!("not within {first}"),
    };
    Decision::later(free, reason)
}

const DAY: f64 = 86_400.0;

longshore_sdk::export_consolidation!(BusinessHours);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::{Cluster, Node, Proposal, with_cluster};

    use super::*;

    /// Tuesday 2026-11-24, 00:00 UTC.
    const TUESDAY: f64 = 1_795_478_400.0;
    const HOUR: f64 = 3600.0;

    fn window() -> WindowSettings {
        WindowSettings::default()
    }

    fn decide(windows: Vec<WindowSettings>, now: f64, proposal: Proposal) -> Decision {
        let settings = Settings {
            time_zone: None,
            windows,
        };
        let cluster = Cluster {
            now,
            nodes: vec![Node::default()],
            proposals: vec![proposal],
            ..Cluster::default()
        };
        with_cluster(cluster, || {
            BusinessHours::new(settings)
                .unwrap()
                .decide()
                .unwrap()
                .remove(0)
        })
    }

    #[test]
    fn within_a_window_a_proposal_waits_for_its_end() {
        let at = |hour: f64| decide(vec![window()], TUESDAY + hour * HOUR, Proposal::default());
        assert_eq!(at(7.9).not_before, 0.0);
        let within = at(8.0);
        assert_eq!(within.not_before, TUESDAY + 18.0 * HOUR);
        assert_eq!(within.reason, "not within 08:00 to 18:00 UTC");
        assert_eq!(at(18.0).not_before, 0.0);
        let saturday = decide(vec![window()], TUESDAY + 106.0 * HOUR, Proposal::default());
        assert_eq!(saturday.not_before, 0.0, "only Monday to Friday");
    }

    #[test]
    fn enough_savings_go_nevertheless_and_empty_nodes_always() {
        let threshold = || WindowSettings {
            least_savings: Some(0.5),
            ..window()
        };
        let noon = TUESDAY + 12.0 * HOUR;
        let saves = |savings| Proposal {
            savings,
            ..Proposal::default()
        };
        let little = decide(vec![threshold()], noon, saves(0.4));
        assert_eq!(
            little.reason,
            "within 08:00 to 18:00 UTC only for 0.5 USD per hour, and this saves 0.4000"
        );
        assert_eq!(decide(vec![threshold()], noon, saves(0.5)).not_before, 0.0);
        let empty = Proposal {
            reason: "Empty",
            ..Proposal::default()
        };
        assert_eq!(decide(vec![window()], noon, empty).not_before, 0.0);
    }

    #[test]
    fn a_window_is_for_its_node_pools() {
        let of = |pool: &str| WindowSettings {
            node_pools: vec![pool.into()],
            ..window()
        };
        let noon = TUESDAY + 12.0 * HOUR;
        let until = |pool| decide(vec![of(pool)], noon, Proposal::default()).not_before;
        assert_eq!(
            [until("batch-*"), until("def*")],
            [0.0, TUESDAY + 18.0 * HOUR]
        );
    }

    #[test]
    fn windows_without_a_gap_between_them_are_one() {
        let from = |from: &str, to: &str| WindowSettings {
            from: from.into(),
            to: to.into(),
            ..window()
        };
        let two = vec![from("08:00", "12:00"), from("12:00", "02:00")];
        let put_off = decide(two, TUESDAY + 9.0 * HOUR, Proposal::default());
        assert_eq!(put_off.not_before, TUESDAY + 26.0 * HOUR, "over midnight");
    }

    #[test]
    fn a_window_that_never_ends_puts_off_by_a_day() {
        let always = WindowSettings {
            from: "00:00".into(),
            to: "00:00".into(),
            days: Some(
                ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
                    .map(String::from)
                    .to_vec(),
            ),
            ..window()
        };
        assert_eq!(
            decide(vec![always], TUESDAY, Proposal::default()).not_before,
            TUESDAY + DAY
        );
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let problem = |window: WindowSettings| {
            let settings = Settings {
                time_zone: None,
                windows: vec![window],
            };
            BusinessHours::new(settings).err().unwrap()
        };
        let from = |from: &str| WindowSettings {
            from: from.into(),
            ..window()
        };
        assert_eq!(
            problem(from("25:00")),
            "`windows` 0: `from` \"25:00\": expected a time from 00:00 to 23:59"
        );
        let zone = WindowSettings {
            time_zone: Some("Europe/Berlin".into()),
            ..window()
        };
        assert!(problem(zone).contains("expected UTC or a fixed offset"));
    }
}
