//! Jobs: pods until the required number has succeeded.
//!
//! Absent: indexed completion, pod failure policies, backoff between failed pods,
//! `activeDeadlineSeconds`, CronJobs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::template;
use crate::actors::context::ActorContext;
use crate::actors::work::Work;
use crate::fields;
use crate::object::Key;
use crate::server::{Subresource, resources};

/// Makes pods until the Job is done or has failed too often, and counts them.
pub fn reconcile(ctx: &mut ActorContext, key: &Key, job: &Value) {
    let over = ["Complete", "Failed"]
        .into_iter()
        .any(|c| fields::condition(job, c) == "True");
    if over {
        return expire(ctx, key, job);
    }
    if fields::deleting(job) {
        return;
    }
    let pods = ctx.view.controlled(resources::POD, fields::uid(job));
    let phase = |wanted: &str| {
        pods.iter()
            .filter(|(_, p)| fields::text(p, "/status/phase") == wanted)
            .count() as i64
    };
    let (succeeded, failed) = (phase("Succeeded"), phase("Failed"));
    let active: Vec<&(Key, Arc<Value>)> = pods
        .iter()
        .filter(|(_, p)| !fields::ended(p) && !fields::deleting(p))
        .collect();
    let at_once = fields::number(job, "/spec/parallelism").unwrap_or(1).max(0);
    let completions = fields::number(job, "/spec/completions").unwrap_or(at_once);
    let failures = fields::number(job, "/spec/backoffLimit").unwrap_or(6);
    let stopped = job["spec"]["suspend"] == true;
    let wanted = if stopped {
        0
    } else {
        at_once.min(completions - succeeded).max(0)
    };
    let done = succeeded >= completions && !stopped;
    let given_up = failed > failures;
    if !done && !given_up {
        for _ in active.len() as i64..wanted {
            let name = ctx.name(&format!("{}-", key.name));
            ctx.create(resources::POD, pod(job, &name));
        }
    }
    let leave = if given_up { 0 } else { wanted };
    for (key, _) in active.iter().skip(leave as usize) {
        ctx.delete(key);
    }
    let stamp = ctx.stamp();
    let started = job["status"]["startTime"]
        .as_str()
        .unwrap_or(&stamp)
        .to_owned();
    ctx.set_status(
        key,
        &[
            ("startTime", json!(started)),
            ("active", count(if done || given_up { 0 } else { wanted })),
            ("succeeded", count(succeeded)),
            ("failed", count(failed)),
        ],
    );
    if done || given_up {
        let now = ctx.clock.now();
        ctx.update(key, Subresource::Status, |job| {
            if done {
                fields::map_at(job, "status")["completionTime"] = stamp.clone().into();
                fields::set_condition(job, "Complete", "True", "CompletionsReached", "", now);
            } else {
                fields::set_condition(
                    job,
                    "Failed",
                    "True",
                    "BackoffLimitExceeded",
                    "too many failed pods",
                    now,
                );
            }
        });
    }
}

fn count(n: i64) -> Value {
    if n == 0 { Value::Null } else { json!(n) }
}

fn pod(job: &Value, name: &str) -> Value {
    let mut pod = template::pod(&job["spec"]["template"], resources::JOB, job, name);
    template::label(&mut pod, "batch.kubernetes.io/job-name", fields::name(job));
    template::label(
        &mut pod,
        "batch.kubernetes.io/controller-uid",
        fields::uid(job),
    );
    let spec = fields::map_at(&mut pod, "spec");
    if spec["restartPolicy"].as_str().is_none_or(|p| p == "Always") {
        spec["restartPolicy"] = "Never".into();
    }
    pod
}

/// A Job that is over goes after `ttlSecondsAfterFinished`, with its pods.
fn expire(ctx: &mut ActorContext, key: &Key, job: &Value) {
    let Some(ttl) = fields::number(job, "/spec/ttlSecondsAfterFinished") else {
        return;
    };
    let over = fields::items(job, "/status/conditions")
        .iter()
        .find(|c| c["status"] == "True");
    let Some(over) = over.and_then(|c| fields::time(c, "/lastTransitionTime")) else {
        return;
    };
    let age = ctx.clock.now().duration_since(over).as_secs();
    if age >= ttl {
        ctx.delete(key);
    } else {
        let wait = Duration::from_secs((ttl - age).unsigned_abs());
        let due = ctx.clock.elapsed() + wait;
        ctx.event_queue.once(due, Work::Reconcile(key.clone()));
    }
}
