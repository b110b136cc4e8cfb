//! How long things take in a cluster.

use std::time::Duration;

/// How long things take. Zero is allowed everywhere.
#[derive(Clone, Debug)]
pub struct Timing {
    /// From a change to the controllers' answer.
    pub controllers: Duration,
    /// One pod through kube-scheduler.
    pub binding: Duration,
    /// From binding to Ready, unless the pod's annotation [`super::kubelet::START_AFTER`] says
    /// otherwise.
    pub pod_start: Duration,
    /// From SIGTERM to the end of a pod that listens, unless [`super::kubelet::STOP_AFTER`] says
    /// otherwise.
    pub pod_stop: Duration,
    /// How long pods run that end by themselves, unless [`super::kubelet::RUNS_FOR`] says otherwise.
    pub job: Duration,
    /// From a Node object to its being Ready, unless its annotation [`crate::cloud::READY_AFTER`] says
    /// otherwise.
    pub node_ready: Duration,
    /// From the last word of a kubelet until its node is taken for unreachable
    /// (`--node-monitor-grace-period`).
    pub node_silence: Duration,
    /// From a node's end until the cloud's controller removes its Node object; nothing where there
    /// is none.
    pub node_removal: Option<Duration>,
    /// How long pods of a node that does not exist are left alone (the pod-GC's quarantine and half
    /// its period).
    pub pod_collection: Duration,
    /// Longest delay of node changes on the way to kube-scheduler, in order.
    pub scheduler_lag: Duration,
    /// From the end of a volume's last pod on a node until it is detached.
    pub detach: Duration,
    /// Share by which starts, stops and boots differ from one to the next.
    pub spread: f64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            controllers: Duration::from_millis(50),
            binding: Duration::from_millis(5),
            pod_start: Duration::from_secs(3),
            pod_stop: Duration::from_secs(2),
            job: Duration::from_secs(60),
            node_ready: Duration::from_secs(10),
            node_silence: Duration::from_secs(50),
            node_removal: Some(Duration::from_secs(60)),
            pod_collection: Duration::from_secs(50),
            scheduler_lag: Duration::ZERO,
            detach: Duration::ZERO,
            spread: 0.25,
        }
    }
}
