//! Several policies for a NodePool: each starts from what the one before it says.

use longshore_core::model::OfferingId;
use longshore_core::policy::{DISCOURAGED, Policies};
use longshore_policy::{
    Exclusions, LoadedPolicy, OnFailure, PolicySlot, Signal, Signals, Terms, WasmPolicies,
};

use crate::common::hostile::{HOSTILE, WORLD};
use crate::common::{HOST, chain, load};

fn costs(policies: &WasmPolicies) -> Vec<f64> {
    let scores = policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    scores.cost.to_vec()
}

fn bits(costs: &[f64]) -> Vec<u64> {
    costs.iter().map(|cost| cost.to_bits()).collect()
}

/// A guest that misbehaves, on terms.
fn hostile(mode: &str, on_failure: OnFailure) -> LoadedPolicy {
    let terms = Terms {
        name: Some("hostile".into()),
        on_failure,
        ..Terms::everything()
    };
    let settings = format!("mode = '{mode}'");
    HOST.load_on(&terms, &HOSTILE, Some(&settings)).unwrap()
}

#[test]
fn three_policies_are_the_sum_worked_out_by_hand_bit_for_bit() {
    let scores = [("m7g.0000", 2.0), ("m7g.0000/us-east-1b", 6.0)];
    let rows = scores.map(|(key, value)| (key.to_owned(), value));
    let signals = Signals {
        tables: [("placement-scores".to_owned(), Signal::new(1.7e9, rows))].into(),
    };
    let policies = chain(vec![
        load("carbon", "usd-per-ton = 1000"),
        load("spot-placement", "threshold = 7\nweight = 0.1"),
        load("price", "[[discounts]]\npercent = 20"),
    ]);
    policies.set_signals(signals);
    let found = costs(&policies);
    let spot = WORLD.names.get("spot");
    let by_hand = WORLD.catalogue.offerings().iter().map(|offering| {
        let of = WORLD.catalogue.instance_type(offering.instance_type);
        let vcpus = of.capacity.get(longshore_core::model::ResourceId::Cpu) as f64 / 1000.0;
        let watts = vcpus * (0.74 + 0.5 * (3.5 - 0.74)) + vcpus * 4.0 * 0.392;
        let carbon = watts / 1000.0 * 1.135 * (450.0 / 1e6 * 1000.0);
        let first = offering.price + carbon;
        let zone = offering.zone.map(|zone| WORLD.names.text(zone));
        let below = match (WORLD.names.text(of.name), zone) {
            ("m7g.0000", Some("us-east-1b")) => 1.0,
            ("m7g.0000", _) => 5.0,
            _ => 0.0,
        };
        let is_spot = offering.capacity_type == spot;
        let second = first * if is_spot { 1.0 + 0.1 * below } else { 1.0 };
        second * (1.0 - 20.0 / 100.0) + 0.0
    });
    assert_eq!(bits(&found), bits(&by_hand.collect::<Vec<_>>()));
    assert!(policies.reports().is_empty());

    // What each of them did to one offering is told, and adds up.
    for row in [0, 1] {
        let terms = policies.terms("default", OfferingId(row));
        let names: Vec<&str> = terms.iter().map(|term| &*term.policy).collect();
        assert_eq!(names, ["carbon", "spot-placement", "price"]);
        let sum: f64 = terms.iter().map(|term| term.usd).sum();
        let price = WORLD.catalogue.offerings()[row as usize].price;
        assert!((price + sum - found[row as usize]).abs() < 1e-12);
        assert_eq!(terms[2].cost, found[row as usize]);
    }
    let answered = policies.answered_by("default");
    assert_eq!(answered.as_deref(), Some("carbon, spot-placement, price"));
}

/// A policy that excludes half of the offerings, which discourages them only.
fn discouraging() -> LoadedPolicy {
    let terms = Terms {
        name: Some("rather-not".into()),
        exclusions: Exclusions::Discourage,
        ..Terms::everything()
    };
    HOST.load_on(&terms, &HOSTILE, Some("mode = 'exclude-half'"))
        .unwrap()
}

#[test]
fn a_later_policy_neither_undoes_nor_sees_that_an_offering_is_discouraged() {
    let cheaper = || load("price", "[[discounts]]\npercent = 20");
    let policies = chain(vec![discouraging(), cheaper()]);
    let found = costs(&policies);
    let alone = costs(&chain(vec![cheaper()]));
    assert!((found[0] - (alone[0] + DISCOURAGED)).abs() < 1e-9);
    assert_eq!(found[599], alone[599]);
    let terms = policies.terms("default", OfferingId(0));
    let said: Vec<(&str, bool, bool)> = terms
        .iter()
        .map(|term| (&*term.policy, term.discourages, term.usd > 0.0))
        .collect();
    assert_eq!(said, [("rather-not", true, true), ("price", false, false)]);
    let scores = policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    assert_eq!(scores.discouraged_by(0).map(|by| &**by), Some("rather-not"));
    assert_eq!(scores.discouraged_by(599), None);
}

#[test]
fn what_is_prepaid_of_a_discouraged_offering_is_no_less_discouraged() {
    let settings = "[[commitments]]\nname = 'paid'\nunit = 'instances'\nremaining = 50\n\
                    offerings = { instance-type = 'm7g.*' }\n";
    let prepaid = || load("commitments", settings);
    for policies in [
        vec![discouraging(), prepaid()],
        vec![prepaid(), discouraging()],
    ] {
        let policies = chain(policies);
        let scores = policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
        let draws: Vec<_> = scores.pools.iter().flat_map(|pool| &pool.draws).collect();
        assert!(!draws.is_empty(), "{:?}", policies.reports());
        for draw in draws {
            let is_discouraged = scores.discouraged_by(draw.offering.0).is_some();
            assert_eq!(draw.cost >= DISCOURAGED, is_discouraged, "{draw:?}");
        }
    }
}

#[test]
fn an_offering_that_is_excluded_names_the_policy_that_did() {
    let others = HOST
        .load_on(
            &Terms {
                name: Some("others".into()),
                ..Terms::everything()
            },
            &HOSTILE,
            Some("mode = 'exclude-odd'"),
        )
        .unwrap();
    let half = hostile("exclude-half", OnFailure::Price);
    let policies = chain(vec![half, others]);
    let scores = policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    let by = |row: u32| scores.excluded_by(row).map(|name| &**name);
    assert_eq!([by(0), by(1)], [Some("hostile"); 2], "the first that does");
    assert_eq!([by(300), by(301)], [None, Some("others")]);
    // One that gives no answer and lets nothing be bought says so.
    let policies = chain(vec![hostile("panic", OnFailure::Hold)]);
    let scores = policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    let by = scores.excluded_by(0).map(|name| &**name);
    assert_eq!(
        by,
        Some("hostile (it gives no answer: `on-failure` counts)")
    );
}

#[test]
fn what_one_excludes_no_other_brings_back() {
    let all = "[[discounts]]\nprice = 0.5";
    let half = hostile("exclude-half", OnFailure::Price);
    for policies in [
        chain(vec![half.clone(), load("price", all)]),
        chain(vec![load("price", all), half]),
    ] {
        let found = costs(&policies);
        let (excluded, left) = found.split_at(300);
        assert!(excluded.iter().all(|cost| cost.is_infinite()));
        assert!(left.iter().all(|cost| cost.is_finite()));
    }
}

/// What a policy answers between two others once it fails, after a process in which it excluded half
/// of all offerings.
fn failing(on_failure: OnFailure) -> (Vec<f64>, Vec<bool>) {
    let discount = |percent: u32| load("price", &format!("[[discounts]]\npercent = {percent}"));
    let before = chain(vec![
        discount(50),
        hostile("exclude-half", on_failure),
        discount(10),
    ]);
    costs(&before);
    let after = chain(vec![
        discount(20),
        hostile("panic", on_failure),
        discount(10),
    ]);
    if let Some(remembered) = before.remembered(1) {
        after.remember(1, &remembered);
    }
    let found = costs(&after);
    let links = after.answered().remove(0).links;
    (found, links.iter().map(|link| link.failed).collect())
}

#[test]
fn where_one_fails_its_own_part_counts_and_the_others_are_as_they_are() {
    let list = WORLD.catalogue.offerings().iter().map(|of| of.price);
    let both: Vec<f64> = list
        .map(|price| price * (1.0 - 20.0 / 100.0) * (1.0 - 10.0 / 100.0))
        .collect();
    let (found, failed) = failing(OnFailure::LastAnswer);
    assert!(found[..300].iter().all(|cost| cost.is_infinite()));
    assert_eq!(found[300..], both[300..], "its difference was none");
    assert_eq!(failed, [false, true, false]);

    let (found, failed) = failing(OnFailure::Price);
    assert_eq!((found, failed), (both, vec![false, true, false]));

    let (found, failed) = failing(OnFailure::Hold);
    assert!(found.iter().all(|cost| cost.is_infinite()));
    assert_eq!(failed, [false, true], "there is nothing to ask the third");
}

#[test]
fn a_discount_that_was_there_before_is_nobody_elses() {
    let free = Terms {
        max_discount: 1.0,
        ..Terms::everything()
    };
    let prepaid = "[[discounts]]\npercent = 100";
    let path = crate::common::plugin("price");
    let policies = chain(vec![
        HOST.load_on(&free, &path, Some(prepaid)).unwrap(),
        load("price", "[[discounts]]\npercent = 50"),
    ]);
    assert!(costs(&policies).iter().all(|&cost| cost == 0.0));
    assert!(policies.reports().is_empty(), "nothing was raised");
}

#[test]
fn commitments_of_one_name_stay_apart_by_policy() {
    let prepaid = "[[commitments]]\nname = 'reserved'\nunit = 'instances'\nremaining = 3";
    let of = |zone: &str| {
        let offerings = format!("offerings = {{ zone = '{zone}' }}\n");
        let settings = prepaid.replace("unit", &format!("{offerings}unit"));
        load("commitments", &settings)
    };
    let policies = chain(vec![of("us-east-1a"), of("us-east-1?")]);
    let scores = policies.score(&WORLD.catalogue, &WORLD.names, WORLD.pool);
    let pools: Vec<(u32, &str)> = (scores.pools.iter())
        .map(|pool| (pool.owner, pool.name.as_str()))
        .collect();
    assert_eq!(pools, [(0, "reserved"), (1, "reserved")]);
    let zone_a = WORLD.names.get("us-east-1a");
    let zones = |at: usize| {
        let draws = scores.pools[at].draws.iter();
        draws.map(|draw| WORLD.catalogue.offering(draw.offering).zone)
    };
    assert!(zones(0).all(|zone| zone == zone_a));
    assert!(
        zones(1).count() > 0 && zones(1).all(|zone| zone != zone_a),
        "an offering draws on the first pool that has it"
    );
}

#[test]
fn a_place_without_a_policy_is_left_out() {
    let place = |policy, terms| PolicySlot {
        policy,
        node_pools: vec![],
        follows: None,
        terms,
        next: None,
    };
    let policies = HOST.follow(
        None,
        vec![
            place(None, Terms::default()),
            place(
                Some(load("price", "[[discounts]]\npercent = 50")),
                Terms::everything(),
            ),
        ],
    );
    let list = WORLD.catalogue.offerings()[0].price;
    assert_eq!(costs(&policies)[0], list * 0.5);
    let terms = policies.terms("default", OfferingId(0));
    assert_eq!((terms.len(), terms[0].usd, terms[0].cost), (2, 0.0, list));
    assert!(
        terms[0]
            .policy
            .ends_with("(it gives no answer, and is left out)")
    );
}

/// Asks about `pools` NodePools in a round; how many questions a policy was asked, and how many of
/// them an answer that was there answered.
fn asked(policies: &WasmPolicies, pools: usize) -> (u64, u64) {
    let mut names = WORLD.names.clone();
    let mut answers = Vec::new();
    for at in 0..pools {
        let pool = names.intern(&format!("pool-{at}"));
        answers.push(policies.score(&WORLD.catalogue, &names, pool).cost);
    }
    assert!(answers.iter().all(|one| bits(one) == bits(&answers[0])));
    let tally = policies.tallies().remove(0);
    (tally.calls, tally.kept)
}

#[test]
fn twenty_node_pools_that_read_the_same_columns_are_one_question() {
    let policies = chain(vec![load("price", "[[discounts]]\npercent = 10")]);
    policies.begin_round(1_700_000_000);
    assert_eq!(asked(&policies, 20), (20, 19));
    let links = policies.answered().remove(19).links;
    assert!(links[0].is_kept);
    // In a later round it need not be asked at all.
    policies.begin_round(1_700_000_060);
    assert_eq!(asked(&policies, 20), (20, 20));
    // Other signals are nothing to a policy that reads none, other columns are.
    policies.set_signals(Signals {
        tables: [("x".to_owned(), Signal::new(1.0, [("y".to_owned(), 2.0)]))].into(),
    });
    policies.begin_round(1_700_000_120);
    assert_eq!(asked(&policies, 2), (2, 2));
    let other = crate::common::world(60);
    policies.score(&other.catalogue, &other.names, other.pool);
    assert_eq!(policies.tallies().remove(0).kept, 0);
}

#[test]
fn what_is_made_of_a_signal_is_asked_again_when_that_changes() {
    let policies = chain(vec![load("spot-risk", "")]);
    let rates = |rate: f64| Signals {
        tables: [(
            "interruption-rates".to_owned(),
            Signal::new(1.0, [("m7g.0000".to_owned(), rate)]),
        )]
        .into(),
    };
    let mut now = 1_700_000_000;
    let mut kept = |rate: f64| {
        now += 60;
        policies.set_signals(rates(rate));
        policies.begin_round(now);
        asked(&policies, 1).1
    };
    assert_eq!([0.1, 0.1, 0.2, 0.2, 0.1].map(&mut kept), [0, 1, 0, 1, 1]);
}

#[test]
fn what_keeps_an_answer_is_what_was_called_and_not_what_is_imported() {
    for (mode, kept) in [("fine", 2), ("asks-name", 0), ("asks-time", 2), ("log", 0)] {
        let policies = chain(vec![hostile(mode, OnFailure::Price)]);
        policies.begin_round(1_700_000_000);
        assert_eq!(asked(&policies, 3), (3, kept), "{mode}");
        policies.begin_round(1_700_000_060);
        let again = asked(&policies, 3).1;
        let expected = match mode {
            "fine" => 3,
            // The time is another, and the same for all.
            "asks-time" => 2,
            // The first NodePool of a round is the first question of an instance.
            "asks-name" => 1,
            _ => 0,
        };
        assert_eq!(again, expected, "{mode}");
    }
}
