//! A generated scenario: an hour of users, cloud and faults, made up from a seed.
//!
//! Every pod of it can run in the end: there is a NodePool without limits, and no rule on pods
//! needs more zones or budgets than there are. Nobody cleans up after the daemon. Nodes that never
//! become ready do so once the hour and its faults are over.

mod acts;
mod disrupt;
#[cfg(feature = "aws")]
mod ec2;
mod event;
mod pods;
mod pools;
mod rng;
mod safe;
mod scenario;
mod trouble;
mod usual;
mod vain;

use std::sync::Arc;

use longshore_core::model::{Catalogue, Symbols};

pub use event::ScenarioEvent;
pub use rng::Rng;
pub use scenario::{GeneratedScenario, HOUR};
pub use trouble::Trouble;

/// Which scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScenarioKind {
    /// Mostly one process, faults of requests, watches that end or forget.
    #[default]
    Usual,
    /// Mostly two processes; watches late or silent by kind, processes stopped or terminated, pods
    /// and volumes that hold their nodes, clouds that list half of their instances, clocks that
    /// jump, claims from a backup.
    Safe,
    /// [`Usual`](Self::Usual) and [`Safe`](Self::Safe) in turn, with NodePools whose nodes are consolidated. Unhealthy nodes are repaired
    /// within budgets; the others repair at once, as 1.14 does.
    Disrupt,
    /// As [`Disrupt`](Self::Disrupt), with pods that kube-scheduler refuses whatever is bought for them, and with a
    /// NodePool whose nodes never join.
    Vain,
    /// On EC2: the provider with AWS's SDK on the emulated AWS, with faults of AWS.
    #[cfg(feature = "aws")]
    Aws,
}

impl ScenarioKind {
    /// All kinds.
    pub const ALL: &[ScenarioKind] = &[
        ScenarioKind::Usual,
        ScenarioKind::Safe,
        ScenarioKind::Disrupt,
        ScenarioKind::Vain,
        #[cfg(feature = "aws")]
        ScenarioKind::Aws,
    ];

    /// By name: `usual`, `safe`, `disrupt`, `vain`, `aws`.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = ScenarioKind::ALL.iter().copied();
        all.find(|kind| kind.name() == name)
    }

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            ScenarioKind::Usual => "usual",
            ScenarioKind::Safe => "safe",
            ScenarioKind::Disrupt => "disrupt",
            ScenarioKind::Vain => "vain",
            #[cfg(feature = "aws")]
            ScenarioKind::Aws => "aws",
        }
    }

    /// The scenario of a seed.
    pub fn scenario(
        self,
        seed: u64,
        size: u32,
        types: Arc<(Catalogue, Symbols)>,
    ) -> GeneratedScenario {
        match self {
            ScenarioKind::Usual => GeneratedScenario::new(seed, size, types),
            ScenarioKind::Safe => safe::scenario(seed, size, types),
            ScenarioKind::Disrupt => disrupt::scenario(seed, size, types),
            ScenarioKind::Vain => vain::scenario(seed, size, types),
            #[cfg(feature = "aws")]
            ScenarioKind::Aws => ec2::scenario(seed, size),
        }
    }
}

/// The instance types of scenarios: those of Karpenter's KWOK provider that run Linux on amd64 and
/// have up to `most` CPUs.
pub fn types(most: i64) -> Arc<(Catalogue, Symbols)> {
    let mut names = Symbols::default();
    let all = longshore_kwok::catalogue::built_in(&mut names);
    let fits = |name: &str| {
        let size = name
            .split('-')
            .nth(1)
            .and_then(|size| size.strip_suffix('x')?.parse::<i64>().ok());
        name.ends_with("-amd64-linux") && size.is_some_and(|size| size <= most)
    };
    let rows = all
        .types()
        .iter()
        .enumerate()
        .filter(|(_, t)| fits(names.text(t.name)));
    let rows = rows.map(|(at, t)| {
        let offerings = all
            .offerings_of(longshore_core::model::TypeId(at as u32))
            .to_vec();
        (t.clone(), offerings)
    });
    let catalogue = Catalogue::new(rows.collect(), &names);
    Arc::new((catalogue, names))
}
