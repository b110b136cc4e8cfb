//! AL2023: a MIME archive with a NodeConfig for nodeadm.
//!
//! The user's parts come first, so that nodeadm merges our NodeConfig last and it wins. nodeadm reads
//! the first document of each NodeConfig only, so further documents become parts of their own.

use serde_json::{Map, json};

use super::arguments::label_list;
use super::boot::{Boot, Taint};
use super::fault::{Fault, quoted};
use super::mime::{self, Part};
use super::yaml_text;

/// The archive. Fails without the CIDR block of Services and on a CA bundle that is not base64.
pub(super) fn al2023(boot: &Boot) -> Result<String, Fault> {
    let config = node_config(boot)?;
    let mut parts = match boot.user_data.as_deref().unwrap_or_default() {
        text if mime::is_archive(text) => {
            let parts = mime::read(text)?.into_iter();
            parts.flat_map(one_document).collect()
        }
        text => alone(text),
    };
    parts.push(Part::node_config(&config));
    Ok(mime::write(&parts))
}

/// User data that is no archive. Nothing is sent of a text that says nothing: nodeadm could not
/// decode it, and would pass over ours too.
fn alone(text: &str) -> Vec<Part> {
    if mime::marked(text).is_some() {
        return vec![Part::plain(text)];
    }
    if !yaml_text::is_map(text) {
        return vec![Part::shell(text)];
    }
    let parts = documents(text).into_iter();
    parts.map(Part::node_config).collect()
}

/// A part of an archive, or several: nodeadm reads the first document of each NodeConfig only.
fn one_document(part: Part) -> Vec<Part> {
    let is_config = part.kind().as_deref() == Some(mime::NODE_CONFIG);
    if !is_config || yaml_text::documents(part.body()).len() < 2 {
        return vec![part.with_content_type()];
    }
    let all = documents(part.body());
    all.iter().map(|text| part.with_body(text)).collect()
}

/// The documents of a YAML text that have content.
fn documents(text: &str) -> Vec<&str> {
    let mut all = yaml_text::documents(text);
    all.retain(|text| !yaml_text::is_empty(text));
    all
}

fn node_config(boot: &Boot) -> Result<String, Fault> {
    let cluster = &boot.cluster;
    if cluster.cidr.is_empty() {
        return Err(Fault::new(
            "cluster.cidr",
            "is missing: AL2023 cannot boot without it",
            "give the CIDR block of the cluster's Services, such as 10.100.0.0/16",
        ));
    }
    if !is_base64(&cluster.ca_bundle) {
        let what = format!("{} is not base64", quoted(&cluster.ca_bundle));
        return Err(Fault::new(
            "cluster.caBundle",
            what,
            "encode the PEM certificate in base64, with padding",
        ));
    }
    let bundle = cluster.ca_bundle.replace(['\r', '\n'], "");
    let mut of_cluster = Map::new();
    for (name, value) in [
        ("name", &cluster.name),
        ("apiServerEndpoint", &cluster.endpoint),
        ("certificateAuthority", &bundle),
        ("cidr", &cluster.cidr),
    ] {
        if !value.is_empty() {
            of_cluster.insert(name.to_owned(), value.as_str().into());
        }
    }
    let mut config = boot.kubelet.clone();
    if let Some(bad) = yaml_text::unwritable(&config) {
        let what = format!(
            "has the character {}, which YAML cannot hold",
            bad.escape_unicode()
        );
        return Err(Fault::new("kubelet", what, "remove it"));
    }
    // The kubelet ends on a taint with the time when it was added.
    let taints = boot.taints.iter().map(|taint| Taint {
        time_added: None,
        ..taint.clone()
    });
    let taints: Vec<Taint> = taints.collect();
    let taints = serde_json::to_value(&taints).unwrap_or_default();
    config.insert("registerWithTaints".to_owned(), taints);
    let mut kubelet = json!({"config": config});
    if !boot.labels.is_empty() {
        kubelet["flags"] = json!([format!("--node-labels=\"{}\"", label_list(&boot.labels))]);
    }
    let storage = match boot.raid0 {
        true => json!({"strategy": "RAID0"}),
        false => json!({}),
    };
    let all = json!({
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {},
        "spec": {
            "cluster": of_cluster,
            "containerd": {},
            "instance": {"localStorage": storage},
            "kubelet": kubelet,
        },
    });
    let mut out = String::from("# Karpenter Generated NodeConfig\n");
    out.push_str(&yaml_text::write(&all));
    Ok(out)
}

/// Whether a text is base64 in the standard alphabet, with padding. Line ends do not count.
pub(super) fn is_base64(text: &str) -> bool {
    let text: Vec<u8> = text
        .bytes()
        .filter(|b| !matches!(b, b'\r' | b'\n'))
        .collect();
    let digits = match text.as_slice() {
        [rest @ .., b'=', b'='] | [rest @ .., b'='] => rest,
        all => all,
    };
    text.len().is_multiple_of(4)
        && digits
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}
