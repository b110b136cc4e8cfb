//! Lists, whole or page by page, as of now or as of an older revision.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use serde_json::json;

use super::request::{self, AsOf, Body, Parameters, RequestPath};
use super::watch::{self, Wanted, WatchOptions};
use crate::server::api_error::{ApiErrorWithDetails, Cause};
use crate::server::resources::POD;
use crate::server::select::Selector;
use crate::server::state::{Server, ServerState};
use crate::server::store::Stored;

/// A watch without a time of its own ends after this (a real server: half an hour to an hour).
const DEFAULT_WATCH_TIME: Duration = Duration::from_secs(1800);

/// What is asked for: of which objects, and how much of them.
pub fn wanted(
    place: &RequestPath,
    parameters: &Parameters,
    partial: bool,
) -> Result<Wanted, ApiErrorWithDetails> {
    let selector = Selector::parse(
        place.resource,
        parameters.get("labelSelector"),
        parameters.get("fieldSelector"),
    )?;
    Ok(Wanted {
        resource: place.resource,
        namespace: place.namespace.clone(),
        selector,
        partial,
    })
}

/// Where a list begins: as of which revision, after which path.
struct Start {
    revision: u64,
    after: String,
}

/// Answers a list.
pub fn list(
    state: &ServerState,
    wanted: &Wanted,
    parameters: &Parameters,
    as_of: Option<AsOf>,
) -> Result<Bytes, ApiErrorWithDetails> {
    let limit: usize = match parameters.get("limit") {
        "" => 0,
        text => text.parse().map_err(|_| {
            ApiErrorWithDetails::bad(format!("unable to parse limit {text:?} as a number"))
        })?,
    };
    let start = start(state, parameters, as_of)?;
    let prefix = if wanted.namespace.is_empty() {
        String::new()
    } else {
        format!("{}/", wanted.namespace)
    };
    let after = if start.after.is_empty() {
        &prefix
    } else {
        &start.after
    };
    let mut items = Vec::new();
    let mut taken = 0;
    let mut last = None;
    let mut left = 0;
    let mut visit = |stored: &Arc<Stored>| {
        if !stored.path.starts_with(&prefix) {
            return false;
        }
        if limit > 0 && taken == limit {
            // Only a list without a selection says how many are left.
            left += 1;
            return wanted.selector.is_empty();
        }
        if wanted.takes(stored) {
            if taken > 0 {
                items.push(b',');
            }
            if wanted.partial {
                items.extend_from_slice(stored.partial().as_bytes());
            } else {
                stored.write_item(&mut items);
            }
            taken += 1;
            last = Some(stored.path.clone());
        }
        true
    };
    match wanted
        .selector
        .node()
        .filter(|_| wanted.resource == POD && start.revision == state.store.revision())
    {
        Some(node) => drop(state.store.on_node(node, after).all(visit)),
        None => state
            .store
            .walk(wanted.resource, after, start.revision, &mut visit),
    }
    let mut metadata = json!({"resourceVersion": start.revision.to_string()});
    if let (true, Some(last)) = (left > 0, last) {
        metadata["continue"] = json!(token(start.revision, &last));
        if wanted.selector.is_empty() {
            metadata["remainingItemCount"] = json!(left);
        }
    }
    let (kind, version) = match wanted.partial {
        true => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
        false => (wanted.resource.kind, wanted.resource.api_version()),
    };
    let head = format!(
        "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
    );
    let mut out = Vec::with_capacity(head.len() + items.len() + 2);
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(&items);
    out.extend_from_slice(b"]}");
    Ok(out.into())
}

fn start(
    state: &ServerState,
    parameters: &Parameters,
    as_of: Option<AsOf>,
) -> Result<Start, ApiErrorWithDetails> {
    let now = state.store.revision();
    let known = |revision: u64| revision >= state.store.forgotten();
    let continued = parameters.get("continue");
    if !continued.is_empty() {
        let wrong = || {
            ApiErrorWithDetails::bad(
                "continue key is not valid: it is none that this server has given",
            )
        };
        let (revision, after) = untoken(continued).ok_or_else(wrong)?;
        // The error of an expired continue token: the rest is available as of now.
        let revision = if revision == 0 { now } else { revision };
        if !known(revision) {
            let message = "The provided continue parameter is too old to display a consistent \
                list result. You can \
                start a new list without the continue parameter.";
            let mut refused = ApiErrorWithDetails::plain(410, "Expired", message);
            refused.next = Some(token(0, &after));
            return Err(refused);
        }
        return Ok(Start { revision, after });
    }
    let given = version(parameters)?;
    let exact = match parameters.get("resourceVersionMatch") {
        "" | "NotOlderThan" => false,
        "Exact" => true,
        other => {
            let cause = Cause::invalid(
                "resourceVersionMatch",
                &json!(other),
                "supported values: Exact, NotOlderThan",
            );
            return Err(ApiErrorWithDetails::invalid_options(&cause));
        }
    };
    let revision = match (given, as_of) {
        // Whoever does not say that an old answer will do gets what is there now.
        (Some(0), Some(AsOf(revision))) if known(revision) => revision.min(now),
        (Some(given), _) if given > now => {
            let mut refused = ApiErrorWithDetails::plain(
                504,
                "Timeout",
                format!("Too large resource version: {given}, current: {now}"),
            );
            refused.details.insert("retryAfterSeconds".into(), json!(1));
            return Err(refused.because(json!([
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ])));
        }
        (Some(given), _) if exact => {
            if !known(given) {
                return Err(ApiErrorWithDetails::expired(given, state.store.forgotten()));
            }
            given
        }
        _ => now,
    };
    Ok(Start {
        revision,
        after: String::new(),
    })
}

/// `resourceVersion`, if there is one.
fn version(parameters: &Parameters) -> Result<Option<u64>, ApiErrorWithDetails> {
    match parameters.get("resourceVersion") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            ApiErrorWithDetails::bad(format!(
                "resourceVersion: Invalid value: {text:?}: it is not a number"
            ))
        }),
    }
}

fn token(revision: u64, last: &str) -> String {
    let hex: String = last.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{revision}.{hex}")
}

fn untoken(token: &str) -> Option<(u64, String)> {
    let (revision, hex) = token.split_once('.')?;
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect::<Option<_>>()?;
    Some((revision.parse().ok()?, String::from_utf8(bytes).ok()?))
}

/// Answers a watch.
pub fn watch(
    server: &Server,
    client: &str,
    wanted: Wanted,
    parameters: &Parameters,
) -> Result<Response<Body>, ApiErrorWithDetails> {
    let given = parameters.get("resourceVersion");
    let given = match version(parameters) {
        Ok(given) => given,
        // Another part of a real server reads it, and says it in its own way.
        Err(_) => {
            let why = format!("strconv.ParseUint: parsing {given:?}: invalid syntax");
            return Err(ApiErrorWithDetails::plain(
                500,
                "",
                format!("resourceVersion: Invalid value: {given:?}: {why}"),
            ));
        }
    };
    let initial = match parameters.get("sendInitialEvents") {
        "" => None,
        _ => Some(parameters.is("sendInitialEvents")),
    };
    if initial.is_some() && parameters.get("resourceVersionMatch") != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(ApiErrorWithDetails::invalid_options(&Cause::forbidden(
            "resourceVersionMatch",
            why,
        )));
    }
    let lasts = match parameters.get("timeoutSeconds").parse() {
        Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => DEFAULT_WATCH_TIME,
    };
    let course = {
        let state = server.lock();
        let now = state.store.revision();
        let all = initial.unwrap_or(matches!(given, None | Some(0)));
        let first = match all {
            true => state
                .store
                .all(wanted.resource)
                .filter(|stored| wanted.takes(stored))
                .cloned()
                .collect(),
            false => Vec::new(),
        };
        let after = match given {
            Some(given) if !all && given > 0 => given,
            _ => now,
        };
        let bookmarks = parameters.is("allowWatchBookmarks");
        WatchOptions {
            after,
            first,
            marks_beginning: initial == Some(true) && bookmarks,
            bookmarks,
            lasts,
        }
    };
    Ok(request::stream(Body::Watch(Box::pin(watch::lines(
        server, client, wanted, course,
    )))))
}

pub fn selected(state: &ServerState, wanted: &Wanted) -> Vec<Arc<Stored>> {
    state
        .store
        .all(wanted.resource)
        .filter(|stored| wanted.takes(stored))
        .cloned()
        .collect()
}

/// Whether the client asks for metadata only.
pub fn is_partial(accept: &str) -> bool {
    let first = accept.split(',').next().unwrap_or_default();
    first.contains("as=PartialObjectMetadata")
}
