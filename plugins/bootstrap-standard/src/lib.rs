//! Bootstrap-standard: the built-in user data as a component. It renders with the host's own code,
//! compiled for wasm32, from what the host tells a policy: the starting point for policies of one's
//! own.

use std::collections::BTreeMap;

use longshore_bootstrap_common::{Machines, text};
use longshore_sdk::bootstrap::{Kind, Rendered};
use longshore_sdk::{About, Bootstrap};
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {}

struct Standard;

impl Bootstrap for Standard {
    const ABOUT: About = About {
        name: "bootstrap-standard",
        version: env!("CARGO_PKG_VERSION"),
        summary: "Nodes boot with the built-in user data.",
        signals: &[],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    fn new(_: Settings) -> Result<Self, String> {
        Ok(Standard)
    }

    fn user_data(&mut self, kind: &Kind, machines: &[u32]) -> Result<Rendered, String> {
        let all = Machines::pull()?;
        let mut rendered = Rendered::default();
        // Of all that a text depends on, only the number of pods differs between machines.
        let mut by_pods = BTreeMap::new();
        for &machine in machines {
            let pods = *all
                .pods
                .get(machine as usize)
                .ok_or_else(|| format!("there is no machine {machine}"))?;
            if let Some(&at) = by_pods.get(&pods) {
                rendered.of.push(at);
                continue;
            }
            rendered.push(text(&all.boot(kind, machine))?);
            by_pods.insert(pods, rendered.of.last().copied().unwrap_or_default());
        }
        Ok(rendered)
    }
}

longshore_sdk::export_bootstrap!(Standard);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::boot::{Boot, with};

    use super::*;

    fn world() -> Boot {
        Boot {
            cluster: "demo".to_owned(),
            endpoint: "https://e".to_owned(),
            node_class: r#"{"spec": {"amiSelectorTerms": [{"alias": "al2@latest"}]}}"#.to_owned(),
            instance_types: ["m5.large", "m5.xlarge", "m5a.large"]
                .map(str::to_owned)
                .to_vec(),
            capacity: [("pods".to_owned(), vec![29.0, 58.0, 29.0])].into(),
            ..Boot::default()
        }
    }

    #[test]
    fn machines_that_take_equally_many_pods_share_a_text() {
        let rendered = with(world(), || Standard.user_data(&Kind::default(), &[0, 1, 2])).unwrap();
        assert_eq!(
            (rendered.of.as_slice(), rendered.texts.len()),
            (&[0, 1, 0][..], 2)
        );
        let text = String::from_utf8(rendered.texts[1].clone()).unwrap();
        assert!(text.contains("/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://e'"));
        assert!(text.contains("--max-pods=58"), "{text}");
    }

    #[test]
    fn what_cannot_be_rendered_is_said() {
        let world = Boot {
            node_class: r#"{"spec": {"amiFamily": "AL2023"}}"#.to_owned(),
            ..world()
        };
        let said = with(world, || Standard.user_data(&Kind::default(), &[0])).unwrap_err();
        assert!(said.starts_with("cluster.cidr: is missing"), "{said}");
        let said = with(super::tests::world(), || {
            Standard.user_data(&Kind::default(), &[3])
        });
        assert_eq!(said.unwrap_err(), "there is no machine 3");
    }
}
