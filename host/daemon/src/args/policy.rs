//! Arguments of `longshore policy`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::CatalogueOf;

#[derive(Debug, ClapArgs)]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Says what a component is, wants and exports, or why it would be refused
    Check(CheckArgs),
    /// Measures the time to score a catalogue, compared with planning by price
    Bench(BenchArgs),
    /// Begins a policy: a folder in a language (`longshore-policy new`), or with --cel a `[[policy]]`
    /// on standard output
    New(NewArgs),
    /// Makes a component of a policy's folder (`longshore-policy build`)
    #[command(disable_help_flag = true)]
    Build(HandOverArgs),
    /// Asks a policy the cases of its folder: exit code 1 if one is not met
    Test(TestArgs),
    /// Prints what a policy says of offerings
    Run(RunPolicyArgs),
    /// Looks for a question that a policy answers badly: exit code 1 if there is one
    Prove(ProveArgs),
    /// Says how next versions of policies take over
    Status(CanaryStatusArgs),
    /// Lets the next version of a policy go a step further
    Promote(CanaryArgs),
    /// Takes the next version of a policy back
    Abort(CanaryArgs),
}

#[derive(Debug, ClapArgs)]
pub struct CanaryStatusArgs {
    /// How the API server is reached [default: $KUBECONFIG, ~/.kube/config or the ServiceAccount]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Lease [default: as for the daemon, else kube-system]
    #[arg(long, short, value_name = "NAME")]
    pub namespace: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct CanaryArgs {
    /// The policy's name in the configuration
    #[arg(value_name = "POLICY")]
    pub policy: String,
    #[command(flatten)]
    pub at: CanaryStatusArgs,
}

#[derive(Debug, ClapArgs)]
pub struct ProveArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// Settings to configure it with
    #[arg(long, value_name = "SETTINGS.toml")]
    pub settings: Option<PathBuf>,
    /// Where the questions begin: the same seed asks the same
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// How many questions at most
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u64).range(1..))]
    pub cases: u64,
    /// How long at most
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// How far below the list price a cost may be, in percent
    #[arg(long, value_name = "PERCENT", default_value = "90", value_parser = percent)]
    pub max_discount: f64,
    /// An offering that becomes dearer must not cost less; also where annotation `monotone` of the
    /// component is `price`
    #[arg(long)]
    pub monotone: bool,
}

#[derive(Debug, ClapArgs)]
pub struct HandOverArgs {
    /// As `longshore-policy` takes them
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub arguments: Vec<OsString>,
}

impl HandOverArgs {
    /// With the verb in front.
    pub fn with(&self, verb: &str) -> Vec<OsString> {
        let rest = self.arguments.iter().cloned();
        std::iter::once(verb.into()).chain(rest).collect()
    }
}

#[derive(Debug, ClapArgs)]
pub struct TestArgs {
    /// The folder of the policy: its cases are cases/*.toml
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// The component [default: policy.wasm in that folder]
    #[arg(long, value_name = "FILE.wasm")]
    pub component: Option<PathBuf>,
    /// Writes what is answered into the cases, and the cases into the component
    #[arg(long)]
    pub record: bool,
}

// Without a doc comment: it would be the command's.
#[derive(Debug, ClapArgs)]
pub struct OnePolicy {
    /// The component
    #[arg(value_name = "FILE.wasm", required_unless_present = "cel")]
    pub file: Option<PathBuf>,
    /// Settings to configure it with
    #[arg(long, value_name = "SETTINGS.toml")]
    pub settings: Option<PathBuf>,
    /// An expression in CEL, in place of a component
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["file", "settings"])]
    pub cel: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct RunPolicyArgs {
    #[command(flatten)]
    pub policy: OnePolicy,
    /// Manifests of the cluster, as `longshore plan` takes them [default: none]
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub snapshot: Vec<PathBuf>,
    /// A journal: its last round, with the instance types and signals of then
    #[arg(long, value_name = "PATH", conflicts_with = "snapshot")]
    pub journal: Option<PathBuf>,
    /// Another round of the journal
    #[arg(long, value_name = "N", requires = "journal")]
    pub round: Option<u64>,
    /// Whose instance types
    #[arg(long, value_name = "NAME")]
    pub provider: Option<CatalogueOf>,
    /// Instance types, as `longshore plan` takes them
    #[arg(long, value_name = "FILE")]
    pub instance_types: Option<PathBuf>,
    /// A configuration, for its signals
    #[arg(long, value_name = "longshore.toml")]
    pub config: Option<PathBuf>,
    /// The NodePool that nodes are wanted for [default: the first]
    #[arg(long, value_name = "NAME")]
    pub nodepool: Option<String>,
    /// How many offerings, the cheapest first
    #[arg(long, value_name = "N", default_value = "20")]
    pub top: usize,
}

#[derive(Debug, ClapArgs)]
pub struct NewArgs {
    /// The language and the policy's name: rust, python, javascript, go or c
    #[arg(value_names = ["LANG", "NAME"], num_args = 2, required_unless_present = "cel")]
    pub begin: Vec<String>,
    /// What an offering costs in USD per hour, in CEL: writes a `[[policy]]` for longshore.toml
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "begin")]
    pub cel: Option<String>,
    /// Its name in reports and metrics
    #[arg(long, value_name = "NAME", default_value = "cel", requires = "cel")]
    pub name: String,
}

#[derive(Debug, ClapArgs)]
pub struct BenchArgs {
    #[command(flatten)]
    pub policy: OnePolicy,
    /// Instance types in the format of Karpenter's KWOK provider [default: the 144 types that it
    /// has built in]
    #[arg(long, value_name = "FILE")]
    pub instance_types: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct CheckArgs {
    /// The component, or where it is: HOST/REPOSITORY:TAG@sha256:… in a registry,
    /// /FOLDER@sha256:… in an OCI layout
    #[arg(value_name = "FILE.wasm", required_unless_present_any = ["cel", "config"])]
    pub file: Option<PathBuf>,
    /// Settings to configure it with; without a file, prints settings to begin with, as TOML
    #[arg(long, value_name = "SETTINGS.toml", num_args = 0..=1)]
    pub settings: Option<Option<PathBuf>>,
    /// An expression in CEL, in place of a component
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["file", "settings"])]
    pub cel: Option<String>,
    /// All policies of a configuration, in place of a component; with one in a registry or a
    /// layout, the configuration whose registries and keys count for it
    #[arg(long, value_name = "longshore.toml", conflicts_with = "cel")]
    pub config: Option<PathBuf>,
}

/// A number of 0 to 100.
fn percent(typed: &str) -> Result<f64, String> {
    let number = typed.parse().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "expected a number of 0 to 100, such as 90".to_owned())
}
