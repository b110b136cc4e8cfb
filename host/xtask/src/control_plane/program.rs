//! The programs that a control plane is made of.

/// A program of the control plane, or the one to talk to it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Stores the objects of the API server.
    Etcd,
    ApiServer,
    /// Deployments, DaemonSets, Jobs, disruption budgets, node lifecycle, garbage collection.
    ControllerManager,
    /// Binds pods.
    Scheduler,
    /// Plays the kubelets of nodes annotated `kwok.x-k8s.io/node=fake`.
    Kwok,
    /// The command.
    Kubectl,
}

impl Program {
    /// Those that run, in the order in which they are started.
    pub const RUNNING: [Self; 5] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
    ];

    pub const ALL: [Self; 6] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
        Self::Kubectl,
    ];

    /// The name of its file, of its log and of its place in `cluster.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Kubectl => "kubectl",
        }
    }
}
