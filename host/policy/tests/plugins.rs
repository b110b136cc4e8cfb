//! The first-party plugins inside the host: what they answer is what the same arithmetic gives
//! here.

use crate::common::{HOST, World, load, plugin, serve, world};
use longshore_core::model::Offering;
use longshore_core::policy::{ByPrice, Policies, Scores};
use longshore_policy::golden;
use longshore_policy::{
    LoadError, LoadedPolicy, Report, Signal, Signals, inspect, settings_skeleton,
};

fn score(policy: LoadedPolicy, world: &World, signals: Signals) -> Scores {
    let policies = serve(policy);
    policies.set_signals(signals);
    let scores = policies.score(&world.catalogue, &world.names, world.pool);
    let reports: Vec<String> = policies.reports().iter().map(Report::to_string).collect();
    assert_eq!(reports, [""; 0]);
    scores
}

fn signal(name: &str, rows: &[(&str, f64)]) -> Signals {
    let rows = rows.iter().map(|&(key, value)| (key.to_owned(), value));
    Signals {
        tables: [(name.to_owned(), Signal::new(1.7e9, rows))].into(),
    }
}

fn type_name(world: &World, offering: &Offering) -> String {
    world
        .names
        .text(world.catalogue.instance_type(offering.instance_type).name)
        .to_owned()
}

fn is_spot(world: &World, offering: &Offering) -> bool {
    offering.capacity_type == world.names.get("spot")
}

#[test]
fn price_without_settings_is_the_built_in_floor_bit_for_bit() {
    let world = world(1000);
    let scores = score(load("price", ""), &world, Signals::default());
    let built_in = ByPrice.score(&world.catalogue, &world.names, world.pool);
    assert_eq!((scores.cost, scores.pools), (built_in.cost, built_in.pools));
}

#[test]
fn price_takes_a_table_of_discounts() {
    let world = world(100);
    let settings = "
        [[discounts]]
        offerings = { instance-type = 'm7g.*', capacity-type = 'on-demand' }
        percent = 25
        [[discounts]]
        offerings = { zone = 'us-east-1c' }
        exclude = true";
    let scores = score(load("price", settings), &world, Signals::default());
    let zone_c = world.names.get("us-east-1c");
    for (offering, cost) in world.catalogue.offerings().iter().zip(scores.cost.iter()) {
        let expected = match offering {
            o if type_name(&world, o).starts_with("m7g.") && !is_spot(&world, o) => o.price * 0.75,
            o if o.zone == zone_c => f64::INFINITY,
            o => o.price,
        };
        assert_eq!(*cost, expected);
    }
}

#[test]
fn spot_risk_reads_the_column_that_the_host_joins_from_a_signal() {
    let world = world(60);
    let signals = signal(
        "interruption-rates",
        &[("m7g.0000", 0.2), ("m7g.0000/us-east-1b", 0.05)],
    );
    let settings = "interruption-cost = 1.0\nlost-minutes = 30\ndefault-rate = 0.1";
    let scores = score(load("spot-risk", settings), &world, signals);
    for (offering, cost) in world.catalogue.offerings().iter().zip(scores.cost.iter()) {
        let rate: f64 = match (
            type_name(&world, offering).as_str(),
            offering.zone.map(|zone| world.names.text(zone)),
        ) {
            ("m7g.0000", Some("us-east-1b")) => 0.05,
            ("m7g.0000", _) => 0.2,
            _ => 0.1,
        };
        let risk = -(1.0 - rate).ln() / 730.0 * (1.0 + 0.5 * offering.price);
        let expected = offering.price + if is_spot(&world, offering) { risk } else { 0.0 };
        assert!(
            (cost / expected - 1.0).abs() < 1e-12,
            "{cost} instead of {expected}"
        );
    }
}

#[test]
fn spot_placement_reads_the_column_that_the_host_joins_from_a_signal() {
    let world = world(60);
    let signals = signal(
        "placement-scores",
        &[("m7g.0000", 2.0), ("m7g.0000/us-east-1b", 6.0)],
    );
    let settings = "threshold = 7\nweight = 0.1";
    let scores = score(load("spot-placement", settings), &world, signals);
    for (offering, cost) in world.catalogue.offerings().iter().zip(scores.cost.iter()) {
        let below = match (
            type_name(&world, offering).as_str(),
            offering.zone.map(|zone| world.names.text(zone)),
        ) {
            ("m7g.0000", Some("us-east-1b")) => 1.0,
            ("m7g.0000", _) => 5.0,
            _ => 0.0,
        };
        let factor = if is_spot(&world, offering) {
            1.0 + 0.1 * below
        } else {
            1.0
        };
        let expected = offering.price * factor;
        assert!(
            (cost / expected - 1.0).abs() < 1e-12,
            "{cost} instead of {expected}"
        );
    }
}

#[test]
fn commitments_become_pools() {
    let world = world(60);
    let settings = "
        [[commitments]]
        name = 'reserved m7g'
        offerings = { instance-type = 'm7g.000?' }
        unit = 'instances'
        remaining = 3
        [[commitments]]
        name = 'savings plan'
        unit = 'usd'
        percent = 28
        remaining = 10";
    let scores = score(
        load("commitments", settings),
        &world,
        signal("commitments", &[("savings plan", 7.5)]),
    );
    let pools: Vec<(&str, f64)> = scores
        .pools
        .iter()
        .map(|pool| (pool.name.as_str(), pool.remaining))
        .collect();
    assert_eq!(pools, [("reserved m7g", 3.0), ("savings plan", 7.5)]);
    for (at, offering) in world.catalogue.offerings().iter().enumerate() {
        let in_pool = |pool: usize| {
            scores.pools[pool]
                .draws
                .iter()
                .find(|draw| draw.offering.0 as usize == at)
        };
        let reserved = type_name(&world, offering).starts_with("m7g.000");
        if is_spot(&world, offering) {
            assert!(in_pool(0).is_none() && in_pool(1).is_none());
        } else if reserved {
            assert_eq!(
                (in_pool(0).map(|d| (d.amount, d.cost)), in_pool(1)),
                (Some((1.0, 0.0)), None)
            );
        } else {
            assert_eq!(
                in_pool(1).map(|d| (d.amount, d.cost)),
                Some((offering.price * (1.0 - 0.28), 0.0))
            );
        }
    }
}

#[test]
fn carbon_prefers_the_cleaner_zone() {
    let world = world(60);
    let signals = signal(
        "carbon-intensity",
        &[("us-east-1", 400.0), ("us-east-1b", 20.0)],
    );
    let scores = score(load("carbon", "usd-per-ton = 1000"), &world, signals);
    let zone_b = world.names.get("us-east-1b");
    for (offering, cost) in world.catalogue.offerings().iter().zip(scores.cost.iter()) {
        let of = world.catalogue.instance_type(offering.instance_type);
        let vcpus = of.capacity.get(longshore_core::model::ResourceId::Cpu) as f64 / 1000.0;
        // 4 GiB for a vCPU.
        let watts = vcpus * (0.74 + 0.5 * (3.5 - 0.74)) + vcpus * 4.0 * 0.392;
        let intensity = if offering.zone == zone_b { 20.0 } else { 400.0 };
        let expected = offering.price + watts / 1000.0 * 1.135 * intensity / 1e6 * 1000.0;
        assert!(
            (cost / expected - 1.0).abs() < 1e-12,
            "{cost} instead of {expected}"
        );
    }
}

#[test]
fn settings_that_are_wrong_are_refused_with_a_hint() {
    let problem = |name: &str, settings: &str| match HOST.load(&plugin(name), Some(settings)) {
        Err(LoadError::Settings { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        problem("price", "discount = []"),
        "`discount`: unknown key; did you mean `discounts`?"
    );
    assert_eq!(
        problem("price", "[[discounts]]\npercent = 10\nexclude = true"),
        "`discounts[0]`: expected exactly one of `percent` (at most 100), `price` (at least 0) and `exclude = true`"
    );
    assert_eq!(
        problem("carbon", "usd-per-ton = 'much'"),
        "`usd-per-ton`: expected number, found \"much\""
    );
    assert!(
        problem("price", "discounts = [").contains("line 1"),
        "{}",
        problem("price", "discounts = [")
    );
}

#[test]
fn a_policy_is_asked_only_for_the_node_pools_that_it_serves() {
    let mut world = world(60);
    let other = world.names.intern("other");
    let settings = "[[discounts]]\npercent = 50";
    let policies = HOST.policies(vec![longshore_policy::Assignment {
        policy: load("price", settings),
        node_pools: vec!["default".into()],
    }]);
    let score = |pool| policies.score(&world.catalogue, &world.names, pool).cost[0];
    assert_eq!(score(other), world.catalogue.offerings()[0].price);
    assert_eq!(
        score(world.pool),
        world.catalogue.offerings()[0].price * 0.5
    );
}

#[test]
fn the_answer_follows_the_catalogue() {
    let (small, large) = (world(60), world(600));
    let policies = serve(load(
        "price",
        "[[discounts]]\noffers = 1"
            .replace("offers = 1", "percent = 10")
            .as_str(),
    ));
    for world in [&small, &large, &small, &large, &large] {
        let scores = policies.score(&world.catalogue, &world.names, world.pool);
        let expected: Vec<f64> = world
            .catalogue
            .offerings()
            .iter()
            .map(|o| o.price * (1.0 - 0.1))
            .collect();
        assert_eq!(*scores.cost, *expected);
    }
    assert!(policies.reports().is_empty());
}

#[test]
fn a_component_tells_what_it_is_and_what_it_can_see() {
    let seen = inspect(&plugin("price")).unwrap();
    assert!(seen.refusal.is_none());
    let about = seen.about.unwrap();
    assert_eq!(
        (about.name.as_str(), about.implements.as_slice()),
        ("price", ["scorer".to_owned()].as_slice())
    );
    let mut exports: Vec<&str> = seen
        .exports
        .iter()
        .map(|interface| interface.name.as_str())
        .collect();
    exports.sort_unstable();
    assert_eq!(
        exports,
        [
            "longshore:policy/plugin@0.1.0",
            "longshore:policy/scorer@0.1.0"
        ]
    );
    let offerings = seen
        .imports
        .iter()
        .find(|interface| interface.name.contains("/offerings@"))
        .unwrap();
    let mut functions = offerings.functions.clone();
    functions.sort();
    // The import list is the list of what it can see: the encoder leaves out what the code never
    // calls.
    assert_eq!(
        functions,
        [
            "architecture-names",
            "architectures",
            "capacity-type-names",
            "capacity-types",
            "edition",
            "instance-type-names",
            "instance-types",
            "zone-names",
            "zones"
        ]
    );
}

#[test]
fn settings_to_begin_with_are_accepted() {
    for name in [
        "carbon",
        "gpu-fragmentation",
        "price",
        "spot-risk",
        "zone-balance",
    ] {
        let schema = load(name, "").about().settings_schema.clone();
        let text = settings_skeleton(&schema).unwrap();
        assert!(text.starts_with("# "), "{text}");
        load(name, &text);
    }
}

#[test]
fn first_party_scorers_carry_cases_and_answer_them() {
    let mut without = Vec::new();
    for name in longshore_xtask::guests::PLUGINS {
        let bytes = std::fs::read(plugin(name)).unwrap();
        let settings = match name {
            "bootstrap-template" => "template = 'x'",
            "business-hours" => "windows = []",
            "cel" => "expression = 'cost'",
            _ => "",
        };
        let policy = load(name, settings);
        match golden::check(&policy, &bytes) {
            Ok(golden::Golden::Met(cases)) => assert!(cases > 0, "{name}"),
            Ok(golden::Golden::Missing) => without.push((name, policy.is_scorer())),
            other => panic!("{name}: {other:?}"),
        }
    }
    // Cases are of scorers.
    assert!(
        without.iter().all(|(_, is_scorer)| !is_scorer),
        "{without:?}"
    );
}

/// An offering as golden.tsv of the plugin describes it: type, zone, capacity type, price, reservation.
type Golden = (
    usize,
    &'static str,
    &'static str,
    f64,
    Option<(&'static str, u32)>,
);

/// An instance type of golden.tsv: name, architecture, vCPUs, GPUs.
type GoldenType = (&'static str, &'static str, i64, i64);

/// The catalogue of `cel`'s golden.tsv.
fn golden_world() -> (World, Vec<usize>) {
    golden_catalogue(
        &[("m7g.large", "arm64", 2, 0), ("g6.xlarge", "amd64", 4, 1)],
        &[
            (0, "us-east-1a", "on-demand", 0.0816, None),
            (0, "us-east-1b", "spot", 0.03, None),
            (1, "us-east-1a", "on-demand", 0.8048, None),
            (0, "us-east-1a", "reserved", 0.0, Some(("cr-1", 3))),
        ],
    )
}

/// A catalogue, and the place there of each offering. No two have the same price.
fn golden_catalogue(types: &[GoldenType], rows: &[Golden]) -> (World, Vec<usize>) {
    use longshore_core::model::{Catalogue, InstanceType, Op, Requirement, ResourceId, Resources};
    let mut names = longshore_core::model::Symbols::default();
    let (arch, pool) = (names.intern("kubernetes.io/arch"), names.intern("default"));
    let gpu = names.intern("nvidia.com/gpu");
    let types = types.iter().enumerate();
    let types = types.map(|(at, &(name, processor, vcpus, gpus))| {
        let mut offerings = Vec::new();
        for (_, zone, capacity_type, price, reservation) in rows.iter().filter(|row| row.0 == at) {
            offerings.push(Offering {
                instance_type: longshore_core::model::TypeId(0),
                requirements: [].into(),
                zone: Some(names.intern(zone)),
                capacity_type: Some(names.intern(capacity_type)),
                price: *price,
                available: true,
                reservation: reservation.map(|(id, left)| (names.intern(id), left)),
            });
        }
        let capacity = Resources::new([
            (ResourceId::Cpu, vcpus * 1000),
            (ResourceId::Memory, vcpus << 32),
            (ResourceId::Other(gpu), gpus),
        ]);
        let processor = Op::In(Box::new([names.intern(processor)]));
        let instance_type = InstanceType {
            name: names.intern(name),
            requirements: vec![Requirement::new(arch, processor)],
            allocatable: capacity.clone(),
            capacity,
            volume_limits: vec![],
            incompatible: None,
            offerings: 0..0,
        };
        (instance_type, offerings)
    });
    let types = types.collect();
    let catalogue = Catalogue::new(types, &names);
    let world = World {
        catalogue,
        names,
        pool,
    };
    let place = |price: f64| {
        let mut prices = world.catalogue.offerings().iter().map(|of| of.price);
        let place = prices.position(|of| of == price);
        place.expect("an offering of that price")
    };
    let places = rows.iter().map(|row| place(row.3)).collect();
    (world, places)
}

#[test]
fn cel_answers_its_golden_vectors() {
    let (world, places) = golden_world();
    let golden = include_str!("../../../plugins/cel/src/golden.tsv");
    for (expression, expected) in golden.lines().filter_map(|line| line.split_once('\t')) {
        // Only text in quotes of TOML may hold both kinds of quotes.
        let settings = format!("expression = '''{expression}'''");
        // What it takes off is its own affair here.
        let terms = longshore_policy::Terms {
            max_discount: 1.0,
            ..longshore_policy::Terms::default()
        };
        let policy = HOST
            .load_on(&terms, &plugin("cel"), Some(&settings))
            .unwrap();
        let scores = score(policy, &world, Signals::default());
        assert_eq!(shown(&scores, &places), expected, "{expression}");
    }
}

/// Costs as golden vectors have them.
fn shown(scores: &Scores, places: &[usize]) -> String {
    let costs = places.iter().map(|at| format!("{:.6}", scores.cost[*at]));
    costs.collect::<Vec<_>>().join(" ")
}

#[test]
fn gpu_fragmentation_answers_its_golden_vectors() {
    let (world, places) = golden_catalogue(
        &[
            ("m7g.large", "arm64", 2, 0),
            ("g6.xlarge", "amd64", 4, 1),
            ("g6.12xlarge", "amd64", 48, 4),
            ("g6.48xlarge", "amd64", 192, 8),
        ],
        &[
            (0, "us-east-1a", "on-demand", 0.0816, None),
            (1, "us-east-1a", "on-demand", 0.8048, None),
            (2, "us-east-1a", "on-demand", 4.6016, None),
            (3, "us-east-1a", "on-demand", 13.3504, None),
        ],
    );
    let golden = include_str!("../../../plugins/gpu-fragmentation/src/golden.tsv");
    for (settings, expected) in golden.lines().filter_map(|line| line.split_once('\t')) {
        // An object of JSON on one line is an inline table of TOML but for its colons.
        let settings = settings.trim_matches(['{', '}']).replace(": ", " = ");
        let settings = settings.replace(", ", "\n");
        let policy = load("gpu-fragmentation", &settings);
        let scores = score(policy, &world, Signals::default());
        assert_eq!(shown(&scores, &places), expected, "{settings}");
    }
}

#[test]
fn zone_balance_makes_each_step_of_a_zone_dearer_than_the_one_before() {
    let world = world(60);
    let tables = [
        ("zone-vcpus", [("us-east-1a", 40.0), ("us-east-1b", 0.0)]),
        ("zone-peers", [("us-east-1a", 3.0), ("us-east-1b", 1.0)]),
    ];
    let tables = tables.map(|(name, rows)| {
        let rows = rows.map(|(zone, number)| (zone.to_owned(), number));
        (name.to_owned(), Signal::new(1.7e9, rows))
    });
    let signals = Signals {
        tables: tables.into(),
    };
    let settings = "usd-per-vcpu = 0.01\nstep = 16\ngib-per-vcpu = 2\nusd-per-gib = 0.01";
    let scores = score(load("zone-balance", settings), &world, signals);
    let zone_of = |offering: &Offering| world.names.text(offering.zone.unwrap());
    // 40 vCPUs are two steps and a half.
    let first = |zone: &str| if zone == "us-east-1a" { 2.0 } else { 0.0 };
    let base = |offering: &Offering| {
        let share = match zone_of(offering) {
            "us-east-1a" => 0.75,
            "us-east-1b" => 0.25,
            _ => 0.0,
        };
        offering.price + vcpus(&world, offering) * 2.0 * 0.01 * (1.0 - share)
    };
    let near = |cost: f64, expected: f64| (cost / expected - 1.0).abs() < 1e-12;
    for (offering, cost) in world.catalogue.offerings().iter().zip(scores.cost.iter()) {
        let beyond = vcpus(&world, offering) * 0.01 * (first(zone_of(offering)) + 4.0);
        assert!(near(*cost, base(offering) + beyond), "{cost}");
    }
    assert_eq!(scores.pools.len(), 12);
    for pool in &scores.pools {
        let (zone, step) = pool.name.split_once(", step ").unwrap();
        let step: f64 = step.parse().unwrap();
        let is_first_of_a = zone == "us-east-1a" && step == 2.0;
        assert_eq!(pool.remaining, if is_first_of_a { 8.0 } else { 16.0 });
        for draw in &pool.draws {
            let offering = world.catalogue.offering(draw.offering);
            let vcpus = vcpus(&world, offering);
            assert_eq!((zone_of(offering), draw.amount), (zone, vcpus.min(16.0)));
            assert!(near(draw.cost, base(offering) + vcpus * 0.01 * step));
        }
    }
}

fn vcpus(world: &World, offering: &Offering) -> f64 {
    let of = world.catalogue.instance_type(offering.instance_type);
    of.capacity.get(longshore_core::model::ResourceId::Cpu) as f64 / 1000.0
}

#[test]
fn cel_reads_signals_that_the_operator_names() {
    let world = world(6);
    let terms = longshore_policy::Terms {
        signals: Some(["carbon".to_owned()].into()),
        ..longshore_policy::Terms::default()
    };
    let settings = "expression = \"cost + signal('carbon', 1.0)\"";
    let policy = HOST
        .load_on(&terms, &plugin("cel"), Some(settings))
        .unwrap();
    let scores = score(policy, &world, signal("carbon", &[("us-east-1", 0.25)]));
    for (offering, cost) in world.catalogue.offerings().iter().zip(scores.cost.iter()) {
        assert_eq!(*cost, offering.price + 0.25);
    }
}

#[test]
fn cel_refuses_an_expression_with_its_column() {
    let settings = "expression = \"cost * 0.9 + (capacity_typ == 'spot' ? 0.02 : 0.0)\"";
    match HOST.load(&plugin("cel"), Some(settings)) {
        Err(LoadError::Settings { problem, .. }) => assert_eq!(
            problem,
            "`expression`: column 15: capacity_typ is not a known name; did you mean `capacity_type`?"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_component_in_the_binary_is_made_of_the_sources_that_are_here() {
    use longshore_xtask::guests::{root, shipped};
    let committed = std::fs::read(root().join(shipped::COMMITTED)).unwrap();
    let built = shipped::build_shipped().unwrap_or_else(|error| panic!("{error:#}"));
    assert!(
        committed == built,
        "{} is of other sources: `cargo xtask shipped` writes it again",
        shipped::COMMITTED
    );
}
