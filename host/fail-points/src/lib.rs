//! Places where a test can make the daemon panic, to test its guards against panics. Compiled with
//! the feature `mutants` only.

#![warn(missing_docs)]

#[cfg(feature = "mutants")]
use std::cell::Cell;

/// Every place, and where it is.
pub const ALL: [(&str, &str); 6] = [
    ("plan", "where a round is decided"),
    (
        "decide-disruption",
        "where a look for nodes to disrupt is decided",
    ),
    ("disrupt", "where a command of disruption begins"),
    ("step", "where a NodeClaim is looked at"),
    ("watch", "where a watch has brought something"),
    ("journal", "where the journal's thread takes a message"),
];

/// Where a thread is to panic, and how often still.
pub type Panics = (&'static str, u32);

#[cfg(feature = "mutants")]
thread_local! {
    static PANICS: Cell<Panics> = const { Cell::new(("", 0)) };
}

/// Panics if a test wants that here.
#[cfg(feature = "mutants")]
pub fn fail_point(name: &str) {
    debug_assert!(
        ALL.iter().any(|known| known.0 == name),
        "{name} is not in the table"
    );
    let (at, left) = PANICS.get();
    if at == name && left > 0 {
        PANICS.set((at, left - 1));
        panic!("a test wants a panic at {name:?}");
    }
}

/// Panics if a test wants that here: never here.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn fail_point(_: &str) {}

/// Where this thread is still to panic: for a thread that it starts, and for tests that want to
/// know whether it has.
#[cfg(feature = "mutants")]
pub fn panics_left() -> Panics {
    PANICS.get()
}

/// Where this thread is still to panic: nowhere here.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn panics_left() -> Panics {
    ("", 0)
}

/// Has this thread panic at a place, so many times. Says whether that is possible: the place is
/// known and the feature `mutants` is compiled in.
pub fn panic_at(name: &str, times: u32) -> bool {
    let known = ALL
        .iter()
        .find(|known| known.0 == name)
        .map(|known| known.0);
    #[cfg(feature = "mutants")]
    PANICS.set((known.unwrap_or_default(), times));
    cfg!(feature = "mutants") && known.is_some() || times == 0
}
