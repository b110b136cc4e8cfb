//! Versions of kubelets: those whose rules are known, and those that nodes may have.

use std::ops::RangeInclusive;

/// Minor versions whose rules are known: 1.26 to 1.37.
pub const KNOWN: RangeInclusive<u16> = 26..=37;

/// The kubelets that nodes may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelets {
    /// Minor versions, each once and in order.
    pub(super) minors: Vec<u16>,
    /// Whether nodes of each of these versions are made. Otherwise it is one of them, and it is not
    /// known which.
    pub(super) each: bool,
}

impl Kubelets {
    /// Any version.
    pub fn unknown() -> Self {
        Kubelets {
            minors: KNOWN.collect(),
            each: false,
        }
    }

    /// Nodes of each of these minor versions are made. Versions whose rules are not known are left
    /// out; if none is left, nothing is refused.
    pub fn each(minors: impl IntoIterator<Item = u16>) -> Self {
        let mut minors: Vec<u16> = minors.into_iter().filter(|of| KNOWN.contains(of)).collect();
        minors.sort_unstable();
        minors.dedup();
        Kubelets { minors, each: true }
    }

    /// That of a version such as `1.36` or `v1.36.4-eks-1`; any version if it is none.
    pub fn of(version: &str) -> Self {
        minor(version).map_or_else(Self::unknown, |minor| Self::each([minor]))
    }

    /// Those that a cluster of a version takes: its own and the three before.
    pub fn up_to(version: &str) -> Self {
        let Some(newest) = minor(version) else {
            return Self::unknown();
        };
        let own = newest.saturating_sub(3)..=newest;
        Kubelets {
            minors: own.filter(|of| KNOWN.contains(of)).collect(),
            each: false,
        }
    }

    /// Whether something is refused that the kubelets refuse for which `refuses` holds.
    pub fn refuse(&self, refuses: impl Fn(u16) -> bool) -> bool {
        let mut minors = self.minors.iter().copied();
        match self.each {
            true => minors.any(refuses),
            false => !self.minors.is_empty() && minors.all(refuses),
        }
    }

    /// The newest, as far as its rules are known.
    pub fn newest(&self) -> u16 {
        self.minors.last().copied().unwrap_or(*KNOWN.end())
    }
}

/// The minor version of `1.36`, `v1.36.4` or `1.36+`.
pub fn minor(version: &str) -> Option<u16> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let rest = version.strip_prefix("1.")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit());
    rest[..digits.unwrap_or(rest.len())].parse().ok()
}
