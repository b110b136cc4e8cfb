//! The load of a cluster: a NodePool, and Deployments of several kinds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::bench::cases::Inputs;
use crate::commands;

/// The usual NodePool, with a class whose nodes take a second to register, and more requirements.
pub fn pool(more: &[Value]) -> Vec<Value> {
    let any = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let mut requirements = vec![
        any("karpenter.sh/capacity-type", &["spot", "on-demand"]),
        any("kubernetes.io/os", &["linux"]),
    ];
    requirements.extend_from_slice(more);
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    vec![
        json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
            "spec": {"nodeRegistrationDelay": "1s"},
        }),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            // Nobody gives up nodes while others are measured.
            "spec": {
                "disruption": {"consolidateAfter": "Never", "consolidationPolicy": "WhenEmpty"},
                "template": {"spec": {"nodeClassRef": class, "requirements": requirements, "expireAfter": "Never"}},
            },
        }),
    ]
}

/// A Deployment of pods that end at once when they are asked to.
pub fn deployment(name: &str, replicas: usize, labels: &Value, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["terminationGracePeriodSeconds"] = json!(0);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

/// What pods ask for: millicores and MiB, the next of each for the next Deployment.
pub struct Sizes {
    pub cpu: &'static [u32],
    pub memory: &'static [u32],
}

/// Small services, of twenty sizes.
pub const SMALL: Sizes = Sizes {
    cpu: &[100, 250, 500, 1000],
    memory: &[128, 256, 512, 1024, 2048],
};
/// About a core each, of five sizes.
pub const A_CORE: Sizes = Sizes {
    cpu: &[1000],
    memory: &[1024, 1536, 2048, 4096, 8192],
};

/// The same Deployments, with pods that must spread evenly over zones.
pub fn over_zones(mut deployments: Vec<Value>) -> Vec<Value> {
    for one in &mut deployments {
        let selector = one["spec"]["selector"].clone();
        one["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }]);
    }
    deployments
}

/// So many Deployments of so many pods.
pub fn plain(deployments: usize, replicas: usize, sizes: &Sizes) -> Vec<Value> {
    let one = |at: usize| {
        let cpu = sizes.cpu[at % sizes.cpu.len()];
        let memory = sizes.memory[at % sizes.memory.len()];
        let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
        let spec = json!({"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]});
        deployment(
            &format!("web{at}"),
            replicas,
            &json!({"app": format!("web{at}")}),
            &spec,
        )
    };
    (0..deployments).map(one).collect()
}

pub fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

pub const NO_DATA: &str = "clusters are made by make_cluster.py (LONGSHORE_DATA) with python3, \
    and one of the two is not here";

/// Where platforms are made up.
pub struct Mixes(Inputs);

impl Mixes {
    /// As the planner's benchmark finds it.
    pub fn find() -> anyhow::Result<Self> {
        Inputs::find().map(Mixes)
    }

    /// Real instance types.
    pub fn types(&self) -> PathBuf {
        let shipped =
            longshore_xtask::guests::root().join("examples/catalogues/ec2-us-east-1.json");
        self.0
            .data
            .as_ref()
            .map_or(shipped, |data| data.join("ec2-us-east-1.json"))
    }

    /// A file with 10 000 nodes, 100 000 pods and a thousand that wait; made once.
    pub fn large(&self) -> anyhow::Result<PathBuf> {
        let Some(data) = &self.0.data else {
            bail!("{NO_DATA}")
        };
        // The planner's benchmark has the same one.
        let arguments = "--profile services --nodes 10000 --pods 100000 --pending 1000";
        self.0
            .made(data, arguments, &data.join("ec2-us-east-1-cmr.json"))
    }

    /// A number of Deployments and pods, with requests and constraints as on a platform, without
    /// pods that need a node each. Nothing where platforms cannot be made up.
    pub fn even(&self, deployments: usize, replicas: usize) -> anyhow::Result<Option<Vec<Value>>> {
        if self.0.data.is_none() {
            return Ok(None);
        }
        let (mut objects, _) = self.platform(1, 1000)?;
        objects.retain(|object| {
            object["kind"] == "Deployment"
                && object["spec"]["template"]["spec"]["affinity"].is_null()
        });
        objects.truncate(deployments);
        objects
            .iter_mut()
            .for_each(|object| object["spec"]["replicas"] = json!(replicas));
        Ok(Some(objects))
    }

    /// DaemonSets and Deployments of one platform with so many pods; the number of pods that
    /// Deployments ask for.
    pub fn platform(&self, seed: u64, pods: u32) -> anyhow::Result<(Vec<Value>, usize)> {
        let Some(data) = &self.0.data else {
            bail!("{NO_DATA}")
        };
        let mut command = Command::new("python3");
        command
            .arg(data.join("make_cluster.py"))
            .args(["--profile", "services", "--pending"]);
        command.args([pods.to_string(), "--seed".into(), seed.to_string()]);
        let made: Value =
            serde_json::from_slice(&commands::output(command)?).context("a made-up platform")?;
        let mut objects = Vec::new();
        let mut services: BTreeMap<String, (usize, Value, Value)> = BTreeMap::new();
        for object in made["items"].as_array().into_iter().flatten() {
            match object["kind"].as_str() {
                Some("DaemonSet") => {
                    // What only a server gives.
                    let mut daemons = object.clone();
                    if let Some(metadata) = daemons["metadata"].as_object_mut() {
                        metadata.retain(|key, _| {
                            ["name", "namespace", "labels"].contains(&key.as_str())
                        });
                    }
                    objects.push(daemons);
                }
                Some("Pod") => {
                    let owner = object["metadata"]["ownerReferences"][0]["name"]
                        .as_str()
                        .context("a pod's owner")?;
                    let like = || {
                        (
                            0,
                            object["metadata"]["labels"].clone(),
                            object["spec"].clone(),
                        )
                    };
                    services.entry(owner.to_owned()).or_insert_with(like).0 += 1;
                }
                _ => {}
            }
        }
        let count = services.values().map(|(replicas, ..)| replicas).sum();
        let services = services
            .iter()
            .map(|(name, (replicas, labels, spec))| deployment(name, *replicas, labels, spec));
        objects.extend(services);
        Ok((objects, count))
    }
}
