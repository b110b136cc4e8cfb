//! A folder with a configuration, a manager that watches it, and rounds on a small cluster.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use longshore_core::model::Symbol;
use longshore_core::plan::{Effort, Plan};
use longshore_core::planner;
use longshore_core::policy::Policies as _;
use longshore_core::snapshot::Snapshot;
use longshore_live::policies::{NoticeKind, PolicyReloader, PolicyStatus, Setup, Shadows, Watcher};
use longshore_policy::Limits;

pub struct Scene {
    pub folder: PathBuf,
    pub manager: PolicyReloader,
    pub watcher: Watcher,
    pub shadows: Shadows,
    pub snapshot: Snapshot,
}

/// A setup whose failures are quick.
pub fn setup(folder: &std::path::Path) -> Setup {
    Setup {
        config: Some(folder.join("longshore.toml")),
        limits: Limits {
            fuel: 20_000_000,
            ..Limits::default()
        },
        signal_timeout: Duration::from_millis(400),
        ..Setup::default()
    }
}

impl Scene {
    /// `files` are written first; the first of them is usually `longshore.toml`.
    pub fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
        let folder =
            std::env::temp_dir().join(format!("longshore-reload-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        files
            .iter()
            .for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
        Scene::with(folder, setup)
    }

    /// Of what a folder has.
    pub fn with(folder: PathBuf, setup: impl Fn(&std::path::Path) -> Setup) -> Self {
        let (manager, watcher, shadows) = PolicyReloader::manual(setup(&folder)).unwrap();
        Scene {
            folder,
            manager,
            watcher,
            shadows,
            snapshot: snapshot(),
        }
    }

    /// Writes a file beside and renames it into its place.
    pub fn rename(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.join(".part"), bytes).unwrap();
        std::fs::rename(self.folder.join(".part"), self.folder.join(name)).unwrap();
    }

    /// Writes over a file where it is.
    pub fn edit(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.join(name), bytes).unwrap();
    }

    /// Two looks: one to see a change, one to see that it is at rest.
    pub fn settle(&mut self) {
        // Long after the files were written, so that only what `stat` says counts.
        let now = SystemTime::now() + Duration::from_secs(60);
        self.watcher.step(now);
        self.watcher.step(now);
    }

    pub fn pool(&self) -> Symbol {
        let world = &self.snapshot.world;
        world.pools[self.snapshot.pools[0].0 as usize].name
    }

    /// What the first offering costs in a round of its own.
    pub fn cost(&self) -> f64 {
        let live = self.manager.take();
        live.begin_round(1_700_000_000);
        live.score(
            &self.snapshot.world.catalogue,
            &self.snapshot.world.names,
            self.pool(),
        )
        .cost[0]
    }

    pub fn price(&self) -> f64 {
        self.snapshot.world.catalogue.offerings()[0].price
    }

    pub fn round(&mut self) -> Plan {
        let live = self.manager.take();
        live.begin_round(1_700_000_000);
        let options = planner::PlanOptions {
            effort: Effort::None,
            seed: 0,
        };
        let plan = planner::plan(&self.snapshot, &*live, options).unwrap();
        self.manager.finish(&live, &self.snapshot, options, &plan);
        self.shadows.step();
        plan
    }

    pub fn policy(&self, name: &str) -> PolicyStatus {
        self.manager
            .status()
            .policies
            .into_iter()
            .find(|policy| policy.name == name)
            .unwrap()
    }

    /// Why the files of a policy cannot be used.
    pub fn error(&self, name: &str) -> String {
        self.policy(name)
            .error
            .map_or(String::new(), |error| error.to_string())
    }

    /// Kinds of what was said since last asked, but for how costs compare: these guests are simple.
    pub fn kinds(&self) -> Vec<NoticeKind> {
        let kinds = self.manager.notices().into_iter().map(|notice| notice.kind);
        let others = [NoticeKind::PolicyCostsAlike, NoticeKind::PolicyCostsDiffer];
        kinds.filter(|kind| !others.contains(kind)).collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The small cluster of the command's tests, with the built-in instance types.
fn snapshot() -> Snapshot {
    let mut reader = longshore_api::manifests::Reader::new();
    reader.read("small.yaml", include_bytes!("../data/small.yaml"));
    let (mut world, _) = reader.finish();
    world.catalogue = longshore_kwok::catalogue::built_in(&mut world.names);
    world.now = 1_700_000_000;
    Snapshot::new(world.into())
}
