//! A NodeClaim step by step against the simulated API server, in virtual time.

use longshore_api::crd::Timestamp;
use longshore_api::labels;
use longshore_cloud::{CloudError, Instance, OfferingName, Shortage};
use longshore_simcluster::server::resources::{NODE, NODE_CLAIM};
use serde_json::Value;

use super::liveness::{LAUNCH_LIMIT, REGISTRATION_TIMEOUT};
use super::*;
use crate::act::launch::boot_turns::{BootRule, BootScope};
use crate::act::launch::launch_groups::GROUP;
use crate::observe::node_claim::REGISTRATION_LIMIT;
use crate::policies::BOOTS;
use crate::test_cluster::{Cloud, TestCluster, claim_to_launch, context, fresh, instance};

const MINUTE: Duration = Duration::from_secs(60);

/// A step of the claim with what the server has of its node.
async fn step_of(
    ctx: &Context,
    cluster: &TestCluster,
    claim: &NodeClaim,
    turn: Turn,
) -> StepOutcome {
    let nodes = Vec::from_iter(node(cluster).map(Arc::new));
    step(ctx, claim, &nodes, &Surroundings::default(), turn).await
}

/// A step of the claim as the server has it.
async fn run(ctx: &Context, cluster: &TestCluster) -> StepOutcome {
    let claim = cluster.claim().unwrap();
    step_of(ctx, cluster, &claim, Turn::Wait(None)).await
}

async fn run_copy(ctx: &Context, cluster: &TestCluster, copy: &NodeClaim) -> StepOutcome {
    step_of(ctx, cluster, copy, Turn::Wait(None)).await
}

/// The Node of the claim's instance joins: ready, and closed to pods.
fn join(cluster: &TestCluster) {
    cluster.create(
        NODE,
        json!({
            "metadata": {"name": "node-1", "labels": {"karpenter.sh/nodepool": "web"}},
            "spec": {"providerID": "test://1"},
            "status": {
                "capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }),
    );
    // The server adds a taint to a new Node that only goes when the Node is ready.
    let taint = json!({"key": UNREGISTERED, "effect": "NoExecute"});
    cluster.change(NODE, "node-1", |node| {
        node["spec"]["taints"] = json!([taint])
    });
}

fn node(cluster: &TestCluster) -> Option<NodeView> {
    let node: Value = cluster.get(NODE, "node-1")?;
    Some(NodeView::read(&node.to_string()).unwrap())
}

/// The claim's conditions, as `Type=Status Reason`.
fn conditions(cluster: &TestCluster) -> String {
    let status = cluster.claim().unwrap().status.unwrap_or_default();
    let text =
        |c: &longshore_api::crd::Condition| format!("{}={} {}", c.type_, c.status.text(), c.reason);
    let mut all: Vec<String> = status.conditions.iter().map(text).collect();
    all.sort();
    all.join("\n")
}

fn launched(cluster: &TestCluster) -> bool {
    let status = cluster.claim().and_then(|claim| claim.status);
    status.is_some_and(|status| is_true(&status, "Launched"))
}

#[tokio::test(start_paused = true)]
async fn a_launch_on_an_old_copy_takes_nothing_back() {
    let (cluster, old) = fresh();
    run(&context(&cluster, Ok(instance())), &cluster)
        .await
        .unwrap();
    assert!(launched(&cluster));
    for error in [
        CloudError::Other("a bad moment".into()),
        CloudError::InsufficientCapacity(Shortage::from("nothing left".to_owned())),
        CloudError::NodeClassNotReady("not yet".into()),
    ] {
        let ctx = context(&cluster, Err(error.clone()));
        let refused = run_copy(&ctx, &cluster, &old).await.unwrap_err();
        assert!(matches!(refused, StepError::Conflict(_)), "{refused}");
        assert!(launched(&cluster), "after {error}");
    }
    let ctx = context(&cluster, Err(CloudError::Other("not asked".into())));
    run(&ctx, &cluster).await.unwrap();
    assert!(launched(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_capacity_goes_and_what_was_short_is_remembered() {
    let (cluster, claim) = fresh();
    let [instance_type, zone, capacity_type] = ["m5.large", "z1", "spot"].map(str::to_owned);
    let offerings = vec![OfferingName {
        instance_type,
        zone,
        capacity_type,
    }];
    let shortage = Shortage {
        message: "nothing left".into(),
        offerings,
    };
    let ctx = context(&cluster, Err(CloudError::InsufficientCapacity(shortage)));
    assert_eq!(run_copy(&ctx, &cluster, &claim).await, Ok(None));
    assert!(cluster.is_claim_deleted());
    assert_eq!(
        ctx.memory
            .launch
            .unavailable
            .summary(ctx.now().as_second())
            .some,
        ["m5.large/z1/spot"]
    );
    assert!(
        ctx.metrics
            .text()
            .contains(r#"reason="insufficient_capacity""#)
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_launched_for_a_claim_before_it_has_the_finalizer() {
    let cluster = TestCluster::empty();
    let mut bare = claim_to_launch();
    bare["metadata"]["finalizers"] = json!([]);
    cluster.create(NODE_CLAIM, bare);
    let cloud = Arc::new(Cloud::answering(Ok(instance())));
    let ctx = cluster.context_with(cloud.clone());
    assert_eq!(run(&ctx, &cluster).await, Ok(None));
    assert_eq!(cloud.calls(), [""; 0]);
    let claim = cluster.claim().unwrap();
    assert_eq!(claim.metadata.finalizers.unwrap(), [FINALIZER]);
    run(&ctx, &cluster).await.unwrap();
    let uid = claim.metadata.uid.unwrap();
    assert_eq!(cloud.calls(), [format!("create {uid}")]);
}

#[tokio::test(start_paused = true)]
async fn the_first_node_with_a_new_text_is_marked_and_out_of_its_group_before_its_launch() {
    let cluster = TestCluster::empty();
    let mut own = claim_to_launch();
    own["metadata"]["finalizers"] = json!([]);
    own["metadata"]["annotations"] = json!({GROUP: "t/0/2"});
    cluster.create(NODE_CLAIM, own);
    let cloud = Arc::new(Cloud::answering(Ok(instance())));
    let ctx = cluster.context_with(cloud.clone());
    run(&ctx, &cluster).await.unwrap();
    let follow = |scope| {
        let rule = BootRule {
            mark: "boot@1".to_owned(),
            scope,
        };
        let rules = [("web".to_owned(), rule)];
        ctx.memory.launch.first_boots.follow(rules.into());
    };
    follow(BootScope::FirstToAsk);
    run(&ctx, &cluster).await.unwrap();
    let named = ctx.memory.launch.first_boots.take_named("boot@1");
    assert_eq!(named.as_deref(), Some("web-1"));
    follow(BootScope::OneClaim("web-1".to_owned()));
    run(&ctx, &cluster).await.unwrap();
    assert_eq!(cloud.calls(), [""; 0], "first it is written");
    let marks = cluster.claim().unwrap().metadata.annotations.unwrap();
    assert_eq!(marks.get(BOOTS).map(String::as_str), Some("boot@1"));
    assert_eq!(marks.get(GROUP), None, "a group has one text");
    run(&ctx, &cluster).await.unwrap();
    assert_eq!(cloud.calls().len(), 1);
    assert!(launched(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_launched_claim_says_what_was_bought() {
    let (cluster, _) = fresh();
    let bought = Instance {
        labels: [("topology.kubernetes.io/zone".to_owned(), "z1".to_owned())].into(),
        capacity: [("cpu".to_owned(), "2".to_owned())].into(),
        ..instance()
    };
    let ctx = context(&cluster, Ok(bought));
    run(&ctx, &cluster).await.unwrap();
    let claim = cluster.claim().unwrap();
    let labels = claim.metadata.labels.unwrap();
    assert_eq!(labels["topology.kubernetes.io/zone"], "z1");
    assert_eq!(labels["karpenter.sh/nodepool"], "web");
    let status = claim.status.unwrap();
    assert_eq!(
        (&*status.provider_id, &*status.capacity["cpu"].0),
        ("test://1", "2")
    );
    expect_test::expect![[r#"
        Initialized=Unknown AwaitingReconciliation
        Launched=True Launched
        Ready=Unknown ReconcilingDependents
        Registered=Unknown NodeNotFound"#]]
    .assert_eq(&conditions(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_registered_when_its_turn_comes_and_not_when_it_joins() {
    let (cluster, _) = fresh();
    let ctx = context(&cluster, Ok(instance()));
    run(&ctx, &cluster).await.unwrap();
    join(&cluster);
    run(&ctx, &cluster).await.unwrap();
    assert!(node(&cluster).unwrap().taints[0].key == UNREGISTERED);
    assert!(!is_true(
        &cluster.claim().unwrap().status.unwrap(),
        "Registered"
    ));

    let claim = cluster.claim().unwrap();
    let ready = register(&ctx, &claim, &node(&cluster).unwrap())
        .await
        .unwrap();
    assert!(ready, "it is ready already");
    let registered = node(&cluster).unwrap();
    assert!(registered.taints.is_empty() && registered.holds(FINALIZER));
    for label in [labels::REGISTERED, labels::INITIALIZED] {
        assert_eq!(registered.labels[label], "true", "{label}");
    }
    assert_eq!(registered.owners[0]["uid"], json!(claim.metadata.uid));

    step_of(&ctx, &cluster, &claim, Turn::Confirm { ready })
        .await
        .unwrap();
    expect_test::expect![[r#"
        ConsistentStateFound=True ConsistentStateFound
        Initialized=True Initialized
        Launched=True Launched
        Ready=True Ready
        Registered=True Registered"#]]
    .assert_eq(&conditions(&cluster));
    assert_eq!(cluster.claim().unwrap().status.unwrap().node_name, "node-1");
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_startup_taint_is_initialized_once_that_is_gone() {
    let cluster = TestCluster::empty();
    let mut claim = claim_to_launch();
    let taint = json!({"key": "example.com/agent", "effect": "NoSchedule"});
    claim["spec"]["startupTaints"] = json!([taint]);
    cluster.create(NODE_CLAIM, claim);
    let ctx = context(&cluster, Ok(instance()));
    run(&ctx, &cluster).await.unwrap();
    join(&cluster);
    let claim = cluster.claim().unwrap();
    let ready = register(&ctx, &claim, &node(&cluster).unwrap())
        .await
        .unwrap();
    assert!(!ready, "the startup taint was put on it");
    step_of(&ctx, &cluster, &claim, Turn::Confirm { ready })
        .await
        .unwrap();
    assert!(conditions(&cluster).contains("Initialized=Unknown StartupTaintsExist"));

    cluster.change(NODE, "node-1", |node| node["spec"]["taints"] = json!([]));
    run(&ctx, &cluster).await.unwrap();
    assert!(conditions(&cluster).contains("Initialized=True Initialized"));
    assert_eq!(node(&cluster).unwrap().labels[labels::INITIALIZED], "true");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_never_joins_is_given_up_after_15_minutes() {
    let (cluster, _) = fresh();
    let ctx = context(&cluster, Ok(instance()));
    run(&ctx, &cluster).await.unwrap();
    let wait = run(&ctx, &cluster).await.unwrap().unwrap();
    assert_eq!(wait, REGISTRATION_LIMIT + Duration::from_secs(1));
    tokio::time::advance(REGISTRATION_LIMIT - MINUTE).await;
    run(&ctx, &cluster).await.unwrap();
    assert!(!cluster.is_claim_deleted());
    tokio::time::advance(MINUTE).await;
    ctx.fresh.store(false, Ordering::Relaxed);
    run(&ctx, &cluster).await.unwrap();
    assert!(
        !cluster.is_claim_deleted(),
        "a late watch may keep its node from us"
    );
    ctx.fresh.store(true, Ordering::Relaxed);
    run(&ctx, &cluster).await.unwrap();
    assert!(cluster.is_claim_deleted());
    assert_eq!(
        ctx.memory.launch.health.of("web"),
        Some(true),
        "one failure of four is none"
    );
    assert!(ctx.metrics.text().contains(REGISTRATION_TIMEOUT));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_launched_is_given_up_after_5_minutes() {
    let (cluster, _) = fresh();
    let ctx = context(&cluster, Err(CloudError::Other("no such image".into())));
    run(&ctx, &cluster).await.unwrap();
    assert!(conditions(&cluster).contains("Launched=Unknown LaunchFailed"));
    assert!(cluster.events().concat().contains("no such image"));
    tokio::time::advance(LAUNCH_LIMIT).await;
    run(&ctx, &cluster).await.unwrap();
    assert!(cluster.is_claim_deleted());
    assert!(ctx.metrics.text().contains("launch_timeout"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_deleted_when_it_expires_and_asks_to_be_seen_then() {
    let cluster = TestCluster::empty();
    let mut claim = claim_to_launch();
    claim["spec"]["expireAfter"] = json!("10m");
    cluster.create(NODE_CLAIM, claim);
    let ctx = context(&cluster, Ok(instance()));
    let wait = run(&ctx, &cluster).await.unwrap();
    assert_eq!(wait, Some(MINUTE * 10));
    tokio::time::advance(MINUTE * 10).await;
    assert_eq!(run(&ctx, &cluster).await, Ok(None));
    assert!(cluster.is_claim_deleted());
    assert!(ctx.metrics.text().contains(r#"reason="expired""#));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_launches_nothing() {
    let (cluster, _) = fresh();
    let cloud = Arc::new(Cloud::answering(Ok(instance())));
    let ctx = Context {
        leadership: crate::process::leader::Leadership::new(false),
        ..cluster.context_with(cloud.clone())
    };
    assert_eq!(run(&ctx, &cluster).await, Err(StepError::NotLeading));
    assert_eq!(cloud.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_joins_again_only_long_after_it_was_registered() {
    let registered: NodeClaimStatus = serde_json::from_value(json!({"conditions": [{
        "type": "Registered", "status": "True", "reason": "Registered", "message": "",
        "lastTransitionTime": "2026-11-24T12:00:00Z",
    }]}))
    .unwrap();
    let node = json!({
        "metadata": {"name": "node-1"},
        "spec": {"taints": [{"key": UNREGISTERED, "effect": "NoExecute"}]},
    });
    let node = NodeView::read(&node.to_string()).unwrap();
    let joins_again_at = |time: &str| {
        let time: Timestamp = time.parse().unwrap();
        let cluster = TestCluster::empty();
        let clock = crate::process::clock::Clock::starting_at(time);
        let ctx = Context {
            clock,
            ..context(&cluster, Ok(instance()))
        };
        joins_again(ctx.now(), &registered, &node)
    };
    assert!(!joins_again_at("2026-11-24T12:00:20Z"));
    assert!(joins_again_at("2026-11-24T12:01:00Z"));
}
