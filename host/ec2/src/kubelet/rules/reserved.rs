//! What is kept back from pods, and how it is enforced.

use longshore_api::manifests::quoted;
use longshore_api::quantity::Quantity;
use serde_json::Value;

use super::kubelet::Kubelet;

impl Kubelet<'_> {
    pub(super) fn enforcement(&mut self) {
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

    pub(super) fn reserved(&mut self) {
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
