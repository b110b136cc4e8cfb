//! `longshore explain pod NAME`: why the pod got its node, or none; `longshore explain node NAME`:
//! whether it would be disrupted, and why it stays. They work on files, or ask a running daemon.
//! [`longshore_report::pod_explanation`] has the words.

use longshore_core::stop::Stop;
use longshore_report::explained::Explained;
use longshore_report::pod_explanation::{ExplainInput, NotExplained, explain};

use crate::answer::Answer;
use crate::args::{ExplainArgs, ExplainedKind, Output};
use crate::disrupt;
use crate::input;
use crate::plan::{Planned, decide};
use crate::status;
use longshore_live::decide::deadline::Deadline;
use longshore_live::error::Failure;

/// Explains what became of one pod or node: of the files that are named, else in the daemon that runs.
pub fn run(args: &ExplainArgs) -> Result<Answer, Failure> {
    let explained = if args.world.snapshot.is_empty() {
        ask(args)?
    } else if args.kind == ExplainedKind::Node {
        disrupt::explain_node(args)?
    } else {
        let planned = decide(&args.world)?;
        input::complain(&planned.problems);
        let Planned {
            snapshot,
            scorers,
            options,
            plan,
            ..
        } = &planned;
        let deadline = Deadline::after(Some(options.time_limit));
        let is_over = || deadline.is_over();
        let stop = Stop::when(&is_over);
        explain(
            &ExplainInput {
                snapshot,
                policies: scorers,
                options: options.how(),
                plan,
                stop,
            },
            &args.name,
        )
        .map_err(failure)?
    };
    Ok(Answer::ok(match args.output {
        Output::Text => explained.text,
        Output::Json => {
            format!(
                "{}\n",
                serde_json::to_string_pretty(&explained.explanation)
                    .map_err(|e| Failure::Print(e.into()))?
            )
        }
    }))
}

fn failure(why: NotExplained) -> Failure {
    match why {
        NotExplained::Unwritable(error) => Failure::Print(error.into()),
        why => Failure::Usage {
            message: why.to_string(),
            hint: why.hint(),
        },
    }
}

/// Asks a daemon over HTTP and reads its answer.
fn ask(args: &ExplainArgs) -> Result<Explained, Failure> {
    let escaped: String = args
        .name
        .bytes()
        .map(|b| {
            if is_plain(b) {
                (b as char).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect();
    let at = status::address(args.at.as_deref());
    let alone = "start `longshore run`, or give manifests with --snapshot.";
    let kind = match args.kind {
        ExplainedKind::Pod => "pod",
        ExplainedKind::Node => "node",
    };
    let body = status::ask(&at, &format!("/explain/{kind}/{escaped}"), alone)?;
    serde_json::from_str(&body).map_err(|_| Failure::Usage {
        message: format!("{at} answers something else: {}", body.trim()),
        hint: "is that a Longshore daemon of this version?".into(),
    })
}

fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._~/".contains(&b)
}

#[cfg(test)]
mod tests;
