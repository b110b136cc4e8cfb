//! What every consolidation policy has to keep.

use longshore_core::disrupt::checked;
use longshore_core::disrupt::consolidation::DisruptionPolicies;
use longshore_core::disrupt::methods::{Round, RoundOptions as Look, Verdict};
use longshore_core::disrupt::paper::{self, Serial};
use longshore_core::disrupt::proposals::Proposal;
use longshore_core::disrupt::verdicts::Method;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;

use crate::clusters::{Cluster, NOW, cluster, snapshot};
use crate::drawn::{Drawn, drawn};
use crate::shrink::smallest;
use crate::{Counterexample, Proof, ProveOptions, search};

/// Something that decides which nodes are disrupted, and when.
pub trait Judge {
    /// Forgets everything: what is asked next is asked of a fresh instance.
    fn fresh(&mut self);

    /// Has it asked in a round at `now`, seconds since 1970; what failed, in words.
    fn ask(&self, now: i64, with: &mut dyn FnMut(&dyn DisruptionPolicies)) -> Vec<String>;
}

/// What a consolidation policy can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgeProperty {
    /// It answers every question, within the bounds of the contract.
    Answers,
    /// Asked the same again it says the same.
    Alike,
    /// A no, and a not yet, have a reason.
    SaysWhy,
    /// What it says no to is not carried out.
    KeepsNo,
    /// Nothing is replaced that saves nothing.
    Saves,
    /// A cluster that is left alone settles, and nothing is put off for ever.
    Settles,
}

impl JudgeProperty {
    /// What it says, for people.
    pub fn words(self) -> &'static str {
        match self {
            JudgeProperty::Answers => "it answers, within the bounds of the contract",
            JudgeProperty::Alike => "the same question has the same answer",
            JudgeProperty::SaysWhy => "a no has a reason",
            JudgeProperty::KeepsNo => "what is refused is not carried out",
            JudgeProperty::Saves => "nothing is replaced that saves nothing",
            JudgeProperty::Settles => "a cluster that is left alone settles",
        }
    }
}

/// Looks at a cluster that is left alone: 50 of them, 7 hours apart, are two weeks.
const LOOKS: usize = 50;
const BETWEEN: i64 = 7 * 3600;
/// Looks at which something may be carried out: three nodes have few better places.
const CHANGES: usize = 8;

/// A counterexample is made smaller so often at most.
const STEPS: usize = 200;
/// Of so many questions, one is a cluster that is left alone for two weeks. The others are proposals
/// for such a cluster that no search has found.
const OF_A_CLUSTER: u64 = 32;

/// Asks consolidation policies that are made alike, one for each thread, until a property breaks.
pub fn prove_judge<J: Judge>(
    judge: impl Fn() -> J + Sync,
    options: &ProveOptions,
) -> Proof<JudgeProperty> {
    search(options, || {
        let mut judge = judge();
        Box::new(move |number, _| {
            let (of, at) = (number / OF_A_CLUSTER, number % OF_A_CLUSTER);
            match at {
                0 => {
                    let ask = |of: &Cluster| left_alone(&mut judge, of);
                    let cluster = cluster(options.seed, of);
                    counterexample(number, cluster, ask, Cluster::smaller, |of| of)
                }
                // All proposals for a cluster at once: as many as questions follow.
                1 => {
                    let proposals = (options.cases - number).min(OF_A_CLUSTER - 1);
                    let ask = |of: &Drawn| of.ask(&mut judge);
                    let drawn = drawn(options.seed, of, proposals);
                    counterexample(number, drawn, ask, Drawn::smaller, |of| &of.cluster)
                }
                _ => None,
            }
        })
    })
}

/// What a policy answers badly, made small.
fn counterexample<Q>(
    number: u64,
    question: Q,
    mut ask: impl FnMut(&Q) -> Result<(), Broken>,
    smaller: fn(&Q) -> Vec<Q>,
    cluster: fn(&Q) -> &Cluster,
) -> Option<Counterexample<JudgeProperty>> {
    let (property, _) = ask(&question).err()?;
    let mut is_bad = |question: &Q| {
        let broken = ask(question).err();
        broken
            .filter(|(other, _)| *other == property)
            .map(|(_, why)| why)
    };
    let small = smallest(question, STEPS, smaller, |of| is_bad(of).is_some());
    let why = is_bad(&small).unwrap_or_else(|| "it is so only now and then".to_owned());
    let cluster = cluster(&small);
    Some(Counterexample {
        property,
        why,
        text: cluster.text(),
        size: cluster.nodes.len(),
        number,
    })
}

/// What is broken, and in words.
pub type Broken = (JudgeProperty, String);

/// Leaves a cluster alone for two weeks, on paper.
fn left_alone(judge: &mut dyn Judge, cluster: &Cluster) -> Result<(), Broken> {
    judge.fresh();
    let mut world = cluster.world();
    let mut serial = Serial::default();
    let (mut changes, mut waits) = (0, String::new());
    for look in 0..LOOKS {
        world.now = NOW + look as i64 * BETWEEN;
        let before = snapshot(world.clone());
        let round = asked(judge, &before)?;
        if look == 0 {
            alike(judge, &before, &round)?;
        }
        keeps(&before, &round)?;
        let now = round.now();
        let deferred = round
            .proposals
            .iter()
            .find(|(_, verdict)| *verdict == Verdict::Deferred);
        match (now.is_empty(), deferred) {
            (true, None) => return Ok(()),
            (true, Some((proposal, _))) => waits = shown(&before, proposal),
            (false, _) => {
                changes += 1;
                if changes > CHANGES {
                    let what = shown(&before, &now[0]);
                    let why = format!("after {CHANGES} changes there is another one: {what}");
                    return Err((JudgeProperty::Settles, why));
                }
                let (after, _) = paper::carry_out(&before, &now, &mut serial);
                world = after;
            }
        }
    }
    let why = format!("for two weeks it puts off {waits}; a no would say so");
    Err((JudgeProperty::Settles, why))
}

fn asked(judge: &dyn Judge, of: &Snapshot) -> Result<Round, Broken> {
    let mut round = None;
    let failed = judge.ask(of.world.now, &mut |policies| {
        round = Some(checked::round(of, policies, Look::default(), Stop::never()));
    });
    match (failed.into_iter().next(), round) {
        (None, Some(round)) => Ok(round),
        (Some(why), _) => Err((JudgeProperty::Answers, why)),
        (None, None) => Err((JudgeProperty::Answers, "it was not asked".to_owned())),
    }
}

/// Asks again: the same instance, and a fresh one.
fn alike(judge: &mut dyn Judge, of: &Snapshot, first: &Round) -> Result<(), Broken> {
    for when in ["asked again", "asked of a fresh instance"] {
        let again = asked(judge, of)?;
        let differs = first
            .proposals
            .iter()
            .zip(&again.proposals)
            .find(|(a, b)| a != b);
        if differs.is_some() || first.proposals.len() != again.proposals.len() {
            let what = differs.map_or_else(String::new, |(first, _)| shown(of, &first.0));
            return Err((
                JudgeProperty::Alike,
                format!("{when} it says something else: {what}"),
            ));
        }
        judge.fresh();
    }
    Ok(())
}

fn keeps(of: &Snapshot, round: &Round) -> Result<(), Broken> {
    for (proposal, verdict) in &round.proposals {
        let what = || shown(of, proposal);
        let decision = proposal.decision.as_ref();
        let is_silent = decision.is_none_or(|decision| decision.reason.trim().is_empty());
        if verdict.is_by_policy() && is_silent {
            return Err((
                JudgeProperty::SaysWhy,
                format!("without a reason it keeps {}", what()),
            ));
        }
        let is_refused = decision.is_some_and(|decision| decision.priority < 0.0);
        if *verdict == Verdict::Now && is_refused {
            return Err((JudgeProperty::KeepsNo, what()));
        }
        let replaces = matches!(proposal.method, Method::MultiNode | Method::SingleNode);
        if *verdict == Verdict::Now && replaces && proposal.savings <= 0.0 {
            return Err((JudgeProperty::Saves, what()));
        }
    }
    Ok(())
}

/// What would be done, for people.
pub fn shown(of: &Snapshot, proposal: &Proposal) -> String {
    let name = |node: &longshore_core::ids::NodeIx| {
        of.world
            .names
            .text(of.nodes[node.0 as usize].name)
            .to_owned()
    };
    let nodes: Vec<String> = proposal.nodes.iter().map(name).collect();
    format!(
        "{} of {}, which saves {:.4} USD per hour",
        proposal.method.name(),
        nodes.join(", "),
        proposal.savings
    )
}
