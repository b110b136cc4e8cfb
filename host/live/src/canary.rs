//! The canary of a policy: a new version takes over NodePool by NodePool, and is taken back whole as
//! soon as it misbehaves.
//!
//! This module decides and does nothing else: it knows no clock, no client and no component. A round
//! hands it [`Facts`]; it answers with a [`Decision`] and what is to be remembered ([`Rollout`]). The
//! live loop writes that down in the cluster before it obeys it (`controller/canaries.rs`).
//!
//! Two rules hold whatever happens. A new version is never obeyed beyond the step that is written
//! down. One that was taken back is never obeyed again, unless the component or its settings change.

mod kept;
mod rollout;
mod why;

use serde::{Deserialize, Serialize};

pub use kept::Kept;
pub use longshore_policy::Obeyed;
pub use rollout::{Compared, FirstNode, Launched, Launches, Phase, Rollout};
pub use why::{Fault, Why};

/// Rounds in which it was asked, at the least, before it goes a step further.
pub const LEAST_ROUNDS: u32 = 20;
/// A NodeClaim that is so old and whose node has not registered is late, in seconds.
pub const LATE_SECONDS: i64 = 5 * 60;
/// How long the first node that boots with a new text may take until it is ready, in seconds.
pub const FIRST_NODE_SECONDS: i64 = 15 * 60;
/// All NodePools that a policy serves, in a step.
pub const ALL: &str = "*";

/// `[policy.canary]`, without where the component is.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// NodePools by name, step by step; [`ALL`] for all that are left.
    pub order: Vec<Vec<String>>,
    /// How long a step lasts at the least, in seconds.
    pub hold: i64,
    /// What it waits for at the end of a step.
    pub promote: Promotion,
    /// How much dearer plans with it may be than those without: a share.
    pub max_cost_increase: f64,
}

/// What a canary waits for at the end of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promotion {
    /// An operator, at each step: `longshore policy promote`.
    #[default]
    Ask,
    /// The loop, once the step has lasted its `hold` and nothing is [`Missing`].
    Auto,
}

/// What a round, a look or a purchase showed of a canary. Each is reported once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// It was asked about a NodePool of its step.
    pub asked: bool,
    /// What it did wrong, if it did: in whichever NodePool.
    pub fault: Option<Fault>,
    /// The same pods planned with the old version and with the new one.
    pub compared: Compared,
    /// Launches, and those of them that failed.
    pub launches: Launches,
    /// What became of the first node that boots with its text.
    pub node: Option<NodeFact>,
    /// NodeClaims that it decided and whose node does not register: so many are late, if that was
    /// looked at.
    pub late: Option<u32>,
    /// The request of an operator to promote or to abort it, if there is one.
    pub request: Option<Request>,
}

/// What happened to the node that boots with a new text before all others.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeFact {
    /// Its NodeClaim is about to be launched with the new text.
    Launching(String),
    /// It registered and is ready.
    Ready(String),
    /// Its NodeClaim is gone, and never had an instance.
    NotLaunched(String),
    /// Its NodeClaim is gone, and its instance was never ready.
    Gone(String),
}

/// What an operator wants of a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Go on once the step has lasted long enough.
    Promote,
    /// Return to the version at work. The canary is refused until it changes.
    Abort,
}

/// What follows from what was observed.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It stays as it is, for these reasons; none where it is at an end.
    Stay(Vec<Missing>),
    /// It is obeyed for the NodePools of a further step.
    Advance {
        /// The step, from 0 on.
        step: usize,
    },
    /// It is obeyed for all NodePools, as if it were the policy.
    Promote,
    /// It is not asked any more.
    RollBack(Why),
}

/// What a canary waits for before it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Seconds that are left of the step's `hold`.
    Hold(i64),
    /// Rounds in which it is asked.
    Rounds(u32),
    /// NodeClaims that it decided have nodes, or failed.
    LateNodes(u32),
    /// A first node is launched that boots with its text.
    FirstLaunch,
    /// The node of this NodeClaim, the first that boots with its text, is ready.
    FirstNode(String),
    /// `longshore policy promote`, where promotion is [`Promotion::Ask`].
    Consent,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Missing::Hold(seconds) => {
                write!(
                    f,
                    "{} of its hold",
                    longshore_report::messages::span(*seconds)
                )
            }
            Missing::Rounds(rounds) => write!(f, "{rounds} rounds in which it is asked"),
            Missing::LateNodes(late) => write!(f, "{late} of its nodes, which are late"),
            Missing::FirstLaunch => f.write_str("a first node to boot with its user data"),
            Missing::FirstNode(claim) => {
                write!(
                    f,
                    "NodeClaim {claim}, the first with its user data, to be ready"
                )
            }
            Missing::Consent => f.write_str("`longshore policy promote`"),
        }
    }
}
