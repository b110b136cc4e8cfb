//! Workloads of a generated scenario: Deployments of several shapes, daemons, Jobs, StatefulSets.

use super::rng::Rng;

/// A Deployment of a scenario.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: String,
    /// Its manifest without replicas' number, which is `REPLICAS`.
    pub manifest: String,
    /// The least and the most replicas that it may have.
    pub replicas: (u32, u32),
    /// All its pods must run in one zone.
    pub in_one_zone: bool,
}

impl Workload {
    /// Its manifest with a number of replicas.
    pub fn with(&self, replicas: u32) -> String {
        self.manifest.replace("REPLICAS", &replicas.to_string())
    }
}

/// Who plays.
#[derive(Clone, Debug)]
pub struct Workloads {
    /// Deployments, which come and go and are scaled.
    pub workloads: Vec<Workload>,
    /// What is there from the beginning: daemons, priorities.
    pub base: String,
    /// Others that come some time.
    pub others: Vec<String>,
}

impl Workloads {
    /// Instances that each offering must have, so that all pods can run. Three of the types are big
    /// enough for every pod. Those of one zone may each have a node of its own there, and others
    /// may have come before. If all pools want the same capacity type, the four zones have to hold
    /// all pods, terminating nodes included.
    pub fn needs_of_each_offering(&self, size: u32) -> u32 {
        let tied: u32 = self
            .workloads
            .iter()
            .filter(|workload| workload.in_one_zone)
            .map(|workload| workload.replicas.1)
            .sum();
        let in_one_zone = if tied == 0 {
            0
        } else {
            (tied + size).div_ceil(3)
        };
        in_one_zone.max((2 * size).div_ceil(3 * 4))
    }
}

/// How the pods of a Deployment stand to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Plain,
    SpreadZones,
    SpreadHosts,
    Apart,
    Port,
    OnDemand,
    Zone,
}

const SHAPES: [Shape; 10] = [
    Shape::Plain,
    Shape::Plain,
    Shape::Plain,
    Shape::SpreadZones,
    Shape::SpreadZones,
    Shape::SpreadHosts,
    Shape::Apart,
    Shape::Port,
    Shape::OnDemand,
    Shape::Zone,
];

/// A workloads that needs about `size` nodes of two to four CPUs at its busiest.
pub fn workloads(rng: &mut Rng, size: u32) -> Workloads {
    // Half of the CPUs of a node are asked for, on average, for not all workloads are at their most
    // at once.
    let mut cpus = i64::from(size) * 3000;
    let mut workloads = Vec::new();
    while cpus > 0 && workloads.len() < 12 {
        let number = workloads.len();
        let (workload, most) = new_workload(rng, number, cpus);
        cpus -= most;
        workloads.push(workload);
    }
    let mut base = String::from(
        "---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: important}
value: 1000
",
    );
    if rng.hits(0.6) {
        base += &workload("DaemonSet", "agent", "100m", "64Mi", "", "", "");
    }
    if rng.hits(0.3) {
        base += &workload(
            "DaemonSet",
            "critical",
            "50m",
            "32Mi",
            "",
            "",
            "priorityClassName: system-node-critical",
        );
    }
    let mut others = Vec::new();
    if rng.hits(0.3) {
        let count = rng.between(2, 10);
        let spec = "restartPolicy: Never";
        let meta = "annotations: {sim.longshore.dev/runs-for: 120s}";
        others.push(workload(
            "Job",
            "batch",
            "900m",
            "512Mi",
            &parallel(count),
            meta,
            spec,
        ));
    }
    if rng.hits(0.3) {
        let count = rng.between(2, 5);
        others.push(workload(
            "StatefulSet",
            "store",
            "700m",
            "1Gi",
            &format!("replicas: {count}"),
            "",
            "",
        ));
    }
    Workloads {
        workloads,
        base,
        others,
    }
}

fn parallel(count: u64) -> String {
    format!("parallelism: {count}, completions: {count}")
}

/// A Deployment, and the milli-CPUs that it asks for at its most.
fn new_workload(rng: &mut Rng, number: usize, room: i64) -> (Workload, i64) {
    let name = format!("web{number}");
    let shape = rng.one_of(&SHAPES);
    let cpu = rng.one_of(&[250i64, 500, 750, 1000, 1500, 1900]);
    let most = match shape {
        // Each has a node of its own.
        Shape::Apart | Shape::Port => rng.between(2, 8) as u32,
        Shape::SpreadHosts => rng.between(2, 12) as u32,
        _ => ((room / 2).max(3000) / cpu).clamp(2, 60) as u32,
    };
    let alone = matches!(shape, Shape::Apart | Shape::Port);
    let spread = |key: &str| {
        format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: \
            DoNotSchedule, \
             labelSelector: {{matchLabels: {{app: {name}}}}}}}]"
        )
    };
    let mut spec = match shape {
        Shape::Plain => String::new(),
        Shape::SpreadZones => spread("topology.kubernetes.io/zone"),
        Shape::SpreadHosts => spread("kubernetes.io/hostname"),
        Shape::Apart => format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
            [{{topologyKey: \
             kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: {name}}}}}}}]}}}}"
        ),
        Shape::Port => String::new(),
        Shape::OnDemand => "nodeSelector: {karpenter.sh/capacity-type: on-demand}".to_owned(),
        Shape::Zone => {
            let zone = rng.one_of(&["a", "b", "c", "d"]);
            format!("nodeSelector: {{topology.kubernetes.io/zone: test-zone-{zone}}}")
        }
    };
    let mut more = |part: &str| {
        if !spec.is_empty() {
            spec.push_str(", ");
        }
        spec.push_str(part);
    };
    if rng.hits(0.15) {
        more("priorityClassName: important");
    }
    if rng.hits(0.2) {
        more(&format!(
            "terminationGracePeriodSeconds: {}",
            rng.between(5, 60)
        ));
    }
    let meta = if rng.hits(0.15) {
        "annotations: {sim.longshore.dev/ignores-sigterm: 'true'}"
    } else {
        ""
    };
    let memory = rng.one_of(&["128Mi", "256Mi", "512Mi", "1Gi"]);
    let port = if shape == Shape::Port {
        format!(
            ", ports: [{{hostPort: {}, containerPort: 80}}]",
            8080 + number
        )
    } else {
        String::new()
    };
    let cpu_text = format!("{cpu}m");
    let mut manifest = workload_with(
        "Deployment",
        &name,
        &cpu_text,
        memory,
        "replicas: REPLICAS",
        meta,
        &spec,
        &port,
    );
    if rng.hits(0.4) {
        let of = rng.one_of(&[
            "maxUnavailable: 1",
            "maxUnavailable: 25%",
            "maxUnavailable: 50%",
        ]);
        manifest += &budget(&name, of);
    }
    let asked = if alone { 3000 } else { cpu } * i64::from(most);
    (
        Workload {
            name,
            manifest,
            replicas: (0, most),
            in_one_zone: shape == Shape::Zone,
        },
        asked,
    )
}

/// A disruption budget for the pods of a Deployment.
pub fn budget(name: &str, of: &str) -> String {
    format!(
        "---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}}}
spec: {{{of}, selector: {{matchLabels: {{app: {name}}}}}}}
"
    )
}

/// A StatefulSet with a volume per pod, which is bound to a zone once its pod runs there.
pub fn with_disks(rng: &mut Rng) -> String {
    let count = rng.between(2, 5);
    let policy = rng.one_of(&["OrderedReady", "Parallel"]);
    let disk = "{metadata: {name: disk}, spec: {storageClassName: disk, accessModes: \
        [ReadWriteOnce], \
                resources: {requests: {storage: 1Gi}}}}";
    let own =
        format!("replicas: {count}, podManagementPolicy: {policy}, volumeClaimTemplates: [{disk}]");
    workload(
        "StatefulSet",
        "vault",
        "700m",
        "1Gi",
        &own,
        "",
        "terminationGracePeriodSeconds: 20",
    )
}

/// A Deployment without pods, to be scaled up all at once.
pub fn burst(name: &str, cpu: &str, spread: bool) -> String {
    let zones = format!(
        "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
        whenUnsatisfiable: \
         DoNotSchedule, labelSelector: {{matchLabels: {{app: {name}}}}}}}]"
    );
    workload(
        "Deployment",
        name,
        cpu,
        "128Mi",
        "replicas: 0",
        "",
        if spread { &zones } else { "" },
    )
}

fn workload(
    kind: &str,
    name: &str,
    cpu: &str,
    memory: &str,
    own: &str,
    meta: &str,
    spec: &str,
) -> String {
    workload_with(kind, name, cpu, memory, own, meta, spec, "")
}

/// `own` are further fields of its spec, `meta` of its pods' metadata, `spec` of their spec,
/// `container` of the container's, in flow style.
#[allow(clippy::too_many_arguments)]
fn workload_with(
    kind: &str,
    name: &str,
    cpu: &str,
    memory: &str,
    own: &str,
    meta: &str,
    spec: &str,
    container: &str,
) -> String {
    let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    let selector = if kind == "Job" {
        String::new()
    } else {
        format!("selector: {{matchLabels: {{app: {name}}}}},")
    };
    let comma = |part: &str| {
        if part.is_empty() {
            String::new()
        } else {
            format!(", {part}")
        }
    };
    let own = if own.is_empty() {
        String::new()
    } else {
        format!("{own}, ")
    };
    format!(
        "---
apiVersion: {group}
kind: {kind}
metadata: {{name: {name}}}
spec: {{{own}{selector} template: {{metadata: {{labels: {{app: {name}}}{meta}}}, spec: {{
  containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: {cpu}, memory: {memory}}}}}{container}}}]{spec}}}}}}}
",
        meta = comma(meta),
        spec = comma(spec),
    )
}
