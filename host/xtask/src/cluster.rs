//! `cargo xtask cluster …`: a control plane for experiments.

use std::os::unix::process::CommandExt as _;
use std::path::Path;

use anyhow::{Result, bail};
use longshore_xtask::control_plane::{self, Cluster, Program, ProgramState};

use crate::commands::{bold, table};

const USAGE: &str = "\
cargo xtask cluster up                  bring up a control plane, or what of it does not run
cargo xtask cluster down                end it and remove its data
cargo xtask cluster status              what runs, where, and what it uses; of all clusters without --name or --dir
cargo xtask cluster kubectl ARGUMENTS…  kubectl as the administrator
cargo xtask cluster build               only build the programs, into the cache
    --name NAME                         which cluster (default: dev)
    --dir FOLDER                        a cluster outside the cache";

/// Does what the arguments say.
pub fn run(args: &[&str]) -> Result<()> {
    let (options, rest) = ClusterOptions::parse(args)?;
    let (command, mut rest) = rest
        .split_first()
        .map_or(("", rest), |(first, rest)| (*first, rest));
    // Options may stand on either side of the command.
    let (more, after) = ClusterOptions::parse(rest)?;
    rest = after;
    let options = ClusterOptions {
        name: more.name.or(options.name),
        folder: more.folder.or(options.folder),
    };
    if !rest.is_empty() && command != "kubectl" {
        bail!("unknown argument {:?}\n\n{USAGE}", rest[0]);
    }
    match command {
        "up" => up(&options.cluster()?),
        "down" => down(&options.cluster()?),
        "status" => status(&options),
        // Takes our place: its exit code is ours.
        "kubectl" => Err(options.cluster()?.kubectl()?.args(rest).exec().into()),
        "build" => control_plane::build(&say),
        "" | "help" | "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("unknown command {other:?}\n\n{USAGE}"),
    }
}

/// Which cluster.
#[derive(Clone, Copy, Default)]
struct ClusterOptions<'a> {
    name: Option<&'a str>,
    folder: Option<&'a str>,
}

impl<'a> ClusterOptions<'a> {
    /// Takes our options from the front; what follows is for others.
    fn parse<'b>(mut args: &'b [&'a str]) -> Result<(Self, &'b [&'a str])> {
        let mut options = Self::default();
        loop {
            match args {
                ["--name", name, rest @ ..] => (options.name, args) = (Some(*name), rest),
                ["--dir", folder, rest @ ..] => (options.folder, args) = (Some(*folder), rest),
                [option @ ("--name" | "--dir")] => bail!("{option} wants a value\n\n{USAGE}"),
                _ => return Ok((options, args)),
            }
        }
    }

    fn cluster(&self) -> Result<Cluster> {
        match (self.name, self.folder) {
            (Some(_), Some(_)) => bail!("--name or --dir, not both"),
            (None, Some(folder)) => Cluster::at(Path::new(folder)),
            (name, None) => Cluster::named(name.unwrap_or("dev")),
        }
    }
}

fn say(line: &str) {
    println!("    {line}");
}

fn up(cluster: &Cluster) -> Result<()> {
    println!(
        "{}",
        bold(&format!(
            "==> control plane in {}",
            cluster.folder().display()
        ))
    );
    cluster.up(None, &say)?;
    println!(
        "\nfor everything         export KUBECONFIG={}",
        cluster.admin_kubeconfig().display()
    );
    println!(
        "for Longshore's rights export KUBECONFIG={}",
        cluster.longshore_kubeconfig().display()
    );
    Ok(())
}

fn down(cluster: &Cluster) -> Result<()> {
    if !cluster.exists() {
        println!("there is no cluster in {}", cluster.folder().display());
        return Ok(());
    }
    cluster.down()?;
    println!("removed {}", cluster.folder().display());
    Ok(())
}

fn status(options: &ClusterOptions<'_>) -> Result<()> {
    let clusters = match options {
        ClusterOptions {
            name: None,
            folder: None,
        } => Cluster::all()?,
        _ => Some(options.cluster()?)
            .into_iter()
            .filter(Cluster::exists)
            .collect(),
    };
    if clusters.is_empty() {
        println!("no cluster: cargo xtask cluster up");
    }
    for cluster in clusters {
        println!("{}", bold(&cluster.folder().display().to_string()));
        if let Some(owner) = cluster.owner() {
            println!(
                "belongs to process {}{}",
                owner.id(),
                if owner.runs() {
                    ""
                } else {
                    ", which has ended"
                }
            );
        }
        let states = cluster.status()?;
        let headings = [
            "PROGRAM", "VERSION", "STATE", "PID", "PORT", "RSS MiB", "CPU s",
        ];
        println!(
            "{}",
            table(&headings, &states.iter().map(row).collect::<Vec<_>>())
        );
    }
    Ok(())
}

fn row(state: &ProgramState) -> Vec<String> {
    let of = |name: Program| name.name().to_owned();
    let (word, id, memory, cpu) = match &state.running {
        Some((process, usage)) => (
            "runs",
            process.id().to_string(),
            (usage.resident >> 10).to_string(),
            format!("{:.1}", usage.cpu.as_secs_f64()),
        ),
        None => ("ended", String::new(), String::new(), String::new()),
    };
    let port = state.port.to_string();
    vec![
        of(state.program),
        state.version.clone(),
        word.to_owned(),
        id,
        port,
        memory,
        cpu,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_where_the_arguments_of_kubectl_begin() {
        let args = ["--name", "a", "get", "pods", "--name", "b"];
        let (options, rest) = ClusterOptions::parse(&args).unwrap();
        assert_eq!(
            (options.name, rest),
            (Some("a"), &["get", "pods", "--name", "b"][..])
        );
    }

    #[test]
    fn an_option_without_a_value_is_said() {
        assert!(ClusterOptions::parse(&["--dir"]).is_err());
    }
}
