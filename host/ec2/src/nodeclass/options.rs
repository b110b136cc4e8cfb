//! Smaller settings of instances.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a node's instance metadata can be reached. Fields that are absent have their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// Whether there is an endpoint at all.
    #[schemars(extend("default" = "enabled"))]
    pub http_endpoint: Switch,
    /// Whether the endpoint has an IPv6 address too.
    #[serde(rename = "httpProtocolIPv6")]
    #[schemars(extend("default" = "disabled"))]
    pub http_protocol_ipv6: Switch,
    /// How many hops an answer may take: with 1, pods that are not on the host's network get none.
    #[schemars(range(min = 1, max = 64), extend("default" = 1))]
    pub http_put_response_hop_limit: i64,
    /// Whether a request needs a session token (IMDSv2).
    #[schemars(extend("default" = "required"))]
    pub http_tokens: HttpTokens,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: Switch::Enabled,
            http_protocol_ipv6: Switch::Disabled,
            http_put_response_hop_limit: 1,
            http_tokens: HttpTokens::Required,
        }
    }
}

/// Whether something is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Switch {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

impl Switch {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Switch::Enabled => "enabled",
            Switch::Disabled => "disabled",
        }
    }
}

/// Whether a request for metadata needs a session token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HttpTokens {
    /// It does.
    Required,
    /// It does not.
    Optional,
}

impl HttpTokens {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            HttpTokens::Required => "required",
            HttpTokens::Optional => "optional",
        }
    }
}

/// After how many seconds an idle connection is forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)")
    .message("connectionTracking needs one timeout at least"))]
pub struct ConnectionTracking {
    /// TCP connections that are established, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// UDP flows with more than one exchange, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// Other UDP flows, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 60))]
    pub udp_timeout: Option<i32>,
}

/// Settings of the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether virtual machines can run on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Switch>,
}

/// Settings of Nitro Enclaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnclaveOptions {
    /// Whether enclaves can run on the node. Instance types that cannot are left out.
    pub enabled: bool,
}

/// What becomes of the disks that an instance brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum InstanceStorePolicy {
    /// They become one, for the kubelet and the container runtime: the node's ephemeral storage.
    RAID0,
}
