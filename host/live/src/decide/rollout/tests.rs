//! A rollout that is told of claims, nodes and pods, and what it asks for.

use serde_json::json;

use super::*;
use crate::decide::claims::ROUND;
use crate::observe::planned_pods::PLANNED_PODS;

const MS: Duration = Duration::from_millis(1);

fn claim(pods: &str) -> NodeClaim {
    let object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "x", "annotations": {ROUND: "1", PLANNED_PODS: pods}},
        "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
    });
    serde_json::from_value(object).unwrap()
}

fn node(name: &str) -> NodeView {
    NodeView::read(&format!(
        r#"{{"metadata":{{"name":"{name}"}},"status":{{"conditions":[{{"type":"Ready","status":"True"}}]}}}}"#
    ))
    .unwrap()
}

/// A rollout, the time, and the claims that it knows.
struct Scene {
    rollout: Rollout,
    now: Instant,
    claims: BTreeMap<&'static str, NodeClaim>,
}

impl Scene {
    fn new(claims: &[(&'static str, &str)]) -> Self {
        let mut scene = Scene {
            rollout: Rollout::default(),
            now: Instant::now(),
            claims: BTreeMap::new(),
        };
        for &(name, pods) in claims {
            let claim = claim(pods);
            scene.rollout.claim(name, Some(&claim), false, scene.now);
            scene.claims.insert(name, claim);
        }
        scene
    }

    fn joins(&mut self, name: &'static str) {
        let claim = &self.claims[name];
        self.rollout.claim(name, Some(claim), true, self.now);
    }

    fn turn(&mut self, name: &'static str) -> Turn {
        let (claim, node) = (&self.claims[name], node(name));
        self.rollout
            .turn(name, claim, &node, |_| true, true, self.now)
    }

    fn due(&mut self) -> Vec<Action> {
        self.rollout.due(self.now)
    }

    /// The next time that it asks for, and what it asks for then.
    fn next(&mut self) -> (Duration, Vec<Action>) {
        let at = self.rollout.wakes_at(self.now).expect("a time");
        let waited = at - self.now;
        self.now = at;
        (waited, self.due())
    }
}

fn step(claim: &str) -> Action {
    Action::Step(claim.to_owned())
}

fn nominate(pods: &[(&str, &str)]) -> Action {
    let owned = |(pod, node): &(&str, &str)| ((*pod).to_owned(), (*node).to_owned());
    Action::Nominate(pods.iter().map(owned).collect())
}

#[test]
fn a_node_registers_after_its_nominations_and_its_claim_is_written_after_the_node() {
    let mut scene = Scene::new(&[("a", "shop/p,shop/q")]);
    scene.joins("a");
    assert_eq!(scene.turn("a"), Turn::Wait(None), "nominations are written");
    assert_eq!(scene.due(), [nominate(&[("shop/p", "a"), ("shop/q", "a")])]);
    scene.rollout.nomination_written("shop/p", scene.now);
    assert_eq!(scene.due(), []);
    scene.rollout.nomination_written("shop/q", scene.now);
    assert_eq!(scene.due(), [step("a")]);
    assert_eq!(
        scene.turn("a"),
        Turn::Wait(Some(304 * MS)),
        "kube-scheduler hears of two"
    );
    scene.now += 304 * MS;
    assert_eq!(scene.turn("a"), Turn::Wait(None), "others may join");
    assert_eq!(scene.next(), (10 * MS, vec![step("a")]));
    assert_eq!(scene.turn("a"), Turn::Register);
    scene.rollout.node_registered("a", true, scene.now);
    assert_eq!(scene.due(), [step("a")]);
    assert_eq!(scene.turn("a"), Turn::Confirm { ready: true });
    assert_eq!(
        scene.turn("a"),
        Turn::Confirm { ready: true },
        "again after a conflict"
    );
    let (claim, now) = (scene.claims["a"].clone(), scene.now);
    assert!(scene.rollout.registered("a", &claim, now));
    assert!(
        !scene.rollout.registered("a", &claim, now),
        "that is no news"
    );
    assert_eq!(scene.rollout.wakes_at(scene.now), None);
}

#[test]
fn a_node_waits_for_the_others_of_its_round() {
    let mut scene = Scene::new(&[("a", ""), ("b", "")]);
    scene.joins("a");
    assert_eq!(scene.turn("a"), Turn::Wait(Some(2000 * MS)));
    scene.joins("b");
    assert_eq!(scene.due(), [step("a")], "the last one has joined");
    assert_eq!(
        (scene.turn("a"), scene.turn("b")),
        (Turn::Wait(None), Turn::Wait(None))
    );
    assert_eq!(scene.next(), (10 * MS, vec![step("a"), step("b")]));
}

#[test]
fn a_registration_that_fails_waits_for_its_turn_again() {
    let mut scene = Scene::new(&[("a", "")]);
    scene.joins("a");
    scene.turn("a");
    assert_eq!(scene.next(), (10 * MS, vec![step("a")]));
    assert_eq!(scene.turn("a"), Turn::Register);
    scene.rollout.step_failed("a");
    assert_eq!(scene.turn("a"), Turn::Wait(None));
    assert_eq!(scene.next(), (10 * MS, vec![step("a")]));
    scene.rollout.without_node("a");
    assert_eq!(scene.rollout.wakes_at(scene.now), None, "nothing is kept");
}

#[test]
fn a_claim_that_is_deleted_keeps_no_slot() {
    let mut scene = Scene::new(&[("a", "shop/p~+1"), ("b", "")]);
    scene.joins("a");
    scene.joins("b");
    scene.turn("a");
    scene.due();
    scene.rollout.nomination_written("shop/p", scene.now);
    scene.now += 302 * MS;
    scene.due();
    scene.turn("a");
    scene.turn("b");
    assert_eq!(scene.next(), (10 * MS, vec![step("a")]), "leaders first");
    scene.rollout.claim("a", None, false, scene.now);
    assert_eq!(scene.due(), [step("b")]);
}

#[test]
fn pods_of_a_later_plan_are_nominated_with_the_node_that_is_to_come() {
    let mut scene = Scene::new(&[("a", "shop/p")]);
    let pods = || ["shop/q", "shop/r"].map(str::to_owned).into_iter();
    let later = vec![("shop/q".to_owned(), None)];
    let now = vec![("shop/r".to_owned(), None)];
    scene
        .rollout
        .planned(pods(), &[("old", now)], vec![("a", later)]);
    assert_eq!(scene.due(), [nominate(&[("shop/r", "old")])]);
    scene.joins("a");
    scene.turn("a");
    assert_eq!(scene.due(), [nominate(&[("shop/p", "a"), ("shop/q", "a")])]);
    scene.rollout.pod_waits("shop/r", true, scene.now);
    scene.rollout.planned(pods(), &[], Vec::new());
    assert_eq!(scene.due(), [Action::Clear(vec!["shop/r".to_owned()])]);
}

#[test]
fn a_replica_that_leads_no_more_asks_for_nothing() {
    let mut scene = Scene::new(&[("a", "shop/p")]);
    scene.joins("a");
    scene.turn("a");
    scene.rollout.stand_by();
    assert_eq!(
        (scene.due(), scene.rollout.wakes_at(scene.now)),
        (Vec::new(), None)
    );
}
