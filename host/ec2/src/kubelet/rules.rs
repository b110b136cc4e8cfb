//! What a kubelet refuses, rule by rule.
//!
//! Sources: `ValidateKubeletConfiguration`, the defaults of v1beta1 and the feature gates of 1.26.15
//! to 1.37.2, and for what is refused later while the kubelet starts (`later`) the managers of CPU,
//! memory, topology, logs and Secrets of 1.36.3.

use longshore_api::manifests::quoted;
use longshore_api::quantity::Quantity;
use longshore_userdata::duration;
use serde_json::{Map, Value};

use super::effective::{Base, effective};
use super::gates::{self, gate};
use crate::validation::Fault;

/// All that a kubelet of a minor version refuses of `settings` on top of `base`. The fields are
/// those of `settings`; the kubelet's own file has no fault.
pub(super) fn broken(settings: &Map<String, Value>, base: Base, minor: u16) -> Vec<Fault> {
    let mut kubelet = Kubelet {
        all: effective(settings, base, minor),
        asked: settings,
        base,
        minor,
        faults: Vec::new(),
    };
    kubelet.gates();
    kubelet.numbers();
    kubelet.words();
    kubelet.images();
    kubelet.shutdown();
    kubelet.swap();
    kubelet.back_off();
    kubelet.enforcement();
    kubelet.reserved();
    kubelet.logs();
    kubelet.memory();
    kubelet.others();
    kubelet.later();
    kubelet.faults
}

/// A second, in nanoseconds.
const SECOND: i64 = 1_000_000_000;

struct Kubelet<'a> {
    /// What it runs with.
    all: Map<String, Value>,
    /// What was asked of it.
    asked: &'a Map<String, Value>,
    base: Base,
    minor: u16,
    faults: Vec<Fault>,
}

impl Kubelet<'_> {
    fn refuse(&mut self, field: &str, what: impl Into<String>, hint: &str) {
        self.faults.push(Fault::new(field, what, hint));
    }

    /// Refuses unless the condition holds. A field that was not asked for stands as the kubelet's
    /// own file has it; the fault is then that of `others` that was.
    fn unless(&mut self, holds: bool, field: &str, what: impl Into<String>, hint: &str) {
        if !holds {
            self.refuse(field, what, hint);
        }
    }

    /// The first of these fields that was asked for; the first of all if none was.
    fn blamed<'f>(&self, fields: &[&'f str]) -> &'f str {
        let asked = fields.iter().find(|field| self.asked.contains_key(**field));
        asked.or(fields.first()).copied().unwrap_or_default()
    }

    fn number(&self, field: &str, default: i64) -> i64 {
        let value = self.all.get(field).and_then(Value::as_i64);
        value.unwrap_or(default)
    }

    fn text(&self, field: &str) -> &str {
        let value = self.all.get(field).and_then(Value::as_str);
        value.unwrap_or_default()
    }

    fn truth(&self, field: &str, default: bool) -> bool {
        let value = self.all.get(field).and_then(Value::as_bool);
        value.unwrap_or(default)
    }

    /// A duration in nanoseconds; those of length zero are not set.
    fn time(&self, field: &str) -> Option<i64> {
        let time = duration::parse(self.all.get(field)?.as_str()?);
        time.filter(|time| *time != 0)
    }

    fn map(&self, field: &str) -> impl Iterator<Item = (&str, &str)> {
        let map = self.all.get(field).and_then(Value::as_object);
        let pairs = map.into_iter().flatten();
        pairs.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    fn has(&self, field: &str) -> bool {
        self.all.get(field).is_some_and(|value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Null => false,
            _ => true,
        })
    }

    /// Whether a feature gate is on: as it is set, else its default.
    fn gate(&self, name: &str) -> bool {
        let set = self.all.get("featureGates").and_then(|all| all.get(name));
        let default = || gate(name, self.minor).is_some_and(|gate| gate.default);
        set.and_then(Value::as_bool).unwrap_or_else(default)
    }

    fn gates(&mut self) {
        let asked = self.asked.get("featureGates").and_then(Value::as_object);
        for (name, value) in asked.into_iter().flatten() {
            let Some(on) = value.as_bool() else { continue };
            let field = format!("featureGates[{name}]");
            match gate(name, self.minor) {
                None => {
                    let hint = match gates::spelled(name) {
                        Some(right) if right != name => format!("write {right}"),
                        Some(_) => "remove it: no such gate in this version".to_owned(),
                        None => "remove it".to_owned(),
                    };
                    // All of alpha and all of beta.
                    if !matches!(name.as_str(), "AllAlpha" | "AllBeta") {
                        self.refuse(&field, "is not a feature gate of the kubelet", &hint);
                    }
                }
                Some(gate) if gate.locked && gate.default != on => {
                    let what = format!(
                        "is {on}, and the feature gate is locked to {}",
                        gate.default
                    );
                    self.refuse(&field, what, "remove it");
                }
                Some(_) => {}
            }
        }
        for (name, needs) in gates::needs(self.minor) {
            let lacking = needs.into_iter().find(|name| !self.gate(name));
            let Some(lacking) = lacking.filter(|_| self.gate(name)) else {
                continue;
            };
            let asked = |name: &str| asked.is_some_and(|asked| asked.contains_key(name));
            let field = match asked(lacking) || !asked(name) {
                true => format!("featureGates[{lacking}]"),
                false => format!("featureGates[{name}]"),
            };
            // One reason is enough: a gate may be locked, or several may need it.
            if self.faults.iter().all(|fault| fault.field != field) {
                let what = format!("does not suit: {name} is on and needs {lacking}");
                self.refuse(&field, what, "set both");
            }
        }
    }

    /// Numbers and durations with a range of their own.
    fn numbers(&mut self) {
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
    fn words(&mut self) {
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

    fn word(&mut self, field: &str, allowed: &[&str]) {
        let word = self.text(field).to_owned();
        let named: Vec<&str> = allowed
            .iter()
            .filter(|one| !one.is_empty())
            .copied()
            .collect();
        let hint = format!("write one of {}", named.join(", "));
        let right = allowed.contains(&word.as_str());
        self.unless(right, field, format!("is {}", quoted(&word)), &hint);
    }

    fn images(&mut self) {
        let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
        let (above, below) = (self.number(high, 85), self.number(low, 80));
        if above <= below {
            let field = self.blamed(&[high, low]);
            let own = |name: &str| match self.asked.contains_key(name) {
                true => "",
                false => " (the default)",
            };
            let what = match field == high {
                true => format!("is {above}, not above {low}, which is {below}{}", own(low)),
                false => format!(
                    "is {below}, not below {high}, which is {above}{}",
                    own(high)
                ),
            };
            let hint = "images are removed from the one to the other: set both";
            self.refuse(field, what, hint);
        }
        let (oldest, youngest) = ("imageMaximumGCAge", "imageMinimumGCAge");
        let least = self.time(youngest).unwrap_or(120 * SECOND);
        if self.minor >= 36 {
            self.unless(least >= 0, youngest, "is negative", "write 0s or more");
        }
        if self.minor >= 29
            && let Some(most) = self.time(oldest)
        {
            let what = "needs the feature gate ImageMaximumGCAge";
            let hint = "remove it, or turn the gate on";
            self.unless(self.gate("ImageMaximumGCAge"), oldest, what, hint);
            self.unless(most >= 0, oldest, "is negative", "write 0s or more");
            let what = format!(
                "is not above {youngest}, which is {}",
                duration::write(least)
            );
            let hint = "write a longer time";
            self.unless(most < 0 || most > least, oldest, what, hint);
        }
        let pulls = "maxParallelImagePulls";
        if self.minor >= 27 && self.number(pulls, 0) > 1 {
            // Without the setting, several pulls at once mean that they are not in series.
            let series = self.truth("serializeImagePulls", false);
            let what = "is above 1, and serializeImagePulls is true";
            self.unless(!series, pulls, what, "set serializeImagePulls to false");
        }
        if self.minor >= 33 {
            self.pull_credentials();
        }
    }

    fn pull_credentials(&mut self) {
        let (policy, list) = (
            "imagePullCredentialsVerificationPolicy",
            "preloadedImagesVerificationAllowlist",
        );
        let gate = "KubeletEnsureSecretPulledImages";
        if self.gate(gate) {
            let words = [
                "",
                "NeverVerify",
                "NeverVerifyPreloadedImages",
                "NeverVerifyAllowlistedImages",
                "AlwaysVerify",
            ];
            self.word(policy, &words);
            let right = !self.has(list) || self.text(policy) == "NeverVerifyAllowlistedImages";
            let what = format!("stands beside another {policy} than NeverVerifyAllowlistedImages");
            self.unless(right, list, what, "change the one, or remove the other");
            return;
        }
        for field in [policy, list] {
            if !self.has(field) {
                continue;
            }
            if self.asked.contains_key(field) {
                let what = format!("stands without the feature gate {gate}");
                self.refuse(field, what, "remove it, or turn the gate on");
            } else {
                let what = format!("is false, and the kubelet's defaults have set {field} before");
                let hint = format!("leave the gate on, or set {field} to \"\"");
                self.refuse(&format!("featureGates[{gate}]"), what, &hint);
            }
        }
    }

    fn shutdown(&mut self) {
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

    fn swap(&mut self) {
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

    fn back_off(&mut self) {
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

    fn enforcement(&mut self) {
        let field = "enforceNodeAllocatable";
        let items = self.all.get(field).and_then(Value::as_array);
        let words = items.into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<String> = words.map(str::to_owned).collect();
        let has = |word: &str| words.iter().any(|one| one == word);
        let by_qos = self.truth("cgroupsPerQOS", true);
        if !by_qos {
            // Unset, it is `pods`.
            let unset = items.is_none();
            let none = words.iter().all(|word| word == "none");
            let old = self.minor < 31 && !words.is_empty();
            let asked = self.blamed(&["cgroupsPerQOS", field]);
            let what = "does not suit: enforceNodeAllocatable needs cgroupsPerQOS";
            let hint = "leave cgroupsPerQOS true, or write enforceNodeAllocatable: [none]";
            self.unless(!unset && none && !old, asked, what, hint);
        }
        let mut seen: Vec<&str> = Vec::new();
        for word in &words {
            if self.minor >= 31 && seen.contains(&word.as_str()) {
                self.refuse(field, format!("has {} twice", quoted(word)), "give it once");
                continue;
            }
            seen.push(word);
            let compressible = self.minor >= 32;
            let cgroup = match word.as_str() {
                "pods" => continue,
                "none" => {
                    let hint = "none stands alone";
                    self.unless(words.len() == 1, field, "has more beside none", hint);
                    continue;
                }
                "system-reserved" => "systemReservedCgroup",
                "kube-reserved" => "kubeReservedCgroup",
                "system-reserved-compressible" if compressible => "systemReservedCgroup",
                "kube-reserved-compressible" if compressible => "kubeReservedCgroup",
                other => {
                    let what = format!("has {}", quoted(other));
                    let hint = "write pods, system-reserved, kube-reserved or none";
                    self.refuse(field, what, hint);
                    continue;
                }
            };
            let what = format!("has {} without {cgroup}", quoted(word));
            let hint = format!("set {cgroup}");
            self.unless(self.has(cgroup), field, what, &hint);
        }
        if self.minor >= 32 {
            for of in ["system-reserved", "kube-reserved"] {
                let both = has(of) && has(&format!("{of}-compressible"));
                let what = format!("has {of} and {of}-compressible");
                self.unless(!both, field, what, "give one of them");
            }
        }
    }

    fn reserved(&mut self) {
        let field = "reservedSystemCPUs";
        if self.has(field) {
            let beside = ["systemReservedCgroup", "kubeReservedCgroup"];
            let beside: Vec<&str> = beside.into_iter().filter(|of| self.has(of)).collect();
            let own = match beside.iter().any(|of| self.asked.contains_key(*of)) {
                true => "",
                false => ", which the image's own settings have",
            };
            let what = format!("stands beside {}{own}", beside.join(" and "));
            let hint = "set systemReservedCgroup and kubeReservedCgroup to \"\", or remove it";
            self.unless(beside.is_empty(), field, what, hint);
            let text = self.text(field).to_owned();
            let what = format!("{} is not a set of CPUs", quoted(&text));
            self.unless(is_cpu_set(&text), field, what, "write it like 0-3,8");
        }
        let all = self.all.get("reservedMemory").and_then(Value::as_array);
        let all = all.cloned().unwrap_or_default();
        let mut seen: Vec<(i64, &str)> = Vec::new();
        for (at, one) in all.iter().enumerate() {
            let node = one["numaNode"].as_i64().unwrap_or(0);
            for (name, amount) in one["limits"].as_object().into_iter().flatten() {
                let field = format!("reservedMemory[{at}].limits[{name}]");
                let right = name == "memory" || name.starts_with("hugepages-");
                let hint = "write memory or hugepages-<size>";
                self.unless(right, &field, "is not a kind of memory", hint);
                let text = amount.as_str().map(str::to_owned);
                let text = text.unwrap_or_else(|| amount.to_string());
                let zero = Quantity::parse(&text).is_ok_and(|of| of == Quantity::default());
                self.unless(!zero, &field, "is zero", "write more, or remove it");
                let twice = seen.contains(&(node, name));
                let what = format!("is there twice for NUMA node {node}");
                self.unless(!twice, &field, what, "remove one");
                seen.push((node, name));
            }
        }
    }

    fn logs(&mut self) {
        if self.minor >= 30 {
            let (field, least) = ("containerLogMonitorInterval", 3 * SECOND);
            let time = self.all.get(field).and_then(Value::as_str);
            let time = time.and_then(duration::parse).unwrap_or(10 * SECOND);
            let what = format!("is {}", duration::write(time));
            self.unless(time >= least, field, what, "write 3s or more");
            let field = "podLogsDir";
            let path = self.text(field).to_owned();
            if !path.is_empty() {
                let hint = "write it like /var/log/pods";
                let what = format!("{} is not an absolute path", quoted(&path));
                // In the kubelet's own file a path begins at the file's folder.
                let begins = path.starts_with('/') || self.base == Base::Bare;
                self.unless(begins, field, what, hint);
                let parts = || path.split('/').skip(1);
                let clean = path == "/" || !parts().any(|of| matches!(of, "" | "." | ".."));
                let what = format!("{} is not a plain path", quoted(&path));
                self.unless(!path.starts_with('/') || clean, field, what, hint);
                let what = "has characters beyond ASCII";
                self.unless(path.is_ascii(), field, what, hint);
            }
        }
        let field = "containerLogMaxSize";
        let size = self.text(field).to_owned();
        let right = size.is_empty() || Quantity::parse(&size).is_ok_and(|of| of.whole().is_ok());
        let what = format!("{} is not an amount", quoted(&size));
        self.unless(right, field, what, "write it like 10Mi");
        self.logging();
        if self.minor >= 27 && self.truth("enableSystemLogQuery", false) {
            let field = "enableSystemLogQuery";
            let what = "needs the feature gate NodeLogQuery";
            let hint = "remove it, or turn the gate on";
            self.unless(self.gate("NodeLogQuery"), field, what, hint);
            let handler = self.truth("enableSystemLogHandler", true);
            let what = "needs enableSystemLogHandler";
            self.unless(handler, field, what, "set both");
        }
    }

    fn logging(&mut self) {
        let logging = self.all.get("logging").cloned().unwrap_or_default();
        let format = logging["format"].as_str().unwrap_or_default();
        let right = ["", "text", "json"].contains(&format);
        let what = format!("is {}", quoted(format));
        self.unless(right, "logging.format", what, "write text or json");
        let loud = |value: &Value| value.as_i64().is_some_and(|of| of > i32::MAX.into());
        let hint = "write 0 to 10";
        let verbosity = &logging["verbosity"];
        let what = "is beyond 31 bits";
        self.unless(!loud(verbosity), "logging.verbosity", what, hint);
        let modules = logging["vmodule"].as_array().cloned().unwrap_or_default();
        let plain = ["", "text"].contains(&format);
        let what = "stands beside a format other than text";
        let hint = "remove one of the two";
        self.unless(modules.is_empty() || plain, "logging.vmodule", what, hint);
        for (at, module) in modules.iter().enumerate() {
            let field = format!("logging.vmodule[{at}].filePattern");
            let pattern = module["filePattern"].as_str().unwrap_or_default();
            let right = !pattern.is_empty() && !pattern.contains(['=', ',']);
            let what = format!("is {}", quoted(pattern));
            self.unless(right, &field, what, "write a pattern without = and ,");
        }
        let off = |name: &str| !self.gate(name);
        let alpha = off("LoggingAlphaOptions");
        for of in ["text", "json"] {
            let options = &logging["options"][of];
            let split = options["splitStream"] == true;
            let buffer = match &options["infoBufferSize"] {
                Value::Null => false,
                Value::String(text) => !matches!(text.as_str(), "" | "0"),
                other => other.as_f64() != Some(0.0),
            };
            for (set, name) in [(split, "splitStream"), (buffer, "infoBufferSize")] {
                let field = format!("logging.options.{of}.{name}");
                let what = "needs the feature gate LoggingAlphaOptions";
                let hint = "remove it, or turn the gate on";
                self.unless(!(set && alpha), &field, what, hint);
            }
        }
    }

    /// Memory of user namespaces and of NUMA nodes.
    fn memory(&mut self) {
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

    fn others(&mut self) {
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
            let what = format!("{} has another scheme than dns and unix", quoted(endpoint));
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

    /// What is refused after validation, when the kubelet makes its managers.
    fn later(&mut self) {
        let options = "cpuManagerPolicyOptions";
        let all: Vec<_> = self.map(options).map(owned).collect();
        let fixed = self.text("cpuManagerPolicy") == "static";
        for (name, value) in &all {
            let field = format!("{options}[{name}]");
            let what = "is not an option of the static policy";
            let hint = format!("write one of {}", CPU_OPTIONS.join(", "));
            let known = CPU_OPTIONS.contains(&name.as_str());
            self.unless(!fixed || known, &field, what, &hint);
            let what = format!("is {}", quoted(value));
            self.unless(!fixed || is_truth(value), &field, what, "write \"true\"");
        }
        if !fixed && !all.is_empty() {
            let what = "stands without cpuManagerPolicy static";
            self.refuse(options, what, "set cpuManagerPolicy to static");
        }
        let reserves = |of: &str| {
            let cpu = self.map(of).find(|(name, _)| *name == "cpu");
            let milli = cpu.and_then(|(_, text)| Quantity::parse(text).ok());
            milli.is_some_and(|of| of.milli_saturating().is_ok_and(|of| of > 0))
        };
        // What cannot be read is an expression, whose value another check knows.
        let some = self.has("reservedSystemCPUs")
            || ["kubeReserved", "systemReserved"]
                .iter()
                .any(|of| reserves(of));
        let own = self.asked.contains_key("kubeReserved");
        let what = "is static, and no CPU is reserved";
        let hint = "reserve some in kubeReserved or systemReserved";
        self.unless(!fixed || some || !own, "cpuManagerPolicy", what, hint);
        let options = "topologyManagerPolicyOptions";
        for (name, value) in self.map(options).map(owned).collect::<Vec<_>>() {
            let field = format!("{options}[{name}]");
            let right = match name.as_str() {
                "prefer-closest-numa-nodes" => is_truth(&value),
                "max-allowable-numa-nodes" => value.parse::<i64>().is_ok_and(|of| of >= 8),
                _ => {
                    let hint = "write prefer-closest-numa-nodes or max-allowable-numa-nodes";
                    self.refuse(&field, "is not an option", hint);
                    continue;
                }
            };
            let what = format!("is {}", quoted(&value));
            self.unless(right, &field, what, "write \"true\", or 8 and more nodes");
        }
    }
}

/// Options of the static policy of CPUs, of any version.
const CPU_OPTIONS: [&str; 6] = [
    "align-by-socket",
    "distribute-cpus-across-cores",
    "distribute-cpus-across-numa",
    "full-pcpus-only",
    "prefer-align-cpus-by-uncorecache",
    "strict-cpu-reservation",
];

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// What Go reads as true or false.
fn is_truth(text: &str) -> bool {
    let words = [
        "1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False",
    ];
    words.contains(&text)
}

/// Numbers and ranges of numbers with commas between them.
fn is_cpu_set(text: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok();
    let part = |part: &str| match part.split_once('-') {
        None => number(part).is_some(),
        Some((first, last)) => number(first)
            .zip(number(last))
            .is_some_and(|(first, last)| first <= last),
    };
    text.split(',').all(part)
}
