//! The loop behind a real listener. What it observes is told by hand; the API server takes whatever is written.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use crate::input;
use crate::live::edges::fixed;
use crate::live::journal::Journal;
use crate::live::lifecycle::tests::{context, fresh, instance};
use crate::live::policies::{Manager, Setup};
use crate::live::serve;
use crate::live::watch::Change;

const POOL: &str = r#"{"metadata":{"name":"default","uid":"p","generation":1},"spec":{"template":{"spec":{
    "requirements":[{"key":"kubernetes.io/os","operator":"In","values":["linux"]}],
    "nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}}}},
    "status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-05T09:00:00Z","reason":"Ready",
    "message":"","observedGeneration":1}]}}"#;
const CLASS: &str = r#"{"metadata":{"name":"default","uid":"c","generation":1},"spec":{},"status":{"conditions":[
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
    for kind in Kind::ALL {
        let object = match kind {
            Kind::NodePool => Some(POOL),
            Kind::KwokNodeClass => Some(CLASS),
            _ => None,
        };
        let changes =
            [Change::Begin].into_iter().chain(object.map(|text| Change::Upsert(text.into()))).chain([Change::End]);
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
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, answer)
}

#[tokio::test]
async fn two_loops_of_questions_do_not_keep_rounds_from_being_made() {
    let (server, _) = fresh();
    let ctx = Arc::new(context(&server, Ok(instance())));
    let (world, _) = input::catalogue_only(None).map_err(|failure| failure.report()).unwrap();
    let how = How {
        catalogue: fixed(world.catalogue),
        shortages: ctx.shortages.clone(),
        settings: longshore_core::model::Settings::default(),
        manager: Manager::by_hand(Setup::default()).map_err(|failure| failure.report()).unwrap().0,
        journal: Journal::off(),
        inline: false,
    };
    let (out, observations) = channel(64);
    let (asks, asked) = channel(16);
    let board = SharedBoard::default();
    let at = serve::tests::status_on_loopback(&ctx, &board, &asks).await;
    let timetable = Timetable::new(Duration::from_millis(100), Duration::from_secs(1));
    let (_echoes, echoes) = tokio::sync::mpsc::unbounded_channel();
    let heard = Heard { observations, echoes, asks: asked };
    let control = tokio::spawn(run(ctx.clone(), how, timetable, world.names, board, heard));
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
                out.send(Observed::of(Kind::Pod, pod("web"))).await.unwrap();
            }
        }
        codes
    };
    let both = timeout(Duration::from_secs(60), async { tokio::join!(ask(Some(out.clone())), ask(None)) }).await;
    let (one, other) = both.expect("a round is made all the same");
    assert!(one.contains(&404), "{one:?}");
    assert!(one.contains(&429) || other.contains(&429), "one question at a time: {one:?} {other:?}");
    drop(out);
    control.await.unwrap();
}
