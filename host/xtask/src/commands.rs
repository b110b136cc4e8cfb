//! Runs other programs one after the other, with their output visible.

use std::io::{BufRead as _, BufReader, IsTerminal as _, PipeReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use longshore_xtask::guests;

/// Steps done so far, with the time that each took.
#[derive(Default)]
pub struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// Announces a step and does it. One that fails is kept with its time as well.
    pub fn run<T>(
        &mut self,
        name: &str,
        step: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        println!("{}", bold(&format!("==> {name}")));
        let start = Instant::now();
        let done = step().with_context(|| format!("step failed: {name}"));
        self.done.push((name.to_owned(), start.elapsed()));
        done
    }

    /// The times, one step a line.
    pub fn summary(&self) -> String {
        let width = self
            .done
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        let lines = self
            .done
            .iter()
            .map(|(name, took)| format!("  {name:<width$}  {:>7.1} s\n", took.as_secs_f64()));
        lines.collect()
    }
}

/// `cargo` of the toolchain that runs us, at the root of the repository. It does not get variables of
/// our own package: build scripts that read such variables, as ring's does, would run again, and all
/// that depends on them would be built anew whenever cargo runs by hand in between.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command
        .args(args)
        .current_dir(longshore_xtask::guests::root());
    without_variables(&mut command, &["CARGO_PKG_", "CARGO_MANIFEST_"]);
    command
}

/// Keeps variables of our environment from a command: those whose name begins with one of these.
pub fn without_variables(command: &mut Command, begins: &[&str]) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if begins.iter().any(|begin| text.starts_with(begin)) {
            command.env_remove(&name);
        }
    }
}

/// Runs a command with our own streams.
pub fn run(mut command: Command) -> anyhow::Result<()> {
    let shown = command_line(&command);
    println!("    {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs a command, passing both of its streams on line by line in the order in which they come, and
/// returns the lines that `keep` wants.
pub fn run_keeping(command: Command, keep: impl Fn(&str) -> bool) -> anyhow::Result<Vec<String>> {
    let shown = command_line(&command);
    println!("    {shown}");
    let (mut child, lines) = spawn_merged(command)?;
    let mut kept = Vec::new();
    for line in BufReader::new(lines).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        if keep(&line) {
            kept.push(line);
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(kept)
}

/// Starts a command with both of its streams in one pipe, in the order in which lines come.
pub fn spawn_merged(mut command: Command) -> anyhow::Result<(Child, PipeReader)> {
    let (lines, out) = std::io::pipe()?;
    let child = command
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()
        .with_context(|| format!("cannot start {}", command_line(&command)))?;
    // The command holds the other end of the pipe, which is closed with it.
    Ok((child, lines))
}

/// Runs a command silently and returns its standard output; its standard error is in the error.
pub fn output(mut command: Command) -> anyhow::Result<Vec<u8>> {
    let shown = command_line(&command);
    let out = command
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    if !out.status.success() {
        bail!(
            "{shown}: {}\n{}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(out.stdout)
}

/// Builds the shipped binary optimised, with cargo's progress in sight, and says where it is.
pub fn longshore() -> anyhow::Result<PathBuf> {
    run(cargo(&["build", "--release", "--package", "longshore"]))?;
    built("longshore")
}

/// Builds the shipped binary and the simulator beside it, and says where the first is.
pub fn longshore_and_sim() -> anyhow::Result<PathBuf> {
    run(cargo(&[
        "build",
        "--package",
        "longshore",
        "--package",
        "longshore-sim",
    ]))?;
    built_in("debug", "longshore-sim")?;
    built_in("debug", "longshore")
}

/// The daemon with EC2, in the profile of the tests: to optimize the SDK takes longer.
pub fn longshore_with_ec2() -> anyhow::Result<PathBuf> {
    run(cargo(&[
        "build",
        "--package",
        "longshore",
        "--features",
        "aws",
    ]))?;
    built_in("debug", "longshore")
}

fn built(name: &str) -> anyhow::Result<PathBuf> {
    built_in("release", name)
}

fn built_in(profile: &str, name: &str) -> anyhow::Result<PathBuf> {
    let binary = target()
        .join(profile)
        .join(name)
        .with_extension(std::env::consts::EXE_EXTENSION);
    if !binary.exists() {
        bail!("cargo built nothing at {}", binary.display());
    }
    Ok(binary)
}

/// Builds the first-party policies, with cargo's progress in sight, and says which folder they are
/// in.
pub fn plugins() -> anyhow::Result<PathBuf> {
    plugins_named(&guests::PLUGINS)
}

/// Builds some of them.
pub fn plugins_named(names: &[&str]) -> anyhow::Result<PathBuf> {
    let packages = guests::packages(names);
    let packages = packages.iter().map(String::as_str);
    let of_plugins = ["--release", "--target", guests::TARGET];
    let of_plugins: Vec<&str> = of_plugins.into_iter().chain(packages).collect();
    let root = longshore_xtask::guests::root();
    guests::install_target()?;
    // The same builds as those of `guests::build_named`, which then finds everything done.
    for (manifest, folder, more) in [
        ("plugins/Cargo.toml", "plugins", &of_plugins[..]),
        ("host/policy-tool/Cargo.toml", "tool", &[]),
    ] {
        let mut build = cargo(&["build", "--locked", "--manifest-path"]);
        build
            .arg(root.join(manifest))
            .arg("--target-dir")
            .arg(guests::folder().join(folder))
            .args(more);
        for inherited in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "RUSTC_WRAPPER",
        ] {
            build.env_remove(inherited);
        }
        run(build)?;
    }
    guests::build_named(names)?;
    Ok(guests::folder())
}

/// Whether a program is there.
pub fn found(program: &str) -> bool {
    let probe = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok()
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let program = words[0].rsplit('/').next().unwrap_or(&words[0]).to_owned();
    std::iter::once(program)
        .chain(words.into_iter().skip(1))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Bold where the terminal can.
pub fn bold(text: &str) -> String {
    if std::io::stdout().is_terminal() {
        format!("\x1b[1m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Columns for a terminal: the first to the left, the others to the right, two spaces between.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let length = |text: &str| text.chars().count();
    let width = |at: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(at))
            .map(|cell| length(cell));
        cells.max().unwrap_or(0).max(length(headings[at]))
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, width))| match at {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = bold(&line(&mut headings.iter().copied()));
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    // Relative to where cargo was called: the root.
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    longshore_xtask::guests::root().join(folder)
}
