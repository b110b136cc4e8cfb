//! The fields of pods and pod templates that are read, as a manifest writes them.

use serde::Deserialize;

use crate::manifests::requirement::WireRequirement;
use crate::manifests::selector::WireSelector;
use crate::manifests::wire::{Amount, Condition, List, Map, Meta, Text, only_from_maps};

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WirePod<'a> {
    #[serde(borrow)]
    pub(in crate::manifests) metadata: Meta<'a>,
    #[serde(borrow)]
    pub(super) spec: Option<WireSpec<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<WireStatus<'a>>,
}

/// The template of a workload.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireTemplate<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    #[serde(borrow)]
    pub(super) spec: Option<WireSpec<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireSpec<'a> {
    #[serde(borrow)]
    pub(super) node_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) containers: List<WireContainer<'a>>,
    #[serde(borrow)]
    pub(super) init_containers: List<WireContainer<'a>>,
    #[serde(borrow)]
    pub(super) resources: Option<WireResources<'a>>,
    #[serde(borrow)]
    pub(super) overhead: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    pub(super) node_selector: Map<'a, Option<Text<'a>>>,
    #[serde(borrow)]
    pub(super) affinity: Option<WireAffinity<'a>>,
    #[serde(borrow)]
    pub(super) tolerations: List<WireToleration<'a>>,
    #[serde(borrow)]
    pub(super) topology_spread_constraints: List<WireSpread<'a>>,
    #[serde(borrow)]
    pub(super) volumes: List<WireVolume<'a>>,
    pub(super) host_network: Option<bool>,
    pub(super) priority: Option<i32>,
    pub(super) termination_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    pub(super) priority_class_name: Option<Text<'a>>,
    pub(super) resource_claims: List<serde::de::IgnoredAny>,
    pub(super) scheduling_gates: List<serde::de::IgnoredAny>,
    #[serde(borrow)]
    pub(super) scheduling_group: Option<WireGroup<'a>>,
}

/// The group that a pod is scheduled with.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(super) struct WireGroup<'a> {
    #[serde(borrow, rename = "podGroupName")]
    pub(super) name: Option<Text<'a>>,
}

/// What a container does when it exits.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(super) struct WireRestartRule<'a> {
    #[serde(borrow)]
    pub(super) action: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireContainer<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) restart_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) restart_policy_rules: List<WireRestartRule<'a>>,
    #[serde(borrow)]
    pub(super) resources: Option<WireResources<'a>>,
    #[serde(borrow)]
    pub(super) ports: List<WirePort<'a>>,
}

impl WireContainer<'_> {
    /// Of an init container: keeps running beside the others.
    pub(super) fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WirePort<'a> {
    pub(super) host_port: Option<i64>,
    pub(super) container_port: Option<i64>,
    #[serde(borrow, rename = "hostIP")]
    pub(super) host_ip: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) protocol: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WireVolume<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) persistent_volume_claim: Option<WireClaimSource<'a>>,
    pub(super) ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WireClaimSource<'a> {
    #[serde(borrow)]
    pub(super) claim_name: Text<'a>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WireStatus<'a> {
    #[serde(borrow)]
    pub(super) phase: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) start_time: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) conditions: List<Condition<'a>>,
    #[serde(borrow)]
    pub(super) nominated_node_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) container_statuses: List<WireContainerStatus<'a>>,
    #[serde(borrow)]
    pub(super) init_container_statuses: List<WireContainerStatus<'a>>,
    #[serde(borrow)]
    pub(super) resources: Option<WireResources<'a>>,
    #[serde(borrow)]
    pub(super) allocated_resources: Map<'a, Amount<'a>>,
}

/// What a container has, which differs from what it asks for while it is resized.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WireContainerStatus<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) resources: Option<WireResources<'a>>,
    #[serde(borrow)]
    pub(super) allocated_resources: Map<'a, Amount<'a>>,
}

/// What a pod says of itself in any case.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WirePodHead<'a> {
    #[serde(borrow)]
    pub(in crate::manifests) metadata: Meta<'a>,
    #[serde(borrow)]
    pub(super) spec: Option<WireHeadSpec<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<WireHeadStatus<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WireHeadSpec<'a> {
    #[serde(borrow)]
    pub(super) node_name: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WireHeadStatus<'a> {
    #[serde(borrow)]
    pub(super) phase: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) conditions: List<Condition<'a>>,
}

/// Requests and limits of a container or a pod.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireResources<'a> {
    #[serde(borrow)]
    pub(super) requests: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    pub(super) limits: Map<'a, Amount<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireAffinity<'a> {
    #[serde(borrow)]
    pub(super) node_affinity: Option<WireNodeAffinity<'a>>,
    #[serde(borrow)]
    pub(super) pod_affinity: Option<WirePodAffinity<'a>>,
    #[serde(borrow)]
    pub(super) pod_anti_affinity: Option<WirePodAffinity<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(super) struct WireNodeAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<WireNodeSelector<'a>>,
    #[serde(borrow, rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: List<WirePreferredTerm<'a>>,
}

/// Alternatives of requirements on a node; of pods and of volumes.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireNodeSelector<'a> {
    #[serde(borrow)]
    pub node_selector_terms: List<WireTerm<'a>>,
}

/// One alternative.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireTerm<'a> {
    #[serde(borrow)]
    pub match_expressions: List<WireRequirement<'a>>,
    #[serde(borrow)]
    pub match_fields: List<WireRequirement<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(super) struct WirePreferredTerm<'a> {
    pub(super) weight: i32,
    #[serde(borrow)]
    pub(super) preference: WireTerm<'a>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(super) struct WirePodAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: List<WirePodTerm<'a>>,
    #[serde(borrow, rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: List<WireWeightedPodTerm<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WirePodTerm<'a> {
    #[serde(borrow)]
    pub(super) topology_key: Text<'a>,
    #[serde(borrow)]
    pub(super) label_selector: Option<WireSelector<'a>>,
    #[serde(borrow)]
    pub(super) namespaces: List<Text<'a>>,
    #[serde(borrow)]
    pub(super) namespace_selector: Option<WireSelector<'a>>,
    #[serde(borrow)]
    pub(super) match_label_keys: List<Text<'a>>,
    #[serde(borrow)]
    pub(super) mismatch_label_keys: List<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(super) struct WireWeightedPodTerm<'a> {
    pub(super) weight: i32,
    #[serde(borrow)]
    pub(super) pod_affinity_term: WirePodTerm<'a>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct WireSpread<'a> {
    pub(super) max_skew: i64,
    #[serde(borrow)]
    pub(super) topology_key: Text<'a>,
    #[serde(borrow)]
    pub(super) when_unsatisfiable: Text<'a>,
    #[serde(borrow)]
    pub(super) label_selector: Option<WireSelector<'a>>,
    pub(super) min_domains: Option<i64>,
    #[serde(borrow)]
    pub(super) node_affinity_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) node_taints_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) match_label_keys: List<Text<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireToleration<'a> {
    #[serde(borrow)]
    pub(super) key: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) operator: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) value: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) effect: Option<Text<'a>>,
    #[serde(rename = "tolerationSeconds")]
    pub(super) toleration_seconds: Option<i64>,
}

only_from_maps!(
    WirePodHead<'a>,
    WireHeadSpec<'a>,
    WireHeadStatus<'a>,
    WirePod<'a>,
    WireTemplate<'a>,
    WireSpec<'a>,
    WireContainer<'a>,
    WirePort<'a>,
    WireVolume<'a>,
    WireClaimSource<'a>,
    WireGroup<'a>,
    WireRestartRule<'a>,
    WireContainerStatus<'a>,
    WireStatus<'a>,
    WireResources<'a>,
    WireAffinity<'a>,
    WireNodeAffinity<'a>,
    WireNodeSelector<'a>,
    WireTerm<'a>,
    WirePreferredTerm<'a>,
    WirePodAffinity<'a>,
    WirePodTerm<'a>,
    WireWeightedPodTerm<'a>,
    WireSpread<'a>,
    WireToleration<'a>
);
