//! Faults on request: annotations under `kwok.longshore.dev/` on a KWOKNodeClass or a NodeClaim
//! (which gets those of its NodePool's template), so that failures can be tried in any cluster.
//! Those of the claim win.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_api::crd::duration;
use longshore_cloud::CloudError;

const PREFIX: &str = "kwok.longshore.dev/";

/// What is to go wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// `no-capacity`: patterns `TYPE/ZONE/CAPACITY-TYPE` separated by commas, `*` for any.
    pub no_capacity: Vec<[String; 3]>,
    /// `launch-delay`: how long a launch takes.
    pub launch_delay: Duration,
    /// `fail-launch`: the share of launches that fail, 0 to 1.
    pub fail_launch: f64,
    /// `never-register`: the share of nodes that never appear.
    pub never_register: f64,
    /// `never-ready`: the share of nodes that appear and never get ready.
    pub never_ready: f64,
}

impl Faults {
    /// Reads annotations, the later ones over the earlier.
    ///
    /// # Errors
    /// An unknown fault or a value that makes no sense.
    pub fn read<'a>(
        sources: impl IntoIterator<Item = &'a BTreeMap<String, String>>,
    ) -> Result<Self, CloudError> {
        let mut faults = Faults::default();
        for (key, value) in sources.into_iter().flatten() {
            let Some(name) = key.strip_prefix(PREFIX) else {
                continue;
            };
            let wrong = |hint: &str| {
                CloudError::Invalid(format!(
                    "annotation {key}: {value:?} is not understood; {hint}"
                ))
            };
            let share = || {
                let share = if value == "true" {
                    Some(1.0)
                } else {
                    value.parse::<f64>().ok()
                };
                share
                    .filter(|s| (0.0..=1.0).contains(s))
                    .ok_or_else(|| wrong("expected true or a share from 0 to 1"))
            };
            match name {
                "no-capacity" => {
                    let pattern = |text: &str| {
                        let parts: Vec<String> =
                            text.trim().split('/').map(str::to_owned).collect();
                        <[String; 3]>::try_from(parts)
                            .map_err(|_| wrong("expected TYPE/ZONE/CAPACITY-TYPE, * for any"))
                    };
                    faults.no_capacity = value
                        .split(',')
                        .filter(|t| !t.trim().is_empty())
                        .map(pattern)
                        .collect::<Result<_, _>>()?;
                }
                "launch-delay" => {
                    faults.launch_delay = duration::duration(value)
                        .map_err(|_| wrong("expected a duration such as 30s"))?;
                }
                "fail-launch" => faults.fail_launch = share()?,
                "never-register" => faults.never_register = share()?,
                "never-ready" => faults.never_ready = share()?,
                _ => {
                    let known =
                        "no-capacity, launch-delay, fail-launch, never-register and never-ready";
                    return Err(CloudError::Invalid(format!(
                        "annotation {key} is not a fault; there are {known}"
                    )));
                }
            }
        }
        Ok(faults)
    }

    /// Whether an offering is out of capacity.
    pub fn is_short(&self, offering: [&str; 3]) -> bool {
        let fits = |pattern: &[String; 3]| {
            pattern
                .iter()
                .zip(offering)
                .all(|(p, o)| p == "*" || p == o)
        };
        self.no_capacity.iter().any(fits)
    }
}

/// Whether chance hits: the same UID and the same question always give the same answer.
pub fn hit(share: f64, uid: &str, question: &str) -> bool {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in uid.bytes().chain(question.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    ((hash >> 11) as f64) / ((1u64 << 53) as f64) < share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Faults, CloudError> {
        Faults::read([&pairs
            .iter()
            .map(|(k, v)| (format!("{PREFIX}{k}"), v.to_string()))
            .collect()])
    }

    #[test]
    fn faults_are_read_from_annotations() {
        let faults = read(&[
            ("no-capacity", "m5.large/*/spot, */z1/*"),
            ("launch-delay", "1m"),
            ("never-ready", "true"),
        ]);
        let faults = faults.unwrap();
        assert!(
            faults.is_short(["m5.large", "z9", "spot"])
                && faults.is_short(["x", "z1", "on-demand"])
        );
        assert!(!faults.is_short(["m5.large", "z9", "on-demand"]));
        assert_eq!(
            (faults.launch_delay.as_secs(), faults.never_ready),
            (60, 1.0)
        );
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let text = |pairs: &[(&str, &str)]| read(pairs).unwrap_err().to_string();
        assert!(text(&[("explode", "true")]).contains("is not a fault"));
        assert!(text(&[("fail-launch", "2")]).contains("share from 0 to 1"));
        assert!(text(&[("no-capacity", "m5.large")]).contains("TYPE/ZONE/CAPACITY-TYPE"));
        assert!(text(&[("launch-delay", "soon")]).contains("such as 30s"));
    }

    #[test]
    fn chance_is_the_same_for_the_same_uid() {
        let hits = (0..1000)
            .filter(|n| hit(0.3, &format!("uid-{n}"), "fail"))
            .count();
        assert!((200..400).contains(&hits), "{hits}");
        assert_eq!(hit(0.5, "a", "b"), hit(0.5, "a", "b"));
        assert!(hit(1.0, "a", "b") && !hit(0.0, "a", "b"));
    }
}
