//! What scorers last answered, on disk, so that their exclusions hold after a restart of the
//! container. Written by the thread that watches files, at most once a minute for each policy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use longshore_policy::{LastAnswers, WasmPolicies, private_file};
use sha2::{Digest as _, Sha256};

use super::serve::ActivePolicies;
use crate::hex::hex;

/// How often the answers of a policy are written.
const EVERY: Duration = Duration::from_secs(60);
/// The largest file: 20 different answers about 8 000 offerings have 8 MiB.
const BYTES: u64 = 32 << 20;

/// Where they are.
pub(super) struct AnswersOnDisk {
    folder: Option<PathBuf>,
    /// The configuration, which names of policies belong to.
    config: PathBuf,
    due: Option<SystemTime>,
    /// What is on disk, by policy.
    written: BTreeMap<String, [u8; 32]>,
}

impl AnswersOnDisk {
    pub fn new(folder: Option<&Path>, config: Option<&Path>) -> Self {
        let config = config.unwrap_or(Path::new(""));
        AnswersOnDisk {
            folder: folder.map(Path::to_owned),
            config: std::path::absolute(config).unwrap_or_else(|_| config.to_owned()),
            due: None,
            written: BTreeMap::new(),
        }
    }

    fn file(&self, folder: &Path, policy: &str) -> PathBuf {
        let path = self.config.as_os_str().as_encoded_bytes();
        let sum = Sha256::digest([path, b"\0", policy.as_bytes()].concat());
        folder.join(format!("answers-{}.json", hex(&sum[..8])))
    }

    /// Gives a policy what it last answered in a process before this one.
    pub fn recall(&self, wasm: &WasmPolicies, place: usize, policy: &str) {
        let Some(folder) = &self.folder else {
            return;
        };
        match private_file::read(folder, &self.file(folder, policy), BYTES) {
            Ok(Some(bytes)) => {
                let text = String::from_utf8_lossy(&bytes);
                if let Some(answers) = LastAnswers::of_text(&text, policy) {
                    wasm.remember(place, &answers);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(error, policy, "last answers are not read"),
        }
    }

    /// Writes what has changed, if it is time.
    pub fn write(&mut self, live: &ActivePolicies, now: SystemTime) {
        let Some(folder) = self.folder.clone() else {
            return;
        };
        // A clock that was set back does not make it wait for longer than it should.
        let waits = |due: SystemTime| due > now && due <= now + EVERY;
        if self.due.is_some_and(waits) {
            return;
        }
        self.due = Some(now + EVERY);
        for (place, policy) in live.names.iter().enumerate() {
            let Some(answers) = live.wasm.remembered(place) else {
                continue;
            };
            let text = answers.text();
            let sum: [u8; 32] = Sha256::digest(text.as_bytes()).into();
            if self.written.get(policy) == Some(&sum) || text.len() as u64 > BYTES {
                continue;
            }
            match private_file::write(&folder, &self.file(&folder, policy), text.as_bytes()) {
                Ok(()) => _ = self.written.insert(policy.clone(), sum),
                Err(error) => tracing::debug!(error, policy, "last answers are not kept"),
            }
        }
    }
}
