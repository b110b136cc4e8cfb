//! Records Karpenter's answers about clusters from seeds: what the examples of recorded tests share.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The manifests of a seed's cluster, and its instance types.
pub type Generate = fn(u64) -> (Value, Value);

/// The line to record for a seed, given how to ask the oracle about its cluster.
pub type Answer = fn(u64, &Oracle<'_>) -> Result<String>;

/// The command that Karpenter's core answers by, and the folder with the cluster in question.
pub struct Oracle<'a> {
    program: &'a str,
    folder: &'a Path,
}

impl Oracle<'_> {
    /// What a question, such as `schedule`, is answered with.
    ///
    /// # Errors
    /// The first line that the oracle says when it fails.
    pub fn ask(&self, question: &str) -> Result<Value> {
        let ran = Command::new(self.program)
            .arg(question)
            .arg("-snapshot")
            .arg(self.folder.join("cluster.json"))
            .arg("-instance-types")
            .arg(self.folder.join("types.json"))
            .output()?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            let said = said.lines().next().unwrap_or("without a word");
            return Err(format!("the oracle failed: {said}").into());
        }
        Ok(serde_json::from_slice(&ran.stdout)?)
    }
}

/// Runs an example: `dump SEED DIRECTORY` or `record FROM TO ORACLE OUT`.
///
/// # Errors
/// Other arguments, or files that cannot be written.
pub fn run(generate: Generate, answer: Answer) -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["dump", seed, folder] => dump(generate(seed.parse()?), Path::new(folder)),
        ["record", from, to, program, out] => {
            let folder =
                std::env::temp_dir().join(format!("longshore-recorder-{}", std::process::id()));
            let mut out = fs::OpenOptions::new().append(true).create(true).open(out)?;
            for seed in from.parse()?..to.parse()? {
                dump(generate(seed), &folder)?;
                let oracle = Oracle {
                    program,
                    folder: &folder,
                };
                match answer(seed, &oracle) {
                    Ok(line) => writeln!(out, "{line}")?,
                    Err(error) => println!("seed {seed}: {error}"),
                }
            }
            fs::remove_dir_all(folder)?;
            Ok(())
        }
        _ => Err("usage: dump SEED DIRECTORY | record FROM TO ORACLE OUT".into()),
    }
}

fn dump((cluster, types): (Value, Value), folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (name, content) in [("cluster.json", cluster), ("types.json", types)] {
        fs::write(folder.join(name), serde_json::to_vec_pretty(&content)?)?;
    }
    Ok(())
}
