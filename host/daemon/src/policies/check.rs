//! `longshore policy check`: what a component is, requires and exports, or why it would be refused.
//! Of one in a registry or a layout also what was verified on the way.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use longshore_bundle::{Policy as Bundle, Sources};
use longshore_expression::columns::Program;
use longshore_policy::golden::Golden;
use longshore_policy::{
    Ability, Description, Host, Interface, LoadedPolicy, Terms, printable, settings_skeleton,
    toml_value,
};
use serde_json::Value;

use crate::answer::Answer;
use crate::args::CheckArgs;
use crate::options;
use crate::policies::component::Component;
use crate::policies::signals;
use longshore_live::config::{self, Config, Mode, PolicyEntry, PolicySource, SignalEntry};
use longshore_live::error::Failure;
use longshore_live::policies::grants::{grants_hint, unused};
use longshore_live::policies::typed;
use longshore_report::count;
use longshore_report::messages::size;

/// Inspects the component; with settings, configures it too. Exit code 2 if it would be refused.
pub fn run(args: &CheckArgs) -> Result<Answer, Failure> {
    let config = args.config.as_deref().map(read).transpose()?;
    let is_given = args.settings.is_some() || args.cel.is_some();
    if config.is_some() && args.file.is_none() && is_given {
        return Err(Failure::Usage {
            message: "--config checks the policies of a file: --settings and --cel say another one"
                .into(),
            hint: "leave one of them out".into(),
        });
    }
    let config = match (config, &args.file) {
        (Some(config), None) => return configured(&args.config, config),
        (config, _) => config.unwrap_or_default(),
    };
    let sources = options::sources_of(config.registries, config.trust);
    let settings = args.settings.clone().flatten();
    let entry = super::inspected(&args.file, &settings, &args.cel)?;
    let name = entry.source.to_string();
    let mut text = String::new();
    let host = super::host_that_says_so()?;
    let component = Component::of(&sources, &entry)?;
    if let Some(bundle) = component.bundle() {
        text += &verified(&name, bundle);
    }
    let description = host.inspect_bytes(component.path(), component.bytes());
    super::print_remarks(&host);
    let wants_skeleton = args.settings == Some(None);
    if let (true, None, Some(about)) = (wants_skeleton, &description.refusal, &description.about) {
        return settings_skeleton(&about.settings_schema)
            .map(Answer::ok)
            .map_err(|error| Failure::Usage {
                message: format!("{name}: its settings schema is not JSON: {error}"),
                hint: "the policy has to be built again, with a schema that is".into(),
            });
    }
    text += &shown(&description);
    if description.refusal.is_none() {
        text += &golden(&host, &name, &component)?;
    }
    let has_settings = settings.is_some() || args.cel.is_some();
    if description.refusal.is_none() && has_settings {
        let terms = super::all_that_it_exports(&entry);
        let policy = component.load(&host, &entry, &terms)?;
        _ = writeln!(text, "accepted     {}", policy.settings());
        text += &reads(&entry, &policy);
    }
    let Some(refusal) = &description.refusal else {
        return Ok(Answer::ok(text));
    };
    eprint!("{text}");
    let because =
        std::error::Error::source(refusal).map_or(String::new(), |cause| format!(": {cause}"));
    Err(Failure::Usage {
        message: format!("{name} would be refused: {refusal}{because}"),
        hint: String::new(),
    })
}

/// Whether it answers as it says of itself.
fn golden(host: &Host, name: &str, component: &Component) -> Result<String, Failure> {
    let policy = host.identify(component.path(), component.bytes());
    let policy = policy.map_err(|error| Failure::Policy(name.to_owned(), error))?;
    if !policy.is_scorer() {
        return Ok(String::new());
    }
    let refused = format!("{name} would be refused");
    let said = match component.golden_vectors(&policy, &refused)? {
        Golden::Met(count) => format!("{count} met"),
        Golden::Missing => "none: `longshore policy test --record` writes them".to_owned(),
        Golden::NotAsked => return Ok(String::new()),
    };
    Ok(format!("{:<12} {said}\n", "vectors"))
}

/// What was verified before the component was looked at.
fn verified(name: &str, bundle: &Bundle) -> String {
    let mut text = String::new();
    row(&mut text, "bundle", name);
    row(&mut text, "found", &format!("in {}", bundle.place));
    let manifest = &bundle.manifest_digest;
    row(&mut text, "manifest", &format!("{manifest}, as asked for"));
    let signature = match &bundle.signed_by {
        Some(key) => format!("of this manifest, made with {key}"),
        None => "not demanded: no [[trust]] of a --config FILE covers it".into(),
    };
    row(&mut text, "signature", &signature);
    for (key, value) in &bundle.annotations {
        let said = format!("{} = {}", printable(key), printable(value));
        row(&mut text, "annotation", &said);
    }
    text
}

fn row(text: &mut String, name: &str, value: &str) {
    _ = writeln!(text, "{name:<12} {value}");
}

fn read(file: &Path) -> Result<Config, Failure> {
    let text = typed::read(file)?;
    config::parse(file, &text).map_err(Failure::Config)
}

/// Loads every policy of a configuration as a plan on files and the daemon would, and those in shadow, and
/// reads its signals. Exit code 2 if something would be refused; all that would be is shown.
fn configured(file: &Option<PathBuf>, config: Config) -> Result<Answer, Failure> {
    let sources = options::sources_of(config.registries, config.trust);
    let host = super::host_that_says_so()?;
    let (mut shown, mut refused) = (String::new(), Vec::new());
    for entry in config.policies {
        if entry.mode == Mode::Off {
            _ = writeln!(shown, "{:<12} off", entry.name);
            continue;
        }
        let loaded = entry_shown(&host, &sources, &entry, &config.signals);
        super::print_remarks(&host);
        match loaded {
            Ok(text) => shown += &text,
            Err(failure) => {
                _ = writeln!(shown, "{:<12} {}", entry.name, entry.source);
                let file = file.as_deref().unwrap_or(Path::new(""));
                let place = format!("{}:{}", file.display(), entry.line);
                _ = writeln!(shown, "refused      {place}: {}", failure.report());
                refused.push(format!("policy {}", entry.name));
            }
        }
    }
    if shown.is_empty() {
        shown = "it has no [[policy]]\n".into();
    }
    for (name, signal) in &config.signals {
        let SignalEntry::File(path) = signal else {
            _ = writeln!(shown, "{:<12} signal, which only the daemon asks for", name);
            continue;
        };
        match signals::read(path) {
            Ok(table) => {
                let rows = count(table.rows(), "row");
                _ = writeln!(shown, "{name:<12} signal of {rows}, {}", path.display());
            }
            Err(failure) => {
                _ = writeln!(shown, "{name:<12} signal");
                _ = writeln!(shown, "refused      {}", failure.report());
                refused.push(format!("signal {name}"));
            }
        }
    }
    if refused.is_empty() {
        return Ok(Answer::ok(shown));
    }
    eprint!("{shown}");
    Err(Failure::Usage {
        message: format!("refused: {}", refused.join(", ")),
        hint: String::new(),
    })
}

/// What is to be said of an entry whose policy can be loaded.
fn entry_shown(
    host: &Host,
    sources: &Sources,
    entry: &PolicyEntry,
    there: &BTreeMap<String, SignalEntry>,
) -> Result<String, Failure> {
    let mut entry = entry.clone();
    if let Some(file) = &entry.settings_file {
        entry.settings = typed::settings_of(file)?;
    }
    let component = Component::of(sources, &entry)?;
    let mut text = String::new();
    if let Some(bundle) = component.bundle() {
        text += &verified(&entry.source.to_string(), bundle);
    }
    let policy = component.load(host, &entry, &entry.terms())?;
    super::asked_something(&entry, &policy)?;
    let vectors = component.golden_vectors(&policy, &super::refused(&entry))?;
    let mut row = |name: &str, value: &str| row(&mut text, name, value);
    row(
        &entry.name,
        &format!("{}, {}", policy.called(), entry.source),
    );
    row("accepted", policy.settings());
    if let Golden::Met(count) = vectors {
        row("vectors", &format!("{count} met"));
    }
    let withheld = policy.not_granted();
    if !withheld.is_empty() {
        let names: Vec<&str> = withheld.iter().map(|ability| ability.name()).collect();
        row(
            "not asked",
            &format!("{}; {}", names.join(", "), grants_hint(&withheld)),
        );
    }
    for said in unused(&policy, &entry) {
        row("unused", &said);
    }
    let declared = policy.about().signal_names();
    let missing = declared.iter().filter(|name| !there.contains_key(*name));
    let missing: Vec<String> = missing.map(|name| format!("`[signals.{name}]`")).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        row("missing", &format!("{missing}, which it would read"));
    }
    Ok(text + &reads(&entry, &policy))
}

/// What a policy reads: an expression what it names, a component the signals that it declares.
fn reads(entry: &PolicyEntry, policy: &LoadedPolicy) -> String {
    let expression = entry.settings["expression"].as_str().unwrap_or_default();
    let names = match (&entry.source, Program::compile(expression)) {
        (PolicySource::Expression, Ok(program)) => {
            program.sources().map(ToString::to_string).collect()
        }
        _ => {
            let withheld = policy.withheld_signals();
            let is_withheld = |name: &String| withheld.contains(&name.as_str());
            let signal = |name: String| match is_withheld(&name) {
                true => format!("signal {name} (withheld: `signals` of its entry has it not)"),
                false => format!("signal {name}"),
            };
            let declared = policy.about().signal_names().into_iter();
            declared.map(signal).collect::<Vec<_>>()
        }
    };
    match names.is_empty() {
        true => String::new(),
        false => format!("{:<12} {}\n", "reads", names.join(", ")),
    }
}

fn shown(of: &Description) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| row(&mut text, name, value);
    row(
        "file",
        &format!("{} ({})", of.path.display(), size(of.size as i64)),
    );
    row("digest", &format!("sha256:{}", of.digest));
    if let Some(about) = &of.about {
        row("policy", &format!("{} {}", about.name, about.version));
        row("", &about.summary);
        row("implements", &about.implements.join(", "));
        if let Some(wanted) = beyond_usual(&about.implements) {
            row("not asked", &wanted);
        }
        let signals = match about.signal_names().as_slice() {
            [] => "none".into(),
            names => names.join(", "),
        };
        row("signals", &signals);
        let settings = settings(&about.settings_schema);
        for (at, setting) in settings.iter().enumerate() {
            row(if at == 0 { "settings" } else { "" }, setting);
        }
        if settings.is_empty() {
            row("settings", "none");
        }
    }
    for (title, interfaces) in [("sees", &of.imports), ("exports", &of.exports)] {
        for (at, interface) in interfaces.iter().enumerate() {
            row(if at == 0 { title } else { "" }, &functions(interface));
        }
    }
    text
}

/// What it is not asked unless the operator's file grants it.
fn beyond_usual(implements: &[String]) -> Option<String> {
    let usual = Terms::default().grants;
    let named = Ability::ALL.iter().filter(|(name, ability)| {
        implements.iter().any(|exported| exported == name) && !usual.contains(ability)
    });
    let wanted: Vec<Ability> = named.map(|(_, ability)| *ability).collect();
    let names: Vec<&str> = wanted.iter().map(|ability| ability.name()).collect();
    let hint = grants_hint(&wanted);
    (!wanted.is_empty()).then(|| format!("{}; {hint}", names.join(", ")))
}

/// One line for each setting of a JSON Schema: name, type, description.
fn settings(schema: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let shown = |(name, of): (&String, &Value)| {
        let text = |key: &str| printable(of[key].as_str().unwrap_or_default());
        let default = match &of["default"] {
            Value::Null => String::new(),
            default => format!(" (default {})", printable(&toml_value(default))),
        };
        format!(
            "{} ({}): {}{default}",
            printable(name),
            text("type"),
            text("description")
        )
    };
    schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(shown)
        .collect()
}

fn functions(interface: &Interface) -> String {
    match interface.functions.is_empty() {
        true => interface.name.clone(),
        false => format!("{}: {}", interface.name, interface.functions.join(", ")),
    }
}
