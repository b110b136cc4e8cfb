//! `longshore policy prove`: looks for a question that a policy answers badly.

use std::fmt::Write as _;
use std::time::Duration;

use longshore_policy::{Case, Host, LoadedPolicy};
use longshore_prove::wasm::{WasmJudge, WasmScorer};
use longshore_prove::{Proof, ProveOptions, prove_judge, prove_scorer};
use serde_json::Value;

use crate::answer::Answer;
use crate::args::ProveArgs;
use crate::policies::{self, test};
use longshore_live::error::Failure;
use longshore_live::policies::typed;
use longshore_report::count;

/// An annotation of `describe`: an offering that becomes dearer does not cost less.
const MONOTONE: (&str, &str) = ("monotone", "price");

/// Asks until a property breaks: exit code 1 then.
pub fn run(args: &ProveArgs) -> Result<Answer, Failure> {
    let name = args.file.display().to_string();
    let bytes = test::read(&args.file)?;
    let host = policies::host_that_says_so()?;
    let identified = host.identify(&args.file, &bytes);
    let identified = identified.map_err(|error| Failure::Policy(name, error))?;
    let case = Case {
        settings: settings(args)?,
        ..Case::default()
    };
    let policy = case
        .configured(&identified)
        .map_err(|error| Failure::Usage {
            message: format!("{}: {error}", args.file.display()),
            hint: "give the settings that it needs: --settings SETTINGS.toml".into(),
        })?;
    let about = policy.about();
    let annotations = about.annotations.iter();
    let mut says = annotations.map(|(key, value)| (key.as_str(), value.as_str()));
    let options = ProveOptions {
        seed: args.seed,
        cases: args.cases,
        time: Duration::from_secs(args.seconds),
        settings: case.settings,
        signals: about.signals.iter().map(|of| of.name.clone()).collect(),
        max_discount: args.max_discount / 100.0,
        monotone: args.monotone || says.any(|pair| pair == MONOTONE),
    };
    ask(&host, policy, &options)
}

fn settings(args: &ProveArgs) -> Result<serde_json::Map<String, Value>, Failure> {
    let settings = args
        .settings
        .as_deref()
        .map(typed::settings_of)
        .transpose()?;
    match settings {
        Some(Value::Object(settings)) => Ok(settings),
        _ => Ok(serde_json::Map::new()),
    }
}

fn ask(host: &Host, policy: LoadedPolicy, options: &ProveOptions) -> Result<Answer, Failure> {
    let called = policy.called();
    if options.monotone && !policy.is_scorer() {
        return Err(Failure::Usage {
            message: format!(
                "{called} says of no offering what it costs: `monotone` asks that of it"
            ),
            hint: "leave --monotone out; an annotation `monotone` belongs to a scorer".into(),
        });
    }
    let mut text = String::new();
    let mut holds = true;
    if policy.is_scorer() {
        let proof = prove_scorer(|| WasmScorer::new(policy.clone()), options);
        holds &= proof.counterexample.is_none();
        text += &shown(&called, &proof, options, "offering", |of| of.words());
    }
    if policy.is_consolidation() {
        let proof = prove_judge(|| WasmJudge::new(host.clone(), policy.clone()), options);
        holds &= proof.counterexample.is_none();
        text += &shown(&called, &proof, options, "node", |of| of.words());
    }
    if text.is_empty() {
        return Err(Failure::Usage {
            message: format!("{called} says neither what offerings cost nor which nodes go"),
            hint: "a bootstrap policy is checked against the built-in: longshore render userdata --diff"
                .into(),
        });
    }
    Ok(Answer {
        text,
        code: u8::from(!holds),
    })
}

fn shown<P: Copy>(
    called: &str,
    proof: &Proof<P>,
    options: &ProveOptions,
    thing: &str,
    words: impl Fn(P) -> &'static str,
) -> String {
    let mut text = String::new();
    let (cases, seconds) = (proof.cases, proof.took.as_secs_f64());
    _ = writeln!(
        text,
        "{called}: {cases} questions of seed {} in {seconds:.1} s",
        options.seed
    );
    let Some(found) = &proof.counterexample else {
        text += "every answer keeps every property\n";
        return text;
    };
    _ = writeln!(text, "broken: {}", words(found.property));
    _ = writeln!(text, "  {}", found.why);
    _ = writeln!(
        text,
        "question {}, made as small as it gets: {}\n",
        found.number,
        count(found.size, thing)
    );
    text + &found.text
}
