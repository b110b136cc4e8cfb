//! What another scorer would have decided, per round and in total.

use serde::Serialize;

use super::RoundPlace;
use longshore_journal::round::{RoundOutcome, Summary};

/// How a scorer that is not the recorded one would have decided.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Other {
    /// Name and version that the scorer gives itself.
    pub name: String,
    /// Rounds that were decided by both.
    pub rounds: usize,
    /// Of these, those that it would have decided otherwise.
    pub different: usize,
    pub first: Option<First>,
    /// What was bought in all rounds, as recorded.
    pub recorded: Totals,
    /// What would have been bought.
    pub with: Totals,
    /// The round in which it would have saved most: USD per hour, negative.
    pub cheapest: Option<Change>,
    /// The round in which it would have cost most: USD per hour, positive.
    pub dearest: Option<Change>,
    /// Each round: as recorded, and with it.
    #[serde(skip)]
    pub by_round: Vec<(Totals, Totals)>,
    pub notes: Vec<String>,
}

/// Sums over the compared rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Number of nodes bought.
    pub claims: usize,
    /// USD per hour of them, at their prices.
    pub cost: f64,
    /// Pods left without a node.
    pub left: usize,
}

/// The first round that differs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct First {
    pub round: RoundPlace,
    /// What was decided, at the first difference.
    pub recorded: String,
    /// What it would have decided.
    pub with: String,
}

/// A round and by how much its cost differs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub round: RoundPlace,
    /// Difference in USD per hour.
    pub cost: f64,
}

impl Other {
    pub fn new(name: &str) -> Self {
        Other {
            name: name.into(),
            ..Other::default()
        }
    }

    /// Adds a round. A round with a rejected plan on either side is not compared.
    pub fn add(&mut self, place: RoundPlace, recorded: &RoundOutcome, with: &RoundOutcome) {
        let (RoundOutcome::Decided(recorded), RoundOutcome::Decided(with)) = (recorded, with)
        else {
            return;
        };
        self.rounds += 1;
        self.recorded.add(recorded);
        self.with.add(with);
        let mut both = (Totals::default(), Totals::default());
        both.0.add(recorded);
        both.1.add(with);
        self.by_round.push(both);
        // The same purchases in the light of other costs are the same decision.
        let Some((was, would)) = recorded
            .difference(with)
            .filter(|_| !recorded.same_parts(with))
        else {
            return;
        };
        self.different += 1;
        if self.first.is_none() {
            self.first = Some(First {
                round: place.clone(),
                recorded: was,
                with: would,
            });
        }
        let cost = with.cost - recorded.cost;
        if cost < self.cheapest.as_ref().map_or(0.0, |least| least.cost) {
            self.cheapest = Some(Change {
                round: place.clone(),
                cost,
            });
        }
        if cost > self.dearest.as_ref().map_or(0.0, |most| most.cost) {
            self.dearest = Some(Change { round: place, cost });
        }
    }
}

impl Totals {
    fn add(&mut self, summary: &Summary) {
        self.claims += summary.claims;
        self.cost += summary.cost;
        self.left += summary.left;
    }
}
