//! Values of Karpenter's Helm chart: which have no meaning here.
//!
//! The table is the chart's own, `deploy/charts/longshore/files/known-values.yaml`.

use std::collections::BTreeMap;
use std::path::Path;

use longshore_api::manifests::documents;
use serde::Deserialize;
use serde_json::Value;

use super::cluster::Cluster;
use super::controller::said_of_settings;
use super::report::{Level, Report};
use crate::error::Failure;
use crate::input;

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

/// Adds what a file of values comes to.
///
/// # Errors
/// The file cannot be read or is no map of values.
pub fn check(file: &Path, cluster: &Cluster, report: &mut Report) -> Result<(), Failure> {
    let name = input::shown(file);
    let (found, problems) = documents(&name, &input::bytes(file)?);
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
            reason: "is no map of values".to_owned(),
            hint: "give what `helm get values karpenter -o yaml` prints".to_owned(),
        });
    }
    let on_ec2 = cluster.all("KWOKNodeClass").next().is_none();
    examine(&values, on_ec2, report)
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

fn examine(values: &Value, on_ec2: bool, report: &mut Report) -> Result<(), Failure> {
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
        let what = "Longshore does not know it. It has no effect.".to_owned();
        all.iter()
            .for_each(|key| say(Level::Differs, &join(&path, key), what.clone()));
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
    let told = table.variables(settings);
    for (level, what, hint) in said_of_settings(|name| told.get(name).cloned(), on_ec2) {
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
            let set = scalar(&settings[&row.value]).filter(|text| !text.is_empty());
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
        examine(&values, true, &mut report).unwrap();
        report.sort();
        let line = |one: &crate::migrate::report::Finding| {
            format!("{:?} {}: {}", one.level, one.field, one.what)
        };
        let lines: Vec<String> = report.findings().iter().map(line).collect();
        expect_test::expect![[r#"
            Differs replica: Longshore does not know it. It has no effect.
            Differs settings: feature gate CapacityBuffer is not implemented yet and has no effect.
            Differs settings.awsFeatureGates.draEFA: It has no effect: pods that ask for dynamic resources are not planned for.
            Differs settings.featureGates.moon: Longshore does not know it. It has no effect.
            Note logOutputPaths: It has no effect: the log goes to standard error.
            Note settings.ignoreDRARequests: It has no effect: pods that ask for dynamic resources are never planned for."#]].assert_eq(&lines.join("\n"));
    }
}
