//! Versions of Kubernetes' own APIs that are no longer served, for the kinds that are read.

/// The API that took the place of a version, and the Kubernetes release that no longer serves it.
pub(super) fn of(api_version: &str, kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match (api_version, kind) {
        ("extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2", _)
            if matches!(kind, "DaemonSet" | "ReplicaSet" | "StatefulSet") =>
        {
            ("apps/v1", "1.16")
        }
        ("policy/v1beta1", "PodDisruptionBudget") => ("policy/v1", "1.25"),
        ("scheduling.k8s.io/v1alpha1" | "scheduling.k8s.io/v1beta1", "PriorityClass") => {
            ("scheduling.k8s.io/v1", "1.22")
        }
        (
            "storage.k8s.io/v1beta1",
            "StorageClass" | "CSIDriver" | "CSINode" | "VolumeAttachment",
        ) => ("storage.k8s.io/v1", "1.22"),
        ("storage.k8s.io/v1alpha1", "VolumeAttachment") => ("storage.k8s.io/v1", "1.24"),
        ("storage.k8s.io/v1alpha1", "CSIStorageCapacity") => ("storage.k8s.io/v1", "1.24"),
        ("storage.k8s.io/v1beta1", "CSIStorageCapacity") => ("storage.k8s.io/v1", "1.27"),
        _ => return None,
    })
}
