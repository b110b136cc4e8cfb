//! Memory that real nodes were seen with.
//!
//! EC2 names the memory of the machine, and how much of it the hypervisor and the firmware keep is
//! an estimate. A node that has joined shows the figure. It holds for nodes of its type that boot
//! from the same images, because the kernel's share depends on the image. Of several figures the
//! smallest counts: a pod must fit on the node that shows least. A figure that no node confirms for
//! 60 days is forgotten.
//!
//! Times are arguments, in seconds since 1970.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::{FxHashMap, FxHasher};

use crate::nodeclass::Ami;

/// How long a figure holds, in seconds: 60 days.
pub const LIFETIME: i64 = 60 * 24 * 3600;

/// Stands for the set of images that a NodeClass's nodes boot from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageSet(u64);

impl ImageSet {
    /// That of the images in a NodeClass's status. Their order does not matter.
    pub fn of(images: &[Ami]) -> Self {
        let mut ids: Vec<&str> = images.iter().map(|image| &*image.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut hasher = FxHasher::default();
        ids.hash(&mut hasher);
        ImageSet(hasher.finish())
    }
}

/// Memory that nodes were seen with, by type and images.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    by_type: FxHashMap<Box<str>, FxHashMap<ImageSet, Figure>>,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Figure {
    bytes: i64,
    until: i64,
}

impl Discovered {
    /// A node of a type, booted from one of `images`, shows `bytes` of memory. More than another
    /// node has shown changes nothing. Amounts that are not above zero are passed over.
    pub fn see(&mut self, instance_type: &str, images: ImageSet, bytes: i64, now: i64) {
        if bytes <= 0 {
            return;
        }
        let by_images = self.by_type.entry(instance_type.into()).or_default();
        let known = by_images.get(&images).map(|figure| figure.bytes);
        if known.is_some_and(|known| known < bytes) {
            return;
        }
        let until = now.saturating_add(LIFETIME);
        by_images.insert(images, Figure { bytes, until });
        self.sequence += u64::from(known != Some(bytes));
    }

    /// Forgets what no node has confirmed in time.
    pub fn expire(&mut self, now: i64) {
        let mut gone = false;
        self.by_type.retain(|_, by_images| {
            let before = by_images.len();
            by_images.retain(|_, figure| figure.until > now);
            gone |= by_images.len() != before;
            !by_images.is_empty()
        });
        self.sequence += u64::from(gone);
    }

    /// Memory of a type's nodes in bytes, if one was seen.
    pub fn get(&self, instance_type: &str, images: ImageSet) -> Option<i64> {
        let figure = self.by_type.get(instance_type)?.get(&images)?;
        Some(figure.bytes)
    }

    /// Grows with every change of a figure.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(ids: &[&str]) -> ImageSet {
        let image = |id: &&str| Ami {
            id: (*id).to_owned(),
            ..Ami::default()
        };
        ImageSet::of(&ids.iter().map(image).collect::<Vec<_>>())
    }

    #[test]
    fn the_smallest_figure_of_a_type_and_its_images_counts() {
        let (old, new) = (images(&["ami-1", "ami-2"]), images(&["ami-3", "ami-2"]));
        assert_eq!(old, images(&["ami-2", "ami-1", "ami-1"]));
        let mut all = Discovered::default();
        let get = |all: &Discovered, images| all.get("m5.large", images);
        all.see("m5.large", old, 800, 0);
        all.see("m5.large", old, 900, 10);
        assert_eq!((get(&all, old), all.sequence()), (Some(800), 1));
        all.see("m5.large", old, 700, 20);
        all.see("m5.large", old, 0, 20);
        assert_eq!((get(&all, old), all.sequence()), (Some(700), 2));
        assert_eq!(get(&all, new), None, "other images show other memory");
        assert_eq!(all.get("m5.xlarge", old), None);
    }

    #[test]
    fn a_figure_is_forgotten_unless_a_node_confirms_it() {
        let set = images(&["ami-1"]);
        let mut all = Discovered::default();
        all.see("m5.large", set, 800, 0);
        all.see("m5.large", set, 800, 100);
        all.expire(LIFETIME + 99);
        assert_eq!(all.get("m5.large", set), Some(800));
        assert_eq!(all.sequence(), 1, "a figure that is confirmed is no change");
        all.expire(LIFETIME + 100);
        assert_eq!((all.get("m5.large", set), all.sequence()), (None, 2));
    }
}
