//! Where components are compiled: here, or in a process of its own that may fail.
//!
//! Compiling takes seconds and hundreds of megabytes for a small policy in Python, and as much as a
//! stranger likes for one that is made for it. The kernel ends all processes of a container at
//! once when its memory is used up. So the daemon starts itself again as a compiler, which may use
//! the memory that is left and no more: it dies and nothing else does.

mod memory;

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, setrlimit};

use crate::engine::{HostConfig, engine};

/// Where components are compiled.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Compiler {
    /// In this process, where nothing limits memory and time.
    #[default]
    Here,
    /// In a child process, with limits of memory and time.
    Child(CompileChild),
}

/// A program that calls [`compile_child`] with what it finds after `arguments`.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileChild {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments before those that the host adds.
    pub arguments: Vec<OsString>,
    /// The most bytes of memory, if less is not left.
    pub most_memory: Option<u64>,
    /// How long it may take by the clock.
    pub time: Duration,
}

/// Seconds of CPU that compiling may take. A small policy in Python takes 14, one in StarlingMonkey
/// 19.
pub const COMPILE_CPU_SECONDS: u64 = 240;
/// How long a child may take by the clock, on a busy machine.
const CHILD_TIME: Duration = Duration::from_secs(900);
/// Memory that is left to the daemon while a child compiles.
const RESERVE: u64 = 48 << 20;
/// With less there is no trying: a policy in Rust takes about 40 MiB.
const LEAST_MEMORY: u64 = 64 << 20;
/// The most code that is taken from a child.
const MAX_CODE_BYTES: u64 = 1 << 30;
/// The most that it may say.
const MAX_WORDS_BYTES: u64 = 16 << 10;
/// Exit codes: it is no component; there is no memory for it.
const DAMAGED: u8 = 3;
const NO_MEMORY: u8 = 4;

/// Why there is no code.
#[derive(Debug, PartialEq)]
pub(crate) enum CompileError {
    /// The bytes are no valid component, for this reason.
    Damaged(String),
    /// The component killed its compiler.
    Died(String),
    /// Something else, that may go by.
    Failed(String),
}

impl CompileChild {
    /// This program once more, with these arguments.
    pub fn itself(arguments: &[&str]) -> Self {
        // Not by name: the file may have been replaced.
        let program = match cfg!(target_os = "linux") {
            true => PathBuf::from("/proc/self/exe"),
            false => std::env::current_exe().unwrap_or_default(),
        };
        CompileChild {
            program,
            arguments: arguments.iter().map(OsString::from).collect(),
            most_memory: None,
            time: CHILD_TIME,
        }
    }

    /// Compiles a component to machine code, here or in a child.
    pub(crate) fn compile(
        &self,
        bytes: &[u8],
        canonical_nans: bool,
    ) -> Result<Vec<u8>, CompileError> {
        let left = memory::left().map(|left| left.saturating_sub(RESERVE));
        let memory = left.into_iter().chain(self.most_memory).min();
        if let Some(memory) = memory.filter(|memory| *memory < LEAST_MEMORY) {
            return Err(CompileError::Failed(format!(
                "there is memory of {} MiB to compile it with, less than {}: raise the container's \
                 limit",
                memory >> 20,
                LEAST_MEMORY >> 20
            )));
        }
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        if let Some(memory) = memory {
            command.arg(format!("--memory={memory}"));
        }
        if canonical_nans {
            command.arg("--canonical-nans");
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|error| CompileError::Failed(format!("no compiler starts: {error}")))?;
        let (status, code, words) = self.attend(child, bytes)?;
        verdict(status, code, &words, memory)
    }

    /// Gives a child its component, and takes what it writes.
    fn attend(
        &self,
        mut child: Child,
        bytes: &[u8],
    ) -> Result<(ExitStatus, Vec<u8>, String), CompileError> {
        let (done, ended) = mpsc::channel::<()>();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let errors = child.stderr.take();
        let (code, words, in_time) = std::thread::scope(|scope| {
            let code = scope.spawn(move || {
                let mut code = Vec::new();
                let read = output.map(|from| from.take(MAX_CODE_BYTES).read_to_end(&mut code));
                drop(done);
                match read {
                    Some(Ok(_)) => code,
                    _ => Vec::new(),
                }
            });
            let words = scope.spawn(move || {
                let mut words = Vec::new();
                if let Some(mut from) = errors {
                    let _ = (&mut from).take(MAX_WORDS_BYTES).read_to_end(&mut words);
                    // What is not read would block it.
                    let _ = std::io::copy(&mut from, &mut std::io::sink());
                }
                String::from_utf8_lossy(&words).trim().to_owned()
            });
            // A child that dies early does not read it all: what killed it is the news.
            let fed = scope.spawn(move || input.map(|mut to| to.write_all(bytes)));
            let in_time = ended.recv_timeout(self.time) != Err(mpsc::RecvTimeoutError::Timeout);
            if !in_time {
                let _ = child.kill();
            }
            let _ = fed.join();
            (
                code.join().unwrap_or_default(),
                words.join().unwrap_or_default(),
                in_time,
            )
        });
        let status = child
            .wait()
            .map_err(|error| CompileError::Failed(format!("the compiler is lost: {error}")))?;
        if !in_time {
            return Err(CompileError::Failed(format!(
                "compiling takes longer than {} s",
                self.time.as_secs()
            )));
        }
        Ok((status, code, words))
    }
}

/// What the end of a child means.
fn verdict(
    status: ExitStatus,
    code: Vec<u8>,
    words: &str,
    memory: Option<u64>,
) -> Result<Vec<u8>, CompileError> {
    let last = words.lines().last().unwrap_or_default();
    let with = memory.map_or(String::new(), |memory| {
        format!(" with {} MiB of memory", memory >> 20)
    });
    match (status.code(), status.signal()) {
        (Some(0), _) if !code.is_empty() => Ok(code),
        (Some(code), _) if code == i32::from(DAMAGED) => Err(CompileError::Damaged(words.into())),
        (Some(code), _) if code == i32::from(NO_MEMORY) => {
            Err(CompileError::Died(format!("it cannot be compiled{with}")))
        }
        (_, Some(signal)) => {
            let asked = [Signal::TERM, Signal::INT, Signal::HUP];
            if asked.iter().any(|of| of.as_raw() == signal) {
                return Err(CompileError::Failed("the compiler was told to stop".into()));
            }
            let how = match Signal::from_named_raw(signal) {
                Some(Signal::XCPU) => format!("it takes more than {COMPILE_CPU_SECONDS} s of CPU"),
                Some(Signal::ABORT) if last.starts_with("memory allocation") => {
                    "the memory is used up".to_owned()
                }
                Some(Signal::SEGV | Signal::BUS) => "its stack or memory is used up".to_owned(),
                _ => format!("signal {signal}: {last}"),
            };
            Err(CompileError::Died(format!(
                "the compiler died of it{with}: {how}"
            )))
        }
        (code, _) => Err(CompileError::Failed(format!(
            "the compiler ended with code {}: {last}",
            code.unwrap_or(-1)
        ))),
    }
}

/// Compiles the component on standard input to standard output: what [`CompileChild`] runs. Returns
/// the exit code. `memory` is the most bytes that it may use.
pub fn compile_child(memory: Option<u64>, canonical_nans: bool) -> u8 {
    let said = |code: u8, words: &dyn std::fmt::Display| {
        let _ = writeln!(std::io::stderr(), "{words}");
        code
    };
    let most = |most: u64| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    if let Some(memory) = memory
        && let Err(error) = setrlimit(Resource::Data, most(memory))
    {
        return said(1, &format!("the memory cannot be limited: {error}"));
    }
    let _ = setrlimit(Resource::Cpu, most(COMPILE_CPU_SECONDS));
    let _ = setrlimit(Resource::Core, most(0));
    // The daemon goes first where there is one core, and this process goes first where there is no
    // memory.
    let _ = rustix::process::nice(10);
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let mut bytes = Vec::new();
    if let Err(error) = std::io::stdin().lock().read_to_end(&mut bytes) {
        return said(1, &error);
    }
    let config = HostConfig {
        canonical_nans,
        one_thread: true,
        ..HostConfig::default()
    };
    let engine = match engine(&config) {
        Ok(engine) => engine,
        Err(error) => return said(1, &format!("{error:#}")),
    };
    let code = match engine.precompile_component(&bytes) {
        Ok(code) => code,
        Err(error) => {
            let words = format!("{:#}", error.root_cause());
            let memory = words.contains("Cannot allocate") || words.contains("out of memory");
            return said(if memory { NO_MEMORY } else { DAMAGED }, &words);
        }
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(&code).and_then(|()| out.flush()) {
        Ok(()) => 0,
        Err(error) => said(1, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(raw: i32, words: &str) -> CompileError {
        let status = ExitStatus::from_raw(raw);
        verdict(status, Vec::new(), words, Some(100 << 20)).unwrap_err()
    }

    #[test]
    fn the_end_of_a_compiler_is_said_in_words() {
        let died = |words: &str| CompileError::Died(words.to_owned());
        assert_eq!(
            said(6, "memory allocation of 64 bytes failed"),
            died("the compiler died of it with 100 MiB of memory: the memory is used up")
        );
        assert_eq!(
            said(11, ""),
            died("the compiler died of it with 100 MiB of memory: its stack or memory is used up")
        );
        assert_eq!(
            said(24, ""),
            died("the compiler died of it with 100 MiB of memory: it takes more than 240 s of CPU")
        );
        assert_eq!(
            said(4 << 8, "Cannot allocate memory"),
            died("it cannot be compiled with 100 MiB of memory")
        );
        assert_eq!(
            said(3 << 8, "unexpected end"),
            CompileError::Damaged("unexpected end".into())
        );
        for gone in [said(15, ""), said(1 << 8, "no"), said(0, "")] {
            assert!(matches!(gone, CompileError::Failed(_)), "{gone:?}");
        }
    }

    #[test]
    fn a_compiler_that_does_not_start_or_end_is_no_fault_of_the_component() {
        let child = |program: &str, arguments: &[&str]| CompileChild {
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            most_memory: None,
            time: Duration::from_millis(300),
        };
        let none = child("/nowhere/longshore", &[]).compile(b"", false);
        assert!(matches!(none, Err(CompileError::Failed(why)) if why.starts_with("no compiler")));
        let slow = child("/bin/sh", &["-c", "exec sleep 60"]).compile(&[0; 1 << 20], false);
        assert_eq!(
            slow,
            Err(CompileError::Failed(
                "compiling takes longer than 0 s".into()
            ))
        );
        let mut poor = child("/bin/true", &[]);
        poor.most_memory = Some(10 << 20);
        let refused = poor.compile(b"", false);
        assert!(matches!(refused, Err(CompileError::Failed(why)) if why.contains("10 MiB")));
    }
}
