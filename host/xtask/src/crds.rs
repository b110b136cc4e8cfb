//! `cargo xtask crds`: writes the definitions in `deploy/crds` from the Rust types in
//! `host/api/src/crd` and `host/ec2/src/nodeclass`.
//!
//! The test that compares files and types does the writing, so that both use the same text, and
//! xtask need not be built with Kubernetes' types.

use anyhow::Context as _;

use crate::commands::{self, cargo};

/// Writes the files.
pub fn write() -> anyhow::Result<()> {
    let folder = crate::root().join("deploy/crds");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
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
            "the_file_is_what_the_types_give",
        ),
    ] {
        let mut arguments = vec!["test", "-p", package];
        arguments.extend(features);
        arguments.extend(["--test", suite, test]);
        let mut command = cargo(&arguments);
        command.env("UPDATE_EXPECT", "1");
        commands::run(command)?;
    }
    println!("definitions are in {}", folder.display());
    Ok(())
}
