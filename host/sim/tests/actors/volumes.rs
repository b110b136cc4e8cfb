use longshore_sim::fields;
use longshore_sim::server::resources;

use crate::scene::{apply, node, story, wait, workload};

const CLASS: &str = "---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: disk}, provisioner: ebs.csi.aws.com,
 volumeBindingMode: WaitForFirstConsumer}
";

#[test]
fn a_volume_is_made_where_its_pod_is_and_holds_the_pod_there() {
    story(async |world| {
        let claim = ", replicas: 1, serviceName: db, volumeClaimTemplates: [{metadata: {name: data}, \
            spec: {storageClassName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]";
        let db = workload("StatefulSet", "db", "1", claim, "");
        apply(&world, &(CLASS.to_owned() + &node("n1", "4", "a") + &db));
        wait(&world, 60).await;
        assert_eq!(world.ready_pods(), 1);
        let claim = world
            .object("PersistentVolumeClaim", "default", "data-db-0")
            .expect("it is made");
        assert_eq!(fields::text(&claim, "/status/phase"), "Bound");
        let attached = || world.server.list(resources::VOLUME_ATTACHMENT);
        assert_eq!(fields::text(&attached()[0], "/spec/nodeName"), "n1");
        // Another zone is no use to it.
        apply(
            &world,
            &(node("n1", "4", "a") + "spec: {unschedulable: true}\n" + &node("n2", "4", "b")),
        );
        world.delete("Pod", "default", "db-0");
        wait(&world, 60).await;
        let pod = world
            .object("Pod", "default", "db-0")
            .expect("it is made again");
        let why = fields::items(&pod, "/status/conditions")
            .iter()
            .find(|c| c["type"] == "PodScheduled");
        assert_eq!(
            why.map(|c| fields::text(c, "/message")),
            Some(
                "0/2 nodes are available: 1 node(s) had volume node affinity conflict, 1 node(s) were unschedulable."
            )
        );
        assert!(attached().is_empty());
        apply(&world, &node("n3", "4", "a"));
        wait(&world, 60).await;
        assert_eq!(
            (
                world.ready_pods(),
                fields::text(&attached()[0], "/spec/nodeName")
            ),
            (1, "n3")
        );
    });
}
