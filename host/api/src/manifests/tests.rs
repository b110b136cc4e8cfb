//! Manifests in, records or problems out.

use super::{Problems, Reader};
use longshore_core::model::World;

fn read(text: &str) -> (World, Problems) {
    let mut reader = Reader::new();
    reader.read("cluster.yaml", text.as_bytes());
    reader.finish()
}

#[test]
fn a_list_is_read_item_by_item() {
    let (world, problems) = read(
        r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"priority":"high"}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}},
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
]}"#,
    );
    assert_eq!(world.pods.len(), 2);
    assert_eq!(&*world.pods[0].name, "a");
    expect_test::expect![[r#"
        cluster.yaml:3 (document 1, item 2): Pod a: spec.priority: invalid type: string "high", expected i32; write a whole number without quotes
    "#]]
    .assert_eq(&problems.to_string());
    assert_eq!(problems.ignored["ConfigMap"], 1);
}
