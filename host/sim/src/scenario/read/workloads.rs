//! `[[deployment]]`, `[[daemonset]]`, `[[job]]`, `[[load]]`: workloads and their number of pods.

use std::time::Duration;

use longshore_api::quantity::Quantity;
use longshore_live::config::reader::Table;
use serde_json::Value;

use super::known::ScenarioBasics;
use super::values::{MAX_SCENARIO, MIN_SCENARIO, check_word, moment, share};
use crate::scenario::curve::Part;
use crate::scenario::objects::{GPU, Workload};
use crate::scenario::{Curve, Load, ScenarioEvent};

/// How often replicas follow a load, unless said otherwise: five minutes, as autoscalers of pods
/// that are not nervous.
const ADJUST_INTERVAL: Duration = Duration::from_secs(300);
const MINUTE: Duration = Duration::from_secs(60);

/// Objects at the beginning, loads on them, and what comes later.
pub fn workloads(
    root: &mut Table,
    known: &ScenarioBasics,
    manifests: &[Value],
) -> (Vec<Value>, Vec<Load>, Vec<(Duration, ScenarioEvent)>) {
    let mut all = Workloads {
        objects: Vec::new(),
        loads: Vec::new(),
        acts: Vec::new(),
        names: Vec::new(),
    };
    for mut table in root.tables("deployment") {
        all.deployment(&mut table, known);
        table.finish();
    }
    for mut table in root.tables("daemonset") {
        let workload = all.workload(&mut table, known);
        all.objects.push(workload.daemon_set());
        table.finish();
    }
    for mut table in root.tables("job") {
        all.job(&mut table, known);
        table.finish();
    }
    for mut table in root.tables("load") {
        all.load(&mut table, manifests);
        table.finish();
    }
    (all.objects, all.loads, all.acts)
}

struct Workloads {
    objects: Vec<Value>,
    loads: Vec<Load>,
    acts: Vec<(Duration, ScenarioEvent)>,
    /// Namespace and name of each.
    names: Vec<(String, String)>,
}

impl Workloads {
    fn deployment(&mut self, table: &mut Table, known: &ScenarioBasics) {
        let workload = self.workload(table, known);
        let replicas = replicas(table);
        let load = load(
            table,
            "Deployment",
            &workload.namespace,
            &workload.name,
            replicas,
        );
        // The number of the beginning is set when it begins: it is the curve's.
        self.objects.extend(workload.deployment(0));
        self.loads.push(load);
    }

    fn job(&mut self, table: &mut Table, known: &ScenarioBasics) {
        let workload = self.workload(table, known);
        let pods = table
            .number(
                "pods",
                1.0..=100_000.0,
                "how many run at once, each until its end",
            )
            .unwrap_or(1.0) as u32;
        if !table.has("runs-for") {
            table.missing("runs-for", "\"20m\"");
        }
        let runs_for = table
            .duration("runs-for", Duration::from_secs(1)..=MAX_SCENARIO)
            .unwrap_or(MINUTE);
        let first = moment(table, "at", known.duration).unwrap_or(MINUTE);
        let every = table.duration("every", MINUTE..=MAX_SCENARIO);
        let mut at = first;
        let mut number = 1;
        while at < known.duration {
            let name = format!("{}-{number}", workload.name);
            let objects = vec![workload.job(&name, pods, runs_for)];
            self.acts.push((
                at,
                ScenarioEvent::Apply {
                    what: format!("job {name}: {pods} pods"),
                    objects,
                },
            ));
            number += 1;
            at = every.map_or(MAX_SCENARIO, |every| at + every);
        }
    }

    /// A load on a workload of the manifests.
    fn load(&mut self, table: &mut Table, manifests: &[Value]) {
        let typed = table
            .required_text("deployment")
            .unwrap_or_default()
            .to_owned();
        let (namespace, name) = typed.split_once('/').unwrap_or(("default", &typed));
        let there: Vec<String> = manifests
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .map(|object| {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or("default");
                format!("{}/{}", text("namespace"), text("name"))
            })
            .collect();
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        let full = format!("{namespace}/{name}");
        if self
            .loads
            .iter()
            .any(|load| load.namespace == namespace && load.name == name)
        {
            let hint = "a [[deployment]] of this file has its `replicas` and `load` itself".into();
            table.fault_at(
                "deployment",
                format!("Deployment `{full}` has a load already"),
                hint,
            );
        } else {
            check_word(table, "deployment", &full, &there, "Deployment");
        }
        let replicas = replicas(table);
        let load = load(table, "Deployment", namespace, name, replicas);
        self.loads.push(load);
    }

    fn workload(&mut self, table: &mut Table, known: &ScenarioBasics) -> Workload {
        let name = table.required_text("name").unwrap_or_default().to_owned();
        let namespace = table.text("namespace").unwrap_or("default").to_owned();
        if self.names.contains(&(namespace.clone(), name.clone())) {
            table.fault_at(
                "name",
                format!("workload `{name}` is there twice"),
                "give each a name of its own".into(),
            );
        }
        self.names.push((namespace.clone(), name.clone()));
        let spread = table.texts("spread").unwrap_or_default();
        for word in &spread {
            check_word(table, "spread", word, &["zone", "node"], "domain");
        }
        let zones = table.texts("zones").unwrap_or_default();
        let there: Vec<&str> = known.offerings.zones.iter().map(String::as_str).collect();
        for zone in &zones {
            check_word(table, "zones", zone, &there, "zone");
        }
        let same = |table: &mut Table, key: &str, words: &[&'static str]| {
            let choices: Vec<(&str, &'static str)> =
                words.iter().map(|word| (*word, *word)).collect();
            table.one_of(key, &choices).map(str::to_owned)
        };
        let hour = Duration::from_secs(3600);
        Workload {
            requests: requests(table),
            zones,
            capacity_type: same(table, "capacity-type", &["spot", "on-demand", "reserved"]),
            arch: same(table, "arch", &["amd64", "arm64"]),
            spread: (
                spread.iter().any(|word| word == "zone"),
                spread.iter().any(|word| word == "node"),
            ),
            budget: budget(table),
            grace: table.duration("grace", Duration::ZERO..=hour),
            starts_after: table.duration("starts-after", Duration::from_secs(1)..=hour),
            stops_after: table.duration("stops-after", Duration::from_secs(1)..=hour),
            name,
            namespace,
        }
    }
}

fn requests(table: &mut Table) -> Vec<(String, String)> {
    let mut requests = Vec::new();
    for key in ["cpu", "memory"] {
        if let Some(typed) = table.required_text(key) {
            let hint = "write it as `500m` or `2` (cpu), `512Mi` or `4Gi` (memory)";
            match Quantity::parse(typed) {
                Err(error) => {
                    table.fault_at(key, format!("`{key}` is `{typed}`: {error}"), hint.into())
                }
                Ok(amount) if amount.is_negative() => {
                    table.fault_at(
                        key,
                        format!("`{key}` is `{typed}`: expected at least 0"),
                        hint.into(),
                    );
                }
                Ok(_) => requests.push((key.to_owned(), typed.to_owned())),
            }
        }
    }
    let gpus = table.number("gpus", 1.0..=16.0, "how many whole GPUs a pod asks for");
    if let Some(gpus) = gpus {
        requests.push((GPU.to_owned(), format!("{gpus:.0}")));
    }
    requests
}

fn budget(table: &mut Table) -> Option<String> {
    let typed = table.text("max-unavailable")?;
    let number = typed.strip_suffix('%').unwrap_or(typed);
    if number.parse::<u32>().is_err() {
        let message = format!("`max-unavailable` is `{typed}`: expected a count or a share");
        table.fault_at(
            "max-unavailable",
            message,
            "write it as `\"1\"` or `\"25%\"`".into(),
        );
        return None;
    }
    Some(typed.to_owned())
}

fn replicas(table: &mut Table) -> f64 {
    if !table.has("replicas") && !table.has("load") {
        table.missing("replicas", "3");
    }
    table
        .number(
            "replicas",
            0.0..=100_000.0,
            "how many pods there are beside what `load` adds",
        )
        .unwrap_or(0.0)
}

fn load(table: &mut Table, kind: &str, namespace: &str, name: &str, base: f64) -> Load {
    let parts = table.tables("load").into_iter().filter_map(part).collect();
    let noise = share(
        table,
        "noise",
        "the load, by which it differs every ten minutes",
    )
    .unwrap_or(0.0);
    let adjusts = table
        .duration("adjust-every", Duration::from_secs(10)..=MAX_SCENARIO)
        .unwrap_or(ADJUST_INTERVAL);
    Load {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        curve: Curve { base, parts, noise },
        adjusts,
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Wave,
    Ramp,
    Burst,
}

fn part(mut table: Table) -> Option<Part> {
    const SHAPES: [(&str, Shape); 3] = [
        ("wave", Shape::Wave),
        ("ramp", Shape::Ramp),
        ("burst", Shape::Burst),
    ];
    table.required_text("shape")?;
    let shape = table.one_of("shape", &SHAPES)?;
    if !table.has("add") {
        table.missing("add", "20");
    }
    let add = table
        .number(
            "add",
            -100_000.0..=100_000.0,
            "how many pods it adds, at its most",
        )
        .unwrap_or(0.0);
    let any = Duration::ZERO..=MAX_SCENARIO;
    let part = match shape {
        Shape::Wave => Part::Wave {
            every: table
                .duration("every", 10 * MINUTE..=MAX_SCENARIO)
                .unwrap_or(Duration::from_secs(86_400)),
            peak: table
                .duration("peak", any)
                .unwrap_or(Duration::from_secs(14 * 3600)),
            add,
            weekends: table
                .number("weekends", 0.0..=10.0, "a factor on Saturdays and Sundays")
                .unwrap_or(1.0),
        },
        Shape::Ramp => Part::Ramp {
            at: table.duration("at", any.clone()).unwrap_or_default(),
            over: table.duration("over", any).unwrap_or_default(),
            add,
        },
        Shape::Burst => {
            if !table.has("for") {
                table.missing("for", "\"30m\"");
            }
            let length = table
                .duration("for", MIN_SCENARIO..=MAX_SCENARIO)
                .unwrap_or(MINUTE);
            let every = table.duration("every", MIN_SCENARIO..=MAX_SCENARIO);
            if every.is_some_and(|every| every <= length) {
                let message = "`every` is no longer than `for`: the burst would never end".into();
                table.fault_at(
                    "every",
                    message,
                    "make `every` longer, or `replicas` larger".into(),
                );
            }
            Part::Burst {
                at: table.duration("at", any).unwrap_or_default(),
                length,
                add,
                every,
            }
        }
    };
    table.finish();
    Some(part)
}
