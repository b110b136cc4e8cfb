//! `cargo xtask …`: developer commands.
#![allow(clippy::print_stdout)]

use anyhow::{Result, bail};
use longshore_xtask::guests;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("plugins") => {
            for path in guests::build_plugins()? {
                println!("{}", path.display());
            }
        }
        Some("examples") => {
            for (language, built) in guests::build_examples()? {
                match built {
                    guests::Built::Component(path) => println!("{language:<4} {}", path.display()),
                    guests::Built::Skipped(reason) => println!("{language:<4} skipped: {reason}"),
                }
            }
        }
        _ => bail!("usage: cargo xtask plugins | examples"),
    }
    Ok(())
}
