//! A signal that ends the search for a better plan. The core has no clock, so the caller decides
//! when to raise it.

use std::fmt;

/// A signal that may be raised while a plan is made, and that stays raised. Asking costs one call,
/// so that loops ask at each turn of a microsecond or more.
#[derive(Clone, Copy, Default)]
pub struct Stop<'a>(Option<&'a (dyn Fn() -> bool + Sync)>);

impl<'a> Stop<'a> {
    /// A signal that is never raised.
    pub fn never() -> Self {
        Stop(None)
    }

    /// A signal that is raised from when `raised` first says so.
    pub fn when(raised: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Stop(Some(raised))
    }

    /// Asks the signal: whether work must end now.
    pub fn is_raised(&self) -> bool {
        self.0.is_some_and(|raised| raised())
    }
}

impl fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Stop(on signal)"
        } else {
            "Stop(never)"
        })
    }
}
