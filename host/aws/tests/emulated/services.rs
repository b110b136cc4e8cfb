//! Status checks, the price list, zonal shifts, placement scores, reboots, reservations that end.

use longshore_aws::error::Class;
use longshore_aws::scores::Wanted;
use longshore_cloud::RebootError;
use longshore_core::model::Symbols;

use super::*;

/// An account whose instances run at once.
fn running() -> Account {
    let mut account = account();
    account.settings.start_milliseconds = (0, 0);
    account
}

fn denied(action: &str) -> Value {
    json!([{"error": {"when": "before", "code": "AccessDeniedException",
        "on": {"action": action}}}])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ec2_is_asked_which_instances_are_unhealthy() {
    let cloud = Cloud::new(running()).await;
    let (sick, retired) = (cloud.launch(1, &[]).await, cloud.launch(2, &[]).await);
    let (sick, retired) = (id(&sick.unwrap()), id(&retired.unwrap()));
    cloud.launch(3, &[]).await.unwrap();
    let found = async || {
        let all = cloud.provider.unhealthy_instances().await.unwrap();
        let short = all
            .iter()
            .map(|one| (one.instance.clone(), one.category.as_str()));
        short.collect::<BTreeMap<_, _>>()
    };
    assert!(found().await.is_empty());
    let impair = json!([
        {"impair": {"instance": sick, "check": "system"}},
        {"impair": {"instance": retired, "check": "instance-retirement"}},
    ]);
    cloud.faults(impair).await;
    let event = (retired, "event_status");
    assert_eq!(found().await, BTreeMap::from([event.clone()]));
    cloud.ahead.store(121, Ordering::Relaxed);
    let check = (sick.clone(), "system_status");
    assert_eq!(found().await, BTreeMap::from([event.clone(), check]));
    assert_eq!(
        cloud.count("DescribeInstanceStatus").await,
        9,
        "three a look"
    );
    let recovered = json!([{"impair": {"instance": sick, "check": "none"}}]);
    cloud.faults(recovered).await;
    assert_eq!(found().await, BTreeMap::from([event]));
    cloud.faults(denied("DescribeInstanceStatus")).await;
    let error = cloud.provider.unhealthy_instances().await.unwrap_err();
    assert_eq!(error.class, Class::Unauthorized);
    assert!(
        error
            .with_hint()
            .contains("allow ec2:DescribeInstanceStatus")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_demand_prices_are_those_of_the_list_and_stay_when_it_fails() {
    let mut account = account();
    let unlisted = account.types["c5.large"].on_demand;
    account.types.get_mut("m5.large").unwrap().on_demand = Some(0.5);
    account.types.get_mut("c5.large").unwrap().on_demand = None;
    let cloud = Cloud::without_class(account).await;
    let price = |name: &str| {
        let region = cloud.provider.region();
        region.on_demand(region.find(name).unwrap())
    };
    assert_eq!(price("m5.large"), Some(0.096), "recorded");
    let before = cloud.provider.version();
    let types = cloud.provider.refresh_price_list().await.unwrap();
    assert_eq!(types, cloud.provider.region().types().len() - 1);
    assert_eq!(price("m5.large"), Some(0.5));
    assert_eq!(
        price("c5.large"),
        unlisted,
        "a type that is not listed keeps its price"
    );
    let listed = cloud.provider.version();
    assert!(listed > before);
    cloud.provider.refresh_types().await.unwrap();
    assert_eq!(price("m5.large"), Some(0.5), "new types have known prices");
    cloud.faults(denied("GetProducts")).await;
    let error = cloud.provider.refresh_price_list().await.unwrap_err();
    assert!(
        error.with_hint().contains("allow pricing:GetProducts"),
        "{error}"
    );
    assert_eq!(price("m5.large"), Some(0.5));
}

/// Whether a catalogue offers anything that is available in a zone.
async fn offers(cloud: &Cloud, zone: &str) -> bool {
    let mut names = Symbols::default();
    let classes = [cloud.class("default").await];
    let catalogue = cloud.provider.catalogue(&classes, &mut names);
    let zone = names.intern(zone);
    let mut here = catalogue
        .offerings()
        .iter()
        .filter(|of| of.zone == Some(zone));
    here.any(|of| of.available)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_traffic_is_shifted_away_from_is_left_alone() {
    let settings = Settings {
        zonal_shift: true,
        ..settings()
    };
    let cloud = Cloud::started(running(), settings).await.unwrap();
    cloud.classes.put(class("default", json!({})));
    cloud.reconcile().await;
    let in_a: &[(&str, &[&str])] = &[(ZONE, &["us-east-1a"])];
    let there = cloud.launch(1, in_a).await.unwrap();
    assert!(offers(&cloud, "us-east-1a").await);
    let version = cloud.provider.version();

    let shift = |minutes: u32| json!([{"shift": {"zone": "us-east-1a", "minutes": minutes}}]);
    cloud.faults(shift(60)).await;
    let changes = cloud.provider.refresh_shifts().await.unwrap();
    assert_eq!(changes.begun, ["us-east-1a (use1-az6)"]);
    assert_eq!(cloud.provider.shifted_zones(), changes.begun);
    assert!(cloud.provider.version() > version);
    assert!(!offers(&cloud, "us-east-1a").await && offers(&cloud, "us-east-1b").await);
    let error = cloud.launch(2, in_a).await.unwrap_err();
    assert!(
        matches!(error, CloudError::InsufficientCapacity(_)),
        "{error:?}"
    );
    let elsewhere = cloud.launch(3, &[]).await.unwrap();
    assert!(!elsewhere.contains("us-east-1a"), "{elsewhere}");

    let described = cloud.count("DescribeInstances").await;
    let provider = &cloud.provider;
    assert_eq!(provider.get(&there).await.unwrap().provider_id, there);
    for left_alone in [
        provider.delete(&there).await,
        provider.tag_node(&there, "ip-10-0-0-1", "claim-1").await,
    ] {
        let why = left_alone.unwrap_err().to_string();
        assert!(why.contains("shifted away from zone us-east-1a"), "{why}");
    }
    assert!(matches!(
        provider.reboot(&there, "1").await,
        Err(RebootError::Again(_))
    ));
    assert_eq!(cloud.count("DescribeInstances").await, described);
    for action in ["TerminateInstances", "CreateTags", "RebootInstances"] {
        assert_eq!(cloud.count(action).await, 0, "{action}");
    }
    assert_eq!(
        cloud.provider.refresh_shifts().await,
        Ok(Default::default())
    );

    cloud.faults(shift(0)).await;
    let changes = cloud.provider.refresh_shifts().await.unwrap();
    assert_eq!(changes.ended, ["us-east-1a (use1-az6)"]);
    assert!(offers(&cloud, "us-east-1a").await);
    cloud.provider.delete(&there).await.unwrap();
    assert_eq!(cloud.count("TerminateInstances").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zonal_shifts_that_cannot_be_read_are_an_error_at_the_start() {
    let settings = Settings {
        zonal_shift: true,
        ..settings()
    };
    let cloud = Cloud::without_class(account()).await;
    cloud.faults(denied("GetManagedResource")).await;
    let classes = cloud.classes.clone();
    let again = Ec2::start(
        cloud.clients.clone(),
        classes,
        settings,
        clock(&cloud.ahead),
    )
    .await;
    let error = again.err().unwrap().to_string();
    assert!(
        error.contains("allow arc-zonal-shift:GetManagedResource"),
        "{error}"
    );
    assert!(error.contains("ENABLE_ZONAL_SHIFT"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn placement_scores_are_asked_for_by_group_and_have_every_zone() {
    let cloud = Cloud::new(account()).await;
    // EC2's catalogue with subnets is known once something is to be bought.
    offers(&cloud, "us-east-1a").await;
    let group = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let wanted = Wanted {
        groups: vec![
            group(&["m5.*", "r5.*"]),
            group(&["m5.*", "c5.*"]),
            group(&["t3.*"]),
        ],
        target: 10,
    };
    let table = cloud.provider.placement_scores(&wanted).await.unwrap();
    assert_eq!(
        cloud.count("GetSpotPlacementScores").await,
        2,
        "one is too small a group"
    );
    let types: BTreeSet<&str> = table
        .keys()
        .map(|key| key.split_once('/').unwrap().0)
        .collect();
    let types: Vec<&str> = types.into_iter().collect();
    assert_eq!(
        types,
        [
            "c5.large",
            "c5.xlarge",
            "m5.2xlarge",
            "m5.large",
            "m5.xlarge",
            "r5.large"
        ]
    );
    assert_eq!(table.len(), 3 * types.len());
    assert!(table.values().all(|score| (1.0..=10.0).contains(score)));
    cloud.faults(denied("GetSpotPlacementScores")).await;
    let error = cloud
        .provider
        .placement_scores(&wanted)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("allow ec2:GetSpotPlacementScores"),
        "{error}"
    );
    assert_eq!(
        cloud.count("GetSpotPlacementScores").await,
        3,
        "the second is not asked"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_rebooted_and_what_cannot_be_is_final() {
    let cloud = Cloud::new(running()).await;
    let instance = cloud.launch(1, &[]).await.unwrap();
    cloud
        .provider
        .reboot(&instance, "uid-1-boot")
        .await
        .unwrap();
    assert_eq!(cloud.world().await["instances"][0]["reboots"], 1);
    let unknown = cloud.provider.reboot("aws:///us-east-1a/i-0", "1").await;
    assert!(
        matches!(unknown, Err(RebootError::Again(CloudError::NotFound(_)))),
        "{unknown:?}"
    );
    cloud.faults(denied("RebootInstances")).await;
    let error = cloud.provider.reboot(&instance, "1").await.unwrap_err();
    assert!(matches!(error, RebootError::Failed(_)), "{error:?}");
    assert!(error.to_string().contains("allow ec2:RebootInstances"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_reservation_has_ended_is_on_demand() {
    let reservation = "cr-0123456789abcdef0";
    let reservations = json!([{
        "id": reservation, "instanceType": "m5.large", "zone": "us-east-1b",
        "total": 1, "available": 1, "tags": {"team": "a"},
    }]);
    let account = account_with(&json!({"reservations": reservations}));
    let cloud = Cloud::without_class(account).await;
    let terms = json!({"capacityReservationSelectorTerms": [{"tags": {"team": "a"}}]});
    cloud.classes.put(class("default", terms));
    cloud.reconcile().await;
    let wanted: &[(&str, &[&str])] = &[(CAPACITY_TYPE, &["reserved"])];
    let instance = cloud.launch(1, wanted).await.unwrap();
    let capacity_type = async || {
        let found = cloud.provider.get(&instance).await.unwrap();
        found.labels[CAPACITY_TYPE].clone()
    };
    assert_eq!(capacity_type().await, "reserved");
    cloud
        .faults(json!([{"endReservation": {"reservation": reservation}}]))
        .await;
    assert_eq!(capacity_type().await, "on-demand");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_is_saved_as_a_world_that_other_commands_read() {
    let cloud = Cloud::new(account()).await;
    cloud.provider.refresh_price_list().await.unwrap();
    let now = SystemTime::now();
    let saved = longshore_aws::world::read(&cloud.clients, now).await;
    let saved = saved.unwrap();
    let text = saved.json.to_string();
    let read = longshore_ec2::catalogue::world::read("saved", text.as_bytes(), None);
    let (world, problems) = read.unwrap();
    assert!(problems.is_empty(), "{problems}");
    let (live, region) = (cloud.provider.region(), world.region);
    assert_eq!(region.types(), live.types());
    assert_eq!((saved.types, saved.zones), (live.types().len(), 3));
    assert!(saved.on_demand > 0 && saved.spot > 0);
    for at in 0..live.types().len() {
        assert_eq!(region.on_demand(at), live.on_demand(at));
        for zone in live.offered_in(at).iter() {
            assert!(region.offered_in(at).contains(zone));
            assert_eq!(region.spot(at, zone), live.spot(at, zone));
        }
    }
    let zone = &region.zones()[0];
    assert_eq!((&*zone.name, &*zone.id), ("us-east-1a", "use1-az6"));

    // Without the price list the recorded prices stand in, and that is said.
    cloud.faults(denied("GetProducts")).await;
    let saved = longshore_aws::world::read(&cloud.clients, now).await;
    let saved = saved.unwrap();
    assert!(saved.on_demand > 0);
    let said = saved.notes.join("; ");
    assert!(
        said.contains("some on-demand prices are recorded ones"),
        "{said}"
    );
}
