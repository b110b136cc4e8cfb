//! The time of the emulated account: an argument of every call, never a clock.

/// Milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

/// One second in the unit of [`Time`].
pub const SECOND: i64 = 1_000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;

impl Time {
    /// This many milliseconds later; earlier if negative.
    #[must_use]
    pub fn plus(self, milliseconds: i64) -> Time {
        Time(self.0.saturating_add(milliseconds))
    }

    /// Milliseconds from `earlier` to this time.
    pub fn since(self, earlier: Time) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `2026-11-25T06:38:03.250Z`, as EC2, IAM and STS write times.
    pub fn iso(self) -> String {
        format!("{:.3}", self.timestamp())
    }

    /// `2026-11-25T06:38:03Z`, as EventBridge writes times.
    pub fn iso_seconds(self) -> String {
        format!("{:.0}", self.timestamp())
    }

    /// `Wed, 25 Nov 2026 06:38:03 GMT`, for the header `Date`.
    pub fn http(self) -> String {
        jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&self.timestamp())
            .unwrap_or_default()
    }

    /// Seconds, as JSON protocols write times.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / SECOND as f64
    }

    /// A time from text like `2026-11-25T06:38:03Z`.
    pub fn parse(text: &str) -> Option<Time> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        Some(Time(timestamp.as_millisecond()))
    }

    /// The year 1970 stands for times that no calendar has.
    fn timestamp(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_each_protocol_wants_it() {
        let time = Time::parse("2026-11-25T06:38:03.25Z").unwrap();
        assert_eq!(time.iso(), "2026-11-25T06:38:03.250Z");
        assert_eq!(time.iso_seconds(), "2026-11-25T06:38:03Z");
        assert_eq!(time.http(), "Wed, 25 Nov 2026 06:38:03 GMT");
        assert_eq!(time.seconds(), 1_795_588_683.25);
        assert_eq!(Time::parse("yesterday"), None);
    }
}
