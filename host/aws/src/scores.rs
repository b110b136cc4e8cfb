//! Spot placement scores: how likely EC2 thinks a request for spot instances to succeed, by zone.
//!
//! EC2 scores a request for instances of any of some types. So a question is about a group of types,
//! and each type of the group has the group's score. EC2 limits how many questions that it has not
//! heard before may be asked in a day. So questions are few, and the same each time: they change only
//! when EC2 sells a new type that belongs to one.

use std::collections::{BTreeMap, BTreeSet};

use longshore_ec2::catalogue::Region;
use longshore_ec2::facts::TypeFacts;

use crate::error::ApiError;
use crate::provider::Ec2;
use crate::wire;

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Groups of types: each a list of names, in which `*` stands for any text. None for the usual
    /// ones: see [`questions`].
    pub groups: Vec<Vec<String>>,
    /// How many instances a request is imagined to ask for.
    pub target: i32,
}

/// EC2 scores no request for fewer types.
pub const MIN_TYPES: usize = 3;
/// Types that one question may name.
const MOST_TYPES: usize = 1000;
/// Categories that are asked about where nothing else is said: most pods run on these.
const USUAL: [&str; 3] = ["c", "m", "r"];

/// The groups of types that are asked about, each sorted by name. Only types count that can be had as
/// spot. Without `groups` there is one for each of the categories c, m and r and each architecture. A
/// group of fewer than three types is left out, for EC2 would refuse it.
pub fn questions(region: &Region, groups: &[Vec<String>]) -> Vec<Vec<String>> {
    let spot = region.types().iter().filter(|of| of.usage.spot);
    let mut all: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    if groups.is_empty() {
        for of in spot {
            if let Some(category) = category(&of.name).filter(|own| USUAL.contains(own)) {
                all.entry(format!("{category} {}", architecture(of)))
                    .or_default()
                    .insert(&of.name);
            }
        }
    } else {
        for (at, patterns) in groups.iter().enumerate() {
            let of_group = spot
                .clone()
                .filter(|of| patterns.iter().any(|pattern| fits(pattern, &of.name)));
            let names = of_group.map(|of| &*of.name).collect();
            all.insert(format!("{at:06}"), names);
        }
    }
    let enough = |names: &BTreeSet<&str>| names.len() >= MIN_TYPES;
    let texts = |names: BTreeSet<&str>| {
        let names = names.into_iter().take(MOST_TYPES);
        names.map(str::to_owned).collect()
    };
    all.into_values().filter(enough).map(texts).collect()
}

fn architecture(of: &TypeFacts) -> &str {
    of.architectures.first().map_or("", |one| one)
}

/// `c` of `c6gd.4xlarge`; of `im4gn.large` it is `im`.
fn category(name: &str) -> Option<&str> {
    let at = name.find(|c: char| !c.is_ascii_lowercase())?;
    let (letters, rest) = name.split_at(at);
    rest.starts_with(|c: char| c.is_ascii_digit())
        .then_some(letters)
}

/// Whether a name is as a pattern says, in which `*` stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let others: Vec<&str> = parts.collect();
    let Some((last, between)) = others.split_last() else {
        return rest.is_empty();
    };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Ec2 {
    /// Scores from 1 (unlikely) to 10 under `type/zone`, as the signal `placement-scores` has them.
    /// Zones without a subnet of any class have none: their IDs are not known. A type in several
    /// groups has the score of the first.
    ///
    /// # Errors
    /// A call failed, or there is nothing to ask. Nothing is asked after the first failure.
    pub async fn placement_scores(
        &self,
        wanted: &Wanted,
    ) -> Result<BTreeMap<String, f64>, ScoresError> {
        let region = self.region();
        let questions = questions(&region, &wanted.groups);
        if questions.is_empty() {
            return Err(ScoresError::NoTypes);
        }
        let zones: BTreeMap<String, String> = {
            let state = self.state();
            let names = region.zones().iter().map(|zone| &*zone.name);
            names
                .filter_map(|name| Some((state.zone_id(name)?.to_owned(), name.to_owned())))
                .collect()
        };
        let mut table = BTreeMap::new();
        for types in &questions {
            let clients = &self.inner().clients;
            let scores = wire::scores::of_zones(clients, types, wanted.target).await?;
            for one in scores {
                let Some(zone) = zones.get(&one.zone_id).filter(|_| one.score > 0) else {
                    continue;
                };
                for name in types {
                    table
                        .entry(format!("{name}/{zone}"))
                        .or_insert(f64::from(one.score));
                }
            }
        }
        match table.is_empty() {
            true => Err(ScoresError::NoZones),
            false => Ok(table),
        }
    }
}

/// Why there are no scores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScoresError {
    /// A call failed.
    #[error("{}", .0.with_hint())]
    Api(#[from] ApiError),
    /// No group has enough types.
    #[error("no group has {MIN_TYPES} instance types that can be had as spot here")]
    NoTypes,
    /// No zone is known by its ID.
    #[error("EC2 scores no zone in which an EC2NodeClass has a subnet")]
    NoZones,
}

#[cfg(test)]
mod tests {
    use longshore_ec2::facts;

    use super::*;

    fn region(names: &[&str]) -> Region {
        let record = |name: &&str| {
            let arm = name.contains("g.");
            serde_json::json!({
                "InstanceType": name,
                "ProcessorInfo": {
                    "SupportedArchitectures": [if arm { "arm64" } else { "x86_64" }],
                    "Manufacturer": "Intel",
                },
                "VCpuInfo": {"DefaultVCpus": 2},
                "MemoryInfo": {"SizeInMiB": 8192},
                "SupportedUsageClasses": if name.starts_with("x") { vec!["on-demand"] } else { vec!["on-demand", "spot"] },
                "Hypervisor": "nitro",
                "BareMetal": false,
                "NetworkInfo": {
                    "MaximumNetworkInterfaces": 3,
                    "DefaultNetworkCardIndex": 0,
                    "NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3}],
                    "Ipv4AddressesPerInterface": 10,
                },
            })
        };
        let all: Vec<_> = names.iter().map(record).collect();
        let text = serde_json::Value::Array(all).to_string();
        let (facts, problems) = facts::read("test", text.as_bytes());
        assert!(problems.is_empty(), "{problems:?}");
        Region::new("us-east-1", Vec::new(), facts)
    }

    const NAMES: [&str; 10] = [
        "c5.large",
        "c5.xlarge",
        "c6g.large",
        "m5.large",
        "m5.xlarge",
        "m6i.large",
        "m6g.large",
        "im4gn.large",
        "x1.large",
        "t3.large",
    ];

    fn shown(groups: &[&[&str]]) -> String {
        let owned = |group: &&[&str]| group.iter().map(|text| (*text).to_owned()).collect();
        let groups: Vec<Vec<String>> = groups.iter().map(owned).collect();
        let all = questions(&region(&NAMES), &groups);
        all.iter()
            .map(|group| format!("{}\n", group.join(" ")))
            .collect()
    }

    #[test]
    fn the_usual_groups_are_a_category_and_an_architecture_with_three_types() {
        expect_test::expect![[r#"
            m5.large m5.xlarge m6i.large
        "#]]
        .assert_eq(&shown(&[]));
    }

    #[test]
    fn groups_are_patterns_in_their_order() {
        expect_test::expect![[r#"
            m5.large m5.xlarge m6g.large m6i.large
            c5.large c5.xlarge c6g.large
        "#]]
        .assert_eq(&shown(&[&["m5.*", "m6*"], &["c*", "x1.*"], &["t3.*"]]));
    }

    #[test]
    fn a_pattern_stands_for_the_whole_name() {
        for (pattern, fitting) in [
            ("m5.large", true),
            ("m5", false),
            ("m5.*", true),
            ("*.large", true),
            ("m*.l*e", true),
            ("m*m5.large", false),
            ("*", true),
            ("", false),
        ] {
            assert_eq!(fits(pattern, "m5.large"), fitting, "{pattern}");
        }
    }
}
