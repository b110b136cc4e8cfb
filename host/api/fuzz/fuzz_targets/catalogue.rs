//! Any bytes are read as instance types without a panic; what comes out can be bought.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_core::model::Names;

fuzz_target!(|bytes: &[u8]| {
    let mut names = Names::default();
    let (catalogue, problems) = longshore_kwok::catalogue::parse("a", bytes, &mut names);
    let _ = problems.to_string();
    assert!(!(catalogue.types().is_empty() && problems.is_empty()));
    for found in catalogue.types() {
        assert!(!found.offerings.is_empty());
        assert!(found.allocatable.iter().all(|(_, amount)| amount > 0));
    }
    assert!(catalogue.offerings().iter().all(|row| row.price.is_finite() && row.price >= 0.0));
});
