//! Small clusters from a seed: as manifests for the search, and as a [`Game`] for brute force.

use longshore_core::model::{ClusterObjects, ResourceId, Resources};
use serde_json::{Value, json};

use super::solve::{Game, Host, Offer, Room};
use crate::rng::Rng;
use crate::{ZONE, node_of, pod};

const ARCH: &str = "kubernetes.io/arch";
const ZONES: [&str; 2] = ["a", "b"];
/// Family, memory of a core in GiB, price of a core in USD per hour: as EC2 has them.
const FAMILIES: [(&str, u32, f64); 3] = [("c", 2, 0.0425), ("m", 4, 0.048), ("r", 8, 0.063)];
const CORES: [u32; 5] = [1, 2, 4, 8, 16];
/// Architectures, and what a core costs there beside amd64.
const ARCHITECTURES: [(&str, f64); 2] = [("amd64", 1.0), ("arm64", 0.8)];
/// Pods by the cores and memory that they ask for: thousandths, and MiB for a thousandth.
const MILLI: [u32; 6] = [250, 500, 750, 1000, 1500, 2000];
const MIB_PER_MILLI: [u32; 4] = [1, 2, 4, 6];
/// What a moved pod must save, USD per hour.
const MOVE_COSTS: [f64; 4] = [0.0, 0.0005, 0.002, 0.01];

fn name_of(family: usize, cores: u32, arch: usize) -> String {
    format!("{}{cores}.{}", FAMILIES[family].0, ARCHITECTURES[arch].0)
}

fn resources(family: usize, cores: u32) -> Value {
    let memory = format!("{}Gi", FAMILIES[family].1 * cores);
    json!({"cpu": cores.to_string(), "memory": memory, "pods": "110", "ephemeral-storage": "20Gi"})
}

/// Thirty types, on demand, in two zones.
pub fn types() -> Value {
    let mut all = Vec::new();
    for (family, &(_, _, price)) in FAMILIES.iter().enumerate() {
        for (arch, &(architecture, share)) in ARCHITECTURES.iter().enumerate() {
            for cores in CORES {
                let offering = |zone: &str| {
                    json!({"Price": price * share * f64::from(cores), "Available": true, "Requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                        {"key": ZONE, "operator": "In", "values": [zone]}]})
                };
                all.push(
                    json!({"name": name_of(family, cores, arch), "architecture": architecture,
                    "operatingSystems": ["linux"], "resources": resources(family, cores),
                    "offerings": ZONES.map(offering)}),
                );
            }
        }
    }
    Value::Array(all)
}

/// Pods that are alike.
struct App {
    milli: u32,
    mib: u32,
    /// The only zone and the only architecture that it may be in, by position.
    zone: Option<usize>,
    arch: Option<usize>,
    /// Required anti-affinity to itself on a host.
    alone: bool,
    priority: i32,
}

struct Node {
    family: usize,
    cores: u32,
    arch: usize,
    zone: usize,
    /// Annotation `karpenter.sh/do-not-disrupt`.
    held: bool,
    /// Pods of each app.
    pods: Vec<u32>,
}

pub struct Cluster {
    apps: Vec<App>,
    nodes: Vec<Node>,
    /// Something can be bought.
    buys: bool,
    /// What a moved pod must save, USD per hour.
    pub move_cost: f64,
}

fn any<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len())]
}

impl Cluster {
    /// The cluster of a seed: three to eight candidates, at most two nodes that must stay.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..20).for_each(|_| _ = rng.below(2));
        let apps: Vec<App> = (0..2 + rng.below(3)).map(|_| app(&mut rng)).collect();
        let (candidates, held) = (3 + rng.below(6), rng.below(3));
        let mut nodes = Vec::new();
        while nodes.len() < candidates + held {
            let is_held = nodes.len() >= candidates;
            let node = node(&mut rng, &apps, is_held);
            // Emptiness takes nodes without pods before the search.
            if is_held || node.pods.iter().any(|&pods| pods > 0) {
                nodes.push(node);
            }
        }
        Cluster {
            apps,
            nodes,
            buys: !rng.one_in(5),
            move_cost: any(&mut rng, &MOVE_COSTS),
        }
    }

    /// The cluster as Kubernetes has it.
    pub fn manifests(&self) -> Vec<Value> {
        let mut pool = crate::pool();
        if !self.buys {
            pool["spec"]["limits"] = json!({"cpu": "0"});
        }
        let mut items = vec![pool];
        for (at, node) in self.nodes.iter().enumerate() {
            let name = format!("n{at}");
            let kind = name_of(node.family, node.cores, node.arch);
            let mut allocatable = resources(node.family, node.cores);
            allocatable["cpu"] = json!(format!("{}m", node.cores * 1000 - 100));
            let labels = json!({"karpenter.sh/capacity-type": "on-demand", ZONE: ZONES[node.zone],
                ARCH: ARCHITECTURES[node.arch].0, "node.kubernetes.io/instance-type": kind});
            let mut both = node_of(
                &name,
                labels,
                &resources(node.family, node.cores),
                &allocatable,
            );
            if node.held {
                both[1]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
            }
            items.extend(both);
            for (of, &pods) in node.pods.iter().enumerate() {
                items.extend((0..pods).map(|number| self.pod(of, number, &name)));
            }
        }
        items
    }

    fn pod(&self, of: usize, number: u32, node: &str) -> Value {
        let app = &self.apps[of];
        let name = format!("app{of}");
        let mut pod = pod(&format!("{node}-{name}-{number}"), &name, app.milli, node);
        let spec = &mut pod["spec"];
        spec["containers"][0]["resources"]["requests"]["memory"] = json!(format!("{}Mi", app.mib));
        spec["priority"] = json!(app.priority);
        let mut selector = serde_json::Map::new();
        app.zone
            .map(|zone| selector.insert(ZONE.into(), json!(ZONES[zone])));
        app.arch
            .map(|arch| selector.insert(ARCH.into(), json!(ARCHITECTURES[arch].0)));
        spec["nodeSelector"] = Value::Object(selector);
        if app.alone {
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}]}});
        }
        pod
    }

    /// The same for brute force; prices and rooms are those of the records.
    pub fn game(&self, world: &ClusterObjects) -> Game {
        let amounts = self
            .apps
            .iter()
            .map(|app| [i64::from(app.milli), i64::from(app.mib) << 20]);
        let admits = |zone: usize, arch: usize| {
            let may = |app: &App| {
                app.zone.is_none_or(|of| of == zone) && app.arch.is_none_or(|of| of == arch)
            };
            self.apps.iter().map(may).collect::<Vec<bool>>()
        };
        let catalogue = &world.catalogue;
        let text = |symbol: Option<_>| symbol.map_or("", |symbol| world.names.text(symbol));
        let zone_of = |text: &str| ZONES.iter().position(|zone| *zone == text).unwrap();
        let mut offers = Vec::new();
        let mut priced: Vec<(String, f64)> = Vec::new();
        for offering in catalogue.offerings() {
            let kind = catalogue.instance_type(offering.instance_type);
            let name = world.names.text(kind.name);
            let arch = usize::from(name.ends_with(ARCHITECTURES[1].0));
            priced.push((name.to_owned(), offering.price));
            if self.buys {
                offers.push(Offer {
                    price: offering.price,
                    room: room(&kind.allocatable),
                    admits: admits(zone_of(text(offering.zone)), arch),
                });
            }
        }
        let hosts = self.nodes.iter().enumerate().map(|(at, node)| {
            let name = name_of(node.family, node.cores, node.arch);
            let record = world
                .nodes
                .iter()
                .find(|of| world.names.text(of.name) == format!("n{at}"));
            let mut free = room(&record.unwrap().allocatable);
            let mut weight = 0.0;
            for (app, &pods) in self.apps.iter().zip(&node.pods) {
                free[0] -= i64::from(app.milli * pods);
                free[1] -= (i64::from(app.mib) << 20) * i64::from(pods);
                weight += f64::from(pods) * (1.0 + f64::from(app.priority) / f64::from(1 << 25));
            }
            Host {
                price: priced.iter().find(|(of, _)| *of == name).unwrap().1,
                move_cost: weight * self.move_cost,
                may_go: !node.held,
                free,
                own: node.pods.clone(),
                admits: admits(node.zone, node.arch),
            }
        });
        Game {
            amounts: amounts.collect(),
            alone: self.apps.iter().map(|app| app.alone).collect(),
            hosts: hosts.collect(),
            offers,
            node_cost: world.settings.node_cost,
        }
    }
}

fn room(of: &Resources) -> Room {
    [of.get(ResourceId::Cpu), of.get(ResourceId::Memory)]
}

fn app(rng: &mut Rng) -> App {
    let milli = any(rng, &MILLI);
    App {
        milli,
        mib: milli * any(rng, &MIB_PER_MILLI),
        zone: rng.one_in(5).then(|| rng.below(2)),
        arch: rng.one_in(3).then(|| rng.below(2)),
        alone: rng.one_in(5),
        priority: if rng.one_in(4) { 1 << 25 } else { 0 },
    }
}

/// A node that is at most two thirds full.
fn node(rng: &mut Rng, apps: &[App], held: bool) -> Node {
    let mut node = Node {
        family: rng.below(FAMILIES.len()),
        cores: any(rng, &CORES[1..]),
        arch: rng.below(2),
        zone: rng.below(2),
        held,
        pods: vec![0; apps.len()],
    };
    let memory = FAMILIES[node.family].1 * node.cores * 1024;
    let mut free = [node.cores * 667, memory * 2 / 3];
    for _ in 0..rng.below(5) {
        let of = rng.below(apps.len());
        let app = &apps[of];
        let here = app.zone.is_none_or(|zone| zone == node.zone)
            && app.arch.is_none_or(|arch| arch == node.arch)
            && !(app.alone && node.pods[of] > 0);
        if here && app.milli <= free[0] && app.mib <= free[1] {
            free[0] -= app.milli;
            free[1] -= app.mib;
            node.pods[of] += 1;
        }
    }
    node
}
