//! Manifests that many scenarios begin with.

/// A KWOKNodeClass and a NodePool of all its instance types on Linux.
#[allow(dead_code, reason = "on EC2 there is another class")]
pub const KWOK_POOL: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
";

/// What pods request that say nothing else.
pub const ONE_CPU: &str = "cpu: '1', memory: 1Gi";

/// A Deployment whose pods request so much (`cpu: 200m, memory: 64Mi`), with a further line of their
/// spec.
pub fn deployment(name: &str, replicas: usize, requests: &str, more: &str) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: c, image: 'x:1', resources: {{requests: {{{requests}}}}}}}]
      {more}
"
    )
}

/// A [`deployment`] whose pods each need a node of their own.
pub fn one_per_node(name: &str, replicas: usize, requests: &str) -> String {
    deployment(name, replicas, requests, &alone(name))
}

/// The line of a pod's spec that keeps others of its app off its node.
pub fn alone(app: &str) -> String {
    format!(
        "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [
        {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: {app}}}}}}}]}}}}"
    )
}
