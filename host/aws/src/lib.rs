//! EC2 as a cloud provider.
//!
//! The only crate that names crates of AWS's SDK. What can be decided without a call is decided by
//! functions of plain records, here and in `longshore-ec2`; around them is what calls:
//!
//! - [`calls`] lists every call, [`clients`] sends them, [`error`] says what an answer means;
//! - [`in_process`] has clients of a simulation, without a socket;
//! - [`discovery`] reads instance types, prices, subnets, images and the cluster;
//! - [`launch`] chooses what a NodeClaim may be launched as and makes the request of a fleet,
//!   [`templates`] keeps launch templates, [`subnets`] counts addresses that are in flight;
//! - [`boot`] is what a bootstrap policy has to say of both;
//! - [`instances`] reads, terminates and batches;
//! - [`nodeclass`] makes the status of an EC2NodeClass, [`profiles`] its instance profile;
//! - [`drift`] compares an instance with its class;
//! - [`interruption`] reads the queue of EC2's warnings;
//! - [`status_checks`] says which instances EC2 finds unhealthy, [`prices`] reads the price list,
//!   [`zonal_shift`] the zones that traffic is shifted away from, [`scores`] asks how likely spot
//!   requests are to succeed, `reboot` starts an instance anew;
//! - [`provider`] puts them together behind `CloudProvider`, [`controller`] keeps the status of
//!   EC2NodeClasses, [`store`] is where both find them;
//! - [`observer`] has the trait that metrics implement to count calls;
//! - [`policy`] is the IAM policy and the CloudFormation stack that all this needs.

pub mod batch;
pub mod boot;
pub mod bucket;
pub mod calls;
pub mod clients;
pub mod controller;
pub mod discovery;
pub mod drift;
pub mod error;
pub mod in_process;
pub mod instances;
pub mod interruption;
pub mod launch;
mod lock;
pub mod nodeclass;
pub mod observer;
pub mod policy;
pub mod prices;
pub mod profiles;
pub mod provider;
mod reboot;
pub mod records;
pub mod scores;
pub mod status_checks;
pub mod store;
pub mod subnets;
pub mod templates;
mod wire;
pub mod world;
pub mod zonal_shift;

#[cfg(test)]
mod tests {
    /// Every source file of this crate, by its path below `src`.
    pub fn sources() -> Vec<(String, String)> {
        fn walk(folder: &std::path::Path, all: &mut Vec<(String, String)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, all);
                } else {
                    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");
                    let name = path.display().to_string().replace(root, "");
                    all.push((name, std::fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let mut all = Vec::new();
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        walk(std::path::Path::new(root), &mut all);
        assert!(all.len() > 10);
        all
    }
}
