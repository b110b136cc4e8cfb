//! Default topology spread constraints, in the formats of kube-scheduler and of Karpenter 1.15.
//!
//! There are two forms: Karpenter's `podTopologySpread.defaultConstraints`, and a whole
//! KubeSchedulerConfiguration, of which only the arguments of the plugin PodTopologySpread are
//! read. Unknown keys around constraints are errors; other parts of a KubeSchedulerConfiguration
//! are ignored.

use longshore_core::model::{LabelSelector, NodeInclusion, Spread, Symbols};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::diagnostic::{Diagnostic, Fault, Location, Path, quoted};
use super::explain::explain;
use super::yaml;
use crate::json;

const KIND: &str = "KubeSchedulerConfiguration";
const PLUGIN: &str = "PodTopologySpread";
/// The scheduler of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Karpenter {
    pod_topology_spread: Arguments,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    api_version: String,
    kind: String,
    default_constraints: Vec<Constraint>,
    defaulting_type: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    max_skew: i64,
    topology_key: String,
    when_unsatisfiable: String,
    min_domains: Option<i64>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
    label_selector: Option<Value>,
    match_label_keys: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct KindField {
    kind: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Scheduler {
    profiles: Vec<Profile>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Profile {
    scheduler_name: Option<String>,
    plugin_config: Vec<PluginConfig>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PluginConfig {
    name: String,
    /// Of another shape for each plugin.
    args: Option<IgnoredAny>,
}

/// The default constraints in a YAML or JSON text; `source` is what messages call it. Selectors are
/// empty: they are deduced for each pod. An empty text has no constraints.
///
/// # Errors
/// The first fault, with its line.
pub fn default_spread(
    source: &str,
    text: &str,
    names: &mut Symbols,
) -> Result<Vec<Spread>, Box<Diagnostic>> {
    let problem = |line: u32, field: String, what: String, hint: String| {
        let place = Location {
            source: source.to_owned(),
            line: Some(line + 1),
            ..Location::default()
        };
        Box::new(Diagnostic {
            location: place,
            field,
            what,
            hint,
            ..Diagnostic::default()
        })
    };
    let text = yaml::to_json(text)
        .map_err(|f| problem(f.line, String::new(), f.what, f.hint.to_owned()))?;
    if matches!(text.trim(), "" | "null") {
        return Ok(Vec::new());
    }
    constraints(&text, names).map_err(|Fault { field, what, hint }| {
        let line = json::lines_before(text.as_bytes(), json::locate(text.as_bytes(), &field));
        problem(line, field, what, hint)
    })
}

fn constraints(text: &str, names: &mut Symbols) -> Result<Vec<Spread>, Fault> {
    let root = Path::Root;
    if !text.trim_start().starts_with('{') {
        return Err(root.fault(
            "is not a map",
            "expected `podTopologySpread: {defaultConstraints: […]}`",
        ));
    }
    if serde_json::from_str::<KindField>(text)
        .ok()
        .and_then(|k| k.kind)
        .is_none_or(|kind| kind != KIND)
    {
        let karpenter: Karpenter = read(text)?;
        return all(
            &karpenter.pod_topology_spread,
            root.field("podTopologySpread"),
            names,
        );
    }
    let scheduler: Scheduler = read(text)?;
    let default = |profile: &Profile| {
        profile
            .scheduler_name
            .as_deref()
            .unwrap_or(DEFAULT_SCHEDULER)
            == DEFAULT_SCHEDULER
    };
    let Some((at, profile)) = scheduler
        .profiles
        .iter()
        .enumerate()
        .find(|(_, profile)| default(profile))
    else {
        let hint = format!(
            "add one with schedulerName {DEFAULT_SCHEDULER}: pods that name no scheduler are planned by it"
        );
        return Err(root
            .field("profiles")
            .fault(format!("has no profile of {DEFAULT_SCHEDULER}"), hint));
    };
    let profiles = root.field("profiles");
    let profile_at = profiles.index(at);
    let config_at = profile_at.field("pluginConfig");
    let plugin = profile
        .plugin_config
        .iter()
        .enumerate()
        .find(|(_, config)| config.name == PLUGIN);
    let Some((at, _)) = plugin.filter(|(_, config)| config.args.is_some()) else {
        return Ok(Vec::new());
    };
    let plugin_at = config_at.index(at);
    let here = plugin_at.field("args");
    let start = json::locate(text.as_bytes(), &here.to_string());
    let end = json::skip_value(text.as_bytes(), start).unwrap_or(text.len());
    let arguments: Arguments =
        read(text.get(start..end).unwrap_or_default()).map_err(|fault| Fault {
            field: format!("{here}.{}", fault.field)
                .trim_end_matches('.')
                .to_owned(),
            ..fault
        })?;
    all(&arguments, here, names)
}

fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|_| {
        let (field, what, hint) = explain::<T>(text);
        let hint = if what.starts_with("unknown field") {
            "remove it, or correct its spelling".to_owned()
        } else {
            hint.to_owned()
        };
        Fault { field, what, hint }
    })
}

fn all(arguments: &Arguments, at: Path<'_>, names: &mut Symbols) -> Result<Vec<Spread>, Fault> {
    let list = at.field("defaultConstraints");
    match arguments.defaulting_type.as_deref() {
        None | Some("" | "List") => {}
        Some("System") if arguments.default_constraints.is_empty() => return Ok(Vec::new()),
        Some("System") => {
            return Err(list.fault(
                "goes with defaultingType List alone",
                "set defaultingType to List",
            ));
        }
        Some(other) => {
            let what = format!("{} is not a type", quoted(other));
            return Err(at
                .field("defaultingType")
                .fault(what, "expected List or System"));
        }
    }
    let mut made: Vec<Spread> = Vec::new();
    for (index, constraint) in arguments.default_constraints.iter().enumerate() {
        let here = list.index(index);
        let spread = one(constraint, here, names)?;
        if made
            .iter()
            .any(|m| (m.key, m.required) == (spread.key, spread.required))
        {
            let what = format!(
                "{} with {} is there twice",
                constraint.topology_key, constraint.when_unsatisfiable
            );
            return Err(here.fault(what, "keep one of the two"));
        }
        made.push(spread);
    }
    Ok(made)
}

/// Whether a constraint with this `whenUnsatisfiable` keeps pods away from nodes.
pub(super) fn is_required(when_unsatisfiable: &str, at: Path<'_>) -> Result<bool, Fault> {
    match when_unsatisfiable {
        "DoNotSchedule" => Ok(true),
        "ScheduleAnyway" => Ok(false),
        other => {
            let what = format!("{} is not a policy", quoted(other));
            let hint = "expected DoNotSchedule or ScheduleAnyway";
            Err(at.field("whenUnsatisfiable").fault(what, hint))
        }
    }
}

fn one(c: &Constraint, at: Path<'_>, names: &mut Symbols) -> Result<Spread, Fault> {
    if c.label_selector.is_some() || c.match_label_keys.is_some() {
        let field = if c.label_selector.is_some() {
            "labelSelector"
        } else {
            "matchLabelKeys"
        };
        let hint = "remove it: the selector of a default constraint is deduced from the pod's Services and owner";
        return Err(at.field(field).fault("may not be set", hint));
    }
    let required = is_required(&c.when_unsatisfiable, at)?;
    let positive = |number: i64, field| match i32::try_from(number) {
        Ok(number) if number >= 1 => Ok(number),
        _ => Err(at
            .field(field)
            .fault(format!("{number} is out of range"), "it starts at 1")),
    };
    let inclusion = |text: &Option<String>, default, field| match text.as_deref() {
        None | Some("") => Ok(default),
        Some("Honor") => Ok(NodeInclusion::Honor),
        Some("Ignore") => Ok(NodeInclusion::Ignore),
        Some(other) => Err(at.field(field).fault(
            format!("{} is not a policy", quoted(other)),
            "expected Honor or Ignore",
        )),
    };
    if !is_label_key(&c.topology_key) {
        let what = format!("{} is not a label", quoted(&c.topology_key));
        return Err(at
            .field("topologyKey")
            .fault(what, "name a label such as topology.kubernetes.io/zone"));
    }
    if c.min_domains.is_some() && !required {
        let hint = "set whenUnsatisfiable to DoNotSchedule or remove it";
        return Err(at
            .field("minDomains")
            .fault("only goes with DoNotSchedule", hint));
    }
    Ok(Spread {
        max_skew: positive(c.max_skew, "maxSkew")?,
        key: names.intern(&c.topology_key),
        required,
        selector: LabelSelector::default(),
        min_domains: c
            .min_domains
            .map(|n| positive(n, "minDomains"))
            .transpose()?,
        node_affinity: inclusion(
            &c.node_affinity_policy,
            NodeInclusion::Honor,
            "nodeAffinityPolicy",
        )?,
        node_taints: inclusion(
            &c.node_taints_policy,
            NodeInclusion::Ignore,
            "nodeTaintsPolicy",
        )?,
    })
}

/// `[prefix/]name`: the prefix a DNS name of at most 253 bytes, the name of at most 63.
fn is_label_key(text: &str) -> bool {
    let ends = |part: &str| {
        let outer = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        outer(part.as_bytes().first()) && outer(part.as_bytes().last())
    };
    let (prefix, name) = text
        .split_once('/')
        .map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let of_prefix = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
    let of_name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    prefix.is_none_or(|prefix| prefix.len() <= 253 && ends(prefix) && prefix.bytes().all(of_prefix))
        && name.len() <= 63
        && ends(name)
        && name.bytes().all(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KARPENTER: &str = "
podTopologySpread:
  defaultConstraints:
  - maxSkew: 2
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
  - {maxSkew: 5, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
";

    fn read(text: &str) -> String {
        match default_spread("spread.yaml", text, &mut Symbols::default()) {
            Ok(list) => format!("{} constraints", list.len()),
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        let mut names = Symbols::default();
        let short = default_spread("", KARPENTER, &mut names).unwrap();
        assert_eq!(
            (
                short.len(),
                short[0].max_skew,
                short[0].required,
                short[1].required
            ),
            (2, 2, true, false)
        );
        let whole = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true}
profiles:
- schedulerName: other
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
      - {maxSkew: 5, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
";
        assert_eq!(default_spread("", whole, &mut names).unwrap(), short);
        let slip = read(&whole.replace("defaultingType", "defaultType"));
        assert!(
            slip.starts_with(
                "spread.yaml:12: profiles[1].pluginConfig[1].args.defaultType: unknown"
            ),
            "{slip}"
        );
        let json = r#"{"podTopologySpread": {"defaultConstraints": []}}"#;
        assert_eq!(
            [read(json), read(""), read("# nothing\n")],
            ["0 constraints"; 3]
        );
    }

    #[test]
    fn faults_name_the_line_the_field_and_what_to_do() {
        let with = |from: &str, to: &str| read(&KARPENTER.replace(from, to));
        expect_test::expect![[r#"
            spread.yaml:4: podTopologySpread.defaultConstraints[0].maxSkew: 0 is out of range; it starts at 1
            spread.yaml:6: podTopologySpread.defaultConstraints[0].whenUnsatisfiable: `Never` is not a policy; expected DoNotSchedule or ScheduleAnyway
            spread.yaml:5: podTopologySpread.defaultConstraints[0].topologyKey: `a zone` is not a label; name a label such as topology.kubernetes.io/zone
            spread.yaml:4: podTopologySpread.defaultConstraints[0].maxskew: unknown field `maxskew`, expected one of `maxSkew`, `topologyKey`, `whenUnsatisfiable`, `minDomains`, `nodeAffinityPolicy`, `nodeTaintsPolicy`, `labelSelector`, `matchLabelKeys`; remove it, or correct its spelling
            spread.yaml:4: podTopologySpread.defaultConstraints[0].labelSelector: may not be set; remove it: the selector of a default constraint is deduced from the pod's Services and owner
            spread.yaml:7: podTopologySpread.defaultConstraints[1]: topology.kubernetes.io/zone with DoNotSchedule is there twice; keep one of the two
            spread.yaml:3: podTopology: unknown field `podTopology`, expected `podTopologySpread`; remove it, or correct its spelling"#]]
        .assert_eq(
            &[
                with("maxSkew: 2", "maxSkew: 0"),
                with("DoNotSchedule", "Never"),
                with("topology.kubernetes.io/zone", "a zone"),
                with("maxSkew: 2", "maxskew: 2"),
                with("maxSkew: 2", "labelSelector: {}\n    maxSkew: 2"),
                with("{maxSkew: 5, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}",
                    "{maxSkew: 5, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}"),
                with("podTopologySpread", "podTopology"),
            ]
            .join("\n"),
        );
        assert!(read("a: [").starts_with("spread.yaml:"));
        assert!(read("[]").contains("is not a map"), "{}", read("[]"));
    }
}
