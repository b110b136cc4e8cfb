//! What every room stands on: the Lease, the time, the connection, and the end of the process.

pub(in crate::live) mod backoff;
pub mod clock;
pub mod connection;
pub mod heap;
pub mod leader;
pub(crate) mod lock;
pub mod log;
pub mod mutants;
pub(in crate::live) mod pulse;
pub(in crate::live) mod step_error;
pub mod stop;
