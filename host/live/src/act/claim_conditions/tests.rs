//! Conditions as text, for a claim of yesterday at noon.

use expect_test::expect;
use longshore_api::crd::set_condition;
use longshore_cloud::CloudError;
use longshore_core::model::{Offering, Requirement, TypeId};
use serde_json::{Value, json};

use super::*;

const CLASS: &str = "example.com/class";
const LAUNCHED: &str = "2026-11-23T12:00:00Z";
const INITIALIZED: &str = "2026-11-23T12:01:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn pool(spec: &Value) -> NodePool {
    let mut all = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web", "uid": "p"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    merge(&mut all["spec"], spec);
    serde_json::from_value(all).unwrap()
}

fn requires(requirements: &Value) -> NodePool {
    pool(&json!({"template": {"spec": {"requirements": requirements}}}))
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => more
            .iter()
            .for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value)),
        (into, more) => *into = more.clone(),
    }
}

/// An initialized claim of the NodePool, by its hash.
fn claim(pool: &NodePool) -> NodeClaim {
    let is = |kind: &str, since: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since});
    let hash = hash::nodepool_hash(pool).unwrap();
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "web-1", "uid": "u", "creationTimestamp": LAUNCHED,
            "annotations": {HASH: hash, HASH_VERSION: hash::VERSION},
            "labels": {
                "karpenter.sh/nodepool": "web", "karpenter.sh/capacity-type": "spot",
                "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "s-2x",
                "topology.kubernetes.io/zone": "zone-a", "cores": "8",
            },
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "team", "operator": "In", "values": ["a", "b"]}],
            "resources": {},
        },
        "status": {"providerID": "kwok://1", "conditions": [is("Launched", LAUNCHED), is("Initialized", INITIALIZED)]},
    }))
    .unwrap()
}

fn seen(claim: &NodeClaim, pool: &NodePool, listed: bool, now: &str) -> String {
    let status = claim.status.clone().unwrap();
    let (drift, again) = own_drift(claim, &status, pool, Some(listed), at(now));
    let drift = drift.map_or("no drift".to_owned(), |d| {
        format!("{}: {}", d.reason, d.message)
    });
    drift + &again.map_or(String::new(), |again| format!(", again in {again:?}"))
}

fn ripe(consolidate_after: &str, pods: Option<&str>, now: &str) -> (bool, Option<Duration>) {
    let pool = pool(&json!({"disruption": {"consolidateAfter": consolidate_after}}));
    let mut status = claim(&pool).status.unwrap();
    status.last_pod_event_time = pods.map(|time| Time(at(time)));
    consolidatable(&status, &pool, at(now))
}

#[test]
fn a_node_can_be_consolidated_when_its_pods_have_not_changed_for_so_long() {
    let waits = |seconds: u64| (false, Some(Duration::from_secs(seconds)));
    assert_eq!(ripe("0s", None, INITIALIZED), (true, None));
    // Without pods it counts from initialization.
    assert_eq!(ripe("5m", None, "2026-11-23T12:05:59Z"), waits(1));
    assert_eq!(ripe("5m", None, "2026-11-23T12:06:00Z"), (true, None));
    let pods = Some("2026-11-23T12:30:00Z");
    assert_eq!(ripe("5m", pods, "2026-11-23T12:30:00Z"), waits(300));
    assert_eq!(ripe("5m", pods, "2026-11-23T12:35:00Z"), (true, None));
    // Pods came before the node was initialized, or initialized again.
    assert_eq!(
        ripe("5m", Some(LAUNCHED), "2026-11-23T12:05:00Z"),
        waits(60)
    );
    // Another clock is ahead.
    assert_eq!(ripe("1m", pods, "2026-11-23T12:29:50Z"), waits(70));
}

#[test]
fn a_node_cannot_be_consolidated_before_initialization_or_ever_with_never() {
    assert_eq!(ripe("Never", None, "2026-11-24T12:00:00Z"), (false, None));
    assert_eq!(
        ripe("nonsense", None, "2026-11-24T12:00:00Z"),
        (false, None)
    );
    let pool = pool(&json!({"disruption": {"consolidateAfter": "0s"}}));
    let mut status = claim(&pool).status.unwrap();
    set_condition(
        &mut status.conditions,
        "Initialized",
        ConditionStatus::Unknown,
        "Rebooting",
        "",
        Time(at(INITIALIZED)),
    );
    assert_eq!(
        consolidatable(&status, &pool, at("2026-11-24T12:00:00Z")),
        (false, None)
    );
}

#[test]
fn another_template_is_drift_and_another_version_of_the_hash_is_not() {
    let before = pool(&json!({}));
    let mut old = claim(&before);
    assert_eq!(seen(&old, &before, true, LAUNCHED), "no drift");
    let after = pool(&json!({"template": {"metadata": {"labels": {"team": "a"}}}}));
    let drift = seen(&old, &after, true, LAUNCHED);
    assert!(
        drift.starts_with("NodePoolDrifted: the template of its NodePool has changed"),
        "{drift}"
    );
    // What is no part of the template changes nothing.
    let budgets = pool(&json!({"disruption": {"consolidateAfter": "1h"}, "weight": 3}));
    assert_eq!(seen(&old, &budgets, true, LAUNCHED), "no drift");
    let annotations = old.metadata.annotations.as_mut().unwrap();
    annotations.insert(HASH_VERSION.into(), "v2".into());
    assert_eq!(seen(&old, &after, true, LAUNCHED), "no drift");
    old.metadata.annotations = None;
    assert_eq!(seen(&old, &after, true, LAUNCHED), "no drift");
}

#[test]
fn requirements_that_the_labels_do_not_meet_are_drift() {
    let met = |requirement: Value| {
        let pool = requires(&json!([requirement]));
        seen(&claim(&pool), &pool, true, LAUNCHED)
    };
    let is = |key: &str, operator: &str, values: &[&str]| {
        met(json!({"key": key, "operator": operator, "values": values}))
    };
    let all = [
        is("karpenter.sh/capacity-type", "In", &["spot", "on-demand"]),
        is("karpenter.sh/capacity-type", "In", &["on-demand"]),
        is("beta.kubernetes.io/os", "In", &["linux"]),
        is("beta.kubernetes.io/os", "In", &["windows"]),
        is("topology.kubernetes.io/zone", "NotIn", &["zone-a"]),
        is("cores", "Gt", &["7"]),
        is("cores", "Lte", &["7"]),
        // The claim leaves two values open: the node has no label of them.
        is("team", "In", &["b", "c"]),
        is("team", "In", &["c"]),
        is("team", "NotIn", &["a"]),
        is("disk", "Exists", &[]),
        is("disk", "DoesNotExist", &[]),
        is("disk", "NotIn", &["hdd"]),
    ];
    expect![[r#"
        no drift
        RequirementsDrifted: the node has karpenter.sh/capacity-type=spot, the NodePool requires karpenter.sh/capacity-type In [on-demand]
        no drift
        RequirementsDrifted: the node has kubernetes.io/os=linux, the NodePool requires kubernetes.io/os In [windows]
        RequirementsDrifted: the node has topology.kubernetes.io/zone=zone-a, the NodePool requires topology.kubernetes.io/zone NotIn [zone-a]
        no drift
        RequirementsDrifted: the node has cores=8, the NodePool requires cores Lte [7]
        no drift
        RequirementsDrifted: the node has no label team, the NodePool requires team In [c]
        no drift
        RequirementsDrifted: the node has no label disk, the NodePool requires disk Exists []
        no drift
        no drift"#]]
    .assert_eq(&all.join("\n"));
}

#[test]
fn a_type_that_is_no_longer_listed_is_drift_after_an_hour() {
    let pool = pool(&json!({}));
    let young = seen(&claim(&pool), &pool, false, "2026-11-23T12:59:00Z");
    assert_eq!(young, "no drift, again in 60s");
    expect!["InstanceTypeNotFound: s-2x is no longer offered in zone-a as spot"].assert_eq(&seen(
        &claim(&pool),
        &pool,
        false,
        "2026-11-23T13:00:00Z",
    ));
}

#[test]
fn nothing_has_drifted_before_launch() {
    let pool = requires(&json!([{"key": "disk", "operator": "Exists"}]));
    let mut claim = claim(&pool);
    claim.status = Some(NodeClaimStatus::default());
    assert_eq!(
        seen(&claim, &pool, false, "2026-11-24T12:00:00Z"),
        "no drift"
    );
}

#[test]
fn an_offering_is_listed_by_type_zone_and_capacity_type() {
    let mut names = Symbols::default();
    let types = json!([{
        "name": "s-2x", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "2", "memory": "8Gi", "pods": "110"},
        "offerings": [
            {"Price": 0.1, "Available": false, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}]},
        ],
    }]);
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse("types.json", types.to_string().as_bytes(), &mut names);
    assert!(problems.list.is_empty(), "{problems}");
    let listed = |instance_type: &str, zone: &str, capacity_type: &str| {
        let labels = [
            (labels::INSTANCE_TYPE, instance_type),
            (labels::ZONE, zone),
            (labels::CAPACITY_TYPE, capacity_type),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        is_listed(&labels.into(), CLASS, &catalogue, &names) == Some(true)
    };
    // Out of stock is not gone.
    assert!(listed("s-2x", "zone-a", "on-demand"));
    assert!(listed("s-2x", "zone-a", "reserved"));
    assert!(!listed("s-2x", "zone-a", "spot"));
    assert!(!listed("s-2x", "zone-b", "on-demand"));
    assert!(!listed("s-4x", "zone-a", "on-demand"));
    assert_eq!(is_listed(&BTreeMap::new(), CLASS, &catalogue, &names), None);
}

#[test]
fn a_class_that_offers_nothing_is_no_reason_to_replace_its_nodes() {
    let mut names = Symbols::default();
    let class = names.intern(CLASS);
    let row = |type_name: &str, class_name: &str, names: &mut Symbols| {
        let kind = InstanceType {
            requirements: vec![Requirement::is(class, names.intern(class_name))],
            ..InstanceType::named(names.intern(type_name))
        };
        let offering = Offering {
            instance_type: TypeId(0),
            requirements: Arc::default(),
            zone: None,
            capacity_type: None,
            price: 1.0,
            available: false,
            reservation: None,
        };
        (kind, vec![offering])
    };
    let rows = vec![
        row("small", "a", &mut names),
        row("small", "b", &mut names),
        row("large", "b", &mut names),
    ];
    let catalogue = Catalogue::new(rows, &names);
    let listed = |instance_type: &str, class: &str| {
        let labels = [(labels::INSTANCE_TYPE, instance_type), (CLASS, class)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        is_listed(&labels.into(), CLASS, &catalogue, &names)
    };
    assert_eq!(listed("small", "a"), Some(true));
    assert_eq!(
        listed("large", "a"),
        Some(false),
        "only another class has it"
    );
    assert_eq!(listed("large", "b"), Some(true));
    assert_eq!(listed("small", "not-ready"), None);
}

/// What the step leaves of both conditions.
async fn updated(claim: &NodeClaim, pool: Option<&NodePool>, answer: Result<&str, &str>) -> String {
    use crate::test_cluster::{context, fresh};
    let mut ctx = context(&fresh().0, Err(CloudError::Other("not asked".into())));
    ctx.provider = Arc::new(Said(answer.map(str::to_owned).map_err(str::to_owned)));
    let around = Surroundings {
        pool: pool.cloned().map(Arc::new),
        listed: Some(true),
    };
    let mut status = claim.status.clone().unwrap();
    let again = update(&ctx, claim, &mut status, &around).await;
    let of = |what: &str| {
        let found = condition(&status.conditions, what);
        found.map_or(format!("{what}: none"), |c| {
            format!("{what}: {} {}", c.status.text(), c.reason)
        })
    };
    format!(
        "{}, {}, again in {again:?}",
        of(CONSOLIDATABLE),
        of(DRIFTED)
    )
}

/// A cloud that is asked every 5 min whether an instance has drifted.
struct Said(Result<String, String>);

#[async_trait::async_trait]
impl longshore_cloud::CloudProvider for Said {
    fn name(&self) -> &'static str {
        "test"
    }
    fn drift_interval(&self) -> Option<Duration> {
        Some(Duration::from_secs(300))
    }
    async fn drifted(
        &self,
        id: &str,
        _: &longshore_cloud::Launch,
    ) -> Result<Option<String>, CloudError> {
        assert_eq!(id, "kwok://1");
        match &self.0 {
            Ok(reason) => Ok(Some(reason.clone()).filter(|reason| !reason.is_empty())),
            Err(error) => Err(CloudError::Other(error.clone())),
        }
    }
    async fn create(
        &self,
        _: &longshore_cloud::Launch,
    ) -> Result<longshore_cloud::Instance, CloudError> {
        Err(CloudError::Other("not asked".into()))
    }
    async fn delete(&self, _: &str) -> Result<(), CloudError> {
        Err(CloudError::Other("not asked".into()))
    }
    async fn get(&self, _: &str) -> Result<longshore_cloud::Instance, CloudError> {
        Err(CloudError::Other("not asked".into()))
    }
    async fn list(&self) -> Result<Vec<Arc<longshore_cloud::Instance>>, CloudError> {
        Err(CloudError::Other("not asked".into()))
    }
}

#[tokio::test]
async fn conditions_are_set_and_taken_back_and_what_the_cloud_said_stands_until_it_answers() {
    let pool = pool(&json!({}));
    let mut claim = claim(&pool);
    let said = async |claim: &NodeClaim, answer| updated(claim, Some(&pool), answer).await;
    expect!["Consolidatable: True Consolidatable, Drifted: none, again in Some(300s)"]
        .assert_eq(&said(&claim, Ok("")).await);
    expect!["Consolidatable: True Consolidatable, Drifted: True AMIDrift, again in Some(300s)"]
        .assert_eq(&said(&claim, Ok("AMIDrift")).await);
    expect!["Consolidatable: True Consolidatable, Drifted: none, again in Some(300s)"]
        .assert_eq(&said(&claim, Err("down")).await);
    let status = claim.status.as_mut().unwrap();
    put(status, DRIFTED, Some(("AMIDrift", "")), at(LAUNCHED));
    put(
        status,
        CONSOLIDATABLE,
        Some((CONSOLIDATABLE, "")),
        at(LAUNCHED),
    );
    expect!["Consolidatable: True Consolidatable, Drifted: True AMIDrift, again in Some(300s)"]
        .assert_eq(&said(&claim, Err("down")).await);
    expect!["Consolidatable: True Consolidatable, Drifted: none, again in Some(300s)"]
        .assert_eq(&said(&claim, Ok("")).await);
    // Without its NodePool everything stays.
    expect!["Consolidatable: True Consolidatable, Drifted: True AMIDrift, again in None"]
        .assert_eq(&updated(&claim, None, Ok("")).await);
    // Its own reason comes first, and the cloud is not asked.
    let other = requires(&json!([{"key": "disk", "operator": "Exists"}]));
    expect![
        "Consolidatable: True Consolidatable, Drifted: True RequirementsDrifted, again in None"
    ]
    .assert_eq(&updated(&claim, Some(&other), Err("not asked")).await);
    let never = self::pool(&json!({"disruption": {"consolidateAfter": "Never"}}));
    expect!["Consolidatable: none, Drifted: none, again in Some(300s)"]
        .assert_eq(&updated(&claim, Some(&never), Ok("")).await);
}
