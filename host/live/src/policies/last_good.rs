//! The configuration that a process begins with: the file, or the last one of this path that could
//! be read. A file that is broken while the daemon runs is harmless; it must be at a restart too.

use std::path::{Path, PathBuf};

use longshore_files::MAX_TEXT_BYTES;
use sha2::{Digest as _, Sha256};

use super::load;
use crate::config::{Config, parse};
use crate::error::Failure;
use crate::status::policies::Problem;
use longshore_report::hex::hex;

/// A configuration to begin with.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// What is in force.
    pub config: Config,
    /// What is wrong with the file, where its last good copy is in force.
    pub refused: Option<Problem>,
}

/// Reads a configuration, else the copy of it that `copies` has.
///
/// # Errors
/// It cannot be read, or has faults and there is no copy.
pub fn open(file: &Path, copies: Option<&Path>) -> Result<Opened, Failure> {
    let read = load::config(file);
    let failure = match read {
        Ok((config, text)) => {
            keep(file, copies, &text);
            return Ok(Opened {
                config,
                refused: None,
            });
        }
        Err(failure @ Failure::Config(_)) => failure,
        Err(other) => return Err(other),
    };
    let copy = copies.and_then(|folder| {
        let text = longshore_files::private::read(folder, &copy_of(folder, file), MAX_TEXT_BYTES);
        let text = String::from_utf8(text.ok()??).ok()?;
        // Paths are relative to the file's own folder.
        parse(file, &text).ok()
    });
    match copy {
        Some(config) => Ok(Opened {
            config,
            refused: Some(load::failed(failure)),
        }),
        None => Err(failure),
    }
}

/// Keeps a copy of a good configuration.
pub(super) fn keep(file: &Path, copies: Option<&Path>, text: &str) {
    let Some(folder) = copies else {
        return;
    };
    let copy = copy_of(folder, file);
    let known = longshore_files::private::read(folder, &copy, MAX_TEXT_BYTES);
    if !matches!(known, Ok(Some(known)) if known == text.as_bytes())
        && let Err(error) = longshore_files::private::write(folder, &copy, text.as_bytes())
    {
        tracing::debug!(error, "no copy of the configuration is kept");
    }
}

/// The copy's name has the path in it: another file is another configuration.
fn copy_of(folder: &Path, file: &Path) -> PathBuf {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let sum = Sha256::digest(path.as_os_str().as_encoded_bytes());
    folder.join(format!("longshore-{}.toml", hex(&sum[..8])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_file_is_replaced_by_its_own_last_good_copy() {
        let root = std::env::temp_dir().join(format!("longshore-last-good-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(&root).unwrap();
        let (file, copies) = (root.join("longshore.toml"), root.join("compiled"));
        let seed = |file: &Path| {
            let opened = open(file, Some(&copies)).map_err(|failure| failure.to_string());
            opened.map(|opened| (opened.config.planning.seed, opened.refused.is_some()))
        };
        let broken = Err("the configuration has 1 fault".to_owned());
        std::fs::write(&file, "[planning]\nseed = \n").unwrap();
        assert_eq!(seed(&file), broken, "nothing was ever good");
        std::fs::write(&file, "[planning]\nseed = 7\n[journal]\ndir = 'j'\n").unwrap();
        assert_eq!(seed(&file), Ok((Some(7), false)));
        std::fs::write(&file, "[planning]\nsed = 8\n").unwrap();
        assert_eq!(seed(&file), Ok((Some(7), true)));
        let opened = open(&file, Some(&copies)).unwrap();
        assert_eq!(opened.config.journal.unwrap().dir, Some(root.join("j")));
        let refused = opened.refused.unwrap();
        assert!(refused.place.ends_with("longshore.toml:2:1"), "{refused}");
        let other = root.join("other.toml");
        std::fs::write(&other, "x").unwrap();
        assert_eq!(seed(&other), broken, "a copy is of one file");
        assert!(open(&file, None).is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(seed(&file).is_err(), "a file that is gone is gone");
        std::fs::remove_dir_all(root).unwrap();
    }
}
