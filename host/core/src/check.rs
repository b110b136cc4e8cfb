//! Checks that a plan keeps every rule. Every plan is checked before it is carried out.
//!
//! The rules are written from those of Kubernetes and Karpenter, independently of the planner. The
//! two share only the records and the elementary questions of [`matching`](crate::matching).
//!
//! The check is whether the plan *can* come true. Every node that may be launched for a claim,
//! whichever of its types and offerings that is, must take all pods of the claim. Some order of
//! binding the pods must break no topology rule. Preferences (preferred terms, ScheduleAnyway,
//! `PreferNoSchedule`) are not rules.

pub mod disruption;
mod hosts;
mod limits;
mod purchases;
mod topology;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{ClusterObjects, Symbol};
use crate::plan::{Plan, PodIx};
pub use crate::reasons::{Invariant, Violation};
use crate::snapshot::Snapshot;
use hosts::Hosts;

/// Checks a plan.
///
/// # Errors
/// Everything that is wrong with it, in no particular order.
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Result<(), Vec<Violation>> {
    let mut found = Violations {
        world: &snapshot.world,
        violations: Vec::new(),
    };
    accounting(snapshot, plan, &mut found);
    if !found.violations.is_empty() {
        return Err(found.violations);
    }
    let hosts = Hosts::new(snapshot, plan);
    hosts.check(&mut found);
    topology::check(&hosts, &mut found);
    limits::check(snapshot, plan, &mut found);
    totals(snapshot, plan, &mut found);
    if found.violations.is_empty() {
        return Ok(());
    }
    blame(&hosts, &mut found.violations);
    Err(found.violations)
}

/// Completes violations that name a place alone: its claim, and all its pods.
fn blame(hosts: &Hosts<'_>, violations: &mut [Violation]) {
    let named = hosts.hosts.iter().enumerate();
    let by_name: FxHashMap<&str, usize> = named.map(|(at, host)| (&*host.name, at)).collect();
    let existing = hosts.snapshot.nodes.len();
    for violation in violations {
        let place = violation.at.as_deref().and_then(|at| by_name.get(at));
        let Some(&at) = place else { continue };
        if violation.claims.is_empty() {
            violation.claims.extend(at.checked_sub(existing));
        }
        if violation.pods.is_empty() {
            let pods = hosts.hosts[at].pods.iter();
            violation.pods.extend(pods.map(|pending| pending.pod));
        }
    }
}

/// Collects violations.
struct Violations<'a> {
    world: &'a ClusterObjects,
    violations: Vec<Violation>,
}

impl Violations<'_> {
    fn add(&mut self, rule: Invariant, at: Option<String>, pod: Option<PodIx>, detail: String) {
        self.add_of(rule, at, pod, (Vec::new(), Vec::new()), detail);
    }

    /// The same with the pods and the claims that are to blame.
    fn add_of(
        &mut self,
        rule: Invariant,
        at: Option<String>,
        pod: Option<PodIx>,
        (mut pods, claims): (Vec<PodIx>, Vec<usize>),
        detail: String,
    ) {
        pods.extend(pod);
        let pod = pod.map(|p| self.pod_name(p));
        self.violations.push(Violation {
            invariant: rule,
            at,
            pod,
            pods,
            claims,
            detail,
        });
    }

    fn pod_name(&self, pod: PodIx) -> String {
        match self.world.pods.get(pod.0 as usize) {
            Some(p) => format!(
                "{}/{}",
                self.text(self.world.shapes.get(p.shape).namespace),
                p.name
            ),
            None => format!("number {}", pod.0),
        }
    }

    fn text(&self, sym: Symbol) -> &str {
        self.world.names.text(sym)
    }
}

fn accounting(snapshot: &Snapshot, plan: &Plan, found: &mut Violations<'_>) {
    let pods = snapshot.world.pods.len();
    let mut times = vec![0u32; pods];
    let placed = plan
        .claims
        .iter()
        .flat_map(|c| &c.pods)
        .chain(plan.on_existing_nodes.iter().flat_map(|e| &e.pods));
    for &pod in placed.chain(plan.unplaced.iter().map(|u| &u.pod)) {
        match times.get_mut(pod.0 as usize) {
            Some(n) => *n += 1,
            None => found.add(
                Invariant::Accounting,
                None,
                Some(pod),
                "there is no such pod".into(),
            ),
        }
    }
    for p in &snapshot.pending {
        let n = std::mem::take(&mut times[p.pod.0 as usize]);
        if n != 1 {
            found.add(
                Invariant::Accounting,
                None,
                Some(p.pod),
                format!("is in {n} places of the plan instead of one"),
            );
        }
    }
    for (at, _) in times.iter().enumerate().filter(|(_, n)| **n > 0) {
        found.add(
            Invariant::Accounting,
            None,
            Some(PodIx(at as u32)),
            "is not to be planned".into(),
        );
    }
    let cannot: FxHashSet<PodIx> = snapshot
        .pending
        .iter()
        .filter(|p| p.unfit.is_some())
        .map(|p| p.pod)
        .collect();
    let placed = plan
        .claims
        .iter()
        .flat_map(|c| &c.pods)
        .chain(plan.on_existing_nodes.iter().flat_map(|e| &e.pods));
    for &pod in placed.filter(|p| cannot.contains(p)) {
        found.add(
            Invariant::Accounting,
            None,
            Some(pod),
            "cannot be planned, and yet has a place".into(),
        );
    }
    for u in plan.unplaced.iter().filter(|u| u.refusals.is_empty()) {
        found.add(
            Invariant::Accounting,
            None,
            Some(u.pod),
            "is left over without a reason".into(),
        );
    }
    for e in &plan.on_existing_nodes {
        if e.node.0 as usize >= snapshot.nodes.len() {
            found.add(
                Invariant::Accounting,
                Some(format!("node number {}", e.node.0)),
                None,
                "there is no such node".into(),
            );
        }
    }
    let catalogue = &snapshot.world.catalogue;
    for (at, claim) in plan.claims.iter().enumerate() {
        let known = claim
            .types
            .iter()
            .all(|t| (t.0 as usize) < catalogue.types().len())
            && (claim.offering.0 as usize) < catalogue.offerings().len()
            && (claim.pool.0 as usize) < snapshot.world.pools.len();
        if !known || claim.pods.is_empty() || claim.types.is_empty() {
            let detail = "it has no pods, no types, or names what does not exist";
            found.add(
                Invariant::Accounting,
                Some(format!("claim {at}")),
                None,
                detail.into(),
            );
        }
    }
}

fn totals(snapshot: &Snapshot, plan: &Plan, found: &mut Violations<'_>) {
    let cost: f64 = plan.claims.iter().map(|c| c.price).sum();
    let nodes = plan.claims.len() as f64 * snapshot.world.settings.node_cost;
    let effective: f64 = plan.claims.iter().map(|c| c.effective_cost).sum::<f64>() + nodes;
    let differs = |a: f64, b: f64| (a - b).is_nan() || (a - b).abs() > 1e-6 * (1.0 + a.abs());
    if differs(cost, plan.cost) {
        found.add(
            Invariant::Totals,
            None,
            None,
            format!("cost is {} but claims add up to {cost}", plan.cost),
        );
    }
    if differs(effective, plan.effective_cost) {
        found.add(
            Invariant::Totals,
            None,
            None,
            format!(
                "effective is {} but adds up to {effective}",
                plan.effective_cost
            ),
        );
    }
    if plan.lower_bound > plan.effective_cost * (1.0 + 1e-9) + 1e-9 || plan.lower_bound.is_nan() {
        let detail = format!(
            "lower bound {} is above the objective {}",
            plan.lower_bound, plan.effective_cost
        );
        found.add(Invariant::Totals, None, None, detail);
    }
}
