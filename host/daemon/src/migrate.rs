//! `longshore migrate check`: what changes in a cluster of Karpenter's when Longshore takes it over.
//!
//! It reads the objects that Karpenter left, from files or from the API server, and writes nothing.
//! What the daemon would write is worked out by the daemon's own functions: the hashes, their
//! migration, drift, validation of NodeClasses and NodePools, settings, and the comparison of
//! resource definitions. Values of a chart are judged by the chart ([`chart`]), which the program has
//! in itself, and the objects that it makes of them by the API server ([`dry_run`]).
//!
//! What it cannot see is what only the cloud knows: whether an instance exists, and with which
//! security groups, subnet and image. `longshore plan --disrupt` says what consolidation would do.

mod chart;
mod claims;
mod classes;
mod cluster;
mod controller;
mod dry_run;
mod pools;
mod report;
#[cfg(test)]
mod tests;
mod values;

use crate::answer::Answer;
use crate::args::{MigrateCheckArgs, Output};
use longshore_live::error::Failure;

use cluster::Cluster;
use report::Report;

/// Reads a cluster and says what the take-over changes. Exit codes: [`Report::code`].
///
/// # Errors
/// Files that cannot be read, an API server that does not answer, or a cluster without any of
/// Karpenter's objects.
pub fn check(args: &MigrateCheckArgs) -> Result<Answer, Failure> {
    let mut cluster = match args.snapshot.is_empty() {
        false => Cluster::of_files(&args.snapshot)?,
        true => Cluster::of_server(args.kubeconfig.as_deref())?,
    };
    cluster.ca_bundle = args.cluster_ca_bundle.clone();
    let mut report = examine(&cluster);
    if let Some(file) = &args.values {
        let asked = match args.snapshot.is_empty() {
            true => values::Asked::Server(args.kubeconfig.as_deref()),
            false => values::Asked::Nobody,
        };
        values::check(file, &args.set, &cluster, asked, &mut report)?;
    }
    report.sort();
    let text = match args.output {
        Output::Text => report.text(),
        Output::Json => report.json(),
    };
    Ok(Answer {
        text,
        code: report.code(),
    })
}

/// Everything that is found in a cluster.
fn examine(cluster: &Cluster) -> Report {
    let mut report = Report::new(cluster);
    controller::check(cluster, &mut report);
    let pools = pools::check(cluster, &mut report);
    let classes = classes::check(cluster, &mut report);
    claims::check(cluster, &pools, &classes, &mut report);
    report
}
