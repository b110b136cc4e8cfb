//! A cluster that Karpenter left, and a shell in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use longshore_xtask::control_plane::{Binaries, ControlPlane, Program};
use longshore_xtask::guests::root;
use longshore_xtask::helm::Helm;
use serde_json::{Value, json};

use super::{karpenter, plane};

const RECORDED: &str = include_str!("../data/takeover/karpenter.json");
/// What the cluster's certificate is, for hashes as they were recorded.
const CERTIFICATE: &str = "ca-bundle";
/// Kinds of which nothing may be lost.
const KEPT: &str = "crd,ec2nodeclasses,nodepools,nodeclaims,nodes";

/// How a command ended.
#[derive(Debug)]
pub struct Said {
    /// Whether it ended with 0.
    pub done: bool,
    /// What it printed, to both streams.
    pub text: String,
}

pub struct Scene {
    pub plane: ControlPlane,
    /// Which Helm the commands call.
    pub helm: Helm,
    /// Where commands run: with the repository's `deploy`.
    pub folder: PathBuf,
    /// What must stay, `Kind/name` and UID.
    kept: BTreeMap<String, String>,
}

impl Scene {
    /// A cluster without anything of Longshore's or Karpenter's.
    pub fn start(name: &str, helm: Helm) -> Result<Self> {
        let plane = ControlPlane::start(name)?;
        let rbac = root().join("deploy/rbac.yaml");
        let account = root().join("deploy/service-account.yaml");
        let kwok = root().join("deploy/rbac-kwok.yaml");
        for file in [rbac, kwok, account] {
            let file = file.to_str().context("a path that is no text")?;
            plane.run(&["delete", "-f", file])?;
        }
        // The API server gives up on a definition whose storage it is making, until it changes again.
        for attempt in 0..4 {
            if plane
                .run(&["delete", "crd", "--all", "--timeout=20s"])
                .is_ok()
            {
                break;
            }
            ensure!(attempt < 3, "the definitions are not deleted");
            let again = format!("longshore.dev/attempt={attempt}");
            plane.run(&["annotate", "crd", "--all", "--overwrite", &again])?;
        }
        let folder = plane.folder().join("walk");
        fs::create_dir_all(folder.join("bin"))?;
        karpenter::write(&folder.join("charts"))?;
        fs::write(folder.join("karpenter.yaml"), karpenter::VALUES)?;
        symlink(root().join("deploy"), folder.join("deploy"))?;
        let kubectl = Binaries::find()?.get(Program::Kubectl).path.clone();
        symlink(kubectl, folder.join("bin/kubectl"))?;
        for (file, text) in [
            // Karpenter's charts are small ones of the same shape.
            (
                "helm",
                "#!/bin/bash\nargs=()\nwhile [ $# -gt 0 ]; do\n  case \"$1\" in\n  \
                 oci://public.ecr.aws/karpenter/*) args+=(\"$CHARTS/${1##*/}\") ;;\n  \
                 --version) shift ;;\n  *) args+=(\"$1\") ;;\n  esac\n  shift\ndone\n\
                 exec \"$REAL_HELM\" \"${args[@]}\"\n",
            ),
            // A finding is no failure of the walk; the exit code is kept.
            (
                "longshore",
                "#!/bin/bash\n\"$REAL_LONGSHORE\" \"$@\"\ncode=$?\necho $code >> codes\n\
                 [ $code -ne 2 ]\n",
            ),
        ] {
            let file = folder.join("bin").join(file);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Scene {
            plane,
            helm,
            folder,
            kept: BTreeMap::new(),
        })
    }

    /// Objects as Karpenter 1.15 leaves them. From here on nothing of them may be lost.
    pub fn populate(&mut self) -> Result<()> {
        self.plane.run(&[
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ])?;
        let recorded: Value = serde_json::from_str(RECORDED)?;
        let certificate = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "namespace": "kube-system"},
            "data": {"ca.crt": CERTIFICATE},
        });
        self.plane.apply(&certificate.to_string())?;
        let hash = |kind: &str| recorded["hashes"][kind]["hash"].clone();
        let mut class = recorded["class"].clone();
        let status = class["status"].take();
        class.as_object_mut().context("an object")?.remove("status");
        class["metadata"]["finalizers"] = json!(["karpenter.k8s.aws/termination"]);
        class["metadata"]["annotations"] = json!({
            "karpenter.k8s.aws/ec2nodeclass-hash": hash("EC2NodeClass"),
            "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
        });
        self.plane.apply(&class.to_string())?;
        self.status("ec2nodeclass/default", &status)?;
        let mut pool = recorded["pool"].clone();
        pool["metadata"]["annotations"] = json!({
            "karpenter.sh/nodepool-hash": hash("NodePool"),
            "karpenter.sh/nodepool-hash-version": "v3",
        });
        self.plane.apply(&pool.to_string())?;
        for recorded in recorded["launches"].as_array().context("launches")? {
            self.node(recorded)?;
        }
        self.kept = self.objects()?;
        ensure!(self.kept.len() >= 5 + 2 + 2, "{:?}", self.kept);
        Ok(())
    }

    fn status(&self, what: &str, status: &Value) -> Result<()> {
        let patch = json!({ "status": status }).to_string();
        let merge = [
            "patch",
            what,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        self.plane.run(&merge).map(drop)
    }

    /// A NodeClaim with its Node.
    fn node(&self, recorded: &Value) -> Result<()> {
        let (asked, made) = (&recorded["asked"], &recorded["claim"]);
        let name = asked["metadata"]["name"].as_str().context("a name")?;
        let mut claim = asked.clone();
        let merged = |field: &str| {
            let fields = |of: &Value| {
                of["metadata"][field]
                    .as_object()
                    .cloned()
                    .unwrap_or_default()
            };
            let mut all = fields(made);
            all.extend(fields(asked));
            all
        };
        let mut annotations = merged("annotations");
        for tagged in [
            "karpenter.k8s.aws/tagged",
            "compatibility.karpenter.k8s.aws/cluster-name-tagged",
        ] {
            annotations.insert(tagged.to_owned(), json!("true"));
        }
        let labels = merged("labels");
        claim["metadata"]["labels"] = json!(labels);
        claim["metadata"]["annotations"] = json!(annotations);
        claim["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
        let pool = plane::get(&self.plane, "nodepool/default", "{.metadata.uid}")?;
        claim["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": pool,
            "blockOwnerDeletion": true,
        }]);
        self.plane.apply(&claim.to_string())?;
        let id = format!("aws:///us-east-1a/i-0{name}");
        let mut node_labels = labels;
        for label in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
            node_labels.insert(label.to_owned(), json!("true"));
        }
        let uid = plane::get(&self.plane, &format!("nodeclaim/{name}"), "{.metadata.uid}")?;
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": format!("node-{name}"),
                "labels": node_labels,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "finalizers": ["karpenter.sh/termination"],
                "ownerReferences": [{
                    "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": uid,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": {"providerID": id},
        });
        self.plane.apply(&node.to_string())?;
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "reason": type_, "message": "",
                "observedGeneration": 1, "lastTransitionTime": "2026-11-26T08:00:00Z",
            })
        };
        let types = ["Launched", "Registered", "Initialized", "Ready"];
        let mut status = made["status"].clone();
        status
            .as_object_mut()
            .context("status")?
            .remove("lastPodEventTime");
        status["providerID"] = json!(id);
        status["nodeName"] = json!(format!("node-{name}"));
        status["conditions"] = json!(types.map(condition));
        self.status(&format!("nodeclaim/{name}"), &status)
    }

    /// Runs commands, and fails where one fails or something is lost. What they printed.
    pub fn run(&mut self, commands: &str) -> Result<String> {
        let said = self.try_run(commands)?;
        ensure!(said.done, "{commands}\n{}", said.text);
        Ok(said.text)
    }

    /// The same, for commands that may fail.
    pub fn try_run(&mut self, commands: &str) -> Result<Said> {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.folder.join("bin");
        let done = Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c", commands])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("KUBECONFIG", self.plane.admin_kubeconfig())
            .env("CHARTS", self.folder.join("charts"))
            .env("REAL_HELM", self.helm.path()?)
            .envs(self.helm.environment()?)
            .env("REAL_LONGSHORE", env!("CARGO_BIN_EXE_longshore"))
            .output()
            .context("cannot start bash")?;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        self.intact(commands).with_context(|| text.clone())?;
        Ok(Said {
            done: done.status.success(),
            text,
        })
    }

    /// That nothing is lost or about to be.
    pub fn intact(&self, after: &str) -> Result<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let now = self.objects().with_context(|| format!("after {after}"))?;
        for (name, uid) in &self.kept {
            ensure!(now.get(name) == Some(uid), "{name} is lost after\n{after}");
        }
        Ok(())
    }

    /// Objects of [`KEPT`] that are not being deleted.
    fn objects(&self) -> Result<BTreeMap<String, String>> {
        let list: Value = serde_json::from_str(&self.plane.run(&["get", KEPT, "-o", "json"])?)?;
        let mut all = BTreeMap::new();
        for object in list["items"].as_array().into_iter().flatten() {
            let metadata = &object["metadata"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if metadata["deletionTimestamp"].is_null() {
                let name = format!("{}/{}", text(&object["kind"]), text(&metadata["name"]));
                all.insert(name, text(&metadata["uid"]));
            }
        }
        Ok(all)
    }

    /// The container of the Deployment `karpenter`.
    pub fn controller(&self) -> Result<Value> {
        let path = "{.spec.template.spec.containers[0]}";
        let command = ["-n", "kube-system", "get", "deployment", "karpenter", "-o"];
        let path = format!("jsonpath={path}");
        let text = self.plane.run(&[&command[..], &[&path]].concat())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Definitions of Karpenter's.
    pub fn definitions(&self) -> Result<Vec<Value>> {
        let all = plane::objects(&self.plane, "crd", &[])?;
        ensure!(all.len() == 5, "{} definitions", all.len());
        Ok(all)
    }

    /// Applies what refuses to delete definitions, and waits until it does.
    pub fn guard(&mut self) -> Result<()> {
        self.run("kubectl apply -f deploy/keep-definitions.yaml")?;
        self.guarded()
    }

    /// Waits until what was applied refuses to delete a definition.
    pub fn guarded(&self) -> Result<()> {
        let begun = Instant::now();
        let try_it = [
            "delete",
            "crd",
            "nodepools.karpenter.sh",
            "--dry-run=server",
        ];
        while let Ok(said) = self.plane.run(&try_it) {
            ensure!(
                begun.elapsed() < Duration::from_secs(30),
                "not refused: {said}"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// What `longshore migrate check` exited with since the last question: each one of these.
    pub fn checked(&self, allowed: &[i32]) -> Result<()> {
        let codes = self.codes()?;
        ensure!(!codes.is_empty(), "nothing was checked");
        ensure!(
            codes.iter().all(|code| allowed.contains(code)),
            "exit codes {codes:?}"
        );
        fs::remove_file(self.folder.join("codes"))?;
        Ok(())
    }

    /// Exit codes of `longshore` since the last question.
    pub fn codes(&self) -> Result<Vec<i32>> {
        let text = fs::read_to_string(self.folder.join("codes")).unwrap_or_default();
        let codes = text.lines().map(|line| Ok(line.parse()?));
        codes.collect()
    }

    /// A chart of Karpenter's as Helm renders it, with its definitions.
    pub fn rendered(&mut self, chart: &str, more: &[&str]) -> Result<String> {
        self.run(&format!(
            "helm template karpenter $CHARTS/{chart} --include-crds --namespace kube-system {}",
            more.join(" ")
        ))
    }

    /// Spec, rules and subjects of what Karpenter's chart installed, by kind and name.
    pub fn karpenters_objects(&self) -> Result<BTreeMap<String, Value>> {
        let kinds = "clusterroles,clusterrolebindings,roles,rolebindings,deployments,services,\
                     serviceaccounts,poddisruptionbudgets";
        let label = "app.kubernetes.io/name=karpenter";
        let text = self
            .plane
            .run(&["get", kinds, "-A", "-l", label, "-o", "json"])?;
        let list: Value = serde_json::from_str(&text)?;
        let mut all = BTreeMap::new();
        for object in list["items"].as_array().into_iter().flatten() {
            let fields = [
                "spec",
                "rules",
                "subjects",
                "roleRef",
                "automountServiceAccountToken",
            ];
            let kept: serde_json::Map<String, Value> = fields
                .iter()
                .map(|field| ((*field).to_owned(), object[*field].clone()))
                .collect();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
            let mut kept = Value::Object(kept);
            kept["labels"] = metadata["labels"].clone();
            all.insert(format!("{kind}/{}", text(&metadata["name"])), kept);
        }
        Ok(all)
    }

    /// That the account of a Deployment may do what the daemon does, and gets a token.
    pub fn may_all(&self, deployment: &str) -> Result<()> {
        let pod = plane::objects(&self.plane, "deployments", &["-n", "kube-system"])?;
        let pod = pod.iter().find(|one| one["metadata"]["name"] == deployment);
        let pod = &pod.context("no Deployment")?["spec"]["template"]["spec"];
        ensure!(pod["automountServiceAccountToken"] == true, "{pod}");
        let account = pod["serviceAccountName"].as_str().unwrap_or_default();
        let user = format!("--as=system:serviceaccount:kube-system:{account}");
        for right in [
            ["watch", "pods"],
            ["create", "nodeclaims.karpenter.sh"],
            ["patch", "ec2nodeclasses.karpenter.k8s.aws"],
            [
                "update",
                "leases.coordination.k8s.io/karpenter-leader-election",
            ],
        ] {
            let ask = [
                &["auth", "can-i"],
                &right[..],
                &[&*user, "-n", "kube-system"],
            ]
            .concat();
            let said = self.plane.run(&ask);
            if !said.as_ref().is_ok_and(|said| said.trim() == "yes") {
                bail!("{account} may not {right:?}: {said:?}");
            }
        }
        Ok(())
    }
}
