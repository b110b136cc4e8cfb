//! Feature gates of the kubelet, by its version.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::versions::KNOWN;

/// A feature gate of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gate {
    /// What it is if nobody sets it.
    pub default: bool,
    /// Whether it can be set to nothing else.
    pub locked: bool,
    /// The gate that sets all of its stage, if there is one.
    pub all: Option<&'static str>,
}

/// Gates that set all of a stage, but for those that are set themselves.
pub(super) const ALL: [&str; 2] = ["AllAlpha", "AllBeta"];

/// Name, then two letters for each version of [`KNOWN`], in a column each. The first is `t` or `f` for
/// the default, capital if it is locked, `-` where there is no such gate; the second is `a` for alpha,
/// `b` for beta, `g` for what is neither.
static TABLE: LazyLock<BTreeMap<&'static str, (&'static str, &'static str)>> =
    LazyLock::new(|| {
        let lines = include_str!("../../data/feature_gates.tsv").lines();
        let read = |line: &'static str| {
            let (name, letters) = line.split_once('\t')?;
            Some((name, letters.split_once('\t')?))
        };
        lines
            .filter(|line| !line.starts_with('#'))
            .filter_map(read)
            .collect()
    });

/// The gate of a name, if a kubelet of the version knows it.
pub(super) fn gate(name: &str, minor: u16) -> Option<Gate> {
    let at = minor.checked_sub(*KNOWN.start())?;
    let (defaults, stages) = TABLE.get(name)?;
    let letter = defaults.as_bytes().get(usize::from(at))?;
    let default = letter.eq_ignore_ascii_case(&b't');
    let all = match stages.as_bytes().get(usize::from(at))? {
        b'a' => Some(ALL[0]),
        b'b' => Some(ALL[1]),
        _ => None,
    };
    (*letter != b'-').then_some(Gate {
        default,
        locked: letter.is_ascii_uppercase(),
        all,
    })
}

/// Gates of a version that need others: each with those that must be on if it is.
pub(super) fn needs(minor: u16) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let lines = include_str!("../../data/feature_gate_needs.tsv").lines();
    lines.filter_map(move |line| {
        let mut cells = line.split('\t');
        let (name, version) = (cells.next()?, cells.next()?);
        let same = version.parse() == Ok(minor);
        same.then(|| (name, cells.collect()))
    })
}

/// The name of a gate that is written so, in any case.
pub(super) fn spelled(name: &str) -> Option<&'static str> {
    let mut names = TABLE.keys();
    names.find(|own| own.eq_ignore_ascii_case(name)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_has_a_letter_for_each_version() {
        for (name, (letters, stages)) in &*TABLE {
            assert_eq!(letters.len(), KNOWN.count(), "{name}");
            let known = letters.chars().all(|letter| "tfTF-".contains(letter));
            assert!(known && letters.contains(['t', 'f', 'T', 'F']), "{name}");
            let mut pairs = letters.chars().zip(stages.chars());
            let is_known = |(letter, stage): (char, char)| {
                "abg-".contains(stage) && (letter == '-') == (stage == '-')
            };
            assert!(
                stages.len() == letters.len() && pairs.all(is_known),
                "{name}"
            );
        }
        assert!(TABLE.len() > 200);
    }

    #[test]
    fn gates_are_locked_and_removed_by_version() {
        let of = |name, minor| gate(name, minor).map(|gate| (gate.default, gate.locked));
        assert_eq!(of("NoSuchGate", 36), None);
        assert_eq!(of("InPlacePodVerticalScaling", 32), Some((false, false)));
        assert_eq!(of("InPlacePodVerticalScaling", 34), Some((true, false)));
        assert_eq!(of("InPlacePodVerticalScaling", 36), Some((true, true)));
        assert_eq!(of("NodeSwap", 28), Some((false, false)));
        assert_eq!(spelled("nodeswap"), Some("NodeSwap"));
    }

    #[test]
    fn gates_belong_to_a_stage_by_version() {
        let of = |minor| gate("NodeSwap", minor).and_then(|gate| gate.all);
        assert_eq!(of(27), Some("AllAlpha"));
        assert_eq!(of(30), Some("AllBeta"));
        assert_eq!(of(36), None);
    }
}
