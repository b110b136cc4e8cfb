//! `cargo xtask test`: everything that must hold before a change goes in. CI runs exactly this.

use longshore_xtask::guests;

use crate::steps::{self, Steps, bold, cargo, run_keeping};

/// The custom resources, with their tests.
const CRD: &str = "longshore-api/crd";

/// Runs all steps; stops at the first that fails.
pub fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    steps.run("format", || steps::run(cargo(&["fmt", "--all", "--check"])))?;
    steps.run("clippy", || {
        steps::run(cargo(&["clippy", "--workspace", "--all-targets", "--features", CRD, "--", "--deny", "warnings"]))
    })?;
    steps.run("policies", steps::plugins)?;
    let mut results = steps.run("tests of the policies", || {
        let folder = guests::folder().join("plugins");
        let mut test = cargo(&["test", "--locked", "--manifest-path", "plugins/Cargo.toml", "--target-dir"]);
        test.arg(folder);
        run_keeping(test, |line| line.starts_with("test result:"))
    })?;
    results.extend(steps.run("tests", || {
        run_keeping(cargo(&["test", "--workspace", "--features", CRD, "--no-fail-fast"]), |line| {
            line.starts_with("test result:")
        })
    })?);
    println!("\n{}", bold("All passed"));
    print!("{}", steps.summary());
    for line in &results {
        println!("  {line}");
    }
    println!("  {} tests passed in {} suites", passed(&results), results.len());
    Ok(())
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
    fn passed_tests_add_up() {
        let lines = ["test result: ok. 12 passed; 0 failed; 0 ignored", "test result: ok. 3 passed; 0 failed"];
        assert_eq!(passed(&lines.map(String::from)), 15);
    }
}
