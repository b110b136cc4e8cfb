//! Values that several tables have: a moment, a share, a word among others, a path.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_live::config::reader::{Table, did_you_mean, expected};

use crate::scenario::acts;

/// The longest scenario: somewhat more than a year.
pub(super) const MAX_SCENARIO: Duration = Duration::from_secs(400 * 86_400);
/// The shortest.
pub(super) const MIN_SCENARIO: Duration = Duration::from_secs(60);

/// A moment under `key`, before the end.
pub(super) fn moment(table: &mut Table, key: &str, duration: Duration) -> Option<Duration> {
    let at = table.duration(key, Duration::ZERO..=MAX_SCENARIO)?;
    if at >= duration {
        let (at, end) = (acts::text(at), acts::text(duration));
        let message = format!("`{key}` is {at}, and the scenario ends after {end}");
        table.fault_at(
            key,
            message,
            "choose an earlier moment, or make `duration` longer".into(),
        );
        return None;
    }
    Some(at)
}

/// A share, from 0 to 1.
pub(super) fn share(table: &mut Table, key: &str, of: &str) -> Option<f64> {
    table.number(
        key,
        0.0..=1.0,
        &format!("it is a share of {of}: 0.05 for five in a hundred"),
    )
}

/// A word that must be among others.
pub(super) fn check_word(
    table: &Table,
    key: &str,
    typed: &str,
    known: &[&str],
    what: &str,
) -> bool {
    if known.contains(&typed) {
        return true;
    }
    let hint = did_you_mean(typed, known).unwrap_or_else(|| match known.len() {
        0 => "there is none at all".to_owned(),
        1..20 => format!("expected {}", expected(known)),
        _ => format!("there are {}, such as `{}`", known.len(), known[0]),
    });
    table.fault_at(key, format!("{what} `{typed}` is not there"), hint);
    false
}

/// A path of the file.
pub(super) fn path(folder: &Path, typed: &str) -> PathBuf {
    folder.join(typed)
}
