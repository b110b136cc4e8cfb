//! Readers of text and bytes.

use std::path::Path;

use longshore_api::crd::duration;
use longshore_api::manifests::Reader;
use longshore_api::quantity::Quantity;
use longshore_api::{json as scan, time};
use longshore_core::model::{Pod, Symbols};

/// Any bytes are read as manifests, and what comes out keeps what the records promise.
pub fn manifests(bytes: &[u8]) {
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
    let key = |pod: &Pod| {
        (
            world.names.text(world.shapes.get(pod.shape).namespace),
            pod.name.clone(),
        )
    };
    assert!(world.pods.iter().is_sorted_by(|a, b| key(a) < key(b)));
}

/// Any bytes are read as instance types, and what comes out can be bought.
pub fn catalogue(bytes: &[u8]) {
    let mut names = Symbols::default();
    let (catalogue, problems) = longshore_kwok::catalogue::parse("a", bytes, &mut names);
    let _ = problems.to_string();
    assert!(!(catalogue.types().is_empty() && problems.is_empty()));
    for found in catalogue.types() {
        assert!(!found.offerings.is_empty());
        assert!(found.allocatable.iter().all(|(_, amount)| amount > 0));
    }
    assert!(
        catalogue
            .offerings()
            .iter()
            .all(|row| row.price.is_finite() && row.price >= 0.0)
    );
}

/// Any text is a quantity or an error. A quantity below zero is no amount, and one in thousandths
/// is not less than in whole units.
pub fn quantities(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(quantity) = Quantity::parse(text) else {
        return;
    };
    let (whole, milli) = (quantity.whole_saturating(), quantity.milli_saturating());
    assert_eq!(quantity.is_negative(), whole.is_err());
    assert_eq!(quantity.is_negative(), milli.is_err());
    if let (Ok(whole), Ok(milli)) = (whole, milli) {
        assert!(0 <= whole && whole <= milli);
    }
    if let Ok(exact) = quantity.whole() {
        assert_eq!(Ok(exact), whole);
    }
}

/// Any text is a duration or an instant, or an error; one of a NodePool is never negative.
pub fn durations(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = time::timestamp(text);
    let _ = time::go_duration(text);
    let _ = duration::duration(text);
    let _ = duration::lifetime(text);
    if let Some(seconds) = time::plain_duration(text) {
        assert!(seconds >= 0);
    }
}

/// Objects in any text are found inside it. Of valid JSON every entry of a list is found.
pub fn json(bytes: &[u8]) {
    let start = scan::skip_space(bytes, 0);
    let mut ranges = Vec::new();
    let end = scan::walk(bytes, start, |_, at| {
        let end = scan::skip_value(bytes, at);
        if let Ok(end) = end {
            assert!(at < end && end <= bytes.len());
            ranges.push(at..end);
        }
        Some(end)
    });
    assert!(ranges.is_sorted_by(|one, next| one.end <= next.start));
    if let Ok(Some(end)) = end {
        assert!(end <= bytes.len());
    }
    for key in ["metadata", "items", ""] {
        if let Some(found) = scan::member(bytes, start, key) {
            assert!(found.end <= bytes.len());
        }
    }
    let at = scan::locate(bytes, "spec.containers[0].resources[a.b/c]");
    scan::lines_before(bytes, at);
    if let Ok(serde_json::Value::Array(items)) = serde_json::from_slice(bytes) {
        assert_eq!(ranges.len(), items.len());
    }
}

/// Any text is observed as an object of a watch; the name of one that is well formed is found.
pub fn watch(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    longshore_live::observe::fuzz::observed(text);
}

/// Any text is a configuration or a list of faults, each with its place.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Err(faults) = longshore_live::config::parse(Path::new("longshore.toml"), text) {
        assert!(!faults.is_empty());
        faults.iter().for_each(|fault| drop(fault.to_string()));
    }
    let _ = longshore_live::config::parse_settings(Path::new("settings.toml"), text);
}

/// Reads any bytes as a segment of a journal: as a file, and as a frame with correct checksums.
pub fn journal(bytes: &[u8]) {
    let file = std::env::temp_dir().join(format!("longshore-fuzz-{}.journal", std::process::id()));
    longshore_journal::fuzz::read_any(&file, bytes);
    let _ = std::fs::remove_file(file);
}
