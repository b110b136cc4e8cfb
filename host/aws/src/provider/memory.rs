//! Memory that nodes show takes the place of the estimate.
//!
//! A figure holds for the type and the images of the class that the node has started from. It is kept
//! in memory alone: every node is reported again after a start.

use longshore_api::quantity::Quantity;
use longshore_cloud::NodeShows;

use super::ProviderState;

impl ProviderState {
    /// A registered node shows its memory. Passed over if its class is not known, or has selected
    /// other images since: the kernel's share of memory depends on the image.
    pub(super) fn see_memory(&mut self, node: &NodeShows<'_>, now: i64) {
        let Some((class, catalogue)) = self.known_class(node.class_name) else {
            return;
        };
        let status = class.status.as_ref();
        let images = status.map_or(&[][..], |status| &status.amis);
        if !images.iter().any(|image| image.id == node.image_id) {
            return;
        }
        let images = catalogue.class().images;
        let memory = Quantity::parse(node.memory).and_then(Quantity::whole);
        let Ok(bytes) = memory else {
            tracing::warn!(memory = node.memory, "a node's memory is not a quantity");
            return;
        };
        let kind = node.instance_type;
        self.region
            .change_discovered(|all| all.see(kind, images, bytes, now));
    }
}

#[cfg(test)]
mod tests {
    use longshore_ec2::catalogue::{LIFETIME, world};
    use longshore_ec2::nodeclass::EC2NodeClass;
    use longshore_ec2::userdata::Cluster;
    use serde_json::json;

    use super::*;
    use crate::provider::Joins;

    fn class(images: &[&str]) -> EC2NodeClass {
        let amis = images
            .iter()
            .map(|id| json!({"id": id, "requirements": []}));
        serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}],
                "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "node",
            },
            "status": {
                "subnets": [{"id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az6"}],
                "amis": amis.collect::<Vec<_>>(),
            },
        }))
        .unwrap()
    }

    #[test]
    fn memory_that_a_node_shows_counts_for_its_type_and_images_until_nothing_confirms_it() {
        const SMALL: &str = include_str!("../../../emulator/data/small.json");
        let read = world::read("small", SMALL.as_bytes(), None).unwrap();
        let mut state = ProviderState::new(read.0.region);
        let at = state.region.find("m5.large").unwrap();
        let cluster = Cluster::default();
        let joins = Joins {
            cluster: &cluster,
            kubernetes: "1.35",
        };
        let memory = |state: &mut ProviderState, images: &[&str]| {
            let catalogue = state.catalogue(&class(images), &joins).unwrap();
            let row = longshore_ec2::catalogue::machine::RESOURCES;
            let row = row.iter().position(|name| *name == "memory").unwrap();
            catalogue.machine(at).capacity[row].unwrap().units()
        };
        let estimate = memory(&mut state, &["ami-1", "ami-2"]);
        let version = state.version();
        let shows = |image_id, memory| NodeShows {
            class_kind: "EC2NodeClass",
            class_name: "default",
            image_id,
            instance_type: "m5.large",
            memory,
        };
        state.see_memory(&shows("ami-9", "7000000Ki"), 0);
        assert_eq!(
            memory(&mut state, &["ami-1", "ami-2"]),
            estimate,
            "another image"
        );
        state.see_memory(&shows("ami-1", "much"), 0);
        assert_eq!(state.version(), version, "nothing was learned");
        state.see_memory(&shows("ami-1", "7900000Ki"), 0);
        assert_eq!(memory(&mut state, &["ami-1", "ami-2"]), 7_900_000 << 10);
        assert_ne!(state.version(), version, "plans are made with it");
        state.see_memory(&shows("ami-2", "7800000Ki"), 10);
        assert_eq!(
            memory(&mut state, &["ami-1", "ami-2"]),
            7_800_000 << 10,
            "the least"
        );
        assert_eq!(memory(&mut state, &["ami-3"]), estimate, "other images");
        memory(&mut state, &["ami-1", "ami-2"]);
        state.expire(10 + LIFETIME);
        assert_eq!(
            memory(&mut state, &["ami-1", "ami-2"]),
            estimate,
            "its time is over"
        );
    }
}
