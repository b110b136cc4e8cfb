//! Whether Karpenter still runs, how it was set up, and the resource definitions.

use std::collections::BTreeMap;

use longshore_api::crd::Timestamp;
use longshore_api::crd::definition::{self, Definition};
use longshore_api::manifests::overlays;
use longshore_core::model::Symbols;
use longshore_ec2::catalogue::machine::OWN_RESOURCES;
use longshore_ec2::nodeclass;
use serde_json::Value;

use super::chart::Release;
use super::cluster::{Cluster, Object};
use super::report::{Level, Report};
use crate::settings;
use longshore_live::error::Failure;
use longshore_live::observe::definitions::{Difference, INSTALL, difference};
use longshore_report::count;

/// The definitions that Longshore ships.
pub fn definitions() -> Vec<Definition> {
    let mut all = definition::all();
    all.push(nodeclass::definition());
    all
}

/// Looks at the Lease, at Karpenter's Deployment, at definitions, and at kinds of objects that have
/// another effect here.
pub fn check(cluster: &Cluster, report: &mut Report) {
    for lease in cluster.all("Lease") {
        check_lease(lease, cluster, report);
    }
    let mut gates = None;
    for deployment in cluster.all("Deployment") {
        check_deployment(deployment, cluster, report, &mut gates);
    }
    check_definitions(cluster, report);
    check_overlays(cluster, gates.as_ref(), report);
    for buffer in cluster.all("CapacityBuffer") {
        let on = gates
            .as_ref()
            .map(|gates| gates.get("CapacityBuffer") == Some(&true));
        let (level, hint) = match on {
            Some(true) => (
                Level::Differs,
                "Karpenter keeps it, with feature gate CapacityBuffer.",
            ),
            Some(false) => (
                Level::Note,
                "Nor does Karpenter without feature gate CapacityBuffer.",
            ),
            None => {
                let hint = "Nor does Karpenter without feature gate CapacityBuffer. Karpenter's \
                            Deployment would say whether it is on.";
                (Level::Differs, hint)
            }
        };
        let what = "Longshore keeps no spare capacity for it.";
        report.add(level, buffer, "", what, hint);
    }
}

/// Karpenter's Deployment, and its containers: neither Longshore's own nor one without any.
fn karpenters(cluster: &Cluster) -> Option<&Object> {
    let mut all = cluster.all("Deployment");
    all.find(|one| containers(one).next().is_some() && !containers(one).any(is_longshore))
}

fn containers(deployment: &Object) -> impl Iterator<Item = &Value> {
    let all = deployment.value["spec"]["template"]["spec"]["containers"].as_array();
    all.into_iter().flatten()
}

/// The release that Karpenter's Deployment belongs to, or the usual one.
pub fn release(cluster: &Cluster) -> Release {
    let deployment = karpenters(cluster).or_else(|| cluster.all("Deployment").next());
    let text = |key: fn(&Value) -> &Value, or: &str| {
        let found = deployment.and_then(|one| key(&one.value["metadata"]).as_str());
        found
            .filter(|text| !text.is_empty())
            .unwrap_or(or)
            .to_owned()
    };
    let named = text(
        |one| &one["labels"]["app.kubernetes.io/instance"],
        "karpenter",
    );
    Release {
        name: text(
            |one| &one["annotations"]["meta.helm.sh/release-name"],
            &named,
        ),
        namespace: text(|one| &one["namespace"], "kube-system"),
    }
}

/// The oldest Karpenter that one may come from, and the one that Longshore follows: minor versions
/// of 1.
const VERSIONS: (u32, u32) = (3, 15);

/// What the version of Karpenter's image means for the take-over.
fn check_version(deployment: &Object, container: &Value, report: &mut Report) {
    let image = container["image"].as_str().unwrap_or_default();
    let Some((major, minor)) = version(image) else {
        return;
    };
    let (oldest, newest) = VERSIONS;
    let field = "spec.template.spec.containers";
    if (major, minor) < (1, oldest) {
        let what = format!("It is Karpenter {major}.{minor}.");
        let hint = format!(
            "Upgrade Karpenter to 1.{oldest} or later first: from an older one hashes and tags are \
             not taken over."
        );
        report.add(Level::Blocks, deployment, field, what, hint);
    } else if (major, minor) > (1, newest) {
        let what = format!("It is Karpenter {major}.{minor}, and Longshore follows 1.{newest}.");
        let hint = "What is new in it is not known here.";
        report.add(Level::Differs, deployment, field, what, hint);
    }
}

/// Major and minor version in the tag of an image.
fn version(image: &str) -> Option<(u32, u32)> {
    let image = image.split('@').next()?;
    let (_, tag) = image.rsplit_once(':')?;
    let mut parts = tag.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// How long a Lease without a duration holds, seconds.
const DEFAULT_LEASE_SECONDS: i64 = 15;

fn check_lease(lease: &Object, cluster: &Cluster, report: &mut Report) {
    let spec = &lease.value["spec"];
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    if holder.is_empty() {
        let what = "No process holds it: Longshore becomes leader when it starts.";
        return report.add(Level::Note, lease, "", what, "");
    }
    let renewed = spec["renewTime"].as_str();
    let renewed = renewed.and_then(|text| text.parse::<Timestamp>().ok());
    let holds = spec["leaseDurationSeconds"]
        .as_i64()
        .unwrap_or(DEFAULT_LEASE_SECONDS);
    let ago = renewed.map(|at| cluster.now.as_second() - at.as_second());
    match ago.filter(|ago| *ago <= holds) {
        Some(ago) => {
            let what = format!(
                "{holder} holds it and renewed it {} before the cluster was read.",
                count(usize::try_from(ago).unwrap_or(0), "second")
            );
            let hint = "While Karpenter holds it, Longshore stands by and writes nothing, if it \
                        is given the same Lease. So `helm upgrade` in place is safe.";
            report.add(Level::Note, lease, "", what, hint);
        }
        None => {
            let what = format!("{holder} held it and does not renew it: it takes {holds} s more.");
            let hint = "Karpenter ended without giving it back, or was killed.";
            report.add(Level::Note, lease, "", what, hint);
        }
    }
}

/// Whether a container runs Longshore: the chart's arguments begin with `run`.
fn is_longshore(container: &Value) -> bool {
    let image = container["image"].as_str().unwrap_or_default();
    let named = container["command"][0] == "longshore";
    container["args"][0] == "run" || named || image.contains("longshore")
}

/// Checks environment variables and arguments of the containers of a Deployment.
fn check_deployment(
    deployment: &Object,
    cluster: &Cluster,
    report: &mut Report,
    gates: &mut Option<BTreeMap<String, bool>>,
) {
    // Longshore's own Deployment may have containers beside the daemon's.
    if containers(deployment).any(is_longshore) {
        return;
    }
    let Some(container) = containers(deployment).next() else {
        return;
    };
    check_version(deployment, container, report);
    let settings = settings_of(container);
    let gates = gates.get_or_insert_default();
    let runs = deployment.value["spec"]["replicas"].as_i64().unwrap_or(1) > 0;
    let without_lease = settings
        .get("DISABLE_LEADER_ELECTION")
        .is_some_and(|set| set != "false");
    if runs && without_lease {
        let what = "Karpenter runs without leader election: nothing keeps two controllers apart.";
        let hint = "Scale it to 0 before Longshore starts.";
        report.add(Level::Blocks, deployment, "spec.replicas", what, hint);
    }
    let on_ec2 = cluster.all("EC2NodeClass").next().is_some();
    let get = |name: &str| settings.get(name).cloned();
    for (level, what, hint) in said_of_settings(get, on_ec2) {
        report.add(level, deployment, "", what, hint);
    }
    for gate in settings
        .get("FEATURE_GATES")
        .map_or("", String::as_str)
        .split(',')
    {
        if let Some((name, value)) = gate.trim().split_once('=') {
            gates.insert(name.to_owned(), value == "true");
        }
    }
}

/// Variables of a container and flags of its arguments, by variable. Flags win.
pub fn settings_of(container: &Value) -> BTreeMap<String, String> {
    use crate::args::karpenter::FLAGS;
    let mut settings = BTreeMap::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str();
        if let (Some(name), Some(value)) = (name, variable["value"].as_str()) {
            settings.insert(name.to_owned(), value.to_owned());
        }
    }
    let arguments = container["args"].as_array();
    let arguments = arguments.into_iter().flatten().filter_map(Value::as_str);
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let flag = argument.trim_start_matches('-');
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) else {
            continue;
        };
        // A flag with a value may have it as the next argument.
        let next = || arguments.next_if(|_| flag.value.is_some());
        let value = value.or_else(next).unwrap_or("true");
        settings.insert(flag.variable.to_owned(), value.to_owned());
    }
    settings
}

/// What settings of Karpenter's that have no meaning here come to.
pub fn said_of_settings(
    get: impl Fn(&str) -> Option<String>,
    on_ec2: bool,
) -> Vec<(Level, String, String)> {
    let mut said = Vec::new();
    let mut failed = |failure: Failure| {
        let what = format!("Longshore refuses it: {failure}.");
        let hint = match failure {
            Failure::Usage { hint, .. } => hint,
            _ => String::new(),
        };
        said.push((Level::Blocks, what, hint));
    };
    let mut notes = Vec::new();
    match settings::read(&get, on_ec2) {
        Ok(read) => notes.extend(read.notes),
        Err(failure) => failed(failure),
    }
    if on_ec2 {
        match settings::aws::read(&get) {
            Ok(read) => notes.extend(read.notes),
            Err(failure) => failed(failure),
        }
    }
    for note in notes {
        let level = match note.about_nodes {
            true => Level::Differs,
            false => Level::Note,
        };
        said.push((level, format!("{}.", note.what), String::new()));
    }
    said
}

fn check_definitions(cluster: &Cluster, report: &mut Report) {
    let there: Vec<&Object> = cluster.all("CustomResourceDefinition").collect();
    if there.is_empty() {
        // Files without definitions say nothing about them.
        return;
    }
    let uses = |kind: &str| cluster.all(kind).next().is_some();
    let more = match uses("EC2NodeClass") {
        true => ", and then the same with deploy/crds-aws",
        false => "",
    };
    for ours in definitions() {
        let kind = ours.json()["spec"]["names"]["kind"].as_str();
        let kind = kind.unwrap_or_default();
        let needed = uses(kind) || matches!(kind, "NodePool" | "NodeClaim");
        let theirs = there.iter().find(|one| one.name() == ours.name());
        match theirs {
            None if needed => {
                let of = ("CustomResourceDefinition", ours.name());
                let what = "It is not installed.";
                report.add_of(Level::Blocks, of, "", what, format!("Run {INSTALL}{more}."));
            }
            None => {}
            Some(theirs) => {
                if let Some(difference) = difference(&ours, &theirs.value) {
                    let level = match difference {
                        Difference::Version { .. } => Level::Blocks,
                        Difference::Fields { .. } => Level::Differs,
                    };
                    let what = format!("{difference}.");
                    let hint = format!("Run {INSTALL}{more}; no object changes by it.");
                    report.add(level, theirs, "", what, hint);
                }
            }
        }
    }
}

fn check_overlays(cluster: &Cluster, gates: Option<&BTreeMap<String, bool>>, report: &mut Report) {
    for overlay in cluster.all("NodeOverlay") {
        let bytes = overlay.document.text().as_bytes();
        let mut names = Symbols::default();
        let (_, faults) = overlays("", bytes, &OWN_RESOURCES, &mut names);
        for said in faults.list {
            report.add_diagnostic(Level::Differs, overlay, said);
        }
        if gates.and_then(|gates| gates.get("NodeOverlay")) != Some(&true) {
            let what = "It has no effect without feature gate NodeOverlay.";
            report.add(Level::Note, overlay, "", what, "");
        }
    }
}
