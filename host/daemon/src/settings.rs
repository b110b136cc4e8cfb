//! What Karpenter's flags and environment variables mean here. Flags win over the environment.
//! Unknown settings are reported.

pub mod aws;

use std::path::PathBuf;
use std::time::Duration;

use longshore_core::disrupt::methods::TerminateFirst;
use longshore_core::model::{MinValuesPolicy, PreferencePolicy};

use super::spread::SchedulerConfig;
use crate::args::karpenter::{Effect, FLAGS};
use longshore_live::environment::RepairMode;
use longshore_live::error::Failure;

/// What an operator set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Port of metrics, on all addresses.
    pub metrics: u16,
    /// Port of `/healthz` and `/readyz`, on all addresses.
    pub probes: u16,
    /// Where status and explanations are, `host:port`.
    pub status: String,
    pub elects: bool,
    pub lease: String,
    pub namespace: String,
    pub idle: Duration,
    pub longest: Duration,
    pub preferences: Option<PreferencePolicy>,
    pub min_values: Option<MinValuesPolicy>,
    pub reserved_capacity: bool,
    /// How nodes that stay unhealthy are repaired.
    pub repairs: RepairMode,
    /// Which nodes may be deleted before their replacement is there.
    pub terminate_first: TerminateFirst,
    /// Spot nodes may be replaced by spot nodes.
    pub spot_to_spot: bool,
    /// NodeOverlays change prices and resources of instance types.
    pub node_overlay: bool,
    /// Static NodePools are kept at their replicas.
    pub static_capacity: bool,
    /// Metrics and Events report the state of objects.
    pub observes: bool,
    /// How many instances, and how many NodeClaims, garbage collection may end in one pass.
    pub garbage_limit: Option<usize>,
    pub log_level: String,
    pub instance_types: Option<PathBuf>,
    /// Default topology spread constraints.
    pub scheduler: Option<SchedulerConfig>,
    /// What was set and has no effect.
    pub notes: Vec<Note>,
}

/// A setting that has no effect, or a name that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A sentence without its full stop.
    pub what: String,
    /// Karpenter's nodes would be others by it, or might be.
    pub about_nodes: bool,
}

impl Note {
    fn of_process(what: String) -> Self {
        Note {
            what,
            about_nodes: false,
        }
    }

    fn of_nodes(what: String) -> Self {
        Note {
            what,
            about_nodes: true,
        }
    }
}

/// Where status and explanations are is said by this variable, and of the flags by one that
/// Karpenter does not have.
pub const STATUS: &str = "STATUS_ADDRESS";
/// Or here, where neither says anything.
pub const STATUS_ADDRESS: &str = "127.0.0.1:8082";

/// Karpenter's feature gates that do something here.
const OURS: [&str; 7] = [
    "ReservedCapacity",
    "NodeRepair",
    "SpotToSpotConsolidation",
    "NodeOverlay",
    "StaticCapacity",
    "TerminateFirstDrift",
    "TerminateFirstRepair",
];
/// The others: known, and not there yet.
const GATES: [&str; 2] = ["CapacityBuffer", "PodDeletionCostManagement"];

/// Reads settings: `get` answers what was set for a variable, by its flag or in the environment.
/// `on_ec2`: nodes come from there, so that what is about EC2 has a meaning.
///
/// # Errors
/// The first variable that cannot be understood.
pub fn read(get: impl Fn(&str) -> Option<String>, on_ec2: bool) -> Result<Settings, Failure> {
    let typed = Typed(&get);
    let mut notes = without_effect(&get, on_ec2);
    let gates = Gates::read(&get("FEATURE_GATES").unwrap_or_default(), &mut notes)?;
    let repairs = repair_mode(&gates, typed.flag("LEGACY_NODE_REPAIR", false)?, &mut notes);
    Ok(Settings {
        metrics: typed.port("METRICS_PORT", 8080)?,
        probes: typed.port("HEALTH_PROBE_PORT", 8081)?,
        status: typed.status_address()?,
        elects: !typed.flag("DISABLE_LEADER_ELECTION", false)?,
        lease: get("LEADER_ELECTION_NAME").unwrap_or_else(|| "karpenter-leader-election".into()),
        namespace: get("LEADER_ELECTION_NAMESPACE")
            .or_else(|| get("SYSTEM_NAMESPACE"))
            .filter(|n| !n.is_empty())
            .unwrap_or_else(|| "kube-system".into()),
        idle: typed.span("BATCH_IDLE_DURATION", Duration::from_secs(1))?,
        longest: typed.span("BATCH_MAX_DURATION", Duration::from_secs(10))?,
        preferences: typed.one_of(
            "PREFERENCE_POLICY",
            &[
                ("Respect", PreferencePolicy::Respect),
                ("Ignore", PreferencePolicy::Ignore),
            ],
            "Respect or Ignore",
        )?,
        min_values: typed.one_of(
            "MIN_VALUES_POLICY",
            &[
                ("Strict", MinValuesPolicy::Strict),
                ("BestEffort", MinValuesPolicy::BestEffort),
            ],
            "Strict or BestEffort",
        )?,
        reserved_capacity: gates.reserved_capacity,
        repairs,
        terminate_first: gates.terminate_first,
        spot_to_spot: gates.spot_to_spot,
        node_overlay: gates.node_overlay,
        static_capacity: gates.static_capacity,
        observes: !typed.flag("DISABLE_CLUSTER_STATE_OBSERVABILITY", false)?,
        garbage_limit: typed.garbage_limit()?,
        log_level: typed.log_level()?,
        instance_types: get("INSTANCE_TYPES_FILE_PATH")
            .filter(|p| !p.is_empty())
            .map(PathBuf::from),
        scheduler: get("SCHEDULER_CONFIG").and_then(|typed| SchedulerConfig::typed(&typed)),
        notes,
    })
}

fn wrong(name: &str, value: &str, expected: &str) -> Failure {
    Failure::Usage {
        message: format!("{}: {value:?} is not understood", called(name)),
        hint: format!("expected {expected}"),
    }
}

/// What was set, by variable.
struct Typed<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Typed<'_> {
    /// What was set; nothing for an empty text.
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|text| !text.is_empty())
    }

    fn port(&self, name: &str, default: u16) -> Result<u16, Failure> {
        (self.0)(name).map_or(Ok(default), |text| {
            let port = text.parse();
            port.map_err(|_| wrong(name, &text, "a port such as 8080"))
        })
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Failure> {
        let known = [("true", true), ("false", false)];
        let typed = self.one_of(name, &known, "true or false")?;
        Ok(typed.unwrap_or(default))
    }

    fn span(&self, name: &str, default: Duration) -> Result<Duration, Failure> {
        (self.0)(name).map_or(Ok(default), |text| {
            go_duration(&text).ok_or_else(|| wrong(name, &text, "a duration such as 1s or 500ms"))
        })
    }

    /// The meaning of one of these words.
    fn one_of<T: Copy>(
        &self,
        name: &str,
        known: &[(&str, T)],
        expected: &str,
    ) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match known.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => Err(wrong(name, &text, expected)),
        }
    }

    fn status_address(&self) -> Result<String, Failure> {
        match self.text(STATUS) {
            None => Ok(STATUS_ADDRESS.to_owned()),
            Some(text) if is_address(&text) => Ok(text),
            Some(text) => Err(wrong(STATUS, &text, "HOST:PORT such as 127.0.0.1:8082")),
        }
    }

    fn garbage_limit(&self) -> Result<Option<usize>, Failure> {
        let name = "GARBAGE_LIMIT";
        let parse = |text: String| {
            let number = text.parse();
            number.map_err(|_| wrong(name, &text, "a number of instances"))
        };
        self.text(name).map(parse).transpose()
    }

    fn log_level(&self) -> Result<String, Failure> {
        let known = ["debug", "info", "error", "warn"].map(|level| (level, level));
        let typed = self.one_of("LOG_LEVEL", &known, "debug, info or error")?;
        Ok(typed.unwrap_or("info").to_owned())
    }
}

/// What was set and has no effect here.
fn without_effect(get: impl Fn(&str) -> Option<String>, on_ec2: bool) -> Vec<Note> {
    let mut notes = Vec::new();
    for flag in &FLAGS {
        let (why, other_nodes_with) = match flag.effect {
            Effect::Missing(why, value) => (why, Some(value)),
            Effect::Ignored(why) => (why, None),
            Effect::Ec2(_) if !on_ec2 => ("it is about EC2, and nodes come from elsewhere", None),
            Effect::Ec2(_) | Effect::Supported(_) => continue,
        };
        if let Some(value) = get(flag.variable) {
            notes.push(Note {
                what: format!("{} is set and has no effect: {why}", called(flag.variable)),
                about_nodes: other_nodes_with == Some(&*value),
            });
        }
    }
    notes
}

/// Feature gates that do something here.
struct Gates {
    reserved_capacity: bool,
    node_repair: bool,
    spot_to_spot: bool,
    node_overlay: bool,
    static_capacity: bool,
    terminate_first: TerminateFirst,
}

impl Gates {
    /// Reads `Name=true,Name=false`, and notes names without effect.
    fn read(text: &str, notes: &mut Vec<Note>) -> Result<Gates, Failure> {
        let mut gates = Gates {
            reserved_capacity: true,
            node_repair: false,
            spot_to_spot: false,
            node_overlay: false,
            static_capacity: false,
            terminate_first: TerminateFirst::default(),
        };
        for gate in text
            .split(',')
            .map(str::trim)
            .filter(|gate| !gate.is_empty())
        {
            let (name, open) = match gate.split_once('=') {
                Some((name, "true")) => (name, true),
                Some((name, "false")) => (name, false),
                _ => {
                    let expected = "Name=true or Name=false, separated by commas";
                    return Err(wrong("FEATURE_GATES", gate, expected));
                }
            };
            match gates.named(name) {
                Some(own) => *own = open,
                None => notes.extend(note_of_gate(name, open)),
            }
        }
        Ok(gates)
    }

    fn named(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "ReservedCapacity" => &mut self.reserved_capacity,
            "NodeRepair" => &mut self.node_repair,
            "SpotToSpotConsolidation" => &mut self.spot_to_spot,
            "NodeOverlay" => &mut self.node_overlay,
            "StaticCapacity" => &mut self.static_capacity,
            "TerminateFirstDrift" => &mut self.terminate_first.drift,
            "TerminateFirstRepair" => &mut self.terminate_first.repair,
            _ => return None,
        })
    }
}

/// What is to be said of a feature gate that does nothing here.
fn note_of_gate(name: &str, open: bool) -> Option<Note> {
    if GATES.contains(&name) {
        let what = format!("feature gate {name} is not implemented yet and has no effect");
        return open.then(|| Note::of_nodes(what));
    }
    // Karpenter is silent about it.
    let hint = nearest(name, GATES.into_iter().chain(OURS));
    let what = format!("feature gate {name} is not known{hint}");
    Some(Note::of_process(what))
}

/// How nodes are repaired, by the gates and by whether that is to be as it was before.
fn repair_mode(gates: &Gates, legacy: bool, notes: &mut Vec<Note>) -> RepairMode {
    let unused = |what: &str, why: &str| Note::of_process(format!("{what} has no effect {why}"));
    let repairs = match (gates.node_repair, legacy) {
        (false, _) => RepairMode::Off,
        (true, true) => RepairMode::AtOnce,
        (true, false) => RepairMode::WithinBudgets,
    };
    if legacy && repairs == RepairMode::Off {
        let legacy = called("LEGACY_NODE_REPAIR");
        notes.push(unused(&legacy, "without feature gate NodeRepair"));
    }
    if gates.terminate_first.repair && repairs != RepairMode::WithinBudgets {
        let why = match repairs {
            RepairMode::Off => "without feature gate NodeRepair",
            _ => "with --legacy-node-repair, which replaces nothing first",
        };
        notes.push(unused("feature gate TerminateFirstRepair", why));
    }
    repairs
}

/// Whether a text is `host:port`, with an address of IPv6 in brackets.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    port.parse::<u16>().is_ok() && !host.is_empty() && (bracketed || !host.contains(':'))
}

/// `METRICS_PORT (--metrics-port)`.
fn called(variable: &str) -> String {
    if variable == STATUS {
        return format!("{STATUS} (--status-address)");
    }
    let flag = FLAGS.iter().find(|flag| flag.variable == variable);
    flag.map_or_else(
        || variable.to_owned(),
        |flag| format!("{variable} (--{})", flag.name),
    )
}

/// `, did you mean X?`, if one is like it.
fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> String {
    let likeness = |word: &str| strsim::jaro_winkler(typed, word);
    let best = known
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|best| likeness(best) > 0.8);
    best.map(|best| format!(", did you mean {best}?"))
        .unwrap_or_default()
}

/// Variables of the environment that are one slip away from one that is understood.
pub fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<Note> {
    // One letter changed, added or left out, or two exchanged.
    let all = || FLAGS.iter().map(|flag| flag.variable).chain([STATUS]);
    let slip = |name: &String| {
        let like =
            |variable: &&str| variable.len() > 8 && strsim::osa_distance(variable, name) == 1;
        let meant = all().find(like)?;
        let known = all().any(|variable| variable == name.as_str());
        (!known).then(|| {
            let what = format!("environment variable {name} is not known, did you mean {meant}?");
            Note::of_nodes(what)
        })
    };
    names.filter_map(|name| slip(&name)).collect()
}

/// A duration as Go writes it: `1s`, `500ms`, `1m30s`.
fn go_duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(longshore_api::time::go_seconds(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Settings, Failure> {
        let get = |name: &str| {
            let found = pairs.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned())
        };
        read(get, false)
    }

    fn said(notes: Vec<Note>) -> Vec<String> {
        notes.into_iter().map(|note| note.what).collect()
    }

    #[test]
    fn nothing_set_means_karpenters_defaults() {
        let settings = with(&[]).unwrap();
        assert_eq!(
            (settings.metrics, settings.probes, &*settings.status),
            (8080, 8081, "127.0.0.1:8082")
        );
        assert!(
            settings.elects
                && settings.reserved_capacity
                && settings.observes
                && !settings.node_overlay
                && settings.notes.is_empty()
        );
        assert_eq!(
            (settings.idle.as_secs(), settings.longest.as_secs()),
            (1, 10)
        );
        assert_eq!(settings.lease, "karpenter-leader-election");
    }

    #[test]
    fn what_karpenter_understands_is_understood() {
        let settings = with(&[
            ("METRICS_PORT", "9000"),
            ("BATCH_IDLE_DURATION", "1m30s"),
            ("BATCH_MAX_DURATION", "500ms"),
            (
                "FEATURE_GATES",
                "ReservedCapacity=false, NodeRepair=true, NodeOverlay=true",
            ),
            ("PREFERENCE_POLICY", "Ignore"),
            ("KUBE_CLIENT_QPS", "7"),
            ("DISABLE_CLUSTER_STATE_OBSERVABILITY", "true"),
            ("GARBAGE_LIMIT", "40"),
        ]);
        let settings = settings.unwrap();
        assert_eq!(
            (
                settings.metrics,
                settings.idle.as_secs(),
                settings.longest.as_millis()
            ),
            (9000, 90, 500)
        );
        assert!(!settings.reserved_capacity && !settings.observes && settings.node_overlay);
        assert_eq!(settings.garbage_limit, Some(40));
        assert_eq!(settings.notes.len(), 1, "{:?}", settings.notes);
    }

    #[test]
    fn status_is_where_it_is_asked_for() {
        for address in ["0.0.0.0:9000", "[::1]:8082", "localhost:8082"] {
            assert_eq!(
                with(&[("STATUS_ADDRESS", address)]).unwrap().status,
                address
            );
        }
        assert_eq!(
            with(&[("STATUS_ADDRESS", "")]).unwrap().status,
            STATUS_ADDRESS
        );
    }

    #[test]
    fn nodes_are_repaired_within_budgets_at_once_or_not_at_all() {
        let repaired = |gates: &str, legacy: &str| {
            let settings =
                with(&[("FEATURE_GATES", gates), ("LEGACY_NODE_REPAIR", legacy)]).unwrap();
            let first = settings.terminate_first;
            let (drift, repair) = (first.drift, first.repair);
            let notes = said(settings.notes).join("; ");
            let said = format!("{:?} {drift} {repair} {notes}", settings.repairs);
            said.trim_end().to_owned()
        };
        let of = [
            repaired("", ""),
            repaired("NodeRepair=false", "false"),
            repaired("NodeRepair=true", "true"),
            repaired("NodeRepair=true", ""),
            repaired("NodeRepair=true", "false"),
            repaired("", "true"),
            repaired("TerminateFirstDrift=true,TerminateFirstRepair=true", ""),
            repaired("NodeRepair=true,TerminateFirstRepair=true", ""),
            repaired("NodeRepair=true,TerminateFirstRepair=true", "true"),
        ];
        expect_test::expect![[r"
            Off false false
            Off false false
            AtOnce false false
            WithinBudgets false false
            WithinBudgets false false
            Off false false LEGACY_NODE_REPAIR (--legacy-node-repair) has no effect without feature gate NodeRepair
            Off true true feature gate TerminateFirstRepair has no effect without feature gate NodeRepair
            WithinBudgets false true
            AtOnce false true feature gate TerminateFirstRepair has no effect with --legacy-node-repair, which replaces nothing first"]]
        .assert_eq(&of.join("\n"));
    }

    #[test]
    fn what_is_not_understood_is_an_error_with_a_hint() {
        for (name, value) in [
            ("METRICS_PORT", "many"),
            ("STATUS_ADDRESS", "8082"),
            ("STATUS_ADDRESS", "127.0.0.1:http"),
            ("STATUS_ADDRESS", ":8082"),
            ("STATUS_ADDRESS", "::1:8082"),
            ("DISABLE_LEADER_ELECTION", "yes"),
            ("BATCH_IDLE_DURATION", "1 fortnight"),
            ("PREFERENCE_POLICY", "maybe"),
            ("FEATURE_GATES", "NodeRepair"),
            ("FEATURE_GATES", "NodeRepair=on"),
            ("LEGACY_NODE_REPAIR", "perhaps"),
            ("LOG_LEVEL", "loud"),
            ("GARBAGE_LIMIT", "5%"),
        ] {
            let fault = with(&[(name, value)]).unwrap_err().report();
            assert!(
                fault.contains(name) && fault.contains("expected"),
                "{fault}"
            );
        }
    }

    #[test]
    fn what_is_not_known_is_said_with_what_was_probably_meant() {
        let settings = with(&[("FEATURE_GATES", "NodeRepiar=true,Warp=true")]).unwrap();
        assert_eq!(
            said(settings.notes),
            [
                "feature gate NodeRepiar is not known, did you mean NodeRepair?",
                "feature gate Warp is not known"
            ]
        );
        let unknown = unknown_variables(
            ["METRIC_PORT", "METRICS_PORT", "PATH", "BATCH_MAX_DURATOIN"]
                .map(str::to_owned)
                .into_iter(),
        );
        assert_eq!(
            said(unknown),
            [
                "environment variable METRIC_PORT is not known, did you mean METRICS_PORT?",
                "environment variable BATCH_MAX_DURATOIN is not known, did you mean \
                BATCH_MAX_DURATION?"
            ]
        );
    }
}
