//! The tutorials of policies, run word for word: every block of shell in its page's order, and every
//! text that the page says comes out. A language without an installed toolchain is reported as
//! ignored, by name. The five components answer bit for bit alike. Rust's is run for each change, the others
//! where `LONGSHORE_TUTORIALS` is set.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::guests::{EXAMPLES, folder, policy_tool, root};
use longshore_xtask::in_ci;

/// The folder of a tutorial and its page, what its toolchain is called in `EXAMPLES`, and how long it may
/// take from nothing to a scored dump.
const TUTORIALS: [(&str, &str, Duration); 5] = [
    ("rust", "rust", Duration::from_secs(300)),
    ("python", "python", Duration::from_secs(300)),
    ("javascript", "js", Duration::from_secs(300)),
    ("go", "go", Duration::from_secs(600)),
    ("c", "c", Duration::from_secs(600)),
];
/// The same for an expression, which needs no toolchain.
const EXPRESSION: Duration = Duration::from_secs(60);

/// A folder for `PATH`, with both programs.
static PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    let programs = folder().join("tutorials/bin");
    std::fs::create_dir_all(&programs).unwrap();
    for (name, program) in [
        ("longshore", PathBuf::from(env!("CARGO_BIN_EXE_longshore"))),
        ("longshore-policy", policy_tool().unwrap()),
    ] {
        let link = programs.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(program, link).unwrap();
    }
    programs
});

/// The fenced blocks of a page, with their language.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut parts = page.split("```");
    let mut blocks = Vec::new();
    parts.next();
    while let Some(block) = parts.next() {
        let (language, text) = block.split_once('\n').unwrap_or((block, ""));
        blocks.push((language.trim(), text));
        parts.next();
    }
    blocks
}

/// Runs shell in a folder, where `longshore` and `longshore-policy` are the programs of this tree; what
/// it prints.
fn shell(script: &str, folder: &Path) -> Result<String, Failed> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(folder);
    command.env("PATH", format!("{}:{path}", PROGRAMS.display()));
    for inherited in ["CARGO_TARGET_DIR", "CARGO_MANIFEST_DIR", "RUSTFLAGS"] {
        command.env_remove(inherited);
    }
    let output = command.output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{script}\n{said}").into()),
    }
}

/// Runs a page from top to bottom.
fn run(language: &str) -> Result<(), Failed> {
    let page = root().join(format!("host/docs/policy-in-{language}.md"));
    let page = std::fs::read_to_string(page)?;
    let begin = folder().join("tutorials").join(language);
    let _ = std::fs::remove_dir_all(&begin);
    std::fs::create_dir_all(&begin)?;
    // The dump that pages suppose.
    let dump = root().join("examples/clusters/web-shop.json");
    std::os::unix::fs::symlink(dump, begin.join("cluster.yaml"))?;
    let (mut said, mut place) = (String::new(), begin.clone());
    for (kind, text) in blocks(&page) {
        match kind {
            "sh" => {
                said = shell(text, &place)?;
                // A block that enters the folder leaves the next ones there.
                if text.contains("cd my-policy") {
                    place = begin.join("my-policy");
                }
            }
            "text" => {
                for line in text.lines() {
                    assert!(said.contains(line), "{line:?} is not in:\n{said}");
                }
            }
            // What the page says is in the sources.
            _ => {
                let sources = shell("cat policy.* src/* 2>/dev/null || true", &place)?;
                assert!(
                    sources.contains(text.trim_end()),
                    "not in the sources: {text}"
                );
            }
        }
    }
    Ok(())
}

/// Runs a page within its time. Tools that it installs are downloaded anew where pip, npm and Go have not
/// kept them: that is no part of what the page promises, and is in the time all the same.
fn timed(language: &str, limit: Duration) -> Result<(), Failed> {
    // Both programs are supposed, too.
    LazyLock::force(&PROGRAMS);
    let begun = Instant::now();
    run(language)?;
    let took = begun.elapsed();
    eprintln!(
        "{language}: {:.1} s from nothing to a scored dump",
        took.as_secs_f64()
    );
    if took > limit {
        return Err(format!("{language} took {took:?}, and the page promises {limit:?}").into());
    }
    Ok(())
}

/// A case with as many offerings as a page has lines, at prices with many digits.
fn long_case() -> String {
    let mut text = "[settings]\npercent = 7.3\n".to_owned();
    for row in 0..200 {
        let kind = ["spot", "on-demand", "reserved"][row % 3];
        let price = 0.0042 + row as f64 * 0.012_345_678_9;
        text += &format!(
            "\n[[offerings]]\ninstance-type = 'm7g.{row}'\nzone = 'us-east-1{}'\ncapacity-type = '{kind}'\n\
             price = {price}\n",
            ["a", "b"][row % 2]
        );
    }
    text
}

/// A policy's folder in a language as `new` makes it, with the tools that its tutorial has installed.
fn fresh(language: &str, begin: &Path) -> Result<PathBuf, Failed> {
    let tools = folder().join("tutorials").join(language).join("my-policy");
    if !tools.join("policy.wasm").is_file() {
        run(language)?;
    }
    let tools = tools.display();
    let script = format!(
        "longshore-policy new {language} {language} > /dev/null; cd {language}\n\
         for own in .venv target; do \
         [ ! -e {tools}/$own ] || ln -s {tools}/$own $own; done\n\
         [ ! -e {tools}/node_modules ] || cp -a {tools}/node_modules .\n"
    );
    shell(&script, begin)?;
    Ok(begin.join(language))
}

/// The plan that the policy of a folder leads to.
fn plan_of(place: &Path) -> Result<serde_json::Value, Failed> {
    let snapshot = root().join("examples/clusters/web-shop.json");
    let snapshot = snapshot.display();
    let plan = format!(
        "longshore plan --snapshot {snapshot} --scorer policy.wasm --output json 2> plan.log"
    );
    let plan: serde_json::Value = serde_json::from_str(&shell(&plan, place)?)?;
    let has_digest = plan["digest"].as_str().is_some_and(|text| !text.is_empty());
    assert!(has_digest, "{}: {plan}", place.display());
    Ok(plan)
}

/// The templates of the languages that are there answer alike, to the last bit, and lead to one plan.
fn all_alike(languages: &[&str]) -> Result<(), Failed> {
    let begin = folder().join("tutorials/alike");
    let _ = std::fs::remove_dir_all(&begin);
    std::fs::create_dir_all(&begin)?;
    let mut answers = Vec::new();
    for language in languages {
        let place = fresh(language, &begin)?;
        let build = "longshore-policy build > build.log; longshore policy test . > test.log";
        shell(build, &place)?;
        std::fs::write(place.join("cases/long.toml"), long_case())?;
        shell("longshore policy test . --record", &place)?;
        // As few digits as tell a number from all others: equal texts are equal bits.
        let costs = std::fs::read_to_string(place.join("cases/long.toml"))?;
        answers.push((language, plan_of(&place)?["digest"].clone(), costs));
    }
    for (language, digest, costs) in &answers {
        assert!(costs.contains("expected = ["), "{language}: {costs}");
        assert_eq!(costs, &answers[0].2, "{language}");
        assert_eq!(digest, &answers[0].1, "{language}");
    }
    Ok(())
}

/// The examples of commitments in the languages that are there lead to one plan, whose nodes on demand
/// cost nothing for as long as prepaid cores are left. Rust's is the policy of plugins/commitments.
fn prepaid_alike(languages: &[&str]) -> Result<(), Failed> {
    let begin = folder().join("tutorials/prepaid");
    let _ = std::fs::remove_dir_all(&begin);
    std::fs::create_dir_all(&begin)?;
    let mut digests = Vec::new();
    for language in languages.iter().filter(|of| **of != "rust") {
        let place = fresh(language, &begin)?;
        let file = match *language {
            "python" => "policy.py",
            "javascript" => "policy.js",
            "go" => "policy.go",
            _ => "policy.c",
        };
        let examples = root().join("examples/policies/commitments");
        std::fs::copy(examples.join(file), place.join(file))?;
        let scorer = "export longshore:policy/scorer@0.1.0;";
        let world = std::fs::read_to_string(place.join("wit/world.wit"))?;
        assert!(world.contains(scorer), "{world}");
        let both = format!("{scorer}\n    {}", scorer.replace("scorer", "commitments"));
        std::fs::write(place.join("wit/world.wit"), world.replace(scorer, &both))?;
        // The template's case is of another policy.
        shell(
            "rm cases/*.toml; longshore-policy build > build.log",
            &place,
        )?;
        let said = shell("longshore policy check policy.wasm", &place)?;
        assert!(said.contains("commitments, scorer"), "{language}: {said}");
        let plan = plan_of(&place)?;
        let claims = plan["claims"].as_array().into_iter().flatten();
        let free = claims.filter(|claim| claim["effective"] == 0.0).count();
        assert!(free > 0, "{language}: nothing is prepaid in {plan}");
        digests.push((language, plan["digest"].clone()));
    }
    for (language, digest) in &digests {
        assert_eq!(digest, &digests[0].1, "{language}");
    }
    Ok(())
}

/// As host/docs/policy-abi.md says: no generator, no SDK. It answers what the policy before says.
const BY_HAND: &str = r#"(module
  (import "longshore:policy/chain@0.1.0" "costs" (func $costs (param i32)))
  (memory (export "memory") 16)
  (global $next (mut i32) (i32.const 1024))
  (func (export "cabi_realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and
      (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
      (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (local.get $at))
  (data (i32.const 0) "by-hand0.1.0Says what was said.")
  (data (i32.const 256) "\00\00\00\00\07\00\00\00" "\07\00\00\00\05\00\00\00" "\0c\00\00\00\13\00\00\00")
  (func (export "longshore:policy/plugin@0.1.0#describe") (result i32) (i32.const 256))
  (func (export "longshore:policy/plugin@0.1.0#configure") (param i32 i32) (result i32) (i32.const 320))
  (func (export "longshore:policy/scorer@0.1.0#score") (result i32)
    (call $costs (i32.const 404))
    (i32.const 400)))"#;

fn by_hand() -> Result<(), Failed> {
    let place = folder().join("tutorials/by-hand");
    std::fs::create_dir_all(&place)?;
    std::fs::write(place.join("core.wasm"), wat::parse_str(BY_HAND)?)?;
    let wit = root().join("wit/policy@0.1.0");
    let wrap = format!(
        "longshore-policy wrap core.wasm policy.wasm --wit {} scorer-policy",
        wit.display()
    );
    shell(&wrap, &place)?;
    let said = shell(
        "longshore policy check policy.wasm; longshore policy run policy.wasm --top 1",
        &place,
    )?;
    for part in ["by-hand 0.1.0", "Says what was said.", "+0.000000"] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    Ok(())
}

fn main() {
    // They install toolchains, which takes minutes: by night, or where it is asked for.
    let all = std::env::var_os("LONGSHORE_TUTORIALS").is_some();
    let mut trials = Vec::new();
    let mut there = Vec::new();
    trials.push(Trial::test(
        "the_tutorial_of_expressions_runs_as_it_is_written",
        || timed("cel", EXPRESSION),
    ));
    for (language, example, limit) in TUTORIALS {
        let example = EXAMPLES
            .iter()
            .find(|of| of.language == example)
            .expect("an example");
        let missing = example.missing();
        match missing {
            Some(reason) => eprintln!("tutorial of {language} not run: {reason}"),
            None => there.push(language),
        }
        // Go is always there in CI.
        let lacks = missing.is_some() && !(language == "go" && in_ci());
        let ignored = lacks || !(all || language == "rust");
        let name = format!("the_tutorial_in_{language}_runs_as_it_is_written");
        trials.push(Trial::test(name, move || timed(language, limit)).with_ignored_flag(ignored));
    }
    // One after the other: the last looks at what the others have installed.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    trials.push(Trial::test(
        "a_module_made_by_hand_as_the_page_says_is_a_policy",
        by_hand,
    ));
    let languages = there.clone();
    let alike = Trial::test("templates_of_all_languages_answer_alike", move || {
        all_alike(&languages)
    });
    trials.push(alike.with_ignored_flag(!all));
    let prepaid = Trial::test("commitments_in_all_languages_lead_to_one_plan", move || {
        prepaid_alike(&there)
    });
    trials.push(prepaid.with_ignored_flag(!all));
    libtest_mimic::run(&arguments, trials).exit();
}
