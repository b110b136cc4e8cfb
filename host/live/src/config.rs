//! `longshore.toml`: what an operator sets once.
//!
//! This module owns the file's format and every message about it. An error names file, line and
//! column, says what was expected and gives a hint. Unknown keys are errors. All errors of a file
//! are reported at once. Paths in the file are relative to its folder. A flag wins over a key of
//! the same meaning (the command's options).

#[cfg(test)]
mod tests;

mod canary;
mod policies;
mod prefer;
pub mod reader;
mod registries;
pub mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_bundle::{RegistrySettings, TrustSettings};
use longshore_core::disrupt::costs::MoveCost;
use longshore_core::model::{MinValuesPolicy, PreferencePolicy};
use longshore_core::plan::Effort;
use longshore_policy::toml_value;
use serde_json::Value;

pub use canary::name_of as canary_name;
pub use longshore_bundle::Reference;
pub use longshore_policy::{Ability, Exclusions, OnFailure};
pub use policies::{Mode, PolicyEntry};
pub use reader::ConfigError;
use reader::{Document, Table, wrong_name};
pub use source::PolicySource;

/// A configuration as written; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `[planning]`.
    pub planning: Planning,
    /// `[disruption]`.
    pub disruption: Disruption,
    /// `[[policy]]`, in order.
    pub policies: Vec<PolicyEntry>,
    /// `[registries."HOST"]`, by host.
    pub registries: BTreeMap<String, RegistrySettings>,
    /// `[[trust]]`, in order.
    pub trust: Vec<TrustSettings>,
    /// `[signals.NAME]`.
    pub signals: BTreeMap<String, SignalEntry>,
    /// `max-age` of those signals that have one.
    pub max_ages: BTreeMap<String, Duration>,
    /// `[journal]`.
    pub journal: Option<JournalEntry>,
    /// `dir` of `[cache]`.
    pub cache: Option<PathBuf>,
}

/// `[journal]`: what happens is written down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalEntry {
    /// `dir`, a folder of its own.
    pub dir: Option<PathBuf>,
    /// `max-size` of all segments, bytes.
    pub max_size: Option<u64>,
    /// `segment-size`, bytes.
    pub segment_size: Option<u64>,
}

/// Handling of pods that kube-scheduler has not tried yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NewPods {
    /// They are planned for if no node has room for them, and if they could preempt no pod.
    #[default]
    Immediate,
    /// They are planned for once kube-scheduler has given up on them.
    AfterScheduler,
}

/// `[planning]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planning {
    /// `improve`.
    pub improve: Option<Effort>,
    /// `node-cost`, USD per hour and node, finite and not negative.
    pub node_cost: Option<f64>,
    /// `new-pods`.
    pub new_pods: Option<NewPods>,
    /// `preference-policy`.
    pub preferences: Option<PreferencePolicy>,
    /// `min-values-policy`.
    pub min_values: Option<MinValuesPolicy>,
    /// `seed`.
    pub seed: Option<u64>,
    /// `time-limit`, 100 ms to an hour.
    pub time_limit: Option<Duration>,
}

/// `[disruption]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disruption {
    /// `enabled`.
    pub enabled: Option<bool>,
    /// `move-cost`: a share of what a pod costs on average, or USD per hour.
    pub move_cost: Option<MoveCost>,
}

/// One `[signals.NAME]`: where its table comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalEntry {
    /// A file, read whenever it changes.
    File(PathBuf),
    /// HTTP or HTTPS.
    Url {
        /// The address.
        url: String,
        /// How often it is fetched.
        every: Duration,
        /// `headers-file`: what is sent along.
        headers: Option<PathBuf>,
    },
    /// `ec2 = "spot-placement-scores"`.
    PlacementScores(ScoresEntry),
}

/// What EC2 is asked about the chances of requests for spot instances.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoresEntry {
    /// `every`.
    pub every: Duration,
    /// `target`: instances that a request is imagined to ask for.
    pub target: i32,
    /// `types`: groups of names of instance types, with `*` for any text. None for the usual groups.
    pub types: Vec<Vec<String>>,
}

/// How old the data of a signal may be without `max-age`, unless three intervals are longer.
pub const MAX_AGE: Duration = Duration::from_secs(86_400);
/// Default interval of URLs without `every`.
pub const DEFAULT_URL_INTERVAL: Duration = Duration::from_secs(300);
/// Default interval of questions to EC2. Scores change slowly, and EC2 limits the questions of a day.
pub const DEFAULT_SCORES_INTERVAL: Duration = Duration::from_secs(3600);
/// Shortest interval of questions to EC2.
const MIN_SCORES_INTERVAL: Duration = Duration::from_secs(600);
/// Default `target`.
const DEFAULT_TARGET: u64 = 10;
/// The most instances that EC2 scores a request for.
const MAX_TARGET: u64 = 2_000_000_000;

/// Reads `text`, the content of `file`. Fails with every fault found, in the order of the file.
pub fn parse(file: &Path, text: &str) -> Result<Config, Vec<ConfigError>> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let document = Document::new(file, text);
    let mut config = Config::default();
    if let Some(mut root) = document.root() {
        config = tables(&mut root, folder);
        if let Some(mut table) = root.table("journal") {
            config.journal = Some(journal(&mut table, folder));
            table.finish();
        }
        if let Some(mut table) = root.table("cache") {
            config.cache = table.text("dir").map(|dir| folder.join(dir));
            table.finish();
        }
        root.finish();
    }
    document.end(config)
}

/// Reads the tables that decide rounds (`[planning]`, `[disruption]`, `[[policy]]` and where policies come from,
/// `[signals]`) from a file that may have others.
pub fn tables(root: &mut Table, folder: &Path) -> Config {
    let mut config = Config::default();
    if let Some(mut table) = root.table("planning") {
        config.planning = planning(&mut table);
        table.finish();
    }
    if let Some(mut table) = root.table("disruption") {
        config.disruption = disruption(&mut table);
        table.finish();
    }
    config.registries = registries::registries(root, folder);
    config.trust = registries::trust(root, folder);
    let signals_table = root.table("signals");
    let signals_of_file = signals_table.as_ref().map_or(Vec::new(), Table::keys);
    config.policies = policies::read(root, folder, &signals_of_file);
    if let Some(table) = signals_table {
        (config.signals, config.max_ages) = signals(table, folder);
    }
    config
}

/// Reads the settings of one policy from a TOML file of their own.
pub fn parse_settings(file: &Path, text: &str) -> Result<Value, Vec<ConfigError>> {
    let document = Document::new(file, text);
    let settings = document.root().map_or(Value::Null, |root| root.into_json());
    document.end(settings)
}

fn planning(table: &mut Table) -> Planning {
    Planning {
        improve: table.one_of("improve", &Effort::ALL),
        node_cost: table.amount("node-cost"),
        new_pods: table.one_of_renamed(
            "new-pods",
            &[
                ("Immediate", NewPods::Immediate),
                ("AfterScheduler", NewPods::AfterScheduler),
            ],
            &[
                ("Foresee", NewPods::Immediate),
                ("Await", NewPods::AfterScheduler),
            ],
        ),
        preferences: table.one_of(
            "preference-policy",
            &[
                ("Respect", PreferencePolicy::Respect),
                ("Ignore", PreferencePolicy::Ignore),
            ],
        ),
        min_values: table.one_of(
            "min-values-policy",
            &[
                ("Strict", MinValuesPolicy::Strict),
                ("BestEffort", MinValuesPolicy::BestEffort),
            ],
        ),
        seed: table.count("seed"),
        time_limit: table.duration(
            "time-limit",
            Duration::from_millis(100)..=Duration::from_secs(3600),
        ),
    }
}

fn disruption(table: &mut Table) -> Disruption {
    Disruption {
        enabled: table.truth("enabled"),
        move_cost: move_cost(table),
    }
}

fn move_cost(table: &mut Table) -> Option<MoveCost> {
    const KEY: &str = "move-cost";
    let text = table.text(KEY)?;
    let read = MoveCost::read(text);
    if read.is_none() {
        table.fault_at(
            KEY,
            format!("`{KEY}` is {text:?}: expected a share or an amount of USD per hour"),
            "write it as \"10%\" or \"0.002\"".into(),
        );
    }
    read
}

fn journal(table: &mut Table, folder: &Path) -> JournalEntry {
    const MIN_SEGMENT_BYTES: u64 = 64 << 10;
    let entry = JournalEntry {
        dir: table.text("dir").map(|dir| folder.join(dir)),
        max_size: table.size("max-size", 4 * MIN_SEGMENT_BYTES),
        segment_size: table.size("segment-size", MIN_SEGMENT_BYTES),
    };
    if let (Some(all), Some(segment)) = (entry.max_size, entry.segment_size)
        && segment > all / 4
    {
        let message =
            format!("`segment-size` is {segment} bytes: expected at most a quarter of `max-size`");
        table.fault_at(
            "segment-size",
            message,
            "each segment begins with all that is known, so four must fit".into(),
        );
    }
    entry
}

/// Signals and their `max-age`, by name.
type SignalTables = (BTreeMap<String, SignalEntry>, BTreeMap<String, Duration>);

fn signals(mut all: Table, folder: &Path) -> SignalTables {
    let (mut entries, mut ages) = (BTreeMap::new(), BTreeMap::new());
    let range = Duration::from_secs(1)..=365 * MAX_AGE;
    for name in all.keys() {
        if let Some(problem) = wrong_name(&name) {
            let hint = "write it as `[signals.spot-rates]`".into();
            all.fault_at(&name, format!("the name of a signal {problem}"), hint);
        }
        let Some(mut table) = all.table(&name) else {
            continue;
        };
        if let Some(age) = table.duration("max-age", range.clone()) {
            ages.insert(name.clone(), age);
        }
        if let Some(entry) = signal(&mut table, folder) {
            entries.insert(name, entry);
        }
        table.finish();
    }
    (entries, ages)
}

fn signal(table: &mut Table, folder: &Path) -> Option<SignalEntry> {
    let of_ec2 = table.has("ec2");
    let scores = table.one_of("ec2", &[("spot-placement-scores", ())]);
    let url = table.text("url");
    let every = table.duration(
        "every",
        Duration::from_secs(1)..=Duration::from_secs(86_400),
    );
    let (target, types) = (table.count("target"), table.texts("types"));
    let headers = table.text("headers-file");
    if headers.is_some() && url.is_none() {
        let hint = "delete the line; it is for `url`".into();
        table.fault_at("headers-file", "`headers-file` without `url`".into(), hint);
    }
    if of_ec2 {
        let entry = placement_scores(table, every, target, types);
        return scores.map(|()| entry);
    }
    for key in ["target", "types"] {
        if table.has(key) {
            let hint = "delete the line, or add `ec2 = \"spot-placement-scores\"`".into();
            table.fault_at(key, format!("`{key}` without `ec2`"), hint);
        }
    }
    if url.is_some() && table.has("file") {
        let message = "`url` stands beside `file`: expected one of them".into();
        table.fault_at("url", message, "delete one of the two".into());
    }
    let Some(url) = url else {
        if every.is_some() {
            let hint = "delete the line; `every` is for `url`".into();
            table.fault_at(
                "every",
                "`every` without `url`: a file is read whenever it changes".into(),
                hint,
            );
        }
        return table
            .required_text("file")
            .map(|file| SignalEntry::File(folder.join(file)));
    };
    let host = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    if host.is_none_or(|host| {
        host.is_empty() || host.starts_with('/') || host.contains(char::is_whitespace)
    }) {
        let message =
            format!("`url` is `{url}`: expected an address that begins with http:// or https://");
        table.fault_at("url", message, "for a file write `file = \"…\"`".into());
    }
    table.text("file");
    Some(SignalEntry::Url {
        url: url.into(),
        every: every.unwrap_or(DEFAULT_URL_INTERVAL),
        headers: headers.map(|file| folder.join(file)),
    })
}

fn placement_scores(
    table: &mut Table,
    every: Option<Duration>,
    target: Option<u64>,
    types: Option<Vec<String>>,
) -> SignalEntry {
    for key in ["file", "url"] {
        if table.has(key) {
            let message = format!("`{key}` stands beside `ec2`: expected one of them");
            table.fault_at(key, message, "delete one of the two".into());
        }
    }
    table.text("file");
    if every.is_some_and(|every| every < MIN_SCORES_INTERVAL) {
        let message = "`every` is less than 10m: expected a duration of 10m to 24h with `ec2`";
        let hint = "EC2 limits such questions; scores change slowly".into();
        table.fault_at("every", message.into(), hint);
    }
    let target = target.unwrap_or(DEFAULT_TARGET);
    if !(1..=MAX_TARGET).contains(&target) {
        let message = format!("`target` is {target}: expected an integer of 1 to {MAX_TARGET}");
        let hint = "it is the number of instances of an imagined request".into();
        table.fault_at("target", message, hint);
    }
    let types = types.unwrap_or_default();
    let group = |text: &String| -> Vec<String> {
        let names = text.split(',').map(str::trim);
        names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let types: Vec<Vec<String>> = types.iter().map(group).collect();
    if types.iter().any(Vec::is_empty) {
        let message = "`types` has an empty text: expected names of instance types".into();
        let hint = "write each group as one text: [\"m5.*, m6i.*\", \"c6i.*\"]".into();
        table.fault_at("types", message, hint);
    }
    SignalEntry::PlacementScores(ScoresEntry {
        every: every.unwrap_or(DEFAULT_SCORES_INTERVAL),
        target: i32::try_from(target).unwrap_or(i32::MAX),
        types,
    })
}

/// Settings as TOML, which is what the policy host reads. Null, which TOML has not, is left out.
pub fn toml_of(settings: &Value) -> String {
    let fields = settings
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null());
    fields
        .map(|(key, value)| format!("{} = {}\n", Value::from(key.as_str()), toml_value(value)))
        .collect()
}
