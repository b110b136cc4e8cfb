//! The position of the last record of each live object in the current segment, so that the next
//! segment can begin with these objects.
//!
//! It follows the folding rules of the state (lists remove what they do not name; an unreadable
//! object leaves the last good version in place), with names and positions only. No object is kept.

use std::collections::HashMap;

use super::record::{What, bit, code};
use longshore_api::kinds::ObjectKind;

/// Where a record is in its segment: byte of its frame, and byte in the frame's text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct At(u64);

/// Bits of a byte in a frame's text: as much as a batch may hold, and a single record of any size
/// begins at 0.
const OFFSET_BITS: u32 = 24;

impl At {
    /// No record.
    const NONE: At = At(u64::MAX);

    /// `inside` is below 16 MiB.
    pub fn new(frame: u64, inside: usize) -> Self {
        At(frame << OFFSET_BITS | inside as u64)
    }

    /// Byte of the frame.
    pub fn frame(self) -> u64 {
        self.0 >> OFFSET_BITS
    }

    /// Byte in the frame's text.
    pub fn inside(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize
    }
}

/// Live objects by kind and `namespace/name`.
#[derive(Default)]
pub struct Index {
    kinds: Vec<Objects>,
    /// Kinds of which something is missing since a gap, a bit each.
    pub stale: u32,
}

#[derive(Default)]
struct Objects {
    all: HashMap<Box<str>, Entry>,
    /// The number of the list that is being read, and whether it began after the last gap.
    listing: Option<(u32, bool)>,
    lists: u32,
}

struct Entry {
    /// The last version that could be read.
    good: At,
    /// A later one that could not.
    refused: At,
    /// The list that named it last.
    list: u32,
}

/// A record that a checkpoint says again, and whether its kind's list is being read and has named
/// it.
pub struct Kept {
    /// Where it is in the journal.
    pub at: At,
    /// The kind of its object.
    pub kind: ObjectKind,
    /// A list of its kind that is being read has named it.
    pub listed: bool,
}

impl Index {
    /// Takes in what was observed; `name` is that of the object, if it has one, `at` where its
    /// record is.
    pub fn note(
        &mut self,
        kind: ObjectKind,
        what: &What,
        name: Option<&str>,
        refused: bool,
        at: At,
    ) {
        let objects = self.of(kind);
        match (what, name) {
            (What::Begin, _) => {
                objects.lists = objects.lists.wrapping_add(1);
                objects.listing = Some((objects.lists, true));
            }
            (What::Upsert(_), Some(name)) => {
                let list = objects.listing.map_or(0, |(list, _)| list);
                match objects.all.get_mut(name) {
                    Some(entry) if refused => (entry.refused, entry.list) = (at, list),
                    Some(entry) => {
                        *entry = Entry {
                            good: at,
                            refused: At::NONE,
                            list,
                        }
                    }
                    None => {
                        let (good, refused) = if refused {
                            (At::NONE, at)
                        } else {
                            (at, At::NONE)
                        };
                        objects.all.insert(
                            name.into(),
                            Entry {
                                good,
                                refused,
                                list,
                            },
                        );
                    }
                }
            }
            (What::Remove(_), Some(name)) => drop(objects.all.remove(name)),
            (What::End, _) => {
                if let Some((list, whole)) = objects.listing.take() {
                    objects.all.retain(|_, entry| entry.list == list);
                    if whole {
                        self.stale &= !bit(kind);
                    }
                }
            }
            _ => {}
        }
    }

    /// Something of these kinds is missing; a list that is being read does not mend that.
    pub fn record_gap(&mut self, kinds: u32) {
        self.stale |= kinds;
        for (at, objects) in self.kinds.iter_mut().enumerate() {
            if let Some((_, whole)) = objects.listing.as_mut().filter(|_| kinds & (1 << at) != 0) {
                *whole = false;
            }
        }
    }

    /// Kinds whose list is being read.
    pub fn listing(&self) -> impl Iterator<Item = ObjectKind> {
        ObjectKind::ALL.into_iter().filter(|&kind| {
            self.kinds
                .get(usize::from(code(kind)))
                .is_some_and(|objects| objects.listing.is_some())
        })
    }

    /// Every record that makes up what is known, in the order of the file.
    pub fn kept(&self) -> Vec<Kept> {
        let mut all = Vec::new();
        for kind in ObjectKind::ALL {
            let Some(objects) = self.kinds.get(usize::from(code(kind))) else {
                continue;
            };
            let list = objects.listing.map(|(list, _)| list);
            for entry in objects.all.values() {
                let listed = list == Some(entry.list);
                let records = [entry.good, entry.refused]
                    .into_iter()
                    .filter(|&at| at != At::NONE);
                all.extend(records.map(|at| Kept { at, kind, listed }));
            }
        }
        all.sort_unstable_by_key(|kept| kept.at);
        all
    }

    /// The records have moved: `to` has the new place of each. Objects without a record in it are
    /// forgotten.
    pub fn moved(&mut self, to: &HashMap<At, At>) {
        for objects in &mut self.kinds {
            objects.all.retain(|_, entry| {
                for at in [&mut entry.good, &mut entry.refused] {
                    *at = to.get(at).copied().unwrap_or(At::NONE);
                }
                entry.good != At::NONE || entry.refused != At::NONE
            });
        }
    }

    fn of(&mut self, kind: ObjectKind) -> &mut Objects {
        let at = usize::from(code(kind));
        if self.kinds.len() <= at {
            self.kinds.resize_with(at + 1, Objects::default);
        }
        &mut self.kinds[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(frame: u64) -> At {
        At::new(frame, 0)
    }

    fn frames(index: &Index) -> Vec<(u64, bool)> {
        index
            .kept()
            .iter()
            .map(|kept| (kept.at.frame(), kept.listed))
            .collect()
    }

    fn upsert(index: &mut Index, name: &str, refused: bool, frame: u64) {
        index.note(
            ObjectKind::Pod,
            &What::Upsert("".into()),
            Some(name),
            refused,
            at(frame),
        );
    }

    #[test]
    fn the_last_record_of_each_object_counts_and_a_refused_one_beside_the_last_good() {
        let mut index = Index::default();
        upsert(&mut index, "a", false, 1);
        upsert(&mut index, "b", false, 2);
        upsert(&mut index, "a", false, 3);
        upsert(&mut index, "b", true, 4);
        upsert(&mut index, "b", true, 5);
        upsert(&mut index, "c", true, 6);
        assert_eq!(
            frames(&index),
            [(2, false), (3, false), (5, false), (6, false)]
        );
        upsert(&mut index, "b", false, 7);
        index.note(
            ObjectKind::Pod,
            &What::Remove("".into()),
            Some("a"),
            false,
            at(8),
        );
        assert_eq!(frames(&index), [(6, false), (7, false)]);
    }

    #[test]
    fn a_list_takes_away_what_it_does_not_name() {
        let mut index = Index::default();
        upsert(&mut index, "a", false, 1);
        upsert(&mut index, "b", false, 2);
        index.note(ObjectKind::Pod, &What::Begin, None, false, at(3));
        upsert(&mut index, "b", false, 4);
        assert_eq!(frames(&index), [(1, false), (4, true)]);
        assert_eq!(index.listing().collect::<Vec<_>>(), [ObjectKind::Pod]);
        index.note(ObjectKind::Pod, &What::End, None, false, at(5));
        assert_eq!(
            (frames(&index), index.listing().count()),
            (vec![(4, false)], 0)
        );
    }

    #[test]
    fn a_whole_list_mends_what_a_gap_has_cost() {
        let mut index = Index::default();
        index.note(ObjectKind::Pod, &What::Begin, None, false, at(1));
        index.record_gap(bit(ObjectKind::Pod) | bit(ObjectKind::Node));
        index.note(ObjectKind::Pod, &What::End, None, false, at(2));
        assert_eq!(
            index.stale,
            bit(ObjectKind::Pod) | bit(ObjectKind::Node),
            "the gap was in the middle of it"
        );
        index.note(ObjectKind::Pod, &What::Begin, None, false, at(3));
        index.note(ObjectKind::Pod, &What::End, None, false, at(4));
        assert_eq!(index.stale, bit(ObjectKind::Node));
    }

    #[test]
    fn records_that_have_moved_are_found_and_those_lost_forgotten() {
        let mut index = Index::default();
        upsert(&mut index, "a", false, 1);
        upsert(&mut index, "b", false, 2);
        index.moved(&HashMap::from([(at(2), At::new(9, 5))]));
        assert_eq!(index.kept().len(), 1);
        assert_eq!(
            (index.kept()[0].at.frame(), index.kept()[0].at.inside()),
            (9, 5)
        );
    }
}
