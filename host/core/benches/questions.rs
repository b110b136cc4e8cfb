//! How long it takes to ask of each node of a cluster where its pods would go if the node were
//! gone, first-fit, and what is allocated for it. `cargo xtask bench questions` runs it with the
//! clusters that it has: `cargo bench -p longshore-core --bench questions -- CLUSTER.json
//! TYPES.json`.
#![allow(clippy::print_stdout, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use longshore_core::plan::NodeIx;
use longshore_core::policy::ByPrice;
use longshore_core::schedule::questions::Questions;
use longshore_core::snapshot::Snapshot;

/// Counts what is allocated.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// The largest allocation since it was set to 0.
static LARGEST: AtomicU64 = AtomicU64::new(0);

#[allow(
    unsafe_code,
    reason = "an allocator is unsafe; this one hands everything on"
)]
// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        LARGEST.fetch_max(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let files = common::words();
    let [cluster, types] = files.as_slice() else {
        println!("questions: no cluster and no instance types were given, nothing is measured");
        return;
    };
    let snapshot = Snapshot::new(Arc::new(common::objects(cluster, types)));
    let begun = Instant::now();
    let mut questions = Questions::new(&snapshot, &ByPrice);
    let compiled = begun.elapsed();
    let nodes = snapshot.nodes.len() as u32;
    // The first time each shape is asked about its requirements are interned.
    let mut seconds = Vec::new();
    let mut summary = String::new();
    for _ in 0..3 {
        let (calls, bytes) = (CALLS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
        LARGEST.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        let (mut moved, mut bought, mut unplaced, mut alone) = (0, 0, 0, 0);
        for node in 0..nodes {
            let answer = questions.without(&[NodeIx(node)]);
            moved += answer.existing.len();
            bought += answer.bought.len();
            unplaced += answer.unplaced.len();
            alone += usize::from(answer.bought.is_empty() && answer.unplaced.is_empty());
        }
        seconds.push(begun.elapsed().as_secs_f64());
        let per = |now: &AtomicU64, before: u64| {
            (now.load(Ordering::Relaxed) - before) / u64::from(nodes.max(1))
        };
        summary = format!(
            "{moved} pods to other nodes, {bought} nodes bought, {unplaced} pods unplaced, {alone} nodes could go; \
             {} allocations and {} bytes a question, the largest {} bytes",
            per(&CALLS, calls),
            per(&BYTES, bytes),
            LARGEST.load(Ordering::Relaxed),
        );
    }
    let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "{nodes} nodes, {} pods: compiled in {:.3} s, {nodes} answers in {:.3} s the first time and {least:.3} s after \
         that; {summary}",
        snapshot.movable().len(),
        compiled.as_secs_f64(),
        seconds[0],
    );
}
