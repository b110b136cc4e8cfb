//! Default topology spread constraints, for the daemon (SCHEDULER_CONFIG) and for plans on files
//! (`--scheduler-config`). [`longshore_api::manifests::default_spread`] parses them.

use std::fmt;
use std::path::PathBuf;

use longshore_core::model::{Spread, Symbols};
use longshore_files::MAX_TEXT_BYTES;

use longshore_live::error::Failure;

/// Where default topology spread constraints are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerConfig {
    Text(String),
    File(PathBuf),
}

impl SchedulerConfig {
    /// What was typed: the constraints themselves, or the path of a file; nothing for blanks.
    pub fn typed(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        // YAML has a colon with a value behind it, or is a map of one line; a path hardly ever.
        let inline =
            text.contains('\n') || text.contains(": ") || text.trim_start().starts_with('{');
        Some(if inline {
            Self::Text(text.to_owned())
        } else {
            Self::File(text.trim().into())
        })
    }
}

/// What messages call it.
impl fmt::Display for SchedulerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedulerConfig::Text(_) => f.write_str("SCHEDULER_CONFIG"),
            SchedulerConfig::File(file) => file.display().fmt(f),
        }
    }
}

/// Reads default topology spread constraints; `names` is the table that they are written in.
///
/// # Errors
/// A file that cannot be read, or the first fault with its line.
pub fn default_spread(
    config: &SchedulerConfig,
    names: &mut Symbols,
) -> Result<Vec<Spread>, Failure> {
    let text = match config {
        SchedulerConfig::Text(text) => text.clone(),
        SchedulerConfig::File(file) => {
            longshore_files::read_text(file, MAX_TEXT_BYTES).map_err(|source| Failure::Read {
                file: file.clone(),
                source,
            })?
        }
    };
    longshore_api::manifests::default_spread(&config.to_string(), &text, names)
        .map_err(|problem| Failure::unusable(*problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_configuration_is_a_text_or_a_file() {
        assert_eq!(SchedulerConfig::typed(" "), None);
        assert_eq!(
            SchedulerConfig::typed("/etc/spread.yaml"),
            Some(SchedulerConfig::File("/etc/spread.yaml".into()))
        );
        for text in [
            "{podTopologySpread: {}}",
            "podTopologySpread: {}",
            "podTopologySpread:\n  defaultConstraints: []",
        ] {
            assert_eq!(
                SchedulerConfig::typed(text),
                Some(SchedulerConfig::Text(text.into()))
            );
        }
    }

    #[test]
    fn a_fault_names_its_source() {
        let report = |text: &str| {
            let config = SchedulerConfig::typed(text).unwrap();
            default_spread(&config, &mut Symbols::default())
                .unwrap_err()
                .report()
        };
        assert!(
            report("/no/such.yaml").starts_with("cannot read /no/such.yaml: "),
            "{}",
            report("/no/such.yaml")
        );
        let fault = report("podTopology: {}");
        assert!(
            fault.contains("SCHEDULER_CONFIG:1: podTopology: unknown field"),
            "{fault}"
        );
    }
}
