//! The sections of Bottlerocket's settings beside `settings.kubernetes`, of its variants for Kubernetes
//! on AWS, with and without NVIDIA.
//!
//! Source: the list of the variants' plugins and the models, up to 0.28 of September 2026. Values whose
//! types are not known here are `Any`.

use super::{BOOTSTRAP_COMMAND, Setting, ValueKind, setting};

const UPDATES: [Setting; 5] = [
    setting("metadata-base-url", ValueKind::Text),
    setting("targets-base-url", ValueKind::Text),
    setting("seed", ValueKind::Whole),
    setting("version-lock", ValueKind::Text),
    setting("ignore-waves", ValueKind::Truth),
];

const HOST_CONTAINER: [Setting; 5] = [
    setting("source", ValueKind::Text),
    setting("enabled", ValueKind::Truth),
    setting("superpowered", ValueKind::Truth),
    setting("user-data", ValueKind::Base64),
    setting("command", ValueKind::Texts),
];

const BOOTSTRAP_CONTAINER: [Setting; 5] = [
    setting("source", ValueKind::Text),
    setting("mode", ValueKind::Words(&["off", "once", "always"])),
    setting("user-data", ValueKind::Base64),
    setting("essential", ValueKind::Truth),
    setting("command", ValueKind::Texts),
];

const NTP: [Setting; 3] = [
    setting("time-servers", ValueKind::Any),
    setting("options", ValueKind::Texts),
    setting("logging", ValueKind::Texts),
];

const NETWORK: [Setting; 5] = [
    setting("hostname", ValueKind::Text),
    setting("hosts", ValueKind::Any),
    setting("https-proxy", ValueKind::Text),
    setting("no-proxy", ValueKind::Texts),
    setting("disable-ipv6", ValueKind::Texts),
];

const MODULE: [Setting; 2] = [
    setting("allowed", ValueKind::Truth),
    setting("autoload", ValueKind::Truth),
];

const KERNEL: [Setting; 5] = [
    setting(
        "lockdown",
        ValueKind::Words(&["none", "integrity", "confidentiality"]),
    ),
    setting("modules", ValueKind::Tables(&MODULE)),
    setting("sysctl", ValueKind::TextMap),
    setting("hugepages", ValueKind::Any),
    setting("drivers", ValueKind::Any),
];

const BOOT: [Setting; 5] = [
    setting("kernel-parameters", ValueKind::ListMap),
    setting("init-parameters", ValueKind::ListMap),
    setting("kernel", ValueKind::ListMap),
    setting("init", ValueKind::ListMap),
    setting("reboot-to-reconcile", ValueKind::Truth),
];

const AWS: [Setting; 4] = [
    setting("region", ValueKind::Text),
    setting("config", ValueKind::Base64),
    setting("credentials", ValueKind::Base64),
    setting("profile", ValueKind::Text),
];

const METRICS: [Setting; 3] = [
    setting("metrics-url", ValueKind::Text),
    setting("send-metrics", ValueKind::Truth),
    setting("service-checks", ValueKind::Texts),
];

const PKI_BUNDLE: [Setting; 2] = [
    setting("data", ValueKind::Base64),
    setting("trusted", ValueKind::Truth),
];

const CONTAINER_REGISTRY: [Setting; 3] = [
    setting("mirrors", ValueKind::Any),
    setting("credentials", ValueKind::Any),
    setting("creds", ValueKind::Any),
];

const OCI_DEFAULTS: [Setting; 2] = [
    setting("capabilities", ValueKind::TruthMap),
    setting("resource-limits", ValueKind::Any),
];

const OCI_HOOKS: [Setting; 1] = [setting("log4j-hotpatch-enabled", ValueKind::Truth)];

const CLOUDFORMATION: [Setting; 3] = [
    setting("should-signal", ValueKind::Truth),
    setting("stack-name", ValueKind::Text),
    setting("logical-resource-id", ValueKind::Text),
];

const DNS: [Setting; 2] = [
    setting("name-servers", ValueKind::Texts),
    setting("search-list", ValueKind::Texts),
];

const CONTAINER_RUNTIME: [Setting; 9] = [
    setting(
        "log-level",
        ValueKind::Words(&["trace", "debug", "info", "warn", "error", "fatal", "panic"]),
    ),
    setting("max-container-log-line-size", ValueKind::Whole),
    setting("max-concurrent-downloads", ValueKind::Whole),
    setting("max-concurrent-unpacks", ValueKind::Whole),
    setting("concurrent-download-chunk-size", ValueKind::Any),
    setting("concurrent-layer-fetch-buffer", ValueKind::Any),
    setting("enable-unprivileged-ports", ValueKind::Truth),
    setting("enable-unprivileged-icmp", ValueKind::Truth),
    setting("snapshotter", ValueKind::Words(&["overlayfs", "soci"])),
];

const AUTOSCALING: [Setting; 1] = [setting("should-wait", ValueKind::Truth)];

/// Every section but `kubernetes`.
pub(super) const ALL: [Setting; 25] = [
    setting("motd", ValueKind::Text),
    setting("updates", ValueKind::Table(&UPDATES)),
    setting("host-containers", ValueKind::Tables(&HOST_CONTAINER)),
    setting("bootstrap-commands", ValueKind::Tables(&BOOTSTRAP_COMMAND)),
    setting(
        "bootstrap-containers",
        ValueKind::Tables(&BOOTSTRAP_CONTAINER),
    ),
    setting("ntp", ValueKind::Table(&NTP)),
    setting("network", ValueKind::Table(&NETWORK)),
    setting("kernel", ValueKind::Table(&KERNEL)),
    setting("boot", ValueKind::Table(&BOOT)),
    setting("aws", ValueKind::Table(&AWS)),
    setting("metrics", ValueKind::Table(&METRICS)),
    setting("pki", ValueKind::Tables(&PKI_BUNDLE)),
    setting("container-registry", ValueKind::Table(&CONTAINER_REGISTRY)),
    setting("oci-defaults", ValueKind::Table(&OCI_DEFAULTS)),
    setting("oci-hooks", ValueKind::Table(&OCI_HOOKS)),
    setting("cloudformation", ValueKind::Table(&CLOUDFORMATION)),
    setting("dns", ValueKind::Table(&DNS)),
    setting("container-runtime", ValueKind::Table(&CONTAINER_RUNTIME)),
    setting("autoscaling", ValueKind::Table(&AUTOSCALING)),
    setting("container-runtime-plugins", ValueKind::Any),
    setting("image-verifier-plugins", ValueKind::Any),
    setting("measurement", ValueKind::Any),
    // Of the variants with NVIDIA.
    setting("nvidia-container-runtime", ValueKind::Any),
    setting("kubelet-device-plugins", ValueKind::Any),
    setting("kubelet-dra-drivers", ValueKind::Any),
];
