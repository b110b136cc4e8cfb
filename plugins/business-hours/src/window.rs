//! A window of time that comes again every week.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    pub node_pools: Vec<String>,
    pub days: Option<Vec<String>>,
    pub from: String,
    pub to: String,
    pub time_zone: Option<String>,
    pub least_savings: Option<f64>,
    pub reasons: Option<Vec<String>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            node_pools: Vec::new(),
            days: None,
            from: "08:00".into(),
            to: "18:00".into(),
            time_zone: None,
            least_savings: None,
            reasons: None,
        }
    }
}

/// See [`Settings`].
pub struct Window {
    pub pools: Vec<String>,
    pub least_savings: Option<f64>,
    reasons: Vec<String>,
    /// Monday first.
    days: [bool; 7],
    /// Seconds after midnight.
    from: i64,
    /// Seconds, at most a day.
    length: i64,
    /// Seconds east of UTC.
    offset: i64,
    name: String,
}

const DAY: i64 = 86_400;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Window {
    /// A window from its settings, in a zone unless it names its own.
    pub fn new(settings: Settings, zone: i64) -> Result<Self, String> {
        let named = settings.time_zone.as_deref();
        let offset = named.map(offset).transpose();
        let offset = offset.map_err(|error| format!("`time-zone`: {error}"))?;
        let from = time(&settings.from).map_err(|error| format!("`from` {error}"))?;
        let to = time(&settings.to).map_err(|error| format!("`to` {error}"))?;
        let length = (to - from).rem_euclid(DAY);
        let days = match &settings.days {
            None => [true, true, true, true, true, false, false],
            Some(named) => DAYS.map(|day| named.iter().any(|name| name == day)),
        };
        if !days.contains(&true) {
            return Err("`days` is empty: expected a day, or no `days`".into());
        }
        let offset = offset.unwrap_or(zone);
        let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
        let zone = match offset {
            0 => "UTC".to_owned(),
            1.. => format!("UTC+{hours:02}:{minutes:02}"),
            _ => format!("UTC-{hours:02}:{minutes:02}"),
        };
        let reasons = settings
            .reasons
            .unwrap_or_else(|| vec!["Underutilized".into(), "Drifted".into()]);
        Ok(Window {
            pools: settings.node_pools,
            least_savings: settings.least_savings,
            reasons,
            days,
            from,
            length: if length == 0 { DAY } else { length },
            offset,
            name: format!("{} to {} {zone}", settings.from, settings.to),
        })
    }

    /// Whether it keeps a proposal while it lasts.
    pub fn keeps(&self, reason: &str, savings: f64) -> bool {
        self.reasons.iter().any(|kept| kept == reason)
            && self.least_savings.is_none_or(|least| savings < least)
    }

    /// When it ends, if it lasts at a time; seconds since 1970.
    pub fn end(&self, now: f64) -> Option<f64> {
        let local = now.floor() as i64 + self.offset;
        let today = local.div_euclid(DAY);
        let end = |day: i64| {
            let begins = day * DAY + self.from;
            // 1970 began on a Thursday.
            let weekday = (day + 3).rem_euclid(7) as usize;
            let lasts = (begins..begins + self.length).contains(&local);
            (self.days[weekday] && lasts).then_some(begins + self.length - self.offset)
        };
        let ends = [today - 1, today].into_iter().filter_map(end);
        ends.max().map(|end| end as f64)
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Seconds after midnight of `HH:MM`.
fn time(text: &str) -> Result<i64, String> {
    let parsed = parse(text).filter(|seconds| *seconds < DAY);
    parsed.ok_or_else(|| format!("{text:?}: expected a time from 00:00 to 23:59"))
}

fn parse(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str| {
        let two = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
        two.then(|| digits.parse::<i64>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (minutes < 60).then_some(hours * 3600 + minutes * 60)
}

/// Seconds east of UTC of `UTC`, `+HH:MM` or `-HH:MM`.
pub fn offset(text: &str) -> Result<i64, String> {
    let signed = |sign: char| text.strip_prefix(sign).and_then(parse);
    let offset = match text {
        "UTC" | "Z" => Some(0),
        _ => signed('+').or_else(|| signed('-').map(|seconds| -seconds)),
    };
    let usual = offset.filter(|seconds| seconds.abs() <= 14 * 3600);
    usual.ok_or_else(|| {
        format!(
            "{text:?}: expected UTC or a fixed offset such as +01:00; names of zones are not known"
        )
    })
}
