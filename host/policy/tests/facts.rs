//! What a policy can know of NodePools and instance types beside the columns.

use longshore_api::manifests::Reader;
use longshore_core::policy::Policies as _;

use crate::common::HOST;
use crate::common::hostile::{failure, policies};

const POOL: &str = r#"{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
    "spec": {"weight": 7, "template": {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}}"#;

#[test]
fn labels_annotations_and_weight_of_the_node_pool_are_there() {
    let mut reader = Reader::new();
    reader.read("pool.json", POOL.as_bytes());
    let (objects, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let policies_of_pool = policies(&HOST, "tells-pool");
    policies_of_pool.node_pools(&objects.pools, &objects.names);
    assert_eq!(
        failure(&policies_of_pool),
        r#"score: default [("team", "a")] [("note", "b")] 7"#
    );
    let untold = policies(&HOST, "tells-pool");
    assert_eq!(failure(&untold), "score: default [] [] 0");
}

#[test]
fn labels_and_resources_of_offerings_are_columns() {
    // The first offering of c7i.0003, the second type by name: 16 vCPUs and 64 GiB.
    assert_eq!(
        failure(&policies(&HOST, "tells-details")),
        "score: karpenter.sh/capacity-type kubernetes.io/arch topology.kubernetes.io/zone; us-east-1a amd64; cpu \
         memory; 16 68719476736; (\"\", 0.0)"
    );
}
