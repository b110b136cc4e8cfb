//! The gauges of the cluster's state, for the reference in `host/docs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longshore_core::model::Symbols;
use prometheus::proto::MetricType;

use super::families::FAMILIES;
use super::{MetricsSnapshot, Pages, tests};
use crate::metrics::reference::Row;
use crate::observe::pod_latency::PodLatency;
use crate::observe::state::TypeTable;

/// Stands for the labels that a node has one of for each well-known label.
const WELL_KNOWN: &str = "*well-known labels*";

/// A row for each family, with the labels that it has in a cluster where each says something.
pub fn rows() -> Vec<Row> {
    let mut names = Symbols::default();
    let types = include_bytes!("../../../../daemon/tests/data/types.json");
    let (catalogue, _) = longshore_kwok::catalogue::parse("types.json", types, &mut names);
    let mut decisions = PodLatency::default();
    decisions.waits("shop/late", "2026-11-01T11:59:10Z".parse().unwrap());
    let picture = |decisions: &PodLatency| {
        let now = "2026-11-01T12:00:00Z".parse().unwrap();
        MetricsSnapshot {
            now,
            pod_latency: decisions.clone(),
            classes: vec![tests::class()],
            types: Arc::new(TypeTable::of(&catalogue, &names)),
            ..tests::ending(names.clone()).metrics_snapshot(&catalogue)
        }
    };
    let undecided = picture(&decisions);
    decisions.decided("shop/late", true, "2026-11-01T11:59:30Z".parse().unwrap());
    let keys: BTreeSet<String> = undecided
        .keys
        .iter()
        .map(|(_, name)| name.clone())
        .collect();
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in Pages::new(undecided)
        .chain(Pages::new(picture(&decisions)))
        .collect::<String>()
        .lines()
    {
        if let Some((name, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let found = rest
                .split("=\"")
                .filter_map(|text| text.rsplit(['{', ',']).next());
            let found = found.filter(|label| !label.contains(['"', '}']));
            labels
                .entry(name.to_owned())
                .or_default()
                .extend(found.map(str::to_owned));
        }
    }
    let row = |family: &super::families::Family| {
        let mut labels = labels
            .remove(family.name)
            .unwrap_or_else(|| panic!("no line of {}", family.name));
        if family.name.starts_with("karpenter_nodes_") {
            labels.retain(|label| !keys.contains(label));
            labels.insert(WELL_KNOWN.to_owned());
        }
        Row::new(family.name, MetricType::GAUGE, labels, family.help)
    };
    FAMILIES.iter().map(row).collect()
}
