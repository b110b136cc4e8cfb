//! Cautious: nodes go only where every moved pod saves enough, the savings pay for the moves in
//! time, and no controller loses many pods within an hour.
//!
//! threshold per moved pod = max(least-savings-per-pod, move-cost / payback-hours), USD per hour.
//! It is the weight of a node for each of its pods too, so that the search looks for such savings.
//!
//! Pods that started within the last hour are those that were moved lately, and those of roll-outs.
//! Both count as moves: nothing has to be remembered between rounds.

use std::collections::BTreeMap;

use longshore_sdk::{About, Consolidation, Decision, nodes, owners, proposals};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    least_savings_per_pod: f64,
    most_pods_per_owner: Option<u32>,
    move_cost: f64,
    payback_hours: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            least_savings_per_pod: 0.001,
            most_pods_per_owner: None,
            move_cost: 0.01,
            payback_hours: 24.0,
        }
    }
}

struct Cautious(Settings);

impl Cautious {
    /// USD per hour that a moved pod has to save.
    fn threshold(&self) -> f64 {
        let Cautious(settings) = self;
        settings
            .least_savings_per_pod
            .max(settings.move_cost / settings.payback_hours)
    }

    /// Why a proposal does not save enough.
    fn too_little(&self, savings: f64, pods: f64) -> Option<String> {
        let Cautious(settings) = self;
        let each = savings / pods;
        // Sums of floats: what is equal on paper is enough.
        const SLACK: f64 = 1e-12;
        if each + SLACK < settings.least_savings_per_pod {
            return Some(format!(
                "saves {each:.5} USD per hour for each of {pods} pods, and {} is the least",
                settings.least_savings_per_pod
            ));
        }
        let hours = settings.move_cost / each;
        (hours > settings.payback_hours + SLACK).then(|| {
            format!(
                "pays for its moves in {hours:.1} hours, and {} is the most",
                settings.payback_hours
            )
        })
    }
}

impl Consolidation for Cautious {
    const ABOUT: About = About {
        name: "cautious",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Moves pods only for enough savings, and few of one controller at a time.",
        signals: &[],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        Ok(Cautious(settings))
    }

    fn weigh(&mut self) -> Result<Vec<f64>, String> {
        let each = self.threshold();
        let pods = nodes::pods().into_iter();
        Ok(pods.map(|pods| f64::from(pods) * each).collect())
    }

    fn decide(&mut self) -> Result<Vec<Decision>, String> {
        let (reason_names, reasons) = (proposals::reason_names(), proposals::reasons());
        let (moved, savings) = (proposals::moved_pods(), proposals::savings());
        let per_pod = |at: usize| savings[at] / f64::from(moved[at].max(1));
        // The best first: they get what owners can bear.
        let mut order: Vec<usize> = (0..moved.len()).collect();
        order.sort_by(|&a, &b| per_pod(b).total_cmp(&per_pod(a)).then(a.cmp(&b)));
        let mut spared = Owners::new(self.0.most_pods_per_owner);
        let mut decisions = vec![Decision::default(); moved.len()];
        for at in order {
            let drifted = reason_names[reasons[at] as usize] == "Drifted";
            let pods = f64::from(moved[at]);
            let little = self.too_little(savings[at], pods);
            decisions[at] = match little.filter(|_| moved[at] > 0 && !drifted) {
                Some(reason) => Decision::no(reason),
                None => match spared.take(at) {
                    Err(reason) => Decision::no(reason),
                    Ok(()) => Decision::yes(per_pod(at), ""),
                },
            };
        }
        Ok(decisions)
    }
}

/// What controllers can bear within an hour.
struct Owners {
    most: Option<u32>,
    names: Vec<String>,
    young: Vec<u32>,
    /// Rows of owners and pods, by proposal.
    moves: Vec<Vec<(u32, u32)>>,
    taken: BTreeMap<u32, u32>,
}

impl Owners {
    fn new(most: Option<u32>) -> Self {
        if most.is_none() {
            return Owners {
                most,
                names: Vec::new(),
                young: Vec::new(),
                moves: Vec::new(),
                taken: BTreeMap::new(),
            };
        }
        let rows = proposals::moved_owners();
        let pods = proposals::moved_owner_pods();
        let both: Vec<(u32, u32)> = rows.into_iter().zip(pods).collect();
        let ends = proposals::moved_owner_ends();
        Owners {
            most,
            names: owners::names(),
            young: owners::young_pods(),
            moves: proposals::parts(&both, &ends).map(<[_]>::to_vec).collect(),
            taken: BTreeMap::new(),
        }
    }

    /// Takes what a proposal moves, or says which controller cannot bear it.
    fn take(&mut self, proposal: usize) -> Result<(), String> {
        let Some(most) = self.most else { return Ok(()) };
        let moves = &self.moves[proposal];
        for &(owner, pods) in moves {
            let young = self.young[owner as usize] + self.taken.get(&owner).copied().unwrap_or(0);
            if young + pods > most {
                return Err(format!(
                    "moves {pods} pods of {}, of which {young} started or move within an hour; {most} is the most",
                    self.names[owner as usize]
                ));
            }
        }
        for &(owner, pods) in moves {
            *self.taken.entry(owner).or_default() += pods;
        }
        Ok(())
    }
}

longshore_sdk::export_consolidation!(Cautious);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::{Cluster, Node, Owner, Proposal, with_cluster};

    use super::*;

    fn decide(settings: Settings, owners: Vec<Owner>, proposals: Vec<Proposal>) -> Vec<Decision> {
        let cluster = Cluster {
            nodes: vec![Node::default()],
            owners,
            proposals,
            ..Cluster::default()
        };
        with_cluster(cluster, || Cautious(settings).decide().unwrap())
    }

    fn saves(savings: f64, moved: u32) -> Proposal {
        Proposal {
            savings,
            moved,
            ..Proposal::default()
        }
    }

    #[test]
    fn every_moved_pod_has_to_save_enough() {
        let settings = Settings {
            least_savings_per_pod: 0.01,
            ..Settings::default()
        };
        let decisions = decide(settings, Vec::new(), vec![saves(0.099, 10), saves(0.1, 10)]);
        assert_eq!(
            decisions[0].reason,
            "saves 0.00990 USD per hour for each of 10 pods, and 0.01 is the least"
        );
        assert!(decisions[0].priority < 0.0 && decisions[1].priority > 0.0);
    }

    #[test]
    fn savings_have_to_pay_for_the_moves_in_time() {
        let settings = Settings {
            move_cost: 1.0,
            payback_hours: 10.0,
            ..Settings::default()
        };
        let decisions = decide(settings, Vec::new(), vec![saves(0.5, 10), saves(1.0, 10)]);
        assert_eq!(
            decisions[0].reason,
            "pays for its moves in 20.0 hours, and 10 is the most"
        );
        assert!(decisions[1].priority >= 0.0);
    }

    #[test]
    fn empty_nodes_and_drifted_ones_are_no_question_of_savings() {
        let drifted = Proposal {
            reason: "Drifted",
            savings: -1.0,
            ..Proposal::default()
        };
        let decisions = decide(
            Settings::default(),
            Vec::new(),
            vec![saves(0.0, 0), drifted],
        );
        assert!(decisions.iter().all(|decision| decision.priority >= 0.0));
    }

    #[test]
    fn few_pods_of_a_controller_move_or_start_within_an_hour() {
        let settings = Settings {
            most_pods_per_owner: Some(3),
            ..Settings::default()
        };
        let owner = Owner {
            name: "default/ReplicaSet/web",
            pods: 9,
            young: 1,
        };
        let moves = |savings: f64, pods: u32| Proposal {
            owners: vec![(0, pods)],
            ..saves(savings, pods)
        };
        let decisions = decide(settings, vec![owner], vec![moves(0.1, 1), moves(1.0, 2)]);
        assert!(decisions[1].priority > 0.0, "it saves more for each pod");
        assert_eq!(
            decisions[0].reason,
            "moves 1 pods of default/ReplicaSet/web, of which 3 started or move within an hour; 3 is the most"
        );
    }

    #[test]
    fn a_node_weighs_what_its_pods_have_to_save() {
        let cluster = Cluster {
            nodes: vec![Node::default()],
            ..Cluster::default()
        };
        let weights = with_cluster(cluster, || Cautious(Settings::default()).weigh().unwrap());
        assert_eq!(weights, [10.0 * 0.001]);
    }
}
