//! Why a pod got its node, or none: of a snapshot, the policies that were asked and the plan.

use longshore_core::disrupt::costs;
use longshore_core::model::conditions::{INITIALIZED, LAUNCHED, REGISTERED};
use longshore_core::model::{ClusterObjects, ResourceId, Symbol};
use longshore_core::plan::{NodeIx, Plan, PlannedClaim, PodIx, Refusal, Target, Unfit};
use longshore_core::planner;
use longshore_core::policy::{ByPrice, CostTerm, Policies};
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use serde::Serialize;

use crate::count;
use crate::decision::{self, Claim, Decision, Priced};
use crate::explained::{Explained, NoExplanation, alike, alike_text};
use crate::messages::{Messages, amount, estimated_from, estimates, mark, usd};
use crate::table::{Align, table};

/// What became of a pod, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    pod: String,
    requests: String,
    outcome: PodOutcome,
    /// Who refuses it, and why. For a placed pod, those that did not get it.
    refusals: Vec<decision::Refusal>,
    /// Policies that cost all offerings alike, so that the price decides nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alike: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum PodOutcome {
    /// It runs already, on a node that was bought as `offering`, where the catalogue has that; with
    /// its cost alone on the cheapest node that takes it.
    Runs {
        node: String,
        offering: Option<Priced>,
        pods: usize,
        alone: Option<Priced>,
    },
    /// It is not among the pods to plan.
    NotPlanned { why: String },
    /// It is placed on an existing node.
    Existing { node: String },
    /// It is placed on a new node; with its cost alone on the cheapest node that takes it.
    #[serde(rename_all = "camelCase")]
    New {
        claim: Box<Claim>,
        alone: Option<Priced>,
        /// What each policy adds to what the node cost before it, in the order of the file: the list price
        /// for the first.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        terms: Vec<Term>,
        /// What the list price alone would have bought for it, if a policy was asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        by_price: Option<Priced>,
    },
    #[serde(rename = "leftover")]
    Unplaced,
}

/// What a policy adds to what an offering cost before it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    policy: String,
    /// USD per hour; below zero for a discount.
    usd: f64,
    /// What the node counts as with it, in USD per hour.
    counts_as: f64,
    /// It discourages the offering.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    discourages: bool,
    /// What it adds to the next best offering; null where it excludes that.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_best: Option<f64>,
}

/// A plan with everything that it was made of.
pub struct ExplainInput<'a> {
    /// What it was made on.
    pub snapshot: &'a Snapshot,
    /// The policies that it was made with.
    pub policies: &'a dyn Policies,
    /// How it was made.
    pub options: planner::PlanOptions,
    /// The plan.
    pub plan: &'a Plan,
    /// Ends the search for anything cheaper that an explanation needs besides.
    pub stop: Stop<'a>,
}

/// Why a pod is not explained.
#[derive(Debug, thiserror::Error)]
pub enum NotExplained {
    /// No pod has this name.
    #[error("there is no pod {name} in the snapshot")]
    Unknown {
        /// As asked for.
        name: String,
        /// The pod with the most similar name, if there is any pod.
        nearest: Option<String>,
    },
    /// Several namespaces have a pod of this name.
    #[error("{count} pods are called {name}")]
    Ambiguous {
        /// As asked for.
        name: String,
        /// How many pods have it.
        count: usize,
        /// A few of them, `namespace/name`.
        some: Vec<String>,
    },
    /// The explanation cannot be written as JSON.
    #[error("cannot print the answer")]
    Unwritable(#[source] serde_json::Error),
}

impl From<NotExplained> for NoExplanation {
    fn from(why: NotExplained) -> Self {
        match why {
            NotExplained::Unwritable(error) => error.into(),
            why => NoExplanation::NotFound(why.to_string()),
        }
    }
}

impl NotExplained {
    /// What can be done about it; empty where nothing can.
    pub fn hint(&self) -> String {
        match self {
            NotExplained::Unknown { nearest: None, .. } => "it has no pods at all".into(),
            NotExplained::Unknown {
                nearest: Some(pod), ..
            } => format!("did you mean {pod}?"),
            NotExplained::Ambiguous { some, .. } => format!("say which: {}", some.join(", ")),
            NotExplained::Unwritable(_) => String::new(),
        }
    }
}

/// Explains what became of a pod of a case.
///
/// # Errors
/// There is no such pod, or several.
pub fn explain(case: &ExplainInput<'_>, name: &str) -> Result<Explained, NotExplained> {
    let pod = find(case.snapshot, name)?;
    // Who refuses the pod once the plan is made: each NodePool, then each node.
    let mut refusals =
        longshore_core::explain::refusals(case.snapshot, case.policies, case.plan, pod, case.stop);
    // They are asked once everything is placed: the pod's own node has the pod on it.
    let placed = case.plan.on_existing_nodes.iter();
    let own = placed.filter(|placement| placement.pods.contains(&pod));
    let own: Vec<Target> = own.map(|placement| Target::Node(placement.node)).collect();
    refusals.retain(|refusal| !own.contains(&refusal.target));
    let explanation = of_pod(case, pod, &refusals);
    Ok(Explained {
        text: text(case.snapshot, pod, &explanation, &refusals)
            + &volumes(case.snapshot, pod)
            + &incompatible_pools(case)
            + &alike_text(case.policies)
            + &estimates(estimated_from(&case.snapshot.world)),
        explanation: serde_json::to_value(&explanation).map_err(NotExplained::Unwritable)?,
    })
}

/// The pod called `namespace/name`, or just `name` where that is enough.
fn find(snapshot: &Snapshot, name: &str) -> Result<PodIx, NotExplained> {
    let world = &*snapshot.world;
    let all = || (0..world.pods.len() as u32).map(PodIx);
    let full = |&pod: &PodIx| decision::pod_name(world, pod) == name;
    let short = |&pod: &PodIx| &*world.pods[pod.0 as usize].name == name;
    let found: Vec<PodIx> = match name.contains('/') {
        true => all().filter(full).collect(),
        false => all().filter(short).collect(),
    };
    match found.as_slice() {
        [pod] => Ok(*pod),
        [] => {
            let names = all().map(|pod| decision::pod_name(world, pod));
            let likeness = |other: &String| {
                strsim::jaro_winkler(name, other.rsplit('/').next().unwrap_or(other))
            };
            let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            Err(NotExplained::Unknown {
                name: name.to_owned(),
                nearest,
            })
        }
        several => {
            let some = several.iter().take(4);
            Err(NotExplained::Ambiguous {
                name: name.to_owned(),
                count: several.len(),
                some: some.map(|&pod| decision::pod_name(world, pod)).collect(),
            })
        }
    }
}

fn of_pod(case: &ExplainInput<'_>, pod: PodIx, refusals: &[Refusal]) -> Explanation {
    let snapshot = case.snapshot;
    let world = &*snapshot.world;
    let record = &world.pods[pod.0 as usize];
    let requests = world.shapes.get(record.shape).requests.iter();
    let requests: Vec<String> = requests
        .filter(|(resource, _)| *resource != ResourceId::Pods)
        .map(|(resource, value)| {
            format!(
                "{} {}",
                amount(resource, value),
                resource.name(&world.names)
            )
        })
        .collect();
    Explanation {
        pod: decision::pod_name(world, pod),
        requests: requests.join(", "),
        outcome: outcome(case, pod),
        refusals: refusals
            .iter()
            .map(|r| decision::refusal(snapshot, pod, r.target, &r.unfit))
            .collect(),
        alike: alike(case.policies),
    }
}

fn outcome(case: &ExplainInput<'_>, pod: PodIx) -> PodOutcome {
    let ExplainInput { snapshot, plan, .. } = case;
    let world = &*snapshot.world;
    let text = |sym| world.names.text(sym).to_owned();
    let record = &world.pods[pod.0 as usize];
    if let Some(claim) = plan.claims.iter().find(|claim| claim.pods.contains(&pod)) {
        let terms = terms(case, claim);
        let by_price = (!terms.is_empty()).then(|| by_price(case, pod)).flatten();
        return PodOutcome::New {
            alone: alone(case, pod),
            by_price,
            terms,
            claim: Box::new(decision::claim_of(world, claim)),
        };
    }
    if let Some(placement) = plan
        .on_existing_nodes
        .iter()
        .find(|placement| placement.pods.contains(&pod))
    {
        return PodOutcome::Existing {
            node: text(snapshot.nodes[placement.node.0 as usize].name),
        };
    }
    if plan.unplaced.iter().any(|unplaced| unplaced.pod == pod) {
        return PodOutcome::Unplaced;
    }
    let not_planned = |why: &str| PodOutcome::NotPlanned {
        why: why.to_owned(),
    };
    match (record.node, record.nominated) {
        _ if record.terminal => not_planned("it has ended"),
        _ if record.deleting => not_planned("it is being deleted"),
        (Some(node), _) => {
            let known = snapshot.nodes.iter().find(|known| known.name == node);
            let bought = known.and_then(|known| costs::offering_of(snapshot, known));
            PodOutcome::Runs {
                node: text(node),
                offering: bought.map(|id| decision::priced(world, world.catalogue.offering(id))),
                pods: known.map_or(0, |known| known.pods.len()),
                alone: alone(case, pod),
            }
        }
        _ if record.is_static => not_planned("it is a static pod"),
        (None, Some(place)) => PodOutcome::NotPlanned {
            why: awaited(world, place),
        },
        (None, None) if record.gated => {
            not_planned("it has scheduling gates, which whoever set them removes")
        }
        (None, None) if !record.unschedulable && !record.unattempted => {
            not_planned("kube-scheduler has not given up on it")
        }
        (None, None) => not_planned("its owner places it itself"),
    }
}

/// What each policy of the NodePool adds to the cost of a claim. What a commitment takes off is its
/// policy's.
fn terms(case: &ExplainInput<'_>, claim: &PlannedClaim) -> Vec<Term> {
    let world = &case.snapshot.world;
    let pool = world.names.text(world.pools[claim.pool.0 as usize].name);
    let of = |offering| case.policies.terms(pool, offering);
    let mut chosen = of(claim.offering);
    let without = chosen.last().map(|last| last.cost);
    let paid = without.map_or(0.0, |cost| claim.effective_cost - cost);
    let drawn = chosen.iter().position(|term| term.draws);
    for term in chosen.iter_mut().skip(drawn.unwrap_or(usize::MAX)) {
        term.cost += paid;
    }
    if let Some(drawn) = drawn {
        chosen[drawn].usd += paid;
    }
    let next = decision::next_best(world, claim)
        .map(of)
        .unwrap_or_default();
    let next = |at: usize| next.get(at).map(|term| term.usd);
    let terms = chosen.into_iter().enumerate();
    let term = |(at, term): (usize, CostTerm)| Term {
        policy: term.policy.to_string(),
        usd: term.usd,
        counts_as: term.cost,
        discourages: term.discourages,
        next_best: next(at),
    };
    terms.map(term).collect()
}

/// What would be bought for this pod if offerings cost their price, all else being the same.
fn by_price(case: &ExplainInput<'_>, pod: PodIx) -> Option<Priced> {
    let snapshot = case.snapshot;
    let plan = planner::plan_until(snapshot, &ByPrice, case.options, case.stop).ok()?;
    let claim = plan.claims.iter().find(|claim| claim.pods.contains(&pod))?;
    Some(decision::claim_of(&snapshot.world, claim).offering)
}

/// What a pod waits for that a node, or the NodeClaim of one, is nominated for.
fn awaited(world: &ClusterObjects, place: Symbol) -> String {
    let name = world.names.text(place);
    let claim = world.claims.iter().find(|claim| claim.name == place);
    let node = world.nodes.iter().any(|node| node.name == place);
    let Some(claim) = claim.filter(|_| !node) else {
        return format!("node {name} is nominated for it; kube-scheduler has not bound it yet");
    };
    let is = |condition: &str| {
        let known = world.names.get(condition);
        known.is_some_and(|known| claim.conditions.contains(&known))
    };
    let state = match () {
        () if claim.deleting => "it is being deleted",
        () if is(INITIALIZED) => "its node is ready, kube-scheduler has not bound the pod yet",
        () if is(REGISTERED) => "its node has joined and is not ready yet",
        () if is(LAUNCHED) => "its instance runs and has not joined the cluster yet",
        () => "its instance is not launched yet",
    };
    let minutes = (world.now - claim.created).max(0) / 60;
    format!("NodeClaim {name} is for it, created {minutes} min ago: {state}")
}

/// The offering that would be bought for this pod if it were the only one and there were no nodes.
fn alone(case: &ExplainInput<'_>, pod: PodIx) -> Option<Priced> {
    let snapshot = case.snapshot.alone(pod);
    let plan = planner::plan_until(&snapshot, case.policies, case.options, case.stop).ok()?;
    Decision::new(&snapshot, &plan)
        .claims
        .into_iter()
        .next()
        .map(|claim| claim.offering)
}

fn text(
    snapshot: &Snapshot,
    pod: PodIx,
    explanation: &Explanation,
    refusals: &[Refusal],
) -> String {
    let Explanation {
        pod: name,
        requests,
        outcome,
        ..
    } = explanation;
    let mut text = format!("Pod {name} ({requests})");
    match outcome {
        PodOutcome::Runs {
            node,
            offering,
            pods,
            alone,
        } => text += &runs(node, offering.as_ref(), *pods, alone.as_ref()),
        PodOutcome::NotPlanned { why } => text += &format!(" is not planned: {why}.\n"),
        PodOutcome::Existing { node } => {
            text += &format!(" goes to node {node}, which exists: nothing is bought for it.\n")
        }
        PodOutcome::New {
            claim,
            alone,
            terms,
            by_price,
        } => {
            text += &bought(claim, alone.as_ref());
            text += &termed(claim, terms, by_price.as_ref());
        }
        PodOutcome::Unplaced => text += " is left over.\n",
    }
    let rows = grouped(snapshot, pod, refusals);
    if !rows.is_empty() {
        let title = match outcome {
            PodOutcome::Unplaced => "WHY",
            _ => "WHY NOT THERE",
        };
        text += &format!(
            "\n{}",
            table(&[("WHERE", Align::Left), (title, Align::Left)], &rows)
        );
    }
    text
}

/// What the pod's volumes require.
fn volumes(snapshot: &Snapshot, pod: PodIx) -> String {
    let words = decision::volumes(snapshot, pod);
    words.map_or_else(String::new, |words| {
        format!("\n{words}.\n").replacen("its", "Its", 1)
    })
}

/// NodePools that refuse every pod, behind those that refuse this one.
fn incompatible_pools(case: &ExplainInput<'_>) -> String {
    let all = decision::incompatible_pools(&case.snapshot.world, case.plan);
    all.iter()
        .map(|(pool, why)| format!("\nNodePool {pool}, whatever pod asks: {why}.\n"))
        .collect()
}

/// `m5.large (spot, us-east-1a) at 0.0350 USD/h`.
fn shown(offering: &Priced) -> String {
    let place = [offering.capacity_type.as_deref(), offering.zone.as_deref()];
    let place: Vec<&str> = place.into_iter().flatten().collect();
    format!(
        "{} ({}) at {} USD/h",
        offering.instance_type,
        place.join(", "),
        usd(offering.price, 4, offering.estimated)
    )
}

fn runs(node: &str, offering: Option<&Priced>, pods: usize, alone: Option<&Priced>) -> String {
    let price = match offering {
        Some(offering) => shown(offering),
        None => "its price is not known: no offering of the catalogue has its labels".to_owned(),
    };
    let mut text = format!(
        " runs on node {node}.\n\n  node         {price}, {} on it\n",
        count(pods, "pod")
    );
    if let Some(alone) = alone {
        text += &format!("  on its own   {}\n", shown(alone));
    }
    text
}

fn bought(claim: &Claim, alone: Option<&Priced>) -> String {
    let mut text = format!(
        " goes to a new node.\n\n  NodePool     {}\n  node         {}, {} on it\n",
        claim.node_pool,
        shown(&claim.offering),
        count(claim.pods.len(), "pod")
    );
    match &claim.next_best {
        Some(next) => {
            let more = next.price - claim.price;
            let mark = mark(next.estimated || claim.offering.estimated);
            text += &format!("  next best    {}: {mark}{more:+.4} USD/h\n", shown(next));
        }
        None => text += "  next best    no other type takes these pods\n",
    }
    if let Some(alone) = alone {
        text += &format!("  on its own   {}\n", shown(alone));
    }
    text
}

/// What policies made of the list price, and what it alone would have bought.
fn termed(claim: &Claim, terms: &[Term], by_price: Option<&Priced>) -> String {
    let mut text = String::new();
    for term in terms {
        let next = match term.next_best {
            Some(usd) if usd.is_finite() => format!("; next best {usd:+.4}"),
            Some(_) => "; it excludes the next best".to_owned(),
            None => String::new(),
        };
        let discourages = match term.discourages {
            true => "; it discourages this offering, which costs 1000 USD/h more by that",
            false => "",
        };
        text += &format!(
            "  policy       {}: {:+.4} USD/h, so the node counts as {:.4} USD/h{discourages}{next}\n",
            term.policy, term.usd, term.counts_as
        );
    }
    if let Some(other) = by_price.filter(|other| **other != claim.offering) {
        let more = other.price - claim.offering.price;
        text += &format!(
            "  list price   alone buys {}: {more:+.4} USD/h\n",
            shown(other)
        );
    }
    text
}

/// Refusals as rows: NodePools one by one, nodes that say the same together, with the most room
/// that any of them has.
fn grouped(snapshot: &Snapshot, pod: PodIx, refusals: &[Refusal]) -> Vec<Vec<String>> {
    let world = &*snapshot.world;
    let shape = Some(world.shapes.get(world.pods[pod.0 as usize].shape));
    let mut rows = Vec::new();
    let mut groups: Vec<(Unfit, Vec<NodeIx>)> = Vec::new();
    for refusal in refusals {
        match refusal.target {
            Target::Node(node) => {
                match groups
                    .iter_mut()
                    .find(|(unfit, _)| without_room(unfit) == without_room(&refusal.unfit))
                {
                    Some((unfit, nodes)) => {
                        if room(&refusal.unfit) > room(unfit) {
                            *unfit = refusal.unfit.clone();
                        }
                        nodes.push(node);
                    }
                    None => groups.push((refusal.unfit.clone(), vec![node])),
                }
            }
            target => {
                let shown = decision::refusal(snapshot, pod, target, &refusal.unfit);
                let place = shown
                    .node_pool
                    .map_or("anywhere".into(), |pool| format!("NodePool {pool}"));
                rows.push(vec![place, shown.message]);
            }
        }
    }
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    for (unfit, nodes) in groups {
        let names: Vec<&str> = nodes
            .iter()
            .map(|node| world.names.text(snapshot.nodes[node.0 as usize].name))
            .collect();
        let place = match names.as_slice() {
            [one] => format!("node {one}"),
            [first, ..] => format!("{} nodes ({first}, …)", names.len()),
            [] => continue,
        };
        let mut sentence = Messages {
            world,
            shape,
            pool: None,
        }
        .sentence(&unfit);
        if nodes.len() > 1 {
            sentence = sentence.replace(", free ", ", free at most ");
        }
        rows.push(vec![place, sentence]);
    }
    rows
}

fn room(unfit: &Unfit) -> i64 {
    if let Unfit::Resource { free, .. } = unfit {
        *free
    } else {
        0
    }
}

fn without_room(unfit: &Unfit) -> Unfit {
    match unfit {
        Unfit::Resource {
            resource, wants, ..
        } => Unfit::Resource {
            resource: *resource,
            wants: *wants,
            free: 0,
        },
        other => other.clone(),
    }
}
