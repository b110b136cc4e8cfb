//! AWS's endpoints for tests: EC2, SQS, SSM, IAM, EKS, Pricing, STS and ARC on one port.
//!
//! [`handle()`] is a function of the world, the time and a request. It knows no clock and no socket;
//! chance comes from the world's seed. [`shell`] runs it at a clock that the caller gives, and the
//! feature `serve` puts it behind a loopback port.
//!
//! Exact are the shapes of replies, codes, statuses, idempotency, partial answers and paging.
//! Plausible are prices, delays and depths of pools. Permissions hold where the account has policies
//! ([`policies`]). Absent are signatures, volumes, and fleets that are not `instant`. A parameter that
//! the emulator does not read is an error.

mod action;
mod calls;
mod chance;
mod control;
mod ec2;
mod eks;
mod event_bridge;
pub mod faults;
mod handle;
mod iam;
mod json;
pub mod kubelet;
mod permissions;
pub mod policies;
mod pricing;
#[cfg(feature = "serve")]
pub mod serve;
pub mod shell;
mod sqs;
mod ssm;
mod sts;
mod throttle;
pub mod time;
mod wire;
pub mod world;
mod zonal_shift;

pub use handle::{Response, Wait, handle, resume};
pub use time::Time;
pub use wire::{Refusal, Reply, Request};
pub use world::{Account, World, WorldError};
