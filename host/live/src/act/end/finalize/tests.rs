//! The end of a NodeClaim against the simulated API server, in virtual time.

use longshore_simcluster::server::resources::{NODE, NODE_CLAIM};
use serde_json::Value;

use super::*;
use crate::test_cluster::{Cloud, TestCluster, claim_to_launch};

/// What is there when the end of the NodeClaim `web-1` is asked for.
struct Case {
    cluster: TestCluster,
    cloud: Arc<Cloud>,
    ctx: Context,
}

impl Case {
    /// A claim that is changed so before it is deleted, with these instances in the cloud.
    fn new(instances: &[Instance], change: impl FnOnce(&mut Value)) -> Case {
        let cluster = TestCluster::empty();
        let mut claim = claim_to_launch();
        change(&mut claim);
        cluster.create(NODE_CLAIM, claim);
        cluster.delete(NODE_CLAIM, "web-1");
        let cloud = Cloud::with(instances.iter().cloned());
        let ctx = cluster.context_with(cloud.clone());
        Case {
            cluster,
            cloud,
            ctx,
        }
    }

    /// A claim with an instance whose Node is registered.
    fn registered() -> Case {
        let case = Case::new(&[instance("test://1")], |claim| {
            claim["status"] = json!({
                "providerID": "test://1", "nodeName": "node-1",
                "conditions": [is("Launched"), is("Registered")],
            });
        });
        case.cluster.create(
            NODE,
            json!({
                "metadata": {"name": "node-1", "finalizers": [FINALIZER]},
                "spec": {"providerID": "test://1"},
            }),
        );
        case
    }

    /// A step of the claim as the server has it, where the watch has brought no Node.
    async fn step(&self) -> StepOutcome {
        let claim = self.cluster.claim().unwrap();
        finalize(&self.ctx, &claim, &[]).await
    }

    fn node(&self) -> Option<NodeView> {
        let node: Value = self.cluster.get(NODE, "node-1")?;
        Some(NodeView::read(&node.to_string()).unwrap())
    }

    /// The Node has drained: its finalizer lets it go.
    fn node_drains(&self) {
        let let_go = |node: &mut Value| node["metadata"]["finalizers"] = json!([]);
        self.cluster.change(NODE, "node-1", let_go);
    }
}

fn is(what: &str) -> Value {
    json!({"type": what, "status": "True", "reason": what, "message": "",
        "lastTransitionTime": "2026-11-24T12:00:00Z"})
}

fn instance(id: &str) -> Instance {
    Instance {
        provider_id: id.into(),
        ..Instance::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_goes_first_then_the_instance_then_the_claim() {
    let case = Case::registered();
    assert_eq!(case.step().await, Ok(Some(NODE_POLL)));
    assert!(case.node().unwrap().deletion.is_some());
    assert_eq!(case.step().await, Ok(Some(NODE_POLL)), "it drains");
    assert_eq!(case.cloud.calls(), [""; 0]);

    case.node_drains();
    assert_eq!(case.step().await, Ok(Some(CLAIM_TERMINATION_POLL)));
    assert_eq!(case.cloud.calls(), ["delete test://1"]);
    let status = case.cluster.claim().unwrap().status.unwrap();
    assert!(is_true(&status, INSTANCE_TERMINATING));

    case.cloud.forget_all();
    assert_eq!(case.step().await, Ok(None));
    assert!(case.cluster.claim().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_lost_its_finalizer_gets_it_back_before_it_is_deleted() {
    let case = Case::registered();
    case.cluster.change(NODE, "node-1", |node| {
        node["metadata"]["finalizers"] = json!([]);
    });
    assert_eq!(case.step().await, Ok(Some(NODE_POLL)));
    let node = case.node().unwrap();
    assert!(node.holds(FINALIZER) && node.deletion.is_none());
    assert_eq!(case.step().await, Ok(Some(NODE_POLL)));
    assert!(case.node().unwrap().deletion.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_node_cannot_be_read_is_not_ended() {
    let case = Case::registered();
    case.cluster.refuse("get", NODE, 500, "InternalError");
    assert!(matches!(case.step().await, Err(StepError::Other(_))));
    assert_eq!(case.cloud.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_ended_keeps_its_claim() {
    let case = Case::registered();
    let leadership = crate::process::leader::Leadership::new(false);
    case.cluster.delete(NODE, "node-1");
    case.node_drains();
    let ctx = Context {
        leadership,
        ..case.cluster.context_with(case.cloud.clone())
    };
    let claim = case.cluster.claim().unwrap();
    let outcome = finalize(&ctx, &claim, &[]).await;
    assert_eq!(outcome, Err(StepError::NotLeading));
    assert_eq!(case.cloud.calls(), [""; 0]);
    assert!(case.cluster.claim().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_time_until_pods_must_go_is_written_before_anything_ends() {
    let case = Case::new(&[instance("test://1")], |claim| {
        claim["spec"]["terminationGracePeriod"] = json!("90s");
        claim["status"] = json!({"providerID": "test://1"});
    });
    assert_eq!(case.step().await, Ok(None));
    let annotations = case.cluster.claim().unwrap().metadata.annotations;
    assert_eq!(
        annotations.unwrap()[TERMINATION_TIME],
        "2026-11-24T12:01:30Z"
    );
    assert_eq!(case.cloud.calls(), [""; 0]);
    assert_eq!(case.step().await, Ok(Some(CLAIM_TERMINATION_POLL)));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nothing_was_launched_for_goes_at_once() {
    let case = Case::new(&[], |_| ());
    let claim = case.cluster.claim().unwrap();
    let since = case.ctx.leadership.since();
    case.ctx.memory.launch.launches.made(uid_of(&claim), since);
    assert_eq!(case.step().await, Ok(None));
    assert!(case.cluster.claim().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_may_have_been_launched_goes_once_lists_have_lacked_an_instance_for_6_minutes()
{
    let case = Case::new(&[], |_| ());
    let begun = Instant::now();
    while let Some(wait) = case.step().await.unwrap() {
        assert!(case.cluster.claim().is_some());
        tokio::time::advance(wait).await;
    }
    assert_eq!(begun.elapsed(), MAX_LISTING_DELAY);
    assert!(case.cluster.claim().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_shows_late_is_ended() {
    let case = Case::new(&[], |_| ());
    assert_eq!(case.step().await, Ok(Some(UNLISTED_INSTANCE_POLL)));
    let claim = case.cluster.claim().unwrap();
    case.cloud.has(Instance {
        claim_uid: Some(uid_of(&claim).to_owned()),
        ..instance("test://late")
    });
    tokio::time::advance(UNLISTED_INSTANCE_POLL).await;
    assert_eq!(case.step().await, Ok(Some(CLAIM_TERMINATION_POLL)));
    assert_eq!(case.cloud.calls(), ["delete test://late"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_the_finalizer_is_left_to_others() {
    let case = Case::new(&[instance("test://1")], |claim| {
        claim["metadata"]["finalizers"] = json!(["example.com/theirs"]);
        claim["status"] = json!({"providerID": "test://1"});
    });
    assert_eq!(case.step().await, Ok(None));
    assert_eq!(case.cloud.calls(), [""; 0]);
    assert!(case.cluster.claim().is_some());
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_stay() {
    let case = Case::new(&[], |claim| {
        claim["metadata"]["finalizers"] = json!([FINALIZER, "example.com/theirs"]);
        claim["status"] = json!({"providerID": "test://gone"});
    });
    assert_eq!(case.step().await, Ok(None));
    let left = case.cluster.claim().unwrap().metadata.finalizers.unwrap();
    assert_eq!(left, ["example.com/theirs"]);
}
