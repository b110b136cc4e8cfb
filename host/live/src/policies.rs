//! Reloads policies while the daemon runs: `longshore.toml` and every file that it names are
//! watched. A new version is prepared beside the running one, and takes its place between two
//! rounds.
//!
//! Three parties take part. The round's thread holds a [`PolicyReloader`]. It takes what is ready
//! ([`PolicyReloader::take`], a few pointers), plans with it ([`ActivePolicies`] answers the
//! planner) and hands back what it decided ([`PolicyReloader::finish`]). The [`Watcher`], on its
//! own thread, does everything that takes time: reading, compiling, validating, fetching. The
//! [`Shadows`], on another thread, run the shadow policies. Neither can delay a round. A bad file
//! replaces nothing: the old version stays in place, with a [`Notice`] and an entry in the
//! [`PoliciesStatus`].
//!
//! Logs, metrics and Events are made by the loop from notices and status. This module has no say in
//! what a round decides. Signals also change only between rounds, so that a round sees consistent
//! signals.

mod answers_on_disk;
mod board;
mod boots;
mod bundles;
mod canaries;
mod compare;
mod diff;
mod file_events;
mod files;
pub mod grants;
mod health;
mod last_good;
mod load;
mod next_version;
mod notice;
mod places;
mod quota;
mod reloader;
mod replan;
mod serve;
mod setup;
mod shared;
pub mod shipped;
pub mod signal_table;
mod signals;
mod slots;
pub mod typed;
mod watch;
mod web;

pub use crate::status::policies::{
    Active, Alike, CanaryStatus, ConfigStatus, DatedBy, FilesStatus, PoliciesStatus, PolicyStatus,
    Problem, ShadowStatus, SignalStatus,
};
pub use crate::status::windows::{Difference, Side, Sums, Window};
pub use boots::LiveBootstrap;
pub use bundles::Fetching;
pub use compare::Shadows;
pub use health::{Trouble, trouble_of};
pub use last_good::{Opened, open};
pub use longshore_policy::{CompileChild, Compiler};
pub use next_version::{BOOTS, CanarySlot, ObeyedVersions};
pub use notice::{Notice, NoticeKind};
pub use quota::EventQuota;
pub use reloader::PolicyReloader;
pub use serve::{ActivePolicies, BootSlot};
pub use setup::Setup;
pub use signals::ScoresAsker;
pub use watch::Watcher;
