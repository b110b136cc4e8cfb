//! What can be bought, and what metrics and `status` say of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::observe::offers::CurrentOffers;
use crate::observe::state::TypeTable;
use crate::process::lock::lock;
use crate::status::parts::Overlays;

/// What can be bought is asked this often while nothing is planned.
const OFFERS_POLL: Duration = Duration::from_secs(1);

/// The catalogue of now, and what was made of it.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) current: CurrentOffers,
    /// When it was asked for last.
    pub(super) asked: Option<Instant>,
    /// Rows of metrics.
    pub(super) types: OfCatalogue<Arc<TypeTable>>,
    /// The status of NodeOverlays.
    pub(super) overlays: OfCatalogue<Overlays>,
}

impl Offered {
    /// Whether it is to be asked for again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.asked.is_none_or(|last| now >= last + OFFERS_POLL)
    }
}

/// What was made of a catalogue, with the catalogue's number: made anew for another one.
pub(super) struct OfCatalogue<T>(Mutex<Option<(u64, T)>>);

impl<T> Default for OfCatalogue<T> {
    fn default() -> Self {
        OfCatalogue(Mutex::default())
    }
}

impl<T: Clone> OfCatalogue<T> {
    pub(super) fn get(&self, number: u64, make: impl FnOnce() -> T) -> T {
        let mut last = lock(&self.0);
        match &*last {
            Some((of, made)) if *of == number => made.clone(),
            _ => last.insert((number, make())).1.clone(),
        }
    }
}
