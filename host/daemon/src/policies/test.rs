//! `longshore policy test`: what a policy answers to the cases of its folder, and whether it answers
//! alike whenever and in whatever order it is asked.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use longshore_policy::{Case, CaseError, Host, LoadedPolicy, MAX_COMPONENT_BYTES, golden};

use crate::answer::Answer;
use crate::args::TestArgs;
use longshore_live::error::Failure;
use longshore_report::count;

/// The most of the fuel of a call that a policy may use in its own tests, in thousandths.
const FUEL_PERMILLE: u32 = 500;

/// A case of the folder.
struct File {
    path: PathBuf,
    text: String,
    case: Case,
}

/// Asks every case; with `--record`, writes what is answered into the cases and the component.
pub fn run(args: &TestArgs) -> Result<Answer, Failure> {
    let component = (args.component.clone()).unwrap_or_else(|| args.folder.join("policy.wasm"));
    let bytes = read(&component)?;
    let host = super::host_that_says_so()?;
    let policy = identify(&host, &component, &bytes)?;
    let mut files = files(&args.folder)?;
    if args.record {
        for file in &mut files {
            record(file, &policy)?;
        }
        inside(&component, &bytes, &files)?;
    }
    let mut text = String::new();
    let mut failed = 0;
    for file in &files {
        let name = file.path.display();
        match holds(&file.case, &policy) {
            Ok(fuel) => {
                let rows = count(file.case.offerings.len(), "offering");
                let fuel = f64::from(fuel) / 10.0;
                _ = writeln!(text, "ok      {name}: {rows}, {fuel:.1} % of its fuel");
            }
            Err(problem) => {
                failed += 1;
                _ = writeln!(text, "failed  {name}: {problem}");
            }
        }
    }
    let verb = if args.record { "recorded" } else { "asked" };
    _ = writeln!(
        text,
        "{} {verb}, {failed} failed",
        count(files.len(), "case")
    );
    Ok(Answer {
        text,
        code: u8::from(failed > 0),
    })
}

/// A component that is not configured: each case has its own settings.
pub(super) fn identify(host: &Host, path: &Path, bytes: &[u8]) -> Result<LoadedPolicy, Failure> {
    let name = path.display().to_string();
    let policy = host.identify(path, bytes);
    let policy = policy.map_err(|error| Failure::Policy(name.clone(), error))?;
    if !policy.is_scorer() {
        return Err(Failure::Usage {
            message: format!("{name} exports no `scorer`: cases ask what offerings cost"),
            hint: "test it with cargo test, and longshore plan --disrupt on files".into(),
        });
    }
    Ok(policy)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    longshore_files::read(path, MAX_COMPONENT_BYTES).map_err(|source| Failure::Read {
        file: path.into(),
        source,
    })
}

fn files(folder: &Path) -> Result<Vec<File>, Failure> {
    let cases = folder.join("cases");
    let none = |reason: String| Failure::Input {
        file: cases.clone(),
        reason,
        hint: "write a case: `longshore policy new` makes a folder with one".into(),
    };
    let entries = std::fs::read_dir(&cases).map_err(|error| none(error.to_string()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|of| of == "toml"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        return Err(none("it has no cases, *.toml".into()));
    }
    let file = |path: PathBuf| {
        let text = String::from_utf8_lossy(&read(&path)?).into_owned();
        match Case::read(&text) {
            Ok(case) => Ok(File { path, text, case }),
            Err(reason) => Err(Failure::Input {
                file: path,
                reason,
                hint: "host/docs/policy-tool.md has the keys of a case".into(),
            }),
        }
    };
    paths.into_iter().map(file).collect()
}

/// Whether a case is met, asked twice, by a fresh instance and with its rows in another order; how much
/// of its fuel the call needs, in thousandths.
fn holds(case: &Case, policy: &LoadedPolicy) -> Result<u32, String> {
    let answer = case.ask(policy);
    case.meets(&answer)?;
    let Ok(costs) = answer else {
        return Ok(0);
    };
    let words = |error: CaseError| error.to_string();
    let called = |error| CaseError::from(error).to_string();
    let mut session = case.begin(policy).map_err(words)?;
    let order = case.order();
    let mut again = || -> Result<Vec<f64>, String> {
        let scores = session.ask().map_err(called)?;
        Ok(case.in_order(&order, &scores.cost))
    };
    let bits = |costs: &[f64]| -> Vec<u64> { costs.iter().map(|cost| cost.to_bits()).collect() };
    for what in ["a fresh instance", "the same instance, asked again,"] {
        let other = again()?;
        if bits(&other) != bits(&costs) {
            let row = (0..costs.len()).find(|&row| other[row].to_bits() != costs[row].to_bits());
            let row = row.unwrap_or_default();
            return Err(format!(
                "{what} answers otherwise: offering {row} cost {}, and now {}",
                costs[row], other[row]
            ));
        }
    }
    let turned: Vec<usize> = order.iter().rev().copied().collect();
    session.put(&case.request(&turned));
    let other = session.ask().map_err(called)?;
    let other = case.in_order(&turned, &other.cost);
    if let Some(row) = (0..costs.len()).find(|&row| !case.is_near(costs[row], other[row])) {
        return Err(format!(
            "the order of rows matters: offering {row} costs {}, and {} with the rows turned round",
            costs[row], other[row]
        ));
    }
    let fuel = session.usage().fuel_permille;
    if fuel > FUEL_PERMILLE {
        let percent = f64::from(fuel) / 10.0;
        return Err(format!(
            "it needs {percent:.0} % of the fuel of a call; expected half at most"
        ));
    }
    Ok(fuel)
}

/// Writes what is answered in place of what is expected.
fn record(file: &mut File, policy: &LoadedPolicy) -> Result<(), Failure> {
    // What must fail stays: an error is written by hand.
    if file.case.error.is_some() {
        return Ok(());
    }
    let costs = file.case.ask(policy).map_err(|error| Failure::Input {
        file: file.path.clone(),
        reason: format!("there is no answer to record: {error}"),
        hint: "write `error = \"…\"` if that is meant".into(),
    })?;
    file.text = recorded(&file.text, &file.case.expected_text(&costs));
    file.case.expected = Some(costs);
    write(&file.path, file.text.as_bytes())
}

/// The text of a case with `expected` in place of its own, or in front of the first table.
fn recorded(text: &str, expected: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let closes = |line: &&str| {
        line.split('#')
            .next()
            .is_some_and(|code| code.contains(']'))
    };
    let own = lines.iter().position(|line| line.starts_with("expected"));
    let table = lines.iter().position(|line| line.starts_with('['));
    let begin = own.or(table).unwrap_or(lines.len());
    let end = own.map_or(begin, |own| {
        let last = lines[own..].iter().position(closes);
        last.map_or(lines.len(), |last| own + last + 1)
    });
    let text =
        |lines: &[&str]| -> String { lines.iter().map(|line| format!("{line}\n")).collect() };
    text(&lines[..begin]) + expected + &text(&lines[end..])
}

/// Puts the cases into the component.
fn inside(component: &Path, bytes: &[u8], files: &[File]) -> Result<(), Failure> {
    let cases: Vec<(String, String)> = files
        .iter()
        .map(|file| {
            let name = file.path.file_stem().unwrap_or_default();
            (name.to_string_lossy().into_owned(), file.text.clone())
        })
        .collect();
    match golden::with_cases(bytes, &cases) {
        Some(with) => write(component, &with),
        None => Err(Failure::Input {
            file: component.into(),
            reason: "it is damaged: its sections do not end with the file".into(),
            hint: "build it again".into(),
        }),
    }
}

/// Writes beside and renames: a daemon may be reading.
fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let part = path.with_extension(format!("part-{}", std::process::id()));
    std::fs::write(&part, content)
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| Failure::Input {
            file: path.into(),
            reason: format!("cannot be written: {error}"),
            hint: String::new(),
        })
}

#[cfg(test)]
mod tests {
    use super::recorded;

    const EXPECTED: &str = "expected = [\n    2, # a\n]\n";

    #[test]
    fn what_is_expected_is_replaced_and_all_else_stays() {
        let rest = "[settings]\nzones = ['a']\n\n[[offerings]]\nprice = 1\n";
        for own in [
            "",
            "expected = [1.0]\n",
            "expected = [ # ] is no end\n    1.0, # b]\n]\n",
        ] {
            let text = format!("# A case\nnow = 7\n{own}{rest}");
            let new = format!("# A case\nnow = 7\n{EXPECTED}{rest}");
            assert_eq!(recorded(&text, EXPECTED), new, "{own}");
        }
    }
}
