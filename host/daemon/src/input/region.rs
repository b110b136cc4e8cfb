//! Which region of AWS the manifests of a cluster are from, by the zones that they name.

use std::collections::BTreeMap;

use longshore_api::labels::{REGION, ZONE};
use longshore_core::model::{ClusterObjects, Labels, Op, Requirement};
use longshore_ec2::catalogue::built_in::region_of_zone;
use longshore_ec2::catalogue::requirements::aws::ZONE_ID;
use longshore_ec2::nodeclass::EC2NodeClass;

const ZONES: [&str; 2] = [ZONE, "failure-domain.beta.kubernetes.io/zone"];
const REGIONS: [&str; 2] = [REGION, "failure-domain.beta.kubernetes.io/region"];

/// What manifests say of zones.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// How many objects name each region. Nodes count most: a NodePool may name zones of another
    /// cluster's region by mistake, a node cannot.
    regions: BTreeMap<String, usize>,
    /// IDs of zones in the account of the cluster.
    ids: BTreeMap<String, String>,
}

/// A node counts as so many NodePools.
const NODE_WEIGHT: usize = 1000;

impl Places {
    /// What objects and EC2NodeClasses say.
    pub fn new<'c>(
        world: &ClusterObjects,
        classes: impl Iterator<Item = &'c EC2NodeClass>,
    ) -> Self {
        let mut places = Places::default();
        for node in &world.nodes {
            let of = |keys: &[&str]| keys.iter().find_map(|key| label(world, &node.labels, key));
            let zone = of(&ZONES);
            let region = of(&REGIONS).or_else(|| zone.and_then(region_of_zone));
            if let Some(region) = region {
                places.count(region, NODE_WEIGHT);
            }
            if let Some((zone, id)) = zone.zip(label(world, &node.labels, ZONE_ID)) {
                places.ids.insert(zone.to_owned(), id.to_owned());
            }
        }
        for class in classes {
            let subnets = class.status.iter().flat_map(|status| &status.subnets);
            for subnet in subnets {
                places.zone(&subnet.zone);
                if let Some(id) = &subnet.zone_id {
                    let known = places.ids.entry(subnet.zone.clone());
                    known.or_insert_with(|| id.clone());
                }
            }
        }
        for pool in &world.pools {
            places.requirements(world, &pool.requirements);
            let labels = ZONES.iter().chain(&REGIONS);
            for value in labels.filter_map(|key| label(world, &pool.labels, key)) {
                places.zone(value);
            }
        }
        for volume in &world.volumes {
            volume
                .node_affinity
                .iter()
                .for_each(|term| places.requirements(world, term));
        }
        places
    }

    fn requirements(&mut self, world: &ClusterObjects, all: &[Requirement]) {
        let key = |of: &Requirement| world.names.text(of.key);
        for of in all
            .iter()
            .filter(|of| ZONES.contains(&key(of)) || REGIONS.contains(&key(of)))
        {
            if let Op::In(values) = &of.op {
                values
                    .iter()
                    .for_each(|value| self.zone(world.names.text(*value)));
            }
        }
    }

    /// A zone or a region that something names.
    fn zone(&mut self, name: &str) {
        let ends_in_digit = name.ends_with(|c: char| c.is_ascii_digit());
        let region = match region_of_zone(name) {
            Some(region) => region,
            None if ends_in_digit && name.matches('-').count() >= 2 => name,
            None => return,
        };
        self.count(region, 1);
    }

    fn count(&mut self, region: &str, objects: usize) {
        *self.regions.entry(region.to_owned()).or_default() += objects;
    }

    /// The region that most objects name; of several the first by name.
    pub fn region(&self) -> Option<&str> {
        let most = self
            .regions
            .iter()
            .max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
        most.map(|(region, _)| region.as_str())
    }

    /// Regions that are named beside [`Places::region`].
    pub fn others(&self) -> impl Iterator<Item = &str> {
        let region = self.region();
        let all = self.regions.keys().map(String::as_str);
        all.filter(move |other| Some(*other) != region)
    }

    /// The ID of a zone in the cluster's account.
    pub fn id(&self, zone: &str) -> Option<&str> {
        self.ids.get(zone).map(String::as_str)
    }
}

fn label<'w>(world: &'w ClusterObjects, labels: &Labels, key: &str) -> Option<&'w str> {
    let value = labels.get(world.names.get(key)?)?;
    Some(world.names.text(value))
}

#[cfg(test)]
mod tests {
    use longshore_api::manifests::Reader;

    use super::*;

    fn places(text: &str) -> Places {
        let mut reader = Reader::of_manifests();
        reader.read("a.yaml", text.as_bytes());
        Places::new(&reader.finish().0, std::iter::empty())
    }

    const NODE: &str = "
apiVersion: v1
kind: Node
metadata:
  name: a
  labels: {topology.kubernetes.io/zone: eu-central-1b, topology.k8s.aws/zone-id: euc1-az3}
status: {allocatable: {cpu: '2'}}
";
    const POOL: &str = "
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}
      requirements:
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a, us-west-2b]}
";

    #[test]
    fn a_node_names_the_region_and_what_its_zone_is_called_in_the_account() {
        let found = places(&format!("{NODE}{POOL}"));
        assert_eq!(found.region(), Some("eu-central-1"));
        assert_eq!(found.others().collect::<Vec<_>>(), ["us-west-2"]);
        assert_eq!(found.id("eu-central-1b"), Some("euc1-az3"));
    }

    #[test]
    fn without_nodes_a_node_pool_names_it_and_a_region_that_is_not_built_in_is_found_too() {
        assert_eq!(places(POOL).region(), Some("us-west-2"));
        let gov = POOL.replace("zone, operator", "region, operator");
        let gov = gov.replace("us-west-2a, us-west-2b", "us-gov-west-1");
        assert_eq!(places(&gov).region(), Some("us-gov-west-1"));
        let none = POOL.replace("us-west-2a, us-west-2b", "test-zone-a");
        assert_eq!(places(&none).region(), None);
    }
}
