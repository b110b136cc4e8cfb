//! Command-line arguments exactly as typed. Nothing is resolved here.

pub mod karpenter;
mod policy;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use longshore_core::plan::Effort;

pub use policy::{
    BenchArgs, CanaryArgs, CanaryStatusArgs, CheckArgs, NewArgs, PolicyArgs, PolicyCommand,
    ProveArgs, RunPolicyArgs, TestArgs,
};

/// Kubernetes node autoscaler: plan offline, run the daemon, replay, simulate.
#[derive(Debug, Parser)]
#[command(name = "longshore", version, about, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plans nodes for the pending pods of a cluster dump; says why a pod cannot be placed
    Plan(PlanArgs),
    /// Why one pod got its node, or none
    Explain(ExplainArgs),
    /// The instance types that can be bought
    Types(TypesArgs),
    /// Drift hashes of NodePools and EC2NodeClasses, as Karpenter writes them into annotations
    Hash(HashArgs),
    /// What nodes are made with
    Render(RenderArgs),
    /// Looks at WebAssembly policies
    Policy(PolicyArgs),
    /// Runs the daemon: creates nodes for pending pods and manages them until they terminate
    Run(RunArgs),
    /// What a running daemon is doing
    Status(StatusArgs),
    /// Plans the rounds of a journal again, with the recorded policies or another one
    Replay(ReplayArgs),
    /// What is in a journal
    Journal(JournalArgs),
    /// Answers for a cloud, for tests and for trying things out
    Emulate(EmulateArgs),
    /// Moves a cluster from Karpenter to Longshore
    Migrate(MigrateArgs),
    /// Runs a scenario in a simulated cluster in virtual time: cost, waiting pods, failures
    #[command(disable_help_flag = true)]
    Sim(SimArgs),
    /// Compiles the component on standard input to standard output, for `run`
    #[command(hide = true)]
    CompilePolicy(CompilePolicyArgs),
}

#[derive(Debug, ClapArgs)]
pub struct CompilePolicyArgs {
    /// The most bytes of memory
    #[arg(long)]
    pub memory: Option<u64>,
    /// As the host has it
    #[arg(long)]
    pub canonical_nans: bool,
}

#[derive(Debug, ClapArgs)]
pub struct MigrateArgs {
    #[command(subcommand)]
    pub command: MigrateCommand,
}

#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// Says what changes when Longshore takes a cluster of Karpenter's over; writes nothing. Exits
    /// with 0 if nothing changes, 1 if only metadata is written, 3 if there is something to look at
    Check(MigrateCheckArgs),
}

#[derive(Debug, ClapArgs)]
pub struct MigrateCheckArgs {
    /// Manifests of the cluster (YAML or JSON, `kubectl get … -o yaml`); several files, or - for
    /// standard input [default: what the API server has]
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub snapshot: Vec<PathBuf>,
    /// How to reach the API server [default: KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    pub kubeconfig: Option<PathBuf>,
    /// The cluster's CA certificate, PEM in base64: hashes of EC2NodeClasses cover it [default: as in
    /// Karpenter's Deployment, or the ConfigMap kube-system/kube-root-ca.crt]
    #[arg(long, value_name = "BASE64")]
    pub cluster_ca_bundle: Option<String>,
    /// Values of Karpenter's Helm chart (`helm get values karpenter -o yaml`): says which have no
    /// meaning here, renders the chart with them by the helm of PATH, and asks the API server as a
    /// dry run whether it takes the result
    #[arg(long, value_name = "FILE")]
    pub values: Option<PathBuf>,
    /// As --set of helm, for what is given to the upgrade besides; more than once
    #[arg(long, value_name = "KEY=VALUE", requires = "values")]
    pub set: Vec<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, ClapArgs)]
pub struct EmulateArgs {
    #[command(subcommand)]
    pub cloud: EmulatedCloud,
}

#[derive(Debug, Subcommand)]
pub enum EmulatedCloud {
    /// AWS: EC2, SQS, SSM, IAM, EKS, Pricing and STS on one loopback port; set AWS_ENDPOINT_URL
    Aws(EmulateAwsArgs),
}

#[derive(Debug, ClapArgs)]
pub struct EmulateAwsArgs {
    /// The port on 127.0.0.1; 0 for any that is free
    #[arg(long, value_name = "N", default_value_t = 4566)]
    pub port: u16,
    /// The region and account, in the format of `plan --provider aws` [default: us-east-1 with a
    /// few instance types]
    #[arg(long, value_name = "WORLD")]
    pub world: Option<PathBuf>,
    /// Chance: ids, delays and depths of pools
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A cluster that instances join as Nodes, if their user data has them join; KWOK runs the pods
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// All of it is for `longshore-sim run`, which says what there is.
#[derive(Debug, ClapArgs)]
pub struct SimArgs {
    /// The scenario and output options; --help for more
    #[arg(value_name = "SCENARIO.toml", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub rest: Vec<std::ffi::OsString>,
}

/// Input and planning options, shared by `plan` and `explain`.
#[derive(Debug, Default, ClapArgs)]
pub struct WorldArgs {
    /// Manifests of the cluster (YAML or JSON, `kubectl get … -o yaml`); several files, or - for
    /// standard input
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub snapshot: Vec<PathBuf>,
    /// Whose instance types [default: aws if NodePools name EC2NodeClasses, and kwok otherwise]
    #[arg(long, value_name = "NAME")]
    pub provider: Option<CatalogueOf>,
    /// Instance types [default: for kwok the 144 types that Karpenter's KWOK provider has built in,
    /// for aws those of the region]; for kwok in the format of that provider, for aws what `aws ec2
    /// describe-instance-types` answers (JSON, or JSON gzipped)
    #[arg(long, value_name = "FILE")]
    pub instance_types: Option<PathBuf>,
    #[command(flatten)]
    pub aws: AwsArgs,
    /// Karpenter's feature gates: NodeOverlay applies the NodeOverlays of the manifests,
    /// ReservedCapacity=false plans without capacity reservations, and SpotToSpotConsolidation
    /// lets --disrupt replace spot nodes by cheaper spot nodes
    #[arg(long, value_name = "GATE=BOOL,…")]
    pub feature_gates: Option<String>,
    /// A WebAssembly component that scores offerings, and optionally a file with its settings; or
    /// cel=EXPRESSION
    #[arg(long, value_name = "FILE.wasm[,SETTINGS.toml]")]
    pub scorer: Option<String>,
    /// Configuration
    #[arg(long, value_name = "longshore.toml")]
    pub config: Option<PathBuf>,
    /// Default topology spread constraints, as `run` has them: podTopologySpread.defaultConstraints
    /// or a KubeSchedulerConfiguration, itself or in a file
    #[arg(long, value_name = "YAML|FILE")]
    pub scheduler_config: Option<String>,
    /// How much work goes into a cheaper plan [default: normal]
    #[arg(long, value_name = "EFFORT")]
    pub improve: Option<Improve>,
    /// Seed of the choices between equals [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub struct PlanArgs {
    #[command(flatten)]
    pub world: WorldArgs,
    #[command(flatten)]
    pub disrupt: DisruptArgs,
    /// Exit with 1 if a pod cannot be placed
    #[arg(long, conflicts_with_all = ["disrupt", "converge"])]
    pub strict: bool,
    /// How to print the plan
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

/// What to give back instead of what to buy.
#[derive(Debug, ClapArgs)]
pub struct DisruptArgs {
    /// Which nodes could go, what would be bought for them, where their pods would move, and why
    /// the others stay
    #[arg(long)]
    pub disrupt: bool,
    /// Carries out on paper what --disrupt proposes but for static drift, until nothing is left
    #[arg(long)]
    pub converge: bool,
    /// Writes the cluster afterwards as manifests; the snapshot has to be JSON
    #[arg(long, value_name = "FILE", requires = "converge")]
    pub write: Option<PathBuf>,
    /// One method alone: emptiness, static-drift, drift, multi or single
    #[arg(long, value_name = "NAME")]
    pub method: Option<String>,
    /// What one moved pod must save, USD per hour [default: annotation longshore.dev/move-cost of its
    /// NodePool, or a tenth of what a pod of the NodePool costs on average, half of it where the
    /// policy is Balanced]
    #[arg(long, value_name = "USD")]
    pub move_cost: Option<f64>,
    /// A WebAssembly component that says which nodes are disrupted and when, and optionally a file
    /// with its settings; with --disrupt or --converge
    #[arg(long, value_name = "FILE.wasm[,SETTINGS.toml]")]
    pub consolidation: Option<String>,
    /// Lets a drifted node go before it is replaced, where its replacement needs what it holds, as
    /// with feature gate TerminateFirstDrift
    #[arg(long)]
    pub terminate_first: bool,
}

#[derive(Debug, ClapArgs)]
pub struct ExplainArgs {
    /// What to explain
    #[arg(value_name = "KIND")]
    pub kind: ExplainedKind,
    /// The pod, as NAMESPACE/NAME, or NAME where only one namespace has it; or the node
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub world: WorldArgs,
    /// The status address of the daemon that is asked where there is no --snapshot
    /// [default: STATUS_ADDRESS, or 127.0.0.1:8082]
    #[arg(
        long,
        visible_alias = "status-address",
        value_name = "HOST:PORT",
        conflicts_with = "snapshot"
    )]
    pub at: Option<String>,
    /// How to print the explanation
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// Where nodes come from
    #[arg(long, value_name = "NAME", default_value = "kwok")]
    pub provider: Provider,
    /// Configuration
    #[arg(long, value_name = "longshore.toml")]
    pub config: Option<PathBuf>,
    /// Instance types of kwok in the format of Karpenter's KWOK provider [default: the 144 types that
    /// it has built in]
    #[arg(long, value_name = "FILE")]
    pub instance_types: Option<PathBuf>,
    /// How to reach the API server [default: KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A folder to write down everything that is observed and decided [default: `dir` of `[journal]`
    /// in the configuration]
    #[arg(long, value_name = "DIR")]
    pub journal: Option<PathBuf>,
    /// Address that serves `longshore status` and `longshore explain` to anyone who can reach it;
    /// also STATUS_ADDRESS [default: 127.0.0.1:8082]
    #[arg(long, value_name = "HOST:PORT")]
    pub status_address: Option<String>,
    /// How to write the log, on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log: Log,
    #[command(flatten)]
    pub karpenter: karpenter::KarpenterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Provider {
    /// Nodes without machines
    Kwok,
    /// Instances of EC2; only in a binary that was built with the feature `aws`
    Aws,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Log {
    /// For people
    Text,
    /// For programs
    Json,
}

#[derive(Debug, ClapArgs)]
pub struct StatusArgs {
    /// The daemon's status address [default: STATUS_ADDRESS, or 127.0.0.1:8082]
    #[arg(long, visible_alias = "status-address", value_name = "HOST:PORT")]
    pub at: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, ClapArgs)]
pub struct ReplayArgs {
    /// A journal: the folder that `longshore run --journal` wrote, or a file in it
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// A WebAssembly component that scores offerings, and optionally a file with its settings, or
    /// cel=EXPRESSION: says where, and by how much, it would have decided otherwise
    #[arg(long, value_name = "FILE.wasm[,SETTINGS.toml]")]
    pub scorer: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, ClapArgs)]
pub struct JournalArgs {
    #[command(subcommand)]
    pub command: JournalCommand,
}

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Prints what happened, a line each
    Show(ShowArgs),
    /// Prints what happened to objects that have a text in them, a line each; exits with 1 if there
    /// are none
    Grep(GrepArgs),
}

#[derive(Debug, ClapArgs)]
pub struct ShowArgs {
    /// A journal: the folder that `longshore run --journal` wrote, or a file in it
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    #[command(flatten)]
    pub only: OnlyArgs,
}

#[derive(Debug, ClapArgs)]
pub struct GrepArgs {
    /// A text of the object's name or of its JSON; upper and lower case are the same
    #[arg(value_name = "TEXT")]
    pub pattern: String,
    /// A journal: the folder that `longshore run --journal` wrote, or a file in it
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    #[command(flatten)]
    pub only: OnlyArgs,
}

/// The selected part of a journal.
#[derive(Debug, ClapArgs)]
pub struct OnlyArgs {
    /// Only records from this time on
    #[arg(long, value_name = "2026-11-01T12:00:00Z")]
    pub from: Option<String>,
    /// Only records up to this time
    #[arg(long, value_name = "2026-11-01T12:30:00Z")]
    pub to: Option<String>,
    /// One kind of object alone: pod, node, nodeclaim, …
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Only rounds
    #[arg(long)]
    pub rounds: bool,
}

#[derive(Debug, ClapArgs)]
pub struct TypesArgs {
    /// Whose instance types
    #[arg(long, value_name = "NAME", default_value = "kwok")]
    pub provider: CatalogueOf,
    /// Instance types [default: for kwok the 144 types that Karpenter's KWOK provider has built in,
    /// for aws those in WORLD]; for kwok in the format of that provider, for aws what `aws ec2
    /// describe-instance-types` answers (JSON, or JSON gzipped)
    #[arg(long, value_name = "FILE")]
    pub instance_types: Option<PathBuf>,
    #[command(flatten)]
    pub aws: AwsArgs,
    /// Lists offerings in JSON too: zones, prices, availability; for aws
    #[arg(long)]
    pub offerings: bool,
    /// Lists nothing, and writes the region as EC2 describes it to this account: zones, instance types,
    /// prices. Other commands read it with --world. The region and the credentials come from the
    /// environment, as for `longshore run`; a name that ends in .gz is gzipped; for aws
    #[arg(long, value_name = "FILE")]
    pub save_world: Option<PathBuf>,
    /// Karpenter's feature gates. None changes the list: the NodeClass's status says which
    /// reservations there are; for aws
    #[arg(long, value_name = "GATE=BOOL,…")]
    pub feature_gates: Option<String>,
    /// How to print the list
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

const AWS: &str = "With --provider aws";

/// What `--provider aws` takes.
#[derive(Debug, Default, ClapArgs)]
pub struct AwsArgs {
    /// Region, zones, and optionally an EC2NodeClass, instance types, prices, reservations and what
    /// has no capacity (YAML or JSON, - for standard input) [default for plan and explain: the region
    /// that the manifests' zones are in, as it is built in, with prices that are partly estimates]
    // The heading is on each argument: that of a group would go on to arguments after it.
    #[arg(short = 'f', long, value_name = "FILE", help_heading = AWS)]
    pub world: Option<PathBuf>,
    /// The share of memory that the hypervisor keeps, as Karpenter has it [default: 0.075]
    #[arg(long, value_name = "SHARE", help_heading = AWS)]
    pub vm_memory_overhead_percent: Option<f64>,
    /// Network interfaces per node that pods do not get, as Karpenter has it [default: 0]
    #[arg(long, value_name = "N", help_heading = AWS)]
    pub reserved_enis: Option<i64>,
    /// Feature gates of Karpenter's AWS provider; NodeClassCEL lets `spec.kubelet` have expressions
    #[arg(long, value_name = "GATE=BOOL,…", help_heading = AWS)]
    pub aws_feature_gates: Option<String>,
    /// A WebAssembly component that says what nodes boot with and keep back from pods, and
    /// optionally a file with its settings; WORLD has to name the cluster
    #[arg(long, value_name = "FILE.wasm[,SETTINGS.toml]", help_heading = AWS)]
    pub bootstrap: Option<String>,
}

/// Where a catalogue comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CatalogueOf {
    /// Karpenter's KWOK provider
    Kwok,
    /// EC2
    Aws,
}

#[derive(Debug, ClapArgs)]
pub struct HashArgs {
    /// Manifests (YAML or JSON); several files, or - for standard input
    #[arg(short, long, num_args = 1.., required = true, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// The cluster's CA certificate, PEM in base64: hashes of EC2NodeClasses cover it
    #[arg(long, value_name = "BASE64")]
    pub cluster_ca_bundle: Option<String>,
    /// How to print the hashes
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Debug, ClapArgs)]
pub struct RenderArgs {
    #[command(subcommand)]
    pub command: RenderCommand,
}

#[derive(Debug, Subcommand)]
pub enum RenderCommand {
    /// The user data that nodes on EC2 boot with
    Userdata(UserdataArgs),
}

#[derive(Debug, ClapArgs)]
pub struct UserdataArgs {
    /// Nodes (YAML or JSON documents); several files, or - for standard input
    #[arg(short, long, num_args = 1.., required = true, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// A WebAssembly component that renders user data, and optionally a file with its settings
    #[arg(long, value_name = "FILE.wasm[,SETTINGS.toml]")]
    pub bootstrap: Option<String>,
    /// What the component changes in the built-in user data, line by line
    #[arg(long, requires = "bootstrap")]
    pub diff: bool,
    /// How to print the user data
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExplainedKind {
    /// A pod: why it got its node, or none
    #[value(alias = "pods", alias = "po")]
    Pod,
    /// A node: whether it would be disrupted, and why it stays
    #[value(alias = "nodes", alias = "no")]
    Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Improve {
    /// First fit decreasing
    None,
    /// About 10 ms for a thousand pods
    Quick,
    /// About 50 ms for a thousand pods
    Normal,
    /// About a second for a thousand pods
    Thorough,
}

impl From<Improve> for Effort {
    fn from(typed: Improve) -> Effort {
        match typed {
            Improve::None => Effort::None,
            Improve::Quick => Effort::Quick,
            Improve::Normal => Effort::Normal,
            Improve::Thorough => Effort::Thorough,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn karpenters_flags_are_taken_as_go_writes_them() {
        let typed =
            |line: &str| match Args::try_parse_from(line.split(' ')).map(|args| args.command) {
                Ok(Command::Run(run)) => Ok(run.karpenter),
                Ok(other) => panic!("not a run: {other:?}"),
                Err(error) => Err(error.to_string()),
            };
        let line = "longshore run --metrics-port 9000 --disable-leader-election \
            --isolated-vpc=false --log-level=debug";
        let flags = typed(line).unwrap();
        let of = |name| flags.get(name);
        assert_eq!(
            [of("METRICS_PORT"), of("DISABLE_LEADER_ELECTION")],
            [Some("9000"), Some("true")]
        );
        assert_eq!(
            [
                of("ISOLATED_VPC"),
                of("LOG_LEVEL"),
                of("BATCH_MAX_DURATION")
            ],
            [Some("false"), Some("debug"), None]
        );
        let unknown = typed("longshore run --metric-port 9000").unwrap_err();
        assert!(
            unknown.contains("--metric-port") && unknown.contains("'--metrics-port'"),
            "{unknown}"
        );
    }

    #[test]
    fn snapshots_may_follow_one_flag_or_repeat_it() {
        let typed =
            |line: &str| match Args::try_parse_from(line.split(' ')).map(|args| args.command) {
                Ok(Command::Plan(plan)) => plan.world.snapshot,
                other => panic!("not a plan: {other:?}"),
            };
        assert_eq!(
            typed("longshore plan --snapshot a b --seed 1"),
            [PathBuf::from("a"), PathBuf::from("b")]
        );
        assert_eq!(
            typed("longshore plan --snapshot a --snapshot -"),
            [PathBuf::from("a"), PathBuf::from("-")]
        );
    }
}
