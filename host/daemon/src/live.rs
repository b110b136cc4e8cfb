//! The daemon behind `longshore run`, in rooms. Each knows only those before it:
//!
//! | room | answers |
//! |---|---|
//! | [`process`] | which replica leads, what time is it, is the loop alive? |
//! | [`observe`] | what is there? |
//! | [`policies`] | which policy scores, and in which version? |
//! | [`decide`] | what should change? |
//! | [`metrics`] | what is counted? |
//! | [`act`] | how does it become objects and instances, and how do these end? |
//! | [`serve`] | what can be seen from outside? |
//! | `aws` | what does EC2 do by itself? |
//! | [`controller`] | which object is reconciled, when is a round made? |
//! | [`run`](mod@run) | what is put together, real or simulated? |
//!
//! Data flows one way: `observe` reports and folds changes, `controller` has rounds decided and
//! acted on, and the watch brings back what was written. `host/ARCHITECTURE.md` follows one pod
//! through it.

pub(crate) mod act;
#[cfg(feature = "aws")]
pub mod aws;
mod controller;
pub mod decide;
mod metrics;
pub mod observe;
pub mod policies;
pub mod process;
pub mod run;
pub mod serve;
#[cfg(test)]
mod test_cluster;

pub(crate) use run::run;
