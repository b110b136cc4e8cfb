//! EC2NodeClasses: what Longshore refuses, finalizers, and hashes.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longshore_ec2::hash::migration::{Annotated, HASH, HASH_VERSION};
use longshore_ec2::hash::{VERSION, nodeclass_hash};
use longshore_ec2::nodeclass::{self, EC2NodeClass, FINALIZER};
use longshore_ec2::validation::{self, Fault};

use super::cluster::{Cluster, Object};
use super::controller::settings_of;
use super::report::{Level, Report};

/// An EC2NodeClass that can be read.
pub struct NodeClass {
    /// The EC2NodeClass as a type.
    pub class: EC2NodeClass,
    /// The hash that Longshore writes; nothing if the cluster's certificate is not known, or the
    /// hash cannot be made.
    pub hash: Option<String>,
}

impl NodeClass {
    /// Its hash as its annotations have it.
    pub fn annotated(&self) -> Annotated<'_> {
        let annotations = self.class.metadata.annotations.as_ref();
        annotations.map(Annotated::read).unwrap_or_default()
    }
}

/// Annotation of EC2NodeClasses for shared GPUs, which nothing reads here.
const SHARED_GPU: &str = "karpenter.k8s.aws/nvidia-consumable-capacity";

/// Looks at EC2NodeClasses. Those that can be read, by name.
pub fn check(cluster: &Cluster, report: &mut Report) -> BTreeMap<String, NodeClass> {
    let bundle = bundle(cluster);
    let expressions = expressions(cluster);
    let mut all = BTreeMap::new();
    for object in cluster.all("EC2NodeClass") {
        let class = match nodeclass::of_document(&object.document) {
            Ok(class) => class,
            Err(said) => {
                report.add_diagnostic(Level::Differs, object, said);
                // The daemon passes over fields that it does not know.
                match serde_json::from_str(object.document.text()) {
                    Ok(class) => class,
                    Err(_) => continue,
                }
            }
        };
        check_spec(object, &class, expressions, report);
        let mut class = NodeClass { class, hash: None };
        check_hash(object, &mut class, bundle.as_deref(), report);
        if !object.holds(FINALIZER) && !object.leaves() {
            let what = format!("Finalizer {FINALIZER} is added.");
            let hint = "Karpenter adds the same.";
            report.add(Level::Writes, object, "metadata.finalizers", what, hint);
        }
        if object.annotation(SHARED_GPU).is_some() {
            let what = format!("Annotation {SHARED_GPU} has no effect.");
            let hint = "Dynamic resources are not planned for.";
            report.add(Level::Differs, object, "metadata.annotations", what, hint);
        }
        all.insert(object.name().to_owned(), class);
    }
    all
}

/// The value of a variable in Karpenter's own container.
fn karpenter(cluster: &Cluster, variable: &str) -> Option<String> {
    let mut deployments = cluster.all("Deployment");
    deployments.find_map(|one| {
        let containers = one.value["spec"]["template"]["spec"]["containers"].as_array();
        let mut settings = containers.into_iter().flatten().map(settings_of);
        settings.find_map(|settings| settings.get(variable).cloned())
    })
}

/// Whether the kubelet's settings may be expressions, by the feature gates of Karpenter.
fn expressions(cluster: &Cluster) -> bool {
    let gates = karpenter(cluster, "AWS_FEATURE_GATES").unwrap_or_default();
    gates
        .split(',')
        .any(|gate| gate.trim() == "NodeClassCEL=true")
}

/// The cluster's certificate in base64, which hashes cover: from the command line, from
/// Karpenter's variables, or from the ConfigMap that pods have.
fn bundle(cluster: &Cluster) -> Option<String> {
    let typed = cluster.ca_bundle.clone();
    let configured = || karpenter(cluster, "CLUSTER_CA_BUNDLE").filter(|text| !text.is_empty());
    let of_pods = || {
        let map = cluster.all("ConfigMap").next()?;
        let pem = map.value["data"]["ca.crt"].as_str()?;
        Some(STANDARD.encode(pem))
    };
    typed.or_else(configured).or_else(of_pods)
}

fn check_spec(object: &Object, class: &EC2NodeClass, expressions: bool, report: &mut Report) {
    let mut refused = |faults: Vec<Fault>| {
        for fault in faults {
            let field = format!("spec.{}", fault.field);
            let what = format!("It {}: no node is launched from this class.", fault.what);
            report.add(Level::Differs, object, &field, what, fault.hint);
        }
    };
    refused(validation::rules(&class.spec));
    let kubelets = validation::kubelets(class, None);
    if let Err(invalid) = validation::settings(&class.spec, expressions, &kubelets) {
        refused(invalid.faults);
    }
    refused(validation::tags(class.spec.tags()));
}

fn check_hash(object: &Object, class: &mut NodeClass, bundle: Option<&str>, report: &mut Report) {
    let hash_with = |bundle| nodeclass_hash(&class.class, bundle).ok();
    let (own, version) = (object.annotation(HASH), object.annotation(HASH_VERSION));
    let same = |hash: &Option<String>| hash.as_deref() == own && version == Some(VERSION);
    let field = "metadata.annotations";
    let now = match hash_with(bundle) {
        None => {
            let what = "It has no hash: a volume size cannot be read.";
            return report.add(Level::Differs, object, "spec.blockDeviceMappings", what, "");
        }
        now if same(&now) => {
            class.hash = now;
            return;
        }
        now => now,
    };
    if bundle.is_none() {
        let what = match version {
            Some(VERSION) => "Whether its hash stays cannot be said without the cluster's CA.",
            _ => "Its hash becomes one of version v6, which depends on the cluster's CA.",
        };
        let hint = "Give --cluster-ca-bundle, or add the ConfigMap kube-system/kube-root-ca.crt.";
        let level = match version {
            Some(VERSION) => Level::Differs,
            _ => Level::Writes,
        };
        return report.add(level, object, field, what, hint);
    }
    let number = now.clone().unwrap_or_default();
    let without = version == Some(VERSION) && hash_with(None).as_deref() == own;
    class.hash = now;
    let what = format!("Annotation {HASH} becomes {number} ({VERSION}).");
    let (level, hint) = match (own, version) {
        (None, _) | (_, None) => (Level::Writes, "It has none yet."),
        (_, Some("v5")) => (
            Level::Writes,
            "Its hash is of version v5, of Karpenter 1.12 to 1.14. NodeClaims follow.",
        ),
        (_, Some("v4")) => (
            Level::Writes,
            "Its hash is of version v4, of Karpenter before 1.12. NodeClaims follow.",
        ),
        (_, Some(version)) if version != VERSION => (
            Level::Blocks,
            "Its hash is of a version that is not taken over. Upgrade Karpenter to 1.3 or later \
             first, at most to 1.15.",
        ),
        _ if without => {
            let hint = "Karpenter's hash is that of no CA at all: with another CA bundle its nodes \
                        drift. Start Longshore with the same CLUSTER_CA_BUNDLE.";
            (Level::Differs, hint)
        }
        _ => {
            let hint = "Either the class was changed while no controller ran, or Karpenter has \
                        another CA bundle. Give --cluster-ca-bundle as Karpenter has it.";
            (Level::Differs, hint)
        }
    };
    report.add(level, object, field, what, hint);
}
