//! The daemon in a simulated cluster, in virtual time.

mod canaries;
mod drains;
mod first_day;
mod first_party;
mod incidents;
mod kills;
mod late_taints;
mod loading;
mod manifests;
mod mutants;
mod night;
mod panics;
mod repair;
mod replanned;
mod scenarios;
mod seeds;
mod stalls;
mod static_pools;
