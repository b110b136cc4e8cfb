//! Nothing is bought, and no Lease is asked for, before policies are loaded or 40 s have passed.

use std::time::Duration;

use longshore_live::policies::{CompileChild, Compiler, PolicyReloader, Setup as Policies};
use longshore_sim::harness::generated::types;
use longshore_sim::harness::{Harness, Setup};
use longshore_simcluster::server::resources;
use longshore_simcluster::world::{WorldOptions, paused};

use crate::manifests::{KWOK_POOL, ONE_CPU, deployment};

/// Policies of which one takes longer to compile than any test.
fn never_loaded(name: &str) -> PolicyReloader {
    let folder =
        std::env::temp_dir().join(format!("longshore-loading-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = folder.join("longshore.toml");
    std::fs::write(&config, "[[policy]]\nname = 'a'\npath = 'a.wasm'\n").unwrap();
    // The header of a component: that is looked at before a compiler starts.
    std::fs::write(folder.join("a.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
    let setup = Policies {
        config: Some(config),
        compiler: Compiler::Child(CompileChild {
            program: "/bin/sh".into(),
            ..CompileChild::itself(&["-c", "exec sleep 20"])
        }),
        ..Policies::default()
    };
    PolicyReloader::start(setup).unwrap()
}

/// Claims after 35 s and after two minutes.
fn claims(elects: bool) -> (usize, usize) {
    let reloader = never_loaded(if elects { "elects" } else { "leads" });
    let mut setup = Setup {
        elects,
        ..Setup::with(1, reloader)
    };
    setup.world = WorldOptions {
        types: Some(types(4)),
        ..WorldOptions::default()
    };
    let ended = paused(async {
        let harness = Harness::new(setup);
        let world = &harness.world;
        world.run_for(Duration::from_millis(10)).await;
        let web = deployment("web", 3, ONE_CPU, "");
        world.apply(&[KWOK_POOL, &web].concat()).expect("manifests");
        world.run_for(Duration::from_secs(35)).await;
        let before = world.server.list(resources::NODE_CLAIM).len();
        world.run_for(Duration::from_secs(85)).await;
        (before, world.server.list(resources::NODE_CLAIM).len())
    });
    ended.expect("a runtime")
}

#[test]
fn a_replica_that_competes_for_the_lease_waits_forty_seconds_for_its_policies() {
    let (before, after) = claims(true);
    assert_eq!(before, 0);
    assert!(after > 0);
}

#[test]
fn one_that_always_leads_waits_too() {
    let (before, after) = claims(false);
    assert_eq!(before, 0);
    assert!(after > 0);
}
