//! Generated scenarios of the kind `disrupt`: `usual` and `safe` in turn, with NodePools whose nodes are
//! consolidated.

use std::sync::Arc;

use longshore_core::model::{Catalogue, Symbols};
use longshore_live::environment::RepairMode;

use super::rng::Rng;
use super::scenario::GeneratedScenario;
use super::{pools, safe};

/// So that what NodePools say of disruption does not follow from what else a seed says.
const DISRUPT: u64 = 0x0064_6973_7275_7074;

/// The scenario of a seed.
pub(super) fn scenario(
    seed: u64,
    size: u32,
    types: Arc<(Catalogue, Symbols)>,
) -> GeneratedScenario {
    let mut scenario = match seed % 2 {
        0 => GeneratedScenario::new(seed, size, types),
        _ => safe::scenario(seed, size, types),
    };
    scenario.disrupts = true;
    if scenario.repairs == RepairMode::AtOnce {
        scenario.repairs = RepairMode::WithinBudgets;
    }
    scenario.base = pools::disrupted(&scenario.base, &mut Rng::new(seed ^ DISRUPT));
    scenario
}
