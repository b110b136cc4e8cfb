//! Overlays on a small catalogue, as the loop folds them and rounds apply them.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use longshore_api::crd::{Time, Timestamp};
use longshore_core::model::{ClusterObjects, Op, TypeId};
use serde_json::{Value, json};

use super::*;
use crate::act::overlay_status::new_status;
use crate::decide::claims::overlay_annotations;
use crate::observe::state::{ClusterState, WorkItem};
use crate::observe::watch::Change;
use longshore_api::kinds::ObjectKind;

/// A state that knows NodePools `blue` and `red`, and what can be bought.
fn cluster() -> (ClusterState, Catalogue) {
    let mut names = Symbols::default();
    let types = include_bytes!("../../../../daemon/tests/data/types.json");
    let (offers, problems) = longshore_kwok::catalogue::parse("types.json", types, &mut names);
    assert!(problems.list.is_empty());
    let mut state = ClusterState::new(names);
    for name in ["blue", "red"] {
        see(&mut state, ObjectKind::NodePool, &pool(name, name));
    }
    (state, offers)
}

fn pool(name: &str, team: &str) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let spec = json!({"requirements": [], "nodeClassRef": class});
    let labels = json!({"labels": {"team": team}});
    json!({"metadata": {"name": name}, "spec": {"template": {"metadata": labels, "spec": spec}}})
}

/// An overlay of types, with more of its spec.
fn overlay(name: &str, types: &[&str], more: Value) -> Value {
    let types =
        json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types});
    let mut spec = json!({"requirements": [types]});
    for (field, value) in more.as_object().into_iter().flatten() {
        match field.as_str() {
            "requirements" => {
                let more = value.as_array().cloned().unwrap_or_default();
                let all = spec["requirements"].as_array_mut();
                all.unwrap().extend(more);
            }
            _ => spec[field] = value.clone(),
        }
    }
    json!({"metadata": {"name": name, "generation": 3}, "spec": spec})
}

fn see(state: &mut ClusterState, kind: ObjectKind, object: &Value) -> Vec<WorkItem> {
    let (touched, refused) = state.fold(kind, &Change::Upsert(object.to_string().into()));
    assert_eq!(refused, None);
    touched
}

/// What a round would plan on.
fn round(state: &ClusterState, offers: &Catalogue, known: &CatalogueOverlays) -> ClusterObjects {
    let frozen = state.freeze();
    let overlays = frozen.overlays.clone();
    let mut world = frozen.world();
    let applied = known.apply(offers, &overlays, &world.pools, &mut world.names);
    world.catalogue = applied.catalogue;
    world
}

/// What became of each overlay, and of the first price and the resources of each type.
fn check(overlays: &[Value], expected: Expect) {
    let (mut state, offers) = cluster();
    for object in overlays {
        see(&mut state, ObjectKind::NodeOverlay, object);
    }
    let known = CatalogueOverlays::new(&["nvidia.com/gpu"]);
    let world = round(&state, &offers, &known);
    let (pools, mut names) = (state.pool_records(), state.names().clone());
    let applied = known.apply(&offers, &state.overlays, &pools, &mut names);
    let mut out = String::new();
    for (name, verdict) in &*applied.verdicts {
        let _ = writeln!(out, "{name}: {verdict:?}");
    }
    for (at, kind) in world.catalogue.types().iter().enumerate() {
        let of = TypeId(at as u32);
        let annotations = overlay_annotations(&world, &[of]);
        if annotations.is_empty() {
            continue;
        }
        let of_pools = kind.requirements.iter().find_map(|one| match &one.op {
            Op::In(pools) if world.names.text(one.key) == NODEPOOL => Some(pools),
            _ => None,
        });
        let of_pools = of_pools.into_iter().flat_map(|pools| pools.iter());
        let of_pools: Vec<&str> = of_pools.map(|pool| world.names.text(*pool)).collect();
        let prices = world.catalogue.offerings_of(of).iter();
        let prices: Vec<String> = prices.map(|one| format!("{:.3}", one.price)).collect();
        let annotations = annotations.iter();
        let annotations: Vec<String> = annotations.map(|(k, v)| format!("{k}={v}")).collect();
        let _ = writeln!(
            out,
            "{} {of_pools:?}: {} {}",
            world.names.text(kind.name),
            prices.join(" "),
            annotations.join(" ")
        );
    }
    expected.assert_eq(&out);
}

#[test]
fn an_overlay_that_is_wrong_or_in_conflict_is_reported_and_the_others_count() {
    let red = json!([{"key": "team", "operator": "In", "values": ["red"]}]);
    let own = json!([{"key": "karpenter.sh/other", "operator": "Exists"}]);
    check(
        &[
            overlay("clash", &["c6i.large"], json!({"price": "9", "weight": 2})),
            overlay("dear", &["c6i.large"], json!({"price": "5", "weight": 2})),
            overlay(
                "fuse",
                &["m7g.large", "m6i.large"],
                json!({"capacity": {"example.com/fuse": "4"}}),
            ),
            overlay(
                "gpu",
                &["r6i.large"],
                json!({"capacity": {"nvidia.com/gpu": "1"}}),
            ),
            overlay(
                "ours",
                &["r6i.large"],
                json!({"price": "1", "requirements": own}),
            ),
            overlay(
                "red",
                &["m6i.large"],
                json!({"priceAdjustment": "+100%", "requirements": red}),
            ),
        ],
        expect![[r#"
            clash: Conflict
            dear: Applied
            fuse: Applied
            gpu: Invalid("spec.capacity[nvidia.com/gpu]: is known from the cloud; an overlay adds other resources")
            ours: Invalid("spec.requirements[1].key: label `karpenter.sh/other` is restricted: labels under karpenter.sh are the autoscaler's own; use another label")
            red: Applied
            c6i.large []: 5.000 5.000 5.000 5.000 karpenter.sh/price-overlay-applied=true
            m6i.large ["blue"]: 0.096 0.054 0.096 0.044 karpenter.sh/capacity-overlay-applied=true longshore.dev/overlay-capacity={"example.com/fuse":"4"}
            m6i.large ["red"]: 0.192 0.109 0.192 0.088 karpenter.sh/price-overlay-applied=true karpenter.sh/capacity-overlay-applied=true longshore.dev/overlay-capacity={"example.com/fuse":"4"}
            m7g.large []: 0.082 0.049 0.082 0.029 karpenter.sh/capacity-overlay-applied=true longshore.dev/overlay-capacity={"example.com/fuse":"4"}
        "#]],
    );
}

#[test]
fn a_claim_counts_on_the_least_that_overlays_add_to_any_of_its_types() {
    let (mut state, offers) = cluster();
    let adds =
        |name: &str, of: &str, capacity: Value| overlay(name, &[of], json!({"capacity": capacity}));
    let both = json!({"example.com/fuse": "4", "example.com/net": "2"});
    see(
        &mut state,
        ObjectKind::NodeOverlay,
        &adds("a", "m6i.large", both),
    );
    let one = json!({"example.com/fuse": "3"});
    see(
        &mut state,
        ObjectKind::NodeOverlay,
        &adds("b", "m7g.large", one),
    );
    let world = round(&state, &offers, &CatalogueOverlays::new(&[]));
    let of = |names: &[&str]| {
        let types = names.iter().map(|name| {
            let name = world.names.get(name).unwrap();
            world.catalogue.find(name).unwrap()
        });
        overlay_annotations(&world, &types.collect::<Vec<_>>())
    };
    let yes = || {
        (
            longshore_api::labels::CAPACITY_OVERLAY.to_owned(),
            "true".to_owned(),
        )
    };
    let adds = |text: &str| (CAPACITY.to_owned(), text.to_owned());
    let both = r#"{"example.com/fuse":"4","example.com/net":"2"}"#;
    assert_eq!(of(&["m6i.large"]), [yes(), adds(both)]);
    let least = r#"{"example.com/fuse":"3"}"#;
    assert_eq!(of(&["m6i.large", "m7g.large"]), [yes(), adds(least)]);
    assert_eq!(of(&["m7g.large", "r6i.large"]), [yes()]);
    assert_eq!(of(&["r6i.large"]), []);
    let claim = |text: &str| {
        let class = json!({"group": "g.io", "kind": "C", "name": "c"});
        let claim = json!({"metadata": {"annotations": {CAPACITY: text}},
            "spec": {"nodeClassRef": class, "requirements": []}});
        added_capacity(&serde_json::from_value(claim).unwrap())
    };
    assert_eq!(
        claim(least),
        [("example.com/fuse".into(), "3".into())].into()
    );
    assert!(claim(r#"{"a":"x"}"#).is_empty() && claim("x").is_empty());
}

#[test]
fn a_catalogue_is_made_anew_when_an_overlay_a_nodepool_or_the_offers_change() {
    let (mut state, offers) = cluster();
    let known = CatalogueOverlays::new(&[]);
    let number =
        |state: &ClusterState, offers: &Catalogue| round(state, offers, &known).catalogue.number();
    assert_eq!(number(&state, &offers), offers.number(), "no overlays");
    let dear = |price: &str| overlay("dear", &["c6i.large"], json!({"price": price}));
    let touched = see(&mut state, ObjectKind::NodeOverlay, &dear("5"));
    assert_eq!(
        touched,
        [WorkItem::Overlay("dear".into()), WorkItem::Pending]
    );
    let first = number(&state, &offers);
    assert_ne!(first, offers.number());
    assert_eq!(number(&state, &offers), first, "another round");

    let mut judged = dear("5");
    judged["status"] = json!({"conditions": []});
    let touched = see(&mut state, ObjectKind::NodeOverlay, &judged);
    assert_eq!(touched, [WorkItem::Overlay("dear".into())]);
    let mut counted = pool("red", "red");
    counted["status"] = json!({"nodes": 7});
    see(&mut state, ObjectKind::NodePool, &counted);
    assert_eq!(number(&state, &offers), first, "nothing but statuses");

    see(&mut state, ObjectKind::NodeOverlay, &dear("6"));
    let second = number(&state, &offers);
    let touched = see(&mut state, ObjectKind::NodePool, &pool("red", "pink"));
    assert!(
        touched.contains(&WorkItem::Overlay("dear".into())),
        "{touched:?}"
    );
    let third = number(&state, &offers);
    let cheaper = offers.without_capacity(&[]);
    let fourth = number(&state, &cheaper);
    let all = BTreeSet::from([first, second, third, fourth]);
    assert_eq!(all.len(), 4, "each is another one");

    let gone = Change::Remove(dear("6").to_string().into());
    let (touched, _) = state.fold(ObjectKind::NodeOverlay, &gone);
    assert_eq!(touched, [WorkItem::Pending]);
    assert_eq!(number(&state, &offers), offers.number(), "no overlays");
}

/// Names of pods come and go by the thousand, and get new numbers.
#[test]
fn a_catalogue_names_what_it_named_after_names_were_swept() {
    let (mut state, offers) = cluster();
    let known = CatalogueOverlays::new(&[]);
    // Before the names of overlays, and gone when names are swept.
    let labels = |number: u32| {
        let of = |at| format!(r#""label-{number}-{at}":"{at}""#);
        (0..200).map(of).collect::<Vec<_>>().join(",")
    };
    let churn = |state: &mut ClusterState, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let labels = labels(number);
            let pod = format!(
                r#"{{"metadata":{{"name":"p","namespace":"shop","labels":{{{labels}}}}},"spec":{{"containers":[]}}}}"#
            );
            state.fold(ObjectKind::Pod, &Change::Upsert(pod.into()));
        }
    };
    churn(&mut state, 0..20);
    let red = json!([{"key": "team", "operator": "In", "values": ["red"]}]);
    let more = json!({"capacity": {"example.com/fuse": "4"}, "requirements": red});
    see(
        &mut state,
        ObjectKind::NodeOverlay,
        &overlay("fuse", &["m6i.large"], more),
    );
    let said = |world: &ClusterObjects| {
        let types = world.catalogue.types().iter();
        let texts = types.map(|kind| {
            let pools = kind.requirements.iter().filter_map(|one| match &one.op {
                Op::In(pools) if world.names.text(one.key) == NODEPOOL => {
                    Some(world.names.text(pools[0]))
                }
                _ => None,
            });
            let has = kind.capacity.iter().map(|(of, _)| of.name(&world.names));
            let has: Vec<&str> = has.filter(|of| of.contains('/')).collect();
            format!("{:?} {has:?}", pools.collect::<Vec<_>>())
        });
        texts.collect::<Vec<_>>()
    };
    let before = round(&state, &offers, &known);
    let symbol = before.names.get("example.com/fuse");
    churn(&mut state, 20..400);
    let after = round(&state, &offers, &known);
    assert_ne!(
        after.names.get("example.com/fuse"),
        symbol,
        "names were swept"
    );
    assert_eq!(said(&after), said(&before));
    assert!(said(&after).contains(&r#"["red"] ["example.com/fuse"]"#.to_owned()));
    let again = round(&state, &offers, &known).catalogue.number();
    assert_eq!(again, after.catalogue.number(), "made once since");
}

#[test]
fn a_status_says_what_karpenter_says_and_is_written_once() {
    let mut object: NodeOverlay =
        serde_json::from_value(overlay("dear", &["c6i.large"], json!({"price": "5"}))).unwrap();
    let mut out = String::new();
    let wrong = Verdict::Invalid("spec.price: is wrong; mend it".into());
    let verdicts = [Verdict::Applied, Verdict::Conflict, wrong, Verdict::Applied];
    for (second, verdict) in (10..).step_by(10).zip(verdicts) {
        let now = |second| Time(Timestamp::from_second(second).unwrap());
        let status = new_status(&object, &verdict, now(second)).unwrap();
        for one in &status.conditions {
            let _ = writeln!(
                out,
                "{second}: {} {} {} {:?} since {} of {:?}",
                one.type_,
                one.status.text(),
                one.reason,
                one.message,
                one.last_transition_time.0.as_second(),
                one.observed_generation
            );
        }
        object.status = Some(status);
        assert_eq!(new_status(&object, &verdict, now(second + 5)), None);
    }
    object.metadata.generation = Some(4);
    assert!(new_status(&object, &Verdict::Applied, Time(Timestamp::UNIX_EPOCH)).is_some());
    expect![[r#"
        10: ValidationSucceeded True ValidationSucceeded "" since 10 of Some(3)
        10: Ready True Ready "" since 10 of Some(3)
        20: ValidationSucceeded False Conflict "conflict with another overlay" since 20 of Some(3)
        20: Ready False UnhealthyDependents "ValidationSucceeded=False" since 20 of Some(3)
        30: ValidationSucceeded False RuntimeValidation "spec.price: is wrong; mend it" since 20 of Some(3)
        30: Ready False UnhealthyDependents "ValidationSucceeded=False" since 20 of Some(3)
        40: ValidationSucceeded True ValidationSucceeded "" since 40 of Some(3)
        40: Ready True Ready "" since 40 of Some(3)
    "#]].assert_eq(&out);
}

#[test]
fn overlays_are_waited_for_where_they_are_watched() {
    let listed = |overlays: bool| {
        let mut state = ClusterState::default();
        for kind in ObjectKind::ALL {
            if kind != ObjectKind::NodeOverlay {
                state.fold(kind, &Change::Begin);
                state.fold(kind, &Change::End);
            }
        }
        if !overlays {
            state.lists.leave_out(ObjectKind::NodeOverlay);
        }
        ObjectKind::OF_DRIVERS
            .iter()
            .for_each(|kind| state.lists.leave_out(*kind));
        state.lists.synced()
    };
    assert_eq!((listed(true), listed(false)), (false, true));
    let watched = |overlays| ObjectKind::watched(ObjectKind::Ec2NodeClass, overlays);
    let but = |others: &'static [ObjectKind]| {
        let all = ObjectKind::ALL.into_iter();
        all.filter(|kind| !others.contains(kind) && !ObjectKind::OF_DRIVERS.contains(kind))
    };
    assert!(watched(true).eq(but(&[ObjectKind::KwokNodeClass])));
    assert!(watched(false).eq(but(&[ObjectKind::KwokNodeClass, ObjectKind::NodeOverlay])));
}
