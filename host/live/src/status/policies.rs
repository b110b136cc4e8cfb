//! Status of policies and signals for `longshore status`.

use longshore_policy::CallStats;
use serde::{Deserialize, Serialize};

use super::windows::{Difference, Window};
use crate::config::{Mode, SignalEntry};
use longshore_report::messages::span;

/// Something that cannot be used.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// File (with line and column where there is one) or address.
    pub place: String,
    /// The fault, in one sentence.
    pub reason: String,
    /// What can be done; may be empty.
    pub hint: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// Everything about policies and signals. Times are seconds since 1970.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PoliciesStatus {
    /// The configuration that is in force.
    pub config: ConfigStatus,
    /// How its files are watched.
    pub files: FilesStatus,
    /// The policies that the configuration names, in its order.
    pub policies: Vec<PolicyStatus>,
    /// The signals, by name.
    pub signals: Vec<SignalStatus>,
    /// How often a round took over something new.
    pub swaps: u64,
    /// The longest that taking over has ever held up a round, in microseconds.
    pub longest_swap_micros: f64,
    /// Notices that were dropped because they were never read.
    pub notices_dropped: u64,
    /// What an operator should look at, a sentence each: policies that tell no offerings apart, signals
    /// whose data is old, keys that nothing has to be signed by.
    pub warnings: Vec<String>,
}

/// Which configuration is in force, and what is wrong with its file.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigStatus {
    /// Its file; none for defaults.
    pub file: Option<String>,
    /// Since when the current configuration is in use.
    pub loaded_at: i64,
    /// What is wrong with the file as it is now.
    pub error: Option<Problem>,
}

/// How changes of files are noticed.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesStatus {
    /// How often all are looked at, whatever events say, in milliseconds; 0 before the first look.
    pub look_every_ms: u64,
    /// Why events are not relied on, if so.
    pub without_events: Option<String>,
    /// Files that never change while this process lives: mounted with `subPath`.
    pub fixed: Vec<String>,
}

impl FilesStatus {
    /// A sentence about each file that never changes.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = String> {
        self.fixed.iter().map(|file| {
            format!(
                "{file} is mounted with subPath and never changes while the pod lives: mount the \
                 whole volume, or restart to read it again"
            )
        })
    }
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The component's file, or its reference.
    pub path: String,
    /// The key file that signed the component that runs, if a signature is demanded.
    pub signed_by: Option<String>,
    /// Whether its answers count, are compared, or take over step by step.
    pub mode: Mode,
    /// NodePools that it serves; none for all.
    pub nodepools: Option<Vec<String>>,
    /// What the version that runs calls itself; none if none could ever be loaded, and the price
    /// answers.
    pub version: Option<String>,
    /// SHA-256 of the component that runs.
    pub digest: Option<String>,
    /// Since when it is loaded.
    pub loaded_at: Option<i64>,
    /// Whether it is being read and compiled, for the first time.
    pub loading: bool,
    /// Whether a registry is asked for what the configuration names; what runs goes on.
    pub fetching: bool,
    /// What is wrong with the files as they are now, or with what a registry has.
    pub error: Option<Problem>,
    /// What answered for it when it was last asked.
    pub active: Option<Active>,
    /// The longest call when it was last asked, in seconds.
    pub call_seconds: Option<f64>,
    /// The most fuel that a call used then, as a share of what it has.
    pub fuel_ratio: Option<f64>,
    /// The most memory that it had then, in bytes.
    pub memory_bytes: Option<u64>,
    /// What it fails with in rounds, if it does.
    pub failing: Option<String>,
    /// Number of versions that were loaded since the start.
    pub loads: u64,
    /// Number of versions that were refused since the start.
    pub refused: u64,
    /// What it was asked in rounds, and how that went.
    #[serde(flatten)]
    pub stats: CallStats,
    /// What the version that runs implements: `scorer`, `commitments`, `consolidation`, `bootstrap`.
    pub implements: Vec<String>,
    /// What of that it is not asked, since `grants` does not have it.
    pub not_granted: Vec<String>,
    /// Signals that it declares and does not see, since `signals` does not have them.
    pub withheld_signals: Vec<String>,
    /// What its entry grants and it has no use for, a sentence each.
    pub unused: Vec<String>,
    /// NodePools of its entry that are not there, in a sentence.
    pub missing_nodepools: Option<String>,
    /// The comparison, for a shadow policy.
    pub shadow: Option<ShadowStatus>,
    /// Where all offerings cost the same in its last answers.
    pub alike: Vec<Alike>,
    /// What would have been bought with it, where rounds are planned again with it.
    pub windows: Vec<Window>,
    /// The largest differences of these.
    pub largest: Vec<Difference>,
    /// How it takes over, for the next version of a policy.
    pub canary: Option<CanaryStatus>,
}

/// How the next version of a policy takes over.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CanaryStatus {
    /// Which version that is: a sum over its component and its settings.
    pub version: String,
    /// The step that it is at, from 1 on; 0 where it is not asked.
    pub step: usize,
    /// How many steps there are.
    pub steps: usize,
    /// Since when it is there.
    pub since: i64,
    /// Why it was taken back, as a label; none where it was not.
    pub taken_back: Option<String>,
    /// NodePools that it is obeyed for, by name; `*` for all that the policy serves.
    pub obeyed: Vec<String>,
    /// How it does, in one sentence.
    pub verdict: String,
}

/// What answers for a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Active {
    /// The version that runs.
    Current,
    /// Its last good version.
    LastVersion,
    /// What it last said of each offering.
    LastAnswer,
    /// Nothing: nothing is bought or consolidated.
    Hold,
    /// The list price.
    Price,
    /// The rules of NodePools alone.
    Rules,
    /// The built-in user data.
    BuiltIn,
}

impl Active {
    /// As a label has it.
    pub fn label(self) -> &'static str {
        match self {
            Active::Current => "current",
            Active::LastVersion => "last-version",
            Active::LastAnswer => "last-answer",
            Active::Hold => "hold",
            Active::Price => "price",
            Active::Rules => "rules",
            Active::BuiltIn => "built-in",
        }
    }

    pub(crate) fn of(tally: &CallStats) -> Self {
        match tally {
            tally if tally.by_last_good > 0 => Active::LastVersion,
            tally if tally.by_last_answer > 0 => Active::LastAnswer,
            tally if tally.by_hold > 0 => Active::Hold,
            tally if tally.by_price > 0 => Active::Price,
            tally if tally.by_rules > 0 => Active::Rules,
            _ => Active::Current,
        }
    }
}

/// NodePools for which a policy costs all offerings alike.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Alike {
    /// What each offering costs, in USD per hour.
    pub cost: f64,
    /// How many offerings that are, without those that it excludes.
    pub offerings: usize,
    /// The NodePools, by name.
    pub nodepools: Vec<String>,
}

/// NodePools that are named in a sentence.
pub const MAX_NAMED_NODE_POOLS: usize = 3;

impl Alike {
    /// `all 812 offerings 0 USD/h for NodePool general`
    pub fn text(&self) -> String {
        let named = self.nodepools.iter().take(MAX_NAMED_NODE_POOLS);
        let mut names = named.map(String::as_str).collect::<Vec<_>>().join(", ");
        if self.nodepools.len() > MAX_NAMED_NODE_POOLS {
            names += &format!(" and {} more", self.nodepools.len() - MAX_NAMED_NODE_POOLS);
        }
        let plural = if self.nodepools.len() == 1 { "" } else { "s" };
        format!(
            "all {} offerings {} USD/h for NodePool{plural} {names}",
            self.offerings, self.cost
        )
    }

    /// Whether two answers are the same in all but the number of offerings, which changes with the
    /// catalogue.
    pub(crate) fn is_like(&self, other: &Alike) -> bool {
        self.cost == other.cost && self.nodepools == other.nodepools
    }
}

impl PolicyStatus {
    /// `costs all 812 offerings 0 USD/h for NodePool general: the price decides nothing`, if so.
    pub(crate) fn alike(&self) -> Option<String> {
        let all: Vec<String> = self.alike.iter().map(Alike::text).collect();
        (!all.is_empty())
            .then(|| format!("costs {}: the price decides nothing", all.join(", and ")))
    }
}

/// How a shadow compares with what was decided, since it is one. Sums of claims, in USD per hour.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ShadowStatus {
    /// Rounds compared.
    pub rounds: u64,
    /// Rounds that came while another was compared.
    pub skipped: u64,
    /// Rounds in which it did not answer.
    pub failures: u64,
    /// Rounds in which it would have chosen differently.
    pub rounds_differing: u64,
    /// Proposals to disrupt nodes that a consolidation policy was asked about.
    pub proposals: u64,
    /// Proposals that it would have kept or let go otherwise.
    pub proposals_differing: u64,
    /// Claims compared.
    pub claims: u64,
    /// Claims for which it would have chosen another offering.
    pub differ: u64,
    /// Claims with an offering that it excludes.
    pub excluded: u64,
    /// Price of what was chosen.
    pub price: f64,
    /// Price of its own choice.
    pub price_instead: f64,
    /// Effective cost of the chosen offerings, by the enforced policies.
    #[serde(rename = "obeyed")]
    pub enforced: f64,
    /// Effective cost of its own choices, by the enforced policies.
    #[serde(rename = "obeyed_instead")]
    pub enforced_instead: f64,
    /// Effective cost of what was chosen, by the shadow.
    pub own: f64,
    /// Effective cost of what it would have chosen, by the shadow.
    pub own_instead: f64,
}

/// The comparison of one shadow policy with the decision of one round. Costs are in USD per hour.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Comparison {
    /// Claims of the NodePools that it serves.
    pub claims: u64,
    /// Of these, those for which it would have chosen another offering.
    pub differ: u64,
    /// How many of these have an offering that it excludes.
    pub excluded: u64,
    /// What the claims cost by price: as decided, and as it would have chosen.
    pub price: (f64, f64),
    /// Cost of the claims by the enforced policies: as decided, and as the shadow would have
    /// chosen. Claims with an infinite cost on either side are left out.
    pub enforced: (f64, f64),
    /// The same by its own costs.
    pub own: (f64, f64),
}

/// The comparison of a shadow of consolidation with the decisions of one look.
#[derive(PartialEq, Debug, Default)]
pub(crate) struct LookComparison {
    /// Proposals that it was asked about.
    pub proposals: u64,
    /// Those of them that it would have decided otherwise.
    pub differ: u64,
    /// Questions that it was asked.
    pub calls: u64,
    /// Questions that it did not answer.
    pub failures: u64,
    /// What it failed with last.
    pub failed: Option<String>,
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SignalStatus {
    pub name: String,
    /// File, address, or what EC2 is asked.
    pub source: String,
    /// Seconds between two requests; none for a file.
    pub every_seconds: Option<u64>,
    /// Rows of the table in use.
    pub rows: Option<usize>,
    /// When the table in use was fetched.
    pub had_at: Option<i64>,
    /// When its numbers were true, as far as that is known.
    pub data_at: Option<i64>,
    pub dated_by: Option<DatedBy>,
    /// Age of the data at the time of this status, in seconds.
    pub age_seconds: Option<i64>,
    /// Data that is older is old.
    pub max_age_seconds: u64,
    /// Number of tables that were fetched since the start.
    pub had: u64,
    /// Number of failed fetches.
    pub failures: u64,
    /// Why it cannot be fetched now.
    pub error: Option<Problem>,
}

/// What says when the numbers of a signal were true.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DatedBy {
    /// The row `time` of the table.
    Table,
    /// The last change of the file.
    File,
    /// The header `Last-Modified` of the reply.
    LastModified,
    /// When the reply came, as it names no other time.
    Reply,
}

impl SignalStatus {
    /// Whether its data is older than it may be.
    pub fn is_old(&self) -> bool {
        self.age_seconds
            .is_some_and(|age| u64::try_from(age).is_ok_and(|age| age > self.max_age_seconds))
    }

    /// A sentence about data that is old.
    pub(crate) fn old(&self) -> Option<String> {
        let age = self.age_seconds.filter(|_| self.is_old())?;
        let most = i64::try_from(self.max_age_seconds).unwrap_or(i64::MAX);
        Some(format!(
            "signal {}: its data is {} old, more than {}",
            self.name,
            span(age),
            span(most)
        ))
    }

    /// One that was never had.
    pub(crate) fn new(name: &str, entry: &SignalEntry) -> Self {
        let (source, every_seconds) = match entry {
            SignalEntry::File(file) => (file.display().to_string(), None),
            SignalEntry::Url { url, every, .. } => (without_secrets(url), Some(every.as_secs())),
            SignalEntry::PlacementScores(entry) => (
                "EC2: spot placement scores".to_owned(),
                Some(entry.every.as_secs()),
            ),
        };
        let name = name.to_owned();
        SignalStatus {
            name,
            source,
            every_seconds,
            rows: None,
            had_at: None,
            data_at: None,
            dated_by: None,
            age_seconds: None,
            max_age_seconds: 0,
            had: 0,
            failures: 0,
            error: None,
        }
    }
}

/// An address without user and query, which may hold secrets, for messages.
pub fn without_secrets(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or(url);
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or(authority);
            format!("{scheme}://{host}{path}")
        }
        None => bare.to_owned(),
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_no_passwords_or_tokens() {
        assert_eq!(
            without_secrets("https://me:secret@host:8/path?token=x#y"),
            "https://host:8/path"
        );
        assert_eq!(without_secrets("http://host"), "http://host");
    }
}
