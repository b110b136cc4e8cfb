//! Memory that nodes of the snapshot show.
//!
//! A node counts once it is registered, and only if it boots from one of the images that its
//! NodeClass selects today: the kernel's share of memory depends on the image.

use std::collections::BTreeMap;

use longshore_api::manifests::Document;
use longshore_core::model::conditions::REGISTERED;
use longshore_core::model::{ClusterObjects, Labels, NodeClaim, NodeRecord, ResourceId, Symbol};
use longshore_ec2::catalogue::class::Class;
use longshore_ec2::catalogue::{Discovered, Region};
use longshore_ec2::nodeclass::{self, EC2NodeClass};
use serde::Deserialize;

/// The image of each NodeClaim of the manifests, by name.
#[derive(Default)]
pub struct Images(BTreeMap<String, String>);

#[derive(Deserialize)]
struct Claim {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default, rename = "imageID")]
    image_id: String,
}

impl Images {
    /// Takes the NodeClaims of `found` in. A NodeClaim that cannot be read has no image: the reader
    /// of the other manifests reports it.
    pub fn read(&mut self, found: &[Document]) {
        let claims = found.iter();
        for claim in claims.filter(|document| document.field("kind") == Some("NodeClaim")) {
            if let Ok(claim) = serde_json::from_str::<Claim>(claim.text())
                && !claim.status.image_id.is_empty()
            {
                self.0.insert(claim.metadata.name, claim.status.image_id);
            }
        }
    }

    /// Lets `region` know what memory the nodes of `objects` show.
    pub fn discover(
        &self,
        objects: &ClusterObjects,
        classes: &[(Class, &EC2NodeClass)],
        region: &mut Region,
    ) {
        let nodes: BTreeMap<Symbol, &NodeRecord> =
            objects.nodes.iter().map(|node| (node.name, node)).collect();
        region.change_discovered(|discovered| {
            for claim in objects.claims.iter() {
                let node = claim.node_name.and_then(|name| nodes.get(&name));
                if let Some(node) = node {
                    self.see(objects, claim, node, classes, discovered);
                }
            }
        });
    }

    fn see(
        &self,
        objects: &ClusterObjects,
        claim: &NodeClaim,
        node: &NodeRecord,
        classes: &[(Class, &EC2NodeClass)],
        discovered: &mut Discovered,
    ) {
        let text = |symbol| objects.names.text(symbol);
        let registered = claim.conditions.iter().any(|one| text(*one) == REGISTERED);
        if !registered || text(claim.class.group) != nodeclass::GROUP {
            return;
        }
        let class = classes
            .iter()
            .find(|(class, _)| *class.name == *text(claim.class.name));
        let image = self.0.get(text(claim.name));
        let (Some((class, object)), Some(image)) = (class, image) else {
            return;
        };
        let selected = object
            .status
            .as_ref()
            .map_or(&[][..], |status| &status.amis);
        let of_type = objects.names.get("node.kubernetes.io/instance-type");
        let of_type = of_type.and_then(|key| label(key, &node.labels, &claim.labels));
        if let Some(of_type) = of_type
            && selected.iter().any(|one| one.id == *image)
        {
            let bytes = node.capacity.get(ResourceId::Memory);
            discovered.see(text(of_type), class.images, bytes, objects.now);
        }
    }
}

fn label(key: Symbol, node: &Labels, claim: &Labels) -> Option<Symbol> {
    node.get(key).or_else(|| claim.get(key))
}
