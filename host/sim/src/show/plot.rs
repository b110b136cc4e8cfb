//! Drawings in SVG: cost per hour, nodes by sort, pending pods; of several days also cost and
//! evictions by day. No fonts are read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plotters::prelude::*;

use crate::scenario::play::ScenarioOutcome;
use crate::stats::{InstanceGroup, Sample};

/// Width and height, points.
const SIZE: (u32, u32) = (960, 360);
/// Sorts that have a colour of their own; the others are one.
const MAX_SORTS: usize = 7;
/// Colours that colour-blind people can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; MAX_SORTS + 1] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 94, 240),
    RGBColor(150, 150, 150),
];

/// Why there is no drawing.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The folder cannot be written to.
    #[error("cannot write {}", file.display())]
    Write {
        file: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It cannot be drawn.
    #[error("cannot draw {what}: {why}")]
    Draw {
        /// The drawing.
        what: &'static str,
        /// The cause.
        why: String,
    },
}

/// Writes `cost.svg`, `pending.svg` (all runs in one) and `nodes-by-pool.svg`, `nodes-by-type.svg`
/// of the first run into a folder; of others `nodes-by-…-2.svg` and so on. Of runs of two days and
/// more also `cost-by-day.svg` and `evictions-by-day.svg`. Says which.
///
/// # Errors
/// The folder cannot be written to.
pub fn plots(runs: &[ScenarioOutcome], folder: &Path) -> Result<Vec<PathBuf>, PlotError> {
    let cannot = |file: &Path| {
        let file = file.to_owned();
        move |source| PlotError::Write { file, source }
    };
    std::fs::create_dir_all(folder).map_err(cannot(folder))?;
    let mut files = Vec::new();
    let mut put = |name: String, svg: String| {
        let file = folder.join(name);
        std::fs::write(&file, svg).map_err(cannot(&file))?;
        files.push(file);
        Ok::<_, PlotError>(())
    };
    put(
        "cost.svg".into(),
        lines(runs, "cost", "USD per hour", |run| {
            each(run, |sample| sample.usd_per_hour)
        })?,
    )?;
    put(
        "pending.svg".into(),
        lines(runs, "pods without a node", "pods", |run| {
            each(run, |sample| sample.most_pending as f64)
        })?,
    )?;
    if runs.iter().any(|run| run.totals.time >= 2 * DAY) {
        let cost = |day: &[Sample]| {
            24.0 * day.iter().map(|s| s.usd_per_hour).sum::<f64>() / day.len().max(1) as f64
        };
        put(
            "cost-by-day.svg".into(),
            lines(runs, "cost of each day", "USD", |run| by_day(run, cost))?,
        )?;
        put(
            "evictions-by-day.svg".into(),
            lines(runs, "pods evicted each day", "pods", evictions_by_day)?,
        )?;
    }
    for (at, run) in runs.iter().enumerate() {
        let more = if at == 0 {
            String::new()
        } else {
            format!("-{}", at + 1)
        };
        let by_pool = |kind: &InstanceGroup| format!("{} {}", kind.pool, kind.capacity_type);
        put(
            format!("nodes-by-pool{more}.svg"),
            stacked(run, "nodes by NodePool", by_pool)?,
        )?;
        put(
            format!("nodes-by-type{more}.svg"),
            stacked(run, "nodes by family", |kind| kind.family.clone())?,
        )?;
    }
    Ok(files)
}

fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> PlotError {
    move |why| PlotError::Draw {
        what,
        why: why.to_string(),
    }
}

/// Unit of the time axis and how many seconds it has.
fn unit(seconds: f64) -> (&'static str, f64) {
    match seconds {
        s if s <= 3.0 * 3600.0 => ("minutes", 60.0),
        s if s <= 3.0 * 86_400.0 => ("hours", 3600.0),
        _ => ("days", 86_400.0),
    }
}

const DAY: Duration = Duration::from_secs(86_400);

/// A number that holds from a moment until the next one.
type Point = (Duration, f64);

/// A number of each sample.
fn each(run: &ScenarioOutcome, of: fn(&Sample) -> f64) -> Vec<Point> {
    run.samples.iter().map(|s| (s.at, of(s))).collect()
}

/// A number of each day's samples, from its beginning.
fn by_day(run: &ScenarioOutcome, of: impl Fn(&[Sample]) -> f64) -> Vec<Point> {
    let day = |sample: &Sample| (sample.at.as_secs() / DAY.as_secs()) as u32;
    let days = run.samples.chunk_by(|a, b| day(a) == day(b));
    let mut points: Vec<Point> = days
        .map(|day_of| (DAY * day(&day_of[0]), of(day_of)))
        .collect();
    points.extend(points.last().map(|&(_, last)| (run.totals.time, last)));
    points
}

/// Pods that had to leave a node that was drained, by day.
fn evictions_by_day(run: &ScenarioOutcome) -> Vec<Point> {
    let mut before = 0.0;
    let mut points = by_day(run, |day| day.last().map_or(0.0, |s| s.evicted as f64));
    for (_, evicted) in &mut points {
        let so_far = std::mem::replace(&mut before, *evicted);
        *evicted -= so_far;
    }
    // The last point repeats the last day's.
    if let [.., last_day, end] = points.as_mut_slice() {
        end.1 = last_day.1;
    }
    points
}

/// A line for each run.
fn lines(
    runs: &[ScenarioOutcome],
    what: &'static str,
    unit_of: &str,
    of: impl Fn(&ScenarioOutcome) -> Vec<Point>,
) -> Result<String, PlotError> {
    let name = runs.first().map_or("", |run| run.name.as_str());
    let points: Vec<Vec<Point>> = runs.iter().map(of).collect();
    let most = points
        .iter()
        .flatten()
        .map(|(_, number)| *number)
        .fold(0.0, f64::max);
    let end = runs
        .iter()
        .map(|run| run.totals.time.as_secs_f64())
        .fold(60.0, f64::max);
    let (time, seconds) = unit(end);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed(what))?;
        let mut chart = ChartBuilder::on(&area)
            .caption(format!("{name}: {what}"), ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..end / seconds, 0.0..(most * 1.08).max(1e-3))
            .map_err(failed(what))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(time)
            .y_desc(unit_of)
            .x_label_formatter(&whole)
            .draw()
            .map_err(failed(what))?;
        for (at, (run, points)) in runs.iter().zip(&points).enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let points = points
                .iter()
                .map(|(from, number)| (from.as_secs_f64() / seconds, *number));
            let series = chart
                .draw_series(LineSeries::new(steps(points), colour.stroke_width(2)))
                .map_err(failed(what))?;
            if runs.len() > 1 {
                let key =
                    move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3));
                series.label(run.policy.clone()).legend(key);
            }
        }
        if runs.len() > 1 {
            let mut labels = chart.configure_series_labels();
            labels
                .background_style(WHITE.mix(0.85))
                .border_style(TRANSPARENT)
                .draw()
                .map_err(failed(what))?;
        }
        area.present().map_err(failed(what))?;
    }
    Ok(svg)
}

/// Areas on top of each other, the largest sort below.
fn stacked(
    run: &ScenarioOutcome,
    what: &'static str,
    sort: impl Fn(&InstanceGroup) -> String,
) -> Result<String, PlotError> {
    let mut sums: BTreeMap<String, usize> = BTreeMap::new();
    for (kind, count) in run.samples.iter().flat_map(|sample| &sample.nodes) {
        *sums.entry(sort(kind)).or_default() += count;
    }
    let mut sorts: Vec<(String, usize)> = sums.into_iter().collect();
    sorts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut names: Vec<String> = sorts
        .iter()
        .take(MAX_SORTS)
        .map(|(name, _)| name.clone())
        .collect();
    if sorts.len() > MAX_SORTS {
        names.push("others".to_owned());
    }
    let layer = |kind: &InstanceGroup| {
        let name = sort(kind);
        names
            .iter()
            .position(|other| *other == name)
            .unwrap_or(names.len().saturating_sub(1))
    };
    let end = run.totals.time.as_secs_f64().max(60.0);
    let (time, seconds) = unit(end);
    let most = run
        .samples
        .iter()
        .map(Sample::all_nodes)
        .max()
        .unwrap_or(0)
        .max(1);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed(what))?;
        let mut chart = ChartBuilder::on(&area)
            .caption(
                format!("{}: {what}, scored by {}", run.name, run.policy),
                ("sans-serif", 18),
            )
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..end / seconds, 0.0..most as f64 * 1.08)
            .map_err(failed(what))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(time)
            .y_desc("nodes")
            .x_label_formatter(&whole)
            .y_label_formatter(&whole)
            .draw()
            .map_err(failed(what))?;
        // The sum of all layers is drawn first, and the lower ones over it.
        for top in (0..names.len()).rev() {
            let height = |sample: &Sample| {
                let below = sample.nodes.iter().filter(|(kind, _)| layer(kind) <= top);
                below.map(|(_, count)| *count).sum::<usize>() as f64
            };
            let colour = COLOURS[top % COLOURS.len()];
            let points = run
                .samples
                .iter()
                .map(|sample| (sample.at.as_secs_f64() / seconds, height(sample)));
            let key = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled());
            let series = AreaSeries::new(steps(points), 0.0, colour.mix(1.0));
            chart
                .draw_series(series)
                .map_err(failed(what))?
                .label(names[top].clone())
                .legend(key);
        }
        let mut labels = chart.configure_series_labels();
        labels
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(TRANSPARENT);
        labels.draw().map_err(failed(what))?;
        area.present().map_err(failed(what))?;
    }
    Ok(svg)
}

/// `5`, but `2.5` where it is no whole number.
fn whole(number: &f64) -> String {
    if number.fract().abs() < 1e-6 {
        format!("{number:.0}")
    } else {
        format!("{number:.1}")
    }
}

/// Values hold until the next one.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        if let Some(&(_, last)) = all.last()
            && last != y
        {
            all.push((x, last));
        }
        // A flat stretch needs its ends alone.
        if all.len() >= 2 && all[all.len() - 2].1 == y && all[all.len() - 1].1 == y {
            all.pop();
        }
        all.push((x, y));
    }
    all
}
