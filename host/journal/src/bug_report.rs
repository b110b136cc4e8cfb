//! Files about plans that the check refused, for a report of the defect: the cluster as it was
//! planned for, as manifests that `longshore plan --snapshot` reads, and what was wrong.
//!
//! They are in the folder `reports` of the journal, or in `longshore-reports` among the temporary
//! files. There are few of them and each is bounded, so
//! that a defect that shows in every round fills no disk. Names, labels and sizes are as in the
//! cluster; images, commands and environments of containers are not known here and not in it.

use std::path::{Path, PathBuf};

use longshore_core::check::Violation;
use longshore_core::model::pod::NodeInclusion;
use longshore_core::model::{
    ClusterObjects, LabelSelector, Labels, NodePool, NodeRecord, Op, Pod, PodTerm, Requirement,
    Resources, SelectorOp, Symbol, Taint, Toleration, fields,
};
use longshore_core::snapshot::Snapshot;
use serde_json::{Map, Value, json};

/// Files that are kept; older ones are removed.
const MAX_FILES: usize = 5;
/// Size of one file, bytes. A larger cluster is left out of it.
const MAX_BYTES: usize = 32 << 20;
/// Milliseconds between two files.
pub const REPORT_INTERVAL_MS: i64 = 10 * 60 * 1000;

/// Writes one file and removes old ones. Returns its name.
///
/// # Errors
/// What the file system says.
pub fn write(
    folder: &Path,
    name: &str,
    snapshot: &Snapshot,
    violations: &[Violation],
) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let wrong: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let list = |items: Vec<Value>, note: &str| {
        json!({
            "apiVersion": "v1", "kind": "List",
            "metadata": {"annotations": {
                "longshore.dev/report": format!("plan rejected by check{note}"),
                "longshore.dev/version": env!("CARGO_PKG_VERSION"),
                "longshore.dev/violations": wrong.join("\n"),
            }},
            "items": items,
        })
    };
    let mut text = list(manifests(&snapshot.world), "").to_string();
    if text.len() > MAX_BYTES {
        text = list(Vec::new(), "; the cluster is too large for a file").to_string();
    }
    let file = folder.join(format!("{name}.json"));
    let part = folder.join(format!("{name}.part"));
    std::fs::write(&part, text)?;
    std::fs::rename(&part, &file)?;
    remove_old(folder)?;
    Ok(file)
}

/// Removes all but the newest files. Their names sort by time.
fn remove_old(folder: &Path) -> std::io::Result<()> {
    let entries = std::fs::read_dir(folder)?.filter_map(Result::ok);
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "json" || e == "part"));
    files.sort();
    let old = files.len().saturating_sub(MAX_FILES);
    files.iter().take(old).try_for_each(std::fs::remove_file)
}

/// The objects that decide where pods go, as manifests.
pub fn manifests(world: &ClusterObjects) -> Vec<Value> {
    let writer = Writer(world);
    let mut all: Vec<Value> = world
        .namespaces
        .iter()
        .map(|n| writer.namespace(n))
        .collect();
    all.extend(world.pools.iter().map(|pool| writer.pool(pool)));
    all.extend(world.nodes.iter().map(|node| writer.node(node)));
    all.extend(world.pods.iter().map(|pod| writer.pod(pod)));
    all
}

struct Writer<'w>(&'w ClusterObjects);

impl Writer<'_> {
    fn text(&self, sym: Symbol) -> &str {
        self.0.names.text(sym)
    }

    fn texts(&self, all: &[Symbol]) -> Vec<&str> {
        all.iter().map(|&sym| self.text(sym)).collect()
    }

    fn labels(&self, labels: &Labels) -> Value {
        let all = labels.iter();
        let all = all.map(|(key, value)| (self.text(key).to_owned(), self.text(value).into()));
        Value::Object(all.collect::<Map<String, Value>>())
    }

    fn resources(&self, amounts: &Resources) -> Value {
        use longshore_core::model::ResourceId::Cpu;
        let quantity = |resource, amount: i64| match resource {
            Cpu => format!("{amount}m"),
            _ => amount.to_string(),
        };
        let all = amounts.iter().map(|(resource, amount)| {
            let name = resource.name(&self.0.names).to_owned();
            (name, quantity(resource, amount).into())
        });
        Value::Object(all.collect::<Map<String, Value>>())
    }

    fn namespace(&self, (name, labels): &(Symbol, Labels)) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": self.text(*name), "labels": self.labels(labels)},
        })
    }

    fn requirement(&self, requirement: &Requirement) -> Value {
        let (op, values): (&str, Vec<String>) = match &requirement.op {
            Op::In(values) => (
                "In",
                self.texts(values).into_iter().map(Into::into).collect(),
            ),
            Op::NotIn(values) => (
                "NotIn",
                self.texts(values).into_iter().map(Into::into).collect(),
            ),
            Op::Exists => ("Exists", Vec::new()),
            Op::DoesNotExist => ("DoesNotExist", Vec::new()),
            Op::Gte(lo) => ("Gt", vec![lo.saturating_sub(1).to_string()]),
            Op::Lte(hi) => ("Lt", vec![hi.saturating_add(1).to_string()]),
        };
        let mut all = json!({"key": self.text(requirement.key), "operator": op});
        if !values.is_empty() {
            all["values"] = json!(values);
        }
        if let Some(min) = requirement.min_values {
            all["minValues"] = json!(min);
        }
        all
    }

    fn requirements(&self, all: &[Requirement]) -> Vec<Value> {
        all.iter().map(|one| self.requirement(one)).collect()
    }

    fn taints(&self, taints: &[Taint]) -> Vec<Value> {
        let one = |taint: &Taint| {
            json!({
                "key": self.text(taint.key), "value": self.text(taint.value),
                "effect": format!("{:?}", taint.effect),
            })
        };
        taints.iter().map(one).collect()
    }

    fn pool(&self, pool: &NodePool) -> Value {
        let class = json!({
            "group": self.text(pool.class.group), "kind": self.text(pool.class.kind),
            "name": self.text(pool.class.name),
        });
        let mut limits = self.resources(&Resources::new(pool.limits.iter().copied()));
        if let Some(nodes) = pool.node_limit {
            limits["nodes"] = json!(nodes.to_string());
        }
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": self.text(pool.name)},
            "spec": {
                "weight": pool.weight, "limits": limits,
                "template": {
                    "metadata": {"labels": self.labels(&pool.labels)},
                    "spec": {
                        "nodeClassRef": class,
                        "requirements": self.requirements(&pool.requirements),
                        "taints": self.taints(&pool.taints),
                        "startupTaints": self.taints(&pool.startup_taints),
                    },
                },
            },
        })
    }

    fn node(&self, node: &NodeRecord) -> Value {
        let ready = if node.ready { "True" } else { "False" };
        let mut metadata = json!({
            "name": self.text(node.name), "labels": self.labels(&node.labels),
        });
        if node.deleting {
            metadata["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": metadata,
            "spec": {"taints": self.taints(&node.taints), "unschedulable": node.unschedulable},
            "status": {
                "capacity": self.resources(&node.capacity),
                "allocatable": self.resources(&node.allocatable),
                "conditions": [{"type": "Ready", "status": ready}],
            },
        })
    }

    fn selector(&self, selector: &LabelSelector) -> Option<Value> {
        let rules = selector.0.as_ref()?;
        let rule = |rule: &longshore_core::model::SelectorRule| {
            let (op, values) = match &rule.op {
                SelectorOp::In(values) => ("In", Some(self.texts(values))),
                SelectorOp::NotIn(values) => ("NotIn", Some(self.texts(values))),
                SelectorOp::Exists => ("Exists", None),
                SelectorOp::DoesNotExist => ("DoesNotExist", None),
            };
            let mut all = json!({"key": self.text(rule.key), "operator": op});
            if let Some(values) = values {
                all["values"] = json!(values);
            }
            all
        };
        Some(json!({"matchExpressions": rules.iter().map(rule).collect::<Vec<_>>()}))
    }

    fn term(&self, term: &PodTerm) -> Value {
        let mut all = json!({"topologyKey": self.text(term.key)});
        if let Some(selector) = self.selector(&term.selector) {
            all["labelSelector"] = selector;
        }
        if !term.namespaces.is_empty() {
            all["namespaces"] = json!(self.texts(&term.namespaces));
        }
        if let Some(selector) = &term.namespace_selector {
            all["namespaceSelector"] = self.selector(selector).unwrap_or_else(|| json!({}));
        }
        all
    }

    fn terms(&self, required: &[PodTerm], preferred: &[(i32, PodTerm)]) -> Value {
        let required: Vec<Value> = required.iter().map(|term| self.term(term)).collect();
        let weighted = |(weight, term): &(i32, PodTerm)| json!({"weight": weight, "podAffinityTerm": self.term(term)});
        let preferred: Vec<Value> = preferred.iter().map(weighted).collect();
        json!({
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        })
    }

    fn toleration(&self, toleration: &Toleration) -> Value {
        let mut all = json!({"operator": if toleration.exists { "Exists" } else { "Equal" }});
        if let Some(key) = toleration.key {
            all["key"] = json!(self.text(key));
        }
        if !toleration.exists {
            all["value"] = json!(self.text(toleration.value));
        }
        if let Some(effect) = toleration.effect {
            all["effect"] = json!(format!("{effect:?}"));
        }
        all
    }

    fn spread(&self, spread: &longshore_core::model::Spread) -> Value {
        let policy = |inclusion| match inclusion {
            NodeInclusion::Honor => "Honor",
            NodeInclusion::Ignore => "Ignore",
        };
        let mut all = json!({
            "maxSkew": spread.max_skew, "topologyKey": self.text(spread.key),
            "whenUnsatisfiable": if spread.required { "DoNotSchedule" } else { "ScheduleAnyway" },
            "nodeAffinityPolicy": policy(spread.node_affinity),
            "nodeTaintsPolicy": policy(spread.node_taints),
        });
        if let Some(selector) = self.selector(&spread.selector) {
            all["labelSelector"] = selector;
        }
        if let Some(least) = spread.min_domains {
            all["minDomains"] = json!(least);
        }
        all
    }

    fn pod(&self, pod: &Pod) -> Value {
        let shape = self.0.shapes.get(pod.shape);
        let mut metadata = json!({
            "name": &*pod.name, "namespace": self.text(shape.namespace), "uid": &*pod.uid,
            "labels": self.labels(&shape.labels),
        });
        if let Some((kind, name)) = pod.owner {
            metadata["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": self.text(kind), "name": self.text(name),
                "uid": self.text(name), "controller": true,
            }]);
        }
        if pod.deleting {
            metadata["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        let (ports, requests) = (&shape.ports, &shape.requests);
        let port = |port: &longshore_core::model::HostPort| {
            let mut all = json!({
                "containerPort": port.port, "hostPort": port.port,
                "protocol": self.text(port.protocol),
            });
            if let Some(ip) = port.ip {
                all["hostIP"] = json!(self.text(ip));
            }
            all
        };
        // One container stands for all; the place in `pods` is counted by whoever reads it.
        let amounts = requests.iter();
        let amounts = amounts.filter(|(r, _)| *r != longshore_core::model::ResourceId::Pods);
        let requests = self.resources(&Resources::new(amounts));
        let container = json!({
            "name": "all", "ports": ports.iter().map(port).collect::<Vec<_>>(),
            "resources": {"requests": requests},
        });
        let with = |term: &Vec<Requirement>| [shape.node_selector.clone(), term.clone()].concat();
        let mut terms: Vec<Vec<Requirement>> = shape.required.iter().map(with).collect();
        if terms.is_empty() && !shape.node_selector.is_empty() {
            terms.push(shape.node_selector.clone());
        }
        // What stands for a field of nodes follows from the pod's containers, which are not known.
        for term in &mut terms {
            term.retain(|r| !fields::is_field(self.text(r.key)));
        }
        terms.retain(|term| !term.is_empty());
        let node_terms = terms.iter();
        let node_terms = node_terms.map(|t| json!({"matchExpressions": self.requirements(t)}));
        let node_terms: Vec<Value> = node_terms.collect();
        let preferred = shape.preferred.iter().map(|(weight, term)| {
            let term = json!({"matchExpressions": self.requirements(term)});
            json!({"weight": weight, "preference": term})
        });
        let mut node_affinity = json!({
            "preferredDuringSchedulingIgnoredDuringExecution": preferred.collect::<Vec<_>>(),
        });
        if !node_terms.is_empty() {
            node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": node_terms});
        }
        let affinity = json!({
            "nodeAffinity": node_affinity,
            "podAffinity": self.terms(&shape.affinity, &shape.preferred_affinity),
            "podAntiAffinity": self.terms(&shape.anti_affinity, &shape.preferred_anti_affinity),
        });
        let tolerations = shape.tolerations.iter().map(|t| self.toleration(t));
        let spread = shape.spread.iter().map(|spread| self.spread(spread));
        let claim = |(at, &name): (usize, &Symbol)| {
            let source = json!({"claimName": self.text(name)});
            json!({"name": format!("v{at}"), "persistentVolumeClaim": source})
        };
        let mut spec = json!({
            "containers": [container], "affinity": affinity, "priority": shape.priority,
            "tolerations": tolerations.collect::<Vec<_>>(),
            "topologySpreadConstraints": spread.collect::<Vec<_>>(),
            "volumes": pod.claims.iter().enumerate().map(claim).collect::<Vec<_>>(),
        });
        if let Some(node) = pod.node {
            spec["nodeName"] = json!(self.text(node));
        }
        let mut status = json!({"phase": if pod.terminal { "Succeeded" } else { "Pending" }});
        if pod.unschedulable || pod.unattempted {
            status["conditions"] = json!([
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
            ]);
        }
        if let Some(node) = pod.nominated {
            status["nominatedNodeName"] = json!(self.text(node));
        }
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec,
            "status": status,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longshore_api::manifests::Reader;
    use longshore_core::check::Invariant;

    use super::*;

    fn read(items: &[Value]) -> ClusterObjects {
        let mut reader = Reader::new();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        reader.read("test", list.as_bytes());
        let (world, problems) = reader.finish();
        assert!(problems.list.is_empty(), "{problems}");
        world
    }

    fn cluster() -> Vec<Value> {
        let term = json!({
            "topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "w"}},
            "namespaces": ["a", "b"],
        });
        let affinity = json!({
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "gen", "operator": "Gt", "values": ["4"]},
                ]}],
            }},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        });
        vec![
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "a", "labels": {"team": "x"}}}),
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "n", "labels": {"rack": "r1"}},
                "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
                "status": {"allocatable": {"cpu": "1500m", "memory": "1Gi", "pods": "5"},
                    "capacity": {"cpu": "2", "memory": "2Gi", "pods": "5"},
                    "conditions": [{"type": "Ready", "status": "True"}]}}),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "namespace": "a", "uid": "u", "labels": {"app": "w"}},
                "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}],
                        "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}],
                    "affinity": affinity, "priority": 7,
                    "tolerations": [{"key": "k", "operator": "Exists"}],
                    "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "rack",
                        "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2,
                        "labelSelector": {"matchLabels": {"app": "w"}}}]},
                "status": {"conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}),
        ]
    }

    #[test]
    fn what_is_written_is_read_as_what_was_planned_for() {
        let world = read(&cluster());
        let again = read(&manifests(&world));
        let shown = |world: &ClusterObjects| {
            let all = manifests(world).into_iter();
            all.map(|object| object.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(shown(&world), shown(&again));
        assert_eq!(world.shapes.len(), again.shapes.len());
        let nodes = again.nodes.iter().map(|node| node.allocatable.clone());
        assert_eq!(
            nodes.collect::<Vec<_>>(),
            world
                .nodes
                .iter()
                .map(|n| n.allocatable.clone())
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn few_files_are_kept_and_the_newest_of_them() {
        let folder = std::env::temp_dir().join(format!("longshore-reports-{}", std::process::id()));
        let snapshot = Snapshot::new(Arc::new(read(&cluster())));
        let violation = Violation {
            invariant: Invariant::Affinity,
            at: Some("n".into()),
            pod: None,
            pods: Vec::new(),
            claims: Vec::new(),
            detail: "no pod is there".into(),
        };
        for number in 10..10 + MAX_FILES + 3 {
            let name = format!("rejected-{number}");
            let file = write(&folder, &name, &snapshot, std::slice::from_ref(&violation)).unwrap();
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.contains("Affinity at n: no pod is there"), "{text}");
        }
        let mut left: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        std::fs::remove_dir_all(&folder).unwrap();
        let newest = (13..18).map(|number| format!("rejected-{number}.json"));
        assert_eq!(left, newest.collect::<Vec<_>>());
    }
}
