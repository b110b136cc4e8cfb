//! Tests of what a real server cannot be asked for: faults, lost history, equal bytes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::resources::{CONFIG_MAP, EVENT, LIMIT_RANGE, NODE, NODE_CLAIM, POD};
use super::{DeleteOptions, RequestInfo, Server, Subresource, Verdict, Whose};
use crate::clock::Clock;
use crate::object::{Event, Key};

type Map = k8s_openapi::api::core::v1::ConfigMap;

fn server() -> Server {
    let epoch = "2026-01-05T09:00:00Z".parse().expect("a time");
    Server::new(Clock::starting_at(epoch), 1)
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}})
}

fn key(name: &str) -> Key {
    Key {
        resource: CONFIG_MAP,
        namespace: "default".into(),
        name: name.into(),
    }
}

async fn text(server: &Server, path: &str) -> Result<String, kube::Error> {
    let request = http::Request::get(path)
        .body(Vec::new())
        .expect("a request");
    server.client("reader").request_text(request).await
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_bytes() {
    let mut all = Vec::new();
    for _ in 0..2 {
        let server = server();
        for _ in 0..5 {
            let pod = json!({
                "metadata": {"generateName": "p-", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            server.create(POD, pod).expect("a pod");
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        all.push(text(&server, "/api/v1/pods").await.expect("a list"));
    }
    assert_eq!(all[0], all[1]);
}

#[tokio::test(start_paused = true)]
async fn actors_see_every_change_in_order() {
    let server = server();
    let before = server.revision();
    server.create(CONFIG_MAP, map("a")).expect("new");
    let set = &mut |map: &mut Value| map["data"] = json!({"x": "1"});
    server
        .update(&key("a"), Subresource::Object, set)
        .expect("changed");
    server
        .update(&key("a"), Subresource::Object, set)
        .expect("not changed");
    server
        .delete(&key("a"), &DeleteOptions::default())
        .expect("gone");
    let events: Vec<Event> = server
        .changes(before)
        .iter()
        .map(|change| change.event)
        .collect();
    assert_eq!(events, [Event::Added, Event::Modified, Event::Deleted]);
    server.changed(before).await;
    assert!(
        tokio::time::timeout(Duration::from_secs(9), server.changed(server.revision()))
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_is_410() {
    let server = server();
    for name in ["a", "b", "c"] {
        server.create(CONFIG_MAP, map(name)).expect("new");
    }
    let then = server.revision();
    let page = text(&server, "/api/v1/configmaps?limit=1")
        .await
        .expect("a page");
    let page: Value = serde_json::from_str(&page).expect("JSON");
    server.create(CONFIG_MAP, map("d")).expect("new");
    server.compact();
    let watch = text(
        &server,
        &format!("/api/v1/configmaps?watch=1&resourceVersion={then}"),
    )
    .await
    .expect("a watch");
    assert!(
        watch.starts_with("{\"object\":") || watch.contains("\"type\":\"ERROR\""),
        "{watch}"
    );
    assert!(
        watch.contains("\"code\":410") && watch.lines().count() == 1,
        "{watch}"
    );
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let late = text(
        &server,
        &format!("/api/v1/configmaps?limit=1&continue={token}"),
    )
    .await;
    assert!(matches!(late, Err(kube::Error::Api(status)) if status.code == 410));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_kind_is_watched_for_longer_than_anything_is_remembered() {
    let server = server();
    let path = format!(
        "/api/v1/nodes?watch=1&timeoutSeconds=1500&resourceVersion={}",
        server.revision()
    );
    let reader = tokio::spawn({
        let server = server.clone();
        async move { text(&server, &path).await.expect("a watch") }
    });
    for n in 0..20 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        server
            .create(CONFIG_MAP, map(&format!("m{n}")))
            .expect("new");
    }
    server
        .create(NODE, json!({"metadata": {"name": "late"}}))
        .expect("new");
    let events = reader.await.expect("read");
    assert!(
        events.contains("\"ADDED\"") && !events.contains("ERROR"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn watches_stall_and_drop() {
    let server = server();
    let begun = Instant::now();
    server.stall_watches(begun + Duration::from_secs(40));
    let reader = |server: Server| async move {
        let path = format!(
            "/api/v1/configmaps?watch=1&timeoutSeconds=100&resourceVersion={}",
            server.revision()
        );
        let client = server.client("reader");
        let request = http::Request::get(path)
            .body(Vec::new())
            .expect("a request");
        let lines = client.request_stream(request).await.expect("a watch");
        let mut lines = std::pin::pin!(futures::AsyncBufReadExt::lines(lines));
        let first = futures::StreamExt::next(&mut lines).await;
        let at = begun.elapsed().as_secs();
        let last = futures::StreamExt::next(&mut lines).await;
        (
            first.is_some(),
            at,
            last.is_none(),
            begun.elapsed().as_secs(),
        )
    };
    let reading = tokio::spawn(reader(server.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.create(CONFIG_MAP, map("a")).expect("new");
    tokio::time::sleep(Duration::from_secs(59)).await;
    server.drop_watches();
    assert_eq!(reading.await.expect("read"), (true, 40, true, 60));
}

/// What a client's watch of a path says, each line with the second in which it came, `b` for a
/// bookmark.
async fn heard(server: Server, client: &str, path: &str, lasts: u64) -> Vec<String> {
    let begun = Instant::now();
    let path = format!(
        "{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds={lasts}&resourceVersion={}",
        server.revision()
    );
    let request = http::Request::get(path)
        .body(Vec::new())
        .expect("a request");
    let lines = server
        .client(client)
        .request_stream(request)
        .await
        .expect("a watch");
    let mut lines = std::pin::pin!(futures::AsyncBufReadExt::lines(lines));
    let mut all = Vec::new();
    while let Some(Ok(line)) = futures::StreamExt::next(&mut lines).await {
        let event: Value = serde_json::from_str(&line).expect("an event");
        let what = match event["type"].as_str() {
            Some("BOOKMARK") => {
                format!("b{}", event["object"]["metadata"]["resourceVersion"]).replace('"', "")
            }
            _ => event["object"]["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        };
        all.push(format!("{} {what}", begun.elapsed().as_secs()));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    let server = server();
    let revision = server.revision();
    let heard = heard(server, "reader", "/api/v1/configmaps", 130).await;
    assert_eq!(
        heard,
        ["60", "120", "128"].map(|at| format!("{at} b{revision}"))
    );
}

#[tokio::test(start_paused = true)]
async fn one_clients_watches_of_one_kind_are_silent_or_late() {
    let server = server();
    let begun = Instant::now();
    let deaf = Whose {
        client: Some("deaf".to_owned()),
        kind: Some(CONFIG_MAP),
    };
    let late = Whose {
        client: Some("late".to_owned()),
        kind: None,
    };
    server.silence(deaf, begun + Duration::from_secs(90));
    server.delay_watches(
        late,
        Duration::from_secs(20),
        begun + Duration::from_secs(65),
    );
    let first = server.revision();
    let listen = |client: &'static str, path: &'static str| {
        tokio::spawn(heard(server.clone(), client, path, 100))
    };
    let maps = "/api/v1/configmaps";
    let (deaf, nodes, late, other) = (
        listen("deaf", maps),
        listen("deaf", "/api/v1/nodes"),
        listen("late", maps),
        listen("other", maps),
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    server.create(CONFIG_MAP, map("a")).expect("new");
    server
        .create(NODE, json!({"metadata": {"name": "n"}}))
        .expect("new");
    tokio::time::sleep(Duration::from_secs(45)).await;
    server.create(CONFIG_MAP, map("z")).expect("new");
    let [second, last] = [first + 2, first + 3];
    let mark = |at: u64, revision: u64| format!("{at} b{revision}");
    let text = |all: Vec<String>| all.join(", ");
    assert_eq!(
        text(deaf.await.expect("read")),
        format!("90 a, 90 z, {}, {}", mark(90, last), mark(98, last))
    );
    assert_eq!(
        text(nodes.await.expect("read")),
        format!("10 n, {}, {}", mark(60, last), mark(98, last))
    );
    assert_eq!(
        text(late.await.expect("read")),
        format!("30 a, {}, 65 z, {}", mark(60, second), mark(98, last))
    );
    assert_eq!(
        text(other.await.expect("read")),
        format!("10 a, 55 z, {}, {}", mark(60, last), mark(98, last))
    );
    assert!(
        text_of_list(&server, "deaf").await.contains("\"z\""),
        "lists are not held up"
    );
}

async fn text_of_list(server: &Server, client: &str) -> String {
    let request = http::Request::get("/api/v1/configmaps")
        .body(Vec::new())
        .expect("a request");
    server
        .client(client)
        .request_text(request)
        .await
        .expect("a list")
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_client_has_sent_is_done_and_answered_when_it_goes_on() {
    let server = server();
    let begun = Instant::now();
    let make = |name: &'static str| {
        let server = server.clone();
        tokio::spawn(async move {
            let api: Api<Map> = Api::namespaced(server.client("stopped"), "default");
            let made: Map = serde_json::from_value(map(name)).expect("a map");
            api.create(&PostParams::default(), &made)
                .await
                .expect("made");
            begun.elapsed().as_secs()
        })
    };
    server.set_gate(Box::new(|asked: &RequestInfo| match asked.number {
        0 => Verdict::Delay(Duration::from_secs(2)),
        _ => Verdict::Go,
    }));
    let sent = make("a");
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.stop_client("stopped", begun + Duration::from_secs(60));
    let held = make("b");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(server.get(&key("a")).is_some() && server.get(&key("b")).is_none());
    assert_eq!(
        (sent.await.expect("done"), held.await.expect("done")),
        (60, 60)
    );
    assert!(server.get(&key("b")).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_restore_brings_objects_back_under_other_uids_and_without_dependents() {
    let server = server();
    let mut named = map("a");
    named["metadata"]["finalizers"] = json!(["example.com/holds"]);
    let old = server.create(CONFIG_MAP, named).expect("new");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": old["metadata"]["uid"]});
    let node = json!({"metadata": {"name": "n", "ownerReferences": [owner]}});
    server.create(NODE, node).expect("new");
    let before = server.revision();
    server.restore(CONFIG_MAP);
    let events: Vec<_> = server
        .changes(before)
        .into_iter()
        .map(|c| (c.event, c.key.name.to_string()))
        .collect();
    let expected = [
        (Event::Modified, "n"),
        (Event::Deleted, "a"),
        (Event::Added, "a"),
    ];
    assert_eq!(
        events,
        expected.map(|(event, name)| (event, name.to_owned()))
    );
    let new = server.get(&key("a")).expect("there");
    assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"]);
    assert_eq!(new["metadata"]["finalizers"], old["metadata"]["finalizers"]);
    assert_eq!(
        server.list(NODE)[0]["metadata"]["ownerReferences"],
        json!([])
    );
}

#[tokio::test(start_paused = true)]
async fn the_gate_refuses_delays_and_loses_what_it_is_told_to() {
    let server = server();
    let verdicts = Arc::new(Mutex::new(vec![
        Verdict::Delay(Duration::from_secs(5)),
        Verdict::Refuse {
            code: 429,
            reason: "TooManyRequests",
            retry_after: Some(1),
        },
        Verdict::TimeOutBefore,
        Verdict::TimeOutAfter,
    ]));
    server.set_gate(Box::new({
        let verdicts = verdicts.clone();
        move |asked: &RequestInfo| {
            assert_eq!(
                (asked.verb, asked.resource, asked.client.as_str()),
                ("create", Some(CONFIG_MAP), "writer")
            );
            verdicts.lock().expect("alone").pop().unwrap_or(Verdict::Go)
        }
    }));
    let api: Api<Map> = Api::namespaced(server.client("writer"), "default");
    let begun = Instant::now();
    let mut log = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let made: Map = serde_json::from_value(map(name)).expect("a map");
        let answer = match api.create(&PostParams::default(), &made).await {
            Ok(_) => "made".to_owned(),
            Err(kube::Error::Api(status)) => status.code.to_string(),
            Err(_) => "lost".to_owned(),
        };
        log.push(format!(
            "{answer} {}s {}",
            begun.elapsed().as_secs(),
            server.get(&key(name)).is_some()
        ));
    }
    assert_eq!(
        log,
        [
            "lost 30s true",
            "lost 60s false",
            "429 60s false",
            "made 65s true"
        ]
    );
    assert_eq!(
        server.requests().by,
        [(("writer".to_owned(), "create", "configmaps".to_owned()), 4)].into()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_shows_an_older_moment_with_its_version() {
    let server = server();
    server.create(CONFIG_MAP, map("a")).expect("new");
    let then = server.revision();
    server.create(CONFIG_MAP, map("b")).expect("new");
    server
        .delete(&key("a"), &DeleteOptions::default())
        .expect("gone");
    server.set_gate(Box::new(move |_| Verdict::Stale(then)));
    let api: Api<Map> = Api::all(server.client("reader"));
    let list = api
        .list(&ListParams::default().at("0"))
        .await
        .expect("a list");
    let names: Vec<String> = list
        .items
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    assert_eq!(
        (names, list.metadata.resource_version),
        (vec!["a".to_owned()], Some(then.to_string()))
    );
    let consistent = api
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items;
    assert_eq!(
        consistent.len(),
        1,
        "a client that does not ask for version 0 gets what is there now"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_killed_never_hears_again() {
    let server = server();
    server.set_gate(Box::new(|_| Verdict::Kill));
    let answer =
        tokio::time::timeout(Duration::from_secs(86_400), text(&server, "/api/v1/pods")).await;
    assert!(answer.is_err());
}

#[tokio::test(start_paused = true)]
async fn events_go_after_an_hour() {
    let server = server();
    for n in 0..3 {
        let event = json!({"metadata": {"name": format!("e{n}"), "namespace": "default"}, "involvedObject": {}});
        server.create(EVENT, event).expect("new");
        tokio::time::sleep(Duration::from_secs(2000)).await;
    }
    assert_eq!(server.list(EVENT).len(), 2);
}

#[tokio::test(start_paused = true)]
#[allow(clippy::print_stdout)]
async fn claims_are_made_and_their_status_is_written() {
    let server = server();
    let claim = |n: usize| {
        json!({"metadata": {"name": format!("c{n}")}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
        }})
    };
    let key = |n: usize| Key {
        resource: NODE_CLAIM,
        namespace: "".into(),
        name: format!("c{n}").into(),
    };
    let begun = std::time::Instant::now();
    for n in 0..100 {
        server.create(NODE_CLAIM, claim(n)).expect("a claim");
    }
    let made = begun.elapsed();
    let begun = std::time::Instant::now();
    for n in 0..1000 {
        let set = &mut |claim: &mut Value| {
            claim["status"] = json!({"nodeName": format!("n{n}"), "conditions": []})
        };
        server
            .update(&key(n % 100), Subresource::Status, set)
            .expect("a status");
    }
    println!(
        "100 NodeClaims made {made:?}, 1 000 times their status {:?}",
        begun.elapsed()
    );
    assert_eq!(server.list(NODE_CLAIM).len(), 100);
}

#[tokio::test(start_paused = true)]
async fn containers_that_say_nothing_get_what_the_limit_range_of_their_namespace_says() {
    let server = server();
    let limits = json!([
        {"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "4", "memory": "1Gi"}, "min": {"cpu": "1"}},
        {"type": "Pod", "max": {"example.com/fan": "1"}},
    ]);
    let range =
        json!({"metadata": {"name": "r", "namespace": "default"}, "spec": {"limits": limits}});
    let range = server.create(LIMIT_RANGE, range).expect("a LimitRange");
    let entry = &range["spec"]["limits"][0];
    assert_eq!(entry["default"], json!({"cpu": "2", "memory": "1Gi"}));
    assert_eq!(
        entry["defaultRequest"],
        json!({"cpu": "2", "memory": "1Gi"})
    );
    let pod = |namespace: &str| {
        let containers = json!([
            {"name": "a", "image": "x:1"},
            {"name": "b", "image": "x:1", "resources": {"requests": {"cpu": "0"}, "limits": {"memory": "1Mi"}}},
        ]);
        json!({"metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": containers}})
    };
    let made = server.create(POD, pod("default")).expect("a pod");
    let resources = |at: usize| made["spec"]["containers"][at]["resources"].clone();
    let both = json!({"cpu": "2", "memory": "1Gi"});
    assert_eq!(resources(0), json!({"requests": both, "limits": both}));
    let own =
        json!({"requests": {"cpu": "0", "memory": "1Mi"}, "limits": {"cpu": "2", "memory": "1Mi"}});
    assert_eq!(resources(1), own);
    server
        .create(
            super::resources::NAMESPACE,
            json!({"metadata": {"name": "other"}}),
        )
        .expect("a namespace");
    let elsewhere = server.create(POD, pod("other")).expect("a pod");
    assert_eq!(elsewhere["spec"]["containers"][0]["resources"], json!({}));
}

/// Not a test of time but of what it is spent on: run with `--nocapture` for the figures.
#[tokio::test(start_paused = true)]
#[allow(clippy::print_stdout)]
async fn twenty_thousand_pods_are_made_and_listed() {
    let server = server();
    let begun = std::time::Instant::now();
    for n in 0..20_000 {
        let pod = json!({
            "metadata": {"name": format!("p{n:05}"), "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": [{
                "name": "main", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
            }]},
        });
        server.create(POD, pod).expect("a pod");
    }
    let made = begun.elapsed();
    let begun = std::time::Instant::now();
    let all = text(&server, "/api/v1/pods").await.expect("a list");
    let first = begun.elapsed();
    let begun = std::time::Instant::now();
    let again = text(&server, "/api/v1/pods").await.expect("a list");
    let second = begun.elapsed();
    let begun = std::time::Instant::now();
    let (mut token, mut pages) = (String::new(), 0);
    loop {
        let page = text(&server, &format!("/api/v1/pods?limit=500&continue={token}"))
            .await
            .expect("a page");
        pages += 1;
        let head = page.get(..400).unwrap_or_default();
        let Some((_, rest)) = head.split_once("\"continue\":\"") else {
            break;
        };
        token = rest.split('"').next().unwrap_or_default().to_owned();
    }
    let paged = begun.elapsed();
    println!(
        "20 000 pods: made {made:?}, listed {first:?}, again {second:?}, in {pages} pages {paged:?}"
    );
    assert_eq!((all.len(), pages), (again.len(), 40));
}
