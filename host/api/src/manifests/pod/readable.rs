//! What a pod that cannot be read as a whole keeps on its node besides its requests: host ports and
//! volume claims. Each port and each volume that can be read counts, up to the limit of a pod.

use longshore_core::model::{HostPort, Part, Symbol, Symbols};
use serde_json::{Map as Object, Value, json};

use super::placement::{self, FirstFault};
use super::wire::{WirePort, WireSpec, WireVolume};
use crate::manifests::diagnostic::Path;

/// Host ports and claims of a pod, from the text of its spec.
pub(super) fn ports_and_claims(
    spec: &str,
    pod: &str,
    names: &mut Symbols,
) -> (Vec<HostPort>, Box<[Symbol]>) {
    let Ok(Value::Object(spec)) = serde_json::from_str(spec) else {
        return Default::default();
    };
    let text = kept(&spec).to_string();
    let Ok(spec) = serde_json::from_str::<WireSpec<'_>>(&text) else {
        return Default::default();
    };
    let mut ports = placement::host_ports(&spec, Path::Root, names, &mut FirstFault::default());
    let mut claims = super::claims(&spec, pod, names).into_vec();
    let most = usize::try_from(Part::PortsAndVolumes.most()).unwrap_or(usize::MAX);
    ports.truncate(most);
    claims.truncate(most);
    (ports, claims.into_boxed_slice())
}

/// A spec of no more than the ports and volumes that can be read.
fn kept(spec: &Object<String, Value>) -> Value {
    let list = |of: &str| spec.get(of).and_then(Value::as_array).into_iter().flatten();
    let ports = |container: &Value| {
        let ports = container["ports"].as_array().into_iter().flatten();
        let ports: Vec<&Value> = ports.filter(is_port).collect();
        json!({"restartPolicy": container["restartPolicy"].as_str(), "ports": ports})
    };
    let containers: Vec<Value> = list("containers").map(ports).collect();
    let init: Vec<Value> = list("initContainers").map(ports).collect();
    let volumes: Vec<&Value> = list("volumes").filter(is_volume).collect();
    json!({
        "hostNetwork": spec.get("hostNetwork").and_then(Value::as_bool),
        "containers": containers, "initContainers": init, "volumes": volumes,
    })
}

/// Whether a port can be read by itself.
fn is_port(port: &&Value) -> bool {
    serde_json::from_str::<WirePort<'_>>(&port.to_string()).is_ok()
}

/// Whether a volume can be read by itself.
fn is_volume(volume: &&Value) -> bool {
    serde_json::from_str::<WireVolume<'_>>(&volume.to_string()).is_ok()
}
