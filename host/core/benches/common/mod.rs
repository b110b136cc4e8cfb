//! Options of the benchmarks, and the cluster that they measure.

use longshore_api::manifests::Reader;
use longshore_core::model::ClusterObjects;

/// The words of the command line without cargo's own flags.
pub fn words() -> Vec<String> {
    std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect()
}

/// The objects of a cluster's file, with the instance types of another.
pub fn objects(cluster: &str, types: &str) -> ClusterObjects {
    let read = |file: &str| std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut reader = Reader::new();
    reader.read(cluster, &read(cluster));
    let (mut objects, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse(types, &read(types), &mut objects.names);
    assert!(problems.list.is_empty(), "{problems}");
    objects.catalogue = catalogue;
    objects
}
