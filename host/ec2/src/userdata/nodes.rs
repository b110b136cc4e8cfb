//! Nodes to render, as files describe them: the input of `longshore render userdata`.

use std::collections::BTreeMap;

use longshore_api::manifests::{Diagnostic, Diagnostics, Document, documents};
use longshore_userdata::{Boot, Cluster, Family, Fault, Image, Taint, render, resolve};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::kubelet::versions::Kubelets;
use crate::nodeclass::InstanceStorePolicy;
use crate::nodeclass::{Alias, Ami, AmiFamily, AmiRequirement, AmiSelectorTerm};
use crate::validation;

/// The newest Kubernetes of EKS, whose kubelet a node has if its file does not say.
const NEWEST: &str = "1.36";

/// One node of a file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Wire {
    name: String,
    /// Whether to add what Karpenter adds to every launch ([`resolve`]).
    resolve: bool,
    cluster: Cluster,
    /// The version of the kubelet that boots, such as `1.36`; without it [`NEWEST`].
    kubernetes: Option<String>,
    /// Without it, the alias says, or else it is Custom.
    #[serde(alias = "AMIFamily")]
    ami_family: Option<AmiFamily>,
    #[serde(alias = "AMISelectorTerms")]
    ami_selector_terms: Vec<AmiSelectorTerm>,
    #[serde(alias = "AMIs")]
    amis: Vec<WireImage>,
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
struct WireImage {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    deprecated: bool,
    #[serde(default)]
    requirements: Vec<AmiRequirement>,
}

/// A node of a file, ready to render.
#[derive(Clone, Debug)]
pub struct Node {
    /// The node's name in the input.
    pub name: String,
    /// What its user data is rendered from.
    pub boot: Boot,
    /// Labels as the file gives them, those included that a kubelet may not give its own node.
    pub labels: BTreeMap<String, String>,
    /// How many of [`Boot::taints`], counted from the first, are no startup taints.
    pub lasting_taints: usize,
    /// Pods that its instance type takes, if the node asked for what Karpenter adds.
    pub max_pods: Option<i64>,
    /// Its EC2NodeClass, as far as user data depends on it.
    pub node_class: Value,
    /// What does not reach it, or reaches it otherwise than it seems.
    pub warnings: Vec<String>,
    document: Document,
    fault: Option<Diagnostic>,
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
    /// Why there is no text; empty if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// What does not reach the node, or reaches it otherwise than it seems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Renders the nodes of a text: YAML or JSON documents, each one node. A node that cannot be
/// rendered has an error in its place. Documents that are no nodes are left out and reported.
/// `source` names the text in diagnostics.
pub fn nodes(source: &str, bytes: &[u8]) -> (Vec<Rendered>, Diagnostics) {
    let (all, problems) = read_nodes(source, bytes);
    (all.iter().map(Node::rendered).collect(), problems)
}

/// The nodes of a text, see [`nodes`].
pub fn read_nodes(source: &str, bytes: &[u8]) -> (Vec<Node>, Diagnostics) {
    let (found, mut problems) = documents(source, bytes);
    let mut all = Vec::new();
    for document in found {
        match document.read::<Wire>() {
            Ok(wire) => all.push(wire.node(document)),
            Err(problem) => problems.push(problem),
        }
    }
    (all, problems)
}

impl Node {
    /// The built-in user data.
    #[allow(
        clippy::result_large_err,
        reason = "one for each document that is refused"
    )]
    pub fn render(&self) -> Result<String, Diagnostic> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        render(&self.boot).map_err(|fault| {
            let Fault { field, what, hint } = fault;
            self.document.refuse(&field, what, hint)
        })
    }

    fn rendered(&self) -> Rendered {
        let (user_data, error) = match self.render() {
            Ok(text) => (text, String::new()),
            Err(problem) => (String::new(), problem.to_string()),
        };
        Rendered {
            name: self.name.clone(),
            user_data,
            error,
            warnings: self.warnings.clone(),
        }
    }
}

impl WireImage {
    fn ami(self) -> Ami {
        Ami {
            id: self.id,
            deprecated: self.deprecated,
            name: self.name,
            requirements: self.requirements,
        }
    }
}

impl Wire {
    fn node(self, document: Document) -> Node {
        let expression = |(field, _): (String, &str)| {
            let what = "is an expression, whose value depends on the instance type";
            validation::Fault::new(field, what, "write a number or a quantity")
        };
        let expressions = validation::expressions(&self.kubelet).into_iter();
        let faults = validation::kubelet(&self.kubelet).into_iter();
        let fault = faults.chain(expressions.map(expression)).next();
        let fault = fault.map(|fault| validation::Fault {
            field: format!("kubelet.{}", fault.field),
            ..fault
        });
        let alias = self
            .ami_selector_terms
            .iter()
            .find_map(|term| Alias::parse(term.alias.as_deref()?));
        let family = self.ami_family.or(alias.map(|alias| alias.family));
        let family = family.unwrap_or(AmiFamily::Custom);
        let kubelets = Kubelets::of(self.kubernetes.as_deref().unwrap_or(NEWEST));
        let fault = fault.or_else(|| {
            let user_data = self.user_data.as_deref();
            let joins = validation::node(family, &self.kubelet, user_data, &kubelets);
            joins.err()?.faults.into_iter().next()
        });
        let warnings = match fault {
            None => validation::warnings(family, &self.kubelet, self.user_data.as_deref()),
            Some(_) => Vec::new(),
        };
        let fault = fault.map(|fault| document.refuse(&fault.field, fault.what, fault.hint));
        let amis: Vec<Ami> = self.amis.into_iter().map(WireImage::ami).collect();
        let node_class = json!({
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": ""},
            "spec": {
                "amiFamily": family,
                "amiSelectorTerms": self.ami_selector_terms,
                "kubelet": self.kubelet,
                "userData": self.user_data,
                "instanceStorePolicy": self.instance_store_policy,
            },
            "status": {"amis": amis},
        });
        let lasting_taints = self.taints.len();
        let mut boot = Boot {
            cluster: self.cluster,
            family: Family::from(family),
            image_terms: self.ami_selector_terms.iter().map(Into::into).collect(),
            images: amis.iter().map(Image::from).collect(),
            labels: self.labels.clone(),
            taints: self.taints.into_iter().chain(self.startup_taints).collect(),
            kubelet: self.kubelet,
            user_data: self.user_data,
            raid0: self.instance_store_policy.is_some(),
        };
        if self.resolve {
            resolve(&mut boot, self.max_pods);
        }
        Node {
            name: self.name,
            boot,
            labels: self.labels,
            lasting_taints,
            max_pods: self.resolve.then_some(self.max_pods),
            node_class,
            warnings,
            document,
            fault,
        }
    }
}
