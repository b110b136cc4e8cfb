//! What kubelets and the cloud controller of a cluster would do for emulated instances: a Node for
//! each that boots, none for one that is gone. KWOK runs the pods.
//!
//! The user data of an instance decides: whether it joins, as what, with which labels, taints and
//! most pods. What a Node has is what its NodeClaim says, for there is no machine to ask.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use longshore_api::crd::NodeClaim;
use longshore_emulator::kubelet::{Joining, boot_id, join};
use longshore_emulator::serve::SystemClock;
use longshore_emulator::shell::Shell;
use serde_json::{Value, json};

/// How often instances are looked at.
const INSTANCE_POLL: Duration = Duration::from_millis(500);
/// Annotation of Nodes with the instance that they are.
const INSTANCE: &str = "longshore.dev/emulated-instance";
/// KWOK runs the pods of Nodes with this annotation.
const FAKE: &str = "kwok.x-k8s.io/node";

/// Keeps a cluster's Nodes as the instances are, for ever.
pub async fn run(shell: Arc<Shell<SystemClock>>, client: Client) {
    let mut known = BTreeMap::new();
    let mut said = String::new();
    loop {
        match look(&shell, &client, &mut known).await {
            Ok(()) => said.clear(),
            Err(why) => {
                let why = why.to_string();
                if said != why {
                    eprintln!("longshore: Nodes cannot be kept: {why}; tried again");
                    said = why;
                }
            }
        }
        tokio::time::sleep(INSTANCE_POLL).await;
    }
}

/// A Node that was made.
struct MadeNode {
    name: String,
    boot_id: String,
}

/// Looks once. `known` has the Nodes that were made, by instance; empty at first.
async fn look(
    shell: &Shell<SystemClock>,
    client: &Client,
    known: &mut BTreeMap<String, MadeNode>,
) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    if known.is_empty() {
        let all = nodes.list(&ListParams::default()).await?;
        known.extend(all.iter().filter_map(|node| {
            let instance = node.annotations().get(INSTANCE)?;
            let info = node.status.as_ref().and_then(|of| of.node_info.as_ref());
            let of = MadeNode {
                name: node.name_any(),
                boot_id: info.map(|info| info.boot_id.clone()).unwrap_or_default(),
            };
            Some((instance.clone(), of))
        }));
    }
    let (living, joining) = shell.with(|world, now| {
        // Instances start and boot while nobody calls.
        world.advance(now);
        let living = world.instances().filter(|one| one.state.lives());
        let living: BTreeMap<String, String> =
            living.map(|one| (one.id.clone(), boot_id(one))).collect();
        let new = world.instances().filter(|one| !known.contains_key(&one.id));
        let joining: Vec<Joining> = new.filter_map(|one| join(world, one, now).ok()).collect();
        (living, joining)
    });
    let gone = known.keys().filter(|id| !living.contains_key(*id));
    let gone: Vec<String> = gone.cloned().collect();
    for id in gone {
        if let Some(of) = known.get(&id) {
            let gone = nodes.delete(&of.name, &DeleteParams::default()).await;
            ignore(404, gone.map(drop))?;
        }
        known.remove(&id);
    }
    for (id, of) in known.iter_mut() {
        let Some(boot_id) = living.get(id).filter(|boot_id| **boot_id != of.boot_id) else {
            continue;
        };
        let booted = Patch::Merge(json!({"status": {"nodeInfo": {"bootID": boot_id}}}));
        let params = PatchParams::default();
        let written = nodes.patch_status(&of.name, &params, &booted).await;
        ignore(404, written.map(drop))?;
        of.boot_id.clone_from(boot_id);
    }
    if joining.is_empty() {
        return Ok(());
    }
    let claims: Api<NodeClaim> = Api::all(client.clone());
    let claims = claims.list(&ListParams::default()).await?.items;
    for one in joining {
        let of = |claim: &&NodeClaim| {
            let status = claim.status.as_ref();
            status.is_some_and(|status| status.provider_id == one.provider_id)
        };
        // Its claim does not say yet that it was launched.
        let Some(claim) = claims.iter().find(of) else {
            continue;
        };
        let made = nodes
            .create(&PostParams::default(), &node(&one, claim))
            .await;
        ignore(409, made.map(drop))?;
        let of = MadeNode {
            name: one.name,
            boot_id: one.boot_id,
        };
        known.insert(one.instance, of);
    }
    Ok(())
}

fn ignore(code: u16, result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == code => Ok(()),
        result => result,
    }
}

/// The Node as its kubelet registers it.
fn node(joining: &Joining, claim: &NodeClaim) -> Node {
    let status = claim.status.as_ref();
    let amounts = |all: Option<&BTreeMap<String, _>>| json!(all);
    let mut capacity = amounts(status.map(|status| &status.capacity));
    let mut allocatable = amounts(status.map(|status| &status.allocatable));
    if let Some(pods) = joining.max_pods {
        capacity["pods"] = json!(pods.to_string());
        allocatable["pods"] = json!(pods.to_string());
    }
    let taints: Vec<Value> = joining.taints.iter().map(|text| taint(text)).collect();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": joining.name, "labels": joining.labels,
            "annotations": {FAKE: "fake", INSTANCE: joining.instance},
        },
        "spec": {"providerID": joining.provider_id, "taints": taints},
        "status": {
            "capacity": capacity, "allocatable": allocatable, "phase": "Pending",
            "nodeInfo": {
                "architecture": "", "bootID": joining.boot_id, "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
            },
        },
    });
    // Every field above is one of a Node.
    serde_json::from_value(node).unwrap_or_default()
}

/// Reads `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Value {
    let (pair, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    json!({"key": key, "value": value, "effect": effect})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_pods_and_taints_of_its_user_data_and_the_rest_of_its_claim() {
        let joining = Joining {
            instance: "i-1".into(),
            name: "ip-10-0-0-4.ec2.internal".into(),
            provider_id: "aws:///us-east-1a/i-1".into(),
            labels: [("team".to_owned(), "shop".to_owned())].into(),
            taints: vec![
                "karpenter.sh/unregistered:NoExecute".into(),
                "a=b:NoSchedule".into(),
            ],
            max_pods: Some(29),
            cluster: "demo".into(),
            boot_id: "i-1-0".into(),
        };
        let claim: NodeClaim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"capacity": {"cpu": "2", "pods": "30"}, "allocatable": {"cpu": "1930m"}},
        }))
        .unwrap();
        let made = serde_json::to_value(node(&joining, &claim)).unwrap();
        assert_eq!(
            made["status"]["capacity"],
            json!({"cpu": "2", "pods": "29"})
        );
        assert_eq!(
            made["status"]["allocatable"],
            json!({"cpu": "1930m", "pods": "29"})
        );
        assert_eq!(made["status"]["nodeInfo"]["bootID"], "i-1-0");
        assert_eq!(made["spec"]["taints"][1]["value"], "b");
        assert_eq!(made["spec"]["taints"][0]["effect"], "NoExecute");
        assert_eq!(made["metadata"]["labels"]["team"], "shop");
    }
}
