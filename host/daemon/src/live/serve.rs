//! What can be seen from outside: metrics, status, explanations.

pub(in crate::live) mod explain_requests;
pub(in crate::live) mod gauges;
pub(in crate::live) mod http;
pub mod questions;
#[cfg(test)]
pub(in crate::live) mod reference;
