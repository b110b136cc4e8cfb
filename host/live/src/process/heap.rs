//! Memory of the process.

/// The largest resident set of this process so far, in MiB; `None` where the system does not say
/// (it is read from Linux's `/proc`).
pub fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.div_ceil(1024))
}

/// Has the C library keep one heap for all threads. By itself it makes one for each few of them,
/// and what a thread asked for once, say to compile a component, stays with its heap for as long as
/// the process lives. To be called before there are other threads; where the C library is another
/// one it does nothing.
pub fn share_heap() {
    // SAFETY: it sets a number, and no other thread runs yet.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives back to the system what the heap has free, which by itself it keeps if it lies below what
/// was asked for later: 40 MiB were seen after the first rounds for two thousand pods. Other
/// threads wait for memory meanwhile, a millisecond where the heap is small. Where the C library is
/// another one it does nothing.
pub fn trim_heap() {
    // SAFETY: it takes the heap's own lock and no pointer of ours.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}
