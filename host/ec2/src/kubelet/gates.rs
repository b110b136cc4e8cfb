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
}

/// Name, then a letter for each version of [`KNOWN`]: `t` and `f` for the default, capital if it is
/// locked, `-` where there is no such gate.
static TABLE: LazyLock<BTreeMap<&'static str, &'static str>> = LazyLock::new(|| {
    let lines = include_str!("../../data/feature_gates.tsv").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .collect()
});

/// The gate of a name, if a kubelet of the version knows it.
pub(super) fn gate(name: &str, minor: u16) -> Option<Gate> {
    let at = minor.checked_sub(*KNOWN.start())?;
    let letter = TABLE.get(name)?.as_bytes().get(usize::from(at))?;
    let default = letter.eq_ignore_ascii_case(&b't');
    (*letter != b'-').then_some(Gate {
        default,
        locked: letter.is_ascii_uppercase(),
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
        for (name, letters) in &*TABLE {
            assert_eq!(letters.len(), KNOWN.count(), "{name}");
            let known = letters.chars().all(|letter| "tfTF-".contains(letter));
            assert!(known && letters.contains(['t', 'f', 'T', 'F']), "{name}");
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
}
