//! What policies last answered, on disk, so that exclusions of scorers and texts of bootstrap policies
//! hold after a restart of the container. Written by the thread that watches files, at most once a minute for each policy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longshore_policy::{LastAnswers, WasmPolicies};
use sha2::{Digest as _, Sha256};

use super::serve::ActivePolicies;
use super::shared::Shared;
use crate::bootstrap::LastTexts;
use crate::process::lock::lock;
use longshore_report::hex::hex;

/// How often the answers of a policy are written.
const EVERY: Duration = Duration::from_secs(60);
/// The largest file: 20 different answers about 8 000 offerings have 8 MiB.
const BYTES: u64 = 32 << 20;

/// Names of files: what scorers and consolidation policies said, and bootstrap policies.
const ANSWERS: &str = "answers";
const TEXTS: &str = "texts";

/// Where they are.
pub(super) struct AnswersOnDisk {
    folder: Option<PathBuf>,
    /// The configuration, which names of policies belong to.
    config: PathBuf,
    due: Option<SystemTime>,
    /// What is on disk, by kind and policy.
    written: BTreeMap<(&'static str, String), [u8; 32]>,
    /// What was last seen of bootstrap policies.
    texts: BTreeMap<String, Arc<LastTexts>>,
}

impl AnswersOnDisk {
    pub fn new(folder: Option<&Path>, config: Option<&Path>) -> Self {
        let config = config.unwrap_or(Path::new(""));
        AnswersOnDisk {
            folder: folder.map(Path::to_owned),
            config: std::path::absolute(config).unwrap_or_else(|_| config.to_owned()),
            due: None,
            written: BTreeMap::new(),
            texts: BTreeMap::new(),
        }
    }

    fn file(&self, folder: &Path, kind: &str, policy: &str) -> PathBuf {
        let path = self.config.as_os_str().as_encoded_bytes();
        let sum = Sha256::digest([path, b"\0", policy.as_bytes()].concat());
        folder.join(format!("{kind}-{}.json", hex(&sum[..8])))
    }

    /// A text that a process before this one wrote down of a policy.
    fn read(&self, kind: &str, policy: &str) -> Option<String> {
        let folder = self.folder.as_deref()?;
        match longshore_files::private::read(folder, &self.file(folder, kind, policy), BYTES) {
            Ok(bytes) => bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => {
                tracing::warn!(error, policy, "last answers are not read");
                None
            }
        }
    }

    /// Gives a policy what it last answered in a process before this one.
    pub fn recall(&self, wasm: &WasmPolicies, place: usize, policy: &str) {
        let text = self.read(ANSWERS, policy);
        if let Some(answers) = text.and_then(|text| LastAnswers::of_text(&text, policy)) {
            wasm.remember(place, &answers);
        }
    }

    /// As [`AnswersOnDisk::recall`], for what nodes boot with.
    pub fn recall_texts(&self, shared: &Shared, policy: &str) {
        let text = self.read(TEXTS, policy);
        if let Some(texts) = text.and_then(|text| LastTexts::of_text(&text, policy)) {
            let mut all = lock(&shared.last_texts);
            all.entry(policy.to_owned()).or_insert(Arc::new(texts));
        }
    }

    /// Writes what has changed, if it is time.
    pub fn write(&mut self, live: &ActivePolicies, shared: &Shared, now: SystemTime) {
        if self.folder.is_none() {
            return;
        }
        // A clock that was set back does not make it wait for longer than it should.
        let waits = |due: SystemTime| due > now && due <= now + EVERY;
        if self.due.is_some_and(waits) {
            return;
        }
        self.due = Some(now + EVERY);
        for (place, policy) in live.names.iter().enumerate() {
            if let Some(answers) = live.wasm.remembered(place) {
                self.write_one(ANSWERS, policy, &answers.text());
            }
        }
        // Copied first: the loop that launches never waits for a file.
        let texts = lock(&shared.last_texts).clone();
        for (policy, texts) in &texts {
            let before = self.texts.insert(policy.clone(), texts.clone());
            if before.is_none_or(|before| !Arc::ptr_eq(&before, texts)) {
                self.write_one(TEXTS, policy, &texts.text());
            }
        }
    }

    /// Writes a text of a policy, if it is another one than before.
    fn write_one(&mut self, kind: &'static str, policy: &str, text: &str) {
        let Some(folder) = &self.folder else {
            return;
        };
        let sum: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let key = (kind, policy.to_owned());
        if self.written.get(&key) == Some(&sum) || text.len() as u64 > BYTES {
            return;
        }
        match longshore_files::private::write(
            folder,
            &self.file(folder, kind, policy),
            text.as_bytes(),
        ) {
            Ok(()) => _ = self.written.insert(key, sum),
            Err(error) => tracing::debug!(error, policy, "last answers are not kept"),
        }
    }
}
