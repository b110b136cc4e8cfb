use longshore_simcluster::fields;
use longshore_simcluster::server::resources;
use longshore_simcluster::world::World;

use crate::scene::{apply, node, pod, story, wait, workload};

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

/// A class whose volumes people make.
const BY_HAND: &str = "---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: by-hand},
 provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
";

/// A volume of the class that people make, on one node.
fn volume(name: &str, size: &str, node: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  {{capacity: {{storage: {size}}}, accessModes: [ReadWriteOnce], storageClassName: by-hand, local: {{path: /d}},
    nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [
      {{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]}}]}}}}}}
"
    )
}

/// A claim of that class for 2Gi, and a pod that mounts it; `more` are further fields of the claim.
fn user(name: &str, more: &str) -> String {
    let claim = format!(
        "---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: by-hand, resources: {{requests: {{storage: 2Gi}}}}{more}}}
"
    );
    let mounts = format!(", volumes: [{{name: v, persistentVolumeClaim: {{claimName: {name}}}}}]");
    claim + &pod(name, "1", &mounts)
}

/// The volumes of claims, by the claims' names.
fn volumes(world: &World, claims: &[&str]) -> Vec<String> {
    let volume = |name: &&str| {
        let claim = world.object("PersistentVolumeClaim", "default", name);
        claim.map_or(String::new(), |claim| {
            fields::text(&claim, "/spec/volumeName").to_owned()
        })
    };
    claims.iter().map(volume).collect()
}

#[test]
fn a_volume_that_is_there_serves_one_claim() {
    story(async |world| {
        let nodes = node("n1", "4", "a") + &node("n2", "4", "a");
        let volumes_there = volume("small", "1Gi", "n1") + &volume("right", "3Gi", "n2");
        let users = user("one", "") + &user("two", "");
        apply(
            &world,
            &(BY_HAND.to_owned() + &nodes + &volumes_there + &users),
        );
        wait(&world, 60).await;
        assert_eq!(world.ready_pods(), 1);
        let mut there = volumes(&world, &["one", "two"]);
        there.sort();
        assert_eq!(there, ["", "right"]);
        // The next one is larger than the last, which is the smallest that is free.
        apply(
            &world,
            &(volume("huge", "9Gi", "n2") + &volume("larger", "4Gi", "n1")),
        );
        wait(&world, 60).await;
        assert_eq!(world.ready_pods(), 2);
        let mut there = volumes(&world, &["one", "two"]);
        there.sort();
        assert_eq!(there, ["larger", "right"]);
    });
}

#[test]
fn a_claim_waits_for_a_volume_that_another_claim_has() {
    story(async |world| {
        let there = node("n1", "4", "a") + &volume("v", "3Gi", "n1");
        apply(&world, &(BY_HAND.to_owned() + &there + &user("first", "")));
        wait(&world, 60).await;
        apply(&world, &user("second", ", volumeName: v"));
        wait(&world, 60).await;
        let second = world.object("PersistentVolumeClaim", "default", "second");
        let phase = second.map(|claim| fields::text(&claim, "/status/phase").to_owned());
        assert_eq!(phase.as_deref(), Some("Pending"));
        assert_eq!(volumes(&world, &["first"]), ["v"]);
        assert_eq!(world.ready_pods(), 1);
    });
}
