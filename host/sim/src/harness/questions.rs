//! Asks the daemon's processes what an operator asks: `longshore status`, `longshore explain`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_live::environment::Daemon;
use longshore_live::policies::PolicyReloader;
pub use longshore_live::serve::questions::Subject;
use longshore_live::serve::questions::{NotExplained, Questions};

/// Processes that can be asked, by name.
#[derive(Clone, Default)]
pub(super) struct Processes(Arc<Mutex<BTreeMap<String, Process>>>);

#[derive(Clone)]
pub(super) struct Process {
    questions: Questions,
    reloader: PolicyReloader,
}

impl Processes {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins.
    pub fn begins(&self, name: &str, daemon: &Daemon, reloader: PolicyReloader) {
        let questions = daemon.questions();
        let process = Process {
            questions,
            reloader,
        };
        self.all().insert(name.to_owned(), process);
    }

    pub fn ends(&self, name: &str) {
        self.all().remove(name);
    }

    /// The process of this name, or else the oldest that is there.
    pub fn pick(&self, name: &str) -> Option<Process> {
        let all = self.all();
        all.get(name).or_else(|| all.values().next()).cloned()
    }
}

impl Process {
    /// What `longshore status` prints.
    pub fn status(&self) -> String {
        self.questions.note_policies(&self.reloader);
        self.questions.status_text()
    }

    /// Metrics of what it has counted.
    pub fn counted(&self) -> String {
        self.questions.counted()
    }

    /// What `longshore explain` prints.
    pub async fn explain(&self, about: Subject) -> Result<String, NotExplained> {
        let explained = self.questions.explain(about).await?;
        Ok(explained.text)
    }
}
