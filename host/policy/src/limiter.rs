//! What one store takes of the host's memory: all of its linear memories and tables together.
//!
//! Wasmtime's own limits hold for each memory alone, and a component may have many.

use wasmtime::ResourceLimiter;

/// Core instances of a component. CPython has 38, QuickJS 13.
pub(crate) const CORE_INSTANCES: usize = 64;
/// Linear memories. QuickJS has 3. Each reserves gigabytes of addresses, even an empty one.
pub(crate) const MEMORIES: usize = 16;
pub(crate) const TABLES: usize = 64;
/// What an element of a table counts: at least what any kind of reference takes.
const TABLE_ELEMENT_BYTES: usize = 16;

/// The guest wants more memory than it may have.
#[derive(Debug, thiserror::Error)]
#[error("memories and tables grow beyond the limit")]
pub(crate) struct TooMuchMemory;

/// The sum of what a store has, and what it may have.
pub(crate) struct Limiter {
    pub taken: usize,
    limit: usize,
}

impl Limiter {
    pub fn new(limit: usize) -> Self {
        Limiter { taken: 0, limit }
    }

    /// Whether something may grow by so many bytes. A limit of its own refuses as WebAssembly has it;
    /// ours ends the call.
    fn grow(&mut self, bytes: usize, beyond_own: bool) -> wasmtime::Result<bool> {
        if beyond_own {
            return Ok(false);
        }
        let taken = self.taken.saturating_add(bytes);
        if taken > self.limit {
            return Err(TooMuchMemory.into());
        }
        self.taken = taken;
        Ok(true)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let beyond_own = maximum.is_some_and(|most| desired > most);
        self.grow(desired.saturating_sub(current), beyond_own)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(error.context(TooMuchMemory))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = desired.saturating_sub(current);
        let beyond_own = maximum.is_some_and(|most| desired > most);
        self.grow(elements.saturating_mul(TABLE_ELEMENT_BYTES), beyond_own)
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(error.context(TooMuchMemory))
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }

    fn tables(&self) -> usize {
        TABLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_tables_count_together() {
        let mut limiter = Limiter::new(1000);
        assert!(limiter.memory_growing(0, 600, None).unwrap());
        assert!(limiter.table_growing(0, 25, None).unwrap(), "400 bytes");
        assert!(
            limiter.memory_growing(0, 1, None).is_err(),
            "another memory"
        );
        assert!(!limiter.memory_growing(600, 601, Some(600)).unwrap());
        assert_eq!(limiter.taken, 1000);
    }
}
