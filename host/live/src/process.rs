//! What every room stands on: the Lease, the time, the connection, and the end of the process.

pub(crate) mod backoff;
pub mod clock;
pub mod connection;
pub mod heap;
pub mod leader;
pub mod lock;
pub mod log;
pub mod mutants;
pub(crate) mod pulse;
pub mod step_error;
pub mod stop;
