//! Output of a scenario: text, JSON, drawings.

pub mod compare;
pub mod json;
pub mod plot;
pub mod rows;
pub mod text;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// `Mon 14:00` for runs of up to a week, `01-19 14:00` for longer ones.
pub(crate) fn moment(begins: Timestamp, at: Duration, whole: Duration) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let then = begins.checked_add(at).unwrap_or(Timestamp::MAX);
    let text = then.to_string();
    let (date, time) = (
        text.get(5..10).unwrap_or_default(),
        text.get(11..16).unwrap_or_default(),
    );
    if whole > Duration::from_secs(7 * 86_400) {
        return format!("{date} {time}");
    }
    let day = then.as_second().div_euclid(86_400).rem_euclid(7);
    format!("{} {time}", DAYS[day as usize])
}

/// `3.4 s`, `2m 5s`, `1h 20m`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0}m {:02.0}s", (s / 60.0).floor(), s % 60.0),
        s => format!(
            "{:.0}h {:02.0}m",
            (s / 3600.0).floor(),
            (s / 60.0).floor() % 60.0
        ),
    }
}
