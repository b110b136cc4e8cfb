//! A Prometheus summary: count, sum, and quantiles of the last minutes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary as Wire};
use tokio::time::Instant;

use crate::process::lock::lock;

/// Quantiles are of at most this many values, the last ones.
const MAX_VALUES: usize = 512;
/// Quantiles are of values that are no older than this.
const MAX_VALUE_AGE: Duration = Duration::from_secs(600);
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

/// Values by one label. Copies share them.
#[derive(Clone)]
pub struct Summary {
    desc: Desc,
    label: Option<&'static str>,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
}

#[derive(Default)]
struct Seen {
    count: u64,
    sum: f64,
    last: VecDeque<(Instant, f64)>,
}

impl Summary {
    /// Nothing seen yet.
    ///
    /// # Errors
    /// The name is none.
    pub fn new(name: &str, help: &str, label: Option<&'static str>) -> prometheus::Result<Self> {
        let labels = label.into_iter().map(str::to_owned).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, Default::default())?;
        Ok(Summary {
            desc,
            label,
            seen: Arc::default(),
        })
    }

    /// Takes a value in; `of` is that of the label, if there is one.
    pub fn observe(&self, of: &str, value: f64) {
        let mut all = lock(&self.seen);
        let seen = all.entry(of.to_owned()).or_default();
        (seen.count, seen.sum) = (seen.count + 1, seen.sum + value);
        if seen.last.len() == MAX_VALUES {
            seen.last.pop_front();
        }
        seen.last.push_back((Instant::now(), value));
    }

    fn metric(&self, of: &str, seen: &Seen, now: Instant) -> Metric {
        let recent = seen
            .last
            .iter()
            .filter(|(at, _)| now.saturating_duration_since(*at) < MAX_VALUE_AGE);
        let mut values: Vec<f64> = recent.map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        let quantile = |of: f64| {
            let at = (of * values.len() as f64).ceil() as usize;
            let mut quantile = Quantile::default();
            quantile.set_quantile(of);
            quantile.set_value(
                values
                    .get(at.saturating_sub(1))
                    .copied()
                    .unwrap_or(f64::NAN),
            );
            quantile
        };
        let mut wire = Wire::default();
        wire.set_sample_count(seen.count);
        wire.set_sample_sum(seen.sum);
        wire.set_quantile(QUANTILES.map(quantile).to_vec());
        let mut metric = Metric::default();
        metric.set_label(self.label.into_iter().map(|name| pair(name, of)).collect());
        metric.set_summary(wire);
        metric
    }
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

impl Collector for Summary {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Instant::now();
        let metrics = lock(&self.seen)
            .iter()
            .map(|(of, seen)| self.metric(of, seen, now))
            .collect();
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(MetricType::SUMMARY);
        family.set_metric(metrics);
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Encoder as _, TextEncoder};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn quantiles_forget_what_is_old_and_sums_do_not() {
        let summary = Summary::new("startup_seconds", "Seconds.", Some("nodepool")).unwrap();
        summary.observe("web", 1000.0);
        tokio::time::advance(MAX_VALUE_AGE).await;
        (1..=100).for_each(|value| summary.observe("web", f64::from(value)));
        let mut out = Vec::new();
        TextEncoder::new()
            .encode(&summary.collect(), &mut out)
            .unwrap();
        expect_test::expect![[r#"
            # HELP startup_seconds Seconds.
            # TYPE startup_seconds summary
            startup_seconds{nodepool="web",quantile="0"} 1
            startup_seconds{nodepool="web",quantile="0.5"} 50
            startup_seconds{nodepool="web",quantile="0.9"} 90
            startup_seconds{nodepool="web",quantile="0.99"} 99
            startup_seconds{nodepool="web",quantile="1"} 100
            startup_seconds_sum{nodepool="web"} 6050
            startup_seconds_count{nodepool="web"} 101
        "#]]
        .assert_eq(&String::from_utf8(out).unwrap());
    }
}
