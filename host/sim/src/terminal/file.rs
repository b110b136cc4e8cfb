//! The policy file of a live run: the viewer's own, or a temporary one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use longshore_daemon::config::{Exclusions, OnFailure, PolicyEntry};
use longshore_daemon::error::Failure;
use longshore_daemon::toml_of;

use crate::scenario::Policy;

/// What a file without policies says.
const PRICE: &str = "# Scored by price. Name a component and save, and the next round asks it:
#
# [[policy]]
# name = \"mine\"
# path = \"/…/mine.wasm\"
";

pub struct PolicyFile {
    path: PathBuf,
    /// Made here, and removed at the end.
    folder: Option<PathBuf>,
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl PolicyFile {
    /// The file of a policy, or one that says the same.
    ///
    /// # Errors
    /// No file can be made.
    pub fn of(policy: &Policy) -> Result<Self, Failure> {
        if let Some(path) = &policy.file {
            return Ok(PolicyFile {
                path: path.clone(),
                folder: None,
            });
        }
        let folder = std::env::temp_dir().join(format!("longshore-live-{}", std::process::id()));
        let made = PolicyFile {
            path: folder.join("longshore.toml"),
            folder: Some(folder.clone()),
        };
        let cannot = |error: std::io::Error| Failure::Usage {
            message: format!(
                "no policy file can be made in {}: {error}",
                folder.display()
            ),
            hint: "set TMPDIR, or name one with --policy".into(),
        };
        std::fs::create_dir_all(&folder).map_err(cannot)?;
        let mut text = String::new();
        for (number, entry) in policy.config.policies.iter().enumerate() {
            let settings = format!("settings-{number}.toml");
            std::fs::write(folder.join(&settings), toml_of(&entry.settings)).map_err(cannot)?;
            text += &table(entry, &settings);
        }
        if text.is_empty() {
            PRICE.clone_into(&mut text);
        }
        std::fs::write(&made.path, text).map_err(cannot)?;
        Ok(made)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says.
    ///
    /// # Errors
    /// It has faults.
    pub fn policy(&self) -> Result<Policy, Failure> {
        Policy::read(&self.path)
    }
}

/// A `[[policy]]` with settings in a file of their own.
fn table(entry: &PolicyEntry, settings: &str) -> String {
    let path = std::path::absolute(&entry.path).unwrap_or_else(|_| entry.path.clone());
    let mut text = format!(
        "[[policy]]\nname = {:?}\npath = {:?}\n",
        entry.name,
        path.display().to_string()
    );
    match &entry.settings_file {
        Some(file) => {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            let _ = writeln!(text, "settings-file = {:?}", file.display().to_string());
        }
        None => _ = writeln!(text, "settings-file = {settings:?}"),
    }
    if let Some(pools) = &entry.nodepools {
        let _ = writeln!(text, "nodepools = {pools:?}");
    }
    if let Some(grants) = &entry.grants {
        let names: Vec<&str> = grants.iter().map(|ability| ability.name()).collect();
        let _ = writeln!(text, "grants = {names:?}");
    }
    if let Some(signals) = &entry.signals {
        let names: Vec<&String> = signals.iter().collect();
        let _ = writeln!(text, "signals = {names:?}");
    }
    if let Some(share) = entry.max_discount {
        let _ = writeln!(text, "max-discount = \"{}%\"", share * 100.0);
    }
    if entry.exclusions == Exclusions::Discourage {
        let _ = writeln!(text, "exclusions = \"discourage\"");
    }
    match entry.on_failure {
        OnFailure::LastAnswer => {}
        OnFailure::Price => _ = writeln!(text, "on-failure = \"price\""),
        OnFailure::Hold => _ = writeln!(text, "on-failure = \"hold\""),
    }
    text + "\n"
}
