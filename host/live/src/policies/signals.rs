//! Signals while the daemon runs: files are read when they change, URLs are fetched on a schedule.
//!
//! A signal that cannot be fetched keeps its last good table and time, reports the failure once,
//! and is retried sooner. URLs are fetched on a thread of their own, one request at a time; the
//! result waits here for the next step. EC2 is asked in the same way, by what its provider gives.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_policy::{Signal, Signals};

use super::board::PolicyBoard;
use super::notice::NoticeKind;
use super::signal_table::{self, Table};
use super::web;
use crate::config::{Config, MAX_AGE, ScoresEntry, SignalEntry};
use crate::status::policies::{DatedBy, Problem, SignalStatus};

/// Retry interval of a failed URL, unless its own interval is shorter.
const URL_RETRY: Duration = Duration::from_secs(30);
/// Retry interval of questions to EC2.
const SCORES_RETRY: Duration = Duration::from_secs(300);
/// The row of a table that says when its numbers were true, in seconds since 1970.
const TIME_ROW: &str = "time";
/// A day: so much a time may be ahead.
const MAX_SECONDS_AHEAD: f64 = 86_400.0;
/// What is earlier than 2001 is no time of data.
const EARLIEST_DATA_TIME: f64 = 1e9;

/// Signals and where they come from.
pub struct Sources {
    all: BTreeMap<String, Source>,
    agent: ureq::Agent,
    /// Whether something answers spot placement scores, and what, once it is there.
    on_ec2: bool,
    scores: Option<Arc<ScoresAsker>>,
    sender: Sender<Fetched>,
    arrived: Receiver<Fetched>,
    /// The tables that rounds read: the last good one of each signal.
    tables: Arc<Signals>,
    changed: bool,
}

struct Source {
    entry: SignalEntry,
    due: SystemTime,
    in_flight: bool,
}

struct Fetched {
    name: String,
    entry: SignalEntry,
    result: Result<Reply, Problem>,
}

/// A table that was asked for.
pub(super) struct Reply {
    pub table: Table,
    /// When its numbers were true, if the source says so: seconds since 1970.
    pub modified: Option<i64>,
}

/// Asks EC2 for spot placement scores, by `type/zone`. Blocks until the answer is there.
pub type ScoresAsker = dyn Fn(&ScoresEntry) -> Result<Table, Problem> + Send + Sync;

impl SignalEntry {
    /// How long until it is asked for again, and that after a failure; nothing for a file.
    fn intervals(&self) -> Option<(Duration, Duration)> {
        match self {
            SignalEntry::File(_) => None,
            SignalEntry::Url { every, .. } => Some((*every, URL_RETRY.min(*every))),
            SignalEntry::PlacementScores(entry) => Some((entry.every, SCORES_RETRY)),
        }
    }

    /// How old its data may be where the configuration does not say it.
    fn max_age(&self) -> Duration {
        let every = self.intervals().map_or(Duration::ZERO, |(every, _)| every);
        MAX_AGE.max(3 * every)
    }
}

impl Sources {
    pub fn new(timeout: Duration, on_ec2: bool) -> Self {
        let (sender, arrived) = mpsc::channel();
        Sources {
            all: BTreeMap::new(),
            agent: web::agent(timeout),
            on_ec2,
            scores: None,
            sender,
            arrived,
            tables: Arc::default(),
            changed: false,
        }
    }

    /// Has spot placement scores answered by `scores`.
    pub fn ask_scores_with(&mut self, scores: Arc<ScoresAsker>) {
        self.scores = Some(scores);
    }

    /// What rounds are to see.
    pub fn tables(&self) -> &Arc<Signals> {
        &self.tables
    }

    /// The tables, if they have changed since last asked.
    pub fn news(&mut self) -> Option<Arc<Signals>> {
        std::mem::take(&mut self.changed).then(|| self.tables.clone())
    }

    /// Adds the signals of a configuration with the content of their `files`, and drops others. A
    /// signal from another source keeps its table until there is a new one.
    pub fn configure(
        &mut self,
        config: &Config,
        files: Vec<(String, Result<Signal, Problem>)>,
        now: SystemTime,
        board: &mut PolicyBoard,
    ) {
        let wanted = &config.signals;
        self.all.retain(|name, _| wanted.contains_key(name));
        board.signals.retain(|name, _| wanted.contains_key(name));
        if self
            .tables
            .tables
            .keys()
            .any(|name| !wanted.contains_key(name))
        {
            let kept = self
                .tables
                .tables
                .iter()
                .filter(|(name, _)| wanted.contains_key(*name));
            self.put(Signals {
                tables: kept
                    .map(|(name, table)| (name.clone(), table.clone()))
                    .collect(),
            });
        }
        for (name, entry) in wanted {
            if self
                .all
                .get(name)
                .is_none_or(|source| source.entry != *entry)
            {
                self.all.insert(
                    name.clone(),
                    Source {
                        entry: entry.clone(),
                        due: UNIX_EPOCH,
                        in_flight: false,
                    },
                );
                let fresh = SignalStatus::new(name, entry);
                let status = board
                    .signals
                    .entry(name.clone())
                    .or_insert_with(|| fresh.clone());
                (status.source, status.every_seconds) = (fresh.source, fresh.every_seconds);
            }
            if let Some(status) = board.signals.get_mut(name) {
                let declared = config.max_ages.get(name).copied();
                let most = declared.unwrap_or_else(|| entry.max_age());
                status.max_age_seconds = most.as_secs();
            }
        }
        for (name, result) in files {
            let dated = |signal: Signal| {
                let changed = signal.time as i64;
                (signal, (changed, DatedBy::File))
            };
            self.settle(&name, now, result.map(dated), board);
        }
    }

    /// Takes in what has arrived and asks what is due. True if a signal was fetched for the first
    /// time.
    pub fn step(&mut self, now: SystemTime, board: &mut PolicyBoard) -> bool {
        let mut first = false;
        let arrived: Vec<Fetched> = self.arrived.try_iter().collect();
        for Fetched {
            name,
            entry,
            result,
        } in arrived
        {
            // An answer to an outdated request.
            let Some(source) = self
                .all
                .get_mut(&name)
                .filter(|source| source.entry == entry)
            else {
                continue;
            };
            source.in_flight = false;
            let Some((every, again)) = source.entry.intervals() else {
                continue;
            };
            source.due = now + if result.is_ok() { every } else { again };
            first |= result.is_ok() && self.tables.get(&name).is_none();
            let time = seconds(now);
            let dated = |reply: Reply| {
                let dated = match reply.modified {
                    Some(at) => (at.min(time), DatedBy::LastModified),
                    None => (time, DatedBy::Reply),
                };
                (Signal::new(time as f64, reply.table), dated)
            };
            self.settle(&name, now, result.map(dated), board);
        }
        for (name, source) in &mut self.all {
            let Some((every, _)) = source.entry.intervals() else {
                continue;
            };
            // A clock that was set back does not make it wait for longer than it should.
            let due = source.due <= now || source.due > now + every;
            if source.in_flight || !due {
                continue;
            }
            let scores = match (&source.entry, &self.scores) {
                (SignalEntry::PlacementScores(_), None) if self.on_ec2 => continue,
                (_, scores) => scores.clone(),
            };
            let (agent, sender, name) = (self.agent.clone(), self.sender.clone(), name.clone());
            let entry = source.entry.clone();
            let ask = move || {
                let result = match &entry {
                    SignalEntry::File(file) => Err(wrong(
                        file.display().to_string(),
                        "a file is not fetched".into(),
                    )),
                    SignalEntry::Url { url, headers, .. } => {
                        web::fetch(&agent, url, headers.as_deref())
                    }
                    SignalEntry::PlacementScores(wanted) => match scores {
                        Some(scores) => scores(wanted).map(|table| Reply {
                            table,
                            modified: None,
                        }),
                        None => Err(Problem {
                            place: "EC2".into(),
                            reason: "nodes do not come from EC2".into(),
                            hint: "run with --provider aws, or delete the signal".into(),
                        }),
                    },
                };
                // Nobody waits for it once the daemon ends.
                let _ = sender.send(Fetched {
                    name,
                    entry,
                    result,
                });
            };
            // Without a thread today there may be one at the next step.
            source.in_flight = std::thread::Builder::new()
                .name("signal".into())
                .spawn(ask)
                .is_ok();
        }
        first
    }

    /// Writes down an attempt; a good table takes the place of the old one. Beside it is when its
    /// numbers were true as far as its source says, which the table may know better.
    fn settle(
        &mut self,
        name: &str,
        now: SystemTime,
        result: Result<(Signal, (i64, DatedBy)), Problem>,
        board: &mut PolicyBoard,
    ) {
        let Some(status) = board.signals.get_mut(name) else {
            return;
        };
        match result {
            Ok((signal, dated)) => {
                let own = own_time(&signal, now).map(|at| (at, DatedBy::Table));
                let (at, by) = own.unwrap_or(dated);
                (status.data_at, status.dated_by) = (Some(at), Some(by));
                status.rows = Some(signal.rows());
                status.had_at = Some(seconds(now));
                status.had += 1;
                let lost = status.error.take().is_some();
                if lost || status.had == 1 {
                    board.note(
                        NoticeKind::SignalBack,
                        name,
                        format!("signal {name} is there"),
                        "",
                    );
                }
                if self.tables.get(name) != Some(&signal) {
                    let mut tables = (*self.tables).clone();
                    tables.tables.insert(name.to_owned(), signal);
                    self.put(tables);
                }
            }
            Err(problem) => {
                status.failures += 1;
                if status.error.as_ref() != Some(&problem) {
                    let instead = match status.had_at {
                        Some(at) => format!(
                            "the table had {} s ago stays",
                            seconds(now).saturating_sub(at)
                        ),
                        None => "policies see none".into(),
                    };
                    let message = format!("fetching signal {name} failed: {problem}; {instead}");
                    let hint = problem.hint.clone();
                    status.error = Some(problem);
                    board.note(NoticeKind::SignalLost, name, message, &hint);
                }
            }
        }
    }

    fn put(&mut self, tables: Signals) {
        (self.tables, self.changed) = (Arc::new(tables), true);
    }
}

/// The tables of those signals that are files. Takes as long as the file system does.
pub fn read_files(
    wanted: &BTreeMap<String, SignalEntry>,
) -> Vec<(String, Result<Signal, Problem>)> {
    let read = |(name, entry): (&String, &SignalEntry)| match entry {
        SignalEntry::File(file) => Some((name.clone(), read_file(file))),
        SignalEntry::Url { .. } | SignalEntry::PlacementScores(_) => None,
    };
    wanted.iter().filter_map(read).collect()
}

/// A table from a file; its time is that of the file's last change.
fn read_file(file: &Path) -> Result<Signal, Problem> {
    let place = || file.display().to_string();
    let read = longshore_files::read(file, signal_table::MAX_BYTES)
        .and_then(|bytes| Ok((bytes, std::fs::metadata(file)?.modified()?)));
    let (bytes, changed) = read.map_err(|error| Problem {
        place: place(),
        reason: error.to_string(),
        hint: "check `file`, and that the daemon's user may read it".into(),
    })?;
    let rows = signal_table::read(&bytes).map_err(|reason| wrong(place(), reason))?;
    Ok(Signal::new(seconds(changed) as f64, rows))
}

/// When a table itself says that its numbers were true.
fn own_time(signal: &Signal, now: SystemTime) -> Option<i64> {
    let latest = seconds(now) as f64 + MAX_SECONDS_AHEAD;
    let own = signal.get(TIME_ROW);
    own.filter(|at| (EARLIEST_DATA_TIME..=latest).contains(at))
        .map(|at| at as i64)
}

pub(super) fn wrong(place: String, reason: String) -> Problem {
    Problem {
        place,
        reason,
        hint: signal_table::HINT.into(),
    }
}

/// Seconds since 1970.
pub fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the status says of a signal an hour after it came with these rows and this date.
    fn dated(rows: &[(&str, f64)], modified: Option<i64>) -> (Option<i64>, Option<DatedBy>, bool) {
        let came = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let url = SignalEntry::Url {
            url: "http://x/y".into(),
            every: Duration::from_secs(300),
            headers: None,
        };
        let config = Config {
            signals: BTreeMap::from([("load".to_owned(), url.clone())]),
            ..Config::default()
        };
        let mut sources = Sources::new(Duration::from_secs(1), false);
        let mut board = PolicyBoard::default();
        sources.configure(&config, Vec::new(), came, &mut board);
        sources.all.get_mut("load").unwrap().in_flight = true;
        let rows = rows.iter().map(|(key, value)| ((*key).to_owned(), *value));
        let reply = Reply {
            table: rows.collect(),
            modified,
        };
        let fetched = Fetched {
            name: "load".into(),
            entry: url,
            result: Ok(reply),
        };
        sources.sender.send(fetched).unwrap();
        sources.step(came, &mut board);
        let status = board.status(Default::default(), seconds(came) + 3600);
        let [signal] = &status.signals[..] else {
            panic!("one signal")
        };
        assert_eq!(signal.is_old(), !status.warnings.is_empty());
        (signal.age_seconds, signal.dated_by, signal.is_old())
    }

    #[test]
    fn the_age_of_a_signal_is_that_of_its_data() {
        let came = 1_800_000_000;
        let three_days_ago = came - 3 * 86_400;
        let plain = [("a", 1.0)];
        assert_eq!(
            dated(&plain, None),
            (Some(3600), Some(DatedBy::Reply), false)
        );
        assert_eq!(
            dated(&plain, Some(three_days_ago)),
            (Some(3 * 86_400 + 3600), Some(DatedBy::LastModified), true)
        );
        let own = [("a", 1.0), ("time", three_days_ago as f64)];
        assert_eq!(
            dated(&own, Some(came)),
            (Some(3 * 86_400 + 3600), Some(DatedBy::Table), true)
        );
        // A row of that name with something else.
        assert_eq!(
            dated(&[("time", 12.5)], None),
            (Some(3600), Some(DatedBy::Reply), false)
        );
        assert_eq!(
            dated(&plain, Some(came + 500)),
            (Some(3600), Some(DatedBy::LastModified), false),
            "another clock"
        );
    }
}
