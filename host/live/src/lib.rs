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
//! | [`environment`] | what is put together, real or simulated? |
//!
//! Below them, for commands as well: [`config`] (the configuration as written), [`canary`] (whether a
//! next version of a policy goes on), [`managed`] (which objects are ours), [`status`] (what a daemon
//! says of itself), [`bootstrap`] (user data by a policy) and [`error`].
//!
//! Data flows one way: `observe` reports and folds changes, `controller` has rounds decided and
//! acted on, and the watch brings back what was written. `host/ARCHITECTURE.md` follows one pod
//! through it.

pub mod act;
#[cfg(feature = "aws")]
pub mod aws;
pub mod bootstrap;
pub mod canary;
pub mod config;
mod controller;
pub mod decide;
pub mod environment;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod generated_pages;
pub mod managed;
mod metrics;
pub mod observe;
pub mod policies;
pub mod process;
pub mod serve;
pub mod status;
#[cfg(test)]
mod test_cluster;
