//! Small stories about the actors and the cloud, in virtual time.

use std::time::Duration;

use longshore_sim::world::{Options, World, paused};

#[test]
fn an_empty_world_does_nothing_for_a_year() {
    paused(async {
        let world = World::new(1, Options::default());
        world.run_for(Duration::from_secs(365 * 86_400)).await;
        assert_eq!(world.log.text(), "");
    })
    .unwrap();
}
