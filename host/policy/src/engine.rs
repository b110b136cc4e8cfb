//! The engine that all policies share, and their limits.
//!
//! Fuel is the deciding limit: equal bytes, input and wasmtime version use equal fuel on every
//! machine. The epoch is a backstop in case fuel is more expensive than assumed. It depends on the
//! clock, so it is reported as a limit of its own.

use std::path::PathBuf;
use std::time::Duration;

use wasmtime::{Config, Engine, WasmFeatures};

use crate::compiler::Compiler;
use crate::limiter::Limiter;

/// How the host is set up.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// What a policy may use.
    pub limits: Limits,
    /// A folder for compiled components, private to this user (mode 0700; made if it is not there).
    /// None compiles every time.
    pub cache: Option<PathBuf>,
    /// Replace NaN bit patterns by one canonical pattern after every float operation. Only programs
    /// that read the bits of a NaN notice; costs up to 70 % on loops over floats.
    pub canonical_nans: bool,
    /// Compile on the calling thread alone. For compiling beside work that must not wait for a
    /// core.
    pub one_thread: bool,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// Called before a component is compiled, which may take half a minute.
    pub on_compile: Option<fn(&std::path::Path)>,
}

/// What one policy may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of linear memories and tables, all of an instance together. The default, 64 MiB, holds
    /// QuickJS and Python.
    pub memory: usize,
    /// Fuel for any call, independent of its size. The default is about 40 ms of arithmetic, twenty
    /// times what CPython burns on its first call.
    pub fuel: u64,
    /// Fuel for a call beyond that, for each offering. The default is twice what CPython burns on a
    /// row (20 000), 150 times what Rust does.
    pub fuel_per_offering: u64,
    /// Calls of a host function within one call.
    pub host_calls: u32,
    /// Bytes that one answer or message may copy out of the guest, whatever its size.
    pub answer: usize,
    /// Bytes beyond that, for each offering: a cost and its part in a commitment pool take 28.
    pub answer_per_offering: usize,
    /// Bytes of log messages kept from one call; the rest is dropped.
    pub log: usize,
    /// Log messages kept from one call.
    pub messages: u32,
    /// Wall-clock time that a call may take, measured in ticks of [`TICK`].
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: 64 << 20,
            fuel: 200_000_000,
            fuel_per_offering: 40_000,
            host_calls: 10_000,
            answer: 1 << 20,
            answer_per_offering: 64,
            log: 16 << 10,
            messages: 100,
            time: Duration::from_secs(5),
        }
    }
}

/// How often the epoch advances.
pub const TICK: Duration = Duration::from_millis(50);

/// Recursion that compilers of guests keep in their own (shadow) stack is stopped by that or by
/// fuel; this one is only generous, since how deep it reaches differs between machines.
const STACK: usize = 1 << 20;

pub(crate) fn engine(config: &HostConfig) -> wasmtime::Result<Engine> {
    let mut wasm = Config::new();
    wasm.consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK)
        // What no toolchain of ours or of others needs can have no defect that matters. Threads and
        // exceptions are compiled out. Reference types and extended constants stay: QuickJS and CPython
        // need them. Multiple memories stay too: wasmtime 48 panics on some components without them.
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_simd(false)
        .wasm_relaxed_simd(false)
        .wasm_gc(false)
        .wasm_features(WasmFeatures::FUNCTION_REFERENCES, false)
        .parallel_compilation(!config.one_thread)
        .cranelift_nan_canonicalization(config.canonical_nans);
    let engine = Engine::new(&wasm)?;
    tick(&engine);
    Ok(engine)
}

/// Advances the epoch of an engine until it is dropped.
fn tick(engine: &Engine) {
    let weak = engine.weak();
    std::thread::spawn(move || {
        while let Some(engine) = weak.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::sleep(TICK);
        }
    });
}

/// Ticks of the epoch that a time has.
pub(crate) fn ticks(time: Duration) -> u64 {
    (time.as_nanos() / TICK.as_nanos()).max(1) as u64 + 1
}

impl Limits {
    pub(crate) fn fuel_for(&self, offerings: usize) -> u64 {
        self.fuel
            .saturating_add(self.fuel_per_offering.saturating_mul(offerings as u64))
    }

    pub(crate) fn answer_for(&self, offerings: usize) -> usize {
        self.answer
            .saturating_add(self.answer_per_offering.saturating_mul(offerings))
    }

    pub(crate) fn store(&self) -> Limiter {
        Limiter::new(self.memory)
    }
}
