//! Settings with a range or a few words of their own.

use longshore_api::manifests::quoted;
use longshore_userdata::duration;
use serde_json::Value;

use super::kubelet::{Kubelet, SECOND};

impl Kubelet<'_> {
    /// Numbers and durations with a range of their own.
    pub(super) fn numbers(&mut self) {
        let most = i64::MAX;
        // Field, least, most, the first version that looks.
        for (field, least, most, since) in [
            ("nodeLeaseDurationSeconds", 0, most, 0),
            ("eventBurst", 0, most, 0),
            ("eventRecordQPS", 0, most, 0),
            ("healthzPort", 0, 65_535, 0),
            ("readOnlyPort", 0, 65_535, 0),
            ("port", 0, 65_535, 0),
            ("imageGCHighThresholdPercent", 0, 100, 0),
            ("imageGCLowThresholdPercent", 0, 100, 0),
            ("iptablesDropBit", 0, 31, 0),
            ("iptablesMasqueradeBit", 0, 31, 0),
            ("kubeAPIBurst", 0, most, 0),
            ("kubeAPIQPS", 0, most, 0),
            ("nodeStatusMaxImages", -1, most, 0),
            ("maxOpenFiles", 0, most, 0),
            ("maxPods", 0, most, 0),
            ("podsPerCore", 0, most, 0),
            ("oomScoreAdj", -1000, 1000, 0),
            ("registryBurst", 0, most, 0),
            ("registryPullQPS", 0, most, 0),
            ("maxParallelImagePulls", 1, most, 27),
            ("containerLogMaxWorkers", 1, most, 30),
            // Before 1.33 the log manager refuses it.
            ("containerLogMaxFiles", 2, most, 0),
        ] {
            let Some(number) = self.all.get(field).and_then(Value::as_i64) else {
                continue;
            };
            if self.minor >= since && !(least..=most).contains(&number) {
                let hint = match most {
                    i64::MAX => format!("write {least} or more"),
                    most => format!("write {least} to {most}"),
                };
                self.refuse(field, format!("is {number}"), &hint);
            }
        }
        if let Some(factor) = self
            .all
            .get("memoryThrottlingFactor")
            .and_then(Value::as_f64)
        {
            let field = "memoryThrottlingFactor";
            let right = factor > 0.0 && factor <= 1.0;
            self.unless(right, field, format!("is {factor}"), "write above 0, to 1");
            let off = self.minor >= 37 && !self.gate("MemoryQoS") && factor != 0.9;
            let hint = "remove it, or turn the gate on";
            self.unless(
                !off,
                field,
                "stands without the feature gate MemoryQoS",
                hint,
            );
        }
        let period = self.text("cpuCFSQuotaPeriod");
        if let Some(period) = duration::parse(period) {
            let field = "cpuCFSQuotaPeriod";
            let off = !self.gate("CustomCPUCFSQuotaPeriod") && period != SECOND / 10;
            let what = "needs the feature gate CustomCPUCFSQuotaPeriod";
            self.unless(!off, field, what, "remove it, or turn the gate on");
            let range = (SECOND / 1000..=SECOND).contains(&period);
            let what = format!("is {}", duration::write(period));
            self.unless(off || range, field, what, "write 1ms to 1s");
        }
    }

    /// Settings that are one word of a few.
    pub(super) fn words(&mut self) {
        for (field, allowed) in [
            (
                "topologyManagerPolicy",
                &["", "none", "best-effort", "restricted", "single-numa-node"][..],
            ),
            ("topologyManagerScope", &["", "container", "pod"]),
            (
                "hairpinMode",
                &["", "none", "hairpin-veth", "promiscuous-bridge"],
            ),
            ("cpuManagerPolicy", &["", "none", "static"]),
            ("memoryManagerPolicy", &["", "None", "Static"]),
            (
                "configMapAndSecretChangeDetectionStrategy",
                &["", "Get", "Cache", "Watch"],
            ),
            (
                "tlsMinVersion",
                &[
                    "",
                    "VersionTLS10",
                    "VersionTLS11",
                    "VersionTLS12",
                    "VersionTLS13",
                ],
            ),
        ] {
            self.word(field, allowed);
        }
        if self.minor >= 36 {
            self.word(
                "memoryReservationPolicy",
                &["", "None", "TieredReservation"],
            );
            let tiered = self.text("memoryReservationPolicy") == "TieredReservation";
            let what = "is TieredReservation without the feature gate MemoryQoS";
            let right = !tiered || self.gate("MemoryQoS");
            let hint = "write None, or turn the gate on";
            self.unless(right, "memoryReservationPolicy", what, hint);
        }
        let mode = self
            .all
            .get("authorization")
            .and_then(|of| of["mode"].as_str());
        let mode = mode.unwrap_or_default().to_owned();
        if !matches!(mode.as_str(), "" | "AlwaysAllow" | "Webhook") {
            let what = format!("is {}", quoted(&mode));
            self.refuse("authorization.mode", what, "write Webhook or AlwaysAllow");
        }
    }
}
