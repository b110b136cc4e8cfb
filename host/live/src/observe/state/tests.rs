use super::*;
use crate::observe::watch::Change;

fn pod(name: &str, node: &str) -> Change {
    let conditions = match node {
        "" => r#"[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]"#,
        _ => "[]",
    };
    Change::Upsert(
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"shop"}},"spec":{{"nodeName":"{node}","containers":[]}},
                "status":{{"phase":"Pending","conditions":{conditions}}}}}"#
        )
        .into(),
    )
}

#[test]
fn a_condition_of_a_node_turns_when_its_status_does() {
    let mut state = ClusterState::default();
    let mut turned = |status: &str, reason: &str| {
        let node = format!(
            r#"{{"metadata":{{"name":"n"}},"status":{{"conditions":[{{"type":"Ready","status":"{status}","reason":"{reason}"}}]}}}}"#
        );
        state.fold(ObjectKind::Node, &Change::Upsert(node.into()));
        let turned = state.changes.conditions().into_iter();
        turned
            .map(|(old, new)| {
                format!(
                    "{} to {}: {}",
                    old.map_or("nothing", |old| old.status.text()),
                    new.status.text(),
                    new.reason
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(turned("False", "Starting"), ["nothing to False: Starting"]);
    assert_eq!(turned("False", "StillStarting"), [""; 0]);
    assert_eq!(
        turned("True", "KubeletReady"),
        ["False to True: KubeletReady"]
    );
    assert_eq!(
        turned("Unknown", "NodeStatusUnknown"),
        ["True to Unknown: NodeStatusUnknown"]
    );
}

#[test]
fn a_nodepool_that_counts_its_nodes_gives_nobody_a_place_but_one_that_lost_some_does() {
    let mut state = ClusterState::default();
    let mut wakes = |generation: u32, nodes: u32, ready: &str| {
        let pool = format!(
            r#"{{"metadata":{{"name":"p","generation":{generation}}},"spec":{{"template":{{"spec":{{"requirements":[],
                "nodeClassRef":{{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"c"}}}}}}}},"status":{{"nodes":{nodes},
                "conditions":[{{"type":"Ready","status":"{ready}","reason":"r","message":"","lastTransitionTime":"2026-11-01T12:00:00Z"}}]}}}}"#
        );
        let (touched, refused) = state.fold(ObjectKind::NodePool, &Change::Upsert(pool.into()));
        assert_eq!(refused.map(|r| r.why), None);
        assert!(touched.contains(&WorkItem::Pool("p".into())));
        touched.contains(&WorkItem::Pending)
    };
    assert!(wakes(1, 0, "False"), "it is new");
    assert!(wakes(1, 0, "True"), "it is ready now");
    assert!(!wakes(1, 3, "True"), "it says what was bought");
    assert!(wakes(1, 2, "True"), "there may be room below its limits");
    assert!(wakes(2, 2, "True"), "its spec is another");
    assert!(!wakes(2, 2, "True"));
}

#[test]
fn what_a_node_class_names_now_is_compared_with_its_nodeclaims_at_once() {
    let mut state = ClusterState::default();
    for (name, class) in [("old", "c"), ("other", "d")] {
        let claim = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"requirements":[],
                "nodeClassRef":{{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"{class}"}}}}}}"#
        );
        let (_, refused) = state.fold(ObjectKind::NodeClaim, &Change::Upsert(claim.into()));
        assert_eq!(refused.map(|r| r.why), None);
    }
    let mut compared = |image: &str, hash: &str, ready: &str| {
        let class = format!(
            r#"{{"metadata":{{"name":"c","annotations":{{"karpenter.k8s.aws/ec2nodeclass-hash":"{hash}"}}}},
                "status":{{"amis":[{{"id":"{image}"}}],"conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#
        );
        let (touched, _) = state.fold(ObjectKind::Ec2NodeClass, &Change::Upsert(class.into()));
        let claims = touched.into_iter();
        claims
            .filter(|item| matches!(item, WorkItem::Claim(_)))
            .collect::<Vec<_>>()
    };
    let claim = || [WorkItem::Claim("old".into())];
    assert_eq!(compared("ami-1", "a", "True"), [], "it is new here");
    assert_eq!(compared("ami-1", "a", "False"), [], "a condition alone");
    assert_eq!(compared("ami-2", "a", "False"), claim(), "another image");
    assert_eq!(compared("ami-2", "b", "False"), claim(), "another spec");
    assert_eq!(compared("ami-2", "b", "False"), []);
}

#[test]
fn a_pod_waits_until_it_is_bound() {
    let mut state = ClusterState::default();
    assert_eq!(
        state.fold(ObjectKind::Pod, &pod("a", "")).0,
        [WorkItem::Pending]
    );
    assert_eq!(
        state.fold(ObjectKind::Pod, &pod("a", "")).0,
        [],
        "nothing new"
    );
    assert_eq!(state.pods.pending(), 1);
    assert_eq!(
        state.fold(ObjectKind::Pod, &pod("a", "n1")).0,
        [WorkItem::PodEvent("n1".into())]
    );
    assert_eq!((state.pods.pending(), state.pods.count()), (0, 1));
}

#[test]
fn a_pod_reaches_its_node_and_runs_once_each() {
    let mut state = ClusterState::default();
    let seen = |node: &str, phase: &str| {
        let pod = format!(
            r#"{{"metadata":{{"name":"a","namespace":"shop","creationTimestamp":"2026-11-01T12:00:00Z"}},
                "spec":{{"nodeName":"{node}","containers":[]}},"status":{{"phase":"{phase}"}}}}"#
        );
        Change::Upsert(pod.into())
    };
    let mut reached = |node: &str, phase: &str| {
        state.fold(ObjectKind::Pod, &seen(node, phase));
        state
            .pods
            .transitions()
            .into_iter()
            .map(|m| (m.what, m.created))
            .collect::<Vec<_>>()
    };
    let at = || "2026-11-01T12:00:00Z".to_owned();
    assert_eq!(reached("", "Pending"), []);
    assert_eq!(reached("n", "Pending"), [(PodStage::Bound, at())]);
    assert_eq!(reached("n", "Pending"), []);
    assert_eq!(reached("n", "Running"), [(PodStage::Running, at())]);
    assert_eq!(reached("n", "Running"), []);
    assert_eq!(size_of::<waiting::PodSummary>(), 24, "there are many");
}

#[test]
fn a_pod_is_queued_anew_when_it_was_tried_and_by_nothing_else() {
    let mut state = ClusterState::default();
    state.pods.plans_unattempted = true;
    let mut see = |name: &str, version: u32, tried: bool, nominated: &str| {
        let conditions = if tried {
            r#"{"type":"PodScheduled","status":"False","reason":"Unschedulable"}"#
        } else {
            ""
        };
        let pod = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"shop","resourceVersion":"{version}"}},"spec":{{"containers":[{{"name":"c"}}]}},
                "status":{{"phase":"Pending","conditions":[{conditions}],"nominatedNodeName":"{nominated}"}}}}"#
        );
        state.fold(ObjectKind::Pod, &Change::Upsert(pod.into()));
        state.pods.queue()[&format!("shop/{name}")]
    };
    assert_eq!((see("a", 5, false, ""), see("b", 7, false, "")), (5, 7));
    assert_eq!(see("a", 9, true, ""), 9, "tried in vain: behind b");
    assert_eq!(
        see("a", 11, true, "node"),
        9,
        "told of a node: where it was"
    );
    assert_eq!(state.pods.queue().get("shop/gone"), None);
}

#[test]
fn a_pod_that_kube_scheduler_has_not_looked_at_waits_only_where_that_is_foreseen() {
    let seen = |foresees: bool, spec: &str, status: &str| {
        let mut state = ClusterState::default();
        state.pods.plans_unattempted = foresees;
        let pod = format!(
            r#"{{"metadata":{{"name":"a","namespace":"shop"}},"spec":{{"containers":[]{spec}}},"status":{{{status}}}}}"#
        );
        state.fold(ObjectKind::Pod, &Change::Upsert(pod.into()));
        (
            state.pods.waits("shop/a"),
            state.pods.is_unattempted("shop/a"),
        )
    };
    assert_eq!(seen(true, "", ""), (true, true));
    assert_eq!(seen(false, "", ""), (false, false));
    let given_up =
        r#""conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]"#;
    assert_eq!(seen(true, "", given_up), (true, false));
    let gated =
        r#""conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]"#;
    assert_eq!(seen(true, "", gated), (false, false));
    assert_eq!(
        seen(true, r#","schedulingGates":[{"name":"quota"}]"#, ""),
        (false, false)
    );
    assert_eq!(
        seen(true, r#","schedulerName":"volcano""#, ""),
        (false, false)
    );
    assert_eq!(
        seen(true, r#","schedulerName":"default-scheduler""#, ""),
        (true, true)
    );
    assert_eq!(
        seen(true, r#","resourceClaims":[{"name":"gpu"}]"#, ""),
        (false, false)
    );
    assert_eq!(seen(true, r#","nodeName":"n""#, ""), (false, false));
}

#[test]
fn a_list_takes_away_what_it_does_not_name() {
    let mut state = ClusterState::default();
    state.fold(ObjectKind::Pod, &pod("a", "n1"));
    state.fold(ObjectKind::Pod, &pod("b", ""));
    state.fold(ObjectKind::Pod, &Change::Begin);
    state.fold(ObjectKind::Pod, &pod("a", "n1"));
    assert_eq!(
        (state.pods.pending(), state.pods.count()),
        (1, 2),
        "until the list is complete"
    );
    state.fold(ObjectKind::Pod, &Change::End);
    assert_eq!((state.pods.pending(), state.pods.count()), (0, 1));
    assert_eq!(state.freeze().world().pods.len(), 1);
}

#[test]
fn an_object_that_cannot_be_read_is_reported_and_costs_nothing_else() {
    let mut state = ClusterState::default();
    state.fold(ObjectKind::Pod, &pod("a", ""));
    let (_, refused) = state.fold(
        ObjectKind::Node,
        &Change::Upsert(r#"{"metadata":{"name":7}}"#.into()),
    );
    assert!(refused.is_some());
    let bad = r#"{"metadata":{"name":"a","namespace":"shop"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"-1"}}}]}}"#;
    let (_, refused) = state.fold(ObjectKind::Pod, &Change::Upsert(bad.into()));
    assert!(refused.unwrap().why.contains("cpu"));
    assert_eq!(state.freeze().world().pods.len(), 1);
}

/// What the state names as unreadable.
fn unreadable(state: &ClusterState) -> Vec<String> {
    let all = state.unreadable();
    all.map(|(kind, name, why)| format!("{kind:?} {name}: {why}"))
        .collect()
}

#[test]
fn a_bound_pod_that_cannot_be_read_is_a_pod_of_its_node_all_the_same() {
    let mut state = ClusterState::default();
    let seen = |cpu: &str, node: &str| {
        let pod = format!(
            r#"{{"metadata":{{"name":"a","namespace":"shop"}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c",
                "resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}},"status":{{"phase":"Running"}}}}"#
        );
        Change::Upsert(pod.into())
    };
    state.fold(ObjectKind::Pod, &seen("1", ""));
    let (_, refused) = state.fold(ObjectKind::Pod, &seen("-1", "n"));
    assert!(refused.is_some_and(|refused| refused.is_kept));
    let world = state.freeze().world();
    let [pod] = &world.pods.iter().collect::<Vec<_>>()[..] else {
        panic!("one pod")
    };
    assert_eq!(pod.node.map(|node| world.names.text(node)), Some("n"));
    assert!(pod.unreadable && pod.do_not_disrupt.holds(None, 0));
    assert_eq!(
        unreadable(&state),
        [
            "Pod shop/a: spec.containers[0].resources.requests[cpu]: quantity `-1` is negative; amounts start at 0; until then its node counts as full of cpu"
        ]
    );
    state.fold(ObjectKind::Pod, &seen("1", "n"));
    assert_eq!(unreadable(&state), [""; 0]);
    assert!(!state.freeze().world().pods[0].unreadable);
}

#[test]
fn nothing_is_bought_with_a_nodepool_that_cannot_be_read() {
    let mut state = ClusterState::default();
    let seen = |capacity: &str| {
        let pool = format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"template":{{"spec":{{
                "requirements":[{{"key":"karpenter.sh/capacity-type","operator":"In","values":["{capacity}"]}}],
                "nodeClassRef":{{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"c"}}}}}}}}}}"#
        );
        Change::Upsert(pool.into())
    };
    state.fold(ObjectKind::NodePool, &seen("spot"));
    assert_eq!(
        (state.freeze().world().pools.len(), state.pool_fault("p")),
        (1, None)
    );
    let (touched, refused) = state.fold(ObjectKind::NodePool, &seen("sopt"));
    assert!(touched.contains(&WorkItem::Pool("p".into())) && refused.is_some());
    assert_eq!(
        state.freeze().world().pools.len(),
        0,
        "not the version before"
    );
    assert_eq!(
        state.pool_fault("p"),
        Some(
            "spec.template.spec.requirements[0].values: no value is a capacity type; expected \
            on-demand, spot or reserved"
        )
    );
    let spec = &state.pools["p"].spec.template.spec.requirements;
    assert_eq!(
        spec[0].values,
        ["sopt"],
        "its status is written to the new version"
    );
    state.fold(ObjectKind::NodePool, &seen("spot"));
    assert_eq!(
        (state.freeze().world().pools.len(), state.pool_fault("p")),
        (1, None)
    );
}

#[test]
fn a_budget_that_cannot_be_read_protects_every_pod_of_its_namespace() {
    let mut state = ClusterState::default();
    let bad = r#"{"metadata":{"name":"b","namespace":"shop"},"spec":{"maxUnavailable":"some"}}"#;
    state.fold(ObjectKind::PodDisruptionBudget, &Change::Upsert(bad.into()));
    let world = state.freeze().world();
    assert!(
        world
            .budgets
            .iter()
            .all(|b| b.blocks_always && b.allowed == 0)
    );
    assert_eq!(world.budgets.iter().count(), 1);
    assert_eq!(unreadable(&state).len(), 1);
}

#[test]
fn a_node_with_an_amount_that_cannot_be_read_is_there_and_is_not_disrupted() {
    let mut state = ClusterState::default();
    let node = r#"{"metadata":{"name":"n"},"status":{"capacity":{"cpu":"4","memory":"much"}}}"#;
    state.fold(ObjectKind::Node, &Change::Upsert(node.into()));
    let world = state.freeze().world();
    assert_eq!(world.nodes[0].capacity.get(model::ResourceId::Cpu), 4000);
    let key = world.names.get("karpenter.sh/do-not-disrupt").unwrap();
    assert!(world.nodes[0].annotations.get(key).is_some());
    assert_eq!(unreadable(&state).len(), 1);
    assert!(state.nodes.contains_key("n"));
}

#[test]
fn room_of_csi_drivers_counts_once_a_driver_runs_on_a_node() {
    let mut state = ClusterState::default();
    let seen = |drivers: &str| {
        let node = format!(r#"{{"metadata":{{"name":"n"}},"spec":{{"drivers":[{drivers}]}}}}"#);
        Change::Upsert(node.into())
    };
    state.fold(ObjectKind::CsiNode, &seen(""));
    assert!(!state.has_csi_drivers());
    state.fold(ObjectKind::CsiNode, &seen(r#"{"name":"x.csi"}"#));
    assert!(state.has_csi_drivers());
    let driver = r#"{"metadata":{"name":"x.csi"},"spec":{"storageCapacity":true}}"#;
    let room = r#"{"metadata":{"name":"r","namespace":"shop"},"storageClassName":"late","capacity":"9Gi"}"#;
    state.fold(ObjectKind::CsiDriver, &Change::Upsert(driver.into()));
    state.fold(ObjectKind::CsiStorageCapacity, &Change::Upsert(room.into()));
    let count = |state: &ClusterState| {
        let world = state.freeze().world();
        (world.csi_drivers.len(), world.storage_capacities.len())
    };
    assert_eq!(count(&state), (1, 1));
    state.fold(ObjectKind::CsiStorageCapacity, &Change::Remove(room.into()));
    assert_eq!(count(&state), (1, 0));
}

#[test]
fn what_kube_scheduler_says_of_a_pod_that_waits_is_kept() {
    let mut state = ClusterState::default();
    let pod = r#"{"metadata":{"name":"a","namespace":"shop","uid":"u-1"},"spec":{"containers":[]},"status":{"conditions":
            [{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available."}]}}"#;
    state.fold(ObjectKind::Pod, &Change::Upsert(pod.into()));
    assert_eq!(
        state.pods.words_of_scheduler("shop/a"),
        "0/3 nodes are available."
    );
    assert_eq!(state.pods.words_of_scheduler("shop/b"), "");
}
