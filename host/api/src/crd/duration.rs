//! Durations of the custom resources: whole hours, minutes and seconds such as `720h` or `1h30m`,
//! or `Never`.

use std::time::Duration;

/// How long something lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// For ever.
    Never,
    /// Until this much time has passed.
    After(Duration),
}

impl Lifetime {
    /// The time, unless it never ends.
    pub fn after(self) -> Option<Duration> {
        match self {
            Lifetime::Never => None,
            Lifetime::After(time) => Some(time),
        }
    }
}

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a duration of hours, minutes and seconds up to 292 years, such as 720h or 1h30m"
)]
pub struct NotADuration(pub String);

/// Reads a duration, such as a `terminationGracePeriod`.
pub fn duration(text: &str) -> Result<Duration, NotADuration> {
    let seconds = crate::time::plain_duration(text).and_then(|seconds| u64::try_from(seconds).ok());
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| NotADuration(text.to_owned()))
}

/// Reads a duration that may be `Never`, such as an `expireAfter`.
pub fn lifetime(text: &str) -> Result<Lifetime, NotADuration> {
    if text == "Never" {
        Ok(Lifetime::Never)
    } else {
        duration(text).map(Lifetime::After)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_durations_or_never() {
        let after = |seconds| Ok(Lifetime::After(Duration::from_secs(seconds)));
        assert_eq!(lifetime("720h"), after(2_592_000));
        assert_eq!(lifetime("1h30m5s"), after(5405));
        assert_eq!(lifetime("0s"), after(0));
        assert_eq!(lifetime("Never"), Ok(Lifetime::Never));
        for bad in ["", "never", "5", "1d", "1.5h", "-1h", "9999999999h"] {
            assert_eq!(lifetime(bad), Err(NotADuration(bad.to_owned())));
        }
        assert_eq!(duration("Never"), Err(NotADuration("Never".to_owned())));
    }
}
