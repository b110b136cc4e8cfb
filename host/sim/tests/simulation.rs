//! The daemon in a simulated cluster, in virtual time.

mod drains;
mod first_day;
mod first_party;
mod incidents;
mod kills;
mod late_taints;
mod loading;
mod mutants;
mod night;
mod panics;
mod repair;
mod scenarios;
mod seeds;
mod stalls;
mod static_pools;
