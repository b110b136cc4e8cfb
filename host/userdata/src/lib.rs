//! User data: what a node runs when it boots, so that it joins its cluster.
//!
//! [`render`] is a function of a [`Boot`]: the cluster, the family of images, labels, taints, the
//! kubelet's settings, and the user's own data, which is merged in. The text is Karpenter's of
//! 1.15.1, byte for byte, except where Karpenter's order is random: maps in arguments of the kubelet
//! are sorted here. [`resolve()`] adds first what Karpenter adds to every launch: the DNS address,
//! `maxPods`, the taint `karpenter.sh/unregistered` and the label `do-not-sync-taints`.
//!
//! No text is longer than [`MOST_BYTES`], EC2's limit.
//!
//! A crate of its own with few dependencies: the host renders with it, and the first-party
//! bootstrap policies render with the same code, compiled for wasm32.

#![warn(missing_docs)]

mod arguments;
mod boot;
mod bottlerocket;
pub mod duration;
mod fault;
mod kubelet;
pub mod mime;
mod nodeadm;
mod resolve;
mod shell;
mod toml_text;
mod yaml_text;

pub use boot::{Boot, Cluster, Family, Image, ImageTerm, Taint};
pub use fault::Fault;
pub use resolve::{DO_NOT_SYNC_TAINTS, UNREGISTERED, resolve};

/// Most bytes of user data: EC2's limit, which counts them before they are encoded in base64.
pub const MOST_BYTES: usize = 16 << 10;

/// What of the user's own data does not reach the node, in sentences.
pub fn left_out(family: Family, user_data: &str) -> Vec<String> {
    match family {
        Family::Bottlerocket => bottlerocket::left_out(user_data),
        _ => Vec::new(),
    }
}

/// Settings of Bottlerocket outside of `settings.kubernetes` that its model does not know: it refuses
/// all user data for one of them. Nothing for a text that is not TOML.
///
/// # Errors
/// A setting with a value that the model does not take.
pub fn unknown_settings(user_data: &str) -> Result<Vec<String>, Fault> {
    bottlerocket::others(user_data)
}

/// The first document of a YAML text: all that nodeadm reads of a NodeConfig.
pub fn first_document(text: &str) -> &str {
    let all = yaml_text::documents(text);
    all.first().copied().unwrap_or_default()
}

/// The user data of a node, before it is encoded in base64. Fails on user data that cannot be
/// merged, if the family needs something that is not known, and on a text that EC2 would refuse
/// for its length.
pub fn render(boot: &Boot) -> Result<String, Fault> {
    let text = merged(boot)?;
    if text.len() > MOST_BYTES {
        let theirs = boot.user_data.as_ref().map_or(0, String::len);
        return Err(Fault::user_data(
            format!(
                "makes a text of {} bytes ({theirs} are yours); EC2 takes at most {MOST_BYTES}",
                text.len()
            ),
            "shorten it, or let a short script fetch the rest",
        ));
    }
    Ok(text)
}

/// The user data of a node, however long it is; see [`render`].
///
/// # Errors
/// User data that cannot be merged, and what the family needs and is not known.
pub fn merged(boot: &Boot) -> Result<String, Fault> {
    match boot.family {
        Family::AL2 => shell::al2(boot),
        Family::AL2023 => nodeadm::al2023(boot),
        Family::Bottlerocket => bottlerocket::render(boot),
        Family::Custom => Ok(boot.user_data.clone().unwrap_or_default()),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => shell::windows(boot),
    }
}
