//! Free ports on loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

/// Below the ephemeral ports (from 32768 on Linux), which could be taken before we use them.
const FIRST_PORT: u16 = 18_000;
const LAST_PORT: u16 = 32_000;

/// The requested number of different ports without a listener. They are not reserved: a caller that
/// loses one starts again with others.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    // The start is random, so that two concurrent callers find different ports.
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    let start = (nanos / 100).wrapping_add(std::process::id().wrapping_mul(7919))
        % u32::from(LAST_PORT - FIRST_PORT);
    let candidates = (0..u32::from(LAST_PORT - FIRST_PORT))
        .map(|at| FIRST_PORT + ((start + at) % u32::from(LAST_PORT - FIRST_PORT)) as u16);
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let found: Vec<u16> = candidates.filter(free).take(N).collect();
    match found.try_into() {
        Ok(ports) => Ok(ports),
        Err(_) => bail!("no {N} free ports between {FIRST_PORT} and {LAST_PORT}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_are_passed_over() {
        let [first] = free::<1>().unwrap();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first));
        let others = free::<20>().unwrap();
        let different: std::collections::BTreeSet<_> = others.iter().collect();
        assert_eq!(different.len(), 20);
        assert!(!others.contains(&first));
    }
}
