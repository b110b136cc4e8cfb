//! NodeOverlays in `longshore status`: what became of each, and the prices that rounds plan with.

use std::collections::HashMap;

use super::Controller;
use crate::observe::overlays::{Applied, Verdict};
use crate::observe::state::TypeTable;
use crate::status::parts::{ChangedPrice, Overlay, Overlays};

/// Overlays and offerings that are named.
const MAX_NAMED_OVERLAYS: usize = 20;
const MAX_NAMED_PRICES: usize = 5;

impl Controller {
    /// Nothing where there are no overlays, or they were not applied yet.
    pub(super) fn overlays_status(&self) -> Option<Overlays> {
        let known = self.config.overlays.as_deref();
        let (offers, names) = (self.offers.current.catalogue(), self.state.names());
        let made = known.and_then(|known| known.made(offers, names))?;
        let make = || {
            let before = TypeTable::of(offers, names);
            let after = TypeTable::of(&made.catalogue, names);
            status(&made, &before, &after)
        };
        Some(self.offers.overlays.get(made.catalogue.number(), make))
    }
}

fn status(made: &Applied, before: &TypeTable, after: &TypeTable) -> Overlays {
    let word = |verdict: &Verdict| match verdict {
        Verdict::Applied => "applied".to_owned(),
        Verdict::Invalid(why) => format!("ignored: {why}"),
        Verdict::Conflict => {
            "ignored: another one of its weight changes the same price or resource".to_owned()
        }
    };
    let one = |(name, verdict): (&String, &Verdict)| Overlay {
        name: name.clone(),
        state: word(verdict),
    };
    let named = made.verdicts.iter().take(MAX_NAMED_OVERLAYS);
    let mut prices = changed(before, after);
    let prices_changed = prices.len();
    prices.truncate(MAX_NAMED_PRICES);
    Overlays {
        count: made.verdicts.len(),
        overlays: named.map(one).collect(),
        prices_changed,
        prices,
    }
}

/// Offerings whose lowest price is another one: the price that counts, and the one that is offered.
fn changed(before: &TypeTable, after: &TypeTable) -> Vec<ChangedPrice> {
    let mut old = HashMap::new();
    for kind in &before.0 {
        for one in &kind.offerings {
            let key = (&*kind.name, &*one.capacity_type, &*one.zone);
            old.insert(key, one.price);
        }
    }
    let mut all = Vec::new();
    for kind in &after.0 {
        for one in &kind.offerings {
            let key = (&*kind.name, &*one.capacity_type, &*one.zone);
            let offered = old.get(&key).copied();
            if let Some(offered) = offered.filter(|offered| *offered != one.price) {
                let (name, zone) = (&kind.name, &one.zone);
                all.push(ChangedPrice {
                    offering: format!("{name}/{zone}/{}", one.capacity_type),
                    price: one.price,
                    offered,
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longshore_core::model::{Catalogue, Symbols};

    use super::*;
    use crate::observe::state::{OfferingRow, TypeRow};
    use crate::status::parts::Status;

    fn table(prices: &[(&str, f64)]) -> TypeTable {
        let row = |(name, price): &(&str, f64)| TypeRow {
            name: (*name).to_owned(),
            cores: 2.0,
            bytes: 8.0,
            offerings: vec![OfferingRow {
                capacity_type: "spot".into(),
                zone: "a".into(),
                available: true,
                price: *price,
            }],
        };
        TypeTable(prices.iter().map(row).collect())
    }

    #[test]
    fn each_overlay_is_named_and_so_are_prices_that_they_change() {
        let verdicts = [
            ("cheap", Verdict::Applied),
            (
                "odd",
                Verdict::Invalid("spec.price: \"x\" is no price".to_owned()),
            ),
            ("twin", Verdict::Conflict),
        ];
        let verdicts = verdicts.map(|(name, verdict)| (name.to_owned(), verdict));
        let made = Applied {
            catalogue: Catalogue::new(Vec::new(), &Symbols::default()),
            verdicts: Arc::new(verdicts.into()),
        };
        let before = table(&[("a.large", 0.1), ("b.large", 0.2)]);
        let after = table(&[("a.large", 0.05), ("b.large", 0.2)]);
        let status = Status {
            overlays: Some(status(&made, &before, &after)),
            ..Status::default()
        };
        expect_test::expect![[r#"
            daemon    starting: initial lists are not complete
            cluster   0 of 0 pods wait; 0 nodes, 0 NodeClaims, 0 NodePools
            rounds    0
            overlay   cheap: applied
            overlay   odd: ignored: spec.price: "x" is no price
            overlay   twin: ignored: another one of its weight changes the same price or resource
            prices    1 offering at another price: a.large/a/spot 0.05 USD/h (offered at 0.1)
        "#]]
        .assert_eq(&crate::status::as_text(&status));
    }
}
