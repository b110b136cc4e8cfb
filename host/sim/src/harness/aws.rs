//! EC2 in place of the simulated cloud: the daemon's provider with AWS's SDK on the emulated AWS, in
//! virtual time and without a socket.
//!
//! The [`Account`] outlives the daemon's processes, as an account of AWS does. Each process has
//! clients of its own, whose every request passes the interceptor: it is counted, it may be the
//! place of a death or be struck by a fault, and judges look at it. A kubelet stand-in makes a Node
//! of each instance as its user data says.

pub(super) mod account;
mod fleets;
mod kubelets;
mod wire;

use std::sync::Arc;
use std::time::SystemTime;

use kube::Client;
use longshore_aws::clients::Clients;
use longshore_aws::provider::{Clock as Now, Settings};
use longshore_ec2::userdata::Cluster;
use longshore_live::aws::simulated;
use longshore_live::environment::Cloud;
use longshore_live::error::Failure;
use longshore_live::policies::PolicyReloader;
use longshore_live::process::clock::Clock;

pub use account::{Account, AccountOptions};

use super::interceptor::Interceptor;
use wire::Wire;

/// What a process begins with: its clients, and the provider that they make.
///
/// # Errors
/// AWS does not answer what nothing works without: the process ends, and another follows.
pub(super) async fn begin(
    account: &Arc<Account>,
    interceptor: &Arc<Interceptor>,
    process: &str,
    client: &Client,
    clock: Clock,
    policies: PolicyReloader,
) -> Result<Cloud, Failure> {
    let wire = Wire {
        account: account.clone(),
        interceptor: interceptor.clone(),
        client: process.to_owned(),
    };
    let now: Now = Arc::new(move || SystemTime::from(clock.now()));
    let clients = Clients::in_process(account.region(), Arc::new(wire), now.clone());
    let settings = Settings {
        cluster: Cluster {
            name: account.cluster().to_owned(),
            ..Cluster::default()
        },
        ..Settings::default()
    };
    let queue = Some(account.queue().to_owned());
    simulated(clients, client, settings, queue, now, policies).await
}
