//! Cases from seeds: a catalogue in which some zone may offer nothing of what pods require,
//! NodePools with and without zones, nodes in such zones or not, pods that spread over zones and
//! others that do not.

use longshore_core::model::{ClusterObjects, Settings};
use serde_json::{Value, json};

use super::super::{merge, node, pod, pool, running};
use super::ZONE;
use super::model::{Node, Pod, Spread};

const ARCH: &str = "kubernetes.io/arch";
const FAMILY: &str = "karpenter.kwok.sh/instance-family";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const RACK: &str = "example.com/rack";
const RACKS: [&str; 2] = ["r1", "r2"];
const ZONES: [&str; 4] = ["a", "b", "c", "d"];
/// Kinds of demands: architecture, family, capacity type, zone.
pub const KINDS: usize = 4;

type Demand = (String, Vec<String>);

/// An instance type with the zones and capacity types that it can be had in.
struct Type {
    family: &'static str,
    arch: &'static str,
    cpu: i64,
    offers: Vec<(&'static str, &'static str)>,
}

struct Pool {
    name: String,
    zones: Option<Vec<&'static str>>,
    arch: Option<&'static str>,
    tainted: bool,
    rack: Option<&'static str>,
}

/// A cluster.
pub struct Case {
    pub kind: usize,
    types: Vec<Type>,
    pools: Vec<Pool>,
    nodes: Vec<Node>,
    spreading: Pod,
    count: usize,
    others: Vec<Pod>,
}

/// Pseudo-random numbers from a seed: a linear congruential generator, its high bits.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

impl Type {
    fn name(&self) -> String {
        format!("{}-{}x-{}-linux", self.family, self.cpu, self.arch)
    }
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d);
        (0..4).for_each(|_| _ = rng.below(2));
        let kind = seed as usize % KINDS;
        let zones = &ZONES[..3 + rng.below(2)];
        let lacking: Vec<&'static str> =
            zones.iter().copied().filter(|_| rng.percent(35)).collect();
        let demand: Demand = match kind {
            0 => (ARCH.into(), texts(&["arm64"])),
            1 => (FAMILY.into(), texts(&["m"])),
            2 => (CAPACITY.into(), texts(&["spot"])),
            _ => (ZONE.into(), texts(&["a", "b"])),
        };
        let types = types(&mut rng, kind, zones, &lacking);
        let pools = pools(&mut rng, zones);
        let spreading = spreading(&mut rng, demand);
        let others = others(&mut rng);
        let nodes = nodes(&mut rng, zones);
        let count = 3 + rng.below(18);
        Case {
            kind,
            types,
            pools,
            nodes,
            spreading,
            count,
            others,
        }
    }

    /// The same with racks, which not all nodes and NodePools have: pods must be spread over them
    /// as well as over zones, loosely, so that it is zones that decide.
    pub fn with_racks(seed: u64) -> Self {
        let mut case = Case::new(seed);
        let mut rng = Rng(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0x2545_f491);
        (0..4).for_each(|_| _ = rng.below(2));
        let mut rack = |percent: usize| rng.percent(percent).then(|| RACKS[rng.below(RACKS.len())]);
        case.pools.iter_mut().for_each(|pool| pool.rack = rack(60));
        for node in &mut case.nodes {
            node.labels
                .extend(rack(40).map(|rack| (RACK.to_owned(), rack.to_owned())));
        }
        // Others may buy nodes in zones that count for that reason alone, which is looked at
        // without racks.
        case.others.clear();
        let over_zones = &case.spreading.spread[0];
        let over_racks = Spread {
            key: RACK,
            max_skew: 100,
            min_domains: 0,
            ..over_zones.clone()
        };
        case.spreading.spread.insert(rng.below(2), over_racks);
        case
    }

    /// Whether some node has pods that count and no rack, so that they do not.
    pub fn has_pods_outside_racks(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| node.selected > 0 && !node.labels.contains_key(RACK))
    }

    /// Whether some node without a rack is in a zone where no node of a rack is, or can be bought.
    pub fn has_zone_without_racks(&self) -> bool {
        let racked = |node: &&Node| node.labels.contains_key(RACK);
        let bought = self.purchases();
        let zones = |zone: &str| {
            self.nodes
                .iter()
                .chain(&bought)
                .filter(racked)
                .any(|n| n.labels[ZONE] == zone)
        };
        self.nodes.iter().any(|node| !zones(&node.labels[ZONE]))
    }

    /// Whether some zone that NodePools offer has nothing for the pods that spread.
    pub fn lacks_somewhere(&self) -> bool {
        let none = |zone: &&str| {
            !self
                .purchases()
                .iter()
                .any(|n| n.labels[ZONE] == **zone && self.suits(n))
        };
        let offered = |zone: &&str| self.purchases().iter().any(|n| n.labels[ZONE] == **zone);
        ZONES.iter().any(|zone| offered(zone) && none(zone))
    }

    fn suits(&self, node: &Node) -> bool {
        let lone = Pod {
            spread: Vec::new(),
            ..self.spreading.clone()
        };
        super::model::Cluster {
            nodes: vec![node.clone()],
        }
        .takes(&lone, 0)
    }

    /// The pod of that name.
    pub fn pod(&self, name: &str) -> Pod {
        let other = self.others.iter().find(|pod| pod.name == name);
        other.cloned().unwrap_or_else(|| Pod {
            name: name.into(),
            ..self.spreading.clone()
        })
    }

    pub fn existing(&self) -> Vec<Node> {
        self.nodes.clone()
    }

    /// The node that a purchase gives.
    pub fn bought(&self, pool: &str, of_type: &str, (zone, capacity): (&str, &str)) -> Node {
        let tainted = self.pools.iter().any(|p| p.name == pool && p.tainted);
        let t = self.types.iter().find(|t| t.name() == of_type);
        let (arch, family, cpu) = t.map_or(("", "", 0), |t| (t.arch, t.family, t.cpu));
        let name = format!("new {of_type} of {pool} in {zone}, {capacity}");
        let mut labels = labels(zone, arch, family, capacity);
        let rack = self
            .pools
            .iter()
            .find(|p| p.name == pool)
            .and_then(|p| p.rack);
        labels.extend(rack.map(|rack| (RACK.to_owned(), rack.to_owned())));
        Node {
            name,
            labels,
            tainted,
            free: cpu * 1000,
            selected: 0,
        }
    }

    /// One node of everything that can be bought.
    pub fn purchases(&self) -> Vec<Node> {
        let mut all = Vec::new();
        for pool in &self.pools {
            for t in &self.types {
                let here = |zone: &str| {
                    pool.zones
                        .as_ref()
                        .is_none_or(|zones| zones.contains(&zone))
                };
                let of_arch = pool.arch.is_none_or(|arch| arch == t.arch);
                let offers = t.offers.iter().filter(|(zone, _)| of_arch && here(zone));
                all.extend(offers.map(|&at| self.bought(&pool.name, &t.name(), at)));
            }
        }
        all
    }

    /// The same through the boundary.
    pub fn world(&self) -> ClusterObjects {
        let mut objects: Vec<Value> = self.pools.iter().map(pool_object).collect();
        for n in &self.nodes {
            objects.push(node_object(n));
            objects.extend(
                (0..n.selected)
                    .map(|at| running(&format!("r{at}-{}", n.name), "web", &n.name, &json!({}))),
            );
        }
        objects.extend(
            (0..self.count).map(|at| pod_object(&self.spreading, &format!("web{at}"), "web")),
        );
        objects.extend(
            self.others
                .iter()
                .map(|other| pod_object(other, &other.name, "other")),
        );
        let mut world = super::super::world(&objects, Settings::default());
        let types = Value::Array(self.types.iter().map(type_object).collect()).to_string();
        let (catalogue, problems) =
            longshore_kwok::catalogue::parse("types", types.as_bytes(), &mut world.names);
        assert!(problems.list.is_empty(), "{problems}");
        world.catalogue = catalogue;
        world
    }
}

fn types(
    rng: &mut Rng,
    kind: usize,
    zones: &[&'static str],
    lacking: &[&'static str],
) -> Vec<Type> {
    let mut types: Vec<Type> = Vec::new();
    for family in ["c", "m"] {
        for arch in ["amd64", "arm64"] {
            for cpu in [2, 4, 8] {
                let wanted = |capacity: &str| match kind {
                    0 => arch == "arm64",
                    1 => family == "m",
                    2 => capacity == "spot",
                    _ => false,
                };
                let all = zones
                    .iter()
                    .flat_map(|&zone| ["on-demand", "spot"].map(|capacity| (zone, capacity)));
                let offers = all
                    .filter(|(zone, capacity)| !(lacking.contains(zone) && wanted(capacity)))
                    .collect();
                types.push(Type {
                    family,
                    arch,
                    cpu,
                    offers,
                });
            }
        }
    }
    let small = rng.percent(25);
    types.retain(|t| !(t.offers.is_empty() || small && t.cpu == 8));
    types
}

fn pools(rng: &mut Rng, zones: &[&'static str]) -> Vec<Pool> {
    let arch = rng.percent(25).then_some("arm64");
    let open = |name: &str, zones| Pool {
        name: name.into(),
        zones,
        arch,
        tainted: false,
        rack: None,
    };
    let mut pools = match rng.below(3) {
        0 => vec![open("default", None)],
        1 => vec![open("default", Some(zones.to_vec()))],
        _ => zones
            .iter()
            .map(|zone| open(&format!("zone-{zone}"), Some(vec![*zone])))
            .collect(),
    };
    if pools.len() > 1 && rng.percent(40) {
        let at = rng.below(pools.len());
        pools[at].tainted = true;
    }
    pools
}

fn spreading(rng: &mut Rng, demand: Demand) -> Pod {
    let (mut selector, mut terms) = (Vec::new(), Vec::new());
    match demand {
        (_, values) if values.len() == 1 && rng.percent(50) => selector.push((demand.0, values)),
        demand => terms.push(vec![demand]),
    }
    if !terms.is_empty() && rng.percent(20) {
        terms.push(vec![(ZONE.to_owned(), texts(&["c"]))]);
    }
    let spread = Spread {
        key: ZONE,
        max_skew: 1 + rng.below(2) as i64,
        min_domains: if rng.percent(25) { 1 + rng.below(4) } else { 0 },
        honor_affinity: !rng.percent(20),
        honor_taints: rng.percent(20),
    };
    let cpu = [300, 900, 1700][rng.below(3)];
    let tolerates = rng.percent(20);
    Pod {
        name: String::new(),
        cpu,
        tolerates,
        selector,
        terms,
        spread: vec![spread],
    }
}

/// Pods that do not spread; where they go, zones may come to count.
fn others(rng: &mut Rng) -> Vec<Pod> {
    let count = if rng.percent(60) { rng.below(6) } else { 0 };
    let tolerates = rng.percent(50);
    let arch = rng.percent(50);
    let zone = rng.percent(40).then(|| ZONES[rng.below(3)]);
    let one = |at| {
        let mut selector = Vec::new();
        selector.extend(arch.then(|| (ARCH.to_owned(), texts(&["amd64"]))));
        selector.extend(zone.map(|zone| (ZONE.to_owned(), texts(&[zone]))));
        Pod {
            name: format!("other{at}"),
            cpu: 1500,
            tolerates,
            selector,
            terms: Vec::new(),
            spread: Vec::new(),
        }
    };
    (0..count).map(one).collect()
}

fn nodes(rng: &mut Rng, zones: &[&'static str]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for zone in zones {
        if !rng.percent(35) {
            continue;
        }
        let arch = ["amd64", "arm64"][rng.below(2)];
        let labels = labels(
            zone,
            arch,
            ["c", "m"][rng.below(2)],
            ["on-demand", "spot"][rng.below(2)],
        );
        let selected = if rng.percent(30) {
            rng.below(3) as i64
        } else {
            0
        };
        let free = [0, 0, 2000][rng.below(3)];
        nodes.push(Node {
            name: format!("node-{zone}"),
            labels,
            tainted: rng.percent(20),
            free,
            selected,
        });
    }
    nodes
}

fn labels(
    zone: &str,
    arch: &str,
    family: &str,
    capacity: &str,
) -> std::collections::BTreeMap<String, String> {
    let all = [
        (ZONE, zone),
        (ARCH, arch),
        (FAMILY, family),
        (CAPACITY, capacity),
    ];
    all.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn pool_object(p: &Pool) -> Value {
    let zones = p
        .zones
        .as_ref()
        .map(|zones| json!({"key": ZONE, "operator": "In", "values": zones}));
    let taints =
        json!({"template": {"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}});
    let mut patch = if p.tainted { taints } else { json!({}) };
    if let Some(rack) = p.rack {
        merge(
            &mut patch,
            &json!({"template": {"metadata": {"labels": {RACK: rack}}}}),
        );
    }
    let arch = p
        .arch
        .map(|arch| json!({"key": ARCH, "operator": "In", "values": [arch]}));
    pool(
        &p.name,
        Value::Array(zones.into_iter().chain(arch).collect()),
        &patch,
    )
}

/// Its room is what is free and what its pods take.
fn node_object(n: &Node) -> Value {
    let cpu = format!("{}m", n.free + 100 * n.selected);
    let mut object = node(&n.name, &n.labels[ZONE], &cpu, "64Gi");
    merge(&mut object, &json!({"metadata": {"labels": n.labels}}));
    if n.tainted {
        object["spec"] = json!({"taints": [{"key": "dedicated", "effect": "NoSchedule"}]});
    }
    object
}

fn pod_object(p: &Pod, name: &str, app: &str) -> Value {
    let all = |demands: &[Demand]| -> Vec<Value> {
        demands
            .iter()
            .map(|(key, values)| json!({"key": key, "operator": "In", "values": values}))
            .collect()
    };
    let mut spec = json!({});
    for (key, values) in &p.selector {
        merge(&mut spec, &json!({"nodeSelector": {key: values[0]}}));
    }
    if !p.terms.is_empty() {
        let terms: Vec<Value> = p
            .terms
            .iter()
            .map(|term| json!({"matchExpressions": all(term)}))
            .collect();
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        spec["affinity"] = json!({"nodeAffinity": required});
    }
    if p.tolerates {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    let policy = |honor: bool| if honor { "Honor" } else { "Ignore" };
    let rule = |spread: &Spread| {
        let mut rule = json!({
            "maxSkew": spread.max_skew, "topologyKey": spread.key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
            "nodeAffinityPolicy": policy(spread.honor_affinity), "nodeTaintsPolicy": policy(spread.honor_taints),
        });
        if spread.min_domains > 0 {
            rule["minDomains"] = json!(spread.min_domains);
        }
        rule
    };
    spec["topologySpreadConstraints"] = p.spread.iter().map(rule).collect();
    pod(name, app, &format!("{}m", p.cpu), "64Mi", &spec)
}

fn type_object(t: &Type) -> Value {
    let offer = |&(zone, capacity): &(&str, &str)| {
        let price = 0.05 * t.cpu as f64 * if capacity == "spot" { 0.4 } else { 1.0 };
        let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        json!({"Price": price, "Available": true, "Requirements": [is(CAPACITY, capacity), is(ZONE, zone)]})
    };
    json!({
        "name": t.name(), "offerings": t.offers.iter().map(offer).collect::<Vec<_>>(), "architecture": t.arch,
        "operatingSystems": ["linux"],
        "resources": {"cpu": t.cpu.to_string(), "memory": "64Gi", "pods": "110", "ephemeral-storage": "20Gi"},
    })
}
