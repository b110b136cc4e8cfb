//! Bootstrap-template: user data from a template with variables. README.md lists them.

mod template;

use std::collections::BTreeMap;

use longshore_bootstrap_common::{Boot, Machines, text};
use longshore_sdk::bootstrap::{
    AMOUNTS, Kind, Overhead, Rendered, Taint, built_in, cluster, machines,
};
use longshore_sdk::{About, Bootstrap};
use serde::Deserialize;
use template::Template;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    template: String,
    mode: Mode,
    variables: BTreeMap<String, String>,
    overhead: BTreeMap<String, f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// The text takes the place of the NodeClass's `userData`.
    #[default]
    Merge,
    /// The text is all that the node boots with.
    Whole,
}

/// Variables with one name.
const PLAIN: [&str; 15] = [
    "built-in",
    "cluster.certificate-authority",
    "cluster.dns-address",
    "cluster.endpoint",
    "cluster.name",
    "cluster.service-range",
    "cluster.version",
    "image",
    "instance-type",
    "labels",
    "max-pods",
    "node-class",
    "node-pool",
    "taints",
    "zone",
];

/// Beginnings of variables that go on with a key.
const KEYED: [&str; 4] = ["instance.", "labels.", "settings.", "tags."];

const ZONE: &str = "topology.kubernetes.io/zone";

struct Templates {
    template: Template,
    settings: Settings,
}

impl Bootstrap for Templates {
    const ABOUT: About = About {
        name: "bootstrap-template",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Nodes boot with a template that has variables.",
        signals: &[],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(settings: Settings) -> Result<Self, String> {
        if settings.template.is_empty() {
            return Err("`template` is empty; leave the policy out for the built-in".to_owned());
        }
        let known = |name: &str| {
            let keyed = KEYED.iter().find_map(|start| name.strip_prefix(start));
            match (name.strip_prefix("settings."), keyed) {
                (Some(key), _) if !settings.variables.contains_key(key) => Err(format!(
                    "{{{{ {name} }}}}: `variables` has no `{key}`; add it"
                )),
                (None, None) if !PLAIN.contains(&name) => Err(format!(
                    "{{{{ {name} }}}} is no variable; there are {}, and {}",
                    PLAIN.join(", "),
                    KEYED.map(|start| format!("{start}KEY")).join(", ")
                )),
                (None, None) if name == "built-in" && settings.mode == Mode::Merge => Err(
                    "{{ built-in }} is for `mode = \"whole\"`; merged, it would be there twice"
                        .to_owned(),
                ),
                _ => Ok(()),
            }
        };
        let template = Template::read(&settings.template, known)
            .map_err(|problem| format!("`template` {problem}"))?;
        let amount = |name: &String| name != "max-pods" && !AMOUNTS.contains(&name.as_str());
        if let Some(name) = settings.overhead.keys().find(|name| amount(name)) {
            return Err(format!("`overhead.{name}`: unknown key"));
        }
        Ok(Templates { template, settings })
    }

    fn overheads(&mut self) -> Result<Overhead, String> {
        let mut overhead = Overhead::built_in();
        for (name, &amount) in &self.settings.overhead {
            if name == "max-pods" {
                overhead.max_pods.fill(amount as u32);
            } else if let Some(at) = AMOUNTS.iter().position(|have| have == name) {
                overhead.amounts[at].fill(amount);
            }
        }
        Ok(overhead)
    }

    fn user_data(&mut self, kind: &Kind, machines: &[u32]) -> Result<Rendered, String> {
        let all = Machines::pull()?;
        let values = Values::pull(&all, kind, &self.settings);
        let mut rendered = Rendered::default();
        for (nth, &machine) in machines.iter().enumerate() {
            let mut boot = all.boot(kind, machine);
            self.keep_back(&mut boot);
            let filled = self
                .template
                .fill(|name| values.get(name, nth, machine as usize, &boot))?;
            rendered.push(match self.settings.mode {
                Mode::Whole => filled.into_bytes(),
                Mode::Merge => {
                    boot.user_data = Some(filled);
                    text(&boot)?
                }
            });
        }
        Ok(rendered)
    }
}

impl Templates {
    /// Tells the kubelet what `overhead` says, so that the user data says the same.
    fn keep_back(&self, boot: &mut Boot) {
        for (name, &amount) in &self.settings.overhead {
            let of = name.rsplit('-').next().unwrap_or_default();
            let key = match of {
                "storage" if name.starts_with("eviction") => "nodefs.available",
                "memory" if name.starts_with("eviction") => "memory.available",
                "storage" => "ephemeral-storage",
                other => other,
            };
            let value = match of {
                "cpu" => format!("{}m", (amount * 1000.0).round() as u64),
                _ => format!("{}", amount.round() as u64),
            };
            let group = match name.split('-').next() {
                Some("kube") => "kubeReserved",
                Some("system") => "systemReserved",
                Some("eviction") => "evictionHard",
                _ => {
                    boot.kubelet
                        .insert("maxPods".to_owned(), (amount as u32).into());
                    continue;
                }
            };
            let group = boot
                .kubelet
                .entry(group)
                .or_insert_with(|| Default::default());
            if !group.is_object() {
                *group = serde_json::Value::Object(serde_json::Map::new());
            }
            group[key] = value.into();
        }
    }
}

/// Values of variables, but for those that `boot` holds.
struct Values<'a> {
    all: &'a Machines,
    kind: &'a Kind,
    settings: &'a Settings,
    instance_types: Vec<String>,
    images: (Vec<String>, Vec<u32>),
    version: String,
    built_in: (Vec<Vec<u8>>, Vec<u32>),
}

impl<'a> Values<'a> {
    fn pull(all: &'a Machines, kind: &'a Kind, settings: &'a Settings) -> Self {
        Values {
            all,
            kind,
            settings,
            instance_types: machines::instance_type_names(),
            images: (machines::image_names(), machines::images()),
            version: cluster::version(),
            built_in: (built_in::texts(), built_in::text_of()),
        }
    }

    /// The value of a variable for the `nth` machine that was asked about; empty texts are none.
    fn get(&self, name: &str, nth: usize, machine: usize, boot: &Boot) -> Option<String> {
        let label = |key: &str| {
            let labels = self.kind.labels.iter().chain(&self.kind.known_labels);
            let mut found = labels.filter(|(have, _)| have == key);
            found.next().map(|(_, value)| value.clone())
        };
        let indexed =
            |(table, of): &(Vec<String>, Vec<u32>)| table.get(*of.get(machine)? as usize).cloned();
        let value = match name {
            "cluster.name" => Some(boot.cluster.name.clone()),
            "cluster.endpoint" => Some(boot.cluster.endpoint.clone()),
            "cluster.certificate-authority" => Some(boot.cluster.ca_bundle.clone()),
            "cluster.service-range" => Some(boot.cluster.cidr.clone()),
            "cluster.dns-address" => Some(boot.cluster.kube_dns_ip.clone()),
            "cluster.version" => Some(self.version.clone()),
            "node-pool" => Some(self.kind.node_pool.clone()),
            "node-class" => Some(self.all.node_class.metadata.name.clone()),
            "zone" => label(ZONE),
            "instance-type" => self.instance_types.get(machine).cloned(),
            "image" => indexed(&self.images),
            "max-pods" => boot.kubelet.get("maxPods").map(ToString::to_string),
            "labels" => {
                let pairs = boot
                    .labels
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"));
                return Some(pairs.collect::<Vec<_>>().join(","));
            }
            "taints" => return Some(taints(self.kind)),
            "built-in" => {
                let (texts, of) = &self.built_in;
                let text = texts.get(*of.get(nth)? as usize)?;
                Some(String::from_utf8_lossy(text).into_owned())
            }
            _ => match name.split_once('.') {
                Some(("labels", key)) => label(key),
                Some(("settings", key)) => return self.settings.variables.get(key).cloned(),
                Some(("tags", key)) => self.all.node_class.spec.tags.get(key).cloned(),
                Some(("instance", key)) => {
                    indexed(&(machines::label_values(key), machines::labels(key)))
                }
                _ => None,
            },
        };
        value.filter(|value| !value.is_empty())
    }
}

/// `key=value:Effect`, startup taints last.
fn taints(kind: &Kind) -> String {
    let one = |taint: &Taint| match taint.value.as_str() {
        "" => format!("{}:{}", taint.key, taint.effect),
        value => format!("{}={value}:{}", taint.key, taint.effect),
    };
    let all = kind.taints.iter().chain(&kind.startup_taints);
    all.map(one).collect::<Vec<_>>().join(",")
}

longshore_sdk::export_bootstrap!(Templates);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::boot::{Boot as World, with};

    use super::*;

    fn world(family: &str) -> World {
        World {
            cluster: "demo".to_owned(),
            endpoint: "https://e".to_owned(),
            node_class: format!(
                r#"{{"metadata": {{"name": "gpu"}}, "spec": {{"amiFamily": "{family}", "tags": {{"team": "search"}}}}}}"#
            ),
            instance_types: ["m5.large", "p5.48xlarge"].map(str::to_owned).to_vec(),
            labels: [("gpu".to_owned(), ["", "h100"].map(str::to_owned).to_vec())].into(),
            capacity: [("pods".to_owned(), vec![29.0, 100.0])].into(),
            overhead: [
                ("max-pods".to_owned(), vec![29.0, 100.0]),
                ("kube-reserved-cpu".to_owned(), vec![0.07, -1.0]),
            ]
            .into(),
            text: "BUILT-IN".to_owned(),
            ..World::default()
        }
    }

    fn kind() -> Kind {
        Kind {
            node_pool: "default".to_owned(),
            labels: vec![("team".to_owned(), "a".to_owned())],
            known_labels: vec![(ZONE.to_owned(), "us-east-1a".to_owned())],
            taints: vec![Taint {
                key: "k".to_owned(),
                value: "v".to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            }],
            ..Kind::default()
        }
    }

    fn policy(template: &str, mode: Mode) -> Result<Templates, String> {
        Templates::new(Settings {
            template: template.to_owned(),
            mode,
            variables: [("a".to_owned(), "b".to_owned())].into(),
            ..Settings::default()
        })
    }

    fn whole(template: &str) -> Result<Vec<String>, String> {
        let mut policy = policy(template, Mode::Whole)?;
        let rendered = with(world("AL2"), || policy.user_data(&kind(), &[0, 1]))?;
        let texts = rendered
            .of
            .iter()
            .map(|&at| rendered.texts[at as usize].clone());
        Ok(texts.map(|text| String::from_utf8(text).unwrap()).collect())
    }

    #[test]
    fn every_variable_has_its_value() {
        let all = "{{ cluster.name }} {{ cluster.endpoint }} {{node-pool}} {{ node-class }} {{ zone }} \
                   {{ labels.team }} {{ labels }} {{ taints }} {{ tags.team }} {{ settings.a }} \
                   {{ built-in }} {{ cluster.version | 1.33 }} {{ \"{{\" }}";
        let filled = "demo https://e default gpu us-east-1a a team=a k=v:NoSchedule search b \
                      BUILT-IN 1.33 {{";
        assert_eq!(whole(all).unwrap(), [filled, filled]);
        assert_eq!(
            whole("{{ instance-type }} {{ instance.gpu | none }} {{ max-pods }}").unwrap(),
            ["m5.large none 29", "p5.48xlarge h100 100"]
        );
    }

    #[test]
    fn a_merged_template_takes_the_place_of_the_users_data() {
        let mut policy = policy("#!/bin/sh\necho {{ zone }}\n", Mode::Merge).unwrap();
        let rendered = with(world("AL2"), || policy.user_data(&kind(), &[0])).unwrap();
        let text = String::from_utf8(rendered.texts[0].clone()).unwrap();
        assert!(text.contains("echo us-east-1a\n"), "{text}");
        assert!(text.contains("/etc/eks/bootstrap.sh 'demo'"), "{text}");
    }

    #[test]
    fn overhead_is_what_the_user_data_says() {
        let overhead = [
            ("max-pods", 50.0),
            ("kube-reserved-cpu", 0.25),
            ("eviction-memory", 1e6),
        ];
        let overhead = overhead.map(|(name, amount)| (name.to_owned(), amount));
        let mut policy = policy("#!/bin/sh\n", Mode::Merge).unwrap();
        policy.settings.overhead = overhead.into();
        with(world("AL2"), || {
            let kept = policy.overheads().unwrap();
            assert_eq!(kept.max_pods, [50, 50]);
            assert_eq!(kept.amounts[0], [0.25, 0.25]);
            let text = policy.user_data(&kind(), &[0]).unwrap().texts[0].clone();
            let text = String::from_utf8(text).unwrap();
            for said in [
                "--max-pods=50",
                "--kube-reserved=\"cpu=250m\"",
                "memory.available<1000000",
            ] {
                assert!(text.contains(said), "{said}: {text}");
            }
        });
    }

    #[test]
    fn faults_of_a_template_have_a_line_and_a_hint() {
        let fault = |template: &str, mode| policy(template, mode).err().unwrap();
        let unknown = fault("a\n{{ zones }}", Mode::Whole);
        assert!(
            unknown
                .starts_with("`template` line 2: {{ zones }} is no variable; there are built-in, ")
        );
        assert!(
            unknown.ends_with("and instance.KEY, labels.KEY, settings.KEY, tags.KEY"),
            "{unknown}"
        );
        assert_eq!(
            fault("{{ settings.x }}", Mode::Whole),
            "`template` line 1: {{ settings.x }}: `variables` has no `x`; add it"
        );
        assert!(fault("{{ zone", Mode::Whole).contains("line 1: {{ is not closed"));
        assert!(fault("{{ built-in }}", Mode::Merge).contains("mode = \"whole\""));
        assert!(fault("", Mode::Merge).starts_with("`template` is empty"));
        assert_eq!(
            whole("\n{{ labels.nope }}").unwrap_err(),
            "`template` line 2: {{ labels.nope }} has no value here; write {{ labels.nope | VALUE }} for \
             one that stands in"
        );
    }
}
