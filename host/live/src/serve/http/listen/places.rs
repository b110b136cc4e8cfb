//! Which connections a listener has, and which of them makes room for another.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use crate::process::lock::lock;

/// Most connections of one address that are answered at a time.
pub const MAX_PER_ADDRESS: usize = 8;

/// The connections of one listener. Clones share them.
#[derive(Clone)]
pub struct Places {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    /// How many there have been.
    number: u64,
    /// By number, so that the oldest comes first.
    all: BTreeMap<u64, Arc<Place>>,
}

pub struct Place {
    number: u64,
    /// The address that it comes from.
    pub source: IpAddr,
    /// A whole request has come.
    answered: AtomicBool,
    displaced: AtomicBool,
    /// Wakes the task that waits for the connection.
    waits: Mutex<Option<Waker>>,
}

impl Place {
    fn new(number: u64, source: IpAddr) -> Self {
        Place {
            number,
            source,
            answered: AtomicBool::new(false),
            displaced: AtomicBool::new(false),
            waits: Mutex::default(),
        }
    }

    /// Whether a whole request has come.
    pub fn answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Whether it has to make room; if not, the task is woken once it has.
    pub fn is_displaced(&self, cx: &Context<'_>) -> bool {
        let mut waits = lock(&self.waits);
        match &mut *waits {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        self.displaced.load(Ordering::Acquire)
    }

    fn displace(&self) {
        let waits = {
            let mut waits = lock(&self.waits);
            self.displaced.store(true, Ordering::Release);
            waits.take()
        };
        waits.into_iter().for_each(Waker::wake);
    }
}

impl Places {
    /// So many places, all of them free.
    pub fn new(most: usize) -> Self {
        Places {
            most,
            taken: Arc::default(),
        }
    }

    /// Takes a place. Where none is free, the oldest connection without a whole request, of the
    /// address that has the most connections, gives its place up. Nothing if all connections are
    /// being answered.
    pub fn take(&self, source: IpAddr) -> Option<Arc<Place>> {
        let mut taken = lock(&self.taken);
        if taken.all.len() >= self.most {
            let oldest = taken.makes_room()?;
            oldest.displace();
            taken.all.remove(&oldest.number);
        }
        taken.number += 1;
        let place = Arc::new(Place::new(taken.number, source));
        taken.all.insert(place.number, place.clone());
        Some(place)
    }

    /// A whole request has come: from now on the connection is not displaced. Says whether the
    /// request may be answered; not if too many of its address are.
    pub fn answer(&self, place: &Place) -> bool {
        let taken = lock(&self.taken);
        let answered = taken.all.values().filter(|other| other.answered());
        let equal = answered
            .filter(|other| other.source == place.source)
            .count();
        place.answered.store(true, Ordering::Release);
        equal < MAX_PER_ADDRESS
    }

    /// Whether the next connection needs the place of another address.
    pub fn is_full(&self) -> bool {
        lock(&self.taken).all.len() >= self.most
    }

    /// Gives a place back.
    pub fn leave(&self, place: &Place) {
        lock(&self.taken).all.remove(&place.number);
    }
}

impl Taken {
    fn makes_room(&self) -> Option<Arc<Place>> {
        let mut of: HashMap<IpAddr, usize> = HashMap::new();
        for place in self.all.values() {
            *of.entry(place.source).or_default() += 1;
        }
        let silent = self.all.values().filter(|place| !place.answered());
        // Of equal ones the last in this order, which is the oldest.
        silent.rev().max_by_key(|place| of[&place.source]).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn displaced(places: &[Arc<Place>]) -> Vec<usize> {
        let cx = Context::from_waker(Waker::noop());
        (0..places.len())
            .filter(|at| places[*at].is_displaced(&cx))
            .collect()
    }

    #[test]
    fn the_oldest_silent_connection_of_the_address_with_the_most_makes_room() {
        let places = Places::new(4);
        let mut taken: Vec<_> = [1, 2, 2, 2]
            .into_iter()
            .filter_map(|from| places.take(address(from)))
            .collect();
        assert!(places.answer(&taken[1]));
        taken.extend(places.take(address(3)));
        assert_eq!(displaced(&taken), [2], "the first of 2 is being answered");
        taken.extend(places.take(address(3)));
        assert_eq!(
            displaced(&taken),
            [2, 3],
            "2 has still as many as any other"
        );
        taken.extend(places.take(address(4)));
        assert_eq!(displaced(&taken), [2, 3, 4]);
    }

    #[test]
    fn what_is_being_answered_keeps_its_place_until_it_leaves() {
        let places = Places::new(2);
        let first = places.take(address(1)).unwrap();
        let second = places.take(address(1)).unwrap();
        assert!(places.answer(&first) && places.answer(&second));
        assert!(places.is_full() && places.take(address(2)).is_none());
        places.leave(&first);
        assert!(places.take(address(2)).is_some());
    }

    #[test]
    fn one_address_is_answered_a_few_times_at_once() {
        let places = Places::new(20);
        let all: Vec<_> = (0..10).filter_map(|_| places.take(address(1))).collect();
        let answered = all.iter().filter(|place| places.answer(place)).count();
        assert_eq!(answered, MAX_PER_ADDRESS);
        let other = places.take(address(2)).unwrap();
        assert!(places.answer(&other));
    }
}
