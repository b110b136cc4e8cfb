//! What a policy answers, and why there is no answer that could be used.

use wasmtime::component::{ComponentType, Lift};

/// The most that an offering may cost, in USD per hour: a thousand times what the dearest does. Beyond
/// it sums lose their cents.
pub(super) const MAX_COST: f64 = 1e6;

/// Why a policy gave no answer that could be used.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It burnt all its fuel. The same on every machine.
    #[error("{asked}: ran out of fuel after {fuel} units; an endless loop?")]
    Fuel {
        /// The request.
        asked: &'static str,
        /// Fuel that the call had.
        fuel: u64,
    },
    /// It took too long by the clock though it had fuel left. Not the same on every machine.
    #[error("{asked}: took longer than {limit:?}")]
    Time {
        /// The request.
        asked: &'static str,
        /// Time that the call had.
        limit: std::time::Duration,
    },
    /// It answered, but all its answers in a round took more than a round has.
    #[error("{asked}: used up its {what} for a round, after answers that each kept the limits")]
    Budget {
        /// The request.
        asked: &'static str,
        /// `fuel`, the same on every machine, or `time`.
        what: &'static str,
    },
    /// It asked for more memory than it may have.
    #[error("{asked}: wants more than {limit} bytes of memory")]
    Memory {
        /// The request.
        asked: &'static str,
        /// How much it may have.
        limit: usize,
    },
    /// It called the host too often.
    #[error("{asked}: called host functions more than {limit} times")]
    HostCalls {
        /// The request.
        asked: &'static str,
        /// Most calls of the host.
        limit: u32,
    },
    /// It handed over more than may be copied out of it in one go.
    #[error("{asked}: the answer or a message is larger than {limit} bytes")]
    TooLarge {
        /// The request.
        asked: &'static str,
        /// Most bytes of an answer or a message.
        limit: usize,
    },
    /// It trapped, or answered something that cannot be read.
    #[error("{asked}: {reason}")]
    Trap {
        /// The request.
        asked: &'static str,
        /// The trap in words, with what the policy said before.
        reason: String,
    },
    /// It was not asked: a signal that it requires is not to be had.
    #[error("{asked}: {what}")]
    Signal {
        /// The request.
        asked: &'static str,
        /// Which signal, and why.
        what: String,
    },
    /// It said itself that it cannot answer.
    #[error("{asked}: {message}")]
    Refused {
        /// The request.
        asked: &'static str,
        /// Its words, cut at 500 bytes.
        message: String,
    },
    /// Its costs break the contract.
    #[error("{asked}: {fault}")]
    Costs {
        /// The request.
        asked: &'static str,
        /// Which rule, and where.
        fault: CostFault,
    },
    /// Its answer breaks the contract in another way.
    #[error("{asked}: {problem}")]
    Answer {
        /// The request.
        asked: &'static str,
        /// Which rule, and where.
        problem: String,
    },
}

/// A rule that the costs of an answer break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostFault {
    /// There is not one for each offering.
    #[error("{given} costs for {rows} offerings")]
    Count {
        /// How many costs the answer has.
        given: usize,
        /// How many offerings were asked about.
        rows: usize,
    },
    /// A cost is negative, too large, or not a number.
    #[error("the cost of offering {row} is {cost}; expected 0 to {most}, or infinity", most = MAX_COST)]
    OutOfBounds {
        /// Row of the offering in the question.
        row: usize,
        /// What it was said to cost.
        cost: String,
    },
    /// Every cost is infinite: nothing could be bought.
    #[error("every offering is excluded")]
    AllExcluded,
    /// All are infinite that are not in the costs of the policies before it.
    #[error("every offering is excluded that the policies before it leave")]
    RestExcluded,
}

/// A number of a guest as messages have it: 1e308 is not written out.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value.is_finite() && size != 0.0 && !(1e-9..1e15).contains(&size) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

/// A signal that a policy reads.
#[derive(Clone, Debug, PartialEq, ComponentType, Lift)]
#[component(record)]
pub struct SignalUse {
    /// Name of the signal in the configuration.
    pub name: String,
    /// Whether the policy is of no use without it.
    pub required: bool,
    /// Older numbers than this, in seconds, are too old for it; 0 for any age.
    #[component(name = "max-age")]
    pub max_age: f64,
}

/// What a policy says about itself, as it says it.
#[derive(Clone, Debug, PartialEq, ComponentType, Lift)]
#[component(record)]
pub(crate) struct RawAbout {
    pub name: String,
    pub version: String,
    pub summary: String,
    pub signals: Vec<SignalUse>,
    #[component(name = "settings-schema")]
    pub settings_schema: String,
    pub annotations: Vec<(String, String)>,
}

/// What is known of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// What it calls itself.
    pub name: String,
    /// Version, in the policy's own words.
    pub version: String,
    /// One sentence for people.
    pub summary: String,
    /// The interfaces that it exports of those that can be asked.
    pub implements: Vec<String>,
    /// The signals that it reads.
    pub signals: Vec<SignalUse>,
    /// JSON Schema of its settings; empty if it has none.
    pub settings_schema: String,
    /// What it says beside that.
    pub annotations: Vec<(String, String)>,
}

impl About {
    /// Names of the signals that it reads.
    pub fn signal_names(&self) -> Vec<String> {
        self.signals.iter().map(|of| of.name.clone()).collect()
    }
}

impl RawAbout {
    /// With what the component exports.
    pub fn of(self, implements: Vec<String>) -> About {
        About {
            name: self.name,
            version: self.version,
            summary: self.summary,
            implements,
            signals: self.signals,
            settings_schema: self.settings_schema,
            annotations: self.annotations,
        }
    }
}

/// The answer of a guest's function, or the guest's own words for why there is none.
pub(crate) type Answer<T> = (Result<T, String>,);
