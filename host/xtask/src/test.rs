//! `cargo xtask test`: everything that must hold before a change goes in. CI runs exactly this.

mod programs;

use longshore_xtask::{control_plane, guests, helm, in_ci};

use crate::commands::{self, Steps, bold, cargo, run_keeping};

/// Leaves out the crate with the SDK of AWS, which takes minutes and gigabytes to build.
pub const WITHOUT_SDK: [&str; 2] = ["--exclude", "longshore-aws"];
/// What is built with that crate. With other features the SDK would be built once more.
const WITH_SDK: [&str; 10] = [
    "--package",
    "longshore-aws",
    "--package",
    "longshore",
    "--package",
    "longshore-live",
    "--package",
    "longshore-sim",
    "--features",
    "longshore/aws,longshore-sim/aws",
];

/// Runs all steps; stops at the first that fails. Ends with the time of each step, and of each test
/// suite. With `--aws` the steps are those of the crate with the SDK of AWS.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    let steps_of = match args {
        [] => run_steps,
        ["--aws"] => aws_steps,
        _ => anyhow::bail!("cargo xtask test takes --aws or nothing, and not {args:?}"),
    };
    let mut steps = Steps::default();
    let done = steps_of(&mut steps);
    let verdict = if done.is_ok() {
        "All that were run passed"
    } else {
        "Not passed"
    };
    println!("\n{}", bold(verdict));
    print!("{}", steps.summary());
    let (suites, not_run) = done?;
    suites.iter().for_each(|suite| {
        println!(
            "  {:>7}  {:>5} passed  {}",
            suite.took, suite.passed, suite.name
        )
    });
    println!(
        "  {} tests passed in {} suites",
        suites.iter().map(|suite| suite.passed).sum::<u64>(),
        suites.len()
    );
    if !not_run.is_empty() {
        println!("{}", bold(&format!("{} tests were NOT run", not_run.len())));
        not_run.iter().for_each(|line| println!("  {line}"));
    }
    Ok(())
}

/// The suites that passed, and the lines of tests that were not run.
fn run_steps(steps: &mut Steps) -> anyhow::Result<(Vec<Suite>, Vec<String>)> {
    steps.run("format", || {
        commands::run(cargo(&["fmt", "--all", "--check"]))
    })?;
    steps.run("clippy", || {
        commands::run(cargo(&[
            "clippy",
            "--workspace",
            WITHOUT_SDK[0],
            WITHOUT_SDK[1],
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ]))
    })?;
    // Links to what is renamed or private are the first to become wrong.
    steps.run("cargo doc", || {
        let mut doc = cargo(&[
            "doc",
            "--workspace",
            WITHOUT_SDK[0],
            WITHOUT_SDK[1],
            "--no-deps",
            "--document-private-items",
        ]);
        let lints = "--deny warnings --allow rustdoc::private_intra_doc_links";
        doc.env("RUSTDOCFLAGS", lints);
        commands::run(doc)
    })?;
    steps.run("policies", commands::plugins)?;
    steps.run("control plane", || or_not_run(control_plane::build(SAY)))?;
    steps.run("helm", build_helm)?;
    let apart = |manifest: &str, folder: &str| {
        let mut test = cargo(&["test", "--locked", "--manifest-path", manifest]);
        test.arg("--target-dir").arg(guests::folder().join(folder));
        run_keeping(test, worth_repeating)
    };
    let mut lines = steps.run("tests of the policies", || {
        apart("plugins/Cargo.toml", "plugins")
    })?;
    lines.extend(steps.run("tests of longshore-policy", || {
        apart("host/policy-tool/Cargo.toml", "tool")
    })?);
    let programs = steps.run("build tests", programs::build)?;
    lines.extend(steps.run("tests", || programs::run(programs, worth_repeating))?);
    lines.extend(steps.run("documentation", || {
        run_keeping(
            cargo(&[
                "test",
                "--workspace",
                WITHOUT_SDK[0],
                WITHOUT_SDK[1],
                "--doc",
                "--no-fail-fast",
            ]),
            worth_repeating,
        )
    })?);
    let not_run = lines
        .iter()
        .filter(|line| is_ignored(line))
        .cloned()
        .collect();
    Ok((suites(&lines), not_run))
}

/// The steps of `host/aws`.
fn aws_steps(steps: &mut Steps) -> anyhow::Result<(Vec<Suite>, Vec<String>)> {
    steps.run("format", || {
        commands::run(cargo(&["fmt", "--package", "longshore-aws", "--check"]))
    })?;
    steps.run("control plane", || or_not_run(control_plane::build(SAY)))?;
    steps.run("clippy", || {
        let all = ["--all-targets", "--", "--deny", "warnings"];
        commands::run(cargo(&[&["clippy"][..], &WITH_SDK, &all].concat()))
    })?;
    let lines = steps.run("tests", || {
        let suites = [
            "--no-fail-fast",
            "--lib",
            "--test",
            "emulated",
            "--test",
            "on_aws",
            "--test",
            "moto",
            "--test",
            "on_ec2",
        ];
        let test = [&["test"][..], &WITH_SDK, &suites].concat();
        run_keeping(cargo(&test), worth_repeating)
    })?;
    let not_run = lines.iter().filter(|line| is_ignored(line));
    let not_run = not_run.cloned().collect();
    Ok((suites(&lines), not_run))
}

const SAY: &dyn Fn(&str) = &|line| println!("    {line}");

/// Where a program cannot be built, the tests that need it are reported as not run; in CI that is a
/// failure.
fn or_not_run(built: anyhow::Result<()>) -> anyhow::Result<()> {
    match built {
        Err(error) if !in_ci() => {
            println!("    not built, tests that need it will not be run: {error:#}");
            Ok(())
        }
        done => done,
    }
}

/// Builds Helm. Where it cannot be built, as without a network, the tests of the charts are reported
/// as not run: nothing of the programs depends on it.
fn build_helm() -> anyhow::Result<()> {
    if let Err(error) = helm::build(SAY) {
        println!("    not built, tests of the charts will not be run: {error:#}");
    }
    Ok(())
}

/// A test program that ran.
#[derive(Debug, PartialEq)]
struct Suite {
    name: String,
    passed: u64,
    /// As it says: `12.34s`.
    took: String,
}

/// Lines of a test run that its summary is made of: which suite, its total, and what was not run.
fn worth_repeating(line: &str) -> bool {
    suite_name(line).is_some() || line.starts_with("test result:") || is_ignored(line)
}

fn is_ignored(line: &str) -> bool {
    line.starts_with("test ") && line.contains("... ignored")
}

/// The suite that cargo announces: `Running tests/stop.rs
/// (target/debug/deps/stop-0f)` or `Doc-tests longshore`.
fn suite_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} (documentation)"));
    }
    let (source, program) = line.strip_prefix("Running ")?.split_once(" (")?;
    let program = program.trim_end_matches(')').rsplit('/').next()?;
    // Cargo appends a hash to the name.
    let name = program.rsplit_once('-').map_or(program, |(name, _)| name);
    Some(format!(
        "{name} ({})",
        source.trim_start_matches("unittests ")
    ))
}

/// Suites from the lines that announce them and the totals that follow:
/// `test result: ok. 12 passed; 0 failed; …; finished in 1.23s`.
fn suites(lines: &[String]) -> Vec<Suite> {
    let (mut suites, mut name) = (Vec::new(), None);
    for line in lines {
        if let Some(next) = suite_name(line) {
            name = Some(next);
        } else if line.starts_with("test result:") {
            let before = |word: &str| {
                line.split(word)
                    .next()
                    .and_then(|text| text.rsplit(' ').next())
            };
            let passed = before(" passed")
                .and_then(|count| count.parse().ok())
                .unwrap_or(0);
            let took = line
                .rsplit("finished in ")
                .next()
                .filter(|took| took.len() < line.len())
                .unwrap_or("");
            let name = name.take().unwrap_or_else(|| "?".to_owned());
            suites.push(Suite {
                name,
                passed,
                took: took.to_owned(),
            });
        }
    }
    suites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_were_not_run_are_repeated_by_name() {
        assert!(worth_repeating("test pods_run   ... ignored"));
        assert!(worth_repeating("test slow ... ignored, needs a cluster"));
        assert!(worth_repeating(
            "test result: ok. 0 passed; 0 failed; 2 ignored"
        ));
        assert!(!worth_repeating("test ignored_labels_stay ... ok"));
    }

    #[test]
    fn suites_have_names_totals_and_times() {
        let lines = [
            "     Running unittests src/lib.rs (target/debug/deps/longshore_core-5fa3)",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.23s",
            "   Doc-tests longshore_core",
            "test result: ok. 3 passed; 0 failed",
        ];
        let suite = |name: &str, passed, took: &str| Suite {
            name: name.into(),
            passed,
            took: took.into(),
        };
        let expected = [
            suite("longshore_core (src/lib.rs)", 12, "1.23s"),
            suite("longshore_core (documentation)", 3, ""),
        ];
        assert_eq!(suites(&lines.map(String::from)), expected);
    }
}
