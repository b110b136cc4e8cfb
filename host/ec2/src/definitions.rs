//! Definitions of NodePool, NodeClaim and NodeOverlay for clusters on EC2: those of every cluster,
//! and one rule more: a label under `karpenter.k8s.aws` is one that instance types have. The API
//! server refuses a misspelled one at once; without the rule pods would wait for nodes that cannot
//! be.
//!
//! A cluster applies them after `deploy/crds`, in the place of those of the same name.

use longshore_api::crd::definition::{self, Definition};
use longshore_api::labels::EC2_LABELS;

/// Labels that NodeOverlays may not name: they are chosen at launch.
const LAUNCH: [&str; 6] = [
    "capacity-reservation-id",
    "capacity-reservation-interruptible",
    "capacity-reservation-type",
    "instance-tenancy",
    "placement-group-id",
    "placement-group-partition",
];

const MESSAGE: &str = "no instance type has this label under karpenter.k8s.aws";

/// The definitions, by name.
pub fn all() -> Vec<Definition> {
    let requirement = "requirements/items/properties/key";
    let template = "/properties/spec/properties/template/properties";
    let (every, overlays) = (rule("self", &[]), rule("self", &LAUNCH));
    let labels = format!("self.all(x, {})", rule("x", &[]));
    let with_rules = |of: Definition| match of.name() {
        "nodeclaims.karpenter.sh" => {
            let key = format!("/properties/spec/properties/{requirement}");
            Some(of.with_rule(&key, &every, MESSAGE))
        }
        "nodeoverlays.karpenter.sh" => {
            let key = format!("/properties/spec/properties/{requirement}");
            Some(of.with_rule(&key, &overlays, MESSAGE))
        }
        "nodepools.karpenter.sh" => {
            let key = format!("{template}/spec/properties/{requirement}");
            let metadata = format!("{template}/metadata/properties/labels");
            let of = of.with_rule(&key, &every, MESSAGE);
            Some(of.with_rule(&metadata, &labels, MESSAGE))
        }
        _ => None,
    };
    definition::all()
        .into_iter()
        .filter_map(with_rules)
        .collect()
}

/// A rule over the key `of`: a known label but for some, or one of another domain.
fn rule(of: &str, without: &[&str]) -> String {
    let known = EC2_LABELS.iter().filter(|name| !without.contains(name));
    let known = known.map(|name| format!("\"karpenter.k8s.aws/{name}\""));
    let known: Vec<String> = known.collect();
    let known = known.join(", ");
    format!(r#"{of} in [{known}] || !{of}.find("^([^/]+)").endsWith("karpenter.k8s.aws")"#)
}
