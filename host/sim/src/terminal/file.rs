//! The policy file of a live run: the viewer's own, or a temporary one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use longshore_live::config::toml_of;
use longshore_live::config::{
    Exclusions, OnFailure, PolicyEntry, PolicySource, Reference, SignalEntry,
};
use longshore_live::error::Failure;

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
        for (name, signal) in &policy.config.signals {
            if let SignalEntry::File(file) = signal {
                let file = absolute(file);
                let _ = writeln!(text, "[signals.{name:?}]\nfile = {file:?}\n");
            }
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

fn absolute(file: &Path) -> String {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    file.display().to_string()
}

/// A `[[policy]]` with settings in a file of their own.
fn table(entry: &PolicyEntry, settings: &str) -> String {
    let mut text = format!("[[policy]]\nname = {:?}\n", entry.name);
    let place = match &entry.source {
        // As JSON, which is a string of TOML too.
        PolicySource::Expression => format!("cel = {}", entry.settings["expression"]),
        PolicySource::File(path) => format!("path = {:?}", absolute(path)),
        PolicySource::Bundle(at @ Reference::Oci(_)) => format!("oci = \"{at}\""),
        PolicySource::Bundle(at @ Reference::Layout(_)) => {
            format!("oci-layout = {:?}", at.to_string())
        }
    };
    let _ = writeln!(text, "{place}");
    match (&entry.source, &entry.settings_file) {
        (PolicySource::Expression, _) => {}
        (_, Some(file)) => _ = writeln!(text, "settings-file = {:?}", absolute(file)),
        (_, None) => _ = writeln!(text, "settings-file = {settings:?}"),
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
