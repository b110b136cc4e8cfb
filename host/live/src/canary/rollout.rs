//! Where a canary stands, and how what was observed moves it.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::{
    ALL, Decision, FIRST_NODE_SECONDS, Facts, LEAST_ROUNDS, Missing, NodeFact, Obeyed, Promotion,
    Request, Terms, Why,
};

/// Launches that fail of a version, before their share says anything.
const LEAST_FAILED: u64 = 3;
/// How many times as often launches may fail as with the old version.
const LAUNCH_FAILURES: u64 = 3;
/// One launch of twenty fails anyway: so a first failure is not infinitely more than none.
const PRIOR: Launched = Launched { all: 20, failed: 1 };
/// Differences of cost below this are noise, in USD per hour.
const LEAST_USD: f64 = 0.001;

/// A canary as the cluster remembers it. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rollout {
    /// The new version: a sum over its component and its settings.
    pub version: String,
    /// The version that it is compared with.
    pub old: String,
    /// The order that it began with.
    pub order: Vec<Vec<String>>,
    /// The step that it is at, from 0 on.
    pub step: usize,
    /// Since when it is at this step, or at its end.
    pub since: i64,
    /// Whether it runs, was taken back, or was promoted.
    pub phase: Phase,
    /// Rounds of this step in which it was asked about a NodePool of its own.
    #[serde(default)]
    pub rounds: u32,
    /// Plans of this step with each of the two.
    #[serde(default)]
    pub compared: Compared,
    /// Launches with each of the two, since it began.
    #[serde(default)]
    pub launches: Launches,
    /// NodeClaims that it decided and whose node is late.
    #[serde(default)]
    pub late: u32,
    /// An operator has said that it may go on from this step.
    #[serde(default)]
    pub consent: bool,
    /// The first node that boots with its text.
    #[serde(default)]
    pub first_node: FirstNode,
}

/// Whether a canary goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is asked, and obeyed for the NodePools of its step.
    Running,
    /// It was taken back, and is refused until it changes.
    RolledBack(Why),
    /// It answers for all NodePools of the policy.
    Promoted,
}

/// Plans for the same pods with both versions; sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Compared {
    /// Rounds that were planned twice.
    pub rounds: u64,
    /// List price of new NodeClaims in USD per hour: old, new.
    pub usd: (f64, f64),
    /// Pods without a node: old, new.
    pub left: (u64, u64),
}

/// Launches with both versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Launches {
    /// Of NodeClaims that the old version decided.
    pub old: Launched,
    /// Of those that the new one decided.
    pub new: Launched,
}

/// Launches, and those of them that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// Launches, those that failed included.
    pub all: u64,
    /// Those without an instance in the end.
    pub failed: u64,
}

/// The first node that boots with a new text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstNode {
    /// The version says nothing about what nodes boot with.
    #[default]
    NotNeeded,
    /// It is still to be launched.
    Awaited,
    /// A NodeClaim, and since when.
    Booting(String, i64),
    /// It is ready: others may follow.
    Ready,
}

impl Compared {
    fn add(&mut self, other: Compared) {
        self.rounds += other.rounds;
        self.usd = (self.usd.0 + other.usd.0, self.usd.1 + other.usd.1);
        self.left = (self.left.0 + other.left.0, self.left.1 + other.left.1);
    }

    /// Why the new version is worse, if it is.
    fn worse(&self, max_increase: f64) -> Option<Why> {
        let (old, new) = self.left;
        if new > old {
            return Some(Why::PodsLeftOver { old, new });
        }
        let (old, new) = self.usd;
        // Where fewer pods are left over, more is bought.
        let dearer = self.left.0 == self.left.1 && new > old * (1.0 + max_increase) + LEAST_USD;
        dearer.then_some(Why::Dearer { old, new })
    }
}

impl Launches {
    fn add(&mut self, other: Launches) {
        for (sum, of) in [(&mut self.old, other.old), (&mut self.new, other.new)] {
            (sum.all, sum.failed) = (sum.all + of.all, sum.failed + of.failed);
        }
    }

    /// Whether launches fail three times as often with the new version.
    fn fail_more(&self) -> bool {
        let (old, new) = (self.old, self.new);
        // new.failed / new.all ≥ 3 × (old.failed + 1) / (old.all + 20)
        new.failed >= LEAST_FAILED
            && new.failed * (old.all + PRIOR.all)
                >= LAUNCH_FAILURES * (old.failed + PRIOR.failed) * new.all
    }
}

impl Rollout {
    /// A canary that begins at `now`.
    pub fn begin(version: &str, old: &str, boots: bool, terms: &Terms, now: i64) -> Self {
        Rollout {
            version: version.to_owned(),
            old: old.to_owned(),
            order: terms.order.clone(),
            step: 0,
            since: now,
            phase: Phase::Running,
            rounds: 0,
            compared: Compared::default(),
            launches: Launches::default(),
            late: 0,
            consent: false,
            first_node: match boots {
                true => FirstNode::Awaited,
                false => FirstNode::NotNeeded,
            },
        }
    }

    /// The same canary if the operator's file still says the same; one that begins anew for another
    /// version or another order. What was taken back stays so while the version is the same.
    pub fn continued(self, version: &str, old: &str, boots: bool, terms: &Terms, now: i64) -> Self {
        let is_back = matches!(self.phase, Phase::RolledBack(_));
        if self.version != version || (self.order != terms.order && !is_back) {
            return Rollout::begin(version, old, boots, terms, now);
        }
        if self.old != old && self.phase == Phase::Running {
            // What it was compared with is another one: the step is begun again.
            let mut again = Rollout::begin(version, old, boots, terms, now);
            (again.step, again.first_node) = (self.step, self.first_node);
            return again;
        }
        self
    }

    /// NodePools that it is obeyed for.
    pub fn obeyed(&self) -> Obeyed {
        match self.phase {
            Phase::RolledBack(_) => Obeyed::NotAsked,
            Phase::Promoted => Obeyed::All,
            Phase::Running => {
                let names = self.order.iter().take(self.step + 1).flatten();
                match names.clone().any(|name| name == ALL) {
                    true => Obeyed::All,
                    false => Obeyed::Named(names.cloned().collect()),
                }
            }
        }
    }

    /// Takes in what was observed at `now`, and says what follows.
    pub fn observe(&mut self, terms: &Terms, facts: &Facts, now: i64) -> Decision {
        if matches!(self.phase, Phase::RolledBack(_)) {
            return Decision::Stay(Vec::new());
        }
        self.take_in(facts, now);
        if let Some(why) = self.why_back(terms, facts, now) {
            self.end(Phase::RolledBack(why.clone()), now);
            return Decision::RollBack(why);
        }
        if self.phase == Phase::Promoted {
            return Decision::Stay(Vec::new());
        }
        let missing = self.missing(terms, now);
        if !missing.is_empty() {
            return Decision::Stay(missing);
        }
        if self.step + 1 >= self.order.len() {
            self.end(Phase::Promoted, now);
            return Decision::Promote;
        }
        self.step += 1;
        (self.since, self.rounds, self.consent) = (now, 0, false);
        self.compared = Compared::default();
        Decision::Advance { step: self.step }
    }

    /// What has to happen before it goes on.
    pub fn missing(&self, terms: &Terms, now: i64) -> Vec<Missing> {
        let mut missing = Vec::new();
        // A clock that another replica had ahead does not make it wait for longer than it should.
        let held = (now - self.since).max(0);
        if held < terms.hold {
            missing.push(Missing::Hold(terms.hold - held));
        }
        if self.late > 0 {
            // Whether they fail is not known yet.
            missing.push(Missing::LateNodes(self.late));
        }
        match &self.first_node {
            // Rounds do not ask a version that only says what nodes boot with.
            FirstNode::Awaited => missing.push(Missing::FirstLaunch),
            FirstNode::Booting(claim, _) => missing.push(Missing::FirstNode(claim.clone())),
            FirstNode::Ready => {}
            FirstNode::NotNeeded if self.rounds < LEAST_ROUNDS => {
                missing.push(Missing::Rounds(LEAST_ROUNDS - self.rounds));
            }
            FirstNode::NotNeeded => {}
        }
        if terms.promote == Promotion::Ask && !self.consent {
            missing.push(Missing::Consent);
        }
        missing
    }

    /// Whether a node may boot with its text: the first one, or any once that is ready.
    pub fn may_boot(&self, claim: &str) -> bool {
        match (&self.phase, &self.first_node) {
            (Phase::RolledBack(_), _) => false,
            (_, FirstNode::Booting(first, _)) => first == claim,
            (_, FirstNode::Ready) => true,
            (_, FirstNode::Awaited | FirstNode::NotNeeded) => false,
        }
    }

    /// How it does, in one sentence.
    pub fn verdict(&self, terms: &Terms, now: i64) -> String {
        match &self.phase {
            Phase::RolledBack(why) => {
                return format!(
                    "taken back: {why}; refused until its component or settings change"
                );
            }
            Phase::Promoted => {
                return "answers for all NodePools: put it into the policy's own entry".into();
            }
            Phase::Running => {}
        }
        let step = format!("step {} of {}", self.step + 1, self.order.len());
        let missing = self.missing(terms, now);
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let waits = match missing.as_slice() {
            [] => "goes on with the next round".to_owned(),
            missing => format!("waits for {}", missing.join(", ")),
        };
        match self.compared.rounds {
            0 => format!("{step}, {waits}"),
            rounds => format!(
                "{step}, {waits}; {rounds} rounds planned with both: {:.4} USD/h and {} pods left over, \
                 without it {:.4} and {}",
                self.compared.usd.1,
                self.compared.left.1,
                self.compared.usd.0,
                self.compared.left.0
            ),
        }
    }

    fn take_in(&mut self, facts: &Facts, now: i64) {
        self.since = self.since.min(now);
        self.rounds = self.rounds.saturating_add(u32::from(facts.asked));
        self.compared.add(facts.compared);
        self.launches.add(facts.launches);
        self.late = facts.late.unwrap_or(self.late);
        self.consent |= facts.request == Some(Request::Promote);
        let is_first = |claim: &String| matches!(&self.first_node, FirstNode::Booting(first, _) if first == claim);
        match &facts.node {
            Some(NodeFact::Launching(claim)) if self.first_node == FirstNode::Awaited => {
                self.first_node = FirstNode::Booting(claim.clone(), now);
            }
            Some(NodeFact::Ready(claim)) if is_first(claim) => self.first_node = FirstNode::Ready,
            // No instance has ever had the text.
            Some(NodeFact::NotLaunched(claim)) if is_first(claim) => {
                self.first_node = FirstNode::Awaited;
            }
            _ => {}
        }
    }

    /// Why it is taken back, if it is.
    fn why_back(&self, terms: &Terms, facts: &Facts, now: i64) -> Option<Why> {
        if facts.request == Some(Request::Abort) {
            return Some(Why::Aborted);
        }
        if let Some(fault) = &facts.fault {
            return Some(Why::Fault(fault.clone()));
        }
        if let Some(why) = self.first_node_lost(facts, now) {
            return Some(why);
        }
        if self.launches.fail_more() {
            return Some(Why::LaunchesFail(self.launches));
        }
        self.compared.worse(terms.max_cost_increase)
    }

    fn first_node_lost(&self, facts: &Facts, now: i64) -> Option<Why> {
        let FirstNode::Booting(first, since) = &self.first_node else {
            return None;
        };
        let is_gone = matches!(&facts.node, Some(NodeFact::Gone(claim)) if claim == first);
        let is_late = now - since >= FIRST_NODE_SECONDS;
        (is_gone || is_late).then(|| Why::FirstNode {
            claim: first.clone(),
            gone: is_gone,
        })
    }

    fn end(&mut self, phase: Phase, now: i64) {
        (self.phase, self.since, self.consent) = (phase, now, false);
    }
}
