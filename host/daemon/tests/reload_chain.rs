//! Several policies for a NodePool, one of them a shadow.

use crate::reload::guest::{Way, guest};
use crate::scene::Scene;

/// A discount in percent on what the policies before it say.
fn discount(name: &str, percent: u32, mode: &str) -> String {
    format!(
        "[[policy]]\nname = '{name}'\npath = 'price.wasm'\nmode = '{mode}'\n\
         [policy.settings]\ndiscounts = [{{ percent = {percent} }}]\n"
    )
}

const FLAT: &str = "[[policy]]\nname = 'flat'\npath = 'flat.wasm'\n";

/// What the claims of a round cost by the shadow `next`, each in place of 3 USD per hour: four times
/// three quarters.
fn costs_by_shadow(name: &str, config: &str) -> f64 {
    let price = std::fs::read(longshore_xtask::guests::plugin("price")).unwrap();
    let mut scene = Scene::new(
        name,
        &[
            ("longshore.toml", config.as_bytes()),
            ("price.wasm", &price),
            ("flat.wasm", &guest("1.0.0", Way::Costs(4.0))),
        ],
    );
    let plan = scene.round();
    let claims = plan.claims.len() as f64;
    assert!(claims > 0.0, "the small cluster needs nodes");
    let compared = scene.policy("next").shadow.unwrap();
    assert_eq!((compared.rounds, compared.failures), (1, 0));
    assert_eq!(compared.enforced, 3.0 * claims);
    compared.own / claims
}

#[test]
fn a_shadow_is_asked_with_the_costs_of_the_policies_before_it() {
    let next = discount("next", 50, "shadow");
    let quarter = discount("quarter", 25, "enforce");
    let last = costs_by_shadow("shadow-last", &[FLAT, &quarter, &next].concat());
    assert_eq!(last, 1.5, "half of three");
    // The one after it takes 1 USD off, as it did in the round.
    let between = costs_by_shadow("shadow-between", &[FLAT, &next, &quarter].concat());
    assert_eq!(between, 1.0, "half of four, less one");
}
