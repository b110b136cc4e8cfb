//! Reads manifests and instance types from files, one after the other, into observed objects.
//!
//! An invalid object becomes a [`Diagnostic`] and reading continues. A file without any object is
//! an error that lists all problems found, because a plan on half of the input would mislead. The
//! time is that of the youngest object, so that the same files give the same plan tomorrow.

pub mod aws;
mod overlays;
mod region;
mod unhealthy;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use longshore_api::crd::NodeClassRef;
use longshore_api::manifests::{Diagnostic, Diagnostics, Location, Reader};
use longshore_cloud::RepairPolicy;
use longshore_core::model::{ClusterObjects, NodePool, Pod};
use serde_json::{Value, json};

use crate::options::ResolvedOptions;
use crate::spread::default_spread;
use longshore_live::error::Failure;
use longshore_live::managed::Managed;

/// Most bytes that a packed file may unpack to: a hundred times all instance types of EC2.
const MAX_UNPACKED_BYTES: u64 = 512 << 20;
/// The most that a file or standard input may have.
const MAX_INPUT_BYTES: u64 = 2 << 30;

/// Reads what `options` name.
pub fn read(options: &ResolvedOptions) -> Result<(ClusterObjects, Diagnostics), Failure> {
    let mut reader = Reader::of_manifests();
    let mut classes = aws::Classes::default();
    let mut overlays = overlays::Texts::default();
    let mut nodes = unhealthy::Nodes::default();
    for file in &options.snapshot {
        let bytes = bytes(file)?;
        reader.read(&shown(file), &bytes);
        if options.aws.is_some() {
            classes.read(&shown(file), &bytes);
        }
        if options.repairs {
            nodes.read(&shown(file), &bytes);
        }
        if options.node_overlay {
            overlays.hold(shown(file), bytes);
        }
    }
    let (mut world, mut problems) = reader.finish();
    let bare = is_bare(&world);
    if let Some(first) = problems
        .list
        .iter()
        .find(|problem| bare || is_broken(problem))
    {
        return Err(Failure::Unusable {
            source_name: first.location.source.clone(),
            problems,
        });
    }
    let aws = options
        .aws
        .as_ref()
        .filter(|_| !options.by_manifests || is_of_ec2(&world, &classes));
    let managed = match aws {
        Some(_) => Managed::EC2,
        None => Managed::KWOK,
    };
    managed.enter(&mut world);
    let source = match options.snapshot.as_slice() {
        [only] => shown(only),
        _ => "the manifests".to_owned(),
    };
    foreign_pools(&world, managed, &source, &mut problems);
    untried_pods(&world, &source, &mut problems);
    passed_over(&world, options, &source, &mut problems);
    world.settings = options.settings.clone();
    if let Some(config) = &options.scheduler {
        world.settings.default_spread = default_spread(config, &mut world.names)?;
    }
    world.now = youngest(&world);
    let repairs: &[RepairPolicy] = match aws {
        Some(_) => &longshore_ec2::repair::POLICIES,
        None => &longshore_kwok::provider::REPAIR_POLICIES,
    };
    nodes.enter(&mut world, repairs);
    let types = options.instance_types.as_deref();
    let overlays = overlays.read(&mut world, aws.is_some(), &mut problems);
    match aws {
        Some(aws) => classes.catalogue(&mut world, aws, types, overlays.list(), &mut problems)?,
        None => {
            // Nothing is bought for them, and what is wrong with them is said all the same.
            let of_classes = classes.problems().into_iter();
            of_classes.for_each(|problem| problems.push(problem));
            catalogue(&mut world, types, &mut problems)?;
        }
    }
    overlays.apply(&mut world, &mut problems);
    Ok((world, problems))
}

/// Whether manifests are those of a cluster on EC2: more NodePools name EC2NodeClasses than KWOK's,
/// or, without either, there is an EC2NodeClass or a Node on EC2.
fn is_of_ec2(world: &ClusterObjects, classes: &aws::Classes) -> bool {
    let text = |symbol| world.names.text(symbol);
    let pools = |of: Managed| {
        let classes = world.pools.iter().map(|pool| kind_of(world, pool));
        classes.filter(|class| of.names(class)).count()
    };
    match (pools(Managed::EC2), pools(Managed::KWOK)) {
        (0, 0) => {
            let on_ec2 = |id| text(id).starts_with("aws://");
            classes.has_some()
                || world
                    .nodes
                    .iter()
                    .any(|node| node.provider_id.is_some_and(on_ec2))
        }
        (ec2, kwok) => ec2 > kwok,
    }
}

/// The kind of NodeClass that a NodePool names.
fn kind_of(world: &ClusterObjects, pool: &NodePool) -> NodeClassRef {
    let text = |symbol| world.names.text(symbol).to_owned();
    NodeClassRef {
        group: text(pool.class.group),
        kind: text(pool.class.kind),
        ..NodeClassRef::default()
    }
}

/// NodePools of other providers are problems: nothing is planned for them.
fn foreign_pools(
    world: &ClusterObjects,
    managed: Managed,
    source: &str,
    problems: &mut Diagnostics,
) {
    let text = |symbol| world.names.text(symbol);
    for pool in world.pools.iter().filter(|pool| !world.manages(pool.class)) {
        let (group, kind) = (text(pool.class.group), text(pool.class.kind));
        let class = kind_of(world, pool);
        let mut all = [Managed::EC2, Managed::KWOK].into_iter();
        let other = all.find(|other| other.names(&class));
        let hint = match other {
            Some(Managed::EC2) => {
                "plan with --provider aws, or without --provider and --instance-types"
            }
            Some(_) => "plan with --provider kwok",
            None => "its own controller buys for it; its nodes have room for pods all the same",
        };
        problems.push(Diagnostic {
            location: Location {
                source: source.to_owned(),
                ..Location::default()
            },
            kind: "NodePool".into(),
            name: text(pool.name).to_owned(),
            field: "spec.template.spec.nodeClassRef".into(),
            what: format!(
                "is {kind} ({group}), and nodes are bought here for {} only: nothing is bought for it",
                managed.text()
            ),
            hint: hint.into(),
        });
    }
}

/// Pods that wait and that kube-scheduler has not refused are not planned for, which is said once.
fn untried_pods(world: &ClusterObjects, source: &str, problems: &mut Diagnostics) {
    let text = |symbol| world.names.text(symbol);
    let is_untried = |pod: &Pod| {
        let daemon = pod.owner.is_some_and(|(kind, _)| text(kind) == "DaemonSet");
        let gone = pod.terminal || pod.deleting || pod.is_static || daemon;
        let planned = pod.unschedulable || pod.unattempted;
        pod.node.is_none() && pod.nominated.is_none() && !gone && !planned
    };
    let name_of = |pod: &Pod| {
        let namespace = text(world.shapes.get(pod.shape).namespace);
        format!("{namespace}/{}", pod.name)
    };
    // Of a pod that cannot be read something is said already.
    let unreadable: BTreeSet<String> = problems
        .list
        .iter()
        .filter(|problem| problem.kind == "Pod")
        .map(|problem| problem.name.clone())
        .collect();
    let untried = world
        .pods
        .iter()
        .filter(|pod| is_untried(pod) && !unreadable.contains(&name_of(pod)));
    let (gated, untried): (Vec<&Pod>, Vec<&Pod>) = untried.partition(|pod| pod.gated);
    let others = |pods: &[&Pod]| match pods.len() - 1 {
        0 => String::new(),
        1 => " (and 1 other pod)".to_owned(),
        count => format!(" (and {count} other pods)"),
    };
    let mut say = |pods: &[&Pod], field: &str, what: String, hint: &str| {
        problems.push(Diagnostic {
            location: Location {
                source: source.to_owned(),
                ..Location::default()
            },
            kind: "Pod".into(),
            name: name_of(pods[0]),
            field: field.into(),
            what,
            hint: hint.into(),
        });
    };
    if !gated.is_empty() {
        let what = format!(
            "keep kube-scheduler from trying it{}: nothing is planned for it until they are removed",
            others(&gated)
        );
        let hint = "whoever set the gates removes them";
        say(&gated, "spec.schedulingGates", what, hint);
    }
    if !untried.is_empty() {
        let what = format!(
            "say nothing of kube-scheduler{}: only pods with condition PodScheduled False and \
            reason Unschedulable are planned for",
            others(&untried)
        );
        let hint = "add the condition to a manifest that was written by hand";
        say(&untried, "status.conditions", what, hint);
    }
}

/// Says which kinds of the input do not count, though a user may expect them to.
fn passed_over(
    world: &ClusterObjects,
    options: &ResolvedOptions,
    source: &str,
    problems: &mut Diagnostics,
) {
    let says = |kind: &str, what: String, hint: &str| Diagnostic {
        location: Location {
            source: source.to_owned(),
            ..Location::default()
        },
        kind: kind.to_owned(),
        what,
        hint: hint.to_owned(),
        ..Diagnostic::default()
    };
    let found = |kind: &&str| problems.ignored.contains_key(*kind);
    let mut said = Vec::new();
    if !options.node_overlay && found(&"NodeOverlay") {
        let what = "is an alpha kind that does not count by default".to_owned();
        let hint = "plan with --feature-gates NodeOverlay=true";
        said.push(says("NodeOverlay", what, hint));
    }
    let workloads = ["Deployment", "Job", "CronJob"];
    let alone = workloads.into_iter().find(found);
    if let Some(kind) = alone.filter(|_| world.pods.is_empty()) {
        let what = "makes no pods here, and there are none: only Pods are planned for".to_owned();
        let hint = "add the pods that it makes, as `kubectl get pods -o yaml` shows them";
        said.push(says(kind, what, hint));
    }
    said.into_iter().for_each(|one| problems.push(one));
}

/// Objects with nothing but instance types.
pub fn catalogue_only(file: Option<&Path>) -> Result<(ClusterObjects, Diagnostics), Failure> {
    let (mut world, mut problems) = (ClusterObjects::default(), Diagnostics::default());
    catalogue(&mut world, file, &mut problems)?;
    Ok((world, problems))
}

/// Reads what is in files with a reader of bytes, which is given the name of each. Anything that
/// cannot be read is a failure that lists all of it; nothing is left out silently.
pub fn all<T>(
    files: &[PathBuf],
    mut read: impl FnMut(&str, &[u8]) -> (Vec<T>, Diagnostics),
) -> Result<Vec<T>, Failure> {
    let (mut all, mut problems) = (Vec::new(), Diagnostics::default());
    for file in files {
        let (found, faults) = read(&shown(file), &bytes(file)?);
        all.extend(found);
        faults
            .list
            .into_iter()
            .for_each(|problem| problems.push(problem));
        problems.more += faults.more;
    }
    match problems.list.first() {
        None => Ok(all),
        Some(first) => Err(Failure::Unusable {
            source_name: first.location.source.clone(),
            problems,
        }),
    }
}

/// Prints problems on standard error, one a line.
pub fn complain(problems: &Diagnostics) {
    eprint!("{problems}");
}

/// A problem as an object for programs.
pub fn object(problem: &Diagnostic) -> Value {
    let Diagnostic {
        location: place,
        kind,
        name,
        field,
        what,
        hint,
    } = problem;
    json!({
        "file": place.source,
        "document": place.document,
        "item": place.item,
        "line": place.line,
        "kind": kind,
        "name": name,
        "field": field,
        "reason": what,
        "hint": hint,
    })
}

/// Whether a problem is about a whole text and no document of it: nothing of it was read, or it ends
/// in the middle, so that nobody knows what is missing.
fn is_broken(problem: &Diagnostic) -> bool {
    problem.kind.is_empty() && (problem.location.document == 0 || problem.is_cut_short())
}

fn is_bare(world: &ClusterObjects) -> bool {
    world.pods.is_empty() && world.nodes.is_empty() && world.pools.is_empty()
}

/// The latest timestamp of any object, in seconds since 1970.
fn youngest(world: &ClusterObjects) -> i64 {
    let pods = world
        .pods
        .iter()
        .map(|pod| pod.created.max(pod.started.unwrap_or(0)));
    let nodes = world.nodes.iter().map(|node| node.created);
    let claims = world.claims.iter().map(|claim| claim.created);
    pods.chain(nodes).chain(claims).max().unwrap_or(0)
}

fn catalogue(
    world: &mut ClusterObjects,
    file: Option<&Path>,
    problems: &mut Diagnostics,
) -> Result<(), Failure> {
    let Some(file) = file else {
        world.catalogue = longshore_kwok::catalogue::built_in(&mut world.names);
        return Ok(());
    };
    let (catalogue, found) =
        longshore_kwok::catalogue::parse(&shown(file), &bytes(file)?, &mut world.names);
    if let Some(first) = found.list.first().filter(|_| catalogue.types().is_empty()) {
        return Err(Failure::Unusable {
            source_name: first.location.source.clone(),
            problems: found,
        });
    }
    world.catalogue = catalogue;
    found
        .list
        .into_iter()
        .for_each(|problem| problems.push(problem));
    problems.more += found.more;
    Ok(())
}

/// How a file is called in messages.
pub fn shown(file: &Path) -> String {
    if file.as_os_str() == "-" {
        "standard input".into()
    } else {
        file.display().to_string()
    }
}

/// As [`bytes()`], unpacked if the file's name ends in `.gz`.
pub fn unpacked(file: &Path) -> Result<Vec<u8>, Failure> {
    let packed = bytes(file)?;
    if file.extension().is_none_or(|extension| extension != "gz") {
        return Ok(packed);
    }
    let mut all = Vec::new();
    match flate2::read::GzDecoder::new(packed.as_slice())
        .take(MAX_UNPACKED_BYTES)
        .read_to_end(&mut all)
    {
        Ok(size) if size as u64 == MAX_UNPACKED_BYTES => Err(Failure::Input {
            file: file.into(),
            reason: format!("unpacks to more than {} MiB", MAX_UNPACKED_BYTES >> 20),
            hint: "unpack it and look at what is in it".into(),
        }),
        Ok(_) => Ok(all),
        Err(error) => Err(Failure::Input {
            file: file.into(),
            reason: format!("is not gzip: {error}"),
            hint: "the file may have been cut short, or its name is wrong".into(),
        }),
    }
}

/// The content of a file, or of standard input for `-`.
pub fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    // A pipe is read, too: `longshore plan --snapshot <(kubectl get … -o json)`.
    let read = match file.as_os_str() == "-" {
        true => longshore_files::read_stream(std::io::stdin().lock(), MAX_INPUT_BYTES),
        false => std::fs::File::open(file)
            .and_then(|source| longshore_files::read_stream(source, MAX_INPUT_BYTES)),
    };
    read.map_err(|source| Failure::Read {
        file: file.into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};
    use crate::options;

    #[test]
    fn of_several_documents_that_cannot_be_used_each_is_reported() {
        let folder = std::env::temp_dir().join(format!("longshore-input-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let bad = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: NAME\n";
        let texts = [
            (
                "a.yaml",
                bad.replace("NAME", "one") + "---\n" + &bad.replace("NAME", "two"),
            ),
            ("b.json", "{".into()),
        ];
        let mut line = vec!["longshore".to_owned(), "plan".to_owned()];
        for (name, text) in texts {
            std::fs::write(folder.join(name), text).unwrap();
            line.extend([
                "--snapshot".to_owned(),
                folder.join(name).display().to_string(),
            ]);
        }
        let Command::Plan(args) = Args::parse_from(line).command else {
            panic!("not a plan")
        };
        let report = read(&options::resolve(&args.world).unwrap())
            .unwrap_err()
            .report();
        for problem in ["default/one", "default/two", "is not JSON"] {
            assert_eq!(report.matches(problem).count(), 1, "{problem} in {report}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
