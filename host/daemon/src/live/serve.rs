//! What can be seen from outside: metrics, status, explanations.

pub(in crate::live) mod explain_requests;
pub(in crate::live) mod gauges;
pub mod http;
pub mod notices;
pub mod questions;
#[cfg(test)]
pub(in crate::live) mod reference;
