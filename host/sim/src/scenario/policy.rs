//! The policies of a scenario: a configuration of the daemon, read by the daemon's own reader, and
//! its watcher.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use longshore_files::MAX_TEXT_BYTES;
use longshore_journal::{DEFAULT_MAX_BYTES, DEFAULT_SEGMENT_BYTES, Journal, Sizes};
use longshore_live::config::{self, Ability, Config, PolicyEntry, Reference, SignalEntry};
use longshore_live::error::Failure;
use longshore_live::policies::typed::scorer;
use longshore_live::policies::{Notice, PolicyReloader, Setup, Watcher};

use crate::harness::{Begin, ProcessInputs};

/// Which policies score, and how rounds plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The file that it was read from, if that is a configuration of its own.
    pub file: Option<PathBuf>,
    pub config: Config,
}

impl Policy {
    /// By price, as without a configuration.
    pub fn price() -> Self {
        Policy {
            file: None,
            config: Config::default(),
        }
    }

    /// As typed: a configuration (`longshore.toml`), a component (`FILE.wasm[,SETTINGS.toml]`), an
    /// expression (`cel=EXPRESSION`), or `price`.
    ///
    /// # Errors
    /// A file that cannot be read, or has faults.
    pub fn typed(typed: &str) -> Result<Self, Failure> {
        if typed == "price" {
            return Ok(Policy::price());
        }
        let is_component = typed
            .rsplit_once(',')
            .map_or(typed, |(path, _)| path)
            .ends_with(".wasm");
        if is_component || typed.starts_with("cel=") {
            // Typing it is the grant of all that a simulated cluster asks.
            let grants = [
                Ability::Scorer,
                Ability::Commitments,
                Ability::Consolidation,
            ];
            let entry = PolicyEntry {
                grants: Some(grants.into()),
                ..scorer(typed)?
            };
            let config = Config {
                policies: vec![entry],
                ..Config::default()
            };
            return Ok(Policy { file: None, config });
        }
        Policy::read(Path::new(typed))
    }

    /// A configuration, as `longshore run --config` reads it.
    ///
    /// # Errors
    /// It cannot be read, or has faults.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let text =
            longshore_files::read_text(file, MAX_TEXT_BYTES).map_err(|source| Failure::Read {
                file: file.into(),
                source,
            })?;
        let config = config::parse(file, &text).map_err(Failure::Config)?;
        Ok(Policy {
            file: Some(file.to_owned()),
            config,
        })
    }

    /// A few words: the file, the names of its policies, or that it is the price.
    pub fn label(&self) -> String {
        let names: Vec<&str> = self
            .config
            .policies
            .iter()
            .map(|policy| policy.name.as_str())
            .collect();
        match (names.is_empty(), &self.file) {
            (false, _) => names.join(" + "),
            (true, None) => "price".to_owned(),
            (true, Some(file)) => format!("price ({})", file.display()),
        }
    }

    /// What comes over the network, with a hint: there is none in a simulation.
    pub fn network(&self) -> Option<(String, &'static str)> {
        let signals = self.config.signals.iter();
        let mut signals = signals.filter_map(|(name, signal)| match signal {
            SignalEntry::Url { url, .. } => Some((name, url.as_str())),
            SignalEntry::PlacementScores(_) => Some((name, "EC2")),
            SignalEntry::File(_) => None,
        });
        let policies = self.config.policies.iter();
        let mut policies =
            policies.filter(|p| matches!(p.source.reference(), Some(Reference::Oci(_))));
        let network = "and a simulation asks no network";
        let signal = signals.next().map(|(name, place)| {
            let said = format!("signal `{name}` comes from {place}, {network}");
            (said, "save it and name the file: `file = \"…\"`")
        });
        signal.or_else(|| {
            let policy = policies.next()?;
            let (name, place) = (&policy.name, &policy.source);
            let said = format!("policy `{name}` comes from {place}, {network}");
            let hint = "copy it with `oras cp -r --to-oci-layout`, and name the folder: \
                        `oci-layout = \"…\"`";
            Some((said, hint))
        })
    }
}

/// The policies of a run: what processes of the daemon begin with, and the watcher, driven by hand.
#[derive(Clone)]
pub struct PolicySlot(Arc<Mutex<Inner>>);

struct Inner {
    reloader: PolicyReloader,
    watcher: Watcher,
    /// Where the journal goes, if anywhere, and the one that is open.
    folder: Option<PathBuf>,
    journal: Journal,
    trouble: Vec<String>,
}

impl PolicySlot {
    /// Compiles what a policy names.
    ///
    /// # Errors
    /// A component that is refused: a trial run without it would say nothing.
    pub fn new(policy: &Policy, journal: Option<&Path>) -> Result<Self, Failure> {
        let setup = Setup {
            config: policy.file.clone(),
            inline: policy.config.clone(),
            ..Setup::default()
        };
        let (reloader, watcher, _) = PolicyReloader::manual(setup)?;
        if let Some(problem) = reloader
            .status()
            .policies
            .iter()
            .find_map(|policy| policy.error.clone())
        {
            let message = format!("the policy cannot be used: {problem}");
            return Err(Failure::Usage {
                message,
                hint: problem.hint,
            });
        }
        // What was loaded at the beginning is no news.
        reloader.notices();
        let folder = journal.map(Path::to_owned);
        if let Some(folder) = &folder {
            // Whether it can be written is found out before an hour of work.
            open(folder)?.close();
        }
        let inner = Inner {
            reloader,
            watcher,
            folder,
            journal: Journal::off(),
            trouble: Vec::new(),
        };
        Ok(PolicySlot(Arc::new(Mutex::new(inner))))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each process begins with. The journal of the one before it is ended.
    pub fn begin(&self) -> Begin {
        let slot = self.clone();
        Arc::new(move |_| {
            let mut inner = slot.inner();
            inner.journal.close();
            inner.journal = match inner.folder.as_deref().map(open) {
                None => Journal::off(),
                Some(Ok(journal)) => journal,
                Some(Err(failure)) => {
                    inner.trouble.push(failure.report());
                    Journal::off()
                }
            };
            let journal = inner.journal.clone();
            inner.watcher.write_to(journal.clone());
            ProcessInputs {
                reloader: inner.reloader.clone(),
                journal,
            }
        })
    }

    /// Another policy, from the next round on. What was loaded before stays where the new one
    /// cannot be used.
    pub fn switch(&self, policy: &Policy) {
        let mut inner = self.inner();
        inner.watcher.switch(
            policy.file.clone(),
            policy.config.clone(),
            SystemTime::now(),
        );
    }

    /// Looks at the files once.
    pub fn look(&self) {
        self.inner().watcher.step(SystemTime::now());
    }

    /// What became of policies since this was asked last.
    pub fn notices(&self) -> Vec<Notice> {
        self.inner().reloader.notices()
    }

    /// The names of what is obeyed now, with version; `price` if that is nothing.
    pub fn active(&self) -> String {
        let status = self.inner().reloader.status();
        let names: Vec<String> = status
            .policies
            .iter()
            .filter_map(|policy| policy.version.clone())
            .collect();
        if names.is_empty() {
            "price".to_owned()
        } else {
            names.join(" + ")
        }
    }

    /// Waits until the journal has written everything sent.
    pub fn flush(&self) {
        self.inner().journal.flush();
    }

    /// Ends the journal. What could not be written, in words.
    pub fn close(&self) -> Vec<String> {
        let mut inner = self.inner();
        inner.journal.flush();
        let condition = inner.journal.condition();
        inner.journal.close();
        if let Some(lost) = condition
            .map(|condition| condition.lost)
            .filter(|lost| *lost > 0)
        {
            inner
                .trouble
                .push(format!("the journal has lost {lost} records"));
        }
        std::mem::take(&mut inner.trouble)
    }
}

fn open(folder: &Path) -> Result<Journal, Failure> {
    let sizes = Sizes {
        all: DEFAULT_MAX_BYTES,
        segment: DEFAULT_SEGMENT_BYTES,
    };
    Ok(Journal::open(folder, sizes)?)
}
