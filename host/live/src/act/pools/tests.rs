//! A NodePool's status against the simulated API server.

use longshore_simcluster::server::resources::{NODE_CLAIM, NODE_POOL};

use super::*;
use crate::test_cluster::{TestCluster, claim_to_launch, context, instance};

/// A cluster with the NodePool `web`.
fn cluster() -> TestCluster {
    let cluster = TestCluster::empty();
    cluster.create(
        NODE_POOL,
        json!({
            "metadata": {"name": "web"},
            "spec": {"limits": {"cpu": "100"}, "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            }}},
        }),
    );
    cluster
}

fn pool(cluster: &TestCluster) -> NodePool {
    cluster.get(NODE_POOL, "web").unwrap()
}

/// A NodePool without nodes whose class is ready.
fn ready(pool: &NodePool) -> Observed<'_> {
    Observed {
        pool,
        fault: None,
        policies: None,
        class: (Class::Ready, Some(1)),
        claims: &[],
        nodes: &[],
    }
}

/// The conditions that the server has, as `Type=Status Reason: message`.
fn conditions(cluster: &TestCluster) -> String {
    let status = pool(cluster).status.unwrap_or_default();
    let text = |c: &longshore_api::crd::Condition| {
        let line = format!(
            "{}={} {}: {}",
            c.type_,
            c.status.text(),
            c.reason,
            c.message
        );
        line.trim_end_matches([':', ' ']).to_owned()
    };
    let all: Vec<String> = status.conditions.iter().map(text).collect();
    all.join("\n")
}

/// The conditions after a step of a new NodePool.
async fn conditions_with(change: impl FnOnce(&mut Observed<'_>)) -> String {
    let cluster = cluster();
    let pool = pool(&cluster);
    let mut observed = ready(&pool);
    change(&mut observed);
    step(&context(&cluster, Ok(instance())), observed)
        .await
        .unwrap();
    conditions(&cluster)
}

#[tokio::test(start_paused = true)]
async fn a_nodepool_is_ready_with_its_class_and_says_that_no_node_was_launched() {
    expect_test::expect![[r#"
        ValidationSucceeded=True ValidationSucceeded
        NodeClassReady=True NodeClassReady
        Ready=True Ready
        NodeRegistrationHealthy=Unknown AwaitingReconciliation: no node was launched yet"#]]
    .assert_eq(&conditions_with(|_| ()).await);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_not_ready_makes_its_nodepools_not_ready() {
    let mut all = String::new();
    for class in [
        Class::Missing,
        Class::Leaving,
        Class::Unknown,
        Class::NotReady("no subnet".to_owned()),
    ] {
        let text = conditions_with(|observed| observed.class = (class, None)).await;
        let lines: Vec<&str> = text.lines().skip(1).take(2).collect();
        all += &format!("{}\n", lines.join("; "));
    }
    expect_test::expect![[r#"
        NodeClassReady=False NodeClassNotFound: the node class does not exist; Ready=False UnhealthyDependents: NodeClassReady=False
        NodeClassReady=False NodeClassTerminating: the node class is being deleted; Ready=False UnhealthyDependents: NodeClassReady=False
        NodeClassReady=Unknown NodeClassReadinessUnknown: the class does not say yet; Ready=Unknown ReconcilingDependents: NodeClassReady=Unknown
        NodeClassReady=False NodeClassNotReady: no subnet; Ready=False UnhealthyDependents: NodeClassReady=False
    "#]]
    .assert_eq(&all);
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_cannot_be_read_makes_a_nodepool_not_ready() {
    let text = conditions_with(|observed| observed.fault = Some("no such unit".to_owned())).await;
    assert!(
        text.contains("ValidationSucceeded=False NodePoolValidationFailed: no such unit")
            && text.contains("Ready=False UnhealthyDependents: ValidationSucceeded=False"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_condition_of_policies_comes_with_their_first_failure_and_stays() {
    let cluster = cluster();
    let ctx = context(&cluster, Ok(instance()));
    let mut seen = Vec::new();
    for policies in [None, Some("out of fuel".to_owned()), None] {
        let pool = pool(&cluster);
        let observed = Observed {
            policies,
            ..ready(&pool)
        };
        step(&ctx, observed).await.unwrap();
        let text = conditions(&cluster);
        let own = text.lines().find(|line| line.contains("Policies"));
        seen.push(own.unwrap_or("none").to_owned());
    }
    assert_eq!(
        seen,
        [
            "none",
            "longshore.dev/PoliciesHealthy=False PolicyFailing: out of fuel",
            "longshore.dev/PoliciesHealthy=True PoliciesHealthy",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_nodepool_that_is_up_to_date_is_not_written() {
    let cluster = cluster();
    let ctx = context(&cluster, Ok(instance()));
    step(&ctx, ready(&pool(&cluster))).await.unwrap();
    let written = cluster.writes();
    assert!(
        written.contains(&"patch nodepools ×1".to_owned()),
        "{written:?}"
    );
    assert!(
        written.contains(&"patch nodepools/status ×1".to_owned()),
        "{written:?}"
    );
    step(&ctx, ready(&pool(&cluster))).await.unwrap();
    assert_eq!(cluster.writes(), written);
}

#[tokio::test(start_paused = true)]
async fn another_providers_nodepool_is_not_written() {
    let cluster = cluster();
    let mut other = pool(&cluster);
    other.spec.template.spec.node_class_ref.group = "eks.amazonaws.com".to_owned();
    let ctx = context(&cluster, Ok(instance()));
    step(&ctx, ready(&other)).await.unwrap();
    assert_eq!(cluster.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_writes_no_nodepool() {
    let cluster = cluster();
    let ctx = Context {
        leadership: crate::process::leader::Leadership::new(false),
        ..context(&cluster, Ok(instance()))
    };
    let outcome = step(&ctx, ready(&pool(&cluster))).await;
    assert_eq!(outcome, Err(StepError::NotLeading));
    assert_eq!(cluster.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn failures_to_register_count_until_the_spec_or_the_class_is_another() {
    let cluster = cluster();
    let ctx = context(&cluster, Ok(instance()));
    let health_of = async |class_generation: i64| {
        let pool = pool(&cluster);
        let class = (Class::Ready, Some(class_generation));
        step(
            &ctx,
            Observed {
                class,
                ..ready(&pool)
            },
        )
        .await
        .unwrap();
        let text = conditions(&cluster);
        let own = text.lines().find(|line| line.contains("NodeRegistration"));
        own.unwrap().split([' ', '=']).nth(1).unwrap().to_owned()
    };
    let fail_twice = || (0..2).for_each(|_| ctx.memory.launch.health.record("web", false));
    assert_eq!(health_of(1).await, "Unknown");
    fail_twice();
    assert_eq!(health_of(1).await, "False");
    assert_eq!(
        health_of(2).await,
        "Unknown",
        "another version of the class"
    );
    fail_twice();
    assert_eq!(health_of(2).await, "False");
    cluster.change(NODE_POOL, "web", |pool| {
        pool["spec"]["limits"]["cpu"] = json!("200")
    });
    assert_eq!(
        health_of(2).await,
        "Unknown",
        "another version of the NodePool"
    );
}

#[tokio::test(start_paused = true)]
async fn claims_of_an_older_hash_get_the_new_one_and_those_that_drifted_keep_theirs() {
    let cluster = cluster();
    let mut claims = Vec::new();
    for (name, version, drifted) in [
        ("old", "v2", "False"),
        ("drifted", "v2", "True"),
        ("new", hash::VERSION, "False"),
    ] {
        let mut claim = claim_to_launch();
        claim["metadata"]["name"] = json!(name);
        claim["metadata"]["annotations"] = json!({HASH: "1", HASH_VERSION: version});
        claim["status"] = json!({"conditions": [{
            "type": "Drifted", "status": drifted, "reason": "Drifted", "message": "",
            "lastTransitionTime": "2026-11-24T12:00:00Z",
        }]});
        let made = cluster.create(NODE_CLAIM, claim);
        claims.push(Arc::new(serde_json::from_value(made).unwrap()));
    }
    let ctx = context(&cluster, Ok(instance()));
    let pool = pool(&cluster);
    let observed = Observed {
        claims: &claims,
        ..ready(&pool)
    };
    step(&ctx, observed).await.unwrap();
    let current = hash::nodepool_hash(&pool).unwrap();
    let hash_of = |name: &str| {
        let claim: NodeClaim = cluster.get(NODE_CLAIM, name).unwrap();
        let own = claim.metadata.annotations.unwrap();
        assert_eq!(own[HASH_VERSION], hash::VERSION, "{name}");
        own[HASH].clone()
    };
    assert_eq!(
        ["old", "drifted", "new"].map(hash_of),
        [&*current, "1", "1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_no_node_has_any_more_leaves_the_status() {
    let cluster = cluster();
    let ctx = context(&cluster, Ok(instance()));
    let node = |name: &str, capacity: Value| {
        let node = json!({
            "metadata": {"name": name}, "spec": {"providerID": name},
            "status": {"capacity": capacity},
        });
        Arc::new(NodeView::read(&node.to_string()).unwrap())
    };
    let mut seen = Vec::new();
    for nodes in [
        vec![
            node("a", json!({"cpu": "1500m", "example.com/gpu": "2"})),
            node("b", json!({"cpu": "2"})),
        ],
        vec![node("b", json!({"cpu": "2", "memory": "1Gi"}))],
    ] {
        let pool = pool(&cluster);
        step(
            &ctx,
            Observed {
                nodes: &nodes,
                ..ready(&pool)
            },
        )
        .await
        .unwrap();
        let resources = self::pool(&cluster).status.unwrap().resources;
        let text: Vec<String> = resources
            .iter()
            .map(|(of, q)| format!("{of} {}", q.0))
            .collect();
        seen.push(text.join(", "));
    }
    assert_eq!(
        seen,
        [
            "cpu 3500m, ephemeral-storage 0, example.com/gpu 2, memory 0, nodes 2, pods 0",
            "cpu 2, ephemeral-storage 0, memory 1048576Ki, nodes 1, pods 0",
        ]
    );
}

#[test]
fn a_spec_that_the_schema_allows_and_planning_cannot_use_is_said() {
    let cluster = cluster();
    let fault_with = |change: fn(&mut Value)| {
        let mut pool = serde_json::to_value(pool(&cluster)).unwrap();
        change(&mut pool["spec"]["template"]["spec"]);
        invalid(&serde_json::from_value(pool).unwrap()).unwrap_or_default()
    };
    assert_eq!(fault_with(|_| ()), "");
    assert_eq!(
        fault_with(|spec| {
            spec["requirements"] =
                json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["web"]}]);
        }),
        "requirement karpenter.sh/nodepool may not be set"
    );
    assert_eq!(
        fault_with(|spec| {
            spec["requirements"] = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["cheap"]}]);
        }),
        "karpenter.sh/capacity-type has none of reserved, spot, on-demand"
    );
    assert_eq!(
        fault_with(|spec| {
            let taint = json!({"key": "gpu", "effect": "NoSchedule"});
            spec["taints"] = json!([taint]);
            spec["startupTaints"] = json!([taint]);
        }),
        "taint gpu:NoSchedule is there twice"
    );
}
