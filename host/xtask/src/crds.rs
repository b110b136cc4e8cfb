//! `cargo xtask crds`: writes the definitions in `deploy/crds` and `deploy/crds-aws` from the Rust
//! types in `host/api/src/crd` and `host/ec2/src/nodeclass`, and copies them into the chart
//! `longshore-crd`: Helm reads nothing outside of a chart.
//!
//! The test that compares files and types does the writing, so that both use the same text, and
//! xtask need not be built with Kubernetes' types.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Context as _;

use crate::commands::{self, cargo};

/// Where the chart has its copies.
const CHART: &str = "deploy/charts/longshore-crd/files";

/// Writes the files.
pub fn write() -> anyhow::Result<()> {
    let folders = ["deploy/crds", "deploy/crds-aws"].map(|name| crate::root().join(name));
    for folder in &folders {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    for (package, features, suite, test) in [
        (
            "longshore-api",
            &["--features", "crd"][..],
            "crd_definitions",
            "the_files_are_what_the_types_give",
        ),
        (
            "longshore-ec2",
            &[],
            "definition",
            "the_files_are_what_the_types_give",
        ),
    ] {
        let mut arguments = vec!["test", "-p", package];
        arguments.extend(features);
        arguments.extend(["--test", suite, test]);
        let mut command = cargo(&arguments);
        command.env("UPDATE_EXPECT", "1");
        commands::run(command)?;
    }
    for folder in &folders {
        copy(folder)?;
    }
    let [every, ec2] = folders;
    println!(
        "definitions are in {} and {}",
        every.display(),
        ec2.display()
    );
    Ok(())
}

/// Puts the files of a folder into the chart, and nothing else.
fn copy(folder: &Path) -> anyhow::Result<()> {
    let name = folder.file_name().context("a folder without a name")?;
    let chart = crate::root().join(CHART).join(name);
    if chart.exists() {
        std::fs::remove_dir_all(&chart)?;
    }
    std::fs::create_dir_all(&chart)?;
    for (file, text) in files(folder)? {
        std::fs::write(chart.join(file), text)?;
    }
    Ok(())
}

/// Files of a folder with their text, by name.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<OsString, String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries
        .map(|entry| {
            let entry = entry?;
            Ok((entry.file_name(), std::fs::read_to_string(entry.path())?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_the_definitions_of_deploy() {
        for name in ["crds", "crds-aws"] {
            let shipped = files(&crate::root().join("deploy").join(name)).unwrap();
            let chart = files(&crate::root().join(CHART).join(name)).unwrap();
            assert!(!shipped.is_empty());
            let names =
                |files: &BTreeMap<OsString, String>| files.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&shipped), names(&chart), "{name}");
            for (file, text) in &shipped {
                assert!(
                    chart[file] == *text,
                    "{CHART}/{name}/{} is old: run `cargo xtask crds`",
                    file.display()
                );
            }
        }
    }
}
