//! Nodes to render, as files describe them: the input of `longshore render userdata`.

use std::collections::BTreeMap;

use longshore_api::manifests::{Diagnostic, Diagnostics, Document, documents};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Boot, Cluster, Fault, Taint, render, resolve};
use crate::nodeclass::{
    Alias, Ami, AmiFamily, AmiRequirement, AmiSelectorTerm, InstanceStorePolicy,
};
use crate::validation;

/// One node.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Node {
    name: String,
    /// Whether to add what Karpenter adds to every launch ([`resolve`]).
    resolve: bool,
    cluster: Cluster,
    /// Without it, the alias says, or else it is Custom.
    #[serde(alias = "AMIFamily")]
    ami_family: Option<AmiFamily>,
    #[serde(alias = "AMISelectorTerms")]
    ami_selector_terms: Vec<AmiSelectorTerm>,
    #[serde(alias = "AMIs")]
    amis: Vec<Image>,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    startup_taints: Vec<Taint>,
    kubelet: Map<String, Value>,
    /// How many pods the instance type takes, for `resolve`.
    max_pods: i64,
    user_data: Option<String>,
    instance_store_policy: Option<InstanceStorePolicy>,
}

/// An image that was found: only ID and name matter here.
#[derive(Deserialize)]
struct Image {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    deprecated: bool,
    #[serde(default)]
    requirements: Vec<AmiRequirement>,
}

/// The user data of one node, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rendered {
    /// The node's name in the input.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The text, before it is encoded; empty if there is none.
    pub user_data: String,
    /// Why there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Renders the nodes of a text: YAML or JSON documents, each one node. A node that cannot be
/// rendered has an error in its place. Documents that are no nodes are left out and reported.
/// `source` names the text in diagnostics.
pub fn nodes(source: &str, bytes: &[u8]) -> (Vec<Rendered>, Diagnostics) {
    let (found, mut problems) = documents(source, bytes);
    let mut all = Vec::new();
    for document in found {
        let node: Node = match document.read() {
            Ok(node) => node,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let name = node.name.clone();
        let (user_data, error) = match node.render(&document) {
            Ok(text) => (text, String::new()),
            Err(problem) => (String::new(), problem.to_string()),
        };
        all.push(Rendered {
            name,
            user_data,
            error,
        });
    }
    (all, problems)
}

impl Image {
    fn ami(self) -> Ami {
        Ami {
            id: self.id,
            deprecated: self.deprecated,
            name: self.name,
            requirements: self.requirements,
        }
    }
}

impl Node {
    #[allow(
        clippy::result_large_err,
        reason = "one for each document that is refused"
    )]
    fn render(self, document: &Document) -> Result<String, Diagnostic> {
        let resolved = self.resolve;
        let max_pods = self.max_pods;
        if let Some(fault) = validation::kubelet(&self.kubelet).into_iter().next() {
            let field = format!("kubelet.{}", fault.field);
            return Err(document.refuse(&field, fault.what, fault.hint));
        }
        let mut boot = self.boot();
        if resolved {
            resolve(&mut boot, max_pods);
        }
        render(&boot).map_err(|fault| {
            let Fault { field, what, hint } = fault;
            document.refuse(&field, what, hint)
        })
    }

    fn boot(self) -> Boot {
        let alias = self
            .ami_selector_terms
            .iter()
            .find_map(|term| Alias::parse(term.alias.as_deref()?));
        let family = self.ami_family.or(alias.map(|alias| alias.family));
        Boot {
            cluster: self.cluster,
            family: family.unwrap_or(AmiFamily::Custom),
            ami_selector_terms: self.ami_selector_terms,
            amis: self.amis.into_iter().map(Image::ami).collect(),
            labels: self.labels,
            taints: self.taints.into_iter().chain(self.startup_taints).collect(),
            kubelet: self.kubelet,
            user_data: self.user_data,
            raid0: self.instance_store_policy.is_some(),
        }
    }
}
