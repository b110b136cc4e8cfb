//! The reference of metrics in `host/docs`, generated and compared. `UPDATE_EXPECT=1` writes it
//! again.

use expect_test::expect_file;

use super::gauges;
use crate::generated_pages::{table, with_section};
use crate::metrics;
use crate::metrics::reference::Row;

const PAGE: &str = include_str!("../../../docs/metrics.md");

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
