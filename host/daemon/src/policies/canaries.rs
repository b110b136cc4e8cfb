//! `longshore policy status`, `promote` and `abort`: what is remembered of canaries, and what an
//! operator wants of them.
//!
//! They read and write the ConfigMap of canaries, with the rights of the user that runs them. So any
//! replica will do, and RBAC decides. The replica that leads reads the ConfigMap every 15 s.

use std::fmt::Write as _;
use std::path::Path;

use crate::answer::Answer;
use crate::args::{CanaryArgs, CanaryStatusArgs};
use longshore_live::act::canary_map::{self, CanaryMap, Entry, NAME, Wish};
use longshore_live::canary::{Phase, Request, Rollout};
use longshore_live::error::Failure;
use longshore_live::process::clock::Clock;
use longshore_live::process::connection::{self, connect};
use longshore_live::process::leader::Leadership;
use longshore_live::process::step_error::StepError;
use longshore_report::messages::span;

/// Says how canaries stand.
pub(crate) fn status(args: &CanaryStatusArgs) -> Result<Answer, Failure> {
    let namespace = crate::run::namespace(args.namespace.as_deref());
    let map = on_server(args.kubeconfig.as_deref(), async |client| {
        canary_map::read(client, &namespace).await
    })?;
    let now = Clock::system().now().as_second();
    Ok(Answer::ok(text(&map.entries(), now)))
}

/// Lets a canary go a step further.
pub(crate) fn promote(args: &CanaryArgs) -> Result<Answer, Failure> {
    ask(args, Request::Promote)
}

/// `longshore policy abort`: asks for the return to the version at work.
pub(crate) fn abort(args: &CanaryArgs) -> Result<Answer, Failure> {
    ask(args, Request::Abort)
}

fn text(entries: &[Entry], now: i64) -> String {
    if entries.is_empty() {
        return "no policy has or had a canary\n".into();
    }
    let mut text = String::new();
    for Entry {
        policy,
        verdict,
        rollout,
    } in entries
    {
        let phase = match rollout.phase {
            Phase::Running => format!("step {} of {}", rollout.step + 1, rollout.order.len()),
            Phase::Promoted => "promoted".into(),
            Phase::RolledBack(_) => "taken back".into(),
        };
        let since = span((now - rollout.since).max(0));
        _ = writeln!(text, "{policy:<12} {} {phase} for {since}", rollout.version);
        _ = writeln!(text, "{:<12} {verdict}", "");
    }
    text
}

/// Writes a wish, and again where another writer came first.
fn ask(args: &CanaryArgs, request: Request) -> Result<Answer, Failure> {
    let namespace = crate::run::namespace(args.at.namespace.as_deref());
    let wish = on_server(args.at.kubeconfig.as_deref(), async |client| {
        for _ in 0..5 {
            let map = canary_map::read(client, &namespace).await?;
            let wish = wished(&map, &args.policy, request)?;
            match canary_map::write(client, &namespace, map.wishing(&wish)).await {
                Err(StepError::Conflict(_)) => {}
                written => return written.map(|_| wish),
            }
        }
        Err(StepError::Other(format!(
            "ConfigMap {NAME} is being written all the time"
        )))
    })?;
    let what = match request {
        Request::Promote => "goes on from",
        Request::Abort => "is taken back at",
    };
    Ok(Answer::ok(format!(
        "policy {}: its next version {} {what} step {} within 15 s, as soon as nothing else stands in \
         the way\n",
        wish.policy,
        wish.version,
        wish.step + 1
    )))
}

fn wished(map: &CanaryMap, policy: &str, request: Request) -> Result<Wish, StepError> {
    let entry = map.entry(policy);
    let Some(Rollout {
        version,
        step,
        phase,
        ..
    }) = entry.map(|entry| entry.rollout)
    else {
        let known: Vec<String> = map.entries().into_iter().map(|of| of.policy).collect();
        let known = match known.as_slice() {
            [] => "no policy has one".to_owned(),
            known => format!("these have: {}", known.join(", ")),
        };
        return Err(StepError::Other(format!(
            "policy {policy} has no canary; {known}"
        )));
    };
    match (phase, request) {
        (Phase::RolledBack(why), _) => Err(StepError::Other(format!(
            "the canary of policy {policy} was taken back: {why}; change its component or settings"
        ))),
        (Phase::Promoted, Request::Promote) => Err(StepError::Other(format!(
            "the canary of policy {policy} answers for all NodePools: put it into the policy's own entry"
        ))),
        _ => Ok(Wish {
            policy: policy.to_owned(),
            version,
            step,
            request,
        }),
    }
}

/// Runs a request against the API server of a kubeconfig.
fn on_server<T>(
    kubeconfig: Option<&Path>,
    ask: impl AsyncFnOnce(&kube::Client) -> Result<T, StepError>,
) -> Result<T, Failure> {
    let failed = |why: String| Failure::Usage {
        message: why,
        hint: format!("it needs get, create and update of ConfigMap {NAME}: see --namespace"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    runtime.block_on(async {
        let config = connection::config(kubeconfig).await?;
        let clients = connect(config, &Leadership::new(true), &Clock::system()).map_err(failed)?;
        ask(&clients.plain)
            .await
            .map_err(|error| failed(error.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_live::canary::{Facts, Promotion, Terms};

    fn terms() -> Terms {
        Terms {
            order: vec![vec!["dev".to_owned()], vec!["*".to_owned()]],
            hold: 60,
            promote: Promotion::Ask,
            max_cost_increase: 0.1,
        }
    }

    fn map(rollout: Rollout) -> CanaryMap {
        let verdict = rollout.verdict(&terms(), 100);
        CanaryMap::default().with(&Entry {
            policy: "carbon".to_owned(),
            verdict,
            rollout,
        })
    }

    #[test]
    fn a_wish_is_refused_where_it_means_nothing() {
        let mut rollout = Rollout::begin("new", "old", false, &terms(), 100);
        let wish = |of: &Rollout, policy: &str| {
            wished(&map(of.clone()), policy, Request::Promote).map_err(|error| error.to_string())
        };
        assert_eq!(wish(&rollout, "carbon").unwrap().step, 0);
        assert_eq!(
            wish(&rollout, "carbn").unwrap_err(),
            "policy carbn has no canary; these have: carbon"
        );
        let abort = Facts {
            request: Some(Request::Abort),
            ..Facts::default()
        };
        rollout.observe(&terms(), &abort, 160);
        assert_eq!(
            wish(&rollout, "carbon").unwrap_err(),
            "the canary of policy carbon was taken back: an operator aborted it; change its component \
             or settings"
        );
    }

    #[test]
    fn each_canary_has_a_line_and_a_sentence() {
        let rollout = Rollout::begin("0123456789abcdef", "old", false, &terms(), 100);
        assert_eq!(
            text(&map(rollout).entries(), 160),
            "carbon       0123456789abcdef step 1 of 2 for 60 s\n             step 1 of 2, waits for 60 s \
             of its hold, 20 rounds in which it is asked, `longshore policy promote`\n"
        );
        assert_eq!(text(&[], 0), "no policy has or had a canary\n");
    }
}
