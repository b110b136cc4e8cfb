//! What the API server refuses of pods and of templates of pods, of the fields that planning reads and
//! of those that every container and volume has.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, Container, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint, Volume,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::labels;
use crate::manifests::diagnostic::{Fault, quoted};
use crate::manifests::object::quantity;
use crate::manifests::wire::Amount;
use crate::quantity::{Quantity, QuantityError};

const LABEL_KEY: &str = "write it like team or example.com/team";
const LABEL_VALUE: &str =
    "at most 63 letters, digits, `-`, `_` and `.`, first and last a letter or digit";
const DNS_LABEL: &str =
    "at most 63 lower case letters, digits and `-`, first and last a letter or digit";

pub(super) fn pod(pod: &Pod) -> Vec<Fault> {
    let mut faults = Faults::default();
    if let Some(spec) = &pod.spec {
        faults.spec("spec", spec, &["Always", "OnFailure", "Never"]);
        let init = spec.init_containers.iter().flatten();
        for container in spec.containers.iter().chain(init) {
            let image = container.image.as_deref().unwrap_or_default();
            // Of a template it is taken, and no pod is made from it.
            if image.trim() != image {
                let what = format!("the image {} has a space around it", quoted(image));
                faults.add("spec.containers", what, "remove it");
            }
        }
    }
    faults.0
}

pub(super) fn daemon(daemon: &DaemonSet) -> Vec<Fault> {
    let mut faults = Faults::default();
    let Some(spec) = &daemon.spec else {
        return faults.0;
    };
    let none = BTreeMap::new();
    let metadata = spec.template.metadata.as_ref();
    let own = metadata.and_then(|metadata| metadata.labels.as_ref());
    let own = own.unwrap_or(&none);
    for (key, value) in own {
        faults.label("spec.template.metadata.labels", key, value);
    }
    let selector = &spec.selector;
    faults.selector("spec.selector", selector);
    let listed = selector.match_labels.as_ref().unwrap_or(&none);
    let rules = selector.match_expressions.as_deref().unwrap_or_default();
    let selects = rules.iter().all(|rule| {
        let has = own.get(&rule.key);
        let values = rule.values.as_deref().unwrap_or_default();
        let is_listed = has.is_some_and(|value| values.contains(value));
        match rule.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => has.is_some(),
            "DoesNotExist" => has.is_none(),
            _ => true,
        }
    });
    // A plan does not need one. It selects as it is written.
    let differs = listed
        .iter()
        .any(|(key, value)| own.get(key) != Some(value));
    if differs || !selects {
        let what = "does not select the labels of its template";
        faults.add("spec.selector", what, "give the template these labels");
    }
    if let Some(spec) = &spec.template.spec {
        faults.spec("spec.template.spec", spec, &["Always"]);
    }
    faults.0
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, field: impl Into<String>, what: impl Into<String>, hint: &str) {
        self.0.push(Fault {
            field: field.into(),
            what: what.into(),
            hint: hint.to_owned(),
        });
    }

    fn spec(&mut self, at: &str, spec: &PodSpec, restarts: &[&str]) {
        if let Some(policy) = spec.restart_policy.as_deref()
            && !policy.is_empty()
        {
            self.one_of(format!("{at}.restartPolicy"), policy, restarts);
        }
        let class = spec.priority_class_name.as_deref().unwrap_or_default();
        if !class.is_empty() && !labels::is_dns_name(class) {
            let what = format!("{} is not a name", quoted(class));
            self.add(
                format!("{at}.priorityClassName"),
                what,
                "name a PriorityClass",
            );
        }
        if spec.containers.is_empty() {
            let hint = "a pod has at least one container";
            self.add(format!("{at}.containers"), "is missing", hint);
        }
        let host = spec.host_network == Some(true);
        let init = spec.init_containers.as_deref().unwrap_or_default();
        let mut names = BTreeSet::new();
        for (field, list) in [
            ("initContainers", init),
            ("containers", spec.containers.as_slice()),
        ] {
            let mut ports = BTreeSet::new();
            for (index, container) in list.iter().enumerate() {
                let at = format!("{at}.{field}[{index}]");
                self.container(&at, container, (host, &mut ports));
                // A plan needs no names of containers, and no images.
                if !container.name.is_empty() {
                    self.name(&at, &container.name, names.insert(&container.name));
                }
            }
        }
        let mut names = BTreeSet::new();
        for (index, volume) in spec.volumes.iter().flatten().enumerate() {
            let at = format!("{at}.volumes[{index}]");
            self.name(&at, &volume.name, names.insert(&volume.name));
            self.volume(&at, volume);
        }
        if let Some(affinity) = &spec.affinity {
            self.affinity(&format!("{at}.affinity"), affinity);
        }
        let spread = spec
            .topology_spread_constraints
            .as_deref()
            .unwrap_or_default();
        let mut seen = BTreeSet::new();
        for (index, one) in spread.iter().enumerate() {
            let at = format!("{at}.topologySpreadConstraints[{index}]");
            if !seen.insert((&one.topology_key, &one.when_unsatisfiable)) {
                let hint = "one constraint for each topologyKey and whenUnsatisfiable";
                self.add(&at, "is there twice", hint);
            }
            self.spread(&at, one);
        }
    }

    fn one_of(&mut self, field: String, text: &str, known: &[&str]) {
        if !known.contains(&text) {
            let what = format!("{} is not known", quoted(text));
            self.add(field, what, &format!("expected {}", known.join(", ")));
        }
    }

    /// A name that is there once among others.
    fn name(&mut self, at: &str, name: &str, is_new: bool) {
        let at = format!("{at}.name");
        if name.is_empty() {
            self.add(at, "is missing", "give it one");
        } else if !is_dns_label(name) {
            self.add(at, format!("{} is not a name", quoted(name)), DNS_LABEL);
        } else if !is_new {
            self.add(
                at,
                format!("{} is there twice", quoted(name)),
                "give each its own",
            );
        }
    }

    fn container(
        &mut self,
        at: &str,
        container: &Container,
        (host, taken): (bool, &mut BTreeSet<(String, i32)>),
    ) {
        if let Some(policy) = container.restart_policy.as_deref() {
            let known = ["Always", "Never", "OnFailure"];
            self.one_of(format!("{at}.restartPolicy"), policy, &known);
        }
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let at = format!("{at}.ports[{index}]");
            let number = port.container_port;
            if !(1..=65_535).contains(&number) {
                let what = format!("{number} is not a port");
                self.add(
                    format!("{at}.containerPort"),
                    what,
                    "ports go from 1 to 65535",
                );
            }
            let protocol = port.protocol.as_deref().filter(|text| !text.is_empty());
            let protocol = protocol.unwrap_or("TCP");
            self.one_of(format!("{at}.protocol"), protocol, &["TCP", "UDP", "SCTP"]);
            let on_host = match port.host_port.unwrap_or(0) {
                0 if host => number,
                0 => continue,
                on_host => on_host,
            };
            let at = format!("{at}.hostPort");
            if !(1..=65_535).contains(&on_host) {
                let what = format!("{on_host} is not a port");
                self.add(at, what, "ports go from 1 to 65535");
            } else if host && on_host != number {
                let hint = "on the host's network a container has its own ports";
                self.add(at, "differs from containerPort", hint);
            } else if !taken.insert((protocol.to_owned(), on_host)) {
                self.add(
                    at,
                    format!("{on_host} is there twice"),
                    "a host has it once",
                );
            }
        }
    }

    fn volume(&mut self, at: &str, volume: &Volume) {
        if let Some(claim) = &volume.persistent_volume_claim
            && claim.claim_name.is_empty()
        {
            let at = format!("{at}.persistentVolumeClaim.claimName");
            self.add(at, "is missing", "name the claim");
        }
        let Some(ephemeral) = &volume.ephemeral else {
            return;
        };
        let at = format!("{at}.ephemeral.volumeClaimTemplate");
        let Some(template) = &ephemeral.volume_claim_template else {
            return self.add(at, "is missing", "say what is claimed");
        };
        let (at, spec) = (format!("{at}.spec"), &template.spec);
        let modes = spec.access_modes.as_deref().unwrap_or_default();
        if modes.is_empty() {
            let hint = "write [ReadWriteOnce], for instance";
            self.add(format!("{at}.accessModes"), "is missing", hint);
        }
        let known = [
            "ReadWriteOnce",
            "ReadOnlyMany",
            "ReadWriteMany",
            "ReadWriteOncePod",
        ];
        for mode in modes {
            self.one_of(format!("{at}.accessModes"), mode, &known);
        }
        let asked = spec
            .resources
            .as_ref()
            .and_then(|all| all.requests.as_ref());
        let at = format!("{at}.resources.requests.storage");
        match asked.and_then(|asked| asked.get("storage")) {
            None => self.add(at, "is missing", "say how large the volume is"),
            Some(size) => {
                let text = Amount(size.0.trim_matches(' ').into());
                match quantity(&text).and_then(Quantity::whole_saturating) {
                    Ok(0) | Err(QuantityError::Negative) => {
                        self.add(at, "is not above 0", "say how large the volume is");
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let what = format!("quantity {} {error}", quoted(&size.0));
                        self.add(at, what, "write it like 2Gi");
                    }
                }
            }
        }
    }

    fn affinity(&mut self, at: &str, affinity: &Affinity) {
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
        let node = affinity.node_affinity.as_ref();
        let required = node.and_then(|node| {
            node.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        let required = required.map_or(&[][..], |required| &required.node_selector_terms);
        let preferred = node.and_then(|node| {
            node.preferred_during_scheduling_ignored_during_execution
                .as_ref()
        });
        let preferred = preferred.into_iter().flatten().map(|term| &term.preference);
        let terms = required.iter().map(|term| (term, true));
        for (term, is_required) in terms.chain(preferred.map(|term| (term, false))) {
            let at = format!("{at}.nodeAffinity");
            for rule in term.match_expressions.iter().flatten() {
                self.key(&at, &rule.key);
                for value in rule.values.iter().flatten().filter(|_| is_required) {
                    self.value(&at, value);
                }
            }
        }
        let (with, apart) = (
            affinity.pod_affinity.as_ref(),
            affinity.pod_anti_affinity.as_ref(),
        );
        let required = |all: &Option<Vec<PodAffinityTerm>>| all.clone().unwrap_or_default();
        let preferred = |all: &Option<Vec<WeightedPodAffinityTerm>>| {
            let all = all.iter().flatten();
            all.map(|term| term.pod_affinity_term.clone())
                .collect::<Vec<_>>()
        };
        let mut lists = Vec::new();
        if let Some(with) = with {
            let all = required(&with.required_during_scheduling_ignored_during_execution);
            lists.push((format!("{at}.podAffinity.{REQUIRED}"), all));
            let all = preferred(&with.preferred_during_scheduling_ignored_during_execution);
            lists.push((format!("{at}.podAffinity.{PREFERRED}"), all));
        }
        if let Some(apart) = apart {
            let all = required(&apart.required_during_scheduling_ignored_during_execution);
            lists.push((format!("{at}.podAntiAffinity.{REQUIRED}"), all));
            let all = preferred(&apart.preferred_during_scheduling_ignored_during_execution);
            lists.push((format!("{at}.podAntiAffinity.{PREFERRED}"), all));
        }
        for (at, terms) in lists {
            for (index, term) in terms.iter().enumerate() {
                self.pod_term(&format!("{at}[{index}]"), term);
            }
        }
    }

    fn pod_term(&mut self, at: &str, term: &PodAffinityTerm) {
        self.key(&format!("{at}.topologyKey"), &term.topology_key);
        for selector in [&term.label_selector, &term.namespace_selector]
            .into_iter()
            .flatten()
        {
            self.selector(at, selector);
        }
        for name in term
            .namespaces
            .iter()
            .flatten()
            .filter(|name| !is_dns_label(name))
        {
            let what = format!("{} is not a namespace", quoted(name));
            self.add(format!("{at}.namespaces"), what, DNS_LABEL);
        }
        let mut selected = selected(term.label_selector.as_ref());
        for (field, keys) in [
            ("matchLabelKeys", &term.match_label_keys),
            ("mismatchLabelKeys", &term.mismatch_label_keys),
        ] {
            let at = format!("{at}.{field}");
            if term.label_selector.is_none() && keys.iter().flatten().next().is_some() {
                let hint = "add the selector that the keys narrow, or remove them";
                self.add(&at, "stands without a labelSelector", hint);
            }
            self.keys(&at, keys, &mut selected);
        }
    }

    /// Keys that narrow a selector, each of which is there once.
    fn keys<'k>(
        &mut self,
        at: &str,
        keys: &'k Option<Vec<String>>,
        selected: &mut BTreeSet<&'k String>,
    ) {
        for key in keys.iter().flatten() {
            self.key(at, key);
            if !selected.insert(key) {
                let what = format!("{} is selected already", quoted(key));
                self.add(at, what, "remove it here or from the labelSelector");
            }
        }
    }

    fn spread(&mut self, at: &str, one: &TopologySpreadConstraint) {
        if let Some(selector) = &one.label_selector {
            self.selector(&format!("{at}.labelSelector"), selector);
        }
        let mut selected = selected(one.label_selector.as_ref());
        self.keys(
            &format!("{at}.matchLabelKeys"),
            &one.match_label_keys,
            &mut selected,
        );
        for (field, policy) in [
            ("nodeAffinityPolicy", &one.node_affinity_policy),
            ("nodeTaintsPolicy", &one.node_taints_policy),
        ] {
            if let Some(policy) = policy {
                self.one_of(format!("{at}.{field}"), policy, &["Honor", "Ignore"]);
            }
        }
    }

    fn selector(&mut self, at: &str, selector: &LabelSelector) {
        for (key, value) in selector.match_labels.iter().flatten() {
            self.label(&format!("{at}.matchLabels"), key, value);
        }
        for rule in selector.match_expressions.iter().flatten() {
            let at = format!("{at}.matchExpressions");
            self.key(&at, &rule.key);
            let values = rule.values.iter().flatten();
            values.for_each(|value| self.value(&at, value));
        }
    }

    fn label(&mut self, at: &str, key: &str, value: &str) {
        self.key(at, key);
        self.value(at, value);
    }

    fn key(&mut self, at: &str, key: &str) {
        if !labels::is_label_key(key) {
            self.add(at, format!("{} is not a label key", quoted(key)), LABEL_KEY);
        }
    }

    fn value(&mut self, at: &str, value: &str) {
        if !labels::is_label_value(value) {
            self.add(
                at,
                format!("{} is not a label value", quoted(value)),
                LABEL_VALUE,
            );
        }
    }
}

/// Keys that a selector has rules about.
fn selected(selector: Option<&LabelSelector>) -> BTreeSet<&String> {
    let labels = selector.and_then(|selector| selector.match_labels.as_ref());
    let rules = selector.and_then(|selector| selector.match_expressions.as_ref());
    let keys = labels.into_iter().flatten().map(|(key, _)| key);
    keys.chain(rules.into_iter().flatten().map(|rule| &rule.key))
        .collect()
}

fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && labels::is_dns_name(name)
}
