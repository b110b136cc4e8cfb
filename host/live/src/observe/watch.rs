//! Lists and watches one kind, and reports what changes.
//!
//! It uses the client's plain requests instead of kube's `watcher`, because objects are handed on
//! as the text that the server sent (without managed fields). The types of `watcher` do not allow
//! that, and its list type buffers every object. The receiver gets `Begin`, every object, `End`,
//! and from then on each change in order. Everything is listed again after any possible loss of a
//! change (a disconnect past the server's memory, 410, an error), or on request ([`Relists`]).
//! Bookmarks are handed on, so that silence can be distinguished from a quiet cluster. An API server
//! on which nothing of a kind has happened yet sends no bookmarks of it. So a watch that is silent is
//! no failure: the list is read again, which proves what is there.
//!
//! A list of many pages has to be read before the server compacts its version. If that fails, the
//! next attempt asks for larger pages, and at last for everything at once ([`Pages`]).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::AsyncBufReadExt as _;
use futures::StreamExt as _;
use kube::Client;
use longshore_api::json;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout_at};

use super::definitions::INSTALL;
use longshore_api::kinds::ObjectKind;
use longshore_api::strip_managed_fields::strip_managed_fields;
use longshore_fail_points::fail_point;
use longshore_journal::record::What;

/// What a watch brings.
#[derive(Debug)]
pub struct Observed {
    pub kind: ObjectKind,
    pub change: Change,
    /// The version of the object that it is about, where it is a number.
    pub version: Option<u64>,
}

/// A change of a kind.
#[derive(Debug)]
pub enum Change {
    /// A list begins.
    Begin,
    /// An object, listed, added or changed, as JSON.
    Upsert(Box<str>),
    /// An object that is gone, as JSON.
    Remove(Box<str>),
    /// Everything up to the version of [`Observed`] has been sent: by a bookmark, or by a list,
    /// before its `End`.
    Version,
    /// The list is complete.
    End,
    /// It could not be listed or watched; it is tried again.
    Failed(String),
    /// What could not be watched is watched again, and nothing was missed.
    Recovered,
}

impl Change {
    /// What the journal has of it; nothing if nothing has changed in the state.
    pub fn recorded(self) -> Option<What> {
        match self {
            Change::Begin => Some(What::Begin),
            Change::Upsert(json) => Some(What::Upsert(json)),
            Change::Remove(json) => Some(What::Remove(json)),
            Change::End => Some(What::End),
            Change::Failed(why) => Some(What::Failed(why.into())),
            Change::Recovered | Change::Version => None,
        }
    }
}

impl Observed {
    /// What is about no single object.
    pub fn of(kind: ObjectKind, change: Change) -> Self {
        Observed {
            kind,
            change,
            version: None,
        }
    }

    fn reached(kind: ObjectKind, version: &str) -> Self {
        Observed {
            kind,
            change: Change::Version,
            version: number(version),
        }
    }
}

fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

/// Lifetime of a watch before it is renewed, in seconds.
const WATCH_SECONDS: u64 = 290;

/// Bookmarks come every minute; if a watch brings nothing for so long, the kind is listed again. The
/// list has 15 s until nothing is planned any more ([`super::freshness`]).
const MAX_SILENCE: Duration = Duration::from_secs(75);
/// Where an object of our own kinds was deleted, its definition may go as well. The API server ends no
/// watch of a definition that is gone for up to two minutes, and one that comes back is another: so
/// the kind is listed again this long after.
const RELIST_DELAY_AFTER_DELETION: Duration = Duration::from_secs(5);
/// A watch that ended sooner than this and brought nothing is not asked for again at once.
const MIN_WATCH_TIME: Duration = Duration::from_secs(1);

/// Asks watches for a new list.
pub struct Relists(BTreeMap<ObjectKind, Notify>);

impl Default for Relists {
    fn default() -> Self {
        Relists(
            ObjectKind::ALL
                .into_iter()
                .map(|kind| (kind, Notify::new()))
                .collect(),
        )
    }
}

impl Relists {
    /// A kind is listed again, as the server has it now.
    pub fn ask(&self, kind: ObjectKind) {
        if let Some(asked) = self.0.get(&kind) {
            asked.notify_one();
        }
    }

    async fn asked(&self, kind: ObjectKind) {
        match self.0.get(&kind) {
            Some(asked) => asked.notified().await,
            None => std::future::pending().await,
        }
    }
}

/// Why a list ended before it was complete.
enum Incomplete {
    /// The server has compacted its version, or did so before the watch could begin.
    Expired,
    /// The channel to the loop is closed: the process ends.
    ReceiverClosed,
    /// A request or its answer failed, for this reason.
    Failed(String),
}

/// How many objects a page has: more after each list that was too slow for its version, so that the
/// next one is read in fewer requests.
struct Pages(usize);

/// A page is asked for so often before the list begins again.
const PAGE_ATTEMPTS: u32 = 3;

impl Pages {
    const FIRST_PAGE: usize = 500;
    const GROWTH: usize = 4;
    /// The largest page. After that a list is read in one answer, which the server makes from
    /// memory.
    const LAST_PAGE: usize = 32_000;

    /// The next list has to be faster.
    fn too_slow(&mut self) {
        self.0 = match self.0 {
            0 => 0,
            Pages::LAST_PAGE => 0,
            limit => (limit * Pages::GROWTH).min(Pages::LAST_PAGE),
        };
    }
}

/// Why a watch ended.
enum Ended {
    /// The server closed it: continue from the last version. Whether it has brought anything.
    Closed(bool),
    /// The server has compacted our version: list again.
    Gone,
    /// Nothing was heard for a while: list again.
    Silent,
    /// The channel to the loop is closed: the process ends.
    ReceiverClosed,
}

/// The same as [`watch`], once the kind is asked for.
pub async fn watch_once_asked(
    client: Client,
    kind: ObjectKind,
    relists: &Relists,
    out: Sender<Observed>,
) {
    relists.asked(kind).await;
    watch(client, kind, relists, out).await;
}

/// Runs until the receiver is closed.
pub async fn watch(client: Client, kind: ObjectKind, relists: &Relists, out: Sender<Observed>) {
    let mut pause = Pause::default();
    let mut pages = Pages(Pages::FIRST_PAGE);
    loop {
        let mut version = match list(&client, kind, &pages, &out).await {
            Ok(version) => version,
            Err(Incomplete::ReceiverClosed) => return,
            Err(Incomplete::Expired) => {
                pages.too_slow();
                let said = "the list took longer than the API server keeps versions; listing again \
                            in larger pages";
                // Once is ordinary in a large cluster.
                match pause.0 {
                    0 => tracing::info!(?kind, said),
                    _ => tracing::warn!(?kind, said),
                }
                pause.wait().await;
                continue;
            }
            Err(Incomplete::Failed(error)) => {
                if out
                    .send(Observed::of(kind, Change::Failed(error)))
                    .await
                    .is_err()
                {
                    return;
                }
                pause.wait().await;
                continue;
            }
        };
        let listed = version.clone();
        // When the server last said anything that has a version. A list may take minutes, and says
        // what there was when it began; what came since is what the watch begins with.
        let mut heard = Instant::now();
        loop {
            let begun = Instant::now();
            // A reopened watch may lag; only a list is known to be current.
            if begun.duration_since(heard) >= MAX_SILENCE {
                break;
            }
            // In this order, so that two runs of a simulation are equal.
            let followed = tokio::select! {
                biased;
                () = relists.asked(kind) => break,
                followed = follow(&client, kind, &mut version, &mut heard, pause.0 > 0, &out) => followed,
            };
            match followed {
                Ok(Ended::Closed(brought)) if brought || begun.elapsed() >= MIN_WATCH_TIME => {
                    pause.reset()
                }
                Ok(Ended::Closed(_)) => pause.wait().await,
                Ok(Ended::Silent) => break,
                Ok(Ended::Gone) => {
                    if version == listed {
                        pages.too_slow();
                    }
                    // A server that compacts versions as fast as it sends them would be listed
                    // without end.
                    if begun.elapsed() < MIN_WATCH_TIME {
                        pause.wait().await;
                    }
                    break;
                }
                Ok(Ended::ReceiverClosed) => return,
                Err(error) => {
                    let sent = out.send(Observed::of(kind, Change::Failed(error))).await;
                    if sent.is_err() {
                        return;
                    }
                    pause.wait().await;
                }
            }
        }
    }
}

/// Waits longer each time: 0.2 s to 10 s.
#[derive(Default)]
struct Pause(u32);

impl Pause {
    fn reset(&mut self) {
        self.0 = 0;
    }

    async fn wait(&mut self) {
        sleep(Duration::from_millis((200u64 << self.0.min(6)).min(10_000))).await;
        self.0 += 1;
    }
}

fn get(path: &str) -> Result<http::Request<Vec<u8>>, String> {
    http::Request::get(path)
        .body(Vec::new())
        .map_err(|e| e.to_string())
}

/// Lists everything page by page. Returns the version to watch from.
async fn list(
    client: &Client,
    kind: ObjectKind,
    pages: &Pages,
    out: &Sender<Observed>,
) -> Result<String, Incomplete> {
    let tell = async |observed| {
        let sent = out.send(observed).await;
        sent.map_err(|_| Incomplete::ReceiverClosed)
    };
    tell(Observed::of(kind, Change::Begin)).await?;
    let mut token = String::new();
    loop {
        let text = page_text(client, kind, pages, &token).await?;
        let (meta, items) = page(&text).ok_or_else(|| {
            let plural = kind.at().plural;
            Incomplete::Failed(format!("list {plural}: response is not a List"))
        })?;
        for item in items {
            let (object, version) = strip_managed_fields(item);
            let version = version.and_then(number);
            tell(Observed {
                kind,
                change: Change::Upsert(object),
                version,
            })
            .await?;
        }
        if meta.next.is_empty() {
            tell(Observed::reached(kind, &meta.resource_version)).await?;
            tell(Observed::of(kind, Change::End)).await?;
            return Ok(meta.resource_version);
        }
        token = meta.next;
    }
}

/// The answer to a list. What has begun is not begun again because one request failed.
async fn page_text(
    client: &Client,
    kind: ObjectKind,
    pages: &Pages,
    token: &str,
) -> Result<String, Incomplete> {
    let path = kind.at().path();
    let path = match pages.0 {
        0 => path,
        limit => format!("{path}?limit={limit}&continue={}", escaped(token)),
    };
    let mut attempts = 0;
    let mut pause = Pause::default();
    loop {
        let asked = get(&path).map_err(Incomplete::Failed)?;
        let error = match client.request_text(asked).await {
            Ok(text) => return Ok(text),
            Err(error) => error,
        };
        attempts += 1;
        match &error {
            kube::Error::Api(status) if status.code == 410 && !token.is_empty() => {
                return Err(Incomplete::Expired);
            }
            kube::Error::Api(status) if status.code < 500 => attempts = PAGE_ATTEMPTS,
            _ => {}
        }
        if token.is_empty() || attempts >= PAGE_ATTEMPTS {
            let why = reason(client, kind, "list", error).await;
            return Err(Incomplete::Failed(why));
        }
        pause.wait().await;
    }
}

/// The metadata of a list.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

/// The metadata of a list and the texts of its items; nothing if it is not a list. An empty list
/// has `items` too (`[]`, or `null` from servers in Go). An answer without `items` says nothing
/// about existing objects.
fn page(text: &str) -> Option<(ListMeta, Vec<&str>)> {
    #[derive(Deserialize)]
    struct Page<'a> {
        #[serde(default)]
        metadata: ListMeta,
        #[serde(borrow)]
        items: &'a RawValue,
    }
    let page: Page<'_> = serde_json::from_str(text)
        .ok()
        .filter(|page: &Page<'_>| !page.metadata.resource_version.is_empty())?;
    let mut items = Vec::new();
    let list = page.items.get();
    if !list.starts_with('[') && list != "null" {
        return None;
    }
    if list.starts_with('[') {
        json::walk(list.as_bytes(), 0, |_, start| {
            let end = match json::skip_value(list.as_bytes(), start) {
                Ok(end) => end,
                Err(broken) => return Some(Err(broken)),
            };
            items.push(&list[start..end]);
            Some(Ok(end))
        })
        .ok()?;
    }
    Some((page.metadata, items))
}

/// A line of a watch.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Failure {
    code: u16,
    message: String,
}

async fn follow(
    client: &Client,
    kind: ObjectKind,
    version: &mut String,
    heard: &mut Instant,
    troubled: bool,
    out: &Sender<Observed>,
) -> Result<Ended, String> {
    let path = format!(
        "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
        kind.at().path(),
        escaped(version)
    );
    let stream = match client.request_stream(get(&path)?).await {
        Ok(stream) => stream,
        Err(kube::Error::Api(status)) if status.code == 410 => return Ok(Ended::Gone),
        Err(error) => return Err(reason(client, kind, "watch", error).await),
    };
    if troubled
        && out
            .send(Observed::of(kind, Change::Recovered))
            .await
            .is_err()
    {
        return Ok(Ended::ReceiverClosed);
    }
    let mut lines = std::pin::pin!(stream.lines());
    let mut brought = false;
    let mut doubtful: Option<Instant> = None;
    loop {
        let until = *heard + MAX_SILENCE;
        let until = doubtful.map_or(until, |at| at.min(until));
        let next = timeout_at(until, lines.next()).await;
        let line = match next {
            Err(_) => return Ok(Ended::Silent),
            Ok(None | Some(Err(_))) => {
                tracing::debug!(?kind, "the API server closed the watch; reopening");
                return Ok(Ended::Closed(brought));
            }
            Ok(Some(Ok(line))) => line,
        };
        if line.trim().is_empty() {
            continue;
        }
        fail_point("watch");
        let Ok(Line { kind: what, object }) = serde_json::from_str::<Line<'_>>(&line) else {
            return Err(format!("watch {}: malformed watch event", kind.at().plural));
        };
        let (object, seen) = strip_managed_fields(object.get());
        let change = match what {
            "ADDED" | "MODIFIED" => Some(Change::Upsert(object)),
            "DELETED" => {
                let is_ours = kind.is_configuration();
                doubtful =
                    doubtful.or(is_ours.then(|| Instant::now() + RELIST_DELAY_AFTER_DELETION));
                Some(Change::Remove(object))
            }
            "BOOKMARK" => Some(Change::Version),
            "ERROR" => match serde_json::from_str(&object).unwrap_or_default() {
                Failure { code: 410, .. } => return Ok(Ended::Gone),
                Failure { message, .. } => {
                    return Err(format!("watch {}: {message}", kind.at().plural));
                }
            },
            _ => None,
        };
        if let Some(change) = change
            && out
                .send(Observed {
                    kind,
                    change,
                    version: seen.and_then(number),
                })
                .await
                .is_err()
        {
            return Ok(Ended::ReceiverClosed);
        }
        brought = true;
        *heard = Instant::now();
        if let Some(seen) = seen {
            version.clear();
            version.push_str(seen);
        }
    }
}

/// Percent-encodes what stands in a query.
fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes()
        .map(|b| {
            if plain(b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

/// The error in words an operator can act on.
async fn reason(client: &Client, kind: ObjectKind, verb: &str, error: kube::Error) -> String {
    let at = kind.at();
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            let resource = format!("{}.{}", at.plural, at.group);
            let resource = resource.trim_end_matches('.');
            format!("missing RBAC permission: {verb} {resource}; kubectl apply -f deploy/rbac.yaml")
        }
        kube::Error::Api(status) if status.code == 404 && at.group.contains('.') => {
            let has = other_versions(client, at.group).await;
            format!(
                "{} of {} are not known to the cluster{has}; {INSTALL}",
                at.plural,
                at.api_version()
            )
        }
        error => format!("cannot {verb} {}: {}", at.plural, with_causes(&error)),
    }
}

/// `, which has karpenter.sh/v1beta1`, if the server has other versions of a group.
async fn other_versions(client: &Client, group: &str) -> String {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Version {
        group_version: String,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Group {
        versions: Vec<Version>,
    }
    let Ok(asked) = get(&format!("/apis/{group}")) else {
        return String::new();
    };
    let found = client.request::<Group>(asked).await.unwrap_or_default();
    let names: Vec<String> = found
        .versions
        .into_iter()
        .map(|v| v.group_version)
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(", which has {}", names.join(", "))
    }
}

/// An error with what it comes from: the first alone often says no more than that a service failed.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
