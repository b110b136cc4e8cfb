//! What keeps nodes where replacements did not become ready, and where Karpenter keeps them: nodes that
//! are not initialised, back-off, budgets, contents of a node.

use longshore_core::disrupt::methods::Verdict;
use longshore_core::disrupt::proposals::{self, Why};
use longshore_core::disrupt::verdicts::{Method, Stays};
use serde_json::{Value, json};

use super::{TIME, name, names, node, of, pod, pool, round, snapshot};

const FAILURES: &str = "longshore.dev/disruption-failures";
/// Seconds since 1970 of [`TIME`].
const NOW: i64 = 1_795_521_600;

fn condition(items: &mut [Value], node: &str, condition: &str) {
    let claim = of(items, "NodeClaim", &format!("claim-{node}"));
    let new = json!({"type": condition, "status": "True", "lastTransitionTime": TIME, "reason": condition, "message": ""});
    claim["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(new);
}

fn without(items: &mut [Value], node: &str, condition: &str) {
    let claim = of(items, "NodeClaim", &format!("claim-{node}"));
    let conditions = claim["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|known| known["type"] != condition);
}

/// A node that joined and is not initialised; its NodeClaim was created then.
fn coming(items: &mut Vec<Value>, name: &str, kind: &str, created: &str) {
    items.extend(node(name, kind, "a"));
    without(items, name, "Initialized");
    without(items, name, "Consolidatable");
    let labels = &mut of(items, "Node", name)["metadata"]["labels"];
    labels
        .as_object_mut()
        .unwrap()
        .remove("karpenter.sh/initialized");
    of(items, "NodeClaim", &format!("claim-{name}"))["metadata"]["creationTimestamp"] =
        created.into();
}

/// What a round does, a line for each proposal, and why nodes stay that drifted.
fn found(items: &[Value]) -> String {
    let snapshot = snapshot(items);
    let round = round(&snapshot);
    proposals::check(&snapshot, &round.now()).unwrap();
    let mut lines = Vec::new();
    for (proposal, verdict) in &round.proposals {
        let verdict = match verdict {
            Verdict::BacksOff(_, trouble) => format!("BacksOff({trouble:?})"),
            Verdict::Later(_, left) => format!("Later({left})"),
            other => format!("{other:?}"),
        };
        let (nodes, bought) = (names(&snapshot, proposal), proposal.replacements.len());
        let method = proposal.method.name();
        lines.push(format!(
            "{method} {} for {bought}: {verdict}",
            nodes.join("+")
        ));
    }
    for dropped in &round.dropped {
        let nodes = dropped.nodes.iter().map(|&node| name(&snapshot, node));
        let nodes = nodes.collect::<Vec<_>>().join("+");
        match dropped.why {
            Why::Awaits(on) => lines.push(format!("{nodes} awaits {}", name(&snapshot, on))),
            ref other => lines.push(format!("{nodes}: {other:?}")),
        }
    }
    lines.sort();
    lines.join("\n")
}

/// Why a method leaves a node.
fn refusal(items: &[Value], node: &str, method: Method) -> Option<Stays> {
    let snapshot = snapshot(items);
    let round = round(&snapshot);
    let at = snapshot
        .nodes
        .iter()
        .position(|n| snapshot.world.names.text(n.name) == node);
    round.candidates[at.unwrap()].refusal(method).cloned()
}

/// Full nodes that have drifted, of NodePools that go by budget alone.
fn drifted(nodes: &[&str], budget: &str) -> Vec<Value> {
    let mut pool = pool();
    pool["spec"]["disruption"] =
        json!({"consolidateAfter": "Never", "budgets": [{"nodes": budget}]});
    let mut items = vec![pool];
    for name in nodes {
        items.extend(node(name, "c2", "a"));
        items.push(pod(&format!("pod-{name}"), "web", 1500, name));
        condition(&mut items, name, "Drifted");
    }
    items
}

#[test]
fn nothing_is_bought_for_pods_that_have_room_on_a_node_that_is_not_initialised() {
    let mut items = drifted(&["old"], "5");
    coming(&mut items, "new", "c4", "2026-11-24T11:59:00Z");
    assert_eq!(found(&items), "old awaits new");

    let mut taken = items.clone();
    taken.push(pod("other", "other", 3000, "new"));
    assert_eq!(
        found(&taken),
        "drift old for 1: Now",
        "others have its room"
    );

    let mut small = drifted(&["old"], "5");
    coming(&mut small, "new", "c1", "2026-11-24T11:59:00Z");
    assert_eq!(found(&small), "drift old for 1: Now", "it is too small");

    let mut lost = drifted(&["old"], "5");
    coming(&mut lost, "new", "c4", "2026-11-24T10:59:00Z");
    assert_eq!(found(&lost), "drift old for 1: Now", "an hour is enough");
}

#[test]
fn a_node_that_never_got_ready_counts_in_the_budget_of_its_node_pool() {
    let with = |created: &str, budget: &str| {
        let mut items = drifted(&["old"], budget);
        coming(&mut items, "late", "c1", created);
        items
    };
    assert_eq!(
        found(&with("2026-11-24T11:51:00Z", "1")),
        "drift old for 1: Now"
    );
    let late = with("2026-11-24T11:49:00Z", "1");
    assert_eq!(found(&late), "");
    let why = refusal(&late, "old", Method::Drift);
    assert_eq!(why, Some(Stays::NodePoolBudget(0)));
    assert_eq!(
        found(&with("2026-11-24T11:49:00Z", "2")),
        "drift old for 1: Now"
    );

    let mut replaces = drifted(&["old", "going"], "2");
    coming(&mut replaces, "late", "c1", "2026-11-24T11:49:00Z");
    let annotate = |items: &mut Vec<Value>, claim: &str, key: &str| {
        of(items, "NodeClaim", claim)["metadata"]["annotations"] = json!({key: "d1"});
    };
    annotate(&mut replaces, "claim-going", "longshore.dev/disruption");
    annotate(&mut replaces, "claim-late", "longshore.dev/replaces");
    assert_eq!(
        found(&replaces),
        "drift old for 1: Now",
        "it counts with the node that it replaces"
    );
}

#[test]
fn a_node_pool_whose_replacements_failed_buys_none_for_a_while_and_others_do() {
    let mut items = drifted(&["a1", "a2", "a3"], "100%");
    of(&mut items, "NodePool", "default")["metadata"]["annotations"] =
        json!({FAILURES: format!(r#"{{"count":1,"until":{},"template":""}}"#, NOW + 60)});
    let mut other = pool();
    other["metadata"] = json!({"name": "other", "uid": "other"});
    items.push(other);
    for pod in ["pod-a1", "pod-a2"] {
        of(&mut items, "Pod", pod)["spec"]["nodeSelector"] =
            json!({"karpenter.sh/nodepool": "default"});
    }
    for name in ["a3"] {
        for (kind, object) in [
            ("Node", name.to_owned()),
            ("NodeClaim", format!("claim-{name}")),
        ] {
            of(&mut items, kind, &object)["metadata"]["labels"]["karpenter.sh/nodepool"] =
                "other".into();
        }
    }
    let until = NOW + 60;
    assert_eq!(
        found(&items),
        format!(
            "drift a1 for 1: BacksOff(Until({until}))\ndrift a2 for 1: BacksOff(Until({until}))\n\
            drift a3 for 1: Now"
        )
    );
    items.retain(|item| item["metadata"]["name"] != "pod-a1");
    assert!(
        found(&items).contains("drift a1 for 0: Now"),
        "it buys nothing"
    );

    let mut over = drifted(&["a1", "a2"], "100%");
    of(&mut over, "NodePool", "default")["metadata"]["annotations"] =
        json!({FAILURES: format!(r#"{{"count":3,"until":{},"template":""}}"#, NOW - 1)});
    assert_eq!(
        found(&over),
        "drift a1 for 1: Now\ndrift a2 for 1: BacksOff(OneAtATime)"
    );
    of(&mut over, "NodeClaim", "claim-a1")["metadata"]["annotations"] =
        json!({"longshore.dev/disruption": "d1"});
    assert_eq!(found(&over), "drift a2 for 1: BacksOff(OneAtATime)");
}

/// How many of four empty nodes go by budgets.
fn of_four(budgets: Value) -> usize {
    let mut items = four(budgets);
    empty(&mut items)
}

fn four(budgets: Value) -> Vec<Value> {
    let mut pool = pool();
    pool["spec"]["disruption"]["budgets"] = budgets;
    let mut items = vec![pool];
    (1..=4).for_each(|at| items.extend(node(&format!("n{at}"), "c2", "a")));
    items
}

fn empty(items: &mut [Value]) -> usize {
    let snapshot = snapshot(items);
    let now = round(&snapshot).now();
    proposals::check(&snapshot, &now).unwrap();
    now.iter().map(|proposal| proposal.nodes.len()).sum()
}

#[test]
fn budgets_are_read_as_karpenter_reads_them() {
    let window = |nodes: &str, schedule: &str| json!({"nodes": nodes, "schedule": schedule, "duration": "1h"});
    let half = json!({"nodes": "50%"});
    assert_eq!(of_four(json!([half])), 2);
    assert_eq!(
        of_four(json!([half, window("1", "0 0 31 2 *")])),
        1,
        "it never closes"
    );
    assert_eq!(of_four(json!([half, window("1", "30 11 * * *")])), 1);
    assert_eq!(
        of_four(json!([half, window("1", "30 10 * * *")])),
        2,
        "it has closed"
    );
    let mut named = window("50%", "0 0 31 2 *");
    named["reasons"] = json!(["Drifted"]);
    assert_eq!(of_four(json!([half, named])), 2, "it names another reason");
}

#[test]
fn a_schedule_that_cannot_be_read_closes_all_reasons() {
    let nodes = |schedule: &str| {
        let mut items = four(json!([{"nodes": "50%"}]));
        let budgets = &mut of(&mut items, "NodePool", "default")["spec"]["disruption"]["budgets"];
        let slip =
            json!({"nodes": "3", "reasons": ["Drifted"], "schedule": schedule, "duration": "1h"});
        budgets.as_array_mut().unwrap().push(slip);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let mut reader = longshore_api::manifests::Reader::new();
        reader.read("cluster.json", list.as_bytes());
        let (mut world, problems) = reader.finish();
        let bytes = super::types().to_string();
        let (catalogue, _) =
            longshore_kwok::catalogue::parse("types.json", bytes.as_bytes(), &mut world.names);
        world.catalogue = catalogue;
        world.now = NOW;
        let snapshot = longshore_core::snapshot::Snapshot::new(world.into());
        let now = round(&snapshot).now();
        (now.len(), problems.list.len())
    };
    assert_eq!(nodes("0 9 * * 1-5"), (2, 0));
    for slip in [
        "61 0 * * *",
        "0 9 * * 7",
        "0 0 9 * * 1-5",
        "TZ=UTC 0 9 * * 1-5",
        "@daily x",
    ] {
        assert_eq!(
            nodes(slip),
            (0, 1),
            "{slip}: the NodePool is there, with a word"
        );
    }
}

#[test]
fn an_instance_that_is_ending_uses_no_budget() {
    let mut items = four(json!([{"nodes": "1"}]));
    items.push(pod("keeps", "web", 100, "n1"));
    of(&mut items, "NodeClaim", "claim-n1")["metadata"]["deletionTimestamp"] = TIME.into();
    assert_eq!(empty(&mut items), 0, "one goes already");
    condition(&mut items, "n1", "InstanceTerminating");
    assert_eq!(empty(&mut items), 1, "it disturbs no pod any more");
    let budgets = json!([{"nodes": "50%"}]);
    of(&mut items, "NodePool", "default")["spec"]["disruption"]["budgets"] = budgets;
    assert_eq!(empty(&mut items), 2, "half of the three others, rounded up");
}

#[test]
fn a_pod_of_a_stateful_set_that_is_ending_keeps_its_node() {
    let mut items = four(json!([{"nodes": "100%"}]));
    let mut leaving = pod("db-0", "db", 100, "n1");
    leaving["metadata"]["deletionTimestamp"] = TIME.into();
    items.push(leaving);
    assert_eq!(refusal(&items, "n1", Method::Emptiness), None);
    of(&mut items, "Pod", "db-0")["metadata"]["ownerReferences"][0]["kind"] = "StatefulSet".into();
    let kept = [Method::Emptiness, Method::MultiNode].map(|method| refusal(&items, "n1", method));
    assert!(
        matches!(kept, [Some(Stays::Leaving(_)), Some(Stays::Leaving(_))]),
        "{kept:?}"
    );
    assert_eq!(empty(&mut items), 3);
}

#[test]
fn pods_that_cost_little_to_lose_do_not_fill_a_node() {
    let mut items = four(json!([{"nodes": "100%"}]));
    let mut cheap = pod("cheap", "web", 100, "n1");
    cheap["metadata"]["annotations"] =
        json!({"controller.kubernetes.io/pod-deletion-cost": "-134217728"});
    items.push(cheap);
    items.push(pod("usual", "web", 100, "n2"));
    assert_eq!(refusal(&items, "n1", Method::Emptiness), None);
    assert_eq!(
        refusal(&items, "n2", Method::Emptiness),
        Some(Stays::NotEmpty(1))
    );
    of(&mut items, "NodePool", "default")["spec"]["disruption"]["consolidationPolicy"] =
        "WhenEmpty".into();
    assert_eq!(empty(&mut items), 3);
}

#[test]
fn consolidation_moves_no_pods_to_a_node_whose_pods_have_just_changed() {
    let mut items = vec![pool()];
    of(&mut items, "NodePool", "default")["spec"]["disruption"]["consolidateAfter"] = "1h".into();
    items.extend(node("one", "c2", "a"));
    items.extend(node("two", "c8", "a"));
    items.push(pod("web-1", "web", 1500, "one"));
    items.push(pod("large", "large", 4500, "two"));
    without(&mut items, "two", "Consolidatable");
    assert_eq!(refusal(&items, "one", Method::MultiNode), None);
    assert!(
        !found(&items).contains("one for 0: Now"),
        "{}",
        found(&items)
    );
    condition(&mut items, "two", "Consolidatable");
    assert!(
        found(&items).contains("one for 0: Now"),
        "{}",
        found(&items)
    );
    without(&mut items, "two", "Consolidatable");
    condition(&mut items, "one", "Drifted");
    assert_eq!(found(&items), "drift one for 0: Now", "drift does");
}

#[test]
fn a_preference_for_other_hosts_holds_no_node() {
    let mut items = vec![pool()];
    for at in 1..=4 {
        items.extend(node(&format!("n{at}"), "c4", "a"));
        let mut one = pod(&format!("p{at}"), "web", 500, &format!("n{at}"));
        one["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}}}]);
        items.push(one);
    }
    let goes = |items: &[Value]| {
        let snapshot = snapshot(items);
        let now = round(&snapshot).now();
        proposals::check(&snapshot, &now).unwrap();
        now.iter()
            .map(|proposal| proposal.nodes.len())
            .sum::<usize>()
    };
    assert!(goes(&items) >= 3, "all pods have room on one node");
    for at in 1..=4 {
        of(&mut items, "Pod", &format!("p{at}"))["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] =
            "DoNotSchedule".into();
    }
    assert_eq!(
        goes(&items),
        4,
        "a rule keeps a node for each; smaller ones"
    );
}

#[test]
fn a_preference_for_the_own_host_holds_no_node() {
    let prefers = |key: &str, value: &str| {
        json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [
                {"key": key, "operator": "In", "values": [value]}]}}]}})
    };
    let goes = |affinity: &Value| {
        let mut items = vec![pool()];
        items[0]["spec"]["limits"] = json!({"cpu": "0"});
        for at in 1..=2 {
            items.extend(node(&format!("n{at}"), "c4", "a"));
            let mut one = pod(&format!("p{at}"), "web", 500, &format!("n{at}"));
            if at == 1 {
                one["spec"]["affinity"] = affinity.clone();
            }
            items.push(one);
        }
        for node in ["n2"] {
            of(&mut items, "Node", node)["metadata"]["annotations"] =
                json!({"karpenter.sh/do-not-disrupt": "true"});
        }
        let snapshot = snapshot(&items);
        let now = round(&snapshot).now();
        proposals::check(&snapshot, &now).unwrap();
        now.iter()
            .flat_map(|of| names(&snapshot, of))
            .collect::<Vec<_>>()
    };
    assert_eq!(goes(&json!({})), ["n1"]);
    let own = prefers("kubernetes.io/hostname", "n1");
    assert_eq!(goes(&own), ["n1"]);
    // Nor over a label that the node lacks.
    let beside = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "example.com/rack",
            "labelSelector": {"matchLabels": {"app": "web"}}}}]}});
    assert_eq!(goes(&beside), ["n1"]);
    // A rule does.
    let mut rule = own;
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let term = rule["nodeAffinity"][preferred][0]["preference"].take();
    rule["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
    assert_eq!(goes(&rule), Vec::<String>::new());
}

/// A NodePool of a name that buys these types only.
fn pool_of(name: &str, types: &[&str]) -> Value {
    let mut pool = pool();
    pool["metadata"] = json!({"name": name, "uid": name});
    pool["spec"]["disruption"] =
        json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]});
    let requirements = &mut pool["spec"]["template"]["spec"]["requirements"];
    requirements.as_array_mut().unwrap().push(json!({
        "key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}));
    pool
}

fn fails(pool: &mut Value, until: i64) {
    let failures = json!({"count": 3, "until": until}).to_string();
    pool["metadata"]["annotations"] = json!({FAILURES: failures});
}

/// Drifted nodes of NodePools that buy large types, beside a NodePool that buys what they need for less.
fn drifted_beside(cheap: Value) -> Vec<Value> {
    let mut items = vec![cheap];
    for name in ["a", "c"] {
        items.push(pool_of(name, &["c8"]));
        items.extend(node(name, "c8", "a"));
        items.push(pod(&format!("pod-{name}"), "web", 1500, name));
        condition(&mut items, name, "Drifted");
        for kind in ["NodeClaim", "Node"] {
            let of_kind = match kind {
                "Node" => name.to_owned(),
                _ => format!("claim-{name}"),
            };
            of(&mut items, kind, &of_kind)["metadata"]["labels"]["karpenter.sh/nodepool"] =
                name.into();
        }
    }
    items
}

/// The NodePools that are bought from now, for each proposal.
fn bought_from(items: &[Value]) -> Vec<String> {
    let snapshot = snapshot(items);
    let round = round(&snapshot);
    proposals::check(&snapshot, &round.now()).unwrap();
    let pools = &snapshot.world.pools;
    let now = round.now();
    let bought = now.iter().flat_map(|proposal| &proposal.replacements);
    bought
        .map(|of| {
            let pool = pools[of.claim.pool.0 as usize].name;
            snapshot.world.names.text(pool).to_owned()
        })
        .collect()
}

#[test]
fn a_node_pool_whose_nodes_do_not_become_ready_is_left_and_others_take_its_place() {
    let well = pool_of("cheap", &["c2"]);
    let mut items = drifted_beside(well.clone());
    assert_eq!(bought_from(&items), ["cheap", "cheap"], "it costs least");
    let mut broken = well;
    fails(&mut broken, NOW + 600);
    items[0] = broken.clone();
    let others = bought_from(&items);
    assert!(
        others.len() == 2 && others.iter().all(|pool| pool != "cheap"),
        "it backs off: {others:?}"
    );
    fails(&mut broken, NOW - 1);
    items[0] = broken;
    assert_eq!(
        bought_from(&items),
        ["cheap"],
        "then one command at a time tries it"
    );
}
