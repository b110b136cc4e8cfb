//! Hostile pods: their cost is bounded, the reason is reported, and other pods are planned.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore_core::model::{Excess, Part, Settings, Symbol};
use longshore_core::plan::{Effort, Plan, Unfit};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::{any, node, plan, pod, pods, running, world};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

fn anti(terms: Vec<Value>) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn term(key: &str, selector: Value) -> Value {
    json!({"topologyKey": key, "labelSelector": selector})
}

/// A plan, and the names of the pods that it leaves over with their first reasons. Ten times as
/// long as it takes on a busy machine is too long: before costs were bounded it was over a minute.
#[allow(
    clippy::disallowed_methods,
    reason = "what is tested is that planning ends"
)]
fn planned(objects: &[Value], effort: Effort) -> (Plan, Vec<(String, Unfit)>) {
    let snapshot = Snapshot::new(Arc::new(world(objects, Settings::default())));
    let begun = Instant::now();
    let plan = planner::plan(&snapshot, &ByPrice, PlanOptions { effort, seed: 1 }).unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "planning took {:?}",
        begun.elapsed()
    );
    let name =
        |pod: longshore_core::plan::PodIx| snapshot.world.pods[pod.0 as usize].name.to_string();
    let left = plan
        .unplaced
        .iter()
        .map(|u| (name(u.pod), u.refusals[0].unfit.clone()))
        .collect();
    (plan, left)
}

fn others() -> Vec<Value> {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    let mut objects = vec![any()];
    objects.extend((0..20).map(|at| node(&format!("n{at}"), ["a", "b", "c"][at % 3], "4", "16Gi")));
    objects.extend(pods(60, "web", "250m", "512Mi", &spread));
    objects.extend(pods(60, "batch", "500m", "1Gi", &json!({})));
    objects
}

/// Terms of many pods that select only each other: each is a group of its own.
#[test]
fn a_hundred_pods_with_three_hundred_terms_each_are_planned_in_seconds() {
    let mut objects = others();
    for at in 0..100 {
        let terms = (0..300).map(|n| {
            let key = if n % 2 == 0 { HOSTNAME } else { ZONE };
            term(
                key,
                json!({"matchLabels": {"app": format!("other-{at}-{n}")}}),
            )
        });
        objects.push(pod(
            &format!("hostile{at}"),
            &format!("hostile{at}"),
            "100m",
            "128Mi",
            &anti(terms.collect()),
        ));
    }
    for effort in [Effort::None, Effort::Normal] {
        let (_, left) = planned(&objects, effort);
        assert_eq!(left, []);
    }
}

/// Terms that select all pods, written in ten thousand ways: such a pod gets a node of its own, and
/// the others go elsewhere.
#[test]
fn ten_thousand_selectors_of_all_pods_keep_no_pod_waiting() {
    let mut objects = others();
    for at in 0..100 {
        let selector = |n: usize| json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [format!("none-{at}-{n}")]}]});
        let terms = (0..100).map(|n| term(HOSTNAME, selector(n)));
        let patch = anti(terms.collect());
        objects.push(pod(
            &format!("hostile{at}"),
            &format!("hostile{at}"),
            "100m",
            "128Mi",
            &patch,
        ));
    }
    for effort in [Effort::None, Effort::Normal] {
        let (plan, left) = planned(&objects, effort);
        assert_eq!(
            left.iter()
                .filter(|(name, _)| !name.starts_with("hostile"))
                .count(),
            0,
            "{left:?}"
        );
        let pods = plan
            .claims
            .iter()
            .map(|c| c.pods.len())
            .chain(plan.on_existing_nodes.iter().map(|e| e.pods.len()));
        assert_eq!(pods.sum::<usize>() + left.len(), 220);
    }
}

/// Everything that is limited, a little above its limit and at it.
#[test]
fn a_pod_beyond_a_limit_is_told_which_and_the_others_are_planned() {
    let numbered = |n: u64, of: &dyn Fn(u64) -> Value| (0..n).map(of).collect::<Vec<Value>>();
    let matching = |n: u64| json!({"matchLabels": {"app": format!("x{n}")}});
    let patch = |part: Part, n: u64| match part {
        Part::PodTerms => anti(numbered(n, &|at| term(HOSTNAME, matching(at)))),
        Part::PreferredPodTerms => {
            let preferred = numbered(
                n,
                &|at| json!({"weight": 1, "podAffinityTerm": term(HOSTNAME, matching(at))}),
            );
            json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}})
        }
        Part::SpreadConstraints => json!({"topologySpreadConstraints": numbered(n, &|at| json!({
            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": matching(at),
        }))}),
        Part::Namespaces => {
            let names = numbered(n, &|at| json!(format!("namespace-{at}")));
            anti(vec![
                json!({"topologyKey": HOSTNAME, "labelSelector": matching(0), "namespaces": names}),
            ])
        }
        Part::SelectorValues => {
            let values = numbered(n - 1, &|at| json!(format!("v{at}")));
            anti(vec![term(
                HOSTNAME,
                json!({"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}),
            )])
        }
        Part::Tolerations => {
            json!({"tolerations": numbered(n, &|at| json!({"key": format!("t{at}"), "operator": "Exists"}))})
        }
        Part::NodeTerms => {
            let terms = numbered(
                n,
                &|_| json!({"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}),
            );
            let required = json!({"nodeSelectorTerms": terms});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        }
        Part::NodeValues => {
            let values = numbered(n - 1, &|at| {
                json!(["a".to_owned(), format!("v{at}")][usize::from(at > 0)])
            });
            let terms =
                json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}]);
            let required = json!({"nodeSelectorTerms": terms});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        }
        Part::PortsAndVolumes => {
            json!({"volumes": numbered(n, &|at| json!({"name": format!("v{at}"), "emptyDir": {}}))})
        }
        Part::LabelBytes => Value::Null,
        Part::RuleBytes => {
            json!({"tolerations": [{"key": "k".repeat(n as usize), "operator": "Exists"}]})
        }
    };
    for part in Part::ALL {
        let mut objects = others();
        for (name, n) in [("most", part.most()), ("more", part.most() + 1)] {
            let mut one = pod(name, name, "100m", "128Mi", &json!({}));
            match part {
                // The label `app` has seven bytes.
                Part::LabelBytes => {
                    one["metadata"]["labels"]["x"] = json!("y".repeat(n as usize - 8))
                }
                _ => super::merge(&mut one["spec"], &patch(part, n)),
            }
            objects.push(one);
        }
        let (_, left) = planned(&objects, Effort::None);
        let excess = Excess {
            part,
            count: part.most() + 1,
        };
        assert_eq!(
            left,
            [("more".to_owned(), Unfit::Excess(excess))],
            "{part:?}"
        );
    }
}

/// A running one keeps others off its node, although its terms are reduced, and off no other node.
#[test]
fn a_pod_beyond_a_limit_that_runs_keeps_its_namespace_away() {
    let terms = (0..600).map(|n| term(HOSTNAME, json!({"matchLabels": {"app": format!("x{n}")}})));
    let hostile = running("hostile", "hostile", "small", &anti(terms.collect()));
    let mut elsewhere = pod("elsewhere", "web", "100m", "128Mi", &json!({}));
    elsewhere["metadata"]["namespace"] = json!("other");
    let objects = [
        any(),
        node("small", "a", "2", "8Gi"),
        hostile,
        elsewhere,
        pod("here", "web", "100m", "128Mi", &json!({})),
    ];
    let text = plan(&objects);
    assert!(
        text.lines().any(|line| line == "small: elsewhere"),
        "{text}"
    );
}

fn excess(part: Part, count: u64) -> Unfit {
    Unfit::Excess(Excess { part, count })
}

/// Input that the API server accepts and no workload needs: the pods get a reason, and little of it
/// is kept.
#[test]
fn a_megabyte_of_labels_is_told_of_and_not_kept() {
    let mut objects = others();
    let mut bytes = 0;
    for at in 0..10 {
        let mut one = pod(
            &format!("hostile{at}"),
            "hostile",
            "100m",
            "128Mi",
            &json!({}),
        );
        let labels: Vec<(String, String)> = (0..3900)
            .map(|n| (format!("{at}-{n}-{:x>200}", ""), "v".repeat(60)))
            .collect();
        bytes = "app".len()
            + "hostile".len()
            + labels
                .iter()
                .map(|(key, value)| key.len() + value.len())
                .sum::<usize>();
        labels
            .into_iter()
            .for_each(|(key, value)| one["metadata"]["labels"][key] = value.into());
        objects.push(one);
    }
    assert!(bytes > 1_000_000, "{bytes}");
    let (_, left) = planned(&objects, Effort::Normal);
    assert_eq!(left.len(), 10, "{left:?}");
    assert!(
        left.iter()
            .all(|(_, why)| *why == excess(Part::LabelBytes, bytes as u64)),
        "{left:?}"
    );
    let kept = world(&objects, Settings::default()).names;
    let kept: usize = (0..kept.len() as u32)
        .map(|sym| kept.text(Symbol(sym)).len())
        .sum();
    assert!(
        kept < 10 * (64 << 10) + 100_000,
        "{kept} bytes of names are kept"
    );
}

#[test]
fn two_hundred_spread_constraints_are_told_of_and_sixty_four_are_planned_for() {
    let rules = |at: usize, count: usize| {
        let rule = |n: usize| {
            json!({
                "maxSkew": 1, "topologyKey": if n.is_multiple_of(2) { HOSTNAME } else { ZONE }, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "hostile", "x": format!("{at}-{n}")}},
            })
        };
        json!({"topologySpreadConstraints": (0..count).map(rule).collect::<Vec<Value>>()})
    };
    let mut objects = others();
    for at in 0..100 {
        objects.push(pod(
            &format!("many{at}"),
            "hostile",
            "100m",
            "128Mi",
            &rules(at, 200),
        ));
        objects.push(pod(
            &format!("most{at}"),
            "hostile",
            "100m",
            "128Mi",
            &rules(at, 64),
        ));
    }
    for effort in [Effort::None, Effort::Normal] {
        let (_, left) = planned(&objects, effort);
        assert_eq!(left.len(), 100, "{left:?}");
        let is_expected = |(name, why): &(String, Unfit)| {
            name.starts_with("many") && *why == excess(Part::SpreadConstraints, 200)
        };
        assert!(left.iter().all(is_expected), "{left:?}");
    }
}

/// Ten thousand namespaces by name are too many for one pod. As many that a term selects by label
/// are planned for.
#[test]
fn ten_thousand_namespaces_keep_no_pod_waiting() {
    let mut objects = others();
    objects.extend((0..10_000).map(|n| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("n{n}"), "labels": {"all": "yes"}}})
    }));
    let names: Vec<String> = (0..10_000).map(|n| format!("n{n}")).collect();
    for at in 0..20 {
        let named = json!({"topologyKey": HOSTNAME, "namespaces": names, "labelSelector": {"matchLabels": {"app": "web"}}});
        objects.push(pod(
            &format!("names{at}"),
            "hostile",
            "100m",
            "128Mi",
            &anti(vec![named]),
        ));
        let selected = (0..300).map(|n| {
            json!({"topologyKey": HOSTNAME, "namespaceSelector": {"matchLabels": {"all": "yes"}},
                "labelSelector": {"matchLabels": {"app": format!("{at}-{n}")}}})
        });
        objects.push(pod(
            &format!("selects{at}"),
            "hostile",
            "100m",
            "128Mi",
            &anti(selected.collect()),
        ));
    }
    // Each in a namespace of its own.
    for n in 0..2_000 {
        let mut one = pod(
            &format!("alone{n}"),
            "alone",
            "10m",
            "16Mi",
            &anti(vec![term(HOSTNAME, json!({}))]),
        );
        one["metadata"]["namespace"] = json!(format!("n{n}"));
        objects.push(one);
    }
    for effort in [Effort::None, Effort::Normal] {
        let (_, left) = planned(&objects, effort);
        assert_eq!(left.len(), 20, "{left:?}");
        let is_expected = |(name, why): &(String, Unfit)| {
            name.starts_with("names") && *why == excess(Part::Namespaces, 10_000)
        };
        assert!(left.iter().all(is_expected), "{left:?}");
    }
}
