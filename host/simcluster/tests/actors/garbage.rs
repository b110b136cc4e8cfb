use longshore_simcluster::fields;
use longshore_simcluster::server::{DeleteOptions, Propagation, resources};
use longshore_simcluster::world::World;

use crate::scene::{apply, deployment, node, story, wait};

async fn settled(world: &World) {
    apply(world, &(node("n1", "64", "a") + &deployment("web", 3, "1")));
    wait(world, 60).await;
    assert_eq!(world.ready_pods(), 3);
}

fn delete(world: &World, propagation: Propagation) {
    let key = fields::key(resources::DEPLOYMENT, "default", "web");
    let options = DeleteOptions {
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    world.server.delete(&key, &options).expect("it is there");
}

/// Deployments, ReplicaSets, pods.
fn count(world: &World) -> [usize; 3] {
    [
        resources::DEPLOYMENT,
        resources::REPLICA_SET,
        resources::POD,
    ]
    .map(|r| world.server.list(r).len())
}

#[test]
fn in_the_background_the_owner_goes_first() {
    story(async |world| {
        settled(&world).await;
        delete(&world, Propagation::Background);
        assert_eq!(count(&world), [0, 1, 3]);
        wait(&world, 10).await;
        assert_eq!(count(&world), [0, 0, 0]);
    });
}

#[test]
fn in_the_foreground_the_owner_goes_last() {
    story(async |world| {
        settled(&world).await;
        delete(&world, Propagation::Foreground);
        wait(&world, 1).await;
        assert_eq!(count(&world), [1, 1, 3]);
        wait(&world, 10).await;
        assert_eq!(count(&world), [0, 0, 0]);
    });
}

#[test]
fn orphans_stay() {
    story(async |world| {
        settled(&world).await;
        delete(&world, Propagation::Orphan);
        wait(&world, 10).await;
        assert_eq!(count(&world), [0, 1, 3]);
        let sets = world.server.list(resources::REPLICA_SET);
        assert!(fields::items(&sets[0], "/metadata/ownerReferences").is_empty());
    });
}

#[test]
fn what_names_an_owner_that_never_was_goes() {
    story(async |world| {
        apply(
            &world,
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: lost, ownerReferences: \
             [{apiVersion: apps/v1, kind: Deployment, name: web, uid: nobody}]}}",
        );
        wait(&world, 1).await;
        assert!(world.object("ConfigMap", "default", "lost").is_none());
    });
}

#[test]
fn a_namespace_goes_with_all_that_is_in_it() {
    story(async |world| {
        apply(
            &world,
            "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
        );
        let web = deployment("web", 3, "1").replace(
            "metadata: {name: web}",
            "metadata: {name: web, namespace: shop}",
        );
        apply(&world, &(node("n1", "64", "a") + &web));
        wait(&world, 60).await;
        assert_eq!(world.ready_pods(), 3);
        world.delete("Namespace", "", "shop");
        wait(&world, 1).await;
        assert!(world.object("Namespace", "", "shop").is_some());
        wait(&world, 20).await;
        assert!(world.object("Namespace", "", "shop").is_none());
        assert_eq!(count(&world), [0, 0, 0]);
    });
}
