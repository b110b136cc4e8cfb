//! The sections of Bottlerocket's settings beside `settings.kubernetes`, of its variants for Kubernetes
//! on AWS, with and without NVIDIA.
//!
//! Source: the list of the variants' plugins and the models, up to 0.28 of September 2026. Values whose
//! types are not known here are `Any`.

use super::{BOOTSTRAP_COMMAND, Kind, Setting, setting};

const UPDATES: [Setting; 5] = [
    setting("metadata-base-url", Kind::Text),
    setting("targets-base-url", Kind::Text),
    setting("seed", Kind::Whole),
    setting("version-lock", Kind::Text),
    setting("ignore-waves", Kind::Truth),
];

const HOST_CONTAINER: [Setting; 5] = [
    setting("source", Kind::Text),
    setting("enabled", Kind::Truth),
    setting("superpowered", Kind::Truth),
    setting("user-data", Kind::Base64),
    setting("command", Kind::Texts),
];

const BOOTSTRAP_CONTAINER: [Setting; 5] = [
    setting("source", Kind::Text),
    setting("mode", Kind::Words(&["off", "once", "always"])),
    setting("user-data", Kind::Base64),
    setting("essential", Kind::Truth),
    setting("command", Kind::Texts),
];

const NTP: [Setting; 3] = [
    setting("time-servers", Kind::Any),
    setting("options", Kind::Texts),
    setting("logging", Kind::Texts),
];

const NETWORK: [Setting; 5] = [
    setting("hostname", Kind::Text),
    setting("hosts", Kind::Any),
    setting("https-proxy", Kind::Text),
    setting("no-proxy", Kind::Texts),
    setting("disable-ipv6", Kind::Texts),
];

const MODULE: [Setting; 2] = [
    setting("allowed", Kind::Truth),
    setting("autoload", Kind::Truth),
];

const KERNEL: [Setting; 5] = [
    setting(
        "lockdown",
        Kind::Words(&["none", "integrity", "confidentiality"]),
    ),
    setting("modules", Kind::Tables(&MODULE)),
    setting("sysctl", Kind::TextMap),
    setting("hugepages", Kind::Any),
    setting("drivers", Kind::Any),
];

const BOOT: [Setting; 5] = [
    setting("kernel-parameters", Kind::ListMap),
    setting("init-parameters", Kind::ListMap),
    setting("kernel", Kind::ListMap),
    setting("init", Kind::ListMap),
    setting("reboot-to-reconcile", Kind::Truth),
];

const AWS: [Setting; 4] = [
    setting("region", Kind::Text),
    setting("config", Kind::Base64),
    setting("credentials", Kind::Base64),
    setting("profile", Kind::Text),
];

const METRICS: [Setting; 3] = [
    setting("metrics-url", Kind::Text),
    setting("send-metrics", Kind::Truth),
    setting("service-checks", Kind::Texts),
];

const PKI_BUNDLE: [Setting; 2] = [
    setting("data", Kind::Base64),
    setting("trusted", Kind::Truth),
];

const CONTAINER_REGISTRY: [Setting; 3] = [
    setting("mirrors", Kind::Any),
    setting("credentials", Kind::Any),
    setting("creds", Kind::Any),
];

const OCI_DEFAULTS: [Setting; 2] = [
    setting("capabilities", Kind::TruthMap),
    setting("resource-limits", Kind::Any),
];

const OCI_HOOKS: [Setting; 1] = [setting("log4j-hotpatch-enabled", Kind::Truth)];

const CLOUDFORMATION: [Setting; 3] = [
    setting("should-signal", Kind::Truth),
    setting("stack-name", Kind::Text),
    setting("logical-resource-id", Kind::Text),
];

const DNS: [Setting; 2] = [
    setting("name-servers", Kind::Texts),
    setting("search-list", Kind::Texts),
];

const CONTAINER_RUNTIME: [Setting; 9] = [
    setting(
        "log-level",
        Kind::Words(&["trace", "debug", "info", "warn", "error", "fatal", "panic"]),
    ),
    setting("max-container-log-line-size", Kind::Whole),
    setting("max-concurrent-downloads", Kind::Whole),
    setting("max-concurrent-unpacks", Kind::Whole),
    setting("concurrent-download-chunk-size", Kind::Any),
    setting("concurrent-layer-fetch-buffer", Kind::Any),
    setting("enable-unprivileged-ports", Kind::Truth),
    setting("enable-unprivileged-icmp", Kind::Truth),
    setting("snapshotter", Kind::Words(&["overlayfs", "soci"])),
];

const AUTOSCALING: [Setting; 1] = [setting("should-wait", Kind::Truth)];

/// Every section but `kubernetes`.
pub(super) const ALL: [Setting; 25] = [
    setting("motd", Kind::Text),
    setting("updates", Kind::Table(&UPDATES)),
    setting("host-containers", Kind::Tables(&HOST_CONTAINER)),
    setting("bootstrap-commands", Kind::Tables(&BOOTSTRAP_COMMAND)),
    setting("bootstrap-containers", Kind::Tables(&BOOTSTRAP_CONTAINER)),
    setting("ntp", Kind::Table(&NTP)),
    setting("network", Kind::Table(&NETWORK)),
    setting("kernel", Kind::Table(&KERNEL)),
    setting("boot", Kind::Table(&BOOT)),
    setting("aws", Kind::Table(&AWS)),
    setting("metrics", Kind::Table(&METRICS)),
    setting("pki", Kind::Tables(&PKI_BUNDLE)),
    setting("container-registry", Kind::Table(&CONTAINER_REGISTRY)),
    setting("oci-defaults", Kind::Table(&OCI_DEFAULTS)),
    setting("oci-hooks", Kind::Table(&OCI_HOOKS)),
    setting("cloudformation", Kind::Table(&CLOUDFORMATION)),
    setting("dns", Kind::Table(&DNS)),
    setting("container-runtime", Kind::Table(&CONTAINER_RUNTIME)),
    setting("autoscaling", Kind::Table(&AUTOSCALING)),
    setting("container-runtime-plugins", Kind::Any),
    setting("image-verifier-plugins", Kind::Any),
    setting("measurement", Kind::Any),
    // Of the variants with NVIDIA.
    setting("nvidia-container-runtime", Kind::Any),
    setting("kubelet-device-plugins", Kind::Any),
    setting("kubelet-dra-drivers", Kind::Any),
];
