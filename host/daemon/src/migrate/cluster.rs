//! The objects that are looked at, from files or from the API server.

use std::path::{Path, PathBuf};

use longshore_api::crd::Timestamp;
use longshore_api::manifests::{Diagnostics, Document, documents};
use serde_json::{Value, json};

use crate::input;
use longshore_live::error::Failure;
use longshore_live::process::connection;

/// An object as it came.
pub struct Object {
    /// The object's text, for faults with line and field.
    pub document: Document,
    /// The object as a tree.
    pub value: Value,
    of_file: bool,
}

impl Object {
    pub fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its name, with its namespace before a slash if it has one.
    pub fn full_name(&self) -> String {
        match self.value["metadata"]["namespace"].as_str() {
            Some(namespace) if !namespace.is_empty() => format!("{namespace}/{}", self.name()),
            _ => self.name().to_owned(),
        }
    }

    /// The API group; empty for the core's.
    fn group(&self) -> &str {
        let version = self.value["apiVersion"].as_str().unwrap_or_default();
        version.split_once('/').map_or("", |(group, _)| group)
    }

    /// An annotation; nothing if it is absent.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["annotations"][key].as_str()
    }

    /// Whether it has a finalizer.
    pub fn holds(&self, finalizer: &str) -> bool {
        let all = self.value["metadata"]["finalizers"].as_array();
        all.is_some_and(|all| all.iter().any(|one| one == finalizer))
    }

    /// Whether it is being deleted.
    pub fn leaves(&self) -> bool {
        self.value["metadata"]["deletionTimestamp"].is_string()
    }

    /// File and line of a field, or of the object; empty for an object of the API server.
    pub fn place(&self, field: &str) -> String {
        if !self.of_file {
            return String::new();
        }
        let location = self.document.refuse(field, "", "").location;
        let line = location.line.map(|line| format!(":{line}"));
        format!("{}{}", location.source, line.unwrap_or_default())
    }
}

/// A cluster as Karpenter left it.
pub struct Cluster {
    objects: Vec<Object>,
    /// The API server's time; with files, the latest time that an object names.
    pub now: Timestamp,
    /// The cluster's CA certificate in base64, if that was said.
    pub ca_bundle: Option<String>,
}

/// Kinds that are looked at: group, kind, and where the API server lists them. Karpenter's own come
/// first: without any of them there is nothing to take over.
const KINDS: [(&str, &str, &str); 10] = [
    (
        "karpenter.sh",
        "NodePool",
        "/apis/karpenter.sh/v1/nodepools",
    ),
    (
        "karpenter.sh",
        "NodeClaim",
        "/apis/karpenter.sh/v1/nodeclaims",
    ),
    (
        "karpenter.k8s.aws",
        "EC2NodeClass",
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    ),
    (
        "karpenter.kwok.sh",
        "KWOKNodeClass",
        "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
    ),
    (
        "karpenter.sh",
        "NodeOverlay",
        "/apis/karpenter.sh/v1alpha1/nodeoverlays",
    ),
    (
        "autoscaling.x-k8s.io",
        "CapacityBuffer",
        "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers",
    ),
    ("", "Node", "/api/v1/nodes"),
    (
        "coordination.k8s.io",
        "Lease",
        "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dkarpenter-leader-election",
    ),
    (
        "apps",
        "Deployment",
        "/apis/apps/v1/deployments?labelSelector=app.kubernetes.io%2Fname%3Dkarpenter",
    ),
    (
        "",
        "ConfigMap",
        "/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt",
    ),
];
/// How many of them are Karpenter's.
const KARPENTER_KINDS: usize = 4;
/// The kind of resource definitions, which are asked for one by one.
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

impl Cluster {
    /// From manifests. Other kinds are passed over.
    ///
    /// # Errors
    /// A file cannot be read, is no text of objects, or there is nothing of Karpenter's.
    pub fn of_files(files: &[PathBuf]) -> Result<Self, Failure> {
        let mut cluster = Cluster::empty();
        let mut problems = Diagnostics::default();
        for file in files {
            let name = input::shown(file);
            cluster.read(&name, &input::bytes(file)?, &mut problems);
        }
        if let Some(first) = problems.list.first() {
            let source_name = first.location.source.clone();
            return Err(Failure::Unusable {
                source_name,
                problems,
            });
        }
        if cluster.is_bare() {
            return Err(Failure::Usage {
                message: "the files have no NodePool, NodeClaim or node class".to_owned(),
                hint: "give what `kubectl get nodepools,nodeclaims,ec2nodeclasses,nodes -o yaml` \
                       prints; kubectl prints nothing at all where the cluster lacks one of the kinds"
                    .to_owned(),
            });
        }
        cluster.now = cluster.latest();
        Ok(cluster)
    }

    /// From a text, for tests.
    #[cfg(test)]
    pub fn of_text(text: &str) -> Self {
        let (mut cluster, mut problems) = (Cluster::empty(), Diagnostics::default());
        cluster.read("cluster.yaml", text.as_bytes(), &mut problems);
        assert!(problems.is_empty(), "{problems}");
        cluster.now = cluster.latest();
        cluster
    }

    /// From the API server that a kubeconfig names, or the environment.
    ///
    /// # Errors
    /// It cannot be reached or does not let us read, or there is nothing of Karpenter's.
    pub fn of_server(kubeconfig: Option<&Path>) -> Result<Self, Failure> {
        let (runtime, client) = connected(kubeconfig)?;
        runtime.block_on(async {
            let mut cluster = Cluster::empty();
            cluster.now = Timestamp::now();
            for (group, kind, path) in KINDS {
                for value in list(&client, path).await? {
                    cluster.add_listed((group, kind), value);
                }
            }
            if cluster.is_bare() {
                return Err(Failure::Usage {
                    message: "the cluster has no NodePool, NodeClaim or node class".to_owned(),
                    hint: "is it the cluster that Karpenter runs in? see --kubeconfig".to_owned(),
                });
            }
            for definition in super::controller::definitions() {
                let path = format!(
                    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}",
                    definition.name()
                );
                if let Some(value) = ask(&client, &path).await? {
                    cluster.add_listed(DEFINITION, value);
                }
            }
            Ok(cluster)
        })
    }

    fn empty() -> Self {
        Cluster {
            objects: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
            ca_bundle: None,
        }
    }

    fn is_bare(&self) -> bool {
        let of_karpenter = |object: &Object| {
            let mut kinds = KINDS[..KARPENTER_KINDS].iter();
            kinds.any(|(group, kind, _)| (*group, *kind) == (object.group(), object.kind()))
        };
        !self.objects.iter().any(of_karpenter)
    }

    fn read(&mut self, source: &str, bytes: &[u8], problems: &mut Diagnostics) {
        let (found, faults) = documents(source, bytes);
        faults.list.into_iter().for_each(|one| problems.push(one));
        for document in found.into_iter().flat_map(Document::items) {
            let Ok(value) = serde_json::from_str::<Value>(document.text()) else {
                continue;
            };
            if !value["kind"].is_string() {
                let hint = "every object needs apiVersion and kind";
                problems.push(document.refuse("kind", "is missing", hint));
                continue;
            }
            let object = Object {
                document,
                value,
                of_file: true,
            };
            if is_looked_at(&object) {
                self.objects.push(object);
            }
        }
    }

    /// Takes in an object of the API server. Items of lists do not say their kind there.
    fn add_listed(&mut self, (group, kind): (&str, &str), mut value: Value) {
        if !value["kind"].is_string() {
            value["kind"] = json!(kind);
        }
        if !value["apiVersion"].is_string() {
            let version = if group.is_empty() {
                "v1".to_owned()
            } else {
                format!("{group}/v1")
            };
            value["apiVersion"] = json!(version);
        }
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let (found, _) = documents("the cluster", value.to_string().as_bytes());
        let of = |document| Object {
            document,
            value: value.clone(),
            of_file: false,
        };
        self.objects.extend(found.into_iter().map(of));
    }

    /// Objects of a kind that is looked at.
    pub fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        self.objects.iter().filter(move |one| one.kind() == kind)
    }

    /// The latest time of any object.
    fn latest(&self) -> Timestamp {
        let mut latest = Timestamp::UNIX_EPOCH;
        self.objects
            .iter()
            .for_each(|one| times(&one.value, &mut latest));
        latest
    }
}

fn is_looked_at(object: &Object) -> bool {
    let own = (object.group(), object.kind());
    // Of kinds that others have too, Karpenter's alone.
    let is_karpenters = match object.kind() {
        "Lease" => object.name() == "karpenter-leader-election",
        "ConfigMap" => object.name() == "kube-root-ca.crt",
        "Deployment" => {
            let label = &object.value["metadata"]["labels"]["app.kubernetes.io/name"];
            object.name() == "karpenter" || label == "karpenter"
        }
        _ => true,
    };
    let known = || KINDS.iter().any(|(group, kind, _)| own == (*group, *kind));
    own == DEFINITION || is_karpenters && known()
}

/// Fields with times that have passed.
const PAST: [&str; 5] = [
    "creationTimestamp",
    "renewTime",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastPodEventTime",
];

/// Goes on to the latest time that a field names.
fn times(value: &Value, latest: &mut Timestamp) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| times(one, latest)),
        Value::Object(all) => {
            for (key, value) in all {
                let at = value.as_str().filter(|_| PAST.contains(&&**key));
                match at.and_then(|text| text.parse::<Timestamp>().ok()) {
                    Some(at) => *latest = at.max(*latest),
                    None => times(value, latest),
                }
            }
        }
        _ => {}
    }
}

/// A client, and what runs its requests.
///
/// # Errors
/// The API server cannot be reached.
pub fn connected(
    kubeconfig: Option<&Path>,
) -> Result<(tokio::runtime::Runtime, kube::Client), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| no_server(&source.to_string()))?;
    let client = runtime.block_on(async {
        let config = connection::config(kubeconfig).await?;
        kube::Client::try_from(config).map_err(|why| no_server(&why.to_string()))
    })?;
    Ok((runtime, client))
}

async fn list(client: &kube::Client, path: &str) -> Result<Vec<Value>, Failure> {
    let answer = ask(client, path).await?;
    let items = answer.and_then(|mut answer| match answer["items"].take() {
        Value::Array(items) => Some(items),
        _ => None,
    });
    Ok(items.unwrap_or_default())
}

/// What is at a path; nothing if the server does not know it.
async fn ask(client: &kube::Client, path: &str) -> Result<Option<Value>, Failure> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|why| no_server(&why.to_string()))?;
    match client.request::<Value>(request).await {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(Failure::Usage {
            message: format!("the API server does not let us read: {}", status.message),
            hint: "use the kubeconfig of an administrator, or give files with --snapshot"
                .to_owned(),
        }),
        Err(why) => Err(no_server(&why.to_string())),
    }
}

/// The API server did not answer.
pub fn no_server(why: &str) -> Failure {
    Failure::Usage {
        message: format!("the API server cannot be asked: {why}"),
        hint: "check --kubeconfig, or give files with --snapshot".to_owned(),
    }
}
