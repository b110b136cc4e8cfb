//! Calls of the emulated AWS, as requests and replies.

mod actions;
mod background;
mod common;
mod faults;
mod fleets;
mod permissions;
mod refusals;
mod served;
