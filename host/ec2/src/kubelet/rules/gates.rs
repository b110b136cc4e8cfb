//! Feature gates that do not exist, are locked, or need others.

use serde_json::Value;

use super::super::gates::{self, gate};
use super::kubelet::Kubelet;

impl Kubelet<'_> {
    pub(super) fn gates(&mut self) {
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
                    if !gates::ALL.contains(&name.as_str()) {
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
            let all = |name: &str| gate(name, self.minor).and_then(|gate| gate.all);
            let mut causes = [Some(lacking), Some(name), all(lacking), all(name)].into_iter();
            let cause = causes.find_map(|cause| cause.filter(|cause| asked(cause)));
            let field = format!("featureGates[{}]", cause.unwrap_or(lacking));
            // One reason is enough: a gate may be locked, or several may need it.
            if self.faults.iter().all(|fault| fault.field != field) {
                let what = format!("does not suit: {name} is on and needs {lacking}");
                self.refuse(&field, what, "set both");
            }
        }
    }
}
