//! How the kubelet runs and ends pods: shutdown, swap, restarts, user namespaces.

use longshore_api::manifests::quoted;
use longshore_userdata::duration;
use serde_json::Value;

use super::kubelet::{Kubelet, SECOND};

impl Kubelet<'_> {
    pub(super) fn shutdown(&mut self) {
        let (all, critical) = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods");
        let by_priority = "shutdownGracePeriodByPodPriority";
        let (of_all, of_critical) = (
            self.time(all).unwrap_or(0),
            self.time(critical).unwrap_or(0),
        );
        let shown = duration::write;
        if !self.gate("GracefulNodeShutdown") {
            let none = of_all <= 0 && of_critical <= 0;
            let field = self.blamed(&[all, critical, "featureGates"]);
            let what = "needs the feature gate GracefulNodeShutdown";
            self.unless(none, field, what, "remove it, or leave the gate on");
        } else {
            let own = |name: &str| match self.asked.contains_key(name) {
                true => "",
                false => " in the image's own settings",
            };
            let field = self.blamed(&[all, critical]);
            let what = match field == all {
                true => format!(
                    "is {}, less than {critical}, which is {}{}",
                    shown(of_all),
                    shown(of_critical),
                    own(critical)
                ),
                false => format!(
                    "is {}, more than {all}, which is {}{}",
                    shown(of_critical),
                    shown(of_all),
                    own(all)
                ),
            };
            self.unless(of_critical <= of_all, field, what, "set both");
            for (field, time) in [(all, of_all), (critical, of_critical)] {
                let right = time == 0 || time >= SECOND;
                let what = format!("is {}", shown(time));
                self.unless(right, field, what, "write 0s, or 1s and more");
            }
        }
        if self.has(by_priority) {
            let on = self.gate("GracefulNodeShutdownBasedOnPodPriority");
            let what = "needs the feature gate GracefulNodeShutdownBasedOnPodPriority";
            self.unless(on, by_priority, what, "remove it, or turn the gate on");
            let both = on && (of_all > 0 || of_critical > 0);
            let own = match self.asked.contains_key(all) || self.asked.contains_key(critical) {
                true => "",
                false => ", which the image's own settings have",
            };
            let what = format!("stands beside {all}{own}");
            let hint = "set shutdownGracePeriod and shutdownGracePeriodCriticalPods to 0s";
            self.unless(!both, by_priority, what, hint);
        }
    }

    pub(super) fn swap(&mut self) {
        let field = "memorySwap.swapBehavior";
        let swap = self.all.get("memorySwap");
        let word = swap.and_then(|swap| swap["swapBehavior"].as_str());
        let word = word.unwrap_or_default().to_owned();
        if !self.gate("NodeSwap") {
            let what = "needs the feature gate NodeSwap";
            let hint = "remove it, or turn the gate on";
            return self.unless(word.is_empty(), field, what, hint);
        }
        let other = if self.minor < 30 {
            "UnlimitedSwap"
        } else {
            "NoSwap"
        };
        let right = ["", "LimitedSwap", other].contains(&word.as_str());
        let hint = format!("write LimitedSwap or {other}");
        self.unless(right, field, format!("is {}", quoted(&word)), &hint);
    }

    pub(super) fn back_off(&mut self) {
        if self.minor < 32 {
            return;
        }
        let (outer, inner) = ("crashLoopBackOff", "maxContainerRestartPeriod");
        let field = format!("{outer}.{inner}");
        let value = self.all.get(outer).and_then(|of| of.get(inner));
        let time = value.and_then(Value::as_str).and_then(duration::parse);
        let asked = self
            .asked
            .get(outer)
            .is_some_and(|of| of.get(inner).is_some());
        let gate = "KubeletCrashLoopBackOffMax";
        match time {
            Some(_) if !self.gate(gate) && !asked => {
                let what = format!("is false, and the kubelet's defaults have set {field} before");
                let hint = format!("leave the gate on, or set {field} to null");
                self.refuse(&format!("featureGates[{gate}]"), what, &hint);
            }
            Some(_) if !self.gate(gate) => {
                let what = format!("stands without the feature gate {gate}");
                self.refuse(&field, what, "remove it, or turn the gate on");
            }
            Some(time) => {
                let milliseconds = time / (SECOND / 1000);
                let right = (1000..=300_000).contains(&milliseconds);
                let what = format!("is {}", duration::write(time));
                self.unless(right, &field, what, "write 1s to 300s");
            }
            None => {}
        }
    }

    /// Memory of user namespaces and of NUMA nodes.
    pub(super) fn memory(&mut self) {
        if self.minor < 33 {
            return;
        }
        let ids = self.all.get("userNamespaces");
        let Some(ids) = ids.and_then(|of| of["idsPerPod"].as_i64()) else {
            return;
        };
        let unit = 65_536;
        let right = ids >= unit && ids % unit == 0 && ids <= u32::MAX.into();
        let field = "userNamespaces.idsPerPod";
        let hint = "write a multiple of 65536, below 2^32";
        self.unless(right, field, format!("is {ids}"), hint);
    }
}
