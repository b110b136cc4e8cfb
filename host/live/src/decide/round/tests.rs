//! A round's decision from observed objects: nothing is asked and nothing is written.

use std::collections::{BTreeMap, HashMap, HashSet};

use longshore_cloud::OfferingName;
use longshore_core::model::Symbols;
use longshore_core::plan::Effort;
use serde_json::{Value, json};

use super::*;
use crate::config::Config;
use crate::observe::offers::{CurrentOffers, fixed};
use crate::observe::state::ClusterState;
use crate::observe::watch::Change;
use crate::policies::Setup;
use longshore_api::kinds::ObjectKind;

/// Seconds since 1970.
const NOW: i64 = 1_795_521_600;

/// What can be bought of these types, and how rounds are made by a configuration.
fn setup(config: Config) -> (RoundConfig, ClusterState) {
    let mut names = Symbols::default();
    let types = include_bytes!("../../../../daemon/tests/data/types.json");
    let (catalogue, problems) = longshore_kwok::catalogue::parse("types.json", types, &mut names);
    assert!(problems.list.is_empty());
    let setup = Setup {
        inline: config,
        ..Setup::default()
    };
    let policies = PolicyReloader::manual(setup);
    let how = RoundConfig {
        catalogue: fixed(catalogue),
        overlays: None,
        unavailable: Arc::default(),
        settings: Settings::default(),
        policies: policies.map_err(|failure| failure.report()).unwrap().0,
        journal: Journal::off(),
        disrupts: false,
        spot_to_spot: false,
        terminate_first: TerminateFirst::default(),
        inline: false,
        look_takes: Duration::ZERO,
        computing: None,
    };
    let mut state = ClusterState::new(names);
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let ready = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-11-24T12:00:00Z", "observedGeneration": 1}]);
    let pool = json!({
        "metadata": {"name": "default", "uid": "p", "generation": 1},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
        "status": {"conditions": ready},
    });
    let class = json!({
        "metadata": {"name": "default", "uid": "c", "generation": 1}, "spec": {},
        "status": {"conditions": ready},
    });
    fold(&mut state, ObjectKind::KwokNodeClass, &class);
    fold(&mut state, ObjectKind::NodePool, &pool);
    (how, state)
}

fn fold(state: &mut ClusterState, kind: ObjectKind, object: &Value) {
    state.fold(kind, &Change::Upsert(object.to_string().into()));
}

/// A pod that kube-scheduler has no node for.
fn pod(state: &mut ClusterState, name: &str, cpu: &str) {
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]},
    });
    fold(state, ObjectKind::Pod, &pod);
}

fn input(how: &RoundConfig, state: &mut ClusterState) -> RoundInput {
    let mut offers = CurrentOffers::default();
    offers.follow(&*how.catalogue, state);
    RoundInput {
        state: state.freeze(),
        catalogue: offers.catalogue().clone(),
        unattempted: HashSet::new(),
        queued: HashMap::new(),
        planned: HashMap::new(),
        unhealthy: Vec::new(),
        failures: BTreeMap::new(),
        now: NOW,
    }
}

fn decided(how: &RoundConfig, state: &mut ClusterState) -> (Snapshot, Plan) {
    let input = input(how, state);
    let round = decide(how, &Clock::system(), 1, false, input);
    (round.snapshot, round.plan.unwrap())
}

/// The offerings that a plan counts on, as `type/zone/capacity type`.
fn bought(snapshot: &Snapshot, plan: &Plan) -> Vec<OfferingName> {
    let world = &snapshot.world;
    let name = |claim: &longshore_core::plan::PlannedClaim| {
        let text = |symbol| world.names.text(symbol).to_owned();
        let offering = world.catalogue.offering(claim.offering);
        OfferingName {
            instance_type: text(world.catalogue.types()[offering.instance_type.0 as usize].name),
            zone: text(offering.zone.unwrap()),
            capacity_type: text(offering.capacity_type.unwrap()),
        }
    };
    plan.claims.iter().map(name).collect()
}

#[test]
fn a_round_plans_the_pods_that_wait() {
    let (how, mut state) = setup(Config::default());
    pod(&mut state, "a", "500m");
    pod(&mut state, "b", "500m");
    let (snapshot, plan) = decided(&how, &mut state);
    assert_eq!(snapshot.pending.len(), 2);
    assert_eq!((plan.claims.len(), plan.unplaced.len()), (1, 0));
    assert_eq!(plan.claims[0].pods.len(), 2);
    assert_eq!(snapshot.world.now, NOW);
}

#[test]
fn a_round_without_pods_plans_nothing() {
    let (how, mut state) = setup(Config::default());
    let (snapshot, plan) = decided(&how, &mut state);
    assert_eq!((snapshot.pending.len(), plan.claims.len()), (0, 0));
}

#[test]
fn an_offering_without_capacity_is_not_planned_on_until_it_may_have_some() {
    let (how, mut state) = setup(Config::default());
    pod(&mut state, "a", "1");
    let first = decided(&how, &mut state);
    let cheapest = bought(&first.0, &first.1);
    how.unavailable.note(&cheapest, NOW);
    let second = decided(&how, &mut state);
    assert_eq!(second.1.claims.len(), 1);
    assert_ne!(bought(&second.0, &second.1), cheapest);
    let mut later = input(&how, &mut state);
    later.now = NOW + 181;
    let round = decide(&how, &Clock::system(), 2, false, later);
    assert_eq!(bought(&round.snapshot, &round.plan.unwrap()), cheapest);
}

#[test]
fn what_the_configuration_says_counts_and_settings_of_the_environment_where_it_says_nothing() {
    let says = |node_cost: Option<f64>, seed: Option<u64>, improve: Option<Effort>| {
        let mut config = Config::default();
        config.planning.node_cost = node_cost;
        config.planning.seed = seed;
        config.planning.improve = improve;
        let (mut how, mut state) = setup(config);
        how.settings.node_cost = 0.5;
        let input = input(&how, &mut state);
        let live = how.policies.take();
        let overlays = input.overlays();
        let (snapshot, options, _) = build_snapshot(&how, &live, input.world(), &overlays);
        (
            snapshot.world.settings.node_cost,
            options.seed,
            options.effort,
        )
    };
    assert_eq!(says(None, None, None), (0.5, 0, Effort::default()));
    assert_eq!(
        says(Some(0.25), Some(7), Some(Effort::None)),
        (0.25, 7, Effort::None)
    );
}

#[test]
fn a_round_has_a_time_limit_but_in_a_simulation() {
    let mut config = Config::default();
    config.planning.time_limit = Some(Duration::from_secs(3));
    let (mut how, mut state) = setup(config);
    let mut limit = |how: &RoundConfig| {
        let input = input(how, &mut state);
        let live = how.policies.take();
        let overlays = input.overlays();
        build_snapshot(how, &live, input.world(), &overlays).2
    };
    assert_eq!(limit(&how), Some(Duration::from_secs(3)));
    how.inline = true;
    assert_eq!(limit(&how), None);
}

#[test]
fn a_question_about_a_pod_that_does_not_exist_is_answered_so() {
    let (how, mut state) = setup(Config::default());
    pod(&mut state, "a", "1");
    let live = how.policies.take();
    let input = input(&how, &mut state);
    let refused = explain(&how, &live, input, "shop/missing").err().unwrap();
    assert!(refused.to_string().contains("shop/missing"), "{refused}");
}
