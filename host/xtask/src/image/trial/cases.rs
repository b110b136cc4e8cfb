//! Which values the chart is tried with, and the cloud and the objects that go with them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use longshore_xtask::control_plane::ControlPlane;
use longshore_xtask::emulated_aws::EmulatedAws;
use serde_json::{Value, json};

const WORLD: &str = "examples/catalogues/aws-us-east-1.json.gz";
/// Its region, where the chart names no other.
const REGION: &str = "us-east-1";
/// An instance profile of the emulated account, for clusters without a way to IAM.
const PROFILE: &str = "KarpenterNodes";
/// The role of nodes.
const ROLE: &str = "KarpenterNodeRole";

/// What the chart is tried with.
pub struct Case {
    pub name: String,
    /// A values file.
    pub values: Option<PathBuf>,
    /// `--set` of Helm.
    pub set: Vec<String>,
}

/// Nodes of KWOK, then EC2 with the defaults and with each values file; those whose names contain
/// what `LONGSHORE_TRIAL` says.
///
/// # Errors
/// The values files cannot be listed.
pub fn all() -> Result<Vec<Case>> {
    let folder = longshore_xtask::guests::root().join("host/xtask/tests/charts");
    let files =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = files
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let of_file = |file: PathBuf| Case {
        name: format!(
            "EC2 with {}",
            file.file_name().unwrap_or_default().display()
        ),
        values: Some(file),
        set: Vec::new(),
    };
    let only = std::env::var("LONGSHORE_TRIAL").unwrap_or_default();
    let case = |name: &str, set: &str| Case {
        name: name.to_owned(),
        values: None,
        set: vec![set.to_owned()],
    };
    let mut all = vec![
        case("nodes of KWOK", "longshore.provider=kwok"),
        case("EC2 with the defaults", "settings.clusterName=shop"),
    ];
    all.extend(files.into_iter().map(of_file));
    all.retain(|case| case.name.contains(&only));
    Ok(all)
}

/// Where nodes come from.
pub enum Cloud {
    /// The API server alone.
    Kwok,
    Aws(EmulatedAws),
}

impl Cloud {
    /// Which of its instances join, and why others do not.
    ///
    /// # Errors
    /// The emulator has ended.
    pub fn says(&self) -> Result<String> {
        match self {
            Cloud::Kwok => Ok(String::new()),
            Cloud::Aws(aws) => {
                let nodes = aws.ask("GET", "/_emulator/nodes", &Value::Null)?;
                Ok(nodes.to_string())
            }
        }
    }

    /// What the machine of the daemon's pod says of it.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut set = BTreeMap::new();
        if let Cloud::Aws(aws) = self {
            set.insert("AWS_ENDPOINT_URL".to_owned(), aws.url.clone());
            set.insert("AWS_REGION".to_owned(), REGION.to_owned());
        }
        set
    }
}

impl Case {
    fn is_ec2(&self) -> bool {
        !self.set.iter().any(|set| set == "longshore.provider=kwok")
    }

    /// The kinds that have conditions, for kubectl.
    pub fn kinds(&self) -> &'static str {
        match self.is_ec2() {
            true => "ec2nodeclasses,nodepools,nodeclaims",
            false => "nodepools,nodeclaims",
        }
    }

    /// Starts the cloud that the daemon's environment speaks of.
    ///
    /// # Errors
    /// The emulator does not start.
    pub fn cloud(
        &self,
        program: &Path,
        folder: &Path,
        plane: &ControlPlane,
        env: &BTreeMap<String, String>,
    ) -> Result<Cloud> {
        if !self.is_ec2() {
            return Ok(Cloud::Kwok);
        }
        let file = folder.join("world.json");
        fs::write(&file, world(env)?.to_string())?;
        Ok(Cloud::Aws(EmulatedAws::start(program, &file, plane)?))
    }

    /// A NodeClass, a NodePool and pods.
    pub fn manifests(&self, env: &BTreeMap<String, String>) -> String {
        let isolated = env.get("ISOLATED_VPC").is_some_and(|value| value == "true");
        let identity = match isolated {
            true => json!({"instanceProfile": PROFILE}),
            false => json!({"role": ROLE}),
        };
        let discovery = json!([{"tags": {"karpenter.sh/discovery": "*"}}]);
        let mut spec = json!({
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": discovery,
            "securityGroupSelectorTerms": discovery,
        });
        let (group, kind) = match self.is_ec2() {
            true => ("karpenter.k8s.aws", "EC2NodeClass"),
            false => ("karpenter.kwok.sh", "KWOKNodeClass"),
        };
        let class = match self.is_ec2() {
            true => {
                merge(&mut spec, identity);
                let name = json!({"name": "default"});
                json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": name, "spec": spec})
            }
            false => json!({
                "apiVersion": format!("{group}/v1alpha1"),
                "kind": kind,
                "metadata": {"name": "default"},
            }),
        };
        let requirements = json!([
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        ]);
        let pool = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
                "requirements": requirements,
            }}},
        });
        let pods = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": super::PODS,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{
                        "name": "c",
                        "image": "pause",
                        "resources": {"requests": {"cpu": "700m", "memory": "600Mi"}},
                    }]},
                },
            },
        });
        [class, pool, pods]
            .map(|object| object.to_string())
            .join("\n---\n")
    }
}

fn merge(object: &mut Value, other: Value) {
    let (Value::Object(object), Value::Object(other)) = (object, other) else {
        return;
    };
    object.extend(other);
}

/// An account with the cluster and the queue that are in the values of the chart.
fn world(env: &BTreeMap<String, String>) -> Result<Value> {
    let file = longshore_xtask::guests::root().join(WORLD);
    let packed =
        fs::File::open(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text)?;
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    if let Some(region) = set("AWS_REGION") {
        text = text.replace(REGION, region);
    }
    let mut world: Value = serde_json::from_str(&text)?;
    if let Some(name) = set("CLUSTER_NAME") {
        world["cluster"]["name"] = json!(name);
    }
    if let Some(queue) = set("INTERRUPTION_QUEUE") {
        world["account"]["queue"] = json!(queue);
    }
    world["account"]["roles"] = json!([ROLE]);
    world["account"]["instanceProfiles"] = json!({PROFILE: ROLE});
    Ok(world)
}
