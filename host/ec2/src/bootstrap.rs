//! Whether a node joins with this user data, of a user or of a bootstrap policy, and what its
//! kubelet keeps back. `validation/node.rs` refuses EC2NodeClasses by it.
//!
//! [`check_text`] refuses user data with which a node would not join, and [`read_back()`] finds what
//! it tells the kubelet. [`Kept`] is what the kubelet keeps back on one machine; [`Kept::fits`]
//! holds it against the machine, [`Kept::agrees`] against the user data. The policy itself is called
//! elsewhere.

mod bottlerocket;
pub mod drift;
pub(crate) mod flags;
mod join;
pub(crate) mod kept;
pub(crate) mod read_back;
mod read_nodeadm;
pub mod sample;

use longshore_userdata::{Boot, Cluster, Family, MOST_BYTES, Taint};
use serde_json::{Map, Value};

pub use flags::has as has_flag;
pub use kept::{Capacity, Kept};
pub use read_back::{ReadBack, read_back};

/// The cluster that nodes join.
#[derive(Clone, Copy, Debug)]
pub struct Joins<'a> {
    /// What user data names.
    pub cluster: &'a Cluster,
    /// The API server's version, such as `1.35`; empty if it is not known.
    pub kubernetes: &'a str,
}

/// `spec.kubelet.config` of the NodeConfigs in a text; empty if nodeadm would find none.
pub(crate) fn node_config(text: &str) -> Map<String, Value> {
    read_nodeadm::read(text).map_or_else(|_| Map::new(), |all| all.config)
}

/// Whether a node of `boot`'s family joins its cluster with this user data: not longer than EC2
/// takes, readable as its format, and with the cluster's name, endpoint and CA and the node's taints
/// in it. Custom images may boot with anything. What the text says to the kubelet comes back.
pub fn check_text(boot: &Boot, bytes: &[u8]) -> Result<ReadBack, String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!(
            "{} bytes; EC2 takes at most {MOST_BYTES} before they are encoded",
            bytes.len()
        ));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 from byte {} on", error.valid_up_to()))?;
    if text.contains('\0') {
        return Err("has a NUL character".to_owned());
    }
    joins(boot, text)
}

/// Whether a node of `boot`'s family joins its cluster with this user data, however long it is; see
/// [`check_text`].
///
/// # Errors
/// Why it would not.
pub fn joins(boot: &Boot, text: &str) -> Result<ReadBack, String> {
    let said = read_back(boot.family, text)?;
    if boot.family == Family::Custom {
        return Ok(said);
    }
    if let Some(what) = &said.unfinished {
        return Err(what.clone());
    }
    let cluster = &boot.cluster;
    let expected = [
        ("the cluster's name", &cluster.name, &said.cluster_name),
        ("the API server's URL", &cluster.endpoint, &said.endpoint),
        ("the cluster's CA", &cluster.ca_bundle, &said.ca_bundle),
    ];
    for (what, ours, theirs) in expected {
        match theirs {
            _ if ours.is_empty() => {}
            Some(theirs) if theirs == ours => {}
            Some(theirs) => {
                let theirs = longshore_api::manifests::quoted(theirs);
                return Err(format!("{what} is {theirs}; a node would join elsewhere"));
            }
            None => return Err(format!("{what} is missing; a node would not join")),
        }
    }
    if boot.family == Family::AL2023 && said.cidr.as_deref() != Some(&cluster.cidr) {
        return Err(
            "spec.cluster.cidr is missing or another; AL2023 cannot boot without it".to_owned(),
        );
    }
    let there = |taint: &&Taint| {
        said.taints.iter().any(|(key, value, effect)| {
            (key, value, effect) == (&taint.key, &taint.value, &taint.effect)
        })
    };
    if let Some(taint) = boot.taints.iter().find(|taint| !there(taint)) {
        return Err(format!(
            "the taint {}:{} is missing; pods would start too early",
            taint.key, taint.effect
        ));
    }
    Ok(said)
}
