//! `cargo xtask bench api-crossing [COUNT] [SEED]`: manifests beside the real API server.
//!
//! Manifests that are mutated from valid ones are given to the API server of a control plane and to
//! the readers of offline commands. CI does the same with a few (`ec2/tests/crossing`).

use anyhow::{Context as _, bail};

use crate::commands::{self, cargo};

const TEST: &str = "what_a_real_server_refuses_is_refused_and_what_it_takes_is_read";

/// Asks about so many manifests of a seed; 10 000 of seed 1 if the words say nothing else.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    let [count, seed] = match args {
        [] => ["10000", "1"],
        [count] => [*count, "1"],
        [count, seed] => [*count, *seed],
        _ => bail!("api-crossing takes COUNT and SEED, and not {args:?}"),
    };
    for number in [count, seed] {
        let read: Result<u64, _> = number.parse();
        read.with_context(|| format!("{number:?} is not a number"))?;
    }
    let mut test = cargo(&["test", "--package", "longshore-ec2", "--test", "crd_server"]);
    test.args(["--", "--exact", TEST, "--nocapture"]);
    test.env("LONGSHORE_CROSSING", format!("{count} {seed}"));
    commands::run(test)
}
