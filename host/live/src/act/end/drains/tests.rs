use super::*;

fn pod(name: &str, node: &str, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"u-{name}","resourceVersion":"{version}"}},"spec":{{"nodeName":"{node}"}}}}"#
    )
}

fn listed(drains: &Drains, pods: &[(&str, u64)], version: u64) {
    drains.lists("n");
    answered(drains, pods, version);
}

fn answered(drains: &Drains, pods: &[(&str, u64)], version: u64) {
    let pods = pods
        .iter()
        .map(|(name, version)| serde_json::from_str(&pod(name, "n", *version)).unwrap())
        .collect();
    drains.listed("n", pods, &version.to_string(), Instant::now());
}

fn seen(drains: &Drains, name: &str, node: &str, version: u64) -> Vec<String> {
    drains.observe(
        ObjectKind::Pod,
        &Change::Upsert(pod(name, node, version).into()),
    )
}

fn gone(drains: &Drains, name: &str, version: u64) -> Vec<String> {
    drains.observe(
        ObjectKind::Pod,
        &Change::Remove(pod(name, "n", version).into()),
    )
}

/// Names and versions of the pods that are kept.
fn kept(drains: &Drains) -> String {
    let pods = drains.pods("n").map(|pods| {
        pods.iter()
            .map(|pod| format!("{}@{}", pod.name(), pod.version().unwrap_or(0)))
            .collect::<Vec<_>>()
            .join(" ")
    });
    pods.unwrap_or_else(|| "not listed".to_owned())
}

fn begun() -> Drains {
    let drains = Drains::default();
    drains.begin("n", "u");
    drains
}

#[test]
fn pods_are_kept_for_nodes_that_are_drained_and_for_no_others() {
    let drains = begun();
    assert_eq!(seen(&drains, "elsewhere", "m", 3), [""; 0]);
    assert_eq!(
        (seen(&drains, "a", "n", 4), kept(&drains).as_str()),
        (vec!["n".to_owned()], "not listed")
    );
    listed(&drains, &[("b", 2)], 3);
    assert_eq!(kept(&drains), "a@4 b@2", "a came after the list");
    drains.end("n");
    assert_eq!(
        (seen(&drains, "c", "n", 5), kept(&drains).as_str()),
        (vec![], "not listed")
    );
    assert!(lock(&drains.0).node_of.is_empty() && lock(&drains.0).nodes.is_empty());
}

#[test]
fn the_newer_of_two_copies_stays_wherever_it_came_from() {
    let drains = begun();
    listed(&drains, &[("a", 7), ("b", 7)], 9);
    seen(&drains, "a", "n", 5);
    assert_eq!(kept(&drains), "a@7 b@7", "the watch is late");
    seen(&drains, "a", "n", 11);
    listed(&drains, &[("a", 7)], 10);
    assert_eq!(
        kept(&drains),
        "a@11",
        "b is gone by the list, a is newer than it"
    );
    listed(&drains, &[], 12);
    assert_eq!(kept(&drains), "");
}

#[test]
fn a_pod_that_goes_while_a_list_is_under_way_is_not_kept_for_ever() {
    let drains = begun();
    drains.lists("n");
    assert_eq!(gone(&drains, "a", 6), [""; 0]);
    answered(&drains, &[("a", 3), ("b", 3)], 5);
    assert_eq!(kept(&drains), "b@3");
    assert_eq!(
        (gone(&drains, "b", 8), kept(&drains).as_str()),
        (vec!["n".to_owned()], "")
    );
}

#[test]
fn a_new_list_of_all_pods_takes_away_what_it_does_not_name() {
    let drains = begun();
    listed(&drains, &[("a", 1), ("b", 1), ("c", 1)], 2);
    drains.observe(ObjectKind::Pod, &Change::Begin);
    seen(&drains, "a", "n", 1);
    seen(&drains, "b", "m", 4);
    listed(&drains, &[("a", 1), ("d", 6)], 6);
    assert_eq!(
        drains.observe(ObjectKind::Pod, &Change::End),
        [""; 0],
        "d was listed on its own meanwhile"
    );
    assert_eq!(
        kept(&drains),
        "a@1 d@6",
        "the name of b belongs to a pod elsewhere"
    );
}

#[test]
fn another_node_of_the_name_is_another_drain() {
    let drains = begun();
    listed(&drains, &[("a", 1)], 2);
    drains.begin("n", "u");
    assert_eq!(kept(&drains), "a@1");
    drains.begin("n", "another");
    assert_eq!(kept(&drains), "not listed");
}

#[test]
fn a_node_counts_as_closed_from_when_it_was_first_seen_to_be() {
    let drains = begun();
    let start = Instant::now();
    let seen = |at: u64| {
        drains
            .seen_closed("n", start + Duration::from_secs(at))
            .as_secs()
    };
    assert_eq!([seen(1), seen(4)], [0, 3]);
    drains.begin("n", "u");
    assert_eq!(seen(6), 5);
    drains.begin("n", "another");
    assert_eq!([seen(7), seen(8)], [0, 1]);
    assert_eq!(drains.seen_closed("unknown", start), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn refusals_wait_twice_as_long_each_time() {
    let drains = begun();
    listed(&drains, &[("a", 1)], 2);
    let a = drains.pods("n").unwrap()[0].clone();
    let start = Instant::now();
    let mut asked = Vec::new();
    while start.elapsed() < Duration::from_secs(60) {
        if drains.may_ask("n", &a, PodRequest::Evict, Instant::now()) {
            asked.push(start.elapsed().as_millis());
            drains.asked("n", &a, PodRequest::Evict, Some("no"), Instant::now());
        }
        tokio::time::advance(drains.next_ask("n", Instant::now()).unwrap()).await;
    }
    assert_eq!(
        asked,
        [
            0, 100, 300, 700, 1500, 3100, 6300, 12_700, 22_700, 32_700, 42_700, 52_700
        ]
    );
    assert_eq!(
        drains.refusal("n", &a, PodRequest::Evict).as_deref(),
        Some("no")
    );
    assert!(
        drains.may_ask("n", &a, PodRequest::Delete, Instant::now()),
        "its time may be up all the same"
    );
    drains.asked("n", &a, PodRequest::Evict, None, Instant::now());
    assert_eq!(drains.refusal("n", &a, PodRequest::Evict), None);
    assert!(!drains.may_ask(
        "n",
        &a,
        PodRequest::Evict,
        Instant::now() + MAX_EVICTION_RETRY / 2
    ));
}

#[test]
fn attachments_are_known_by_node() {
    let drains = begun();
    let upsert = |name: &str, node: &str| {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}","source":{{"persistentVolumeName":"pv-{name}"}}}}}}"#
        );
        drains.observe(ObjectKind::VolumeAttachment, &Change::Upsert(json.into()))
    };
    let names = |node: &str| {
        drains
            .attachments(node)
            .iter()
            .map(|a| a.name.clone())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        (upsert("a", "n"), upsert("b", "n"), upsert("c", "m")),
        (vec!["n".into()], vec!["n".into()], vec![])
    );
    assert_eq!((names("n").as_str(), names("m").as_str()), ("a b", "c"));
    assert_eq!(drains.attachments("m")[0].volume.as_deref(), Some("pv-c"));
    let gone = drains.observe(
        ObjectKind::VolumeAttachment,
        &Change::Remove(r#"{"metadata":{"name":"a"}}"#.into()),
    );
    assert_eq!((gone, names("n").as_str()), (vec!["n".to_owned()], "b"));
    drains.observe(ObjectKind::VolumeAttachment, &Change::Begin);
    upsert("c", "m");
    assert_eq!(
        drains.observe(ObjectKind::VolumeAttachment, &Change::End),
        ["n"]
    );
    assert_eq!((names("n").as_str(), names("m").as_str()), ("", "c"));
}
