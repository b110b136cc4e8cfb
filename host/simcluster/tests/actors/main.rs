//! Small scenarios about the actors and the cloud, in virtual time. Nothing of the daemon runs
//! here.

mod budgets;
mod cloud;
mod garbage;
mod kubelet;
mod nodes;
mod scene;
mod scheduling;
mod volumes;
mod whole;
mod workloads;
