//! NodeClaims: instances, hashes, drift, finalizers and tags.

use longshore_core::model::conditions::{DRIFTED, REGISTERED};
use std::collections::{BTreeMap, BTreeSet};

use longshore_api::crd::admission;
use longshore_api::crd::{ConditionStatus, NodeClaim, NodeClaimStatus, condition, duration, hash};
use longshore_api::labels;
use longshore_ec2::hash::VERSION;
use longshore_ec2::hash::migration::{self, Annotated, Claim, differ};
use longshore_ec2::nodeclass;
use longshore_ec2::tags::{CLUSTER_TAGGED, TAGGED};

use super::classes::NodeClass;
use super::cluster::{Cluster, Object};
use super::pools::{Pool, foreign_class, of_another_controller};
use super::report::{Level, Report};
use longshore_live::act::claim_conditions::own_drift;
use longshore_live::act::repair::reboot::phase;
use longshore_live::decide::claims::{FINALIZER, HASH, HASH_VERSION};
use longshore_live::observe::node_claim::{is_true, pool_of, provider_id};

/// What NodeClaims are compared with.
struct Around<'a> {
    cluster: &'a Cluster,
    pools: &'a BTreeMap<String, Pool>,
    classes: &'a BTreeMap<String, NodeClass>,
}

/// Looks at NodeClaims, and at Nodes that have none.
pub fn check(
    cluster: &Cluster,
    pools: &BTreeMap<String, Pool>,
    classes: &BTreeMap<String, NodeClass>,
    report: &mut Report,
) {
    let around = Around {
        cluster,
        pools,
        classes,
    };
    let mut owned = BTreeSet::new();
    for object in cluster.all("NodeClaim") {
        // Its NodePool says that it is left alone.
        if foreign_class(&object.value["spec"]).is_some() {
            continue;
        }
        let mut document = object.document.clone();
        let mut definitions = admission::all().iter();
        let definition = definitions.find(|one| one.is_for("karpenter.sh", "NodeClaim"));
        if let Some(definition) = definition {
            let notes = match document.prune(definition) {
                Ok(notes) => notes,
                Err(refused) => vec![refused],
            };
            for said in notes {
                report.add_diagnostic(Level::Differs, object, said);
            }
        }
        let claim: NodeClaim = match document.read() {
            Ok(claim) => claim,
            Err(said) => {
                report.add_diagnostic(Level::Differs, object, said);
                match serde_json::from_str(object.document.text()) {
                    Ok(claim) => claim,
                    Err(_) => continue,
                }
            }
        };
        owned.insert(provider_id(&claim).to_owned());
        check_claim(object, &claim, &around, report);
    }
    for node in cluster.all("Node") {
        let pool = &node.value["metadata"]["labels"][labels::NODEPOOL];
        let id = node.value["spec"]["providerID"]
            .as_str()
            .unwrap_or_default();
        let of_others = pool.as_str().is_some_and(|pool| {
            let mut named = cluster.all("NodePool").filter(|one| one.name() == pool);
            named.any(of_another_controller)
        });
        if pool.is_string() && !of_others && !owned.contains(id) {
            let what = "It is a node of a NodePool and has no NodeClaim.";
            let hint = "Karpenter ends its instance. Longshore leaves a Ready node alone and says \
                        so; delete the Node to be rid of it.";
            report.add(Level::Differs, node, "", what, hint);
        }
    }
}

fn check_claim(object: &Object, claim: &NodeClaim, around: &Around<'_>, report: &mut Report) {
    let none = NodeClaimStatus::default();
    let status = claim.status.as_ref().unwrap_or(&none);
    if object.leaves() {
        let what = "It is being deleted. Longshore carries on with it.";
        return report.add(Level::Note, object, "", what, "");
    }
    if !object.holds(FINALIZER) {
        let what = format!("Finalizer {FINALIZER} is added.");
        let hint = "Karpenter adds the same.";
        report.add(Level::Writes, object, "metadata.finalizers", what, hint);
    }
    if phase::is_under_way(claim) {
        let what = "Its node is being rebooted by Karpenter.";
        let hint = "Longshore carries on from the condition, and may ask for the reboot once more. \
                    Wait until Karpenter is done.";
        report.add(Level::Differs, object, "status.conditions", what, hint);
    }
    if !check_instance(object, claim, status, report) {
        return;
    }
    check_tags(object, status, report);
    let drifted = condition(&status.conditions, DRIFTED);
    if let Some(drifted) = drifted.filter(|own| own.status == ConditionStatus::True) {
        let what = format!(
            "It has drifted ({}) and is replaced within budgets.",
            drifted.reason
        );
        report.add(
            Level::Note,
            object,
            "status.conditions",
            what,
            "Karpenter does so too.",
        );
    }
    let before = drifted.is_some();
    check_pool(object, claim, status, around, before, report);
    check_class(object, claim, status, around, before, report);
    check_expiry(object, claim, around, report);
}

/// Whether it has an instance.
fn check_instance(
    object: &Object,
    claim: &NodeClaim,
    status: &NodeClaimStatus,
    report: &mut Report,
) -> bool {
    if provider_id(claim).is_empty() {
        let what = "It has no instance yet: Longshore launches one.";
        let hint = "One that Karpenter launched for it and did not write down is ended as garbage. \
                    Wait until Karpenter is done, or delete the NodeClaim.";
        report.add(Level::Differs, object, "status.providerID", what, hint);
        return false;
    }
    if !is_true(status, REGISTERED) {
        let what = "Its node has not joined yet. Longshore registers it, or deletes it 15 minutes \
                    after its launch.";
        let hint = "Karpenter does so too.";
        report.add(Level::Note, object, "status.conditions", what, hint);
    }
    true
}

fn check_tags(object: &Object, status: &NodeClaimStatus, report: &mut Report) {
    let on_ec2 = status.provider_id.starts_with("aws://");
    let tagged = [TAGGED, CLUSTER_TAGGED].map(|key| object.annotation(key) == Some("true"));
    if !on_ec2 || status.node_name.is_empty() || tagged == [true, true] {
        return;
    }
    let what = format!("Annotations {TAGGED} and {CLUSTER_TAGGED} become true.");
    let hint = "Its instance gets those of the tags Name, karpenter.sh/nodeclaim and \
                eks:eks-cluster-name that it lacks. Karpenter does so too.";
    report.add(Level::Writes, object, "metadata.annotations", what, hint);
}

fn check_pool(
    object: &Object,
    claim: &NodeClaim,
    status: &NodeClaimStatus,
    around: &Around<'_>,
    drifted: bool,
    report: &mut Report,
) {
    let name = pool_of(claim);
    if name.is_empty() {
        let what = "It belongs to no NodePool. It is kept, and never drifts or is consolidated.";
        return report.add(Level::Note, object, "metadata.labels", what, "");
    }
    let Some(own) = around.pools.get(name) else {
        let what = format!("NodePool {name} is not there. It is kept, and never drifts.");
        let hint = "Kubernetes deletes it with its NodePool. Files may lack the NodePool.";
        return report.add(Level::Note, object, "metadata.labels", what, hint);
    };
    let (value, version) = (object.annotation(HASH), object.annotation(HASH_VERSION));
    if let Some(version) = version.filter(|version| *version != hash::VERSION) {
        let now = own.hash.as_deref().unwrap_or_default();
        let what = match drifted {
            true => format!("Annotation {HASH_VERSION} becomes {}.", hash::VERSION),
            false => format!("Annotation {HASH} becomes {now} ({}).", hash::VERSION),
        };
        let hint = format!("It was of version {version}. It does not drift by it.");
        report.add(Level::Writes, object, "metadata.annotations", what, hint);
        return;
    }
    if value.is_none() {
        let what = "It has no hash of its NodePool: it never drifts from the template.";
        report.add(
            Level::Note,
            object,
            "metadata.annotations",
            what,
            "Under Karpenter too.",
        );
    }
    let (drift, _) = own_drift(claim, status, &own.pool, None, around.cluster.now);
    if let Some(drift) = drift.filter(|_| !drifted) {
        let what = format!("It drifts ({}): {}.", drift.reason, drift.message);
        let hint = "Karpenter would find so too.";
        report.add(Level::Note, object, "", what, hint);
    }
}

fn check_class(
    object: &Object,
    claim: &NodeClaim,
    status: &NodeClaimStatus,
    around: &Around<'_>,
    drifted: bool,
    report: &mut Report,
) {
    let named = &claim.spec.node_class_ref;
    if (&*named.group, &*named.kind) != (nodeclass::GROUP, "EC2NodeClass") {
        return;
    }
    let Some(own) = around.classes.get(&named.name) else {
        let what = format!(
            "EC2NodeClass {} is not there: it never drifts from it.",
            named.name
        );
        return report.add(Level::Note, object, "spec.nodeClassRef", what, "");
    };
    let none = BTreeMap::new();
    let annotations = claim.metadata.annotations.as_ref().unwrap_or(&none);
    let annotated = Annotated::read(annotations);
    let class = own.annotated();
    let version = annotated.version;
    if class.version != Some(VERSION) && version != Some(VERSION) {
        return check_migration(object, own, annotated, drifted, report);
    }
    if drifted {
        return;
    }
    match &own.hash {
        // The class says itself that its hash is not known.
        None => {}
        Some(now) => {
            let now = Annotated::of(now);
            if differ(now, annotated) == Some(true) {
                let level = match differ(class, annotated) {
                    Some(true) => Level::Note,
                    _ => Level::Differs,
                };
                let what = "It drifts (NodeClassDrift): its hash is not that of its EC2NodeClass.";
                let hint = match level {
                    Level::Note => "Karpenter finds so too.",
                    _ => "The hash of the class changes, see there.",
                };
                report.add(level, object, "metadata.annotations", what, hint);
                return;
            }
        }
    }
    check_image(object, own, status, report);
}

/// A NodeClaim of a class whose hash is of an older version.
fn check_migration(
    object: &Object,
    own: &NodeClass,
    annotated: Annotated<'_>,
    drifted: bool,
    report: &mut Report,
) {
    let unknown = "one of version v6";
    let now = own.hash.as_deref().unwrap_or(unknown);
    let claim = Claim {
        name: object.name(),
        annotated,
        drifted,
    };
    let writes = migration::migrate(own.annotated(), now, [claim]).claims;
    let Some((_, write)) = writes.into_iter().next() else {
        return;
    };
    let from = annotated.version.unwrap_or("no version");
    let (what, hint) = match write.hash {
        Some(hash) => (
            format!("Annotation {} becomes {hash} (v6).", migration::HASH),
            format!("It was of {from}. It does not drift by it."),
        ),
        None => (
            format!("Annotation {} becomes v6.", migration::HASH_VERSION),
            format!("It was {from}. It has drifted already and stays so; Karpenter does the same."),
        ),
    };
    report.add(Level::Writes, object, "metadata.annotations", what, hint);
}

/// An image that the class does not select any more.
fn check_image(object: &Object, own: &NodeClass, status: &NodeClaimStatus, report: &mut Report) {
    let amis = own
        .class
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.amis);
    if amis.is_empty() || status.image_id.is_empty() {
        return;
    }
    if !amis.iter().any(|ami| ami.id == status.image_id) {
        let what = format!(
            "It drifts (AMIDrift): its EC2NodeClass does not select {} any more.",
            status.image_id
        );
        let hint = "Karpenter finds so too.";
        report.add(Level::Note, object, "status.imageID", what, hint);
    }
}

fn check_expiry(object: &Object, claim: &NodeClaim, around: &Around<'_>, report: &mut Report) {
    let after = duration::lifetime(&claim.spec.expire_after).ok();
    let after = after.and_then(duration::Lifetime::after);
    let created = claim.metadata.creation_timestamp.as_ref();
    let (Some(after), Some(created)) = (after, created) else {
        return;
    };
    let age = around.cluster.now.as_second() - created.0.as_second();
    if age >= i64::try_from(after.as_secs()).unwrap_or(i64::MAX) {
        let what = format!(
            "It is older than {}: it is deleted.",
            claim.spec.expire_after
        );
        let hint = "Karpenter does so too.";
        report.add(Level::Note, object, "spec.expireAfter", what, hint);
    }
}
