//! Processes that outlive their parent, found again by files in a folder: `NAME.pid` and
//! `NAME.log`.
//!
//! A process is identified by its id and its start time, so that a reused id is never taken for
//! ours.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A process: its id, and what `ps` says of its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    id: i32,
    started: String,
}

/// What a process uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Memory in RAM, in KiB.
    pub resident: u64,
    /// Processor time since its start.
    pub cpu: Duration,
}

impl Process {
    /// Starts a program that writes to `folder/NAME.log` and is not stopped by Ctrl-C.
    pub fn start(mut command: Command, folder: &Path, name: &str) -> Result<Self> {
        let log = log(folder, name);
        let out =
            fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .current_dir(folder);
        let program = command.get_program().to_owned();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let id = i32::try_from(child.id()).context("a process id out of range")?;
        let started = look(id).map(|seen| seen.started).unwrap_or_default();
        let process = Self { id, started };
        let line = process.to_text();
        fs::write(pid_file(folder, name), line)
            .with_context(|| format!("cannot note the process of {name}"))?;
        Ok(process)
    }

    /// The process that was started in a folder under a name, if it still runs.
    pub fn find(folder: &Path, name: &str) -> Option<Self> {
        let text = fs::read_to_string(pid_file(folder, name)).ok()?;
        Self::from_text(&text).filter(Self::runs)
    }

    /// This process.
    pub fn current() -> Option<Self> {
        let id = i32::try_from(std::process::id()).ok()?;
        Some(Self {
            id,
            started: look(id)?.started,
        })
    }

    /// As [`Self::from_text`] reads it.
    pub fn to_text(&self) -> String {
        format!("{} {}\n", self.id, self.started)
    }

    /// `ID START`.
    pub fn from_text(text: &str) -> Option<Self> {
        let (id, started) = text.trim().split_once(' ')?;
        let id = id.parse().ok().filter(|id| *id > 1)?;
        Some(Self {
            id,
            started: started.to_owned(),
        })
    }

    pub fn id(&self) -> i32 {
        self.id
    }

    /// Whether it still runs. A process that is ours and has ended is forgotten by this.
    pub fn runs(&self) -> bool {
        if let Some(id) = Pid::from_raw(self.id) {
            // Fails for a process that is not our child; its parent reaps it.
            let _ = waitpid(Some(id), WaitOptions::NOHANG);
        }
        look(self.id).is_some_and(|seen| seen.started == self.started && !seen.ended)
    }

    /// Ends it without asking, and waits until it is gone.
    pub fn kill(&self) -> Result<()> {
        let Some(id) = Pid::from_raw(self.id) else {
            return Ok(());
        };
        if !self.runs() {
            return Ok(());
        }
        kill_process(id, Signal::KILL)
            .with_context(|| format!("cannot end process {}", self.id))?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.runs() {
            if Instant::now() > deadline {
                bail!("process {} was killed 20 s ago and is still there", self.id);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What it uses now.
    pub fn usage(&self) -> Option<Usage> {
        look(self.id)
            .filter(|seen| seen.started == self.started)
            .map(|seen| seen.usage)
    }
}

/// Where a process writes.
pub fn log(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// The end of what a process wrote.
pub fn last_lines(folder: &Path, name: &str, count: usize) -> String {
    let text = fs::read(log(folder, name)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn pid_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.pid"))
}

/// What the system says of a process.
struct Seen {
    started: String,
    ended: bool,
    usage: Usage,
}

/// See proc_pid_stat(5).
#[cfg(target_os = "linux")]
fn look(id: i32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Behind the name in parentheses, which may hold anything: state is field 3, utime 14, stime
    // 15, starttime 22, rss 24.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| {
        fields
            .get(field - 3)
            .and_then(|text| text.parse::<u64>().ok())
    };
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let cpu = Duration::from_millis((number(14)? + number(15)?) * 1000 / ticks);
    let resident = number(24)? * (rustix::param::page_size() as u64 >> 10);
    let ended = matches!(fields.first(), Some(&("Z" | "X")));
    Some(Seen {
        started: number(22)?.to_string(),
        ended,
        usage: Usage { resident, cpu },
    })
}

#[cfg(not(target_os = "linux"))]
fn look(id: i32) -> Option<Seen> {
    let columns = [
        "-o", "state=", "-o", "rss=", "-o", "time=", "-o", "lstart=", "-p",
    ];
    let out = Command::new("ps")
        .args(columns)
        .arg(id.to_string())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut words = said.split_whitespace();
    let (state, resident, time) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let seconds = time.split([':', '-']).fold(0.0, |sum, part| {
        sum * 60.0 + part.parse::<f64>().unwrap_or(0.0)
    });
    let cpu = Duration::from_secs_f64(seconds);
    let started = words.collect::<Vec<_>>().join(" ");
    Some(Seen {
        started,
        ended: state.starts_with('Z'),
        usage: Usage { resident, cpu },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("longshore-process-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_process_is_found_again_until_it_is_killed() {
        let folder = folder("found");
        let mut command = Command::new("sleep");
        command.arg("600");
        let started = Process::start(command, &folder, "sleeper").unwrap();
        assert_eq!(Process::find(&folder, "sleeper"), Some(started.clone()));
        assert!(started.usage().is_some());
        started.kill().unwrap();
        assert_eq!(Process::find(&folder, "sleeper"), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_id_given_to_another_process_is_not_ours() {
        let us = Process::current().unwrap();
        let other = Process {
            started: "1".into(),
            ..us.clone()
        };
        assert!(us.runs());
        assert!(!other.runs());
        other.kill().unwrap();
    }

    #[test]
    fn the_end_of_a_log_says_why_a_process_died() {
        let folder = folder("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three"]);
        let process = Process::start(command, &folder, "talker").unwrap();
        while process.runs() {
            std::thread::yield_now();
        }
        assert_eq!(last_lines(&folder, "talker", 2), "two\nthree");
        fs::remove_dir_all(folder).unwrap();
    }
}
