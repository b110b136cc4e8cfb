//! Policies: WebAssembly components that say what offerings cost, which nodes are disrupted and
//! when, and what nodes boot with.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use longshore_policy::{Assignment, Host, HostConfig};
//!
//! let host = Host::new(HostConfig::default())?;
//! let policy = host.load("price.wasm".as_ref(), None)?;
//! let policies = host.policies(vec![Assignment { policy, node_pools: vec![] }]);
//! // plan(&snapshot, &policies, …), then:
//! for report in policies.reports() {
//!     eprintln!("{report}");
//! }
//! # Ok(()) }
//! ```
//!
//! The contract is in `wit/policy@0.1.0`. This crate owns everything that makes it fast (columns
//! that are shared and lowered without a copy of ours) and safe: a policy has fuel, memory, host
//! calls and time up to a [limit](Limits); every answer is checked; whatever fails is reported and
//! answered by the last good version or by the price. It never stops a plan.
//!
//! Absent on purpose: WASI in any form (a component that imports it is refused), files or network
//! for guests, async, and trust in anything that a guest says. Fetching signals and watching files
//! is for the daemon.

#![warn(missing_docs)]

mod answer_cache;
mod bootstrap;
mod cache;
mod call;
mod canary;
mod cases;
mod chain;
mod cluster_columns;
mod columns;
mod compiler;
mod engine;
pub mod golden;
mod guest_text;
mod imports;
mod judged;
mod judges;
mod last_answers;
mod last_decisions;
mod limiter;
mod load;
mod loaded;
mod report;
mod round_budget;
mod score_request;
mod session;
mod settings;
mod signals;
mod sum;
mod terms;
mod version;

pub use bootstrap::BootSession;
pub use bootstrap::answers::{NodeKind, Overheads, Taint, UserData};
pub use bootstrap::facts::{BootFacts, ClusterFacts, Machines};
pub use call::answer::{About, CallError, CostFault, SignalUse};
pub use canary::{CanaryFault, CanarySeen, Obeyed};
pub use cases::text::toml_value;
pub use cases::{Case, CaseError, CasePool, CaseRow};
pub use chain::{
    Assignment, ChainLink, PolicySlot, ScoreRecord, WasmPolicies, chained, discouraged_by_cost,
    without_answer,
};
pub use compiler::{COMPILE_CPU_SECONDS, CompileChild, Compiler, compile_child};
pub use engine::{HostConfig, Limits, TICK};
pub use guest_text::{cut, printable};
pub use imports::state::{Level, Message};
pub use judged::{ConsolidationRequest, JudgeAnswer, JudgeRecord, Said};
pub use last_answers::LastAnswers;
pub use load::{
    Description, Host, HostError, Interface, LoadError, MAX_COMPONENT_BYTES, Refusal, inspect,
    read_component,
};
pub use loaded::LoadedPolicy;
pub use report::{CallStats, CallUsage, Fallback, Report};
pub use round_budget::ROUND_TIME;
pub use score_request::ScoreRequest;
pub use session::Session;
pub use settings::skeleton::skeleton as settings_skeleton;
pub use signals::{Signal, Signals};
pub use terms::{Ability, Exclusions, MAX_DISCOUNT, OnFailure, Terms};
