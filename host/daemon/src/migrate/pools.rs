//! NodePools: what Longshore cannot use, and their hashes.

use std::collections::BTreeMap;

use longshore_api::crd::NodePool;
use longshore_api::crd::hash::{self, nodepool_hash};
use longshore_api::manifests::Reader;
use longshore_ec2::nodeclass;
use serde_json::Value;

use super::cluster::{Cluster, Object};
use super::report::{Level, Report};
use longshore_live::act::pools::invalid;
use longshore_live::decide::claims::{HASH, HASH_VERSION};

/// A NodePool that can be read.
pub struct Pool {
    /// The NodePool as a type.
    pub pool: NodePool,
    /// Its hash; nothing if it has none.
    pub hash: Option<String>,
}

/// Looks at NodePools. Those that can be read, by name.
pub fn check(cluster: &Cluster, report: &mut Report) -> BTreeMap<String, Pool> {
    let mut all = BTreeMap::new();
    for object in cluster.all("NodePool") {
        if let Some(pool) = check_pool(object, cluster, report) {
            all.insert(object.name().to_owned(), pool);
        }
    }
    all
}

/// Groups and kinds of node classes that there is a provider for.
const CLASSES: [(&str, &str); 2] = [
    (nodeclass::GROUP, "EC2NodeClass"),
    ("karpenter.kwok.sh", "KWOKNodeClass"),
];

/// The class that a spec refers to, `Kind.group`, if it is of another controller's kind. The spec need
/// not be one that can be read.
pub fn foreign_class(spec: &Value) -> Option<String> {
    let class = &spec["nodeClassRef"];
    let named = (class["group"].as_str()?, class["kind"].as_str()?);
    (!CLASSES.contains(&named)).then(|| format!("{}.{}", named.1, named.0))
}

/// Whether a NodePool is of another controller's class.
pub fn of_another_controller(pool: &Object) -> bool {
    foreign_class(&pool.value["spec"]["template"]["spec"]).is_some()
}

fn check_pool(object: &Object, cluster: &Cluster, report: &mut Report) -> Option<Pool> {
    if let Some(class) = foreign_class(&object.value["spec"]["template"]["spec"]) {
        let what = format!("It is of {class}: another controller's.");
        let hint = "Longshore leaves it alone, and its NodeClaims and their Nodes.";
        let field = "spec.template.spec.nodeClassRef";
        report.add(Level::Note, object, field, what, hint);
        return None;
    }
    let mut reader = Reader::of_manifests();
    reader.read("", object.document.text().as_bytes());
    let (read, problems) = reader.finish();
    for mut said in problems.list {
        if read.pools.is_empty() {
            said.what = format!("{}: no node is made from this NodePool", said.what);
        }
        report.add_diagnostic(Level::Differs, object, said);
    }
    let pool: NodePool = serde_json::from_str(object.document.text()).ok()?;
    if let Some(why) = invalid(&pool) {
        let what = format!("Longshore takes it for invalid: {why}.");
        let hint = "Its condition ValidationSucceeded becomes False.";
        report.add(Level::Differs, object, "spec.template.spec", what, hint);
    }
    check_class(object, &pool, cluster, report);
    let hash = nodepool_hash(&pool).ok();
    if let Some(hash) = &hash {
        check_hash(object, hash, report);
    }
    Some(Pool { pool, hash })
}

fn check_class(object: &Object, pool: &NodePool, cluster: &Cluster, report: &mut Report) {
    let class = &pool.spec.template.spec.node_class_ref;
    let field = "spec.template.spec.nodeClassRef";
    let mut classes = cluster.all(&class.kind);
    if !classes.any(|one| one.name() == class.name) {
        let what = format!(
            "{} {} does not exist: nothing is launched.",
            class.kind, class.name
        );
        let hint = "Karpenter launches nothing either. Files may lack it.";
        report.add(Level::Note, object, field, what, hint);
    }
}

fn check_hash(object: &Object, now: &str, report: &mut Report) {
    let (own, version) = (object.annotation(HASH), object.annotation(HASH_VERSION));
    if (own, version) == (Some(now), Some(hash::VERSION)) {
        return;
    }
    let what = format!("Annotation {HASH} becomes {now} ({}).", hash::VERSION);
    let hint = match (own, version) {
        (None, _) | (_, None) => "It has none yet.",
        (Some(_), Some(version)) if version != hash::VERSION => {
            "Its hash is of another version. NodeClaims follow; none drifts by it."
        }
        _ => {
            "The template has changed since Karpenter looked at it. Karpenter would write the same."
        }
    };
    report.add(Level::Writes, object, "metadata.annotations", what, hint);
}
