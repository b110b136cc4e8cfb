//! The flags of each program. Everything listens on loopback only.

use std::path::Path;
use std::process::Command;

use super::audit;
use super::binaries::Binaries;
use super::program::Program;

/// Controllers that an autoscaler would miss. Without those that need
/// kubelets, clouds, certificates or a network.
const CONTROLLERS: [&str; 20] = [
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
];

/// kwok's stages.
pub const STAGES: &str = include_str!("stages.yaml");

/// Ports of one control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// etcd's own, for peers that there are none of.
    pub peer: u16,
    /// Of each running program, in the order of [`Program::RUNNING`].
    pub of: [u16; 5],
}

impl Ports {
    /// Where a program listens; [`Program::Kubectl`] does not.
    pub fn get(&self, program: Program) -> u16 {
        self.of.get(program as usize).copied().unwrap_or(0)
    }
}

/// The command that runs a program on a cluster's folder.
pub fn command(program: Program, binaries: &Binaries, folder: &Path, ports: &Ports) -> Command {
    let mut command = Command::new(&binaries.get(program).path);
    let port = ports.get(program);
    let file = |name: &str| folder.join(name).display().to_string();
    let mut flag = |name: &str, value: &str| {
        command.arg(format!("--{name}={value}"));
    };
    match program {
        Program::Etcd => {
            let clients = format!("http://127.0.0.1:{port}");
            let peers = format!("http://127.0.0.1:{}", ports.peer);
            flag("data-dir", &file("etcd"));
            flag("listen-client-urls", &clients);
            flag("advertise-client-urls", &clients);
            flag("listen-peer-urls", &peers);
            flag("initial-advertise-peer-urls", &peers);
            flag("initial-cluster", &format!("default={peers}"));
            // Nothing here must survive a power cut.
            flag("unsafe-no-fsync", "true");
            flag("quota-backend-bytes", &(4_u64 << 30).to_string());
        }
        Program::ApiServer => {
            flag(
                "etcd-servers",
                &format!("http://127.0.0.1:{}", ports.get(Program::Etcd)),
            );
            flag("bind-address", "127.0.0.1");
            flag("advertise-address", "127.0.0.1");
            flag("secure-port", &port.to_string());
            // Makes itself a certificate there at its first start. Its key signs service account
            // tokens as well: it is read after it was made.
            flag("cert-dir", &file("certs"));
            flag(
                "service-account-signing-key-file",
                &file("certs/apiserver.key"),
            );
            flag("service-account-key-file", &file("certs/apiserver.crt"));
            flag("service-account-issuer", "https://kubernetes.default.svc");
            flag("service-cluster-ip-range", "10.96.0.0/16");
            flag("token-auth-file", &file("tokens.csv"));
            flag("authorization-mode", "RBAC");
            // It would refuse pods in a namespace whose service account is a moment late.
            flag("disable-admission-plugins", "ServiceAccount");
            flag("allow-privileged", "true");
            // No request waits for its turn, and no client uses the API through a Service.
            flag("enable-priority-and-fairness", "false");
            flag("max-requests-inflight", "0");
            flag("max-mutating-requests-inflight", "0");
            flag("endpoint-reconciler-type", "none");
            flag("event-ttl", "15m");
            flag("audit-policy-file", &file(audit::POLICY));
            flag("audit-log-path", &file(audit::LOG));
        }
        Program::ControllerManager => {
            flag("kubeconfig", &file(super::ADMIN));
            flag("bind-address", "127.0.0.1");
            flag("secure-port", &port.to_string());
            flag("leader-elect", "false");
            flag("use-service-account-credentials", "false");
            flag("kube-api-qps", "500");
            flag("kube-api-burst", "1000");
            flag("node-monitor-period", "5s");
            flag("node-monitor-grace-period", "40s");
            flag("controllers", &CONTROLLERS.join(","));
        }
        Program::Scheduler => {
            flag("kubeconfig", &file(super::ADMIN));
            flag("bind-address", "127.0.0.1");
            flag("secure-port", &port.to_string());
            flag("leader-elect", "false");
            flag("kube-api-qps", "500");
            flag("kube-api-burst", "1000");
        }
        Program::Kwok => {
            flag("kubeconfig", &file(super::ADMIN));
            flag("config", &file("kwok.yaml"));
        }
        Program::Kubectl => flag("kubeconfig", &file(super::ADMIN)),
    }
    command
}

/// kwok's configuration: its options, then its stages.
pub fn kwok(ports: &Ports) -> String {
    let port = ports.get(Program::Kwok);
    format!(
        "apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageAllNodes: false
  manageNodesWithAnnotationSelector: kwok.x-k8s.io/node=fake
  serverAddress: 127.0.0.1:{port}
  cidr: 10.128.0.0/9
  nodeIP: 10.64.0.1
  nodeLeaseDurationSeconds: 40
  nodeLeaseParallelism: 16
  nodePlayStageParallelism: 16
  podPlayStageParallelism: 64
  podsOnNodeSyncParallelism: 8
---
{STAGES}"
    )
}
