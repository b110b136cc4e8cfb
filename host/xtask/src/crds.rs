//! `cargo xtask crds`: writes the definitions in `deploy/crds` and `deploy/crds-aws` from the Rust
//! types in `host/api/src/crd` and `host/ec2/src/nodeclass`, and copies them into the charts, because
//! Helm reads nothing outside of a chart: all of them into `longshore-crd`, and those for EC2 into the
//! folder `crds` of `longshore`, where Karpenter's chart has them too. Argo CD renders that folder.
//!
//! The test that compares files and types does the writing, so that both use the same text, and
//! xtask need not be built with Kubernetes' types.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Context as _;

use crate::commands::{self, cargo};

/// Where the chart of definitions has its copies.
const CHART: &str = "deploy/charts/longshore-crd/files";
/// Where the chart of the daemon has those for EC2.
const MAIN_CHART: &str = "deploy/charts/longshore/crds";

/// Writes the files.
pub fn write() -> anyhow::Result<()> {
    let folders =
        ["deploy/crds", "deploy/crds-aws"].map(|name| longshore_xtask::guests::root().join(name));
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
    let [every, ec2] = folders;
    for folder in [&every, &ec2] {
        let name = folder.file_name().context("a folder without a name")?;
        fill(
            &longshore_xtask::guests::root().join(CHART).join(name),
            files(folder)?,
        )?;
    }
    fill(
        &longshore_xtask::guests::root().join(MAIN_CHART),
        for_ec2(&every, &ec2)?,
    )?;
    println!(
        "definitions are in {} and {}",
        every.display(),
        ec2.display()
    );
    Ok(())
}

/// Leaves these files in a folder, and nothing else.
fn fill(folder: &Path, files: BTreeMap<OsString, String>) -> anyhow::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    for (file, text) in files {
        std::fs::write(folder.join(file), text)?;
    }
    Ok(())
}

/// Definitions of a cluster on EC2: those of every cluster but KWOK's, and those of EC2 in the place
/// of others of the same name.
fn for_ec2(every: &Path, ec2: &Path) -> anyhow::Result<BTreeMap<OsString, String>> {
    let mut all = files(every)?;
    all.retain(|file, _| !file.to_string_lossy().starts_with("karpenter.kwok.sh_"));
    all.extend(files(ec2)?);
    Ok(all)
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

    fn same(place: &str, shipped: &BTreeMap<OsString, String>) {
        let chart = files(&longshore_xtask::guests::root().join(place)).unwrap();
        assert!(!shipped.is_empty());
        let names = |files: &BTreeMap<OsString, String>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(shipped), names(&chart), "{place}");
        for (file, text) in shipped {
            assert!(
                chart[file] == *text,
                "{place}/{} is old: run `cargo xtask crds`",
                file.display()
            );
        }
    }

    #[test]
    fn the_charts_have_the_definitions_of_deploy() {
        let folder = |name: &str| longshore_xtask::guests::root().join("deploy").join(name);
        for name in ["crds", "crds-aws"] {
            same(&format!("{CHART}/{name}"), &files(&folder(name)).unwrap());
        }
        let ec2 = for_ec2(&folder("crds"), &folder("crds-aws")).unwrap();
        assert_eq!(ec2.len(), 5);
        same(MAIN_CHART, &ec2);
    }
}
