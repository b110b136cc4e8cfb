//! PDB-aware: nodes with single replicas, and with pods that no PodDisruptionBudget protects, go
//! last.
//!
//! weight of a node = single pods × single-pod-cost + unprotected pods × unprotected-pod-cost + bare
//! pods × bare-pod-cost, USD per hour. Proposals are ordered by savings less the weights of their
//! nodes; those without any such pod come before all others.

use longshore_sdk::{About, Consolidation, Decision, nodes, proposals};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    single_pod_cost: f64,
    unprotected_pod_cost: f64,
    bare_pod_cost: f64,
    keep_single_pods: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            single_pod_cost: 0.02,
            unprotected_pod_cost: 0.002,
            bare_pod_cost: 0.05,
            keep_single_pods: false,
        }
    }
}

struct PdbAware(Settings);

/// Before all proposals with pods at risk.
const SAFE: f64 = 1e6;

impl Consolidation for PdbAware {
    const ABOUT: About = About {
        name: "pdb-aware",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Disrupts single replicas and pods without a budget last.",
        signals: &[],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        Ok(PdbAware(settings))
    }

    fn weigh(&mut self) -> Result<Vec<f64>, String> {
        let PdbAware(settings) = self;
        let single = nodes::single_pods().into_iter();
        let others = nodes::unprotected_pods()
            .into_iter()
            .zip(nodes::bare_pods());
        let weight = |(single, (unprotected, bare)): (u32, (u32, u32))| {
            if settings.keep_single_pods && single > 0 {
                return f64::INFINITY;
            }
            f64::from(single) * settings.single_pod_cost
                + f64::from(unprotected) * settings.unprotected_pod_cost
                + f64::from(bare) * settings.bare_pod_cost
        };
        Ok(single.zip(others).map(weight).collect())
    }

    fn decide(&mut self) -> Result<Vec<Decision>, String> {
        let weights = self.weigh()?;
        let (single, unprotected) = (nodes::single_pods(), nodes::unprotected_pods());
        let bare = nodes::bare_pods();
        let (removed, ends) = (proposals::removed(), proposals::removed_ends());
        let savings = proposals::savings();
        let decision = |(rows, &savings): (&[u32], &f64)| {
            let sum = |of: &[u32]| -> u32 { rows.iter().map(|&row| of[row as usize]).sum() };
            let weight: f64 = rows.iter().map(|&row| weights[row as usize]).sum();
            let counts = [
                (sum(&single), "single replicas"),
                (sum(&unprotected), "pods without budget"),
                (sum(&bare), "pods without controller"),
            ];
            let at_risk = counts.iter().filter(|(pods, _)| *pods > 0);
            let said: Vec<String> = at_risk
                .map(|(pods, what)| format!("{pods} {what}"))
                .collect();
            if said.is_empty() {
                return Decision::yes(SAFE, "");
            }
            let worth = (savings - weight).clamp(-SAFE / 2.0, SAFE / 4.0);
            Decision::yes(SAFE / 2.0 + worth, format!("moves {}", said.join(", ")))
        };
        Ok(proposals::parts(&removed, &ends)
            .zip(&savings)
            .map(decision)
            .collect())
    }
}

longshore_sdk::export_consolidation!(PdbAware);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::{Cluster, Node, Proposal, with_cluster};

    use super::*;

    fn cluster() -> Cluster {
        let node = |single, unprotected, bare| Node {
            single,
            unprotected,
            bare,
            ..Node::default()
        };
        let of = |row| Proposal {
            removed: vec![row],
            ..Proposal::default()
        };
        Cluster {
            nodes: vec![node(1, 2, 0), node(0, 0, 0), node(0, 1, 0)],
            proposals: vec![of(0), of(1), of(2)],
            ..Cluster::default()
        }
    }

    #[test]
    fn a_node_weighs_what_its_pods_risk() {
        let weights = with_cluster(cluster(), || PdbAware(Settings::default()).weigh().unwrap());
        assert_eq!(weights, [0.02 + 2.0 * 0.002, 0.0, 0.002]);
    }

    #[test]
    fn single_replicas_may_be_kept_for_ever() {
        let settings = Settings {
            keep_single_pods: true,
            ..Settings::default()
        };
        let weights = with_cluster(cluster(), || PdbAware(settings).weigh().unwrap());
        let infinite: Vec<bool> = weights.iter().map(|weight| weight.is_infinite()).collect();
        assert_eq!(infinite, [true, false, false]);
    }

    #[test]
    fn what_risks_nothing_goes_first_and_single_replicas_last() {
        let decisions = with_cluster(cluster(), || {
            PdbAware(Settings::default()).decide().unwrap()
        });
        let mut order = [0, 1, 2];
        order.sort_by(|&a, &b| decisions[b].priority.total_cmp(&decisions[a].priority));
        assert_eq!(order, [1, 2, 0]);
        assert_eq!(
            decisions[0].reason,
            "moves 1 single replicas, 2 pods without budget"
        );
    }

    #[test]
    fn no_proposal_is_refused() {
        let mut dear = cluster();
        dear.proposals[0].savings = -1e9;
        let decisions = with_cluster(dear, || PdbAware(Settings::default()).decide().unwrap());
        assert!(decisions.iter().all(|decision| decision.priority >= 0.0));
    }
}
