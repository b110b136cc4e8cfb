//! Plans that are carried out against the simulated API server.

use longshore_api::crd::NodeClaim;
use longshore_simcluster::server::resources::{NODE_CLAIM, NODE_POOL, POD};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use super::super::tests::{CLASS, POOL, how};
use super::*;
use crate::decide::round;
use crate::decide::round_timer::RoundTimer;
use crate::observe::watch::{Change, Observed};
use crate::serve::http::SharedBoard;
use crate::test_cluster::{TestCluster, context, instance};

/// A loop that has listed a cluster with a NodePool.
struct Loop {
    cluster: TestCluster,
    control: Controller,
    reports: Receiver<Done>,
}

impl Loop {
    fn new() -> Loop {
        let cluster = TestCluster::empty();
        let pool: Value = serde_json::from_str(POOL).unwrap();
        cluster.create(
            NODE_POOL,
            json!({"metadata": {"name": "default"}, "spec": pool["spec"]}),
        );
        let ctx = Arc::new(context(&cluster, Ok(instance())));
        let (how, names) = how(&ctx);
        let window = std::time::Duration::from_secs(1);
        let timer = RoundTimer::new(window, window);
        let (mut control, reports) =
            Controller::new(ctx, how, timer, names, SharedBoard::default());
        for kind in ObjectKind::ALL {
            let object = match kind {
                ObjectKind::NodePool => Some(POOL),
                ObjectKind::KwokNodeClass => Some(CLASS),
                _ => None,
            };
            let object = object.map(|text| Change::Upsert(text.into()));
            for change in [Change::Begin]
                .into_iter()
                .chain(object)
                .chain([Change::End])
            {
                control.observe(Observed::of(kind, change));
            }
        }
        control.purchases.proven = true;
        Loop {
            cluster,
            control,
            reports,
        }
    }

    /// A pod that kube-scheduler has no node for, on the server and in the state.
    fn pod(&mut self, name: &str, cpu: &str) {
        let unschedulable = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        });
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}},
            ]},
            "status": {"phase": "Pending", "conditions": [unschedulable]},
        });
        let pod = self.cluster.create(POD, pod);
        self.fold(ObjectKind::Pod, &pod);
    }

    fn fold(&mut self, kind: ObjectKind, object: &Value) {
        let change = Change::Upsert(object.to_string().into());
        self.control.observe(Observed::of(kind, change));
    }

    fn decide(&mut self) -> Round {
        self.control.planning = true;
        let input = self.control.round_input();
        let clock = &self.control.ctx.clock;
        round::decide(&self.control.config, clock, 1, false, input)
    }

    /// Carries out a round, until its NodeClaims are written and its Events, too.
    async fn apply(&mut self, round: Round) {
        self.control.apply_plan(round);
        if self.control.planning {
            let report = self.reports.recv().await.unwrap();
            self.control.report(report);
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(!self.control.planning);
    }

    async fn round(&mut self) {
        let round = self.decide();
        self.apply(round).await;
    }

    fn claims(&self) -> Vec<NodeClaim> {
        let all = self.cluster.server.list(NODE_CLAIM);
        let read = |claim: &Arc<Value>| serde_json::from_value((**claim).clone()).unwrap();
        all.iter().map(read).collect()
    }

    /// How often pods were listed.
    fn lists_of_pods(&self) -> u64 {
        let counts = self.cluster.server.requests().by;
        let of_pods = counts
            .iter()
            .filter(|((_, verb, kind), _)| (*verb, &**kind) == ("list", "pods"));
        of_pods.map(|(_, times)| *times).sum()
    }

    fn rounds(&self, outcome: &str) -> u64 {
        let rounds = &self.control.ctx.metrics.rounds;
        rounds.with_label_values(&[outcome]).get()
    }
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_node_get_a_node_claim_that_names_them() {
    let mut own = Loop::new();
    own.pod("a", "1");
    own.pod("b", "1");
    own.round().await;
    let [claim] = &own.claims()[..] else {
        panic!("{:?}", own.claims());
    };
    let planned: Vec<String> = crate::observe::planned_pods::planned_pods(claim)
        .map(|planned| planned.pod.to_owned())
        .collect();
    assert_eq!(planned, ["shop/a", "shop/b"]);
    assert_eq!(
        claim.metadata.labels.as_ref().unwrap()["karpenter.sh/nodepool"],
        "default"
    );
    let name = claim.metadata.name.as_deref().unwrap();
    let nominated =
        |pod: &str| format!("{pod}: Nominated: Pod should schedule on: nodeclaim/{name}");
    assert_eq!(own.cluster.events(), ["a", "b"].map(nominated));
    assert_eq!(own.rounds("bought"), 1);
    assert!(
        ["shop/a", "shop/b"]
            .iter()
            .all(|pod| own.control.purchases.bought.contains(*pod))
    );
    let plan = own.control.last_round.plan.as_ref().unwrap();
    assert_eq!((plan.pods, plan.claims), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_is_told_why_and_nothing_is_bought() {
    let mut own = Loop::new();
    own.pod("giant", "100000");
    own.round().await;
    assert!(own.claims().is_empty());
    let events = own.cluster.events();
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(
        event.starts_with("giant: FailedScheduling: Failed to schedule pod, "),
        "{event}"
    );
    assert!(lock(&own.control.board).waiting.contains_key("shop/giant"));
    assert_eq!(own.rounds("nothing"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_was_rejected_changes_nothing() {
    let mut own = Loop::new();
    own.pod("a", "1");
    let round = Round {
        plan: Err("two pods on one port".to_owned()),
        ..own.decide()
    };
    own.apply(round).await;
    assert_eq!(own.cluster.writes(), [""; 0]);
    assert_eq!((own.rounds("rejected"), own.rounds("nothing")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn pods_that_were_bought_for_are_looked_up_and_not_bought_for_once_they_are_gone() {
    let mut own = Loop::new();
    own.pod("a", "1");
    own.control.purchases.bought.insert("shop/a".to_owned());
    own.cluster.refuse("list", POD, 500, "InternalError");
    own.round().await;
    assert!(
        own.claims().is_empty(),
        "the server does not say whether it waits"
    );
    assert_eq!(own.rounds("failed"), 1);

    own.cluster.server.open_gate();
    let key = longshore_simcluster::object::Key {
        resource: POD,
        namespace: "shop".into(),
        name: "a".into(),
    };
    own.cluster.server.bind(&key, "somewhere").unwrap();
    own.round().await;
    assert!(own.claims().is_empty(), "it has a node");
    assert_eq!(own.rounds("outdated"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_looks_every_pod_up_before_it_buys_the_first_time() {
    let mut own = Loop::new();
    own.pod("a", "1");
    own.control.purchases.proven = false;
    own.round().await;
    assert_eq!((own.lists_of_pods(), own.claims().len()), (1, 1));
    assert!(own.control.purchases.proven);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_for_a_nodepool_whose_spec_broke_during_the_round() {
    let mut own = Loop::new();
    own.pod("a", "1");
    let round = own.decide();
    let mut broken: Value = serde_json::from_str(POOL).unwrap();
    broken["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "kubernetes.io/os", "operator": "Resembles", "values": ["linux"]}]);
    own.fold(ObjectKind::NodePool, &broken);
    assert!(own.control.state.pool_fault("default").is_some());
    own.apply(round).await;
    assert!(own.claims().is_empty());
    let plan = own.control.last_round.plan.as_ref().unwrap();
    assert_eq!(plan.claims, 0);
}

#[tokio::test(start_paused = true)]
async fn node_claims_that_the_server_refuses_are_planned_again_later() {
    let mut own = Loop::new();
    own.pod("a", "1");
    own.cluster.refuse("create", NODE_CLAIM, 403, "Forbidden");
    own.round().await;
    assert_eq!(own.rounds("failed"), 1);
    assert!(
        own.control.purchases.failed.next().is_some()
            && !own.control.purchases.bought.contains("shop/a")
    );
    let events = own.cluster.events().join("\n");
    assert!(
        events.contains("default: "),
        "the NodePool says so: {events}"
    );
    assert!(events.contains("a: "), "and the pod: {events}");
}

#[tokio::test(start_paused = true)]
async fn a_nodepool_that_nothing_can_be_bought_for_says_so() {
    let mut own = Loop::new();
    let mut narrow: Value = serde_json::from_str(POOL).unwrap();
    narrow["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["none"]}]);
    own.fold(ObjectKind::NodePool, &narrow);
    own.pod("a", "1");
    own.round().await;
    let events = own.cluster.events().join("\n");
    assert!(
        events.contains("default: NoCompatibleInstanceTypes: "),
        "{events}"
    );
    assert!(
        own.control
            .last_round
            .incompatible_pools
            .contains_key("default")
    );
}
