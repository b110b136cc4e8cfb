//! When what an EC2NodeClass selects is looked for again: at each part's own pace, and at once where
//! the class or the version of Kubernetes has changed.

use std::collections::BTreeMap;

use super::EC2NodeClass;
use crate::hash::migration::{HASH, HASH_VERSION};

/// A part of the status that is observed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Images.
    Images,
    /// Capacity reservations.
    Reservations,
    /// The placement group.
    Placement,
    /// Subnets.
    Subnets,
    /// Security groups.
    Groups,
    /// The instance profile.
    Profile,
    /// The dry runs.
    Validation,
}

/// How long each part holds, in seconds.
pub const PACE: [(Part, i64); 7] = [
    (Part::Images, 300),
    (Part::Reservations, 60),
    (Part::Placement, 300),
    (Part::Subnets, 60),
    (Part::Groups, 300),
    (Part::Profile, 900),
    (Part::Validation, 1800),
];

/// How often classes are looked at, in seconds.
pub const CLASS_POLL_SECONDS: u64 = 5;
/// How often the version of Kubernetes is read, in seconds.
pub const KUBERNETES_VERSION_POLL_SECONDS: u64 = 300;

/// What a class was like when it was looked at last, and when its parts are observed again.
#[derive(Clone, Debug, Default)]
pub struct Due {
    generation: Option<i64>,
    /// Annotations of others.
    annotations: BTreeMap<String, String>,
    /// The version of Kubernetes that images were chosen for.
    kubernetes: String,
    at: BTreeMap<Part, i64>,
}

impl Due {
    /// A class is looked at. All of it is due where its spec is another one, images and the dry runs
    /// after an upgrade of the cluster, and the dry runs where an annotation has changed, as with
    /// Karpenter.
    pub fn look(&mut self, class: &EC2NodeClass, kubernetes: &str) {
        if self.generation != class.metadata.generation {
            self.generation = class.metadata.generation;
            self.at.clear();
        }
        let mut annotations = class.metadata.annotations.clone().unwrap_or_default();
        annotations.retain(|key, _| key != HASH && key != HASH_VERSION);
        if self.annotations != annotations {
            self.annotations = annotations;
            self.at.remove(&Part::Validation);
        }
        if self.kubernetes != kubernetes {
            kubernetes.clone_into(&mut self.kubernetes);
            self.at.remove(&Part::Images);
            self.at.remove(&Part::Validation);
        }
    }

    /// The generation of the class.
    pub fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// Whether a part is observed now.
    pub fn is_due(&self, part: Part, now: i64) -> bool {
        self.next(part).is_none_or(|at| at <= now)
    }

    /// When a part is observed again; nothing if that is at once.
    pub fn next(&self, part: Part) -> Option<i64> {
        self.at.get(&part).copied()
    }

    /// A part was observed, and is again at that time.
    pub fn again(&mut self, part: Part, at: i64) {
        self.at.insert(part, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(generation: i64, annotations: &[(&str, &str)]) -> EC2NodeClass {
        let mut class = EC2NodeClass::new("main", Default::default());
        class.metadata.generation = Some(generation);
        let own = annotations.iter();
        let own = own.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        class.metadata.annotations = Some(own.collect());
        class
    }

    /// Parts that are due, all of which are observed again after an hour.
    fn due(due: &mut Due, class: &EC2NodeClass, kubernetes: &str) -> Vec<Part> {
        due.look(class, kubernetes);
        let parts = PACE.into_iter().map(|(part, _)| part);
        let parts: Vec<Part> = parts.filter(|part| due.is_due(*part, 0)).collect();
        parts.iter().for_each(|part| due.again(*part, 3600));
        parts
    }

    #[test]
    fn what_changes_is_observed_at_once() {
        let known = &mut Due::default();
        assert_eq!(due(known, &class(1, &[]), "1.35").len(), PACE.len());
        assert_eq!(due(known, &class(1, &[]), "1.35"), []);
        assert_eq!(due(known, &class(2, &[]), "1.35").len(), PACE.len());
        let images = [Part::Images, Part::Validation];
        assert_eq!(due(known, &class(2, &[]), "1.36"), images);
        let annotated = class(2, &[("example.com/ticket", "7")]);
        assert_eq!(due(known, &annotated, "1.36"), [Part::Validation]);
        let hashed = class(2, &[("example.com/ticket", "7"), (HASH, "1")]);
        assert_eq!(due(known, &hashed, "1.36"), [], "its own hash");
        assert_eq!(due(known, &class(2, &[]), "1.36"), [Part::Validation]);
    }

    #[test]
    fn images_follow_an_upgrade_of_the_cluster_within_six_minutes() {
        let (known, class) = (&mut Due::default(), class(1, &[]));
        let mut version = "1.35";
        // The upgrade comes right after the version was read.
        let followed = (0..).step_by(CLASS_POLL_SECONDS as usize).find(|now| {
            if *now > 0 && now % KUBERNETES_VERSION_POLL_SECONDS == 0 {
                version = "1.36";
            }
            known.look(&class, version);
            let now = *now as i64;
            let is_due = known.is_due(Part::Images, now);
            known.again(Part::Images, now + 900);
            is_due && version == "1.36"
        });
        assert!(followed.is_some_and(|at| at <= 360), "{followed:?}");
    }
}
