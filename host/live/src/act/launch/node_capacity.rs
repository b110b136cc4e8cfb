//! What nodes show is reported to the cloud, which can only estimate it before.

use longshore_api::crd::NodeClaim;
use longshore_api::labels;
use longshore_cloud::{CloudProvider, NodeShows};

use crate::observe::node::NodeView;

/// Reports to a cloud what the registered node of a NodeClaim shows. A node that does not say enough is
/// passed over.
pub fn report(cloud: &dyn CloudProvider, claim: &NodeClaim, node: &NodeView) {
    let Some(memory) = node.capacity.get("memory") else {
        return;
    };
    let of_claim = claim.metadata.labels.as_ref();
    let own = node.labels.get(labels::INSTANCE_TYPE);
    let own = own.or_else(|| of_claim.and_then(|all| all.get(labels::INSTANCE_TYPE)));
    let (Some(instance_type), Some(status)) = (own, &claim.status) else {
        return;
    };
    let class = &claim.spec.node_class_ref;
    cloud.node_shows(&NodeShows {
        class_kind: &class.kind,
        class_name: &class.name,
        image_id: &status.image_id,
        instance_type,
        memory,
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use longshore_cloud::{CloudError, Instance, Launch};
    use serde_json::json;

    use super::*;

    /// A cloud that notes what is reported to it.
    #[derive(Default)]
    struct NotingCloud(Mutex<Vec<String>>);

    #[async_trait]
    impl CloudProvider for NotingCloud {
        fn name(&self) -> &'static str {
            "noting"
        }

        fn node_shows(&self, node: &NodeShows<'_>) {
            self.0.lock().unwrap().push(format!("{node:?}"));
        }

        async fn create(&self, _: &Launch) -> Result<Instance, CloudError> {
            Err(CloudError::Other("none".into()))
        }

        async fn delete(&self, _: &str) -> Result<(), CloudError> {
            Ok(())
        }

        async fn get(&self, _: &str) -> Result<Instance, CloudError> {
            Err(CloudError::NotFound("none".into()))
        }

        async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_node_that_says_its_memory_and_type_is_told_of() {
        let mut claim: NodeClaim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "a", "labels": {labels::INSTANCE_TYPE: "m5.large"}},
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default",
                },
                "requirements": [],
            },
            "status": {"imageID": "ami-1"},
        }))
        .unwrap();
        let node = |json: &str| NodeView::read(json).unwrap();
        let cloud = NotingCloud::default();
        report(&cloud, &claim, &node(r#"{"metadata": {"name": "n"}}"#));
        let seen = r#"{"metadata": {"name": "n"}, "status": {"capacity": {"memory": "7Gi"}}}"#;
        report(&cloud, &claim, &node(seen));
        claim.metadata.labels = None;
        report(&cloud, &claim, &node(seen));
        assert_eq!(
            *cloud.0.lock().unwrap(),
            [
                "NodeShows { class_kind: \"EC2NodeClass\", class_name: \"default\", \
                 image_id: \"ami-1\", instance_type: \"m5.large\", memory: \"7Gi\" }"
            ]
        );
    }
}
