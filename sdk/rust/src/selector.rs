use serde::Deserialize;

use crate::offerings;

/// Which offerings a setting is about: glob patterns (`*`, `?`), all of which must match; absent
/// ones always do.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Selector {
    /// `m7g.*`, `*.metal`.
    pub instance_type: Option<String>,
    /// `us-east-1?`.
    pub zone: Option<String>,
    /// `on-demand`.
    pub capacity_type: Option<String>,
    /// `arm64`.
    pub architecture: Option<String>,
}

/// What selectors look at: the static columns of names.
#[derive(Clone, Debug)]
pub struct Keys {
    instance_types: Column,
    zones: Column,
    capacity_types: Column,
    architectures: Column,
}

#[derive(Clone, Debug)]
struct Column {
    names: Vec<String>,
    rows: Vec<u32>,
}

impl Keys {
    /// Pulls the columns. They are static: keep them, or what you derive from them, in a
    /// [`PerEdition`](crate::PerEdition).
    pub fn pull() -> Self {
        Keys {
            instance_types: Column {
                names: offerings::instance_type_names(),
                rows: offerings::instance_types(),
            },
            zones: Column {
                names: offerings::zone_names(),
                rows: offerings::zones(),
            },
            capacity_types: Column {
                names: offerings::capacity_type_names(),
                rows: offerings::capacity_types(),
            },
            architectures: Column {
                names: offerings::architecture_names(),
                rows: offerings::architectures(),
            },
        }
    }

    /// For each offering, which of `selectors` is the first that matches it.
    pub fn first_match<'a>(
        &self,
        selectors: impl IntoIterator<Item = &'a Selector>,
    ) -> Vec<Option<usize>> {
        let mut first = vec![None; self.instance_types.rows.len()];
        for (number, selector) in selectors.into_iter().enumerate() {
            for (slot, matches) in first.iter_mut().zip(self.matches(selector)) {
                if slot.is_none() && matches {
                    *slot = Some(number);
                }
            }
        }
        first
    }

    /// For each offering, whether `selector` matches it.
    pub fn matches(&self, selector: &Selector) -> Vec<bool> {
        let mut all = vec![true; self.instance_types.rows.len()];
        for (column, pattern) in [
            (&self.instance_types, &selector.instance_type),
            (&self.zones, &selector.zone),
            (&self.capacity_types, &selector.capacity_type),
            (&self.architectures, &selector.architecture),
        ] {
            let Some(pattern) = pattern else { continue };
            let names: Vec<bool> = column
                .names
                .iter()
                .map(|name| glob(pattern, name))
                .collect();
            for (matches, &row) in all.iter_mut().zip(&column.rows) {
                *matches &= names[row as usize];
            }
        }
        all
    }
}

/// Whether a text matches a pattern, in which `*` stands for any characters and `?` for any one.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and how far the text was then: what it stands for grows from there.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((at, from)) => {
                    *from += 1;
                    (p, t) = (*at + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Offering};

    #[test]
    fn a_glob_is_stars_and_question_marks() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("m7g.*", "m7g.large", true),
            ("m7g.*", "m7gd.large", false),
            ("*.metal", "m7g.metal", true),
            ("*.metal*", "m7g.metal-24xl", true),
            ("us-east-1?", "us-east-1a", true),
            ("us-east-1?", "us-east-1", false),
            ("*a*b*", "xaybz", true),
            ("*a*b", "xaybz", false),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern, text), matches, "{pattern} against {text}");
        }
    }

    #[test]
    fn the_first_selector_that_matches_counts() {
        let rows = [
            ("m7g.large", "spot"),
            ("m7g.large", "on-demand"),
            ("c7i.large", "spot"),
        ]
        .map(|(instance_type, capacity_type)| Offering {
            instance_type,
            capacity_type,
            ..Offering::default()
        });
        let selector = |text: &str| serde_json::from_str::<Selector>(text).unwrap();
        let selectors = [
            selector(r#"{"instance-type": "m7g.*", "capacity-type": "spot"}"#),
            selector(r#"{"instance-type": "m*"}"#),
        ];
        testing::with(&rows, || {
            assert_eq!(
                Keys::pull().first_match(&selectors),
                [Some(0), Some(1), None]
            )
        });
    }
}
