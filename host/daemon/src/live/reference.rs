//! The reference of metrics in `host/docs`, generated and compared. `UPDATE_EXPECT=1` writes it
//! again.

use expect_test::expect_file;
use prometheus::proto::MetricType;

use super::{gauges, metrics};
use crate::reference::{table, with_section};

const PAGE: &str = include_str!("../../../docs/metrics.md");

/// A metric.
pub struct Row {
    pub name: String,
    kind: &'static str,
    labels: Vec<String>,
    help: String,
}

impl Row {
    /// From the registry.
    pub fn new(
        name: &str,
        kind: MetricType,
        labels: impl IntoIterator<Item = String>,
        help: &str,
    ) -> Self {
        let kind = match kind {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::SUMMARY => "summary",
            MetricType::HISTOGRAM => "histogram",
            other => panic!("{name} is {other:?}"),
        };
        let mut labels: Vec<String> = labels.into_iter().collect();
        labels.sort();
        labels.dedup();
        Row {
            name: name.to_owned(),
            kind,
            labels,
            help: help.to_owned(),
        }
    }

    fn cells(self) -> Vec<String> {
        let label = |label: &String| {
            if label.starts_with('*') {
                label.clone()
            } else {
                format!("`{label}`")
            }
        };
        let labels: Vec<String> = self.labels.iter().map(label).collect();
        vec![
            format!("`{}`", self.name),
            self.kind.to_owned(),
            labels.join(", "),
            self.help,
        ]
    }
}

fn rows(mut rows: Vec<Row>) -> String {
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    table(
        &["metric", "type", "labels", "meaning"],
        rows.into_iter().map(Row::cells),
    )
}

#[test]
fn the_reference_of_metrics_is_that_of_the_code() {
    let (ours, theirs): (Vec<Row>, Vec<Row>) = metrics::reference::rows()
        .into_iter()
        .partition(|row| row.name.starts_with("longshore_"));
    let page = with_section(PAGE, "events", &rows(theirs));
    let page = with_section(&page, "cluster", &rows(gauges::reference::rows()));
    let page = with_section(&page, "longshore", &rows(ours));
    expect_file!["../../../docs/metrics.md"].assert_eq(&page);
}
