//! Events for pods about their annotation `karpenter.sh/do-not-disrupt`: that a value which cannot be
//! read protects them from nothing, until when a duration does, and that it has ended.

use k8s_openapi::jiff::Timestamp;
use longshore_api::time::{go_duration, timestamp};
use longshore_core::model::pod::DoNotDisrupt;
use longshore_core::model::{ClusterObjects, Pod};
use serde::Deserialize;

const KEY: &str = "karpenter.sh/do-not-disrupt";

/// The reason of the Event about a value that cannot be read, which is Karpenter's.
pub const INVALID: &str = "InvalidDoNotDisruptAnnotation";
/// The reason of the Event about a protection that ends, which is Karpenter's.
pub const UNTIL: &str = "DoNotDisruptUntil";

/// The reason of the Event about a protection that has ended, which is Karpenter's.
pub const ELAPSED: &str = "DoNotDisruptGracePeriodElapsed";
/// The end of a protection is no news so many seconds later.
const REPORT_WINDOW_SECONDS: i64 = 3600;

/// An Event about the annotation of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectionEvent {
    /// `namespace/name`.
    pub pod: String,
    pub uid: String,
    /// The reason of the Event, a warning for one of them.
    pub reason: &'static str,
    /// Message of the Event, one sentence.
    pub message: String,
}

/// The Event for a pod, given as JSON, at `now` in seconds since 1970. `None` for most: pods without
/// the annotation are not parsed.
pub fn event_for(pod: &str, now: i64) -> Option<ProtectionEvent> {
    #[derive(Deserialize)]
    struct Pod {
        metadata: Meta,
        #[serde(default)]
        status: Option<Status>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Meta {
        namespace: String,
        name: String,
        uid: String,
        annotations: Option<std::collections::BTreeMap<String, String>>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Status {
        start_time: Option<String>,
    }
    if !pod.contains(KEY) {
        return None;
    }
    let Pod { metadata, status } = serde_json::from_str(pod).ok()?;
    let annotations = metadata.annotations.unwrap_or_default();
    let value = annotations.get(KEY)?;
    let (reason, message) = match value.as_str() {
        "" | "true" | "false" => return None,
        text => match go_duration(text).filter(|seconds| *seconds > 0) {
            Some(seconds) => {
                let started = status.and_then(|status| timestamp(&status.start_time?))?;
                let until = started.saturating_add(seconds);
                let end = Timestamp::from_second(until).ok().filter(|_| now < until)?;
                (UNTIL, format!("the pod is not disrupted before {end}"))
            }
            None => (
                INVALID,
                format!(
                    "annotation {KEY}: {value:?} is neither \"true\" nor a duration above 0, such as \
                    \"1h30m\"; the pod is not protected"
                ),
            ),
        },
    };
    Some(ProtectionEvent {
        pod: format!("{}/{}", metadata.namespace, metadata.name),
        uid: metadata.uid,
        reason,
        message,
    })
}

/// Events for pods on nodes whose protection has ended within the last hour.
pub fn elapsed(world: &ClusterObjects) -> Vec<ProtectionEvent> {
    let ended = |pod: &Pod| {
        let DoNotDisrupt::For(seconds) = pod.do_not_disrupt else {
            return None;
        };
        let end = pod.started?.saturating_add(seconds.into());
        let is_news = end <= world.now && world.now < end.saturating_add(REPORT_WINDOW_SECONDS);
        let is_there = pod.node.is_some() && !pod.terminal && !pod.deleting;
        (is_news && is_there).then_some(end)
    };
    let event = |pod: &Pod| {
        let end = Timestamp::from_second(ended(pod)?).ok()?;
        let namespace = world.names.text(world.shapes.get(pod.shape).namespace);
        Some(ProtectionEvent {
            pod: format!("{namespace}/{}", pod.name),
            uid: pod.uid.to_string(),
            reason: ELAPSED,
            message: format!("the pod may be disrupted again since {end}"),
        })
    };
    world.pods.iter().filter_map(event).collect()
}

#[cfg(test)]
mod tests {
    use longshore_api::manifests::Reader;

    use super::*;

    /// Reason and message for a pod that began at noon, an hour later.
    fn said(value: &str) -> Option<(&'static str, String)> {
        let annotations = serde_json::json!({KEY: value});
        let metadata = serde_json::json!({"namespace": "shop", "name": "web", "uid": "u", "annotations": annotations});
        let status = serde_json::json!({"startTime": "2026-11-24T12:00:00Z"});
        let pod = serde_json::json!({"metadata": metadata, "status": status}).to_string();
        let now = timestamp("2026-11-24T13:00:00Z").unwrap();
        event_for(&pod, now).map(|event| {
            assert_eq!((&*event.pod, &*event.uid), ("shop/web", "u"));
            (event.reason, event.message)
        })
    }

    #[test]
    fn a_value_that_protects_from_nothing_is_told() {
        for value in ["True", "1", "1d", "infinite", "0s", "-1h"] {
            let (reason, message) = said(value).expect(value);
            assert!(reason == INVALID && message.contains(value), "{message}");
        }
        for value in ["true", "false", ""] {
            assert_eq!(said(value), None);
        }
        assert_eq!(event_for(r#"{"metadata": {"name": "web"}}"#, 0), None);
    }

    #[test]
    fn a_pod_that_is_protected_for_a_while_is_told_until_when() {
        let end = "the pod is not disrupted before 2026-11-24T13:30:00Z".to_owned();
        assert_eq!(said("1h30m"), Some((UNTIL, end)));
        assert_eq!(said("1h"), None, "it is over");
        let waits = r#"{"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "1h"}}}"#;
        assert_eq!(event_for(waits, 0), None, "it has not begun");
    }

    #[test]
    fn a_pod_whose_protection_has_ended_is_told_for_an_hour() {
        let pod = |name: &str, value: &str, spec: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, uid: u-{name}, annotations: \
                 {{{KEY}: {value}}}}}\nspec: {{{spec}}}\nstatus: {{phase: Running, startTime: \
                 '2026-11-24T12:00:00Z'}}\n---\n"
            )
        };
        let text = [
            pod("ended", "90m", "nodeName: n"),
            pod("holds", "2h", "nodeName: n"),
            pod("long", "20m", "nodeName: n"),
            pod("waits", "90m", ""),
            pod("always", "'true'", "nodeName: n"),
        ];
        let mut reader = Reader::new();
        reader.read(
            "pods.yaml",
            text.concat().trim_end_matches("---\n").as_bytes(),
        );
        let (mut world, problems) = reader.finish();
        assert!(problems.list.is_empty(), "{problems}");
        world.now = timestamp("2026-11-24T13:30:00Z").unwrap();
        let expected = ProtectionEvent {
            pod: "shop/ended".into(),
            uid: "u-ended".into(),
            reason: ELAPSED,
            message: "the pod may be disrupted again since 2026-11-24T13:30:00Z".into(),
        };
        assert_eq!(elapsed(&world), [expected]);
    }
}
