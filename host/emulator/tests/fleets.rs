//! Fleets: order of pools, errors beside instances, tokens, and what can never happen.

use crate::common::{
    IMAGE, START, ec2, fleet, form, get, post_faults, reply, shown, template, text, world,
};
use longshore_emulator::{Time, World};

/// Types and zones that were bought, and errors, in one line.
fn outcome(answer: &str) -> String {
    let mut words = Vec::new();
    let (mut errors, mut instances) = (false, 0);
    let mut place = (String::new(), String::new());
    for line in answer.lines().map(str::trim) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("errorSet", _) => errors = true,
            ("fleetInstanceSet", _) => errors = false,
            ("instanceType", kind) => place.0 = kind.to_owned(),
            ("availabilityZone", zone) => place.1 = zone.trim_start_matches("us-east-1").to_owned(),
            ("subnetId", subnet) => place.1 = subnet[subnet.len() - 1..].to_owned(),
            ("errorCode", code) if errors => words.push(format!("{}/{} {code}", place.0, place.1)),
            ("item", id) if id.starts_with("i-") => {
                instances += 1;
                words.push(format!("{}/{}", place.0, place.1));
            }
            _ => {}
        }
    }
    words.push(format!("= {instances}"));
    words.join(", ")
}

const POOLS: [(&str, char); 3] = [("m5.xlarge", 'a'), ("m5.large", 'b'), ("c5.large", 'c')];

#[test]
fn strategies_order_the_pools() {
    let world = &mut world();
    template(world, "");
    let on_demand = |more: &str| fleet(1, "on-demand", &POOLS, more);
    assert_eq!(outcome(&ec2(world, &on_demand(""))), "c5.large/c, = 1");
    let prioritized = "&OnDemandOptions.AllocationStrategy=prioritized\
                       &LaunchTemplateConfigs.1.Overrides.1.Priority=1\
                       &LaunchTemplateConfigs.1.Overrides.2.Priority=0.5";
    assert_eq!(
        outcome(&ec2(world, &on_demand(prioritized))),
        "m5.large/b, = 1"
    );
    // The cheapest pool is short, so the deeper ones come first.
    post_faults(
        world,
        r#"[{"capacity": {"instanceType": "c5.large", "free": 1}},
                    {"capacity": {"instanceType": "m5.large", "free": 9}},
                    {"capacity": {"instanceType": "m5.xlarge", "free": 10}}]"#,
    );
    let spot = |name: &str| {
        fleet(
            2,
            "spot",
            &POOLS,
            &format!("&SpotOptions.AllocationStrategy={name}"),
        )
    };
    let got = |world: &mut _, name| outcome(&ec2(world, &spot(name)));
    assert_eq!(
        got(world, "capacity-optimized"),
        "m5.xlarge/a, m5.xlarge/a, = 2"
    );
    assert_eq!(
        got(world, "price-capacity-optimized"),
        "m5.large/b, m5.large/b, = 2"
    );
    assert_eq!(got(world, "diversified"), "c5.large/c, m5.large/b, = 2");
}

#[test]
fn a_reply_has_instances_and_errors() {
    let world = &mut world();
    template(world, "");
    post_faults(
        world,
        r#"[{"capacity": {"capacityType": "on-demand", "free": 0}},
                    {"capacity": {"instanceType": "m5.large", "zone": "us-east-1b", "free": 2}}]"#,
    );
    let answer = ec2(world, &fleet(3, "on-demand", &POOLS, ""));
    assert_eq!(
        outcome(&answer),
        "c5.large/3 InsufficientInstanceCapacity, m5.large/2 InsufficientInstanceCapacity, \
         m5.xlarge/1 InsufficientInstanceCapacity, m5.large/b, m5.large/b, = 2"
    );
    // What ends gives its capacity back, to the pool that it came from.
    let ids: Vec<&str> = answer
        .lines()
        .filter_map(|line| line.trim().strip_prefix("item "))
        .collect();
    ec2(
        world,
        &format!("Action=TerminateInstances&InstanceId.1={}", ids[0]),
    );
    let later = form("ec2", &fleet(3, "on-demand", &POOLS, ""));
    let answer = shown(&reply(world, START.plus(60_000), &later));
    assert!(outcome(&answer).ends_with("m5.large/b, = 1"), "{answer}");
}

#[test]
fn each_obstacle_has_its_code() {
    let world = &mut world();
    template(world, "");
    let one = [("m5.large", 'a')];
    let more = |more: &str| fleet(1, "on-demand", &one, more);
    let error = |answer: &str| text(answer, "errorCode").to_owned();
    let arm = more("&LaunchTemplateConfigs.1.Overrides.1.ImageId=ami-00000000000000a05");
    assert_eq!(error(&ec2(world, &arm)), "InvalidParameterValue");
    for (image, code) in [
        ("ami-none", "InvalidAMIID.Malformed"),
        ("ami-0000000000000ffff", "InvalidAMIID.NotFound"),
    ] {
        let image = more(&format!(
            "&LaunchTemplateConfigs.1.Overrides.1.ImageId={image}"
        ));
        assert_eq!(error(&ec2(world, &image)), code);
    }
    let low = "&LaunchTemplateConfigs.1.Overrides.1.MaxPrice=0.000001";
    assert_eq!(
        error(&ec2(world, &fleet(1, "spot", &one, low))),
        "SpotMaxPriceTooLow"
    );
    let missing = more("").replace("ttt", "none");
    assert_eq!(
        text(&ec2(world, &missing), "Code"),
        "InvalidLaunchTemplateName.NotFoundException"
    );
    let kept = more("").replace("instant", "maintain");
    assert_eq!(
        text(&ec2(world, &kept), "Code"),
        "InvalidFleetConfiguration"
    );
}

#[test]
fn addresses_and_quotas_run_out() {
    let mut account = world().account().clone();
    for subnet in account.subnets.values_mut() {
        subnet.free_addresses = 2;
    }
    account.settings.spot_vcpus = Some(3);
    let world = &mut World::new(account, 1);
    template(world, "");
    let one = [("m5.large", 'a')];
    let answer = ec2(world, &fleet(3, "on-demand", &one, ""));
    assert_eq!(
        outcome(&answer),
        "m5.large/1 InsufficientFreeAddressesInSubnet, m5.large/a, m5.large/a, = 2"
    );
    let answer = ec2(world, &fleet(2, "spot", &[("m5.large", 'b')], ""));
    assert_eq!(
        outcome(&answer),
        "m5.large/2 MaxSpotInstanceCountExceeded, m5.large/b, = 1"
    );
}

#[test]
fn a_token_buys_once() {
    let world = &mut world();
    template(world, "");
    let query = fleet(1, "spot", &[("m5.large", 'a')], "&ClientToken=claim-1");
    let first = ec2(world, &query);
    assert_eq!(ec2(world, &query), first);
    let other = query.replace("m5.large", "m5.xlarge");
    assert_eq!(
        text(&ec2(world, &other), "Code"),
        "IdempotentParameterMismatch"
    );
    let all = ec2(world, "Action=DescribeInstances");
    assert_eq!(all.matches("reservationId").count(), 1, "{all}");
}

#[test]
fn a_token_buys_a_fleet_of_many_once_and_all_have_its_tags() {
    let world = &mut world();
    template(world, "");
    let tags = "&TagSpecification.1.ResourceType=instance\
                &TagSpecification.1.Tag.1.Key=group&TagSpecification.1.Tag.1.Value=g-1\
                &ClientToken=group-1";
    let query = fleet(500, "on-demand", &[("m5.large", 'a')], tags);
    let first = ec2(world, &query);
    assert!(outcome(&first).ends_with("= 500"), "{first}");
    assert_eq!(ec2(world, &query), first);
    let more = query.replace("TotalTargetCapacity=500", "TotalTargetCapacity=501");
    assert_eq!(
        text(&ec2(world, &more), "Code"),
        "IdempotentParameterMismatch"
    );
    let all: Vec<_> = world.instances().collect();
    let tagged = all.iter().all(|one| one.tags["group"] == "g-1");
    assert!(all.len() == 500 && tagged);
    let ids: std::collections::BTreeSet<&str> = all.iter().map(|one| &*one.id).collect();
    assert_eq!(ids.len(), 500);
}

#[test]
fn no_pool_gives_more_than_it_has() {
    for seed in 0..200_u64 {
        let mut account = world().account().clone();
        account.settings.start_milliseconds = (0, 0);
        let world = &mut World::new(account, seed);
        template(world, "");
        let free = |at: u64| seed.wrapping_mul(2_654_435_761).rotate_left(at as u32 * 7) % 5;
        let zones = ["a", "b", "c"];
        let rules: Vec<String> = zones
            .iter()
            .enumerate()
            .map(|(at, zone)| {
                format!(
                    "{{\"capacity\":{{\"zone\":\"us-east-1{zone}\",\"free\":{}}}}}",
                    free(at as u64)
                )
            })
            .collect();
        post_faults(world, &format!("[{}]", rules.join(",")));
        let strategies = [
            "lowest-price",
            "diversified",
            "price-capacity-optimized",
            "capacity-optimized",
        ];
        let pools = [
            ("m5.large", 'a'),
            ("c5.large", 'a'),
            ("m5.large", 'b'),
            ("m5.large", 'c'),
        ];
        let room = 2 * free(0) + free(1) + free(2);
        let mut bought = 0;
        for round in 0..6_u64 {
            let strategy = strategies[(seed + round) as usize % 4];
            let count = 1 + (seed + round * 3) % 4;
            let token = format!("token-{}", round % 4);
            let query = fleet(
                count as u32,
                "spot",
                &pools,
                &format!("&SpotOptions.AllocationStrategy={strategy}&ClientToken={token}"),
            );
            let answer = ec2(world, &query);
            if answer.starts_with("200") && round < 4 {
                bought += answer.matches("item i-").count() as u64;
            }
        }
        let live = world.instances().count() as u64;
        assert_eq!(live, bought, "seed {seed}: a token bought twice");
        assert!(live <= room, "seed {seed}: {live} instances of {room}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let mut account = world().account().clone();
        account.settings.lag_milliseconds = (0, 2_000);
        account.settings.duplicate_share = 0.5;
        let world = &mut World::new(account, seed);
        template(world, "");
        let mut all = String::new();
        for second in 0..40 {
            let now = Time(START.0 + second * 1_000);
            for query in [
                fleet(1, "spot", &POOLS, ""),
                "Action=DescribeInstances".to_owned(),
            ] {
                all += &shown(&reply(world, now, &form("ec2", &query)));
            }
        }
        all + &shown(&reply(world, START.plus(40_000), &get("/_emulator/world")))
    };
    assert!(run(7) == run(7), "two runs differ");
    assert!(run(7) != run(8), "the seed changes nothing");
    assert!(run(7).contains(IMAGE));
}
