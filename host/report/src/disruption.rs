//! Disruption in words and as data: what was found, which command a node goes by, why a node stays.

pub mod command;
mod explain;
mod going;
mod messages;
pub mod report;
pub mod summary;
pub mod text;

pub use explain::explain;
pub use going::explain_going;
pub use messages::Messages;
pub use report::{Reason, Reasons};
