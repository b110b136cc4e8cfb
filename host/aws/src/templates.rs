//! Launch templates that are known to exist, and when they go.
//!
//! A template's name is a digest of its content (`longshore_ec2::launch`), so that one that is known
//! need not be looked at. Templates that no launch has used for a while are deleted: EC2 allows 5 000
//! of them. After a restart they are found again by the cluster's tag.

use std::collections::HashMap;

/// How long a template stays that no launch uses, in seconds: longer than a launch with all its
/// attempts, so that none is deleted under a launch.
pub const IDLE_SECONDS: i64 = 300;

/// Names of templates that exist, and when each was used last.
#[derive(Clone, Debug, Default)]
pub struct KnownTemplates {
    by_name: HashMap<String, i64>,
}

impl KnownTemplates {
    /// Whether a template exists; it counts as used.
    pub fn uses(&mut self, name: &str, now: i64) -> bool {
        match self.by_name.get_mut(name) {
            Some(used) => {
                *used = now.max(*used);
                true
            }
            None => false,
        }
    }

    /// A template was made, or found.
    pub fn add(&mut self, name: &str, now: i64) {
        let used = self.by_name.entry(name.to_owned()).or_insert(now);
        *used = now.max(*used);
    }

    /// A template is gone.
    pub fn forget(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Takes out those that are not used any more: they are to be deleted.
    pub fn idle(&mut self, now: i64) -> Vec<String> {
        let over = |used: &i64| now.saturating_sub(*used) > IDLE_SECONDS;
        let mut names: Vec<String> = self
            .by_name
            .iter()
            .filter(|(_, used)| over(used))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        names.iter().for_each(|name| self.forget(name));
        names
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_goes_when_no_launch_has_used_it_for_long() {
        let mut known = KnownTemplates::default();
        known.add("a", 0);
        known.add("b", 0);
        assert!(known.uses("a", 200) && !known.uses("c", 200));
        assert!(known.idle(IDLE_SECONDS).is_empty());
        assert_eq!(known.idle(IDLE_SECONDS + 1), ["b"]);
        assert!(
            !known.uses("b", IDLE_SECONDS + 1),
            "it is not used again once it is to be deleted"
        );
        known.add("a", 0);
        assert!(
            known.idle(200 + IDLE_SECONDS).is_empty(),
            "found again, it is not older than it was"
        );
        known.forget("a");
        assert!(known.is_empty());
    }
}
