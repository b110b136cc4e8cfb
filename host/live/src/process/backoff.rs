//! How long is waited between attempts.

use std::time::Duration;

/// Waits between attempts at one thing: doubling from 1 s to 1 min.
pub fn back_off(failures: u32) -> Duration {
    Duration::from_secs((1u64 << failures.saturating_sub(1).min(6)).min(60))
}
