//! What is remembered of purchases that did not help: two annotations of the NodePool that the nodes
//! were bought from. They outlive the nodes, their NodeClaims and this process.

/// Annotation of NodePools: groups of pods for which nodes were bought in vain, see [`Useless`].
pub const USELESS: &str = "longshore.dev/useless-purchases";
/// Annotation of NodePools whose last nodes never joined, see [`Unjoined`].
pub const UNJOINED: &str = "longshore.dev/nodes-never-joined";
/// Annotation of NodeClaims: the circumstances that they were bought in, 16 hexadecimal digits.
pub const BOUGHT_GIVEN: &str = "longshore.dev/bought-given";

/// A group of pods for which a node was bought that did not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Useless {
    /// The group, by its digest.
    pub group: u64,
    /// How often in a row.
    pub times: u32,
    /// No other node is bought before this, seconds since 1970.
    pub until: i64,
    /// When it was found, seconds since 1970.
    pub found: i64,
    /// When the newest NodeClaim that counts was made, seconds since 1970.
    pub created: i64,
    /// Name of that NodeClaim.
    pub claim: Box<str>,
    /// The NodePools and node classes that it was bought with, by their digest.
    pub given: u64,
}

/// Nodes of a NodePool that never joined, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjoined {
    /// Number of such nodes.
    pub nodes: u32,
    /// How often purchases were put off for it.
    pub times: u32,
    /// No other node is bought before this, seconds since 1970.
    pub until: i64,
    /// The NodePool and its node class at the time, by their digest.
    pub given: u64,
}

/// What is remembered of a NodePool's purchases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purchases {
    /// Groups of pods, in the order of the annotation.
    pub useless: Vec<Useless>,
    /// Nodes that never joined. `None` once a node has joined.
    pub unjoined: Option<Unjoined>,
}

impl Useless {
    /// The annotation [`USELESS`]: an entry for each group, fields separated by commas.
    pub fn write(all: &[Useless]) -> String {
        let one = |entry: &Useless| {
            let Useless {
                group,
                times,
                until,
                found,
                created,
                claim,
                given,
            } = entry;
            format!("{group:016x},{times},{until},{found},{created},{claim},{given:016x}")
        };
        all.iter().map(one).collect::<Vec<_>>().join(";")
    }

    /// Reads it; entries that make no sense are left out.
    pub fn read(text: &str) -> Vec<Useless> {
        text.split(';').filter_map(Useless::one).collect()
    }

    fn one(text: &str) -> Option<Useless> {
        let mut parts = text.split(',');
        let mut next = || parts.next();
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Useless {
            group: hex(next()?)?,
            times: next()?.parse().ok()?,
            until: next()?.parse().ok()?,
            found: next()?.parse().ok()?,
            created: next()?.parse().ok()?,
            claim: next()?.into(),
            given: hex(next()?)?,
        })
    }
}

impl Unjoined {
    /// The annotation [`UNJOINED`].
    pub fn write(&self) -> String {
        let Unjoined {
            nodes,
            times,
            until,
            given,
        } = self;
        format!("{nodes},{times},{until},{given:016x}")
    }

    /// Reads it; nothing if it makes no sense.
    pub fn read(text: &str) -> Option<Unjoined> {
        let mut parts = text.split(',');
        let mut next = || parts.next();
        Some(Unjoined {
            nodes: next()?.parse().ok()?,
            times: next()?.parse().ok()?,
            until: next()?.parse().ok()?,
            given: u64::from_str_radix(next()?, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let entry = |group, claim: &str| Useless {
            group,
            times: 2,
            until: 1_764_220_300,
            found: 1_764_220_000,
            created: 1_764_219_900,
            claim: claim.into(),
            given: u64::MAX,
        };
        let all = [entry(7, "default-bcdf"), entry(u64::MAX - 1, "spot-x2")];
        assert_eq!(Useless::read(&Useless::write(&all)), all);
        assert_eq!(Useless::read("nonsense;;7,1").len(), 0);
        let unjoined = Unjoined {
            nodes: 3,
            times: 1,
            until: 1_764_220_300,
            given: 9,
        };
        assert_eq!(Unjoined::read(&unjoined.write()), Some(unjoined));
        assert_eq!(Unjoined::read("3"), None);
    }
}
