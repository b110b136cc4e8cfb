//! `longshore-policy`: a policy begun, and built, in five languages.
//!
//! What runs policies (`test`, `run`, `prove`, `check`, `bench`) is in `longshore`, which has the
//! WebAssembly host. These verbs are handed over to it, and `new` and `build` to here, so that both
//! programs know all. Generators of bindings and the encoder of components are linked in.

mod build;
mod component;
mod exports;
mod files;
mod new;
mod refusal;
mod tools;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Writes, builds and tests policies of Longshore
#[derive(Parser)]
#[command(name = "longshore-policy", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Writes a policy to begin with: sources, a test case, a README
    New(NewArgs),
    /// Makes a component of a policy's folder, and puts its recorded cases inside
    Build(BuildArgs),
    /// Makes a component of a core module, for languages without an SDK
    Wrap(WrapArgs),
    /// Generates bindings
    Bindings(BindingsArgs),
    /// `test`, `run`, `prove`, `check`, `bench`: `longshore policy …` does them
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(ClapArgs)]
struct NewArgs {
    /// The language
    language: Language,
    /// Its name, and the folder that is made: lower case letters, digits and -
    name: String,
}

#[derive(ClapArgs)]
struct BuildArgs {
    /// The folder of the policy
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The component [default: policy.wasm in that folder]
    #[arg(short, long, value_name = "FILE.wasm")]
    output: Option<PathBuf>,
}

#[derive(ClapArgs)]
struct WrapArgs {
    /// The core module
    core: PathBuf,
    /// The component
    out: PathBuf,
    /// The folder with the contract's WIT and the world, where the module does not carry them
    #[arg(long, num_args = 2, value_names = ["DIR", "WORLD"])]
    wit: Vec<String>,
    /// Answers what the module asks of WASI preview 1, with constants
    #[arg(long)]
    preview1: bool,
    /// The folder of a policy whose recorded cases go inside
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
}

#[derive(ClapArgs)]
struct BindingsArgs {
    /// `c` or `go`
    language: String,
    /// The folder with the contract's WIT
    wit: PathBuf,
    /// The world
    world: String,
    /// Where they go
    out: PathBuf,
}

/// A language with an SDK and a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Rust,
    Python,
    Javascript,
    Go,
    C,
}

impl Language {
    /// The name of its folders.
    fn folder(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::Python => "python",
            Language::Javascript => "javascript",
            Language::Go => "go",
            Language::C => "c",
        }
    }
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Verb::New(args) => new::run(args.language, &args.name),
        Verb::Build(args) => build::run(&args.folder, args.output.as_deref()),
        Verb::Wrap(args) => wrap(&args),
        Verb::Bindings(args) => {
            component::bindings(&args.language, &args.wit, &args.world, &args.out)
        }
        Verb::Other(arguments) => return hand_over(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fails(&error),
    }
}

fn fails(error: &anyhow::Error) -> ExitCode {
    eprintln!("longshore-policy: {error:#}");
    ExitCode::from(2)
}

fn wrap(args: &WrapArgs) -> Result<()> {
    let module = std::fs::read(&args.core)
        .with_context(|| format!("cannot read {}", args.core.display()))?;
    let wit = match args.wit.as_slice() {
        [folder, world] => Some((folder.as_ref(), world.as_str())),
        _ => None,
    };
    let mut component = component::wrap(module, wit, args.preview1)
        .with_context(|| format!("cannot make a component of {}", args.core.display()))?;
    if let Some(folder) = &args.cases {
        component::put_cases(&mut component, folder)?;
    }
    files::write(&args.out, &component)
}

/// Gives a verb to `longshore`, which stands beside this program or in PATH.
fn hand_over(arguments: &[OsString]) -> ExitCode {
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name("longshore"))
        .filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from("longshore"));
    let status = Command::new(&program)
        .arg("policy")
        .args(arguments)
        .status()
        .with_context(|| {
            let verb = arguments.first().map(|verb| verb.to_string_lossy());
            format!(
                "`{}` is for `longshore policy`, and `longshore` is neither beside this program nor \
                 in PATH",
                verb.unwrap_or_default()
            )
        });
    match status {
        Ok(status) => ExitCode::from(status.code().unwrap_or(2) as u8),
        Err(error) => fails(&error),
    }
}
