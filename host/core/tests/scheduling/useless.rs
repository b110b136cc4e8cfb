//! Purchases that did not help are not made again: by the NodeClaims while they are there, by what
//! NodePools remember afterwards.

use std::sync::Arc;

use longshore_core::model::Settings;
use longshore_core::model::purchases::{BOUGHT_GIVEN, UNJOINED, USELESS};
use longshore_core::plan::{Effort, Unfit};
use longshore_core::planner::{self, PlanOptions};
use longshore_core::policy::ByPrice;
use longshore_core::reasons::{FullMemory, Ineligible};
use longshore_core::snapshot::Snapshot;
use longshore_core::snapshot::useless_purchases::{given_now, given_of, remember};
use serde_json::{Value, json};

use super::{any, merge, node, plan, pod, pool, running, world};

/// 2026-11-01T00:10:00Z; nodes were ready at 00:09:00, a minute ago.
const NOW: i64 = 1_793_491_800;

/// A pod that no existing node takes: it asks for a label that they lack.
fn picky(name: &str) -> Value {
    let mut pod = pod(
        name,
        "web",
        "1",
        "1Gi",
        &json!({"nodeSelector": {"team": "a"}}),
    );
    merge(
        &mut pod,
        &json!({"metadata": {"creationTimestamp": "2026-11-01T00:07:00Z"}}),
    );
    pod
}

fn team() -> Value {
    let team = json!([{"key": "team", "operator": "In", "values": ["a"]}]);
    pool("default", team, &json!({}))
}

/// A node that was bought for pods and that lacks the label `team` all the same, with its claim.
fn bought(pods: &str) -> [Value; 2] {
    let mut node = node("n", "a", "4", "16Gi");
    let labels = json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
    });
    merge(
        &mut node,
        &json!({"metadata": {"labels": labels}, "spec": {"providerID": "kwok://n"}}),
    );
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let room = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "default-bcd", "labels": {"karpenter.sh/nodepool": "default"},
            "creationTimestamp": "2026-11-01T00:08:00Z",
            "annotations": {"longshore.dev/planned-pods": pods},
        },
        "spec": {"requirements": [], "nodeClassRef": class},
        "status": {
            "providerID": "kwok://n", "nodeName": "n", "capacity": room, "allocatable": room,
            "conditions": [
                {"type": "Registered", "status": "True", "lastTransitionTime": "2026-11-01T00:09:00Z"},
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-01T00:09:00Z"},
            ],
        },
    });
    [node, claim]
}

fn snapshot(objects: &[Value]) -> Snapshot {
    snapshot_at(objects, NOW)
}

fn snapshot_at(objects: &[Value], now: i64) -> Snapshot {
    let mut world = world(objects, Settings::default());
    world.now = now;
    Snapshot::new(Arc::new(world))
}

/// How many nodes are bought, and why not for the others.
fn outcome(snapshot: &Snapshot) -> String {
    let options = PlanOptions {
        effort: Effort::Normal,
        seed: 1,
    };
    let plan = planner::plan(snapshot, &ByPrice, options).unwrap();
    let mut text = format!("{} bought", plan.claims.len());
    for left in &plan.unplaced {
        let name = &snapshot.world.pods[left.pod.0 as usize].name;
        match &left.refusals[0].unfit {
            Unfit::UselessPurchase(useless) => {
                let seconds = useless.until - NOW;
                text += &format!(
                    ", {name}: {} {} times, {seconds} s",
                    useless.claim, useless.times
                );
            }
            other => text += &format!(", {name}: {other:?}"),
        }
    }
    text
}

/// The annotation that the NodePool `default` gets.
fn remembered(snapshot: &Snapshot) -> Option<String> {
    let found = &snapshot.useless.found;
    remember(&snapshot.world, found, &snapshot.world.pools[0])
}

/// A NodePool with an annotation, and a pod like the one that was bought for.
fn remembering(annotation: &str, text: &str) -> [Value; 2] {
    let mut pool = team();
    merge(
        &mut pool,
        &json!({"metadata": {"annotations": {annotation: text}}}),
    );
    [pool, picky("b")]
}

#[test]
fn nothing_is_bought_again_for_pods_that_a_ready_node_with_room_did_not_help() {
    let [node, claim] = bought("default/a");
    let found = snapshot(&[team(), picky("a"), node.clone(), claim.clone()]);
    // Ready at 00:09:00, 30 seconds to settle, five minutes of back-off.
    assert_eq!(outcome(&found), "0 bought, a: default-bcd 1 times, 270 s");
    assert_eq!(found.useless.found.len(), 1);
    let others = [team(), picky("other"), node, claim];
    assert_eq!(
        outcome(&snapshot(&others)),
        "1 bought",
        "it was bought for another"
    );
}

#[test]
fn another_pod_of_the_same_group_waits_too_and_an_ordinary_one_gets_its_node() {
    let [node, claim] = bought("default/a");
    let big = pod("big", "web", "6", "1Gi", &json!({}));
    let objects = [team(), picky("a"), picky("b"), big, node, claim];
    assert_eq!(
        outcome(&snapshot(&objects)),
        "1 bought, a: default-bcd 1 times, 270 s, b: default-bcd 1 times, 270 s"
    );
}

#[test]
fn it_is_no_useless_purchase_while_kube_scheduler_is_at_it_or_others_took_the_room() {
    let [node, claim] = bought("default/a");
    let early = [
        team(),
        picky("a"),
        picky("other"),
        node.clone(),
        claim.clone(),
    ];
    let early = snapshot_at(&early, NOW - 31);
    assert_eq!(
        outcome(&early),
        "1 bought, a: default-bcd 0 times, -30 s",
        "it is waited for, and not by others"
    );
    assert!(early.useless.found.is_empty());
    let mut large = running("large", "other", "n", &json!({}));
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
    let taken = [team(), picky("a"), large, node.clone(), claim.clone()];
    assert_eq!(
        outcome(&snapshot(&taken)),
        "1 bought",
        "somebody took the room"
    );
    let mut sister = picky("sister");
    sister["spec"]["nodeName"] = json!("n");
    sister["status"] = json!({"phase": "Running", "startTime": "2026-11-01T00:09:20Z"});
    let helped = [team(), picky("a"), sister, node.clone(), claim.clone()];
    assert_eq!(
        outcome(&snapshot(&helped)),
        "1 bought",
        "a pod of the group was bound since"
    );
    let mut daemon = running("agent", "agent", "n", &json!({}));
    daemon["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": true}]);
    merge(
        &mut daemon,
        &json!({"metadata": {"ownerReferences": owner}}),
    );
    let crowded = [team(), picky("a"), daemon, node, claim];
    assert_eq!(
        outcome(&snapshot(&crowded)),
        "0 bought, a: default-bcd 1 times, 270 s",
        "daemons run on the next node too"
    );
}

#[test]
fn a_pod_of_the_same_name_that_came_later_was_not_bought_for() {
    let [node, claim] = bought("default/a");
    let mut later = picky("a");
    merge(
        &mut later,
        &json!({"metadata": {"creationTimestamp": "2026-11-01T00:09:30Z"}}),
    );
    assert_eq!(
        outcome(&snapshot(&[team(), later, node, claim])),
        "1 bought"
    );
}

#[test]
fn a_nodepool_remembers_it_when_the_node_is_gone_until_the_back_off_has_passed() {
    let [node, claim] = bought("default/a");
    let text = remembered(&snapshot(&[team(), picky("a"), node, claim])).unwrap();
    let known = remembering(USELESS, &text);
    assert_eq!(
        outcome(&snapshot(&known)),
        "0 bought, b: default-bcd 1 times, 270 s"
    );
    assert_eq!(remembered(&snapshot(&known)), None, "nothing new");
    assert_eq!(outcome(&snapshot_at(&known, NOW + 270)), "1 bought");
    let old = snapshot_at(&known, NOW + 270 + 3600);
    assert_eq!(
        remembered(&old),
        None,
        "that it is old is no reason to write"
    );
    let mut helped = picky("sister");
    helped["spec"]["nodeName"] = json!("elsewhere");
    helped["status"] = json!({"phase": "Running", "startTime": "2026-11-01T00:09:40Z"});
    let [pool, waiting] = known;
    let made = |at: &str| {
        let mut node = super::node("elsewhere", "a", "4", "16Gi");
        merge(&mut node, &json!({"metadata": {"creationTimestamp": at}}));
        let objects = [pool.clone(), waiting.clone(), helped.clone(), node];
        remembered(&snapshot(&objects))
    };
    assert_eq!(made("2026-11-01T00:08:30Z").as_deref(), Some(""));
    assert_eq!(made("2026-11-01T00:07:59Z"), None, "it is older");
}

#[test]
fn the_next_purchase_in_vain_is_put_off_twice_as_long() {
    let [node, claim] = bought("default/a");
    let once = snapshot(&[team(), picky("a"), node.clone(), claim.clone()]);
    let text = remembered(&once).unwrap();
    let [pool, _] = remembering(USELESS, &text);
    let mut again = claim;
    merge(
        &mut again,
        &json!({"metadata": {"name": "default-xyz", "creationTimestamp": "2026-11-01T00:16:00Z"}}),
    );
    for condition in again["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = json!("2026-11-01T00:17:00Z");
    }
    let twice = snapshot_at(&[pool, picky("a"), node, again], NOW + 480);
    assert_eq!(
        outcome(&twice),
        "0 bought, a: default-xyz 2 times, 1050 s",
        "from 00:17:30 on for ten minutes"
    );
    assert!(remembered(&twice).unwrap().contains(",2,"));
}

#[test]
fn a_change_of_the_pod_or_a_nodepool_ends_it() {
    let [node, claim] = bought("default/a");
    let text = remembered(&snapshot(&[
        team(),
        picky("a"),
        node.clone(),
        claim.clone(),
    ]))
    .unwrap();
    let [known, _] = remembering(USELESS, &text);
    let with = |pool: &Value, pod: Value| {
        outcome(&snapshot(&[pool.clone(), pod, node.clone(), claim.clone()]))
    };
    assert_eq!(
        with(&known, picky("a")),
        "0 bought, a: default-bcd 1 times, 270 s"
    );
    let mut larger = picky("a");
    larger["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    assert_eq!(
        outcome(&snapshot(&[known.clone(), larger])),
        "1 bought",
        "another pod"
    );
    let mut edited = known.clone();
    merge(&mut edited, &json!({"metadata": {"generation": 2}}));
    assert_eq!(
        with(&edited, picky("a")),
        "1 bought",
        "the NodePool was edited"
    );
}

#[test]
fn a_label_that_comes_late_ends_no_pause() {
    let [mut node, mut claim] = bought("default/a");
    let found = snapshot(&[team(), picky("a"), node.clone(), claim.clone()]);
    let [known, _] = remembering(USELESS, &remembered(&found).unwrap());
    let late = json!({"topology.ebs.csi.aws.com/zone": "test-zone-a"});
    merge(&mut node, &json!({"metadata": {"labels": late}}));
    let objects = [known.clone(), picky("a"), node.clone(), claim.clone()];
    let relabelled = snapshot(&objects);
    assert_eq!(
        outcome(&relabelled),
        "0 bought, a: default-bcd 1 times, 270 s"
    );
    assert_eq!(remembered(&relabelled), None);
    // Nor do those that the node gets while it drains.
    let label = json!({"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"});
    merge(&mut node, &json!({"metadata": {"labels": label}}));
    let goes = json!({"metadata": {"deletionTimestamp": "2026-11-01T00:09:50Z"}});
    merge(&mut claim, &goes);
    assert_eq!(
        outcome(&snapshot(&[
            known.clone(),
            picky("a"),
            node.clone(),
            claim.clone()
        ])),
        "0 bought, a: default-bcd 1 times, 270 s"
    );
    // kube-scheduler was pleased by the label: the next pod gets a node.
    let mut helped = picky("sister");
    helped["spec"]["nodeName"] = json!("n");
    helped["status"] = json!({"phase": "Running", "startTime": "2026-11-01T00:09:50Z"});
    assert_eq!(
        outcome(&snapshot(&[known, picky("a"), helped, node, claim])),
        "1 bought"
    );
}

#[test]
fn a_node_stays_until_it_is_plain_whether_it_helps() {
    let [node, claim] = bought("default/a");
    let mut objects = [team(), picky("a"), node, claim];
    let awaited = |objects: &[Value], now: i64| {
        let of = snapshot_at(objects, now);
        let all = of.useless.awaited().iter();
        all.map(|(node, _)| of.world.names.text(*node).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(awaited(&objects, NOW - 31), ["n"]);
    // Nothing but the node shows it.
    assert_eq!(awaited(&objects, NOW - 30), ["n"]);
    let text = remembered(&snapshot_at(&objects, NOW - 30)).unwrap();
    let [pool, _] = remembering(USELESS, &text);
    objects[0] = pool;
    assert_eq!(awaited(&objects, NOW - 30), [""; 0]);
}

#[test]
fn a_node_that_goes_shows_nothing() {
    let [node, claim] = bought("default/a");
    let found = |patch: &Value| {
        let mut claim = claim.clone();
        merge(&mut claim, patch);
        let found = snapshot(&[team(), picky("a"), node.clone(), claim]);
        found.useless.found.len()
    };
    assert_eq!(found(&json!({})), 1);
    let goes = json!({"metadata": {"deletionTimestamp": "2026-11-01T00:09:50Z"}});
    assert_eq!(found(&goes), 0);
    let command = json!({"metadata": {"annotations": {"longshore.dev/disruption": "d1"}}});
    assert_eq!(found(&command), 0);
}

/// A pod with a claim, the claim, and its volume if it is bound in a zone.
fn with_volume(name: &str, zone: Option<&str>) -> Vec<Value> {
    let mut pod = picky(name);
    let claim = format!("data-{name}");
    pod["spec"]["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]);
    let meta = json!({"name": claim, "namespace": "default"});
    let modes = json!(["ReadWriteOnce"]);
    let mut spec = json!({
        "storageClassName": "gp3", "accessModes": modes, "resources": {"requests": {"storage": "1Gi"}},
    });
    let volume = format!("pv-{name}");
    if zone.is_some() {
        spec["volumeName"] = json!(volume);
    }
    let phase = if zone.is_some() { "Bound" } else { "Pending" };
    let mut all = vec![
        pod,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec,
            "status": {"phase": phase},
        }),
    ];
    if let Some(zone) = zone {
        let here =
            json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]);
        all.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {
                "storageClassName": "gp3", "accessModes": modes, "capacity": {"storage": "1Gi"},
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": volume},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}},
            },
        }));
    }
    all
}

#[test]
fn pods_whose_volumes_are_elsewhere_are_of_another_group() {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let [node, claim] = bought("default/a");
    let world = |pool: Value, sets: &[Vec<Value>]| -> Vec<Value> {
        let pods = sets.iter().flatten().cloned();
        [pool, class.clone(), node.clone(), claim.clone()]
            .into_iter()
            .chain(pods)
            .collect()
    };
    let here = |name: &str| with_volume(name, Some("a"));
    let found = snapshot(&world(team(), &[here("a")]));
    assert_eq!(outcome(&found), "0 bought, a: default-bcd 1 times, 270 s");
    let [known, _] = remembering(USELESS, &remembered(&found).unwrap());
    let with = |set: Vec<Value>| outcome(&snapshot(&world(known.clone(), &[set])));
    assert_eq!(with(here("b")), "0 bought, b: default-bcd 1 times, 270 s");
    assert_eq!(with(with_volume("b", Some("b"))), "1 bought");
    assert_eq!(with(with_volume("b", None)), "1 bought");
    assert_eq!(with(vec![picky("b")]), "1 bought", "without a volume");

    // Volumes that are made when a pod is placed: what is so placed ends the pause of the others.
    let found = snapshot(&world(team(), &[with_volume("a", None)]));
    let [known, _] = remembering(USELESS, &remembered(&found).unwrap());
    let waits = with_volume("b", None);
    assert_eq!(
        outcome(&snapshot(&world(
            known.clone(),
            std::slice::from_ref(&waits)
        ))),
        "0 bought, b: default-bcd 1 times, 270 s"
    );
    let mut placed = here("sister");
    placed[0]["spec"]["nodeName"] = json!("n");
    placed[0]["status"] = json!({"phase": "Running", "startTime": "2026-11-01T00:09:40Z"});
    assert_eq!(
        outcome(&snapshot(&world(known, &[waits, placed]))),
        "1 bought"
    );
}

/// Pods of many groups, and a node each that was bought in vain.
fn many(groups: usize, name: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for number in 0..groups {
        let mut pod = picky(&format!("p{number}"));
        let memory = format!("{}Mi", 100 + number);
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory.into();
        let [mut node, mut claim] = bought(&format!("default/p{number}"));
        let (host, id) = (format!("n{number}"), format!("kwok://n{number}"));
        node["metadata"]["name"] = json!(host);
        node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(host);
        node["spec"]["providerID"] = json!(id);
        claim["metadata"]["name"] = json!(format!("{name}-{number:04}"));
        claim["status"]["nodeName"] = json!(host);
        claim["status"]["providerID"] = json!(id);
        all.extend([pod, node, claim]);
    }
    all
}

/// Objects of `many` without the nodes.
fn pods_of(many: &[Value]) -> impl Iterator<Item = Value> {
    let pods = many.iter().filter(|of| of["kind"] == "Pod").cloned();
    pods.collect::<Vec<_>>().into_iter()
}

#[test]
fn five_hundred_groups_are_remembered() {
    let many = many(500, "default");
    let objects: Vec<Value> = [team()].into_iter().chain(many.iter().cloned()).collect();
    let text = remembered(&snapshot(&objects)).unwrap();
    assert!(text.len() < 64 * 1024, "{} bytes", text.len());
    let [known, _] = remembering(USELESS, &text);
    let later: Vec<Value> = [known.clone()].into_iter().chain(pods_of(&many)).collect();
    assert!(outcome(&snapshot(&later)).starts_with("0 bought, "));
    let ordinary = pod("big", "web", "6", "1Gi", &json!({}));
    let beside: Vec<Value> = later.into_iter().chain([ordinary]).collect();
    assert!(outcome(&snapshot(&beside)).starts_with("1 bought, "));
}

#[test]
fn a_nodepool_that_can_remember_no_more_is_bought_from_when_a_pause_has_passed() {
    // A name that is as long as it may be.
    let long = "x".repeat(58);
    let many = many(900, &long);
    let objects: Vec<Value> = [team()].into_iter().chain(many.iter().cloned()).collect();
    let text = remembered(&snapshot(&objects)).unwrap();
    assert!(text.len() <= 96 * 1024, "{} bytes", text.len());
    let groups = text.split(';').count();
    assert!((600..900).contains(&groups), "{groups} groups");
    let [known, _] = remembering(USELESS, &text);
    // Nothing is bought for those that have found no place either.
    let later: Vec<Value> = [known.clone()].into_iter().chain(pods_of(&many)).collect();
    let full = snapshot(&later);
    assert!(outcome(&full).starts_with("0 bought, "));
    let why = full.ineligible_pools.iter().map(|(_, why)| why.clone());
    let memory = FullMemory {
        groups: groups as u32,
        until: NOW + 270,
    };
    assert_eq!(why.collect::<Vec<_>>(), [Ineligible::FullMemory(memory)]);
    let passed = snapshot_at(&later, NOW + 270);
    assert!(passed.ineligible_pools.is_empty());
    // An edited NodePool begins anew.
    let mut edited = known;
    merge(&mut edited, &json!({"metadata": {"generation": 2}}));
    assert!(snapshot(&[edited, picky("b")]).ineligible_pools.is_empty());
    // What is new takes the place of no pause that runs.
    let [pool, _] = remembering(USELESS, &text);
    let again: Vec<Value> = [pool].into_iter().chain(many.iter().cloned()).collect();
    assert_eq!(remembered(&snapshot(&again)), None);
}

#[test]
fn a_node_that_was_bought_before_a_nodepool_was_edited_says_nothing_of_what_is_bought_now() {
    let [node, mut claim] = bought("default/a");
    let before = given_now(&snapshot(&[team()]).world);
    let given = json!({BOUGHT_GIVEN: format!("{before:016x}")});
    merge(&mut claim, &json!({"metadata": {"annotations": given}}));
    let objects = |pool: Value| [pool, picky("a"), node.clone(), claim.clone()];
    assert_eq!(
        outcome(&snapshot(&objects(team()))),
        "0 bought, a: default-bcd 1 times, 270 s"
    );
    let mut edited = team();
    merge(&mut edited, &json!({"metadata": {"generation": 2}}));
    assert_eq!(outcome(&snapshot(&objects(edited))), "1 bought");
}

#[test]
fn pods_that_wait_in_vain_may_still_go_to_a_node_that_exists() {
    let [node, claim] = bought("default/a");
    let text = remembered(&snapshot(&[team(), picky("a"), node.clone(), claim])).unwrap();
    let [known, pod] = remembering(USELESS, &text);
    let mut suits = node;
    merge(&mut suits, &json!({"metadata": {"labels": {"team": "a"}}}));
    assert_eq!(outcome(&snapshot(&[known, pod, suits])), "0 bought");
}

#[test]
fn jobs_and_rollouts_make_pods_of_the_same_group() {
    let [node, claim] = bought("default/a");
    let text = remembered(&snapshot(&[team(), picky("a"), node, claim])).unwrap();
    let [known, mut pod] = remembering(USELESS, &text);
    let labels = json!({"batch.kubernetes.io/job-name": "b", "pod-template-hash": "7"});
    merge(&mut pod, &json!({"metadata": {"labels": labels}}));
    assert_eq!(
        outcome(&snapshot(&[known.clone(), pod.clone()])),
        "0 bought, b: default-bcd 1 times, 270 s"
    );
    let own = json!({"app": "another", "example.com/run": "r-17"});
    merge(&mut pod, &json!({"metadata": {"labels": own}}));
    assert_eq!(
        outcome(&snapshot(&[known.clone(), pod.clone()])),
        "0 bought, b: default-bcd 1 times, 270 s",
        "no rule of its own reads the labels"
    );
    let keeps_away = |app: &str| {
        let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}},
        ]}}});
        let reader = running("reader", "reader", "n2", &apart);
        let n2 = super::node("n2", "a", "4", "16Gi");
        outcome(&snapshot(&[known.clone(), pod.clone(), n2, reader]))
    };
    let others = keeps_away("x");
    assert_eq!(
        others, "0 bought, b: default-bcd 1 times, 270 s",
        "a rule about others"
    );
    assert_eq!(keeps_away("another"), "1 bought", "a rule keeps it away");
}

#[test]
fn static_pods_and_what_comes_with_every_node_take_no_room_for_long() {
    let [node, claim] = bought("default/a");
    let mut on_it = running("agent", "agent", "n", &json!({}));
    on_it["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
    let mut mirror = on_it.clone();
    let config = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    merge(&mut mirror, &config);
    let objects = [team(), picky("a"), mirror, node.clone(), claim.clone()];
    assert_eq!(
        outcome(&snapshot(&objects)),
        "0 bought, a: default-bcd 1 times, 270 s",
        "the next node has the static pod too"
    );
    // Others may take the room by chance, twice in a row.
    let after = |times: u32| {
        let mut pool = team();
        let world = snapshot(&[team()]).world;
        let (group, given) = (group_of_picky(), given_now(&world));
        let (at, claim_at) = (NOW - 600, NOW - 660);
        let known = format!("{group:016x},{times},{at},{at},{claim_at},default-old,{given:016x}");
        merge(
            &mut pool,
            &json!({"metadata": {"annotations": {USELESS: known}}}),
        );
        let objects = [pool, picky("a"), on_it.clone(), node.clone(), claim.clone()];
        outcome(&snapshot(&objects))
    };
    assert_eq!(after(1), "1 bought");
    assert_eq!(after(2), "0 bought, a: default-bcd 3 times, 270 s");
}

/// The group of [`picky`] pods, as a NodePool remembers it.
fn group_of_picky() -> u64 {
    let [node, claim] = bought("default/a");
    let snapshot = snapshot(&[team(), picky("a"), node, claim]);
    snapshot.useless.found[0].entry.group
}

/// A claim that was bought for a pod so many seconds ago, with the conditions named; its node has joined
/// if it is Registered, and is not ready.
fn unready(pod: &str, ago: i64, conditions: &[&str]) -> Vec<Value> {
    let mut objects = not_ready(&[ago]);
    let claim = &mut objects[1];
    claim["metadata"]["annotations"]["longshore.dev/planned-pods"] =
        format!("default/{pod}").into();
    let all = conditions.iter().map(|kind| {
        json!({"type": kind, "status": "True", "lastTransitionTime": claim["metadata"]["creationTimestamp"]})
    });
    claim["status"]["conditions"] = all.collect();
    if !conditions.contains(&"Registered") {
        objects.remove(0);
    }
    objects
}

/// A pod that has waited since before any of these nodes was bought.
fn old(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name, "web", cpu, "1Gi", &json!({}));
    let made = json!({"metadata": {"creationTimestamp": "2026-10-31T23:00:00Z"}});
    merge(&mut pod, &made);
    pod
}

#[test]
fn a_node_that_does_not_get_ready_was_bought_in_vain_for_its_pods_and_for_no_others() {
    let bought = |ago: i64, conditions: &[&str]| {
        let objects = [any(), old("gpu", "7"), old("plain", "1")];
        let objects = [&objects[..], &unready("gpu", ago, conditions)].concat();
        outcome(&snapshot(&objects))
    };
    let joined = ["Launched", "Registered"];
    assert_eq!(bought(640, &joined), "1 bought, gpu: late-0 1 times, 290 s");
    assert_eq!(bought(929, &joined), "1 bought, gpu: late-0 1 times, 1 s");
    assert!(!bought(930, &joined).contains("gpu"), "the pause is over");
    let unjoined = bought(640, &["Launched"]);
    assert!(
        !unjoined.contains("gpu"),
        "that counts for its NodePool: {unjoined}"
    );
}

#[test]
fn nodes_that_do_not_get_ready_for_one_group_do_not_stop_the_nodepool() {
    let stops = |bought_for: [&str; 3]| {
        let mut late = not_ready(&[800, 700, 601]);
        for (claim, pod) in late
            .iter_mut()
            .filter(|of| of["kind"] == "NodeClaim")
            .zip(bought_for)
        {
            let planned = format!("default/{pod}");
            claim["metadata"]["annotations"]["longshore.dev/planned-pods"] = planned.into();
        }
        let waiting = [old("a", "7"), old("b", "7"), old("c", "6")];
        let found = snapshot(&[&[any()][..], &waiting, &late].concat());
        let never = |why: &Ineligible| matches!(why, Ineligible::NeverJoined(_));
        found.ineligible_pools.iter().any(|(_, why)| never(why))
    };
    assert!(!stops(["a", "b", "a"]), "all are of one group");
    assert!(stops(["a", "b", "c"]));
    assert!(
        stops(["gone", "gone", "gone"]),
        "the pods that they were bought for are gone"
    );
}

#[test]
fn a_nodeclaim_whose_end_is_held_up_does_not_keep_a_nodepool_from_trying_a_node() {
    let large = |name: &str| pod(name, "web", "7", "1Gi", &json!({}));
    let [_, mut claim] = bought("default/c");
    claim["status"] = json!({});
    let goes = |created: &str| {
        let mut claim = claim.clone();
        let metadata = json!({
            "creationTimestamp": created, "deletionTimestamp": "2026-11-01T00:00:50Z",
        });
        merge(&mut claim, &json!({"metadata": metadata}));
        outcome(&snapshot(&[unjoined(3, 0), large("a"), claim]))
    };
    assert!(goes("2026-10-31T23:10:01Z").starts_with("0 bought"));
    assert!(goes("2026-10-31T23:10:00Z").starts_with("1 bought"));
}

#[test]
fn a_static_nodepool_that_is_scaled_ends_no_pause() {
    let [node, claim] = bought("default/a");
    let mut fixed = pool("fixed", json!([]), &json!({"replicas": 1}));
    let objects = |fixed: &Value| {
        [
            team(),
            picky("a"),
            node.clone(),
            claim.clone(),
            fixed.clone(),
        ]
    };
    let given = given_now(&snapshot(&objects(&fixed)).world);
    merge(
        &mut fixed,
        &json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}}),
    );
    assert_eq!(given, given_now(&snapshot(&objects(&fixed)).world));
}

/// A NodePool whose last nodes never joined, `until` so many seconds from now.
fn unjoined(nodes: u32, until: i64) -> Value {
    let world = snapshot(&[any()]).world;
    let given = given_of(&world, &world.pools[0]);
    let mut pool = any();
    let text = format!("{nodes},1,{},{given:016x}", NOW + until);
    merge(
        &mut pool,
        &json!({"metadata": {"annotations": {UNJOINED: text}}}),
    );
    pool
}

#[test]
fn a_nodepool_whose_nodes_never_join_is_left_alone_and_others_go_on() {
    let waits = |pool: Value| {
        let found = snapshot(&[pool, pod("a", "web", "1", "1Gi", &json!({}))]);
        let why = found
            .ineligible_pools
            .iter()
            .find_map(|(_, why)| match why {
                Ineligible::NeverJoined(backoff) => Some(backoff.until - NOW),
                _ => None,
            });
        (why, outcome(&found).starts_with("1 bought"))
    };
    assert_eq!(waits(unjoined(2, 100)), (None, true), "two may be chance");
    assert_eq!(waits(unjoined(3, 100)), (Some(100), false));
    let mut edited = unjoined(3, 100);
    merge(&mut edited, &json!({"metadata": {"generation": 2}}));
    assert_eq!(waits(edited), (None, true), "it was edited since");
    let objects = [
        unjoined(3, 100),
        pool("other", json!([]), &json!({})),
        pod("a", "web", "1", "1Gi", &json!({})),
    ];
    assert!(plan(&objects).contains("other"), "{}", plan(&objects));
}

#[test]
fn after_its_pause_a_nodepool_tries_one_node() {
    let large = |name: &str| pod(name, "web", "7", "1Gi", &json!({}));
    let two = [unjoined(3, 0), large("a"), large("b")];
    assert!(outcome(&snapshot(&two)).starts_with("1 bought"));
    let [_, mut claim] = bought("default/c");
    claim["status"] = json!({});
    let tried = [unjoined(3, 0), large("a"), claim.clone()];
    assert!(outcome(&snapshot(&tried)).starts_with("0 bought"));
    let goes = json!({"metadata": {"deletionTimestamp": "2026-11-01T00:09:50Z"}});
    merge(&mut claim, &goes);
    let goes = [unjoined(3, 0), large("a"), claim];
    assert!(outcome(&snapshot(&goes)).starts_with("0 bought"));
}

#[test]
fn after_the_back_off_a_node_is_bought_for_one_pod_of_the_group() {
    let found = snapshot(
        &[
            &[team(), picky("a"), picky("b")][..],
            &bought("default/a,default/b"),
        ]
        .concat(),
    );
    let text = remembered(&found).unwrap();
    let later = |others: &[Value]| {
        let [pool, b] = remembering(USELESS, &text);
        let objects = [&[pool, b, picky("a"), picky("c")][..], others].concat();
        outcome(&snapshot_at(&objects, NOW + 271))
    };
    let text_of_later = later(&[]);
    assert_eq!(
        text_of_later,
        "1 bought, b: default-bcd 1 times, 270 s, c: default-bcd 1 times, 270 s"
    );
    // The one helps: the others get theirs.
    let mut started = running(
        "d",
        "web",
        "n2",
        &json!({"spec": {"nodeSelector": {"team": "a"}}}),
    );
    let spec = picky("d")["spec"].clone();
    merge(
        &mut started,
        &json!({"spec": spec, "status": {"startTime": "2026-11-01T00:14:31Z"}}),
    );
    let mut n2 = node("n2", "a", "4", "16Gi");
    let old = later(&[n2.clone(), started.clone()]);
    assert_eq!(old, text_of_later, "an old node shows nothing of new ones");
    let made = json!({"metadata": {"creationTimestamp": "2026-11-01T00:14:00Z"}});
    merge(&mut n2, &made);
    let text = later(&[n2, started]);
    assert!(!text.contains("default-bcd"), "{text}");
}

/// Claims of the NodePool with Nodes that have joined and are not ready, made so many seconds ago.
fn not_ready(ages: &[i64]) -> Vec<Value> {
    let at = |ago: i64| {
        let (day, second) = match 600 - ago {
            second @ 0.. => ("2026-11-01", second),
            second => ("2026-10-31", second + 86_400),
        };
        let (hour, minute) = (second / 3600, second / 60 % 60);
        format!("{day}T{hour:02}:{minute:02}:{:02}Z", second % 60)
    };
    let objects = ages.iter().enumerate().flat_map(|(number, &ago)| {
        let [mut node, mut claim] = bought("default/x");
        let (name, id) = (format!("late-{number}"), format!("kwok://late-{number}"));
        let taints = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        merge(
            &mut node,
            &json!({
                "metadata": {"name": name, "creationTimestamp": at(ago), "labels": {
                    "kubernetes.io/hostname": name, "karpenter.sh/initialized": "false"}},
                "spec": {"providerID": id, "taints": taints},
            }),
        );
        merge(
            &mut claim,
            &json!({"metadata": {"name": name, "creationTimestamp": at(ago)}}),
        );
        let conditions = json!([{"type": "Registered", "status": "True",
            "lastTransitionTime": at(ago)}]);
        claim["status"]["conditions"] = conditions;
        claim["status"]["providerID"] = id.into();
        claim["status"]["nodeName"] = name.into();
        [node, claim]
    });
    objects.collect()
}

#[test]
fn pods_wait_for_a_node_for_ten_minutes_and_after_three_in_vain_for_a_pause() {
    let web = pod("a", "web", "1", "1Gi", &json!({}));
    let bought = |ages: &[i64]| {
        let objects = [&[any(), web.clone()][..], &not_ready(ages)].concat();
        let found = snapshot(&objects);
        let why = found
            .ineligible_pools
            .iter()
            .find_map(|(_, why)| match why {
                Ineligible::NeverJoined(of) => Some((of.not_ready, of.until - NOW)),
                _ => None,
            });
        (outcome(&found).starts_with("1 bought"), why)
    };
    assert_eq!(bought(&[600]), (false, None), "the pod has room on it");
    assert_eq!(bought(&[601]), (true, None));
    assert_eq!(bought(&[700, 601]), (true, None), "two may be chance");
    // The newest had ten minutes, and the pause lasts five.
    assert_eq!(bought(&[800, 700, 601]), (false, Some((3, 299))));
    assert_eq!(bought(&[1100, 1000, 901]), (true, None), "one is tried");
    // It is waited for.
    assert_eq!(bought(&[1100, 1000, 901, 600]), (false, Some((3, -1))));
    // Nodes that have all they need are initialized when the daemon is at it again.
    let mut away = [&[any(), web.clone()][..], &not_ready(&[800, 700, 601])].concat();
    for node in away.iter_mut().filter(|of| of["kind"] == "Node") {
        node["spec"]["taints"] = json!([]);
    }
    assert!(outcome(&snapshot(&away)).starts_with("0 bought"));
    let ready = [
        &[any(), web.clone()][..],
        &not_ready(&[800, 700, 601]),
        &self::bought("default/x"),
    ];
    let full = pod("full", "web", "4", "1Gi", &json!({}));
    let mut full_there = full.clone();
    full_there["spec"]["nodeName"] = "n".into();
    let objects = [&ready.concat()[..], &[full_there]].concat();
    assert!(
        outcome(&snapshot(&objects)).starts_with("1 bought"),
        "a younger one is ready"
    );
}
