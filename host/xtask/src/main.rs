//! Developer commands: `cargo xtask …`. Each runs ordinary tools and prints their commands. What
//! ships is in `host/daemon`.

#![allow(clippy::print_stdout, reason = "talking is what it is for")]

mod advisories;
mod bench;
mod cluster;
mod commands;
mod crds;
mod demo;
mod demo_aws;
mod demo_cluster;
mod image;
#[cfg(test)]
mod module_cycles;
mod repo_rules;
mod test;

use std::process::ExitCode;

use longshore_xtask::guests::{self, root};

const USAGE: &str = "\
cargo xtask demo                        plan a shipped cluster with two policies, then show the daemon on a simulated one
    --seconds N                         for so long (60)
    --plain                             as lines; so does a pipe
cargo xtask demo --aws                  the daemon with instances of an emulated EC2 on a real control plane; builds it
                                        with the SDK unless LONGSHORE_WITH_EC2 names a binary
cargo xtask test                        format, clippy, cargo doc, plugins, all tests
    --aws                               format, clippy and tests of host/aws, whose SDK takes minutes to build
cargo xtask bench [cost|speed|policy]…  our plans beside Karpenter's
    --improve EFFORT                    how hard ours tries (cost: normal)
    --no-oracle                         without Karpenter's column
    --only TEXT                         only cases whose name contains TEXT
cargo xtask bench disrupt [goals|mixes]…
                                        what nodes come to where others go, on paper: goals, and Karpenter beside it
cargo xtask bench freeze                 how long a round holds up the loop's thread: 1 000 and 10 000 nodes
cargo xtask bench scheduler-differential plans beside the real kube-scheduler, on random worlds:
                                         --worlds 20, --first SEED, --side PLANES, --longshore PROGRAM,
                                         --keep FOLDER
cargo xtask bench api-crossing [COUNT] [SEED]
                                         mutated manifests beside the real API server (10000 of seed 1)
cargo xtask bench questions              where each node's pods would go if it were gone: 1 000 and 10 000 nodes
cargo xtask bench catalogue              EC2's catalogue for ten NodeClasses: time, memory, a changed price
cargo xtask bench scorers [NAME]        ns per offering of each policy through the real host
cargo xtask bench launches [CHECKOUT]   1 000 NodeClaims on the emulated EC2, beside another checkout's
cargo xtask bench classes                many NodePools with an EC2NodeClass each: time and memory of a plan
cargo xtask bench live [scale|mixes|churn|swaps|fold]…
                                        controllers on a real control plane: time, CPU, memory, cost
    --mixes N, --pods N                 how many platforms, of how many pods (20, 500)
    --minutes N                         how long pods come and go (10)
    --swaps N                           how often a policy is replaced (1000)
    --config FILE                       a longshore.toml for ours
    --only TEXT                         only cases of scale whose name contains TEXT
cargo xtask fuzz TARGET                 inputs made from a seed for one of the readers, until one panics
    --seconds N, --seed N               for so long, from this seed (60, 1)
cargo xtask plugins                     build the first-party policies
cargo xtask shipped                     write the policy that is in the binary again, from plugins/cel
cargo xtask examples                    build the example policies whose toolchain is found
cargo xtask cluster up|down|status|…    a real control plane on loopback; `cargo xtask cluster` says more
cargo xtask crds                        write deploy/crds and deploy/crds-aws again, and their copies in the chart
cargo xtask image                       the image that ships, as an OCI image layout
    --out DIR, --allow-dirty            to there; from files that are not committed, too
    --update-packages                   with the newest packages of Debian, which are locked
    --try                               then on a real control plane, installed with the charts; needs root
cargo xtask helm ARGS…                  Helm, built if it is not there yet
cargo xtask demo-cluster                write examples/clusters/web-shop.json again";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    let done = match args.first().map(String::as_str) {
        Some("demo") if rest == ["--aws"] => demo_aws::run(),
        Some("demo") => demo::run(&rest),
        Some("test") => test::run(&rest),
        Some("bench") => bench::run(&rest),
        Some("fuzz") => commands::run(fuzz(&rest)),
        Some("plugins") => {
            commands::plugins().map(|folder| println!("components are in {}", folder.display()))
        }
        Some("shipped") => shipped(),
        Some("examples") => examples(),
        Some("cluster") => cluster::run(&rest),
        Some("crds") => crds::write(),
        Some("image") => image::run(&rest),
        Some("helm") => helm(&rest),
        Some("demo-cluster" | "harbour") => demo_cluster::write(),
        other => {
            eprintln!("{USAGE}");
            return ExitCode::from(if matches!(other, None | Some("help" | "--help")) {
                0
            } else {
                2
            });
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The fuzzer of host/fuzz with its arguments, built as tests are: with debug assertions.
fn fuzz(args: &[&str]) -> std::process::Command {
    let mut command = commands::cargo(&[
        "run",
        "--package",
        "longshore-fuzz",
        "--bin",
        "longshore-fuzz",
        "--",
    ]);
    command.args(args);
    command
}

/// Helm with these arguments.
fn helm(args: &[&str]) -> anyhow::Result<()> {
    longshore_xtask::helm::build(&|line| println!("    {line}"))?;
    let mut command = longshore_xtask::helm::command()?;
    command.args(args).current_dir(root());
    commands::run(command)
}

/// Writes the component that is in the binary again.
fn shipped() -> anyhow::Result<()> {
    let file = root().join(guests::shipped::COMMITTED);
    let bytes = guests::shipped::build_shipped()?;
    let same = std::fs::read(&file).is_ok_and(|before| before == bytes);
    std::fs::write(&file, &bytes)?;
    let news = if same {
        "as it was"
    } else {
        "another one: commit it"
    };
    println!("{} has {} bytes, {news}", file.display(), bytes.len());
    Ok(())
}

/// Builds the example policies, and says which could not be.
fn examples() -> anyhow::Result<()> {
    for (language, built) in guests::build_examples()? {
        match built {
            guests::Built::Component(path) => println!("{language:<4} {}", path.display()),
            guests::Built::Skipped(reason) => println!("{language:<4} skipped: {reason}"),
        }
    }
    Ok(())
}
