//! The loop behind a real listener. The test sends its observations; the API server is simulated.

use super::node_claim;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use longshore_core::disrupt::methods::TerminateFirst;
use longshore_simcluster::server::resources::POD;

use super::timers::MAX_WATCH_SILENCE;
use super::*;
use crate::act::launch::refusals::Refused;
use crate::environment::fixed;
use crate::observe::server_pods;
use crate::observe::watch::Change;
use crate::policies::{PolicyReloader, Setup};
use crate::process::leader::Leadership;
use crate::process::lock::lock;
use crate::serve::http;
use crate::status::parts::LastPlan;
use crate::test_cluster::{TestCluster, context, fresh, instance};
use longshore_journal::Journal;

pub(super) const POOL: &str = r#"{"metadata":{"name":"default","uid":"p","generation":1},"spec":{"template":{"spec":{
    "requirements":[{"key":"kubernetes.io/os","operator":"In","values":["linux"]}],
    "nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}}}},
    "status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-05T09:00:00Z","reason":"Ready",
    "message":"","observedGeneration":1}]}}"#;
pub(super) const CLASS: &str = r#"{"metadata":{"name":"default","uid":"c","generation":1},"spec":{},"status":{"conditions":[
    {"type":"Ready","status":"True","lastTransitionTime":"2026-01-05T09:00:00Z","reason":"Ready","message":""}]}}"#;

/// A pod of the namespace `shop` that kube-scheduler finds no node for.
fn pod(name: &str) -> Change {
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"{name}","resourceVersion":"7"}},
        "spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"1"}}}}}}]}},
        "status":{{"phase":"Pending","conditions":[{{"type":"PodScheduled","status":"False","reason":"Unschedulable"}}]}}}}"#
    );
    Change::Upsert(text.into())
}

/// Tells of a cluster with a NodePool and no pods.
async fn empty_cluster(out: &Sender<Observed>) {
    for kind in ObjectKind::ALL {
        let object = match kind {
            ObjectKind::NodePool => Some(POOL),
            ObjectKind::KwokNodeClass => Some(CLASS),
            _ => None,
        };
        let changes = [Change::Begin]
            .into_iter()
            .chain(object.map(|text| Change::Upsert(text.into())))
            .chain([Change::End]);
        for change in changes {
            out.send(Observed::of(kind, change)).await.unwrap();
        }
    }
}

/// What the daemon answers about a pod: the code and the body.
async fn explained(at: SocketAddr, pod: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!("GET /explain/pod/shop/{pod} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    (code, answer)
}

pub(super) fn how(ctx: &Context) -> (RoundConfig, Symbols) {
    let mut names = Symbols::default();
    let how = RoundConfig {
        catalogue: fixed(longshore_kwok::catalogue::built_in(&mut names)),
        overlays: None,
        unavailable: ctx.memory.launch.unavailable.clone(),
        settings: longshore_core::model::Settings::default(),
        policies: PolicyReloader::manual(Setup::default())
            .map_err(|failure| failure.report())
            .unwrap()
            .0,
        journal: Journal::off(),
        disrupts: false,
        spot_to_spot: false,
        terminate_first: TerminateFirst::default(),
        inline: false,
        computing: None,
        look_takes: Duration::ZERO,
    };
    (how, names)
}

#[tokio::test]
async fn two_loops_of_questions_do_not_keep_rounds_from_being_made() {
    let (server, _) = fresh();
    let ctx = Arc::new(context(&server.with_pods(&["web"]), Ok(instance())));
    let (how, names) = how(&ctx);
    let (out, observations) = channel(64);
    let (asks, asked) = channel(16);
    let board = SharedBoard::default();
    let at = http::tests::status_on_loopback(&ctx, &board, &asks).await;
    let round_timer = RoundTimer::new(Duration::from_millis(100), Duration::from_secs(1));
    let (_echoes, echoes) = tokio::sync::mpsc::unbounded_channel();
    let heard = Heard {
        observations,
        echoes,
        queries: asked,
    };
    let control = tokio::spawn(run(ctx.clone(), how, round_timer, names, board, heard));
    empty_cluster(&out).await;

    let bought = || ctx.metrics.rounds.with_label_values(&["bought"]).get();
    let ask = async |pods: Option<Sender<Observed>>| {
        let (mut pods, mut codes) = (pods, BTreeSet::new());
        while bought() == 0 {
            let (code, answer) = explained(at, "nobody").await;
            assert!([404, 429].contains(&code), "{answer}");
            codes.insert(code);
            // Questions are being answered by now, and go on being asked.
            if let Some(out) = pods.take_if(|_| code == 404) {
                out.send(Observed::of(ObjectKind::Pod, pod("web")))
                    .await
                    .unwrap();
            }
        }
        codes
    };
    let both = timeout(Duration::from_secs(60), async {
        tokio::join!(ask(Some(out.clone())), ask(None))
    })
    .await;
    let (one, other) = both.expect("a round is made all the same");
    assert!(one.contains(&404), "{one:?}");
    assert!(
        one.contains(&429) || other.contains(&429),
        "one question at a time: {one:?} {other:?}"
    );
    drop(out);
    control.await.unwrap();
}

#[tokio::test]
async fn pods_that_cannot_be_listed_are_neither_gone_nor_bought_for() {
    let pods = ["shop/web", "shop/db"].map(str::to_owned);
    let ask = async |cluster: TestCluster| {
        let ctx = context(&cluster, Ok(instance()));
        let asked = server_pods::unbound(&ctx.client, &pods, &pods[1..]).await;
        (Vec::from_iter(asked.gone), Vec::from_iter(asked.unread))
    };
    let forbids = TestCluster::empty();
    forbids.refuse("list", POD, 403, "Forbidden");
    let refuses = ask(forbids).await;
    assert_eq!(refuses, (Vec::new(), vec!["shop/db".to_owned()]));
    let answers = ask(TestCluster::empty().with_pods(&["web"])).await;
    assert_eq!(answers, (vec!["shop/db".to_owned()], Vec::new()));
}

/// What comes and goes, `at` by `at`: a NodeClaim, its node, and a pod that was nominated for it.
/// Each has a label of its own.
fn passing(at: usize) -> Vec<(ObjectKind, Change)> {
    let meta = |name: String| {
        format!(
            r#""metadata":{{"name":"{name}","namespace":"shop","uid":"{name}","labels":{{"own-{name}":"{at}"}}}}"#
        )
    };
    let claim = format!(
        r#"{{{},"spec":{{"nodeClassRef":{{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}},
        "requirements":[]}}}}"#,
        meta(format!("claim{at}")).replace(r#""namespace":"shop","#, "")
    );
    let node = format!(
        "{{{}}}",
        meta(format!("node{at}")).replace(r#""namespace":"shop","#, "")
    );
    let waits = format!(
        r#"{{{},"spec":{{"containers":[{{"name":"c"}}]}},"status":{{"phase":"Pending","nominatedNodeName":"node{at}",
        "conditions":[{{"type":"PodScheduled","status":"False","reason":"Unschedulable"}}]}}}}"#,
        meta(format!("pod{at}"))
    );
    let bound = waits.replace(
        r#""containers""#,
        &format!(r#""nodeName":"node{at}","containers""#),
    );
    [
        (ObjectKind::NodeClaim, Change::Upsert(claim.clone().into())),
        (ObjectKind::Pod, Change::Upsert(waits.into())),
        (ObjectKind::Node, Change::Upsert(node.clone().into())),
        (ObjectKind::Pod, Change::Upsert(bound.clone().into())),
        (ObjectKind::Pod, Change::Remove(bound.into())),
        (ObjectKind::Node, Change::Remove(node.into())),
        (ObjectKind::NodeClaim, Change::Remove(claim.into())),
    ]
    .into()
}

/// A replica that stands by for months sees all that comes and goes, and acts on nothing of it.
#[tokio::test]
async fn a_replica_that_stands_by_keeps_nothing_of_what_has_gone() {
    let (server, _) = fresh();
    let ctx = Arc::new(Context {
        leadership: Leadership::new(false),
        ..context(&server, Ok(instance()))
    });
    let lasting = how(&ctx).1.len();
    let mut control = listed(ctx);
    for at in 0..10_000 {
        for (kind, change) in passing(at) {
            control.observe(Observed::of(kind, change));
            control.tick(Instant::now());
        }
    }
    assert!(
        control.state.claims.is_empty()
            && control.state.nodes.is_empty()
            && control.state.pods.count() == 0
    );
    let kept = [
        control.work.len(),
        control.pod_latency.len(),
        control.last_pod_events.len(),
        control.purchases.bought.len(),
    ];
    assert_eq!(
        kept, [0; 4],
        "jobs, decisions, pod events, pods that were bought for"
    );
    assert_eq!(
        control.state.pods.waits_changed().len() + control.state.pods.transitions().len(),
        0
    );
    assert!(!control.rollout.any_nominated());
    let names = control.state.freeze().world().names.len() - lasting;
    assert!(names < 20_000, "{names} of 30 000 labels are kept");
}

/// A loop that has listed everything and leads.
fn leading() -> Controller {
    let (server, _) = fresh();
    listed(Arc::new(context(&server, Ok(instance()))))
}

/// A loop that has listed everything: there is nothing.
fn listed(ctx: Arc<Context>) -> Controller {
    let (how, names) = how(&ctx);
    let round_timer = RoundTimer::new(Duration::from_millis(100), Duration::from_secs(1));
    let (mut control, _reports) =
        Controller::new(ctx, how, round_timer, names, SharedBoard::default());
    for kind in ObjectKind::ALL {
        control.observe(Observed::of(kind, Change::Begin));
        control.observe(Observed::of(kind, Change::End));
    }
    control
}

/// What `longshore status` prints.
fn status_of(control: &mut Controller) -> String {
    let synced = control.state.lists.synced() && control.silence().is_none();
    control.publish_status(synced, true, Instant::now());
    crate::status::as_text(lock(&control.board).status.as_ref().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_from_the_api_server_says_so() {
    let mut control = leading();
    control.ctx.clock.answered();
    let text = status_of(&mut control);
    assert!(text.starts_with("daemon    leads"), "{text}");
    assert_eq!(control.ctx.metrics.blocked.get(), 0);
    tokio::time::advance(MAX_WATCH_SILENCE).await;
    assert!(control.why_blocked(Instant::now()).is_some());
    let text = status_of(&mut control);
    assert!(
        text.starts_with("daemon    cut off from the API server"),
        "{text}"
    );
    let trouble = "trouble   API server: the API server has not answered since ";
    assert!(text.contains(trouble), "{text}");
    assert_eq!(control.ctx.metrics.blocked.get(), 1);
}

#[tokio::test]
async fn node_claims_that_could_not_be_created_were_not_bought() {
    let mut control = leading();
    control.rounds = 1;
    control.last_round.plan = Some(LastPlan {
        pods: 20,
        claims: 3,
        cost: 0.85,
        ..LastPlan::default()
    });
    control.written(0, 3, Instant::now());
    let (ctx, why) = (control.ctx.clone(), "nodeclaims.karpenter.sh is forbidden");
    ctx.memory
        .launch
        .refusals
        .note(Refused::Creation, "default", why, ctx.now());
    let text = status_of(&mut control);
    for line in [
        "20 pods got 3 NodeClaims (3 could not be created)",
        "refused   creating NodeClaims for NodePool default, 1 time since ",
        why,
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// A NodeClaim with an instance that was made so many minutes ago; it goes if `goes`.
fn launched(control: &Controller, name: &str, minutes: u64, goes: bool) -> String {
    let now = control.ctx.now();
    let made = node_claim::rfc3339(now - Duration::from_secs(60 * minutes));
    let going = if goes {
        let now = node_claim::rfc3339(now);
        format!(r#","deletionTimestamp":"{now}","finalizers":["karpenter.sh/termination"]"#)
    } else {
        String::new()
    };
    let catalogue = control.offers.current.catalogue();
    let kind = control.state.names().text(catalogue.types()[0].name);
    format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{name}","creationTimestamp":"{made}"{going},
        "labels":{{"karpenter.sh/nodepool":"default","node.kubernetes.io/instance-type":"{kind}",
        "karpenter.sh/capacity-type":"on-demand","topology.kubernetes.io/zone":"test-zone-a"}}}},
        "spec":{{"nodeClassRef":{{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}},
        "requirements":[]}},"status":{{"providerID":"kwok://{name}"}}}}"#
    )
}

#[tokio::test]
async fn churn_a_burst_the_bill_and_what_was_changed_are_in_the_status() {
    let mut control = leading();
    let now = Instant::now();
    control.tick(now);
    let observe = |control: &mut Controller, kind, change| {
        control.observe(Observed::of(kind, change));
    };
    let upsert = |text: &str| Change::Upsert(text.into());
    observe(&mut control, ObjectKind::KwokNodeClass, upsert(CLASS));
    observe(&mut control, ObjectKind::NodePool, upsert(POOL));
    let second = POOL.replacen(r#""generation":1"#, r#""generation":2"#, 1);
    observe(&mut control, ObjectKind::NodePool, upsert(&second));
    for node in 0..4 {
        let claim = launched(&control, &format!("stays-{node}"), 300, false);
        observe(&mut control, ObjectKind::NodeClaim, upsert(&claim));
    }
    for node in 0..6 {
        let name = format!("goes-{node}");
        let claim = launched(&control, &name, 9, true);
        observe(&mut control, ObjectKind::NodeClaim, upsert(&claim));
        let claim = control.state.claims[&name].clone();
        control.ctx.disrupted("spot_interrupted", &claim);
        if node > 2 {
            let text = launched(&control, &name, 9, true);
            observe(
                &mut control,
                ObjectKind::NodeClaim,
                Change::Remove(text.into()),
            );
        }
    }
    control.tick(now + recent::SAMPLE_INTERVAL);
    let text = status_of(&mut control);
    for line in [
        "warning   nodes live short: 6 ended within the hour, 4 are there; half of those that ended \
         lived no longer than 9 min; 6 of them are of NodePool default, 6 ended as spot_interrupted",
        "warning   interruptions took 6 of 10 nodes within 10 min: 6 in test-zone-a",
        "churn     6 nodes launched and 6 ended in the last hour",
        "this process has watched for ",
        "lost      6 nodes to interruptions within 10 min: test-zone-a 6; ",
        " USD/h for 7 nodes; an hour ago not known; a day ago not known: watched since ",
        "Z KWOKNodeClass default: created",
        "Z NodePool default: generation 2, was 1 (2 changes)",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let status = lock(&control.board).status.clone().unwrap();
    let cost = status.cost.unwrap();
    assert!(cost.usd_per_hour > 0.0, "{cost:?}");
    assert_eq!(cost.unpriced, 0);
}

#[tokio::test]
async fn what_the_first_list_brings_was_not_changed() {
    let mut control = leading();
    control.state = ClusterState::new(control.state.names().clone());
    for (kind, object) in [
        (ObjectKind::NodePool, POOL),
        (ObjectKind::KwokNodeClass, CLASS),
    ] {
        for change in [Change::Begin, Change::Upsert(object.into()), Change::End] {
            control.observe(Observed::of(kind, change));
        }
    }
    assert!(!status_of(&mut control).contains("changed"));
    control.observe(Observed::of(
        ObjectKind::NodePool,
        Change::Remove(POOL.into()),
    ));
    let text = status_of(&mut control);
    assert!(text.contains("NodePool default: deleted"), "{text}");
}
