//! Objects are read as their types. Beside the library, which takes minutes to compile a second time.

use longshore_objects::{Object, read};
use serde_json::{Value, json};

#[test]
fn a_wrong_value_is_named_by_its_path_and_so_is_an_unknown_field() {
    let pod = |container: Value| {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [container]},
        });
        read(("", "v1", "Pod"), object).unwrap()
    };
    let wrong = pod(json!({"name": "c", "image": 5})).object.err().unwrap();
    assert_eq!(wrong.field, "spec.containers[0].image");
    assert!(wrong.what.starts_with("invalid type"), "{}", wrong.what);
    let unknown = pod(json!({"name": "c", "imagee": "pause"}));
    assert!(matches!(unknown.object, Ok(Object::Pod(_))));
    assert_eq!(unknown.unknown, ["spec.containers[0].imagee"]);
    assert!(read(("example.com", "v1", "Pod"), json!({})).is_none());
}
