use std::collections::BTreeMap;

use expect_test::expect;
use longshore_api::labels::{LAUNCH_ORDER, LAUNCH_ZONE, PRICE_OVERLAY};
use longshore_cloud::{Launch, Operator, Requirement};
use longshore_ec2::catalogue::class::Class;
use longshore_ec2::catalogue::world;
use longshore_ec2::nodeclass::EC2NodeClass;
use serde_json::json;

use super::fleet::{
    self, Asking, Fleet, FleetOutcome, Refused, Reply, outcome, remember, request, token,
};
use super::*;
use crate::error::Class as ErrorClass;

/// The emulator's small region: 15 types, three zones.
const SMALL: &str = include_str!("../../../emulator/data/small.json");

fn region() -> Region {
    world::read("small", SMALL.as_bytes(), None)
        .unwrap()
        .0
        .region
}

fn class(reservations: serde_json::Value) -> EC2NodeClass {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "node",
        },
        "status": {
            "subnets": [
                {"id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az6"},
                {"id": "subnet-b", "zone": "us-east-1b", "zoneID": "use1-az1"},
            ],
            "securityGroups": [{"id": "sg-1"}],
            "amis": [
                {"id": "ami-amd", "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]},
                {"id": "ami-arm", "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]},
            ],
            "capacityReservations": reservations,
        },
    }))
    .unwrap()
}

fn catalogue(region: &Region, class: &EC2NodeClass) -> ClassCatalogue {
    ClassCatalogue::new(region, Class::of(class).unwrap()).unwrap()
}

fn choose_strictly(
    region: &Region,
    class: &EC2NodeClass,
    launch: &Launch,
) -> Result<Choice, CloudError> {
    let catalogue = catalogue(region, class);
    choose(region, &catalogue, launch, MinValuesPolicy::Strict)
}

/// A claim from lines: `cpu=1` asks, `KEY In a b` requires.
fn claim(lines: &[&str]) -> Launch {
    let mut launch = Launch {
        name: "default-abc".into(),
        uid: "7d1c5b1e-0000-4000-8000-000000000001".into(),
        nodepool: Some("default".into()),
        class_name: "default".into(),
        ..Launch::default()
    };
    for line in lines {
        if let Some((resource, amount)) = line.split_once('=') {
            launch.requests.insert(resource.into(), amount.into());
        } else {
            let mut words = line.split(' ').map(str::to_owned);
            let key = words.next().unwrap();
            assert_eq!(words.next().as_deref(), Some("In"));
            launch.requirements.push(Requirement {
                key,
                operator: Operator::In,
                values: words.collect(),
            });
        }
    }
    launch
}

/// Types and zones that are chosen, best first, or why none are.
fn chosen(region: &Region, class: &EC2NodeClass, lines: &[&str]) -> String {
    shown(region, choose_strictly(region, class, &claim(lines)))
}

fn shown(region: &Region, choice: Result<Choice, CloudError>) -> String {
    let choice = match choice {
        Ok(choice) => choice,
        Err(error) => return error.to_string(),
    };
    let mut by_type: Vec<(String, Vec<String>)> = Vec::new();
    for one in &choice.offerings {
        let name = region.types()[one.at].name.to_string();
        let zone = region.zones()[one.zone]
            .name
            .trim_start_matches("us-east-1")
            .to_owned();
        let held = one.reservation.as_ref().map(|held| format!("/{}", held.id));
        let place = format!("{zone}{}", held.unwrap_or_default());
        match by_type.iter_mut().find(|(own, _)| *own == name) {
            Some((_, places)) => places.push(place),
            None => by_type.push((name, vec![place])),
        }
    }
    let types = by_type
        .iter()
        .map(|(name, places)| format!("{name} {}", places.join(",")));
    let types: Vec<String> = types.collect();
    format!("{}: {}", choice.capacity_type.as_str(), types.join("; "))
}

#[test]
fn offerings_that_a_claim_admits_are_ordered_by_the_cheapest_of_their_type() {
    let (region, class) = (region(), class(json!([])));
    let cases: [&[&str]; 7] = [
        &["cpu=3", "kubernetes.io/arch In amd64"],
        &[
            "cpu=3",
            "kubernetes.io/arch In amd64",
            "karpenter.sh/capacity-type In on-demand",
        ],
        &[
            "cpu=1",
            "node.kubernetes.io/instance-type In t3.medium m6g.large",
            "kubernetes.io/arch In arm64",
        ],
        &[
            "cpu=1",
            "node.kubernetes.io/instance-type In m5.large",
            "topology.kubernetes.io/zone In us-east-1b us-east-1c",
        ],
        &["nvidia.com/gpu=1"],
        &["cpu=1000"],
        &["cpu=x"],
    ];
    let lines: Vec<String> = cases
        .iter()
        .map(|lines| {
            format!(
                "{}\n    {}",
                lines.join(", "),
                chosen(&region, &class, lines)
            )
        })
        .collect();
    expect![[r#"
        cpu=3, kubernetes.io/arch In amd64
            spot: c5.xlarge a,b; m5.xlarge a,b; m5.2xlarge a
        cpu=3, kubernetes.io/arch In amd64, karpenter.sh/capacity-type In on-demand
            on-demand: c5.xlarge a,b; m5.xlarge a,b; m5.2xlarge a,b
        cpu=1, node.kubernetes.io/instance-type In t3.medium m6g.large, kubernetes.io/arch In arm64
            spot: m6g.large a,b
        cpu=1, node.kubernetes.io/instance-type In m5.large, topology.kubernetes.io/zone In us-east-1b us-east-1c
            spot: m5.large b
        nvidia.com/gpu=1
            spot: g4dn.xlarge a,b
        cpu=1000
            insufficient capacity: no offering for NodeClaim default-abc: 0 without capacity, 0 instance types refused by its requirements, 15 too small
        cpu=x
            invalid: NodeClaim default-abc: spec.resources.requests.cpu: quantity "x" does not start with a number"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn the_planners_order_decides_where_it_is_not_that_of_prices() {
    let (region, class) = (region(), class(json!([])));
    let kinds = "node.kubernetes.io/instance-type In m5.2xlarge g4dn.xlarge m5.xlarge c5.xlarge";
    let choice = |order: &str, lines: &[&str]| {
        let mut launch = claim(lines);
        if !order.is_empty() {
            launch.annotations.insert(LAUNCH_ORDER.into(), order.into());
        }
        let choice = choose_strictly(&region, &class, &launch);
        let strategy = match &choice {
            Ok(_) => fleet(&region, &class, &launch).prioritized,
            Err(_) => false,
        };
        format!("{} prioritized={strategy}", shown(&region, choice))
    };
    let special = "node.kubernetes.io/instance-type In g4dn.xlarge m5.xlarge";
    let on_demand = "karpenter.sh/capacity-type In on-demand";
    let lines = [
        choice("", &["cpu=3", kinds]),
        choice("spot", &["cpu=3", kinds]),
        choice("on-demand", &["cpu=3", kinds]),
        choice("spot", &["cpu=3", kinds, on_demand]),
        choice("on-demand", &["cpu=3", special]),
        choice("nonsense", &["cpu=3", kinds]),
    ];
    // The first type stays although spot costs more there than m5.xlarge on demand, and although it
    // has a GPU.
    expect![[r#"
        spot: c5.xlarge a,b; m5.xlarge a,b; m5.2xlarge a prioritized=false
        spot: m5.2xlarge a,b; m5.xlarge a,b; c5.xlarge a,b prioritized=true
        on-demand: m5.2xlarge a,b; m5.xlarge a,b; c5.xlarge a,b prioritized=true
        on-demand: m5.2xlarge a,b; m5.xlarge a,b; c5.xlarge a,b prioritized=true
        on-demand: g4dn.xlarge a,b; m5.xlarge a,b prioritized=true
        spot: c5.xlarge a,b; m5.xlarge a,b; m5.2xlarge a prioritized=false"#]]
    .assert_eq(&lines.join("\n"));
    let mut launch = claim(&["cpu=3", kinds]);
    launch
        .annotations
        .insert(PRICE_OVERLAY.into(), "true".into());
    let fleet = fleet(&region, &class, &launch);
    assert!(fleet.prioritized);
    let first = &fleet.configs[0].overrides[0];
    assert!(first.priority < 1.0, "a price: {first:?}");
}

#[test]
fn few_types_are_left_where_on_demand_stands_in_for_spot() {
    let (mut region, class) = (region(), class(json!([])));
    let two = "node.kubernetes.io/instance-type In m5.large r5.large";
    let few = |region: &Region, lines: &[&str]| {
        let launch = claim(lines);
        let choice = choose_strictly(region, &class, &launch).unwrap();
        few_types(&launch, &choice)
    };
    assert_eq!(few(&region, &["cpu=1", two]), None, "spot");
    region.change_unavailable(|all| all.mark_capacity_type("spot", 1000));
    assert_eq!(few(&region, &["cpu=1", two]), Some(2));
    assert_eq!(few(&region, &["cpu=1"]), None, "many types");
    let on_demand = "karpenter.sh/capacity-type In on-demand";
    assert_eq!(
        few(&region, &["cpu=1", two, on_demand]),
        None,
        "as asked for"
    );
}

#[test]
fn min_values_are_kept_or_the_launch_fails() {
    let (region, class) = (region(), class(json!([])));
    let lines = [
        "cpu=1",
        "node.kubernetes.io/instance-type In m5.large r5.large g4dn.xlarge",
        "karpenter.sh/capacity-type In on-demand",
    ];
    let chosen = |least: &[(&str, usize)], policy: MinValuesPolicy| {
        let mut launch = claim(&lines);
        let least = least.iter().map(|(key, least)| ((*key).to_owned(), *least));
        launch.min_values = least.collect();
        shown(
            &region,
            choose(&region, &catalogue(&region, &class), &launch, policy),
        )
    };
    let family = "karpenter.k8s.aws/instance-family";
    let cases = [
        chosen(&[], MinValuesPolicy::Strict),
        chosen(&[(family, 3)], MinValuesPolicy::Strict),
        chosen(&[(family, 4)], MinValuesPolicy::Strict),
        chosen(&[(family, 4)], MinValuesPolicy::BestEffort),
    ];
    expect![[r#"
        on-demand: m5.large a,b; r5.large a,b
        on-demand: m5.large a,b; r5.large a,b; g4dn.xlarge a,b
        insufficient capacity: the offerings for NodeClaim default-abc have 3 values of karpenter.k8s.aws/instance-family, and its minValues asks for 4
        on-demand: m5.large a,b; r5.large a,b; g4dn.xlarge a,b"#]]
    .assert_eq(&cases.join("\n"));
}

#[test]
fn a_reservation_comes_first_and_a_full_one_is_short() {
    let mut region = region();
    let one = |id: &str, zone: &str| {
        json!({
            "id": id, "availabilityZone": zone, "instanceType": "m5.large",
            "instanceMatchCriteria": "targeted", "ownerID": "123456789012",
        })
    };
    let class = class(json!([
        one("cr-1", "us-east-1a"),
        one("cr-2", "us-east-1a")
    ]));
    let lines = ["cpu=1", "node.kubernetes.io/instance-type In m5.large"];
    region.set_free("cr-1", 1);
    region.set_free("cr-2", 4);
    assert_eq!(chosen(&region, &class, &lines), "reserved: m5.large a/cr-2");
    region.set_free("cr-2", 0);
    assert_eq!(chosen(&region, &class, &lines), "reserved: m5.large a/cr-1");
    region.set_free("cr-1", 0);
    assert_eq!(chosen(&region, &class, &lines), "spot: m5.large a,b");
    let only = [lines[0], lines[1], "karpenter.sh/capacity-type In reserved"];
    let short = choose_strictly(&region, &class, &claim(&only)).unwrap_err();
    assert!(short.to_string().contains("2 without capacity"), "{short}");
}

/// The request for a claim, with on-demand templates of the class.
fn fleet(region: &Region, class: &EC2NodeClass, launch: &Launch) -> Fleet {
    fleet_with(region, class, launch, |_, _| {})
}

/// The fleet of a launch, with other offerings and templates than those of the class.
fn fleet_with(
    region: &Region,
    class: &EC2NodeClass,
    launch: &Launch,
    change: impl FnOnce(&mut Vec<Chosen>, &mut Vec<longshore_ec2::launch::Template>),
) -> Fleet {
    let catalogue = catalogue(region, class);
    let mut choice = choose_strictly(region, class, launch).unwrap();
    let cluster = longshore_ec2::userdata::Cluster {
        name: "demo".into(),
        endpoint: "https://demo".into(),
        cidr: "172.20.0.0/16".into(),
        ..Default::default()
    };
    let choices = choice
        .offerings
        .iter()
        .map(|one| longshore_ec2::launch::Choice {
            at: one.at,
            reservations: Vec::new(),
        });
    let mut templates = longshore_ec2::launch::templates(&longshore_ec2::launch::Launch {
        region,
        catalogue: &catalogue,
        node_class: class,
        cluster: &cluster,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        capacity_type: choice.capacity_type,
        tenancy: choice.tenancy,
        efa: false,
        partition: None,
        reserved_capacity: true,
        choices: choices.collect(),
        texts: None,
    })
    .unwrap();
    change(&mut choice.offerings, &mut templates);
    let asking = Asking {
        launch,
        count: 1,
        attempt: 0,
        tags: crate::records::Tags::new(),
        context: Some("context".into()),
    };
    let subnet = |zone: usize| {
        let name = &region.zones()[zone].name;
        let subnets = &class.status.as_ref().unwrap().subnets;
        subnets
            .iter()
            .find(|one| *one.zone == **name)
            .map(|one| one.id.clone())
    };
    request(&asking, region, &choice, &templates, subnet).unwrap()
}

#[test]
fn a_fleet_has_an_override_for_each_type_and_zone_and_one_template_for_each_image() {
    let (region, class) = (region(), class(json!([])));
    let launch = claim(&[
        "cpu=1",
        "node.kubernetes.io/instance-type In m6g.large m5.large",
    ]);
    let described = |fleet: &Fleet| {
        let mut lines = vec![format!("{:?} {:?}", fleet.market, fleet.context)];
        for config in &fleet.configs {
            for one in &config.overrides {
                let (kind, image) = (&one.instance_type, &one.image);
                lines.push(format!(
                    "{kind} {} {} {image} {}",
                    one.zone, one.subnet, one.priority
                ));
            }
        }
        lines.join("\n")
    };
    expect![[r#"
        Spot Some("context")
        m5.large us-east-1a subnet-a ami-amd 0.04712
        m5.large us-east-1b subnet-b ami-amd 0.02987
        m6g.large us-east-1a subnet-a ami-arm 0.03291
        m6g.large us-east-1b subnet-b ami-arm 0.02834"#]]
    .assert_eq(&sorted(&described(&fleet(&region, &class, &launch))));
    let mut relaxed = launch.clone();
    relaxed.annotations.insert(
        "karpenter.sh/nodeclaim-min-values-relaxed".into(),
        "true".into(),
    );
    relaxed
        .annotations
        .insert(LAUNCH_ORDER.into(), "spot".into());
    expect![[r#"
        Spot None
        m5.large us-east-1a subnet-a ami-amd 3
        m5.large us-east-1b subnet-b ami-amd 2
        m6g.large us-east-1a subnet-a ami-arm 1
        m6g.large us-east-1b subnet-b ami-arm 0"#]]
    .assert_eq(&sorted(&described(&fleet(&region, &class, &relaxed))));
}

#[test]
fn a_fleet_asks_first_for_the_planned_one_of_zones_that_cost_the_same() {
    let (region, class) = (region(), class(json!([])));
    let mut launch = claim(&[
        "cpu=1",
        "node.kubernetes.io/instance-type In m5.large",
        "karpenter.sh/capacity-type In on-demand",
    ]);
    let said = [(LAUNCH_ORDER, "on-demand"), (LAUNCH_ZONE, "us-east-1b")];
    let said = said.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let zones = |launch: &Launch| {
        let fleet = fleet(&region, &class, launch);
        let overrides = fleet.configs.iter().flat_map(|config| &config.overrides);
        let mut zones: Vec<_> = overrides
            .map(|one| (one.priority, one.zone.clone()))
            .collect();
        zones.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(zones[0].0 == zones[1].0, !fleet.prioritized, "{zones:?}");
        zones.into_iter().map(|(_, zone)| zone).collect::<Vec<_>>()
    };
    assert_eq!(zones(&launch).len(), 2, "at one price");
    launch.annotations.extend(said);
    assert_eq!(zones(&launch), ["us-east-1b", "us-east-1a"]);
}

/// EC2 refuses a fleet with more than 50 launch template configurations whole. A policy whose user
/// data differs by type makes up to 60.
#[test]
fn a_fleet_has_fifty_templates_at_most_and_the_best_are_kept() {
    let (region, class) = (region(), class(json!([])));
    let launch = claim(&["cpu=1", "node.kubernetes.io/instance-type In m5.large"]);
    let fleet = fleet_with(&region, &class, &launch, |offerings, templates| {
        let (one, template) = (offerings[0].clone(), templates[0].clone());
        let id = |number: usize| Box::<str>::from(format!("cr-{number}"));
        // Each offering needs a template of its own, and has a second offering at the end.
        let numbers = (0..60).chain(0..60);
        let held = |number| ChosenReservation {
            id: id(number),
            kind: "default".into(),
            interruptible: false,
            free: 1,
        };
        *offerings = numbers
            .map(|number| Chosen {
                reservation: Some(held(number)),
                ..one.clone()
            })
            .collect();
        *templates = (0..60)
            .map(|number| {
                let mut own = template.clone();
                own.request.name = format!("template-{number}");
                own.reservation = Some(id(number));
                own
            })
            .collect();
    });
    let names: Vec<&str> = fleet.configs.iter().map(|own| &*own.template).collect();
    let wanted: Vec<String> = (0..50).map(|number| format!("template-{number}")).collect();
    assert_eq!(names, wanted, "the first of the choice");
    let both = fleet.configs.iter().all(|own| own.overrides.len() == 2);
    assert!(both, "templates that are there go on taking offerings");
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1..].sort_unstable();
    lines.join("\n")
}

fn refused(code: &str, kind: &str, zone: &str) -> Refused {
    Refused {
        code: code.into(),
        message: "no".into(),
        instance_type: kind.into(),
        zone: zone.into(),
        subnet: "subnet-a".into(),
        template: String::new(),
    }
}

#[test]
fn what_a_reply_refuses_is_left_out_for_its_time() {
    let (mut region, class) = (region(), class(json!([])));
    let lines = [
        "cpu=1",
        "node.kubernetes.io/instance-type In m5.large r5.large",
    ];
    let launch = claim(&lines);
    let fleet = fleet(&region, &class, &launch);
    let reply = Reply {
        errors: vec![
            refused("InsufficientInstanceCapacity", "m5.large", "us-east-1a"),
            refused("MaxSpotInstanceCountExceeded", "r5.large", "us-east-1b"),
        ],
        ..Reply::default()
    };
    remember(&fleet, &reply, &mut region, 1000);
    assert_eq!(
        chosen(&region, &class, &lines),
        "spot: m5.large b; r5.large a"
    );
    let FleetOutcome::Failed(CloudError::InsufficientCapacity(short)) = outcome(&fleet, &reply)
    else {
        panic!("capacity")
    };
    assert_eq!(short.offerings.len(), 2);
    region.change_unavailable(|all| all.expire(1000 + longshore_cloud::UNAVAILABLE_SECONDS));
    assert_eq!(
        chosen(&region, &class, &lines),
        "spot: m5.large a,b; r5.large a,b"
    );
    let full = Reply {
        errors: vec![refused(
            "InsufficientFreeAddressesInSubnet",
            "m5.large",
            "us-east-1a",
        )],
        ..Reply::default()
    };
    remember(&fleet, &full, &mut region, 1000);
    assert_eq!(
        chosen(&region, &class, &lines),
        "spot: m5.large b; r5.large b"
    );
    let role = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
    let role = Reply {
        errors: vec![refused(role, "m5.large", "us-east-1a")],
        ..Reply::default()
    };
    remember(&fleet, &role, &mut region, 1000);
    assert!(chosen(&region, &class, &lines).starts_with("on-demand: "));
}

#[test]
fn a_reply_is_told_apart_by_what_to_do_next() {
    let (region, class) = (region(), class(json!([])));
    let launch = claim(&["cpu=1", "node.kubernetes.io/instance-type In m5.large"]);
    let fleet = fleet(&region, &class, &launch);
    let of = |errors: &[&str]| {
        let errors = errors
            .iter()
            .map(|code| refused(code, "m5.large", "us-east-1a"));
        let reply = Reply {
            errors: errors.collect(),
            ..Reply::default()
        };
        match outcome(&fleet, &reply) {
            FleetOutcome::Failed(error) => error.reason().to_owned(),
            FleetOutcome::TemplateGone(names) => format!("{} templates gone", names.len()),
            FleetOutcome::Launched(all, _) => format!("{} instances", all.len()),
        }
    };
    assert_eq!(of(&[]), "LaunchFailed", "neither an instance nor an error");
    assert_eq!(of(&["UnfulfillableCapacity"]), "InsufficientCapacity");
    assert_eq!(
        of(&["UnfulfillableCapacity", "UnauthorizedOperation"]),
        "Unauthorized"
    );
    assert_eq!(
        of(&["UnfulfillableCapacity", "RequestLimitExceeded"]),
        "Throttled"
    );
    assert_eq!(of(&["InvalidAMIID.NotFound"]), "Invalid");
    assert_eq!(
        of(&["InvalidLaunchTemplateName.NotFoundException"]),
        "1 templates gone"
    );
    // An instance counts, whatever else was refused.
    let launched = fleet::Launched {
        id: "i-1".into(),
        instance_type: "m5.large".into(),
        ..Default::default()
    };
    let reply = Reply {
        instances: vec![launched],
        errors: vec![refused("UnfulfillableCapacity", "m5.large", "us-east-1a")],
    };
    let FleetOutcome::Launched(all, short) = outcome(&fleet, &reply) else {
        panic!("launched")
    };
    assert_eq!((all.len(), short), (1, None), "as many as were wanted");
    // What the reply leaves out is what was asked for.
    let one = &all[0];
    assert!(
        one.subnet.starts_with("subnet-") && one.image == "ami-amd",
        "{one:?}"
    );
}

#[test]
fn a_group_that_is_not_whole_says_why_and_asks_for_no_more_than_reservations_have() {
    let (region, class) = (region(), class(json!([])));
    let launch = claim(&["cpu=1", "node.kubernetes.io/instance-type In m5.large"]);
    let mut fleet = fleet(&region, &class, &launch);
    assert_eq!(fleet.count, 1);
    fleet.count = 3;
    let launched = |id: &str| fleet::Launched {
        id: id.into(),
        instance_type: "m5.large".into(),
        ..Default::default()
    };
    let of = |ids: &[&str], code: &str| {
        let errors = [code].into_iter().filter(|code| !code.is_empty());
        let reply = Reply {
            instances: ids.iter().map(|id| launched(id)).collect(),
            errors: errors
                .map(|code| refused(code, "m5.large", "us-east-1a"))
                .collect(),
        };
        match outcome(&fleet, &reply) {
            FleetOutcome::Launched(all, short) => {
                let short = short.as_ref().map_or("whole", CloudError::reason);
                format!("{} {short}", all.len())
            }
            other => format!("{other:?}"),
        }
    };
    let short = "UnfulfillableCapacity";
    assert_eq!(of(&["i-1", "i-2", "i-3"], short), "3 whole");
    assert_eq!(of(&["i-1", "i-2"], short), "2 InsufficientCapacity");
    assert_eq!(of(&["i-1"], "UnauthorizedOperation"), "1 Unauthorized");
    let gone = "InvalidLaunchTemplateName.NotFoundException";
    assert_eq!(of(&["i-1"], gone), "1 LaunchFailed");
    assert_eq!(of(&["i-1"], ""), "1 whole", "no reason is given");
    let mut choice = choose_strictly(&region, &class, &launch).unwrap();
    assert_eq!(fleet::room(&choice), usize::MAX);
    let one = choice.offerings[0].clone();
    let held = |(id, free): (&str, u32)| Chosen {
        reservation: Some(ChosenReservation {
            id: id.into(),
            kind: "default".into(),
            interruptible: false,
            free,
        }),
        ..one.clone()
    };
    choice.offerings = [("cr-1", 2), ("cr-1", 2), ("cr-2", 3)].map(held).into();
    assert_eq!(fleet::room(&choice), 5);
}

#[test]
fn an_attempt_has_a_token_of_its_own_within_the_limit() {
    let uid = "7d1c5b1e-0000-4000-8000-000000000001";
    assert_eq!(token(uid, 0), uid);
    assert_ne!(token(uid, 1), token(uid, 2));
    assert!(token(uid, u32::MAX).len() <= 64);
    let whole = fleet::whole(
        &fleet(&region(), &class(json!([])), &claim(&["cpu=1"])),
        "MaxFleetCountExceeded",
        "too many",
    );
    let quota = |one: &Refused| crate::error::classify(&one.code, "") == ErrorClass::Quota;
    assert!(!whole.errors.is_empty() && whole.errors.iter().all(quota));
}
