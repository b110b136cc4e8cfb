//! Claims of a static NodePool as text.

use expect_test::expect;

use super::purchases::StaticCapacity;
use super::*;

fn pool(more: &Value) -> NodePool {
    let mut all = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "fixed", "uid": "p-1", "generation": 3},
        "spec": {"replicas": 3, "template": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [
                    {"key": "beta.kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["5"]},
                ],
                "expireAfter": "Never",
            },
        }},
    });
    for (key, value) in more.as_object().unwrap() {
        all["spec"][key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn claim(name: &str, deleted: bool, disrupted: bool) -> NodeClaim {
    let mut all = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
        "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": [], "resources": {}},
    });
    if deleted {
        all["metadata"]["deletionTimestamp"] = "2026-11-24T12:00:00Z".into();
    }
    if disrupted {
        all["status"]["conditions"] = json!([{"type": "DisruptionReason", "status": "True",
            "reason": "Drifted", "message": "", "lastTransitionTime": "2026-11-24T12:00:00Z"}]);
    }
    serde_json::from_value(all).unwrap()
}

fn names(claims: &[NewNodeClaim]) -> Vec<String> {
    claims.iter().map(|claim| claim.name.clone()).collect()
}

#[test]
fn labels_that_are_required_without_a_value_are_given_one() {
    let given = |requirements: Value, optional: bool| {
        let mut made = pool(&json!({}));
        made.spec.template.spec.requirements = serde_json::from_value(requirements).unwrap();
        let labels = given_labels(&made.spec.template.spec.requirements, optional);
        let one = |(label, value): (String, String)| format!("{label}={value}");
        labels.into_iter().map(one).collect::<Vec<_>>().join(" ")
    };
    let all = json!([
        {"key": "team", "operator": "Exists"},
        {"key": "gen", "operator": "Gt", "values": ["5"]},
        {"key": "gen", "operator": "Lt", "values": ["100"]},
        {"key": "gen", "operator": "NotIn", "values": ["99"]},
        {"key": "tier", "operator": "NotIn", "values": ["gold"]},
        {"key": "size", "operator": "In", "values": ["s", "l"]},
        {"key": "size", "operator": "NotIn", "values": ["l"]},
        {"key": "none", "operator": "DoesNotExist"},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["3"]},
    ]);
    let most = i64::MAX;
    assert_eq!(
        given(all.clone(), true),
        format!("gen=98 size=s team={most} tier={most}")
    );
    assert_eq!(given(all, false), format!("gen=98 size=s team={most}"));
    let few = json!([
        {"key": "gen", "operator": "Gte", "values": ["7"]},
        {"key": "gen", "operator": "Lte", "values": ["6"]},
        {"key": "size", "operator": "In", "values": ["9", "12", "x"]},
        {"key": "size", "operator": "Gt", "values": ["10"]},
    ]);
    assert_eq!(given(few, true), "size=12");
}

#[test]
fn a_claim_is_made_from_the_template_alone() {
    let claims = new_claims(&pool(&json!({})), [], 1);
    expect![[r#"
        {
          "apiVersion": "karpenter.sh/v1",
          "kind": "NodeClaim",
          "metadata": {
            "annotations": {
              "karpenter.sh/nodepool-hash": "12327141072715562284",
              "karpenter.sh/nodepool-hash-version": "v3",
              "note": "x"
            },
            "finalizers": [
              "karpenter.sh/termination"
            ],
            "labels": {
              "karpenter.kwok.sh/kwoknodeclass": "default",
              "karpenter.sh/nodepool": "fixed",
              "team": "a"
            },
            "name": "fixed-5d6fhf5mh",
            "ownerReferences": [
              {
                "apiVersion": "karpenter.sh/v1",
                "blockOwnerDeletion": true,
                "kind": "NodePool",
                "name": "fixed",
                "uid": "p-1"
              }
            ]
          },
          "spec": {
            "expireAfter": "Never",
            "nodeClassRef": {
              "group": "karpenter.kwok.sh",
              "kind": "KWOKNodeClass",
              "name": "default"
            },
            "requirements": [
              {
                "key": "kubernetes.io/os",
                "operator": "In",
                "values": [
                  "linux"
                ]
              },
              {
                "key": "karpenter.kwok.sh/instance-cpu",
                "operator": "Lt",
                "values": [
                  "5"
                ]
              },
              {
                "key": "karpenter.kwok.sh/kwoknodeclass",
                "operator": "In",
                "values": [
                  "default"
                ]
              },
              {
                "key": "karpenter.sh/nodepool",
                "operator": "In",
                "values": [
                  "fixed"
                ]
              },
              {
                "key": "team",
                "operator": "In",
                "values": [
                  "a"
                ]
              }
            ],
            "resources": {
              "requests": {}
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&claims[0].object).unwrap());
}

#[test]
fn a_create_that_was_not_seen_yet_keeps_its_name() {
    let pool = pool(&json!({}));
    let all = names(&new_claims(&pool, [], 3));
    let unique: BTreeSet<&String> = all.iter().collect();
    assert_eq!(unique.len(), 3);
    // Whichever of them were created, the others are what is left.
    for there in 0..3 {
        let seen = claim(&all[there], false, false);
        let rest: Vec<String> = (0..3)
            .filter(|at| *at != there)
            .map(|at| all[at].clone())
            .collect();
        assert_eq!(names(&new_claims(&pool, [&seen], 2)), rest);
    }
    // Another template gives other names: the node that is replaced has still its own.
    let other = self::pool(&json!({"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "other"},
        "requirements": []}}}));
    assert!(
        names(&new_claims(&other, [], 3))
            .iter()
            .all(|name| !all.contains(name))
    );
}

#[test]
fn claims_count_by_what_becomes_of_them() {
    let claims = [
        claim("a", false, false),
        claim("b", false, true),
        claim("c", true, true),
        claim("d", true, false),
    ];
    let expected = Counts {
        active: 1,
        disrupted: 1,
        deleting: 2,
    };
    assert_eq!(counts(&claims), expected);
    assert_eq!(due(&pool(&json!({"replicas": null})), &claims), None);
    let limited = pool(&json!({"limits": {"nodes": "5"}}));
    let one = Scale::Up {
        create: 1,
        missing: 1,
    };
    assert_eq!(due(&limited, &claims), Some(one));
}

#[test]
fn scale_down_takes_what_it_does_not_know_first_and_nothing_that_goes_anyway() {
    let claims = [
        claim("a", false, false),
        claim("b", false, false),
        claim("c", true, false),
        claim("d", false, true),
        claim("new", false, false),
    ];
    let order = ["c", "d", "b", "a"].map(str::to_owned);
    let going = |excess| {
        let going = leaving(&claims, &order, excess);
        going
            .iter()
            .map(|c| c.metadata.name.clone().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(going(1), ["new"]);
    assert_eq!(going(2), ["new", "b"]);
    assert_eq!(going(9), ["new", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_spec_is_bought_for_once_a_minute() {
    let memory = StaticCapacity::new(true);
    let mut pool = pool(&json!({}));
    let now = Instant::now();
    assert_eq!(memory.pause(&pool, now), None);
    memory.bought(&pool, now);
    let later = now + Duration::from_secs(45);
    assert_eq!(memory.pause(&pool, later), Some(Duration::from_secs(15)));
    assert_eq!(memory.pause(&pool, now + SCALE_UP_PAUSE), None);
    pool.metadata.generation = Some(4);
    assert_eq!(memory.pause(&pool, later), None);
}

#[test]
fn after_nodes_that_never_joined_one_is_tried_at_a_time() {
    let of = |annotation: Option<&str>| {
        let mut pool = pool(&json!({}));
        let all = annotation.map(|text| [(UNJOINED.to_owned(), text.to_owned())].into());
        pool.metadata.annotations = all;
        pool
    };
    let buys = |pool: &NodePool, claims: &[NodeClaim], now| may_buy(pool, claims, 7, now);
    let waits = |seconds| Purchase::After(Duration::from_secs(seconds));
    assert_eq!(buys(&of(None), &[], 1000), Purchase::All);
    let two = of(Some("2,0,0,0000000000000007"));
    assert_eq!(buys(&two, &[], 1000), Purchase::All);
    let three = of(Some("3,1,1300,0000000000000007"));
    assert_eq!(buys(&three, &[], 1000), waits(300));
    assert_eq!(buys(&three, &[], 1300), Purchase::One);
    let comes = claim("c", false, false);
    assert_eq!(buys(&three, std::slice::from_ref(&comes), 1300), waits(60));
    let goes = claim("c", true, false);
    assert_eq!(buys(&three, std::slice::from_ref(&goes), 1300), waits(60));
    let mut joined = comes;
    let mut with = |condition: &str| {
        let conditions = json!({"conditions": [{"type": condition, "status": "True", "reason": "r",
            "message": "", "lastTransitionTime": "2026-11-24T12:00:00Z"}]});
        joined.status = serde_json::from_value(conditions).unwrap();
        buys(&three, std::slice::from_ref(&joined), 1300)
    };
    assert_eq!(with("Registered"), waits(60), "it may never get ready");
    assert_eq!(with("Initialized"), Purchase::One);
    let edited = of(Some("3,1,1300,0000000000000008"));
    assert_eq!(buys(&edited, &[], 1000), Purchase::All);
}
