//! Values of Karpenter's Helm chart: which have no meaning here, what the chart refuses, and what the
//! API server does.
//!
//! The table is the chart's own, `deploy/charts/longshore/files/known-values.yaml`.

use std::collections::BTreeMap;
use std::path::Path;

use longshore_api::manifests::documents;
use serde::Deserialize;
use serde_json::Value;

use super::chart::{self, Rendered};
use super::cluster::Cluster;
use super::controller::{release, said_of_settings, settings_of};
use super::dry_run::{self, Verdict};
use super::report::{Level, Report};
use crate::input;
use longshore_live::error::Failure;

const TABLE: &str = include_str!("../../../../deploy/charts/longshore/files/known-values.yaml");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    settings: Vec<Row>,
    feature_gates: Vec<Row>,
    aws_feature_gates: Vec<Row>,
    without_effect: Vec<PathRow>,
    keys: BTreeMap<String, Vec<String>>,
}

/// A key of a map of values.
#[derive(Deserialize)]
struct Row {
    value: String,
    variable: Option<String>,
    gate: Option<String>,
    why: Option<String>,
}

/// A value, by the path of its keys.
#[derive(Deserialize)]
struct PathRow {
    path: String,
    why: String,
}

/// Who says whether objects of the chart are taken.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// The API server of a kubeconfig, or of the environment.
    Server(Option<&'a Path>),
    /// Nobody: the cluster is in files.
    Nobody,
}

/// Adds what a file of values comes to, with `--set` arguments for the chart.
///
/// # Errors
/// The file cannot be read or is not a map of values; the API server cannot be reached.
pub fn check(
    file: &Path,
    set: &[String],
    cluster: &Cluster,
    asked: Asked<'_>,
    report: &mut Report,
) -> Result<(), Failure> {
    let name = input::shown(file);
    let bytes = input::bytes(file)?;
    let (found, problems) = documents(&name, &bytes);
    if let Some(first) = problems.list.first() {
        let source_name = first.location.source.clone();
        return Err(Failure::Unusable {
            source_name,
            problems,
        });
    }
    let values = match &found[..] {
        [] => Value::Object(serde_json::Map::new()),
        [one] => serde_json::from_str(one.text()).unwrap_or_default(),
        _ => Value::Null,
    };
    if !values.is_object() {
        return Err(Failure::Input {
            file: file.to_owned(),
            reason: "is not a map of values".to_owned(),
            hint: "give what `helm get values karpenter -o yaml` prints".to_owned(),
        });
    }
    let on_ec2 = cluster.all("KWOKNodeClass").next().is_none();
    let mut set = set.to_vec();
    if !on_ec2 && values["longshore"]["provider"].is_null() {
        set.insert(0, "longshore.provider=kwok".to_owned());
    }
    let rendered = chart::render(&String::from_utf8_lossy(&bytes), &set, &release(cluster));
    let environment = match &rendered {
        Rendered::Objects(objects) => environment(objects),
        _ => None,
    };
    examine(&values, environment.as_ref(), on_ec2, report)?;
    judge(rendered, asked, report)
}

/// Variables of the container that the chart makes.
fn environment(objects: &[Value]) -> Option<BTreeMap<String, String>> {
    let deployment = objects.iter().find(|one| one["kind"] == "Deployment")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    container.is_object().then(|| settings_of(container))
}

/// Adds what the chart says of the values, and the API server of the chart's objects.
fn judge(rendered: Rendered, asked: Asked<'_>, report: &mut Report) -> Result<(), Failure> {
    let chart = ("chart", "longshore");
    let objects = match rendered {
        Rendered::Objects(objects) => objects,
        Rendered::Refused(sentences) => {
            for said in sentences {
                let hint = "The chart fails with these values.";
                report.add_of(Level::Blocks, chart, "", format!("{said}."), hint);
            }
            return Ok(());
        }
        Rendered::NotTried(why) => {
            let what = format!("It was not rendered with the values: {why}.");
            let hint = "Install Helm 3.17 or later, and check again: what the chart and the API \
                        server refuse is not known.";
            report.add_of(Level::Differs, chart, "", what, hint);
            return Ok(());
        }
    };
    let Asked::Server(kubeconfig) = asked else {
        let what = "It takes the values. Whether the API server takes its objects is not known.";
        let hint = "Check again without --snapshot.";
        report.add_of(Level::Note, chart, "", what, hint);
        return Ok(());
    };
    for (object, verdict) in objects.iter().zip(dry_run::ask(kubeconfig, &objects)?) {
        let (kind, name) = dry_run::called(object);
        match verdict {
            Verdict::Taken => {}
            Verdict::Refused(why) => {
                let what = format!("The API server refuses it: {why}.");
                let hint = "It is the chart's object with these values, tried as a dry run.";
                report.add_of(Level::Blocks, (&*kind, &*name), "", what, hint);
            }
            Verdict::Unknown(why) => {
                let what = format!("Whether the API server takes it is not known: {why}.");
                let hint = "Use the kubeconfig of an administrator.";
                report.add_of(Level::Differs, (&*kind, &*name), "", what, hint);
            }
        }
    }
    Ok(())
}

/// The table of the chart.
///
/// # Errors
/// It cannot be read: a test reads it.
fn table() -> Result<Table, Failure> {
    let broken = |what: String| Failure::Usage {
        message: format!("the table of the chart's values cannot be read: {what}"),
        hint: "a defect of Longshore, please report it".to_owned(),
    };
    let (found, _) = documents("known-values.yaml", TABLE.as_bytes());
    let text = found.first().map_or("", |one| one.text());
    serde_json::from_str(text).map_err(|why| broken(why.to_string()))
}

/// Adds what single values come to. `environment` is what the chart makes of the settings, if it was
/// rendered; otherwise those are taken as they stand.
fn examine(
    values: &Value,
    environment: Option<&BTreeMap<String, String>>,
    on_ec2: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let table = table()?;
    let settings = &values["settings"];
    let mut say = |level, path: &str, what: String| {
        report.add_of(level, ("values", "Karpenter's chart"), path, what, "");
    };
    for one in &table.without_effect {
        if !at(values, &one.path).is_null() {
            say(
                Level::Note,
                &one.path,
                format!("It has no effect: {}.", one.why),
            );
        }
    }
    for row in table.settings.iter().filter(|row| row.variable.is_none()) {
        if let (Some(why), false) = (&row.why, settings[&row.value].is_null()) {
            let path = format!("settings.{}", row.value);
            // Karpenter plans for pods with resource claims then.
            let planned = match row.value.as_str() {
                "enableDRA" => settings["enableDRA"] == true,
                "ignoreDRARequests" => settings["ignoreDRARequests"] == false,
                _ => false,
            };
            let level = if planned { Level::Differs } else { Level::Note };
            say(level, &path, format!("It has no effect: {why}."));
        }
    }
    for (path, all) in table.unknown(values) {
        // The table has all values of Karpenter's chart.
        let what = "It has no effect: neither Karpenter 1.15's chart nor this one knows it.";
        all.iter()
            .for_each(|key| say(Level::Note, &join(&path, key), what.to_owned()));
    }
    for (group, rows) in [
        ("featureGates", &table.feature_gates),
        ("awsFeatureGates", &table.aws_feature_gates),
    ] {
        for row in rows.iter().filter(|row| row.gate.is_none()) {
            let set = settings[group][&row.value] == Value::Bool(true);
            if let (Some(why), true) = (&row.why, set) {
                let path = format!("settings.{group}.{}", row.value);
                say(Level::Differs, &path, format!("It has no effect: {why}."));
            }
        }
    }
    let settings = match environment {
        Some(environment) => environment.clone(),
        None => table.variables(settings),
    };
    for (level, what, hint) in said_of_settings(|name| settings.get(name).cloned(), on_ec2) {
        report.add_of(
            level,
            ("values", "Karpenter's chart"),
            "settings",
            what,
            hint,
        );
    }
    Ok(())
}

impl Table {
    /// What settings become in the environment.
    fn variables(&self, settings: &Value) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for row in &self.settings {
            let set = scalar(&settings[&row.value]);
            // What the chart would work out is not known here, but for the name that has to be there.
            let known = |text: &String| !text.contains("{{") || row.value == "clusterName";
            let set = set.filter(|text| !text.is_empty() && known(text));
            if let (Some(variable), Some(text)) = (&row.variable, set) {
                all.insert(variable.clone(), text);
            }
        }
        for (group, variable, rows) in [
            ("featureGates", "FEATURE_GATES", &self.feature_gates),
            (
                "awsFeatureGates",
                "AWS_FEATURE_GATES",
                &self.aws_feature_gates,
            ),
        ] {
            let gates = rows.iter().filter_map(|row| {
                let set = scalar(&settings[group][&row.value])?;
                Some(format!("{}={set}", row.gate.as_deref()?))
            });
            let gates: Vec<String> = gates.collect();
            if !gates.is_empty() {
                all.insert(variable.to_owned(), gates.join(","));
            }
        }
        all
    }

    /// Keys that are in no table, by the path of their parent.
    fn unknown(&self, values: &Value) -> BTreeMap<String, Vec<String>> {
        let mut known: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (path, keys) in &self.keys {
            known
                .entry(path.clone())
                .or_default()
                .extend(keys.iter().map(String::as_str));
        }
        for (path, rows) in [
            ("settings", &self.settings),
            ("settings.featureGates", &self.feature_gates),
            ("settings.awsFeatureGates", &self.aws_feature_gates),
        ] {
            let rows = rows.iter().map(|row| &*row.value);
            known.entry(path.to_owned()).or_default().extend(rows);
        }
        let mut unknown = BTreeMap::new();
        for (path, keys) in &known {
            let here = at(values, path).as_object();
            let of_table = |key: &String| {
                let full = join(path, key);
                keys.contains(&&**key) || self.without_effect.iter().any(|one| one.path == full)
            };
            let keys = here.into_iter().flatten().map(|(key, _)| key);
            let keys: Vec<String> = keys.filter(|key| !of_table(key)).cloned().collect();
            if !keys.is_empty() {
                unknown.insert(path.clone(), keys);
            }
        }
        unknown
    }
}

fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

/// The value at a path; null if there is none.
fn at<'a>(values: &'a Value, path: &str) -> &'a Value {
    let keys = path.split('.').filter(|key| !key.is_empty());
    keys.fold(values, |here, key| &here[key])
}

/// A number, truth value or text, as it stands in an environment.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::migrate::cluster::Cluster;

    #[test]
    fn values_without_a_meaning_are_named() {
        let mut report = Report::new(&Cluster::of_text("kind: List\nitems: []"));
        let values = json!({
            "logOutputPaths": ["stdout"],
            "replicas": 2,
            "replica": 2,
            "settings": {
                "clusterName": "demo",
                "enableZonalShift": true,
                "featureGates": {"nodeRepair": true, "capacityBuffer": true, "moon": true},
                "awsFeatureGates": {"draEFA": true},
                "ignoreDRARequests": true,
            },
        });
        examine(&values, None, true, &mut report).unwrap();
        report.sort();
        let line = |one: &crate::migrate::report::Finding| {
            format!("{:?} {}: {}", one.level, one.field, one.what)
        };
        let lines: Vec<String> = report.findings().iter().map(line).collect();
        expect_test::expect![[r#"
            Differs settings: feature gate CapacityBuffer is not implemented yet and has no effect.
            Differs settings.awsFeatureGates.draEFA: It has no effect: pods that ask for dynamic resources are not planned for.
            Note logOutputPaths: It has no effect: the log goes to standard error.
            Note replica: It has no effect: neither Karpenter 1.15's chart nor this one knows it.
            Note settings.featureGates.moon: It has no effect: neither Karpenter 1.15's chart nor this one knows it.
            Note settings.ignoreDRARequests: It has no effect: pods that ask for dynamic resources are never planned for."#]].assert_eq(&lines.join("\n"));
    }
}
