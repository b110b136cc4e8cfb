//! The chart `longshore`, which the program has in itself, rendered by the user's Helm.
//!
//! Its definitions are left out: [`super::controller`] compares those of the cluster.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use longshore_api::manifests::documents;
use serde_json::Value;

/// Files of a chart by their path in it.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../../../deploy/charts/longshore/", $path)))),*]
    };
}

/// The chart. A test compares the list with the folder.
const FILES: [(&str, &str); 18] = files![
    ".helmignore",
    "Chart.yaml",
    "files/cluster-role-rules.yaml",
    "files/known-values.yaml",
    "templates/NOTES.txt",
    "templates/_names.tpl",
    "templates/_pod.tpl",
    "templates/_values.tpl",
    "templates/clusterrole.yaml",
    "templates/configmap.yaml",
    "templates/deployment.yaml",
    "templates/networkpolicy.yaml",
    "templates/poddisruptionbudget.yaml",
    "templates/role.yaml",
    "templates/service.yaml",
    "templates/serviceaccount.yaml",
    "templates/servicemonitor.yaml",
    "values.yaml",
];

/// A release, by the name and the namespace that Karpenter's has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub name: String,
    pub namespace: String,
}

/// What became of the chart.
#[derive(Debug)]
pub enum Rendered {
    Objects(Vec<Value>),
    /// It fails, with these sentences.
    Refused(Vec<String>),
    /// It was not rendered, and why.
    NotTried(String),
}

/// Renders the chart with values, as text, and `--set` arguments.
pub fn render(values: &str, set: &[String], release: &Release) -> Rendered {
    let folder = match Folder::with(values) {
        Ok(folder) => folder,
        Err(why) => return Rendered::NotTried(format!("it cannot be written out: {why}")),
    };
    let mut command = Command::new("helm");
    command
        .args(["template", &release.name])
        .arg(folder.0.join("chart"));
    command.args(["--namespace", &release.namespace, "--values"]);
    command
        .arg(folder.0.join("values.yaml"))
        .stdin(Stdio::null());
    for one in set {
        command.args(["--set", one]);
    }
    let done = match command.output() {
        Ok(done) => done,
        Err(why) if why.kind() == ErrorKind::NotFound => {
            return Rendered::NotTried("PATH has no helm".to_owned());
        }
        Err(why) => return Rendered::NotTried(format!("helm cannot be started: {why}")),
    };
    if !done.status.success() {
        return Rendered::Refused(sentences(&String::from_utf8_lossy(&done.stderr)));
    }
    let (found, problems) = documents("the chart", &done.stdout);
    if let Some(first) = problems.list.first() {
        return Rendered::NotTried(format!("what helm prints cannot be read: {}", first.what));
    }
    let objects = found.iter().map(|one| serde_json::from_str(one.text()));
    let objects = objects.filter_map(Result::ok).filter(Value::is_object);
    Rendered::Objects(objects.collect())
}

/// What Helm says of a chart that fails. The chart's own sentences are set off by an empty line; of
/// another error all is said.
fn sentences(said: &str) -> Vec<String> {
    let said = said
        .split("Use --debug flag")
        .next()
        .unwrap_or_default()
        .trim();
    let own = said.split_once("\n\n").map(|(_, own)| own);
    let own = own.filter(|_| said.contains("execution error at"));
    let lines = own.unwrap_or(said).lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| line.trim_start_matches("Error: ").to_owned())
        .collect()
}

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    /// With the chart and a file of values.
    fn with(values: &str) -> std::io::Result<Self> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = now.unwrap_or_default().as_nanos();
        let name = format!("longshore-chart-{}-{nanos}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        for (path, text) in FILES {
            let file = folder.0.join("chart").join(path);
            if let Some(above) = file.parent() {
                std::fs::create_dir_all(above)?;
            }
            std::fs::write(file, text)?;
        }
        std::fs::write(folder.0.join("values.yaml"), values)?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn walk(folder: &Path, of: &Path, all: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, of, all),
                false => {
                    let own = path.strip_prefix(of).unwrap();
                    all.insert(own.to_str().unwrap().to_owned());
                }
            }
        }
    }

    #[test]
    fn the_program_has_all_of_the_chart_but_definitions() {
        let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
            .join("../../deploy/charts/longshore");
        let mut all = BTreeSet::new();
        walk(&folder, &folder, &mut all);
        all.retain(|path| !path.starts_with("crds/"));
        let own = FILES.map(|(path, _)| path.to_owned());
        assert_eq!(all, BTreeSet::from(own));
    }

    #[test]
    fn the_charts_own_sentences_are_told_from_other_errors() {
        let of_chart = "Error: execution error at (longshore/templates/deployment.yaml:1:4): \n\n\
                        settings.clusterName is missing: give it\nlogLevel is \"x\"\n\n\n\
                        Use --debug flag to render out invalid YAML\n";
        let expected = [
            "settings.clusterName is missing: give it",
            "logLevel is \"x\"",
        ];
        assert_eq!(sentences(of_chart), expected);
        let other = "Error: failed parsing --set data: key \"}\" has no value\n";
        assert_eq!(
            sentences(other),
            ["failed parsing --set data: key \"}\" has no value"]
        );
    }
}
