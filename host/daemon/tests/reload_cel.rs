//! Expressions in the configuration: the component of the binary scores by them, and an edited one takes
//! over between rounds.

use longshore_core::policy::Policies as _;
use longshore_live::policies::NoticeKind;

use crate::scene::Scene;

fn policy(expression: &str) -> Vec<u8> {
    format!("[[policy]]\nname = 'one'\ncel = '''{expression}'''\n").into_bytes()
}

fn scene(name: &str, expression: &str) -> Scene {
    Scene::new(name, &[("longshore.toml", &policy(expression))])
}

/// What every offering costs in a round of its own.
fn costs(scene: &Scene) -> Vec<f64> {
    let live = scene.manager.take();
    live.begin_round(1_700_000_000);
    let world = &scene.snapshot.world;
    live.score(&world.catalogue, &world.names, scene.pool())
        .cost
        .to_vec()
}

#[test]
fn offerings_cost_what_the_expression_says_and_a_plan_counts_with_it() {
    let mut scene = scene(
        "cel",
        "price * 0.9 + (capacity_type == \"spot\" ? 0.02 : 0.0)",
    );
    assert_eq!(scene.error("one"), "");
    let of = |at: usize| {
        let world = &scene.snapshot.world;
        let offering = &world.catalogue.offerings()[at];
        let is_spot = offering.capacity_type == world.names.get("spot");
        offering.price * 0.9 + if is_spot { 0.02 } else { 0.0 }
    };
    let costs = costs(&scene);
    let expected: Vec<f64> = (0..costs.len()).map(of).collect();
    assert_eq!(costs, expected);
    let plan = scene.round();
    assert!(!plan.claims.is_empty());
    for claim in &plan.claims {
        assert_eq!(claim.effective_cost, expected[claim.offering.0 as usize]);
    }
    let status = scene.policy("one");
    assert_eq!(status.path, "cel (in this binary)");
    assert!(status.version.unwrap().starts_with("cel "));
}

#[test]
fn an_edited_expression_is_taken_over_and_one_with_a_fault_is_not() {
    let mut scene = scene("cel-edit", "price * 2");
    let price = scene.price();
    assert_eq!(scene.cost(), price * 2.0);
    scene.edit("longshore.toml", &policy("price * 3"));
    assert_eq!(scene.cost(), price * 2.0, "before the next look");
    scene.settle();
    assert_eq!(scene.cost(), price * 3.0);
    scene.kinds();

    scene.edit("longshore.toml", &policy("prise * 4"));
    scene.settle();
    assert_eq!(scene.cost(), price * 3.0);
    assert_eq!(scene.kinds(), [NoticeKind::ConfigRefused]);
    let error = scene.manager.status().config.error.unwrap();
    let place = scene.folder.join("longshore.toml:3:10");
    assert_eq!(error.place, place.display().to_string());
    assert_eq!(error.reason, "`cel`: column 1: prise is not a known name");
    assert_eq!(error.hint, "did you mean `price`?");

    scene.edit("longshore.toml", &policy("price * 4"));
    scene.settle();
    assert_eq!(scene.cost(), price * 4.0);
    assert_eq!(scene.policy("one").refused, 0);
}

#[test]
fn an_expression_reads_the_signals_that_it_names() {
    let scene = Scene::new(
        "cel-signal",
        &[
            (
                "longshore.toml",
                b"[[policy]]\nname = 'one'\ncel = 'price + signal(\"fee\", 1)'\n[signals.fee]\nfile = 'fee.json'\n",
            ),
            ("fee.json", b"{\"test-zone-a\": 5}"),
        ],
    );
    let world = &scene.snapshot.world;
    let zone = world.names.get("test-zone-a");
    let offerings = world.catalogue.offerings().iter();
    let expected: Vec<f64> = offerings
        .map(|of| of.price + if of.zone == zone { 5.0 } else { 1.0 })
        .collect();
    assert_eq!(costs(&scene), expected);
    assert!(expected.iter().any(|cost| *cost > 5.0));
}

#[test]
fn what_is_preferred_may_cost_more_by_the_tolerance() {
    let prefer = "{ architectures = ['arm64', 'amd64'], tolerance = '25%' }";
    let text = format!("[[policy]]\nname = 'one'\nprefer = {prefer}\n");
    let scene = Scene::new("prefer", &[("longshore.toml", text.as_bytes())]);
    let world = &scene.snapshot.world;
    let arm = |name: &str| name.contains("arm64");
    let costs = costs(&scene);
    for (offering, cost) in world.catalogue.offerings().iter().zip(costs) {
        let name = world.catalogue.instance_type(offering.instance_type).name;
        let factor = if arm(world.names.text(name)) {
            1.0
        } else {
            1.25
        };
        assert_eq!(cost, offering.price * factor);
    }
}
