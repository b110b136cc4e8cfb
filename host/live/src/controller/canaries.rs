//! Follows the canaries of policies: has what was seen of them decided about, written down, and then
//! obeyed.
//!
//! A next version is obeyed as far as the ConfigMap says, and not before it was read. A step back
//! counts at once and is written down afterwards: a successor that does not know of it sees the same
//! fault again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::NodeClaim;
use longshore_core::model::conditions::REGISTERED;
use tokio::time::Instant;

use super::known_canaries::{Canaries, CanariesDone};
use super::{Controller, Done};
use crate::act::canary_config_map::{self, Entry};
use crate::act::launch::outcomes::marks;
use crate::canary::{ALL, Decision, Facts, Kept, LATE_SECONDS, Launched, Launches, Obeyed, Phase};
use crate::observe::node_claim::is_true;
use crate::policies::{CanarySlot, CanaryStatus, NoticeKind, ObeyedVersions};
use crate::process::mutants::mutant;
use crate::process::step_error::StepError;

/// How often the ConfigMap is read, for what operators want.
const READ_INTERVAL: Duration = Duration::from_secs(15);
/// How often what may wait is written down.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// How often time alone is taken in.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

impl Controller {
    /// Takes in what was seen of next versions, and has what follows written down and obeyed.
    pub(super) fn follow_canaries(&mut self, now: Instant) {
        let slots = self.config.policies.canaries();
        let sightings = self.config.policies.take_sightings();
        if slots.is_empty() {
            self.ctx.memory.launch.outcomes.take();
            if !self.canaries.kept.is_empty() {
                self.canaries.kept.clear();
                self.config.policies.obey(ObeyedVersions::new());
            }
            if !self.canaries.slots.is_empty() || self.canaries.map.is_none() {
                // What was marked for one boots with the version at work.
                self.ctx.memory.launch.first_boots.follow(BTreeMap::new());
            }
            self.canaries.slots = slots;
            return;
        }
        if self.canaries.map.is_none() {
            self.canaries.slots = slots;
            self.read_canaries(now);
            // Outcomes of launches wait until it is known what is on its way.
            return;
        }
        let outcomes = self.ctx.memory.launch.outcomes.take();
        let time = self.ctx.now().as_second();
        self.canaries.follow(&slots, time);
        for (policy, version, facts) in sightings {
            self.canary_saw(&policy, &version, &facts);
        }
        for ((pool, marks), good) in outcomes {
            self.count_launch(&slots, &pool, &marks, good);
        }
        if Canaries::is_due(self.canaries.look_at, now) {
            self.canaries.look_at = Some(now + LOOK_INTERVAL);
            for slot in slots.iter() {
                let facts = Facts {
                    request: self.wish_of(&slot.policy),
                    late: Some(self.late_nodes(&slot.mark())),
                    ..Facts::default()
                };
                self.canary_saw(&slot.policy, &slot.version, &facts);
            }
        }
        self.follow_boots(&slots);
        self.config.policies.obey(self.canaries.obeyed());
        self.write_canaries(now);
        if Canaries::is_due(self.canaries.read_at, now) {
            self.read_canaries(now);
        }
    }

    /// What this replica knows of canaries is another one's from now on.
    pub(super) fn forget_canaries(&mut self) {
        self.canaries = Canaries::default();
        self.ctx.memory.launch.first_boots.forget();
        self.config.policies.obey(ObeyedVersions::new());
    }

    /// NodeClaims with a mark whose node has not registered for long.
    fn late_nodes(&self, mark: &str) -> u32 {
        let now = self.ctx.now().as_second();
        let is_late = |claim: &&Arc<NodeClaim>| {
            let created = claim.metadata.creation_timestamp.as_ref();
            let age = created.map_or(0, |at| now - at.0.as_second());
            let registered = claim
                .status
                .as_ref()
                .is_some_and(|of| is_true(of, REGISTERED));
            let goes = claim.metadata.deletion_timestamp.is_some();
            age >= LATE_SECONDS && !registered && !goes && marks(claim).any(|own| own == mark)
        };
        let late = self.state.claims.values().filter(is_late).count();
        u32::try_from(late).unwrap_or(u32::MAX)
    }

    fn wish_of(&self, policy: &str) -> Option<crate::canary::Request> {
        let kept = self.canaries.kept.get(policy)?;
        self.canaries.map.as_ref()?.wish(policy, kept.wanted())
    }

    pub(super) fn canary_saw(&mut self, policy: &str, version: &str, facts: &Facts) {
        let now = self.ctx.now().as_second();
        let slot = self
            .canaries
            .slots
            .iter()
            .find(|slot| slot.policy == policy);
        let Some((slot, kept)) = slot.zip(self.canaries.kept.get_mut(policy)) else {
            return;
        };
        if slot.version != version {
            return;
        }
        let mut facts = facts.clone();
        if mutant("canary-stays") {
            facts.fault = None;
        }
        let decision = kept.observe(&slot.terms, &facts, now);
        let rollout = kept.wanted();
        let status = status_of(kept, slot, now);
        let verdict = status.verdict.clone();
        self.config.policies.canary_stands(policy, status);
        let steps = rollout.order.len();
        let (kind, message, hint) = match decision {
            Decision::Stay(_) => return,
            Decision::Advance { step } => (
                NoticeKind::CanaryAdvanced,
                format!(
                    "policy {policy}: its next version is at step {} of {steps}",
                    step + 1
                ),
                "",
            ),
            Decision::Promote => (
                NoticeKind::CanaryPromoted,
                format!("policy {policy}: its next version {verdict}"),
                "",
            ),
            Decision::RollBack(_) => (
                NoticeKind::CanaryTakenBack,
                format!("policy {policy}: its next version is {verdict}"),
                "change the component or its settings, or delete [policy.canary]",
            ),
        };
        self.config
            .policies
            .canary_moved(kind, policy, message, hint);
    }

    /// Counts how a launch went, for the version that decided it.
    fn count_launch(&mut self, slots: &[CanarySlot], pool: &str, marks: &[String], good: bool) {
        let launched = Launched {
            all: 1,
            failed: u64::from(!good),
        };
        for slot in slots.iter().filter(|slot| slot.serves(pool)) {
            let is_new = !mutant("canary-launches-unseen") && marks.contains(&slot.mark());
            let launches = match is_new {
                true => Launches {
                    new: launched,
                    ..Launches::default()
                },
                false => Launches {
                    old: launched,
                    ..Launches::default()
                },
            };
            let facts = Facts {
                launches,
                ..Facts::default()
            };
            self.canary_saw(&slot.policy, &slot.version, &facts);
        }
    }

    fn read_canaries(&mut self, now: Instant) {
        let canaries = &mut self.canaries;
        if canaries.busy || (canaries.read_at.is_some_and(|at| at > now)) {
            return;
        }
        (canaries.busy, canaries.read_at) = (true, Some(now + READ_INTERVAL));
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            let result = canary_config_map::read(&ctx.client, ctx.events.namespace()).await;
            let written = BTreeMap::new();
            let _ = done
                .send(Done::Canaries(CanariesDone { result, written }))
                .await;
        });
    }

    fn write_canaries(&mut self, now: Instant) {
        let canaries = &mut self.canaries;
        let may_wait = canaries.write_at.is_some_and(|at| at > now);
        let due = |kept: &Kept| kept.is_unwritten() && (kept.is_urgent() || !may_wait);
        let (Some(map), false) = (&canaries.map, canaries.busy) else {
            return;
        };
        if !canaries.kept.values().any(due) {
            return;
        }
        let (mut map, mut written) = (map.clone(), BTreeMap::new());
        for slot in canaries.slots.iter() {
            let Some(kept) = canaries
                .kept
                .get(&slot.policy)
                .filter(|of| of.is_unwritten())
            else {
                continue;
            };
            let rollout = kept.wanted().clone();
            map = map.with(&Entry {
                policy: slot.policy.clone(),
                verdict: rollout.verdict(&slot.terms, self.ctx.now().as_second()),
                rollout: rollout.clone(),
            });
            written.insert(slot.policy.clone(), rollout);
        }
        (canaries.busy, canaries.write_at) = (true, Some(now + WRITE_INTERVAL));
        let (ctx, done) = (self.ctx.clone(), self.done.clone());
        tokio::spawn(async move {
            let result = canary_config_map::write_leading(&ctx, map).await;
            let _ = done
                .send(Done::Canaries(CanariesDone { result, written }))
                .await;
        });
    }

    /// Takes in what a read or a write came to.
    pub(super) fn canaries_done(&mut self, done: CanariesDone) {
        let canaries = &mut self.canaries;
        canaries.busy = false;
        let map = match done.result {
            Ok(map) => map,
            Err(error) => {
                let now = Instant::now();
                canaries.read_at = Some(match error {
                    // Another writer has changed it.
                    StepError::Conflict(_) => now,
                    // What was written is not known.
                    _ => now + LOOK_INTERVAL,
                });
                if !done.written.is_empty() {
                    canaries.write_at = canaries.read_at;
                }
                tracing::warn!(%error, "ConfigMap of canaries; tried again");
                return;
            }
        };
        for (policy, kept) in &mut canaries.kept {
            match (done.written.get(policy), map.entry(policy)) {
                (Some(written), _) => kept.wrote(written.clone()),
                (None, Some(entry)) if done.written.is_empty() => kept.found(entry.rollout),
                (None, _) => {}
            }
        }
        canaries.map = Some(map);
    }
}

fn status_of(kept: &Kept, slot: &CanarySlot, now: i64) -> CanaryStatus {
    let (rollout, obeyed) = (kept.wanted(), kept.obeyed());
    CanaryStatus {
        version: rollout.version.clone(),
        step: match obeyed {
            Obeyed::NotAsked => 0,
            Obeyed::Named(_) | Obeyed::All => rollout.step + 1,
        },
        steps: rollout.order.len(),
        since: rollout.since,
        taken_back: match &rollout.phase {
            Phase::RolledBack(why) => Some(why.label().to_owned()),
            Phase::Running | Phase::Promoted => None,
        },
        obeyed: match obeyed {
            Obeyed::NotAsked => Vec::new(),
            Obeyed::Named(names) => names,
            Obeyed::All => vec![ALL.to_owned()],
        },
        verdict: rollout.verdict(&slot.terms, now),
    }
}
