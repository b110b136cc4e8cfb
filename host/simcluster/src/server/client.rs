//! What clients send and read: the way to the server and its faults, requests, answers, lists and
//! watches.

mod answer;
mod connection;
pub mod fault_gate;
mod list;
pub(super) mod quiet;
pub(super) mod request;
mod watch;
