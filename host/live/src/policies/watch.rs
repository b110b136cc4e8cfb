//! The policy thread: looks at files, compiles, validates, fetches signals.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use longshore_policy::{Host, HostConfig, LoadedPolicy, PolicySlot, ScoreRequest};

use super::answers_on_disk::AnswersOnDisk;
use super::board::SwapTimes;
use super::bundles::{self, Bundles};
use super::canaries;
use super::diff::{self, Change, DesiredPolicy, Fingerprint, Running, Step};
use super::file_events::FileEvents;
use super::files::{self, Files};
use super::last_good::{self, Opened};
use super::load::{self, Unusable};
use super::notice::NoticeKind;
use super::places::Mounts;
use super::serve::{ActivePolicies, BootSlot, Shadow, ShadowJudge};
use super::setup::Setup;
use super::shared::{Shared, Slot};
use super::signals::{Sources, read_files, seconds};
use super::slots::{LoadedSlot, SlotOutcome};
use crate::config::{Config, Mode, PolicyEntry, canary_name};
use crate::error::Failure;
use crate::status::policies::{ConfigStatus, PolicyStatus, Problem, ShadowStatus};
use longshore_journal::Journal;

/// Keeps the running policies equal to the files.
pub struct Watcher {
    shared: Arc<Shared>,
    host: Host,
    journal: Journal,
    /// Whether something asks what nodes boot with.
    boots: bool,
    file: Option<PathBuf>,
    /// Where copies of good configurations are kept.
    copies: Option<PathBuf>,
    /// What policies last answered, for a process after this one.
    answers: AnswersOnDisk,
    files: Files,
    /// What references to registries and layouts lead to.
    bundles: Bundles,
    sources: Sources,
    config: Arc<Config>,
    slots: Vec<LoadedSlot>,
    /// When to try again what was refused for want of time or memory.
    retry_at: Option<SystemTime>,
}

/// How long what was refused for want of time or memory is left alone.
const REFUSED_RETRY: Duration = Duration::from_secs(60);

impl Watcher {
    /// Reads the configuration and puts it in force, with policies that are not loaded.
    pub(super) fn new(setup: Setup) -> Result<(Arc<Shared>, Watcher), Failure> {
        let opened = match (&setup.config, setup.opened) {
            (_, Some(opened)) => opened,
            (Some(file), None) => last_good::open(file, setup.copies.as_deref())?,
            (None, None) => Opened {
                config: setup.inline,
                refused: None,
            },
        };
        let host = HostConfig {
            limits: setup.limits,
            cache: setup.cache,
            canonical_nans: false,
            one_thread: true,
            compiler: setup.compiler,
            on_compile: None,
        };
        let host = Host::new(host).map_err(|error| Failure::Usage {
            message: error.to_string(),
            hint: "WebAssembly needs memory that may be executed".into(),
        })?;
        let nothing = ActivePolicies::new(
            Arc::default(),
            Vec::new(),
            host.follow(None, Vec::new()),
            Vec::new(),
        );
        let slot = Slot {
            current: Arc::new(nothing),
            next: None,
            signals: None,
            scores: None,
            retired: Vec::new(),
            swaps: SwapTimes::default(),
            held: Arc::default(),
            obeyed: Arc::default(),
        };
        let shared = Arc::new(Shared {
            slot: Mutex::new(slot),
            board: Mutex::default(),
            health: Mutex::default(),
            last_texts: Mutex::default(),
            sightings: Mutex::default(),
            rounds: AtomicU64::default(),
            trim_due: AtomicBool::default(),
        });
        let bundles = Bundles::new(&setup.fetching);
        let mut watcher = Watcher {
            shared: shared.clone(),
            host,
            journal: setup.journal,
            boots: setup.boots,
            answers: AnswersOnDisk::new(setup.copies.as_deref(), setup.config.as_deref()),
            file: setup.config,
            copies: setup.copies,
            files: Files::default(),
            bundles,
            sources: Sources::new(setup.signal_timeout, setup.on_ec2),
            config: Arc::new(opened.config),
            slots: Vec::new(),
            retry_at: None,
        };
        watcher.hold_slots(opened.refused);
        Ok((shared, watcher))
    }

    /// Has the configuration in force before any policy is loaded: the price answers for each.
    fn hold_slots(&mut self, refused: Option<Problem>) {
        let slot = |entry: &PolicyEntry| LoadedSlot {
            entry: entry.clone(),
            running: None,
            refused: None,
        };
        self.slots = self.config.policies.iter().map(slot).collect();
        let loading = |entry: &PolicyEntry| PolicyStatus {
            name: entry.name.clone(),
            path: entry.source.to_string(),
            mode: entry.mode,
            nodepools: entry.nodepools.clone(),
            loading: entry.mode != Mode::Off,
            ..PolicyStatus::default()
        };
        let policies = self.config.policies.iter().map(loading).collect();
        self.shared.board().policies = policies;
        if let Some(problem) = refused {
            let instead = "its last good copy is in force";
            self.refuse_config(problem, instead);
        }
        self.offer_first();
    }

    /// Loads everything once.
    pub(super) fn begin(&mut self, now: SystemTime) {
        self.apply_again(now);
        self.offer_first();
    }

    /// Whether a policy is awaited from a registry that has neither given nor refused it.
    pub(super) fn awaits_registries(&self) -> bool {
        self.bundles.awaited()
    }

    /// Brings everything in step with the configuration in force, whatever its file has.
    fn apply_again(&mut self, now: SystemTime) {
        let refused = self.shared.board().config.error.take();
        self.apply(Config::clone(&self.config), now);
        self.shared.board().config.error = refused;
    }

    /// The first state is no swap.
    fn offer_first(&self) {
        self.offer();
        let mut slot = self.shared.slot();
        if let Some(first) = slot.next.take() {
            let old = std::mem::replace(&mut slot.current, first);
            slot.retired.push(old);
        }
    }

    /// Says once what is wrong with the configuration's file.
    fn refuse_config(&self, problem: Problem, instead: &str) {
        let mut board = self.shared.board();
        if board.config.error.as_ref() == Some(&problem) {
            return;
        }
        let file = self.file.as_deref().unwrap_or(Path::new(""));
        let message = format!("{problem}; {instead}");
        let hint = problem.hint.clone();
        board.note(
            NoticeKind::ConfigRefused,
            &file.display().to_string(),
            message,
            &hint,
        );
        board.config.error = Some(problem);
    }

    /// Looks at everything once. Returns when the changes are ready to be applied; requests for
    /// signals continue in the background.
    pub fn step(&mut self, now: SystemTime) {
        self.see_to(now, true);
    }

    /// Looks at files if it is time, and at everything else.
    pub(super) fn turn(&mut self, events: &mut FileEvents) {
        let looks = events.wait(Instant::now()).is_zero();
        if looks {
            // Watched first, looked at then: a change in between wakes.
            self.arm(events);
        }
        let changed = self.see_to(SystemTime::now(), looks);
        if looks {
            if changed {
                self.arm(events);
            }
            let (changing, young) = (self.files.is_changing(), self.files.is_young());
            events.looked(Instant::now(), changing, young);
        }
    }

    fn arm(&self, events: &mut FileEvents) {
        events.arm(self.files.names(), &Mounts::now());
        self.shared.board().files.clone_from(events.status());
    }

    /// Whether everything was read again.
    fn see_to(&mut self, now: SystemTime, looks: bool) -> bool {
        self.drop_retired();
        if let Some(scores) = self.shared.slot().scores.take() {
            self.sources.ask_scores_with(scores);
        }
        let first = self.sources.step(now, &mut self.shared.board());
        if first {
            // Whoever was refused may have missed just this signal.
            self.slots.iter_mut().for_each(|slot| slot.refused = None);
        }
        let retry = self.retry_at.take_if(|at| now >= *at).is_some();
        let arrived = self.ask_registries(now);
        let changed = (looks && self.files.poll(now)) || first || retry;
        let reloaded = changed && self.reload(now);
        if arrived && !reloaded {
            self.apply_again(now);
        }
        if let Some(tables) = self.sources.news() {
            self.shared.slot().signals = Some(tables);
        }
        let current = self.shared.slot().current.clone();
        self.answers.write(&current, &self.shared, now);
        changed
    }

    /// Has another configuration in force from the next round on, and watches `file`, if it is that
    /// file's. For callers that drive the watcher by hand.
    pub fn switch(&mut self, file: Option<PathBuf>, config: Config, now: SystemTime) {
        self.drop_retired();
        self.file = file;
        self.apply(config, now);
    }

    /// Components are written down in another journal from now on, first those that run.
    pub fn write_to(&mut self, journal: Journal) {
        self.journal = journal;
        for slot in &self.slots {
            // A file that is another one by now leaves a gap, which a replay names.
            if let (Some((running, _)), Ok(read)) =
                (&slot.running, load::read(&slot.entry, &self.bundles))
                && read.version.digest == running.digest
            {
                self.journal.component(&read.version.digest, &read.bytes);
            }
        }
    }

    /// Has registries asked for what is due. Whether one has answered.
    fn ask_registries(&mut self, now: SystemTime) -> bool {
        let (arrived, remarks) = self.bundles.step(now);
        self.remark(remarks);
        arrived
    }

    fn remark(&self, remarks: bundles::Remarks) {
        for (policy, remark) in remarks {
            let hint = "nothing is lost but time: it is fetched again";
            let mut board = self.shared.board();
            board.note(NoticeKind::BundleNotKept, &policy, remark, hint);
        }
    }

    /// Drops what rounds have done with, on this thread.
    fn drop_retired(&self) {
        let retired = std::mem::take(&mut self.shared.slot().retired);
        if retired.is_empty() {
            return;
        }
        let mut board = self.shared.board();
        retired.iter().for_each(|live| board.collect(live));
        drop((board, retired));
        self.shared.trim_due.store(true, Ordering::Relaxed);
    }

    /// Whether the file could be read and is in force.
    fn reload(&mut self, now: SystemTime) -> bool {
        let Some(file) = self.file.clone() else {
            return false;
        };
        match load::config(&file) {
            Ok((config, text)) => {
                last_good::keep(&file, self.copies.as_deref(), &text);
                self.apply(config, now);
                true
            }
            // Files of the current configuration may have changed too, but slots are unknown until
            // it is valid.
            Err(failure) => {
                let instead = "the last good configuration stays in force";
                self.refuse_config(load::failed(failure), instead);
                false
            }
        }
    }

    /// Brings everything in step with a configuration.
    fn apply(&mut self, config: Config, now: SystemTime) {
        // Watched first, read afterwards: a change in between is found at the next look.
        self.files
            .watch(files::named(self.file.as_deref(), &config), now);
        let remarks = self.bundles.configure(&config, &self.files, now);
        self.remark(remarks);
        // The board is what the loop reads: it is never held while the file system is waited for.
        let tables = read_files(&config.signals);
        self.sources
            .configure(&config, tables, now, &mut self.shared.board());
        let entries = config.policies.iter();
        let identified = |entry: &PolicyEntry| match entry.mode {
            Mode::Off => Err(Problem::default()),
            Mode::Enforce | Mode::Shadow | Mode::Canary => {
                load::identify(entry, &self.files, &self.bundles)
            }
        };
        let mut wanted: Vec<_> = entries.map(identified).collect();
        let mut change = self.compare(&config, &wanted);
        for (entry, step) in config.policies.iter().zip(&mut change.steps) {
            if *step == Step::Load
                && entry.source.reference().is_some()
                && !self.bundles.recall(entry)
            {
                *step = Step::Coming;
            }
        }
        let fresh = self.load(&config, &mut wanted, &change);
        self.bundles.let_go();
        let retries =
            |outcome: &SlotOutcome| matches!(outcome, SlotOutcome::Refused(why) if why.may_go_by);
        self.retry_at = fresh.iter().any(retries).then(|| now + REFUSED_RETRY);

        let different =
            self.config.planning != config.planning || self.config.disruption != config.disruption;
        let loaded = fresh
            .iter()
            .any(|outcome| matches!(outcome, SlotOutcome::Loaded(_)));
        if fresh
            .iter()
            .any(|outcome| matches!(outcome, SlotOutcome::Loaded(_) | SlotOutcome::Refused(_)))
        {
            self.shared.trim_due.store(true, Ordering::Relaxed);
        }
        let same_signals =
            self.config.signals == config.signals && self.config.max_ages == config.max_ages;
        let anew = !same_signals || different || change.slots;
        self.config = Arc::new(config);
        self.settle(wanted, &change, fresh, now);
        if different || loaded || change.slots {
            self.offer();
        }
        self.journal_component(anew, &change, now);
    }

    fn compare(&self, config: &Config, found: &[Result<Fingerprint, Problem>]) -> Change {
        let running = |slot: &LoadedSlot| Running {
            slot: load::slot(&slot.entry),
            version: slot.running.as_ref().map(|(version, _)| version.clone()),
            refused: slot.refused.clone(),
        };
        let wanted =
            |(entry, found): (&PolicyEntry, &Result<Fingerprint, Problem>)| DesiredPolicy {
                slot: load::slot(entry),
                version: found.as_ref().ok().cloned(),
                coming: self.bundles.is_coming(entry),
            };
        let running: Vec<Running> = self.slots.iter().map(running).collect();
        let wanted: Vec<DesiredPolicy> = config.policies.iter().zip(found).map(wanted).collect();
        diff::decide(&running, &wanted)
    }

    /// Does the steps: the only place that reads whole components and compiles. What was read is
    /// what is wanted from then on.
    fn load(
        &self,
        config: &Config,
        wanted: &mut [Result<Fingerprint, Problem>],
        change: &Change,
    ) -> Vec<SlotOutcome> {
        let current = self.shared.slot().current.clone();
        let mut done: Vec<SlotOutcome> = Vec::new();
        for (at, (entry, wanted)) in config.policies.iter().zip(wanted).enumerate() {
            let outcome = match change.steps[at] {
                Step::Keep => SlotOutcome::Kept,
                Step::Refused => SlotOutcome::Known,
                Step::Off => SlotOutcome::Off,
                Step::Coming => SlotOutcome::Coming,
                Step::Unreadable | Step::Load => {
                    let before = &config.policies[..at];
                    // The version that a next one follows is not before it in the chain.
                    let follows = before
                        .iter()
                        .position(|of| canary_name(&of.name) == entry.name);
                    let chain = &before[..follows.unwrap_or(at)];
                    let is_before = |name: &str| {
                        let mut chain = chain.iter();
                        chain.any(|one| one.name == name && one.mode == Mode::Enforce)
                    };
                    let asked = current.asked_after(is_before);
                    let than = self.runs(follows.unwrap_or(at), &done, change);
                    self.load_one(entry, wanted, than.as_ref(), &asked)
                        .map_or_else(SlotOutcome::Refused, SlotOutcome::Loaded)
                }
            };
            done.push(outcome);
        }
        done
    }

    /// What runs of an entry, or was made ready just now: a new version may want no more.
    fn runs(&self, at: usize, done: &[SlotOutcome], change: &Change) -> Option<LoadedPolicy> {
        if let Some(SlotOutcome::Loaded(policy)) = done.get(at) {
            return Some(policy.clone());
        }
        let (_, policy) = self.slots[change.from[at]?].running.as_ref()?;
        Some(policy.clone())
    }

    fn load_one(
        &self,
        entry: &PolicyEntry,
        wanted: &mut Result<Fingerprint, Problem>,
        than: Option<&LoadedPolicy>,
        asked: &[ScoreRequest],
    ) -> Result<LoadedPolicy, Unusable> {
        let found = std::mem::replace(wanted, Err(Problem::default()));
        let read = found.and_then(|_| load::read(entry, &self.bundles));
        *wanted = match &read {
            Ok(read) => Ok(read.version.clone()),
            Err(problem) => Err(problem.clone()),
        };
        let read = read?;
        let file = self.file.as_deref().unwrap_or(Path::new(""));
        let policy = load::load(&self.host, file, entry, &read, self.boots);
        for remark in self.host.take_remarks() {
            let hint = "nothing is lost but time: it is compiled again";
            let mut board = self.shared.board();
            board.note(NoticeKind::CompiledCodeIgnored, &entry.name, remark, hint);
        }
        let policy = policy?;
        if let Some(running) = than {
            load::without_consent(&policy, entry, running)?;
        }
        load::validate(&policy, entry, asked, self.sources.tables())?;
        self.journal.component(&read.version.digest, &read.bytes);
        Ok(policy)
    }

    /// Assigns policies to slots and records the result of each.
    fn settle(
        &mut self,
        wanted: Vec<Result<Fingerprint, Problem>>,
        change: &Change,
        fresh: Vec<SlotOutcome>,
        now: SystemTime,
    ) {
        let mut old: Vec<Option<LoadedSlot>> = std::mem::take(&mut self.slots)
            .into_iter()
            .map(Some)
            .collect();
        let mut board = self.shared.board();
        let mut known = std::mem::take(&mut board.policies);
        board.unused_keys = bundles::unused_keys(&self.config);
        for (((entry, version), &from), outcome) in self
            .config
            .policies
            .iter()
            .zip(wanted)
            .zip(&change.from)
            .zip(fresh)
        {
            let before = from.and_then(|at| old[at].take());
            let (running, refused) =
                before.map_or((None, None), |slot| (slot.running, slot.refused));
            let mut slot = LoadedSlot {
                entry: entry.clone(),
                running,
                refused,
            };
            let mut status = match known.iter().position(|policy| policy.name == entry.name) {
                Some(at) => known.swap_remove(at),
                None => PolicyStatus::default(),
            };
            status.name.clone_from(&entry.name);
            let place = entry.source.to_string();
            if status.path != place && entry.source.reference().is_some() {
                // What was wrong was wrong with something else.
                status.error = None;
            }
            status.path = place;
            status.nodepools.clone_from(&entry.nodepools);
            status.shadow = match entry.mode {
                Mode::Enforce | Mode::Canary | Mode::Off => None,
                Mode::Shadow if status.mode == Mode::Shadow => {
                    status.shadow.or_else(|| Some(ShadowStatus::default()))
                }
                Mode::Shadow => Some(ShadowStatus::default()),
            };
            status.mode = entry.mode;
            status.canary = status.canary.filter(|_| entry.mode == Mode::Canary);
            outcome.settle(version.ok(), &mut slot, &mut status, now, &mut board);
            let here = self.bundles.digest(entry).ok();
            if slot.running.as_ref().map(|(running, _)| &running.digest) == here.as_ref() {
                status.signed_by = self.bundles.signed_by(entry);
            }
            board.policies.push(status);
            self.slots.push(slot);
        }
        for name in &change.gone {
            board.note(
                NoticeKind::PolicyRemoved,
                name,
                format!("policy {name} is not named any more"),
                "",
            );
        }
    }

    /// Makes the versions in the slots ready to be taken over.
    fn offer(&self) {
        let current = self.shared.slot().current.clone();
        let obeyed: Vec<&LoadedSlot> = self
            .slots
            .iter()
            .filter(|slot| slot.entry.mode == Mode::Enforce)
            .collect();
        let place = |slot: &&LoadedSlot| PolicySlot {
            policy: slot.running.as_ref().map(|(_, policy)| policy.clone()),
            node_pools: slot.entry.nodepools.clone().unwrap_or_default(),
            terms: slot.entry.terms(),
            follows: current
                .names
                .iter()
                .position(|name| *name == slot.entry.name),
            next: canaries::next_of(slot, &self.slots).map(|(_, policy)| policy.clone()),
        };
        let wasm = self
            .host
            .follow(Some(&current.wasm), obeyed.iter().map(place).collect());
        wasm.share_signals(self.sources.tables().clone());
        wasm.plan_within(self.config.planning.time_limit);
        // A policy without a version before it has the answers that an earlier process wrote down.
        for (place, slot) in obeyed.iter().enumerate() {
            if !current.names.contains(&slot.entry.name) {
                self.answers.recall(&wasm, place, &slot.entry.name);
            }
        }
        let boot = |slot: &&LoadedSlot| {
            let policy = slot.running.as_ref().map(|(_, policy)| policy.clone());
            BootSlot::of(&slot.entry, policy)
        };
        let canaries = canaries::next_versions(&obeyed, &self.slots);
        let with_next = |mut slot: BootSlot| {
            let mut nexts = canaries.iter().filter(|next| next.boots);
            let next = nexts.find(|next| next.policy == slot.name);
            slot.next = next.map(|next| (next.mark(), next.loaded.clone()));
            slot
        };
        let boots = obeyed.iter().filter_map(boot).map(with_next);
        let boots: Arc<[BootSlot]> = boots.collect();
        let added = boots
            .iter()
            .filter(|boot| !current.names.contains(&boot.name));
        for boot in added {
            self.answers.recall_texts(&self.shared, &boot.name);
        }
        let shadow = |(at, slot): (usize, &LoadedSlot)| {
            let before = self.slots[..at].iter();
            let enforced = before.filter(|slot| slot.entry.mode == Mode::Enforce);
            let (_, policy) = slot.running.as_ref()?;
            let mut shadow = Shadow::of(&slot.entry, policy, enforced.count())?;
            // As it would be if it were enforced.
            let mut places: Vec<PolicySlot> = obeyed.iter().map(place).collect();
            places.insert(
                shadow.after,
                PolicySlot {
                    policy: Some(policy.clone()),
                    node_pools: slot.entry.nodepools.clone().unwrap_or_default(),
                    terms: slot.entry.terms(),
                    follows: None,
                    next: None,
                },
            );
            shadow.with = Some(Arc::new(self.host.follow(None, places)));
            Some(shadow)
        };
        let names = obeyed.iter().map(|slot| slot.entry.name.clone()).collect();
        let mut live = ActivePolicies::new(
            self.config.clone(),
            names,
            wasm,
            self.slots.iter().enumerate().filter_map(shadow).collect(),
        );
        live.shadow_judges = self.shadow_judges();
        live.boots = boots;
        live.canaries = canaries.into();
        let unseen = self.shared.slot().next.replace(Arc::new(live));
        drop(unseen);
    }

    /// Consolidation policies that are compared.
    fn shadow_judges(&self) -> Vec<Arc<ShadowJudge>> {
        let shadows = self
            .slots
            .iter()
            .filter(|slot| slot.entry.mode == Mode::Shadow);
        let judge = |slot: &LoadedSlot| {
            let (_, policy) = slot.running.as_ref()?;
            let place = PolicySlot {
                policy: Some(policy.clone()).filter(LoadedPolicy::is_consolidation),
                node_pools: slot.entry.nodepools.clone().unwrap_or_default(),
                terms: slot.entry.terms(),
                follows: None,
                next: None,
            };
            place.policy.as_ref()?;
            let wasm = self.host.follow(None, vec![place]);
            wasm.share_signals(self.sources.tables().clone());
            Some(Arc::new(ShadowJudge {
                name: slot.entry.name.clone(),
                wasm,
            }))
        };
        shadows.filter_map(judge).collect()
    }

    fn journal_component(&self, anew: bool, change: &Change, now: SystemTime) {
        let mut board = self.shared.board();
        let file = self.file.as_ref().map(|file| file.display().to_string());
        let name = file.clone().unwrap_or_default();
        let mended = board.config.error.is_some();
        let first = board.config.loaded_at == 0;
        if anew || mended || first {
            board.config = ConfigStatus {
                file,
                loaded_at: seconds(now),
                error: None,
            };
            if !first {
                let message = format!(
                    "configuration reloaded; {} policies changed",
                    change.steps.len()
                );
                board.note(NoticeKind::ConfigLoaded, &name, message, "");
            }
        }
    }
}
