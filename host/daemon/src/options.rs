//! Effective options: flags over configuration over defaults, with files read. Nothing is left to
//! choose.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use longshore_bundle::{RegistrySettings, Sources, TrustSettings};
use longshore_core::model::Settings;
use longshore_core::plan::Effort;
use longshore_core::planner;
use longshore_ec2::catalogue::machine;

use crate::args::{AwsArgs, CatalogueOf, WorldArgs};
use crate::spread::SchedulerConfig;
use longshore_live::config::{self, Config, Mode, PolicyEntry, SignalEntry};
use longshore_live::decide::deadline::TIME_LIMIT;
use longshore_live::error::Failure;
use longshore_live::policies::typed::{read, scorer, settings_of};

/// How to plan, and on what.
#[derive(Debug, PartialEq)]
pub struct ResolvedOptions {
    /// Files with manifests; `-` is standard input.
    pub snapshot: Vec<PathBuf>,
    /// The file with instance types; `None` for the built-in ones.
    pub instance_types: Option<PathBuf>,
    /// EC2 as the source of instance types; `None` for KWOK's.
    pub aws: Option<Aws>,
    /// Nothing names the provider: the manifests' NodePools decide between `aws` and KWOK.
    pub by_manifests: bool,
    /// How much work goes into a cheaper plan.
    pub effort: Effort,
    /// Seed of pseudo-random numbers: the same seed gives the same plan.
    pub seed: u64,
    /// How long a cheaper plan may be looked for.
    pub time_limit: Duration,
    /// Settings of the cluster that plans depend on, such as preferences and feature gates.
    pub settings: Settings,
    /// Karpenter's gate NodeOverlay: NodeOverlays change the catalogue.
    pub node_overlay: bool,
    /// Nodes that their cloud calls unhealthy are looked for.
    pub repairs: bool,
    /// Default topology spread constraints, added to `settings` once the symbols exist.
    pub scheduler: Option<SchedulerConfig>,
    /// Policies, in order.
    pub policies: Vec<PolicyEntry>,
    /// Where policies come from that are no files.
    pub sources: Sources,
    /// A consolidation policy that is named on the command line: in front of the others.
    pub consolidation: Option<PolicyEntry>,
    /// Files with signals by name.
    pub signals: BTreeMap<String, PathBuf>,
}

impl ResolvedOptions {
    /// What the planner wants to know.
    pub fn how(&self) -> planner::PlanOptions {
        planner::PlanOptions {
            effort: self.effort,
            seed: self.seed,
        }
    }
}

/// EC2 as described by a file, or as it is built in.
#[derive(Clone, Debug, PartialEq)]
pub struct Aws {
    /// The file with region, zones and more; `None` for the region of the manifests, as it is built
    /// in.
    pub world: Option<PathBuf>,
    /// What changes how much of a node pods get.
    pub settings: machine::Settings,
    /// A bootstrap policy.
    pub bootstrap: Option<PolicyEntry>,
}

/// Arguments that mean something with `--provider aws` alone, and whether each is given.
fn given(args: &AwsArgs) -> impl Iterator<Item = &'static str> {
    let all = [
        ("--world", args.world.is_some()),
        (
            "--vm-memory-overhead-percent",
            args.vm_memory_overhead_percent.is_some(),
        ),
        ("--reserved-enis", args.reserved_enis.is_some()),
        ("--aws-feature-gates", args.aws_feature_gates.is_some()),
        ("--bootstrap", args.bootstrap.is_some()),
    ];
    all.into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
}

/// The AWS part of a command's arguments where the provider is named; an error if it makes no sense
/// with it.
pub fn aws(provider: CatalogueOf, args: &AwsArgs) -> Result<Option<Aws>, Failure> {
    if provider == CatalogueOf::Aws {
        return aws_of(args).map(Some);
    }
    match given(args).next() {
        None => Ok(None),
        Some(flag) => Err(usage(
            format!("{flag} means nothing with --provider kwok"),
            "add --provider aws, or leave it out",
        )),
    }
}

fn usage(message: String, hint: &str) -> Failure {
    Failure::Usage {
        message,
        hint: hint.into(),
    }
}

/// EC2 with what the arguments say of it.
fn aws_of(args: &AwsArgs) -> Result<Aws, Failure> {
    let defaults = machine::Settings::default();
    let overhead = args
        .vm_memory_overhead_percent
        .unwrap_or(defaults.vm_memory_overhead);
    if !(0.0..=1.0).contains(&overhead) {
        let message = format!("--vm-memory-overhead-percent {overhead} is not a share");
        return Err(usage(message, "give 0 to 1, such as 0.075"));
    }
    let reserved_enis = args.reserved_enis.unwrap_or(defaults.reserved_enis);
    if !(0..1 << 31).contains(&reserved_enis) {
        let message = format!("--reserved-enis {reserved_enis} is not a number of interfaces");
        return Err(usage(message, "give 0 or more"));
    }
    let typed = args.aws_feature_gates.as_deref().unwrap_or_default();
    let expressions = gates("--aws-feature-gates", typed)?
        .get("NodeClassCEL")
        .is_some_and(|on| *on);
    if args.bootstrap.is_some() && args.world.is_none() {
        let message = "--bootstrap needs a world: user data names the cluster".into();
        return Err(usage(
            message,
            "name a file with the cluster: --world WORLD.yaml",
        ));
    }
    Ok(Aws {
        world: args.world.clone(),
        settings: machine::Settings {
            vm_memory_overhead: overhead,
            reserved_enis,
            expressions,
            kubernetes: None,
        },
        bootstrap: args.bootstrap.as_deref().map(scorer).transpose()?,
    })
}

/// Where instance types come from, and whether the manifests decide between EC2 and KWOK. A file of
/// instance types alone is one of KWOK's, as it always was.
fn source(args: &WorldArgs) -> Result<(Option<Aws>, bool), Failure> {
    match args.provider {
        Some(provider) => Ok((aws(provider, &args.aws)?, false)),
        None if given(&args.aws).next().is_some() => Ok((Some(aws_of(&args.aws)?), false)),
        None if args.instance_types.is_some() => Ok((None, false)),
        None => Ok((Some(aws_of(&args.aws)?), true)),
    }
}

/// Whether `--feature-gates` lets spot nodes be replaced by spot nodes.
///
/// # Errors
/// The gates cannot be read.
pub fn spot_to_spot(args: &WorldArgs) -> Result<bool, Failure> {
    let typed = args.feature_gates.as_deref().unwrap_or_default();
    let gates = gates("--feature-gates", typed)?;
    Ok(gates
        .get("SpotToSpotConsolidation")
        .copied()
        .unwrap_or_default())
}

/// Feature gates as Karpenter writes them: `A=true,B=false`. Of a name that is there twice the last
/// counts. Names that nothing knows are passed over, as Karpenter does. `flag` names the flag in
/// errors.
pub fn gates<'a>(flag: &str, typed: &'a str) -> Result<BTreeMap<&'a str, bool>, Failure> {
    let entries = typed.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    let gate = |entry: &'a str| match entry.split_once('=') {
        Some((name, "true")) => Ok((name.trim(), true)),
        Some((name, "false")) => Ok((name.trim(), false)),
        _ => Err(Failure::Usage {
            message: format!("{flag} {entry} is not a gate"),
            hint: "write it like ReservedCapacity=true".into(),
        }),
    };
    entries.map(gate).collect()
}

/// Reads the configuration that `args` names, and applies its flags.
pub fn resolve(args: &WorldArgs) -> Result<ResolvedOptions, Failure> {
    let config = match &args.config {
        Some(file) => config::parse(file, &read(file)?).map_err(Failure::Config)?,
        None => Config::default(),
    };
    if args
        .snapshot
        .iter()
        .filter(|file| file.as_os_str() == "-")
        .count()
        > 1
    {
        return Err(Failure::Usage {
            message: "standard input is named twice".into(),
            hint: "give `-` once".into(),
        });
    }
    let planning = config.planning;
    let defaults = Settings::default();
    let mut entries = match &args.scorer {
        Some(typed) => vec![scorer(typed)?],
        None => config.policies,
    };
    // A plan on files uses the policies that the daemon would enforce.
    entries.retain(|entry| entry.mode == Mode::Enforce);
    for entry in &mut entries {
        if let Some(file) = &entry.settings_file {
            entry.settings = settings_of(file)?;
        }
    }
    let gates = gates(
        "--feature-gates",
        args.feature_gates.as_deref().unwrap_or_default(),
    )?;
    let gate = |name: &str, default: bool| gates.get(name).copied().unwrap_or(default);
    let (aws, by_manifests) = source(args)?;
    Ok(ResolvedOptions {
        snapshot: args.snapshot.clone(),
        instance_types: args.instance_types.clone(),
        aws,
        by_manifests,
        effort: args
            .improve
            .map(Effort::from)
            .or(planning.improve)
            .unwrap_or_default(),
        seed: args.seed.or(planning.seed).unwrap_or(0),
        time_limit: planning.time_limit.unwrap_or(TIME_LIMIT),
        settings: Settings {
            preferences: planning.preferences.unwrap_or(defaults.preferences),
            min_values: planning.min_values.unwrap_or(defaults.min_values),
            node_cost: planning.node_cost.unwrap_or(defaults.node_cost),
            reserved_capacity: gate("ReservedCapacity", defaults.reserved_capacity),
            ..defaults
        },
        node_overlay: gate("NodeOverlay", false),
        repairs: false,
        scheduler: args
            .scheduler_config
            .as_deref()
            .and_then(SchedulerConfig::typed),
        policies: entries,
        sources: sources_of(config.registries, config.trust),
        consolidation: None,
        signals: files(config.signals)?,
    })
}

/// Signals of a plan that must be the same tomorrow.
fn files(signals: BTreeMap<String, SignalEntry>) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let file = |(name, entry): (String, SignalEntry)| match entry {
        SignalEntry::File(file) => Ok((name, file)),
        SignalEntry::Url { url, .. } => Err(networked(&name, &url)),
        SignalEntry::PlacementScores(_) => Err(networked(&name, "EC2")),
    };
    signals.into_iter().map(file).collect()
}

fn networked(name: &str, place: &str) -> Failure {
    Failure::Usage {
        message: format!("signal `{name}` comes from {place}, and a plan on files asks no network"),
        hint: format!(
            "save it and name the file in a configuration of its own: `file = \"{name}.json\"`"
        ),
    }
}

/// Where a configuration has its policies from.
pub fn sources_of(
    registries: BTreeMap<String, RegistrySettings>,
    trust: Vec<TrustSettings>,
) -> Sources {
    Sources {
        registries,
        trust,
        ..Sources::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command, Improve};
    use clap::Parser as _;
    use longshore_live::config::PolicySource;

    fn typed(line: &str) -> WorldArgs {
        match Args::parse_from(line.split(' ')).command {
            Command::Plan(args) => args.world,
            other => panic!("not a plan: {other:?}"),
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let folder = std::env::temp_dir().join(format!("longshore-options-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("longshore.toml");
        std::fs::write(
            &file,
            "[planning]\nseed = 3\nimprove = 'quick'\nnode-cost = 0.02\n",
        )
        .unwrap();
        let mut args = typed("longshore plan --snapshot x --seed 9");
        args.config = Some(file);
        let options = resolve(&args).unwrap();
        assert_eq!(
            (options.seed, options.effort, options.settings.node_cost),
            (9, Effort::Quick, 0.02)
        );
        args.improve = Some(Improve::None);
        args.config = None;
        let options = resolve(&args).unwrap();
        assert_eq!(
            (options.effort, options.settings.node_cost),
            (Effort::None, Settings::NODE_COST)
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_scorer_is_named_after_its_file() {
        let options = resolve(&typed(
            "longshore plan --snapshot x --scorer a/b/carbon.wasm",
        ))
        .unwrap();
        assert_eq!(options.policies[0].name, "carbon");
        assert_eq!(
            options.policies[0].source,
            PolicySource::File("a/b/carbon.wasm".into())
        );
    }

    #[test]
    fn settings_of_a_scorer_must_be_readable() {
        let failure = resolve(&typed(
            "longshore plan --snapshot x --scorer a.wasm,nowhere.toml",
        ))
        .unwrap_err();
        assert!(
            failure.report().starts_with("cannot read nowhere.toml: "),
            "{}",
            failure.report()
        );
    }
}
