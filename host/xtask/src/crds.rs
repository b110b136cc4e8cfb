//! `cargo xtask crds`: writes the definitions in `deploy/crds` and `deploy/crds-aws` from the Rust
//! types in `host/api/src/crd` and `host/ec2/src/nodeclass`.
//!
//! The test that compares files and types does the writing, so that both use the same text, and
//! xtask need not be built with Kubernetes' types.

use anyhow::Context as _;

use crate::commands::{self, cargo};

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
    let [every, ec2] = folders;
    println!(
        "definitions are in {} and {}",
        every.display(),
        ec2.display()
    );
    Ok(())
}
