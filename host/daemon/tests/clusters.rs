//! Suites on a real control plane, one after the other: `cargo test --test clusters -- repair::`
//! runs one of them. `cargo xtask test` runs each as a program of its own, some beside each other.

mod bundles_live;
mod deaths;
mod deleted_leader;
mod disruption_live;
mod journal_live;
mod one_pod_live;
mod operation;
mod overlays_live;
#[allow(dead_code, reason = "its other users need the rest")]
mod plane;
mod regression;
mod repair;
mod shared_cluster;
mod takeover;
mod tight;

fn main() {
    let arguments = libtest_mimic::Arguments::from_args();
    let suites = [
        operation::suite,
        deaths::suite,
        deleted_leader::suite,
        journal_live::suite,
        repair::suite,
        disruption_live::suite,
        overlays_live::suite,
        bundles_live::suite,
        one_pod_live::suite,
        regression::suite,
        shared_cluster::suite,
        takeover::suite,
        tight::suite,
    ];
    let failed = suites.map(|suite| suite().run(&arguments));
    plane::exit(failed.contains(&true));
}
