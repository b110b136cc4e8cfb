//! What belongs to another provider is not written: neither its NodePools, NodeClaims and Nodes, nor
//! Events about them, nor pods on its Nodes, which only their provider drains.

use serde_json::Value;

use crate::harness::foreign::is_foreign;
use crate::harness::interceptor::Interceptor;
use longshore_simcluster::fields;
use longshore_simcluster::object::Resource;
use longshore_simcluster::server::{RequestInfo, resources};

const KINDS: [Resource; 3] = [resources::NODE_POOL, resources::NODE_CLAIM, resources::NODE];

/// A write is about to be carried out.
pub(super) fn write(interceptor: &Interceptor, asked: &RequestInfo, body: &Value) {
    let Some(object) = object(interceptor, asked, body) else {
        return;
    };
    let RequestInfo {
        client,
        verb,
        name,
        subresource,
        ..
    } = asked;
    let kind = asked.resource.map_or("", |resource| resource.plural);
    interceptor.violated(format!(
        "{client} does {verb} {kind}/{subresource} {name}, which is about {object} of another provider"
    ));
}

/// The object of another provider that a write is about.
fn object(interceptor: &Interceptor, asked: &RequestInfo, body: &Value) -> Option<String> {
    let resource = asked.resource?;
    let is_its = |resource: Resource, name: &str| {
        let key = fields::key(resource, "", name);
        let found = interceptor.server.get(&key);
        found
            .is_some_and(|object| is_foreign(&object))
            .then(|| format!("{} {name}", resource.kind))
    };
    if KINDS.contains(&resource) {
        return is_its(resource, &asked.name);
    }
    if resource == resources::EVENT {
        let about = body
            .get("regarding")
            .or_else(|| body.get("involvedObject"))?;
        let (kind, name) = (fields::text(about, "/kind"), fields::text(about, "/name"));
        let kind = KINDS.into_iter().find(|one| one.kind == kind)?;
        return is_its(kind, name);
    }
    let leaves = asked.verb == "delete" || asked.subresource == "eviction";
    if resource == resources::POD && leaves {
        let key = fields::key(resource, &asked.namespace, &asked.name);
        let pod = interceptor.server.get(&key)?;
        return is_its(resources::NODE, fields::text(&pod, "/spec/nodeName"));
    }
    None
}
