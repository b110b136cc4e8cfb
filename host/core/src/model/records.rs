//! Records of one kind, in chunks that copies share.
//!
//! The state of a cluster is copied once per round while it goes on changing. A copy shares all
//! chunks; a change to one side copies the chunk that it concerns and nothing else. So a copy costs
//! one pointer per 128 records, and no thread waits for a copy of a hundred thousand pods.

use std::ops::{Index, IndexMut, Range};
use std::sync::Arc;

/// Records of a chunk. The first change of a shared chunk copies them all.
const CHUNK_LENGTH: usize = 128;

/// A sequence of records. Reads like a vector; copies share what neither side changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Records<T> {
    /// All but the last are full.
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Default for Records<T> {
    fn default() -> Self {
        Records {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Records<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A record by its index, if there is one.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK_LENGTH)?.get(at % CHUNK_LENGTH)
    }

    /// The last record.
    pub fn last(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// All records, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter {
            records: self,
            range: 0..self.len,
        }
    }
}

impl<T: Clone> Records<T> {
    /// Adds a record behind the others.
    pub fn push(&mut self, record: T) {
        if self.len.is_multiple_of(CHUNK_LENGTH) {
            self.chunks.push(Arc::new(Vec::with_capacity(1)));
        }
        if let Some(last) = self.chunks.last_mut() {
            Arc::make_mut(last).push(record);
            self.len += 1;
        }
    }

    /// Removes the last record.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.chunks.last_mut()?;
        let record = Arc::make_mut(last).pop()?;
        if last.is_empty() {
            self.chunks.pop();
        }
        self.len -= 1;
        Some(record)
    }

    /// Removes a record and puts the last one in its place.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn swap_remove(&mut self, at: usize) -> T {
        assert!(at < self.len, "there is no record {at} of {}", self.len);
        let last = self.pop().expect("there is one");
        if at == self.len {
            return last;
        }
        std::mem::replace(&mut self[at], last)
    }

    /// The last record.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        let at = self.len.checked_sub(1)?;
        Some(&mut self[at])
    }

    /// All records, in order, to be changed. Copies every chunk that is shared.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks
            .iter_mut()
            .flat_map(|chunk| Arc::make_mut(chunk).iter_mut())
    }

    /// Orders the records where they are; those that compare equal keep their order. Of 100 000 pods
    /// a copy as a vector, and the buffer of its sort, were the peak of memory.
    pub fn sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> std::cmp::Ordering) {
        let mut order: Vec<u32> = (0..self.len as u32).collect();
        order.sort_unstable_by(|&a, &b| {
            compare(&self[a as usize], &self[b as usize]).then(a.cmp(&b))
        });
        // Each cycle of the permutation by itself; a place that is done names itself.
        for start in 0..order.len() {
            let mut at = start;
            loop {
                let from = std::mem::replace(&mut order[at], at as u32) as usize;
                if from == start {
                    break;
                }
                self.swap(at, from);
                at = from;
            }
        }
    }

    /// Orders the records by a key; those with equal keys keep their order.
    pub fn sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.sort_by(|a, b| key(a).cmp(&key(b)));
    }

    fn swap(&mut self, a: usize, b: usize) {
        let [a, b] = [a, b].map(|at| (at / CHUNK_LENGTH, at % CHUNK_LENGTH));
        if a.0 == b.0 {
            return Arc::make_mut(&mut self.chunks[a.0]).swap(a.1, b.1);
        }
        if let Ok([first, second]) = self.chunks.get_disjoint_mut([a.0, b.0]) {
            std::mem::swap(
                &mut Arc::make_mut(first)[a.1],
                &mut Arc::make_mut(second)[b.1],
            );
        }
    }

    /// Keeps those records that `keep` admits, in their order.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        let mut all = std::mem::take(self).into_vec();
        all.retain(keep);
        *self = all.into();
    }

    /// The records as a vector.
    pub fn into_vec(self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.len);
        for chunk in self.chunks {
            match Arc::try_unwrap(chunk) {
                Ok(own) => all.extend(own),
                Err(shared) => all.extend_from_slice(&shared),
            }
        }
        all
    }
}

impl<T> Index<usize> for Records<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK_LENGTH][at % CHUNK_LENGTH]
    }
}

impl<T: Clone> IndexMut<usize> for Records<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.chunks[at / CHUNK_LENGTH])[at % CHUNK_LENGTH]
    }
}

impl<T> From<Vec<T>> for Records<T> {
    fn from(all: Vec<T>) -> Self {
        all.into_iter().collect()
    }
}

impl<T> FromIterator<T> for Records<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut records = Records::default();
        let mut all = all.into_iter();
        loop {
            let chunk: Vec<T> = all.by_ref().take(CHUNK_LENGTH).collect();
            if chunk.is_empty() {
                return records;
            }
            records.len += chunk.len();
            records.chunks.push(Arc::new(chunk));
        }
    }
}

impl<T: Clone> Extend<T> for Records<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        more.into_iter().for_each(|record| self.push(record));
    }
}

impl<'a, T> IntoIterator for &'a Records<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// Records in order.
#[derive(Debug)]
pub struct Iter<'a, T> {
    records: &'a Records<T>,
    range: Range<usize>,
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter {
            records: self.records,
            range: self.range.clone(),
        }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.range.next().map(|at| &self.records[at])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.next_back().map(|at| &self.records[at])
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_do_as_a_vector_does() {
        let mut records: Records<usize> = (0..300).collect();
        let mut vector: Vec<usize> = (0..300).collect();
        for at in [299, 0, 127, 128, 200, 255, 13] {
            assert_eq!(records.swap_remove(at.min(records.len() - 1)), {
                let at = at.min(vector.len() - 1);
                vector.swap_remove(at)
            });
        }
        records.extend(1000..1200);
        vector.extend(1000..1200);
        records[130] = 7;
        vector[130] = 7;
        records.iter_mut().for_each(|record| *record *= 2);
        vector.iter_mut().for_each(|record| *record *= 2);
        assert_eq!(records.iter().copied().collect::<Vec<_>>(), vector);
        assert!(records.iter().rev().eq(vector.iter().rev()));
        records.sort_by(|a, b| b.cmp(a));
        vector.sort_by(|a, b| b.cmp(a));
        assert!(records.iter().eq(&vector));
        let key = |record: &usize| record * 7919 % 10;
        records.sort_by_key(key);
        vector.sort_by_key(key);
        while let Some(last) = vector.pop() {
            assert_eq!(records.last(), Some(&last));
            assert_eq!(records.pop(), Some(last));
        }
        assert!(records.is_empty() && records.pop().is_none() && records.get(0).is_none());
    }

    #[test]
    fn a_copy_shares_all_but_the_chunk_that_changes() {
        let mut records: Records<usize> = (0..3 * CHUNK_LENGTH).collect();
        let copy = records.clone();
        records[CHUNK_LENGTH] = 0;
        let shared = |at: usize| Arc::ptr_eq(&records.chunks[at], &copy.chunks[at]);
        assert_eq!([0, 1, 2].map(shared), [true, false, true]);
        assert_eq!(copy[CHUNK_LENGTH], CHUNK_LENGTH);
    }
}
