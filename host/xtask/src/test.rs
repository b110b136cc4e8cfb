//! `cargo xtask test`: everything that must hold before a change goes in. CI runs exactly this.

use longshore_xtask::{control_plane, guests};

use crate::steps::{self, Steps, bold, cargo, run_keeping};

/// Runs all steps; stops at the first that fails.
pub fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    steps.run("format", || steps::run(cargo(&["fmt", "--all", "--check"])))?;
    steps
        .run("clippy", || steps::run(cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])))?;
    steps.run("policies", steps::plugins)?;
    steps.run("control plane", build_control_plane)?;
    let mut results = steps.run("tests of the policies", || {
        let folder = guests::folder().join("plugins");
        let mut test = cargo(&["test", "--locked", "--manifest-path", "plugins/Cargo.toml", "--target-dir"]);
        test.arg(folder);
        run_keeping(test, worth_repeating)
    })?;
    results.extend(
        steps.run("tests", || run_keeping(cargo(&["test", "--workspace", "--no-fail-fast"]), worth_repeating))?,
    );
    let (results, not_run): (Vec<_>, Vec<_>) = results.into_iter().partition(|line| line.starts_with("test result:"));
    println!("\n{}", bold("All that were run passed"));
    print!("{}", steps.summary());
    for line in &results {
        println!("  {line}");
    }
    println!("  {} tests passed in {} suites", passed(&results), results.len());
    if !not_run.is_empty() {
        println!("{}", bold(&format!("{} tests were NOT run", not_run.len())));
        not_run.iter().for_each(|line| println!("  {line}"));
    }
    Ok(())
}

/// Builds the control plane where it can be built. Where not, its tests say themselves that they are not run.
fn build_control_plane() -> anyhow::Result<()> {
    if let Err(error) = control_plane::build(&|line| println!("    {line}")) {
        println!("    not built, tests that need it will not be run: {error:#}");
    }
    Ok(())
}

/// Lines of a test run that its summary repeats: totals, and what was not run.
fn worth_repeating(line: &str) -> bool {
    line.starts_with("test result:") || (line.starts_with("test ") && line.contains("... ignored"))
}

/// Tests passed according to the lines `test result: ok. 12 passed; 0 failed; …`.
fn passed(results: &[String]) -> usize {
    let count = |line: &String| {
        let before = line.split(" passed").next()?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    };
    results.iter().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_were_not_run_are_repeated_by_name() {
        assert!(worth_repeating("test pods_run   ... ignored"));
        assert!(worth_repeating("test slow ... ignored, needs a cluster"));
        assert!(worth_repeating("test result: ok. 0 passed; 0 failed; 2 ignored"));
        assert!(!worth_repeating("test ignored_labels_stay ... ok"));
    }

    #[test]
    fn passed_tests_add_up() {
        let lines = ["test result: ok. 12 passed; 0 failed; 0 ignored", "test result: ok. 3 passed; 0 failed"];
        assert_eq!(passed(&lines.map(String::from)), 15);
    }
}
