//! The kubelet's flags: which there are, and what they change of its settings.
//!
//! Flags win over settings. A flag of a map or a list replaces it whole, and what is given twice adds
//! up, but for taints: of them the last flag alone counts. Labels add up.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use longshore_api::labels::{is_label_key, is_label_value};
use longshore_api::manifests::quoted;
use longshore_userdata::duration;
use serde_json::{Map, Value, json};

use crate::kubelet::versions::KNOWN;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Flags {
    /// Names, in their order.
    pub names: Vec<String>,
    /// Settings that they replace, by field of the kubelet's settings; maps and lists are whole.
    pub settings: Map<String, Value>,
    /// Feature gates, which add to those of the settings.
    pub gates: Map<String, Value>,
    /// Labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Taints, if a flag gives them: key, value, effect.
    pub taints: Option<Vec<(String, String, String)>>,
}

/// A flag: name, type, the versions that have it, the setting that it sets.
struct Flag {
    kind: &'static str,
    letters: &'static str,
    field: &'static str,
}

/// Name, type, `+` or `-` for each version, and the setting. A test reads every line.
static TABLE: LazyLock<BTreeMap<&'static str, Flag>> = LazyLock::new(|| {
    let lines = include_str!("../../data/kubelet_flags.tsv").lines();
    let flag = |line: &'static str| {
        let mut cells = line.split('\t');
        let name = cells.next()?;
        let (kind, letters, field) = (cells.next()?, cells.next()?, cells.next()?);
        let flag = Flag {
            kind,
            letters,
            field,
        };
        Some((name, flag))
    };
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.filter_map(flag).collect()
});

/// Whether a kubelet of a minor version has a flag.
pub fn has(name: &str, minor: u16) -> bool {
    let at = minor.checked_sub(*KNOWN.start());
    let flag = TABLE.get(name).zip(at);
    flag.is_some_and(|(flag, at)| flag.letters.as_bytes().get(usize::from(at)) == Some(&b'+'))
}

/// Reads the words of a command line.
///
/// # Errors
/// Why no kubelet would start with them.
pub(super) fn read(words: Vec<String>) -> Result<Flags, String> {
    let (mut flags, mut words) = (Flags::default(), words.into_iter());
    while let Some(word) = words.next() {
        let shown = quoted(&word);
        let (name, value) = named(&word).ok_or_else(|| {
            format!("{shown} is not an argument of the kubelet, which ends on it")
        })?;
        let Some(flag) = TABLE.get(name.as_str()) else {
            return Err(format!(
                "{shown} is not a flag of the kubelet, which ends on it"
            ));
        };
        let value = match value {
            Some(value) => value,
            None if flag.kind == "bool" => "true".to_owned(),
            None => words
                .next()
                .ok_or_else(|| format!("{shown} has no value"))?,
        };
        flags.set(&name, flag, &value)?;
        unjoined(&name, &value)?;
        flags.names.push(name);
    }
    let mut labels = flags.labels.iter();
    if let Some(fault) = labels.find_map(|(key, value)| label_fault(key, value)) {
        return Err(format!("--node-labels has {fault}"));
    }
    Ok(flags)
}

/// Flags with a value with which no node joins. What a shell fills in is not known.
fn unjoined(name: &str, value: &str) -> Result<(), String> {
    let filled = value.contains(['$', '`']);
    match name {
        "hostname-override" if !filled && !value.is_empty() => Err(format!(
            "--{name}={value} gives all nodes one name, and the API server lets none of them join \
             with it"
        )),
        "cloud-provider" if !filled && !matches!(value, "" | "external") => Err(format!(
            "--{name}={value} is not external, and kubelets since 1.27 end on it"
        )),
        "kubeconfig" if value.is_empty() => Err(format!(
            "--{name} is empty: the kubelet would join no cluster"
        )),
        _ => Ok(()),
    }
}

/// Why a kubelet ends on a label that it is to give its own node.
pub(super) fn label_fault(key: &str, value: &str) -> Option<String> {
    if is_refused(key) {
        let key = quoted(key);
        return Some(format!(
            "{key}, which a kubelet may not give its own node and ends on"
        ));
    }
    if !is_label_key(key) {
        let key = quoted(key);
        return Some(format!(
            "{key}, which is not a label's key: the kubelet ends on it"
        ));
    }
    if !is_label_value(value) {
        let (key, value) = (quoted(key), quoted(value));
        return Some(format!(
            "{value} for {key}, which is not a label's value: the kubelet ends on it"
        ));
    }
    None
}

/// Whether a kubelet ends at a label: those of Kubernetes that are not the kubelet's own.
fn is_refused(key: &str) -> bool {
    const OWN: [&str; 11] = [
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ];
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let below = |of: &str| {
        let before = domain.strip_suffix(of);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let kubernetes = below("kubernetes.io") || below("k8s.io");
    let own = below("kubelet.kubernetes.io") || below("node.kubernetes.io");
    kubernetes && !own && !OWN.contains(&key)
}

/// The name of a flag and its value, if it stands in the same word.
fn named(word: &str) -> Option<(String, Option<String>)> {
    if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        return Some((name.replace('_', "-"), value));
    }
    // Of one letter there are -h and -v.
    let short = word.strip_prefix('-')?;
    let value = short.strip_prefix('v')?;
    let value = value.strip_prefix('=').unwrap_or(value);
    Some((
        "v".to_owned(),
        Some(value.to_owned()).filter(|of| !of.is_empty()),
    ))
}

impl Flags {
    fn set(&mut self, name: &str, flag: &Flag, value: &str) -> Result<(), String> {
        let wrong = |expected: &str| Err(format!("--{name}={value} is not {expected}"));
        match name {
            "node-labels" => self.labels.extend(pairs(name, value, '=')?),
            "register-with-taints" => self.taints = Some(taints(name, value)?),
            "feature-gates" => {
                for (gate, on) in pairs(name, value, '=')? {
                    match on.as_str() {
                        "true" | "True" | "TRUE" | "t" | "T" | "1" => {
                            self.gates.insert(gate, true.into())
                        }
                        "false" | "False" | "FALSE" | "f" | "F" | "0" => {
                            self.gates.insert(gate, false.into())
                        }
                        _ => return wrong("a list of gates with true or false"),
                    };
                }
            }
            _ => {}
        }
        let read: Value = match flag.kind {
            "bool" => match value {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => true.into(),
                "false" | "False" | "FALSE" | "f" | "F" | "0" => false.into(),
                _ => return wrong("true or false"),
            },
            "int" | "int32" | "int64" | "Level" => match value.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => return wrong("a number"),
            },
            "duration" => match duration::parse(value) {
                Some(_) => value.into(),
                None => return wrong("a duration such as 90s"),
            },
            "mapStringString" | "mapStringBool" => {
                let sign = match flag.field {
                    "evictionHard" | "evictionSoft" => '<',
                    _ => '=',
                };
                let own = self.settings.get(flag.field).and_then(Value::as_object);
                let mut all = own.cloned().unwrap_or_default();
                let pairs = pairs(name, value, sign)?.into_iter();
                all.extend(pairs.map(|(key, value)| (key, value.into())));
                all.into()
            }
            "strings" | "stringSlice" => {
                let own = self.settings.get(flag.field).and_then(Value::as_array);
                let mut all = own.cloned().unwrap_or_default();
                all.extend(
                    value
                        .split(',')
                        .filter(|item| !item.is_empty())
                        .map(Value::from),
                );
                all.into()
            }
            _ => value.into(),
        };
        let simple = !flag.field.is_empty() && !flag.field.contains('?');
        if simple
            && !matches!(
                flag.field,
                "featureGates" | "registerWithTaints" | "reservedMemory"
            )
        {
            set(&mut self.settings, flag.field, read);
        }
        Ok(())
    }

    /// Lets them win over settings.
    pub fn win(&self, settings: &mut Map<String, Value>) {
        for (field, value) in &self.settings {
            match value {
                // One field below a map.
                Value::Object(below) if NESTED.contains(&field.as_str()) => {
                    let own = settings.entry(field).or_insert_with(|| json!({}));
                    for (name, value) in below {
                        own[name] = value.clone();
                    }
                }
                value => drop(settings.insert(field.clone(), value.clone())),
            }
        }
        if !self.gates.is_empty() {
            let own = settings.entry("featureGates").or_insert_with(|| json!({}));
            for (name, on) in &self.gates {
                own[name] = on.clone();
            }
        }
        if let Some(taints) = &self.taints {
            let taint = |(key, value, effect): &(String, String, String)| json!({"key": key, "value": value, "effect": effect});
            let all: Vec<Value> = taints.iter().map(taint).collect();
            settings.insert("registerWithTaints".to_owned(), all.into());
        }
    }
}

/// Settings of which flags set single fields.
const NESTED: [&str; 4] = ["authentication", "authorization", "logging", "memorySwap"];

/// Sets a field, whose path may have points.
fn set(into: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(into.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let below = into.entry(first).or_insert_with(|| json!({}));
            if let Value::Object(below) = below {
                set(below, rest, value);
            }
        }
    }
}

/// `key=value,key=value`. The kubelet ends on a pair without the sign.
fn pairs(name: &str, text: &str, sign: char) -> Result<Vec<(String, String)>, String> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once(sign)?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    let all = text.split(',').filter(|pair| !pair.is_empty());
    let all: Option<Vec<_>> = all.map(pair).collect();
    all.ok_or_else(|| format!("--{name}={text} is not a list of pairs, key{sign}value"))
}

/// `key=value:Effect,key:Effect`.
fn taints(name: &str, text: &str) -> Result<Vec<(String, String, String)>, String> {
    let one = |taint: &str| {
        let (rest, effect) = taint.rsplit_once(':')?;
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect);
        let taint = (key.to_owned(), value.to_owned(), effect.to_owned());
        (known && !key.is_empty()).then_some(taint)
    };
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let all: Option<Vec<_>> = text.split(',').map(one).collect();
    all.ok_or_else(|| format!("--{name}={text} is not a list of taints, key=value:Effect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = include_str!("../../data/kubelet_flags.tsv").lines();
        let lines = lines.filter(|line| !line.starts_with('#')).count();
        assert!(lines > 100 && TABLE.len() == lines);
        for (name, flag) in &*TABLE {
            assert_eq!(flag.letters.len(), KNOWN.count(), "{name}");
        }
        assert!(has("max-pods", 36) && !has("no-such-flag", 36));
        assert!(has("container-runtime", 26) && !has("container-runtime", 27));
    }

    #[test]
    fn maps_and_lists_are_whole_and_of_taints_the_last_flag_counts() {
        let flags = read(words(
            "--kube-reserved=cpu=1 --kube_reserved memory=2Gi --eviction-hard=memory.available<5% \
             --node-labels=a=1,b=2 --node-labels=b=3 --register-with-taints=a=b:NoSchedule \
             --register-with-taints=c:NoExecute --max-pods 110 --protect-kernel-defaults -v=4 \
             --feature-gates=NodeSwap=false",
        ));
        let flags = flags.unwrap();
        let mut settings = json!({"kubeReserved": {"pid": "5"}, "featureGates": {"A": true}});
        let settings = settings.as_object_mut().unwrap();
        flags.win(settings);
        expect_test::expect![[r#"{"evictionHard":{"memory.available":"5%"},"featureGates":{"A":true,"NodeSwap":false},"kubeReserved":{"cpu":"1","memory":"2Gi"},"logging":{"verbosity":4},"maxPods":110,"protectKernelDefaults":true,"registerWithTaints":[{"effect":"NoExecute","key":"c","value":""}]}"#]]
            .assert_eq(&serde_json::to_string(settings).unwrap());
        let labels: Vec<_> = flags
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        assert_eq!(labels, ["a=1", "b=3"]);
    }

    #[test]
    fn a_command_line_that_no_kubelet_takes_is_refused() {
        for (line, what) in [
            ("--no-such-flag=1", "is not a flag of the kubelet"),
            ("word", "is not an argument of the kubelet"),
            ("--max-pods=many", "is not a number"),
            ("--max-pods", "has no value"),
            ("--protect-kernel-defaults maybe", "is not an argument"),
            ("--register-with-taints=a=b", "is not a list of taints"),
            ("--node-labels=a", "is not a list of pairs"),
            ("--eviction-hard=memory.available=5%", "key<value"),
            ("--node-labels=node-role.kubernetes.io/a=b", "may not give"),
            ("--node-labels=a=b/c", "is not a label's value"),
            ("--node-labels=Team.X/a=b", "is not a label's key"),
            ("--hostname-override=a", "gives all nodes one name"),
            ("--cloud-provider=aws", "is not external"),
            ("--kubeconfig=", "would join no cluster"),
        ] {
            let error = read(words(line)).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}
