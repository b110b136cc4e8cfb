//! What is refused after validation, when the kubelet makes the managers of CPUs and of topology.

use longshore_api::manifests::quoted;
use longshore_api::quantity::Quantity;

use super::kubelet::{Kubelet, owned};

impl Kubelet<'_> {
    /// What is refused after validation, when the kubelet makes its managers.
    pub(super) fn later(&mut self) {
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

/// What Go reads as true or false.
fn is_truth(text: &str) -> bool {
    let words = [
        "1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False",
    ];
    words.contains(&text)
}
