//! What can be seen from outside: metrics, status, explanations.

pub(crate) mod explain_requests;
pub(crate) mod gauges;
pub mod http;
pub mod notices;
pub mod questions;
#[cfg(test)]
pub(crate) mod reference;
