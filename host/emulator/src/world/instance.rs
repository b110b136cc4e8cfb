//! An instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::time::Time;

/// The life of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Bought, not started.
    Pending,
    /// Started.
    Running,
    /// Ending.
    ShuttingDown,
    /// Ended; still described for an hour.
    Terminated,
}

impl InstanceState {
    /// EC2's name.
    pub fn name(self) -> &'static str {
        match self {
            InstanceState::Pending => "pending",
            InstanceState::Running => "running",
            InstanceState::ShuttingDown => "shutting-down",
            InstanceState::Terminated => "terminated",
        }
    }

    /// EC2's number.
    pub fn code(self) -> u8 {
        match self {
            InstanceState::Pending => 0,
            InstanceState::Running => 16,
            InstanceState::ShuttingDown => 32,
            InstanceState::Terminated => 48,
        }
    }

    /// Whether it can still be terminated.
    pub fn lives(self) -> bool {
        matches!(self, InstanceState::Pending | InstanceState::Running)
    }
}

/// How capacity is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapacityType {
    OnDemand,
    Spot,
    /// From a capacity reservation.
    Reserved,
}

impl CapacityType {
    /// The name in manifests and world files.
    pub fn name(self) -> &'static str {
        match self {
            CapacityType::OnDemand => "on-demand",
            CapacityType::Spot => "spot",
            CapacityType::Reserved => "reserved",
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `eni-…`.
    pub id: String,
    /// `interface`, `efa`, `efa-only`.
    pub kind: String,
    /// Its place on the network card.
    pub device: u32,
    /// The network card.
    pub card: u32,
    /// IPv4 prefixes.
    pub prefixes: u32,
    /// Addresses that it takes of the subnet.
    pub addresses: u32,
}

/// An event that EC2 plans for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// `instance-retirement`.
    pub code: String,
    /// When it begins.
    pub not_before: Time,
}

#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Instance {
    pub id: String,
    pub launch: String,
    pub launched: Time,
    pub state: InstanceState,
    pub reason: Option<(&'static str, &'static str)>,
    pub image: String,
    pub instance_type: String,
    pub architecture: String,
    pub zone: String,
    pub zone_id: String,
    pub subnet: String,
    pub address: String,
    pub groups: Vec<String>,
    pub interfaces: Vec<Interface>,
    pub tags: BTreeMap<String, String>,
    pub capacity_type: CapacityType,
    pub spot_request: Option<String>,
    pub reservation: Option<String>,
    /// `capacity-block`, `interruptible-capacity-reservation`.
    pub market: Option<String>,
    pub preference: Option<String>,
    pub placement_group: Option<String>,
    pub partition: Option<i64>,
    pub tenancy: String,
    pub profile: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub monitoring: bool,
    pub client_token: String,
    /// Base64, as it was given.
    pub user_data: Arc<str>,
    pub vcpus: i64,
    /// Which rule gave the capacity, for giving it back.
    pub pool_rule: usize,
    /// Since when the check of the instance fails.
    pub instance_impaired: Option<Time>,
    /// Since when the check of the machine below fails.
    pub system_impaired: Option<Time>,
    pub planned: Vec<Planned>,
    /// How often it was started anew.
    pub reboots: u32,
}

impl Instance {
    /// `ip-10-0-0-4.ec2.internal` in us-east-1, elsewhere with the region.
    pub fn dns_name(&self, region: &str) -> String {
        let address = self.address.replace('.', "-");
        match region {
            "us-east-1" => format!("ip-{address}.ec2.internal"),
            _ => format!("ip-{address}.{region}.compute.internal"),
        }
    }
}
