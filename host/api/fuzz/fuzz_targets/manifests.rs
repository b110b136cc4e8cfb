//! Any bytes are read without a panic, and what comes out keeps what the records promise.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_api::manifests::Reader;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new();
    reader.read("a", bytes);
    reader.read("b", bytes);
    let (world, problems) = reader.finish();
    let _ = problems.to_string();
    for pod in &world.pods {
        let shape = world.shapes.get(pod.shape);
        assert!(!pod.name.is_empty());
        assert!(shape.requests.iter().all(|(_, amount)| amount > 0));
        assert!(shape.spread.iter().all(|spread| spread.max_skew >= 1));
        assert!(shape.required.iter().all(|term| !term.is_empty()));
    }
    for pool in &world.pools {
        assert!((0..=100).contains(&pool.weight));
        assert!(pool.limits.iter().all(|(_, amount)| *amount >= 0));
    }
    assert!(world.pods.is_sorted_by(|a, b| {
        let key = |pod: &longshore_core::model::Pod| (world.names.text(world.shapes.get(pod.shape).namespace), pod.name.clone());
        key(a) < key(b)
    }));
});
