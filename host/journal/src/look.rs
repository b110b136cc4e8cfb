//! What the record of a look for disruption has beside what the record of every round has, and what
//! it came to.
//!
//! Looks and rounds of provisioning are numbered apart: numbers of looks begin after
//! [`BEFORE_FIRST_LOOK`].

use longshore_core::disrupt::methods::{RoundOptions, TerminateFirst};
use longshore_core::disrupt::proposals::Rules;
use longshore_core::disrupt::search::Effort;
use longshore_core::model::{ClusterObjects, DueRepair, MoveCost, RepairAction, UnhealthyNode};
use serde::{Deserialize, Serialize};

use super::judged::Question;

/// The number of the first look, less one.
pub const BEFORE_FIRST_LOOK: u64 = 1 << 40;

/// The input of a look beside that of every round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// What a moved pod has to save where its NodePool does not say: USD per hour, the bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_amount: Option<u64>,
    /// What a move must save as a share of what a pod costs: the bits of the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_share: Option<u64>,
    /// Gate SpotToSpotConsolidation.
    pub spot_to_spot: bool,
    /// Gate TerminateFirstDrift.
    pub first_for_drift: bool,
    /// Gate TerminateFirstRepair.
    pub first_for_repair: bool,
    /// Nodes that the cloud calls unhealthy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy: Vec<Unhealthy>,
    /// A consolidation policy had the last word.
    pub judged: bool,
    /// What such policies were asked, in order; older journals do not say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// Consolidation only looked at one node after the other: the cluster had hardly changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sweep_only: bool,
    /// The question was that of the look before, which found nothing: it was not asked again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same: bool,
}

/// A node that the cloud calls unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unhealthy {
    /// The node's name.
    pub node: String,
    /// `Type=Status`.
    pub condition: String,
    /// The repair, once its toleration has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
}

/// A repair that is due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Due {
    /// It is rebooted; otherwise it is replaced.
    pub reboot: bool,
    /// The bits of the number.
    pub score: u64,
    /// For how long its pods may drain, in seconds; no bound if none.
    pub grace: Option<i64>,
}

impl Look {
    /// As it is written down.
    pub fn new(options: &RoundOptions<'_>, world: &ClusterObjects, judged: bool) -> Self {
        let (move_amount, move_share) = match options.move_cost {
            None => (None, None),
            Some(MoveCost::Amount(amount)) => (Some(amount.to_bits()), None),
            Some(MoveCost::Share(share)) => (None, Some(share.to_bits())),
        };
        let unhealthy = |of: &UnhealthyNode| Unhealthy {
            node: world.names.text(of.node).to_owned(),
            condition: world.names.text(of.condition).to_owned(),
            due: of.due.map(|due| Due {
                reboot: due.action == RepairAction::Reboot,
                score: due.score.to_bits(),
                grace: due.grace,
            }),
        };
        Look {
            move_amount,
            move_share,
            spot_to_spot: options.rules.spot_to_spot,
            first_for_drift: options.terminate_first.drift,
            first_for_repair: options.terminate_first.repair,
            unhealthy: world.unhealthy.iter().map(unhealthy).collect(),
            judged,
            questions: Vec::new(),
            sweep_only: options.effort.sweep_only,
            same: false,
        }
    }

    /// The options as they were meant, with a seed.
    pub fn options(&self, seed: u64) -> RoundOptions<'static> {
        let amount = self.move_amount.map(f64::from_bits).map(MoveCost::Amount);
        let share = self.move_share.map(f64::from_bits).map(MoveCost::Share);
        RoundOptions {
            move_cost: amount.or(share),
            rules: Rules {
                spot_to_spot: self.spot_to_spot,
            },
            effort: Effort {
                seed,
                sweep_only: self.sweep_only,
                ..Effort::default()
            },
            terminate_first: TerminateFirst {
                drift: self.first_for_drift,
                repair: self.first_for_repair,
            },
            ..RoundOptions::default()
        }
    }

    /// Adds the nodes that the cloud called unhealthy to a world.
    pub fn enter(&self, world: &mut ClusterObjects) {
        for of in &self.unhealthy {
            let unhealthy = UnhealthyNode {
                node: world.names.intern(&of.node),
                condition: world.names.intern(&of.condition),
                due: of.due.as_ref().map(|due| DueRepair {
                    action: match due.reboot {
                        true => RepairAction::Reboot,
                        false => RepairAction::Replace,
                    },
                    score: f64::from_bits(due.score),
                    grace: due.grace,
                }),
            };
            world.unhealthy.push(unhealthy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_unhealthy_nodes_survive_to_the_last_bit() {
        let options = RoundOptions {
            move_cost: Some(MoveCost::Share(0.1)),
            rules: Rules { spot_to_spot: true },
            terminate_first: TerminateFirst {
                drift: true,
                repair: false,
            },
            ..RoundOptions::default()
        };
        let mut world = ClusterObjects::default();
        let (node, condition) = (world.names.intern("a"), world.names.intern("Ready=False"));
        let due = DueRepair {
            action: RepairAction::Reboot,
            score: 1.0 / 3.0,
            grace: Some(30),
        };
        let due = Some(due);
        world.unhealthy.push(UnhealthyNode {
            node,
            condition,
            due,
        });
        let look = Look::new(&options, &world, false);
        let text = serde_json::to_string(&look).unwrap();
        let again: Look = serde_json::from_str(&text).unwrap();
        assert_eq!(again, look);
        let old: Look = serde_json::from_str(r#"{"judged": true}"#).unwrap();
        assert!(old.judged && old.questions.is_empty(), "it is passed over");
        let meant = again.options(7);
        assert_eq!(
            (meant.move_cost, meant.rules.spot_to_spot, meant.effort.seed),
            (options.move_cost, true, 7)
        );
        assert_eq!(meant.terminate_first, options.terminate_first);
        let mut other = ClusterObjects::default();
        again.enter(&mut other);
        assert_eq!(other.names.text(other.unhealthy[0].node), "a");
        assert_eq!(other.unhealthy[0].due, due);
    }
}
