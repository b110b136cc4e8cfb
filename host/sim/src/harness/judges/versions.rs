//! A write names the version that it is based on.
//!
//! A patch that replaces a whole list (taints, finalizers, owners, conditions) undoes concurrent
//! changes, unless it names the version that it is based on. A claim with a server-generated name
//! is created a second time when the answer is lost. A deletion by name can end another object of
//! that name, unless it names the UID.

use serde_json::Value;

use crate::harness::interceptor::Interceptor;
use longshore_simcluster::server::{RequestInfo, resources};

const LISTS: [&str; 4] = [
    "/spec/taints",
    "/metadata/finalizers",
    "/metadata/ownerReferences",
    "/status/conditions",
];

/// A write is about to be carried out.
pub(super) fn write(interceptor: &Interceptor, asked: &RequestInfo, body: &Value) {
    let Some(resource) = asked.resource else {
        return;
    };
    let (client, name, kind) = (&asked.client, &asked.name, resource.plural);
    let named = |path: &str| {
        body.pointer(path)
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    match asked.verb {
        "patch" if [resources::NODE, resources::NODE_CLAIM].contains(&resource) => {
            let list = LISTS
                .iter()
                .find(|path| body.pointer(path).is_some_and(Value::is_array));
            if let Some(list) = list.filter(|_| !named("/metadata/resourceVersion")) {
                interceptor.violated(format!(
                    "{client} writes {list} of {kind} {name} without the version that it has read"
                ));
            }
        }
        "create" if resource == resources::NODE_CLAIM && !named("/metadata/name") => {
            interceptor.violated(format!(
                "{client} creates one of {kind} without a name: a lost answer cannot be looked up"
            ));
        }
        "delete"
            if [resources::POD, resources::NODE_CLAIM].contains(&resource)
                && !named("/preconditions/uid") =>
        {
            interceptor.violated(format!("{client} deletes {kind} {name} by its name alone"));
        }
        _ => {}
    }
}
