//! `longshore render`: what nodes are made with.

use std::fmt::Write as _;
use std::sync::Arc;

use longshore_ec2::bootstrap::{Capacity, Kept, read_back};
use longshore_ec2::userdata::{Node, Rendered, nodes, read_nodes};
use longshore_policy::BootFacts;
use serde_json::json;
use similar::TextDiff;

use crate::answer::Answer;
use crate::args::{Output, UserdataArgs};
use crate::input;
use crate::policies::load_bootstrap;
use longshore_live::bootstrap::{self as boot, BootPolicy, Machine, Request};
use longshore_live::error::Failure;
use longshore_live::policies::typed::scorer;

/// Prints the user data of every node of the files. A node that cannot be rendered has an error in
/// its place. With a bootstrap policy it is the policy's, or the built-in with a note where the
/// policy's answer is refused.
pub fn userdata(args: &UserdataArgs) -> Result<Answer, Failure> {
    let Some(typed) = &args.bootstrap else {
        let all = input::all(&args.file, nodes)?;
        return Ok(Answer::ok(match args.output {
            Output::Text => all.iter().map(text).collect(),
            Output::Json => format!("{:#}\n", json!(all)),
        }));
    };
    let mut policy = load_bootstrap(&scorer(typed)?)?;
    let all = input::all(&args.file, read_nodes)?;
    let all: Vec<(Rendered, Option<ByPolicy>)> =
        all.iter().map(|node| rendered(node, &mut policy)).collect();
    Ok(Answer::ok(match (args.output, args.diff) {
        (Output::Text, false) => all.iter().map(|(one, by)| noted(text(one), by)).collect(),
        (Output::Text, true) => all
            .iter()
            .map(|(one, by)| {
                noted(
                    by.as_ref().map_or_else(|| text(one), |by| diff(one, by)),
                    by,
                )
            })
            .collect(),
        (Output::Json, with_diff) => {
            let one = |(one, by): &(Rendered, Option<ByPolicy>)| {
                let mut value = json!(one);
                if let Some(by) = by {
                    if !by.notes.is_empty() {
                        value["notes"] = json!(by.notes);
                    }
                    if with_diff {
                        value["diff"] = json!(by.diff(one));
                    }
                }
                value
            };
            format!("{:#}\n", json!(all.iter().map(one).collect::<Vec<_>>()))
        }
    }))
}

/// What a policy adds to what was rendered.
struct ByPolicy {
    built_in: String,
    notes: Vec<String>,
}

impl ByPolicy {
    /// Lines that differ from the built-in, with three lines around them; empty for none.
    fn diff(&self, one: &Rendered) -> String {
        TextDiff::from_lines(&self.built_in, &one.user_data)
            .unified_diff()
            .header("built-in", "policy")
            .to_string()
    }
}

/// The node's user data by the policy. Where the built-in cannot be rendered, the policy is not
/// asked: there would be nothing to fall back to.
fn rendered(node: &Node, policy: &mut BootPolicy) -> (Rendered, Option<ByPolicy>) {
    let mut one = Rendered {
        name: node.name.clone(),
        user_data: String::new(),
        error: String::new(),
        warnings: node.warnings.clone(),
    };
    let built_in = match node.render() {
        Ok(text) => text,
        Err(problem) => {
            one.error = problem.to_string();
            return (one, None);
        }
    };
    let answer = policy.ask(&request(node, &built_in));
    let text = answer
        .of
        .first()
        .and_then(|&at| answer.texts.get(at as usize));
    one.user_data = text.cloned().unwrap_or_default();
    let notes = answer.notes;
    (one, Some(ByPolicy { built_in, notes }))
}

/// A node of a file: one machine, of which nothing is known but how many pods it takes.
fn request(node: &Node, built_in: &str) -> Request<'static> {
    let capacity = Capacity::default();
    let said = read_back(node.boot.family, built_in).unwrap_or_default();
    let kept = Kept::said(&said.kubelet, &capacity);
    let mut machines = boot::unknown_machine(node.node_class.to_string(), node.max_pods);
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    machines.instance_types = vec![label("node.kubernetes.io/instance-type")];
    let labels = node.labels.iter();
    machines.labels = labels
        .map(|(key, value)| (key.clone(), vec![value.clone()]))
        .collect();
    let name = machines.instance_types[0].clone();
    Request {
        facts: Arc::new(BootFacts {
            cluster: boot::cluster(&node.boot, node.max_pods.is_some()),
            machines,
            built_in: boot::overhead_columns([kept].into_iter()),
        }),
        kind: boot::kind(&node.boot, node.lasting_taints, &node.labels),
        machines: vec![Machine {
            name,
            boot: node.boot.clone(),
            text: built_in.to_owned(),
            capacity,
            kept: Some(kept),
        }],
        booted: &|_, _| None,
    }
}

/// A line with the name, then the text, then warnings.
fn text(one: &Rendered) -> String {
    let end = match one.user_data.ends_with('\n') {
        true => "",
        false => "\n",
    };
    let mut text = match one.error.as_str() {
        "" => format!("==> {} <==\n{}{end}", one.name, one.user_data),
        error => format!("==> {} <==\nno user data: {error}\n", one.name),
    };
    for warning in &one.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// A line with the name, then what differs from the built-in.
fn diff(one: &Rendered, by: &ByPolicy) -> String {
    match by.diff(one).as_str() {
        "" => format!("==> {} <==\nas the built-in\n", one.name),
        lines => format!("==> {} <==\n{lines}", one.name),
    }
}

/// The text, then the notes.
fn noted(mut text: String, by: &Option<ByPolicy>) -> String {
    for note in by.iter().flat_map(|by| &by.notes) {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
