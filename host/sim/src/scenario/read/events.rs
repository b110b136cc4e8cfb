//! `[[event]]`: an event at a time.

use std::time::Duration;

use longshore_live::config::reader::Table;

use super::files;
use super::known::ScenarioBasics;
use super::values::{MAX_SCENARIO, moment, path, share};
use crate::scenario::{Policy, ScenarioEvent};

#[derive(Clone, Copy)]
enum ScenarioEventKind {
    Apply,
    Break,
    CutLease,
    Delete,
    DropWatches,
    ForgetHistory,
    Interrupt,
    KillDaemon,
    Policy,
    Prices,
    Shortage,
    StallWatches,
}

const KINDS: [(&str, ScenarioEventKind); 12] = [
    ("apply", ScenarioEventKind::Apply),
    ("break", ScenarioEventKind::Break),
    ("cut-lease", ScenarioEventKind::CutLease),
    ("delete", ScenarioEventKind::Delete),
    ("drop-watches", ScenarioEventKind::DropWatches),
    ("forget-history", ScenarioEventKind::ForgetHistory),
    ("interrupt", ScenarioEventKind::Interrupt),
    ("kill-daemon", ScenarioEventKind::KillDaemon),
    ("policy", ScenarioEventKind::Policy),
    ("prices", ScenarioEventKind::Prices),
    ("shortage", ScenarioEventKind::Shortage),
    ("stall-watches", ScenarioEventKind::StallWatches),
];

/// All of them, with those that come again.
pub fn events(root: &mut Table, known: &ScenarioBasics) -> Vec<(Duration, ScenarioEvent)> {
    let mut events = Vec::new();
    for mut table in root.tables("event") {
        if !table.has("at") {
            table.missing("at", "\"6h\"");
        }
        let at = moment(&mut table, "at", known.duration).unwrap_or_default();
        let every = table.duration("every", Duration::from_secs(60)..=MAX_SCENARIO);
        table.required_text("do");
        let Some(kind) = table.one_of("do", &KINDS) else {
            continue;
        };
        if let Some(act) = act(&mut table, kind, known) {
            let mut at = at;
            while at < known.duration {
                events.push((at, act.clone()));
                at = every.map_or(MAX_SCENARIO, |every| at + every);
            }
        }
        table.finish();
    }
    events
}

fn act(
    table: &mut Table,
    kind: ScenarioEventKind,
    known: &ScenarioBasics,
) -> Option<ScenarioEvent> {
    Some(match kind {
        ScenarioEventKind::KillDaemon => ScenarioEvent::KillDaemon,
        ScenarioEventKind::DropWatches => ScenarioEvent::DropWatches,
        ScenarioEventKind::ForgetHistory => ScenarioEvent::ForgetHistory,
        ScenarioEventKind::StallWatches => ScenarioEvent::StallWatches(length(table)?),
        ScenarioEventKind::CutLease => {
            if known.replicas < 2 {
                let hint = "write `replicas = 2` in [daemon]".into();
                table.fault_at(
                    "do",
                    "`cut-lease` with one daemon, which competes for no Lease".into(),
                    hint,
                );
            }
            ScenarioEvent::CutLease(length(table)?)
        }
        ScenarioEventKind::Shortage => ScenarioEvent::Shortage {
            offerings: offerings(table, known),
            length: length(table)?,
        },
        ScenarioEventKind::Interrupt => {
            let share = share(table, "share", "the spot instances that run").unwrap_or(1.0);
            ScenarioEvent::Interrupt {
                offerings: offerings(table, known),
                share,
            }
        }
        ScenarioEventKind::Break => {
            let nodes = table.count("nodes").unwrap_or(1);
            ScenarioEvent::Break {
                offerings: offerings(table, known),
                nodes,
            }
        }
        ScenarioEventKind::Prices => {
            if known.on_ec2 {
                let message = "`prices` means nothing with `provider = \"aws\"`".into();
                let hint = "prices of the emulated EC2 stay as its world has them";
                table.fault_at("do", message, hint.into());
            }
            if !table.has("times") {
                table.missing("times", "2.5");
            }
            let times = table
                .number("times", 0.01..=100.0, "a factor")
                .unwrap_or(1.0);
            ScenarioEvent::Prices {
                offerings: offerings(table, known),
                times,
            }
        }
        ScenarioEventKind::Apply => {
            if !table.has("manifests") {
                table.missing("manifests", "[\"…\"]");
            }
            let objects = files::manifests(table, known.folder);
            ScenarioEvent::Apply {
                what: format!("{} manifests applied", objects.len()),
                objects,
            }
        }
        ScenarioEventKind::Delete => delete(table)?,
        ScenarioEventKind::Policy => ScenarioEvent::Policy(Box::new(policy(table, known)?)),
    })
}

fn length(table: &mut Table) -> Option<Duration> {
    if !table.has("for") {
        table.missing("for", "\"30m\"");
    }
    table.duration("for", Duration::from_secs(1)..=MAX_SCENARIO)
}

fn offerings(table: &mut Table, known: &ScenarioBasics) -> String {
    let typed = table.text("offerings").unwrap_or("*/*/*").to_owned();
    if !known.offerings.any(&typed) {
        let zone = known.offerings.zones.first().map_or("ZONE", String::as_str);
        let hint = format!("write TYPE/ZONE/CAPACITY-TYPE with * for any, as `*/{zone}/spot`");
        table.fault_at(
            "offerings",
            format!("`offerings` is `{typed}`, and there is no such offering"),
            hint,
        );
    }
    typed
}

fn delete(table: &mut Table) -> Option<ScenarioEvent> {
    let typed = table.required_text("object")?.to_owned();
    let parts: Vec<&str> = typed.split('/').collect();
    let (kind, namespace, name) = match parts.as_slice() {
        [kind, name] => (kind, "", name),
        [kind, namespace, name] => (kind, *namespace, name),
        _ => {
            let message =
                format!("`object` is `{typed}`: expected Kind/namespace/name, or Kind/name");
            table.fault_at(
                "object",
                message,
                "for example `Deployment/default/web`".into(),
            );
            return None;
        }
    };
    let (kind, namespace, name) = (kind.to_string(), namespace.to_owned(), name.to_string());
    Some(ScenarioEvent::Delete {
        kind,
        namespace,
        name,
    })
}

fn policy(table: &mut Table, known: &ScenarioBasics) -> Option<Policy> {
    let (config, scorer) = (table.text("config"), table.text("scorer"));
    let read = match (config, scorer) {
        (Some(config), None) => Policy::read(&path(known.folder, config)),
        (None, Some("price")) => Ok(Policy::price()),
        (None, Some(scorer)) => {
            let parts: Vec<String> = scorer
                .splitn(2, ',')
                .map(|part| path(known.folder, part).display().to_string())
                .collect();
            Policy::typed(&parts.join(","))
        }
        _ => {
            let message =
                "a policy comes from `config` or from `scorer`: expected one of them".into();
            let hint = "`config = \"longshore.toml\"`, `scorer = \"FILE.wasm,SETTINGS.toml\"` or `scorer = \"price\"`";
            table.fault_at("do", message, hint.into());
            return None;
        }
    };
    let key = if config.is_some() { "config" } else { "scorer" };
    match read {
        Ok(policy) => {
            if let Some((message, hint)) = policy.network() {
                table.fault_at(key, message, hint.into());
            }
            Some(policy)
        }
        Err(failure) => {
            table.fault_at(
                key,
                failure.report(),
                "paths are relative to the scenario's folder".into(),
            );
            None
        }
    }
}
