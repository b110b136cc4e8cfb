//! The records of a journal, and their encoding.

use super::format::{Bytes, Wrong, put, put_bytes};
use super::round::Round;
use longshore_api::kinds::ObjectKind;

/// A line of a journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The first record of a segment.
    Head(Head),
    /// What stood in the cluster when the segment began has been said.
    CheckpointEnds {
        /// How many records of objects that took.
        objects: u64,
    },
    /// The state of an object or of a list has changed.
    Observed(Observed),
    /// A round took its snapshot: of everything observed up to here and nothing after.
    Began(Began),
    /// A round was decided.
    Decided(Box<Round>),
    /// Something that rounds name by its digest.
    Blob(Blob),
    /// Something is not here that should be.
    Gap(Gap),
    /// The segment is complete.
    Closed,
}

/// What a segment begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the segment, from 1 on.
    pub segment: u64,
    /// Tells one process from another.
    pub run: u64,
    /// When it was begun, milliseconds since 1970.
    pub time: i64,
    /// The version of Longshore that wrote it.
    pub by: String,
    /// Kinds of which something is missing since a gap, a bit each ([`code`]).
    pub stale: u32,
}

/// An observation, as it was folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// When, milliseconds since 1970.
    pub time: i64,
    /// The state's revision with it.
    pub revision: u64,
    /// The kind of the object or list.
    pub kind: ObjectKind,
    /// What happened to it.
    pub what: What,
    /// The object could not be read, so that an older version of it stayed.
    pub refused: bool,
}

/// What was observed of a kind. Objects are JSON as the watch hands them on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A list begins.
    Begin,
    /// An object was added or has changed.
    Upsert(Box<str>),
    /// An object is gone.
    Remove(Box<str>),
    /// A list is complete.
    End,
    /// It could not be listed or watched.
    Failed(Box<str>),
}

/// The beginning of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Began {
    /// Number of the round in its process, from 1 on.
    pub round: u64,
    /// The state's revision in the snapshot.
    pub revision: u64,
    /// When, milliseconds since 1970.
    pub time: i64,
}

/// Bytes that rounds name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 in hexadecimal.
    pub digest: String,
    /// What the digest is of.
    pub bytes: Vec<u8>,
}

/// What could not be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Gap {
    /// When the first of it happened, milliseconds since 1970.
    pub since: i64,
    /// When the last of it happened.
    pub until: i64,
    /// How many observations are missing.
    pub observations: u64,
    /// How many beginnings and decisions of rounds are missing.
    pub rounds: u64,
    /// Of which kinds, a bit each ([`code`]).
    pub kinds: u32,
}

/// Numbers of kinds in journals. A number is never given to another kind.
const KINDS: [ObjectKind; 23] = [
    ObjectKind::NodePool,
    ObjectKind::NodeClaim,
    ObjectKind::KwokNodeClass,
    ObjectKind::Node,
    ObjectKind::Namespace,
    ObjectKind::PriorityClass,
    ObjectKind::StorageClass,
    ObjectKind::CsiNode,
    ObjectKind::PersistentVolume,
    ObjectKind::PersistentVolumeClaim,
    ObjectKind::DaemonSet,
    ObjectKind::ReplicaSet,
    ObjectKind::StatefulSet,
    ObjectKind::ReplicationController,
    ObjectKind::Service,
    ObjectKind::PodDisruptionBudget,
    ObjectKind::Pod,
    ObjectKind::LimitRange,
    ObjectKind::VolumeAttachment,
    ObjectKind::NodeOverlay,
    ObjectKind::Ec2NodeClass,
    ObjectKind::CsiDriver,
    ObjectKind::CsiStorageCapacity,
];

/// The number of a kind, below 32.
pub fn code(kind: ObjectKind) -> u8 {
    KINDS
        .iter()
        .position(|&k| k == kind)
        .map_or(31, |at| at as u8)
}

/// The bit of a kind.
pub fn bit(kind: ObjectKind) -> u32 {
    1 << code(kind)
}

/// The kinds with their bits set.
pub fn kinds(bits: u32) -> impl Iterator<Item = ObjectKind> {
    KINDS.into_iter().filter(move |&kind| bits & bit(kind) != 0)
}

fn kind(code: u8) -> Result<ObjectKind, Wrong> {
    KINDS
        .get(usize::from(code))
        .copied()
        .ok_or_else(|| format!("it is about kind {code}, which is not known"))
}

mod tag {
    pub const HEAD: u8 = 1;
    pub const CHECKPOINT_ENDS: u8 = 2;
    pub const OBSERVED: u8 = 3;
    pub const BEGAN: u8 = 4;
    pub const DECIDED: u8 = 5;
    pub const BLOB: u8 = 6;
    pub const GAP: u8 = 7;
    pub const CLOSED: u8 = 8;
}

/// Times before 1970 are written as 1970.
fn put_time(out: &mut Vec<u8>, time: i64) {
    put(out, u64::try_from(time).unwrap_or(0));
}

fn time(from: &mut Bytes<'_>) -> Result<i64, Wrong> {
    i64::try_from(from.number()?).map_err(|_| "a time in it is out of range".into())
}

impl Record {
    /// Appends the record to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Record::Head(head) => {
                out.push(tag::HEAD);
                put(out, head.segment);
                put(out, head.run);
                put_time(out, head.time);
                put_bytes(out, head.by.as_bytes());
                put(out, u64::from(head.stale));
            }
            Record::CheckpointEnds { objects } => {
                out.push(tag::CHECKPOINT_ENDS);
                put(out, *objects);
            }
            Record::Observed(observed) => observed.write(out),
            Record::Began(began) => {
                out.push(tag::BEGAN);
                put(out, began.round);
                put(out, began.revision);
                put_time(out, began.time);
            }
            Record::Decided(round) => {
                out.push(tag::DECIDED);
                put_bytes(out, &serde_json::to_vec(round).unwrap_or_default());
            }
            Record::Blob(blob) => {
                out.push(tag::BLOB);
                put_bytes(out, blob.digest.as_bytes());
                put_bytes(out, &blob.bytes);
            }
            Record::Gap(gap) => {
                out.push(tag::GAP);
                put_time(out, gap.since);
                put_time(out, gap.until);
                put(out, gap.observations);
                put(out, gap.rounds);
                put(out, u64::from(gap.kinds));
            }
            Record::Closed => out.push(tag::CLOSED),
        }
    }

    /// Reads the record that `bytes` are.
    ///
    /// # Errors
    /// They are none.
    pub fn read(bytes: &[u8]) -> Result<Record, Wrong> {
        let mut from = Bytes(bytes);
        let record = match from.byte()? {
            tag::HEAD => Record::Head(Head {
                segment: from.number()?,
                run: from.number()?,
                time: time(&mut from)?,
                by: from.text()?.into(),
                stale: bits(&mut from)?,
            }),
            tag::CHECKPOINT_ENDS => Record::CheckpointEnds {
                objects: from.number()?,
            },
            tag::OBSERVED => Record::Observed(Observed::read(&mut from)?),
            tag::BEGAN => Record::Began(Began {
                round: from.number()?,
                revision: from.number()?,
                time: time(&mut from)?,
            }),
            tag::DECIDED => {
                let round = serde_json::from_slice(from.bytes()?);
                Record::Decided(
                    round.map_err(|error| format!("the round in it makes no sense: {error}"))?,
                )
            }
            tag::BLOB => Record::Blob(Blob {
                digest: from.text()?.into(),
                bytes: from.bytes()?.into(),
            }),
            tag::GAP => Record::Gap(Gap {
                since: time(&mut from)?,
                until: time(&mut from)?,
                observations: from.number()?,
                rounds: from.number()?,
                kinds: bits(&mut from)?,
            }),
            tag::CLOSED => Record::Closed,
            other => {
                return Err(format!(
                    "a record in it is of kind {other}, which is not known"
                ));
            }
        };
        if from.0.is_empty() {
            Ok(record)
        } else {
            Err("a record in it is longer than it should be".into())
        }
    }
}

fn bits(from: &mut Bytes<'_>) -> Result<u32, Wrong> {
    u32::try_from(from.number()?).map_err(|_| "a set of kinds in it is too large".into())
}

impl Observed {
    fn write(&self, out: &mut Vec<u8>) {
        let (what, text) = match &self.what {
            What::Begin => (0, ""),
            What::Upsert(text) => (1, &**text),
            What::Remove(text) => (2, &**text),
            What::End => (3, ""),
            What::Failed(why) => (4, &**why),
        };
        out.push(tag::OBSERVED);
        out.push(code(self.kind));
        out.push(what | u8::from(self.refused) << 7);
        put_time(out, self.time);
        put(out, self.revision);
        out.extend_from_slice(text.as_bytes());
    }

    fn read(from: &mut Bytes<'_>) -> Result<Observed, Wrong> {
        let kind = kind(from.byte()?)?;
        let what = from.byte()?;
        let (time, revision) = (time(from)?, from.number()?);
        let text = std::str::from_utf8(from.0).map_err(|_| "an object in it is not UTF-8")?;
        let refused = what & 0x80 != 0;
        let what = match what & 0x7f {
            0 if text.is_empty() => What::Begin,
            1 => What::Upsert(text.into()),
            2 => What::Remove(text.into()),
            3 if text.is_empty() => What::End,
            4 => What::Failed(text.into()),
            other => {
                return Err(format!(
                    "a change in it is of kind {other}, which is not known"
                ));
            }
        };
        from.0 = &[];
        Ok(Observed {
            time,
            revision,
            kind,
            what,
            refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Record> {
        let observed = |what, refused| {
            Record::Observed(Observed {
                time: 1_793_491_200_123,
                revision: 300,
                kind: ObjectKind::Pod,
                what,
                refused,
            })
        };
        vec![
            Record::Head(Head {
                segment: 7,
                run: u64::MAX,
                time: 1,
                by: "0.1.0".into(),
                stale: 1 << 16,
            }),
            Record::CheckpointEnds { objects: 9 },
            observed(What::Begin, false),
            observed(What::Upsert("{\"ü\":1}".into()), true),
            observed(What::Remove("{}".into()), false),
            observed(What::End, false),
            observed(What::Failed("no way".into()), false),
            Record::Began(Began {
                round: 3,
                revision: 4,
                time: 5,
            }),
            Record::Decided(Box::default()),
            Record::Blob(Blob {
                digest: "ab".into(),
                bytes: vec![0, 255],
            }),
            Record::Gap(Gap {
                since: 1,
                until: 2,
                observations: 3,
                rounds: 4,
                kinds: 5,
            }),
            Record::Closed,
        ]
    }

    #[test]
    fn every_record_survives_being_written() {
        for record in some() {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            assert_eq!(Record::read(&bytes).as_ref(), Ok(&record));
        }
    }

    #[test]
    fn a_record_cut_anywhere_or_continued_is_no_record_or_another() {
        for record in some() {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            for cut in 0..bytes.len() {
                assert_ne!(
                    Record::read(&bytes[..cut]).as_ref(),
                    Ok(&record),
                    "{record:?} cut at {cut}"
                );
            }
            bytes.push(b'x');
            assert_ne!(Record::read(&bytes).as_ref(), Ok(&record), "{record:?}");
        }
    }

    #[test]
    fn every_kind_that_is_watched_has_a_number_of_its_own() {
        let all = ObjectKind::ALL.iter().fold(0, |all, &kind| all | bit(kind));
        assert_eq!(all.count_ones() as usize, ObjectKind::ALL.len());
        assert_eq!(kinds(all).count(), ObjectKind::ALL.len());
        assert!(ObjectKind::ALL.iter().all(|&kind| code(kind) < 31));
    }
}
