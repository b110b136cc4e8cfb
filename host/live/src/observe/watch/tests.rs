use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;

use super::*;
use crate::process::lock::lock;

#[test]
fn a_page_is_cut_into_its_items_as_they_were_sent() {
    let text = r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"a b"},"items":[{"a":[1,{"b":"]"}]}, {"c":2}]}"#;
    let (meta, items) = page(text).unwrap();
    assert_eq!(
        (meta.resource_version.as_str(), meta.next.as_str()),
        ("7", "a b")
    );
    assert_eq!(items, [r#"{"a":[1,{"b":"]"}]}"#, r#"{"c":2}"#]);
    assert_eq!(
        page(r#"{"metadata":{"resourceVersion":"7"},"items":null}"#)
            .unwrap()
            .1
            .len(),
        0
    );
    for broken in [
        "[]",
        "{}",
        r#"{"metadata":{"resourceVersion":"7"}}"#,
        r#"{"metadata":{},"items":[]}"#,
    ] {
        assert!(
            page(broken).is_none(),
            "{broken} tells nothing of what there is"
        );
    }
    assert_eq!(escaped("a b/="), "a%20b%2F%3D");
}

/// An answer: all of it at once, or the beginning of a watch that says nothing more.
struct Text(Option<Bytes>, bool);

impl http_body::Body for Text {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.0.take() {
            Some(text) => Poll::Ready(Some(Ok(Frame::data(text)))),
            None if self.1 => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

/// What a watch of pods tells, and what it asked for, within `seconds`: the server answers a
/// query with a code and a text. After 202 it closes the watch.
async fn observed(
    seconds: u64,
    answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
) -> (String, Vec<String>) {
    observed_of(ObjectKind::Pod, seconds, answer).await
}

async fn observed_of(
    kind: ObjectKind,
    seconds: u64,
    answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
) -> (String, Vec<String>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (answer, log) = (Arc::new(answer), asked.clone());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or("all").to_owned();
        let (code, text) = answer(&query);
        let follows = code == 200 && query.contains("watch=1");
        lock(&log).push(query);
        let text = Text(Some(text.into()), follows);
        std::future::ready(http::Response::builder().status(code).body(text))
    });
    let client = Client::new(service, "default");
    let (out, mut changes) = tokio::sync::mpsc::channel(100);
    let watching = tokio::spawn(async move {
        watch(client, kind, &Relists::default(), out).await;
    });
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut text = String::new();
    while let Ok(Some(observed)) = timeout_at(until, changes.recv()).await {
        text += &match observed.change {
            Change::Upsert(object) => format!("{object} "),
            other => format!("{other:?} "),
        };
    }
    watching.abort();
    let asked = lock(&asked).clone();
    (text, asked)
}

fn items(next: &str, items: &str) -> String {
    format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"{next}"}},"items":[{items}]}}"#)
}

const GONE: &str = r#"{"kind":"Status","status":"Failure","message":"too old","code":410}"#;

#[tokio::test(start_paused = true)]
async fn what_is_quiet_is_listed_again_and_is_no_failure() {
    let (text, asked) = observed(200, |query| match query.contains("watch=1") {
        true => (200, String::new()),
        false => (200, items("", "1")),
    })
    .await;
    assert_eq!(text, "Begin 1 Version End ".repeat(3));
    assert_eq!(asked.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_closes_is_opened_again_and_is_no_failure() {
    let (text, asked) = observed(60, |query| match query.contains("watch=1") {
        true => (202, String::new()),
        false => (200, items("", "1")),
    })
    .await;
    assert!(text.starts_with("Begin 1 Version End "), "{text}");
    assert!(!text.contains("Failed"), "{text}");
    assert!(asked.len() > 5, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_nodepool_that_was_deleted_may_have_lost_its_definition() {
    let deleted = "{\"type\":\"DELETED\",\"object\":{}}\n";
    let watched = |kind| {
        observed_of(kind, 18, move |query| match query.contains("watch=1") {
            true => (200, deleted.to_owned()),
            false => (200, items("", "1")),
        })
    };
    let (text, _) = watched(ObjectKind::NodePool).await;
    let lists = text.matches("Begin").count();
    assert_eq!(
        lists, 4,
        "the first, and one 5 s after each deletion: {text}"
    );
    let (text, _) = watched(ObjectKind::NodeClaim).await;
    assert_eq!(text.matches("Begin").count(), 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_slower_than_compaction_is_read_in_larger_pages_and_at_last_at_once() {
    let (text, asked) = observed(60, |query| match query {
        watch if watch.contains("watch=1") => (200, String::new()),
        "all" => (200, items("", "1,2,3")),
        first if first.ends_with("continue=") => (200, items("next", "1")),
        _ => (410, GONE.to_owned()),
    })
    .await;
    assert_eq!(
        text,
        "Begin 1 ".repeat(4) + "Begin 1 2 3 Version End Recovered "
    );
    let limits = asked.iter().filter(|query| query.ends_with("continue="));
    let limits: Vec<_> = limits.filter_map(|query| query.split('&').next()).collect();
    assert_eq!(
        limits,
        ["limit=500", "limit=2000", "limit=8000", "limit=32000"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_version_is_gone_when_it_is_complete_is_read_in_larger_pages() {
    let fast = AtomicBool::new(false);
    let (text, _) = observed(60, move |query| {
        if query == "all" {
            fast.store(true, Ordering::Relaxed);
        }
        match query.contains("watch=1") {
            true if fast.load(Ordering::Relaxed) => (200, String::new()),
            true => (410, GONE.to_owned()),
            false => (200, items("", "1")),
        }
    })
    .await;
    assert_eq!(text, "Begin 1 Version End ".repeat(5) + "Recovered ");
}

#[tokio::test(start_paused = true)]
async fn a_list_goes_on_after_a_page_that_failed() {
    let failures = AtomicUsize::new(0);
    let failed = r#"{"kind":"Status","status":"Failure","message":"etcd","code":500}"#;
    let (text, asked) = observed(60, move |query| match query {
        watch if watch.contains("watch=1") => (200, String::new()),
        first if first.ends_with("continue=") => (200, items("next", "1")),
        _ if failures.fetch_add(1, Ordering::Relaxed) < 2 => (500, failed.to_owned()),
        _ => (200, items("", "2")),
    })
    .await;
    assert_eq!(text, "Begin 1 2 Version End ");
    assert_eq!(asked.len(), 5);
}
