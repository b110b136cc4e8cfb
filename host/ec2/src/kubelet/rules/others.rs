//! Certificates, tracing, and settings that need one other.

use longshore_api::manifests::quoted;

use super::kubelet::{Kubelet, owned};

impl Kubelet<'_> {
    pub(super) fn others(&mut self) {
        let tls = self.truth("serverTLSBootstrap", false);
        let gate = "RotateKubeletServerCertificate";
        if tls && !self.gate(gate) {
            let gate = format!("featureGates[{gate}]");
            let field = match self.asked.contains_key("serverTLSBootstrap") {
                true => "serverTLSBootstrap",
                false => &gate,
            };
            let what = "does not suit: serverTLSBootstrap needs RotateKubeletServerCertificate";
            self.refuse(field, what, "leave the gate on");
        }
        let once = self.minor >= 32 && self.truth("runOnce", false);
        self.unless(!once, "runOnce", "is true", "remove it");
        let rooted = !self.has("systemCgroups") || self.has("cgroupRoot");
        self.unless(
            rooted,
            "systemCgroups",
            "stands without cgroupRoot",
            "set both",
        );
        let tracing = self.all.get("tracing").cloned().unwrap_or_default();
        if let Some(rate) = tracing["samplingRatePerMillion"].as_i64() {
            let right = (0..=1_000_000).contains(&rate);
            let field = "tracing.samplingRatePerMillion";
            self.unless(right, field, format!("is {rate}"), "write 0 to 1000000");
        }
        if let Some(endpoint) = tracing["endpoint"].as_str() {
            let scheme = endpoint
                .split_once("//")
                .map_or("dns:", |(scheme, _)| scheme);
            let right = ["dns:", "unix:", "unix-abstract:"].contains(&scheme);
            let port = match endpoint.contains("//") {
                true => None,
                false => endpoint.rsplit_once(':').map(|(_, port)| port),
            };
            let right = right && port.is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()));
            let what = format!("{} is not an address of dns or unix", quoted(endpoint));
            self.unless(
                right,
                "tracing.endpoint",
                what,
                "write it like localhost:4317",
            );
        }
        let traced = self.minor >= 34 || self.gate("KubeletTracing") || tracing.is_null();
        let what = "needs the feature gate KubeletTracing";
        self.unless(traced, "tracing", what, "remove it, or turn the gate on");
        let sysctls = self.minor >= 37 && self.has("defaultPodSysctls");
        if sysctls {
            let what = "needs the feature gate DefaultPodSysctls";
            let hint = "remove it, or turn the gate on";
            self.unless(
                self.gate("DefaultPodSysctls"),
                "defaultPodSysctls",
                what,
                hint,
            );
        }
        for (name, share) in self.map("qosReserved").map(owned).collect::<Vec<_>>() {
            let field = format!("qosReserved[{name}]");
            let what = "is not a resource of qosReserved";
            self.unless(name == "memory", &field, what, "write memory");
            let number = share
                .strip_suffix('%')
                .and_then(|of| of.parse::<i64>().ok());
            let right = number.is_some_and(|of| (0..=100).contains(&of));
            let what = format!("is {}", quoted(&share));
            self.unless(right, &field, what, "write it like 50%");
            let what = "needs the feature gate QOSReserved";
            let hint = "remove it, or turn the gate on";
            self.unless(self.gate("QOSReserved"), &field, what, hint);
        }
    }
}
