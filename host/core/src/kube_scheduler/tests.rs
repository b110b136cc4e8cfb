use super::*;
use crate::model::{
    Catalogue, ConsolidationPolicy, HostPort, InstanceType, LabelSelector, Labels, NodeClassRef, NodeInclusion,
    NodePool, NodeRecord, Offering, OfferingId, Op, Pod, PodTerm, Requirement, ResourceId, Resources, SelectorOp,
    SelectorRule, Spread, Sym, Taint, Toleration, TypeId, World,
};
use crate::plan::{PlannedClaim, PoolIx, Refusal, Target, Unfit, Unplaced};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const SEEDS: u64 = 20;

/// A cluster with one NodePool and one type of 4 cores in zones `a` and `b`.
struct Bench(World);

impl Bench {
    fn new() -> Self {
        let mut bench = Bench(World::default());
        let (zone, _) = (bench.sym(ZONE), bench.sym(HOSTNAME));
        let (name, none) = (bench.sym("large"), bench.sym(""));
        let offerings = ["a", "b"].map(|z| {
            let z = bench.sym(z);
            Offering {
                instance_type: TypeId(0),
                requirements: vec![Requirement::is(zone, z)],
                zone: Some(z),
                capacity_type: None,
                price: 1.0,
                available: true,
                reservation: None,
            }
        });
        let large = InstanceType {
            name,
            requirements: Vec::new(),
            capacity: amounts(4000),
            allocatable: amounts(4000),
            volume_limits: Vec::new(),
            offerings: 0..0,
        };
        bench.0.catalogue = Catalogue::new(vec![(large, offerings.into())], &bench.0.names);
        bench.0.pools.push(NodePool {
            name: none,
            uid: none,
            labels: Labels::default(),
            annotations: Labels::default(),
            requirements: Vec::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            class: NodeClassRef { group: none, kind: none, name: none },
            expire_after: None,
            termination_grace: None,
            limits: Vec::new(),
            node_limit: None,
            weight: 0,
            replicas: None,
            consolidate_after: None,
            consolidation: ConsolidationPolicy::WhenEmpty,
            budgets: Vec::new(),
            ready: None,
            deleting: false,
            usage: Resources::default(),
        });
        bench
    }

    fn sym(&mut self, text: &str) -> Sym {
        self.0.names.intern(text)
    }

    fn shape(&mut self, app: &str, cpu: i64) -> PodShape {
        PodShape {
            namespace: self.sym("default"),
            labels: Labels::new(vec![(self.sym("app"), self.sym(app))]),
            requests: Resources::new([(ResourceId::Cpu, cpu), (ResourceId::Pods, 1)]),
            node_selector: Vec::new(),
            required: Vec::new(),
            preferred: Vec::new(),
            tolerations: Vec::new(),
            spread: Vec::new(),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            preferred_affinity: Vec::new(),
            preferred_anti_affinity: Vec::new(),
            ports: Vec::new(),
            priority: 0,
        }
    }

    fn selects(&mut self, app: &str) -> LabelSelector {
        let op = SelectorOp::In(Box::new([self.sym(app)]));
        LabelSelector(Some(vec![SelectorRule { key: self.sym("app"), op }]))
    }

    fn term(&mut self, key: &str, app: &str) -> PodTerm {
        let selector = self.selects(app);
        PodTerm { key: self.sym(key), selector, namespaces: Vec::new(), namespace_selector: None }
    }

    fn spread(&mut self, key: &str, app: &str) -> Spread {
        Spread {
            max_skew: 1,
            key: self.sym(key),
            required: true,
            selector: self.selects(app),
            min_domains: None,
            node_affinity: NodeInclusion::Honor,
            node_taints: NodeInclusion::Ignore,
        }
    }

    fn pods(&mut self, count: usize, shape: PodShape, node: Option<&str>) {
        let node = node.map(|n| self.sym(n));
        let shape = self.0.shapes.intern(shape);
        for _ in 0..count {
            self.0.pods.push(Pod {
                name: format!("pod-{}", self.0.pods.len()).into(),
                uid: "".into(),
                shape,
                node,
                claims: Box::new([]),
                owner: None,
                created: 0,
                started: None,
                terminal: false,
                deleting: false,
                unschedulable: node.is_none(),
                nominated: None,
                is_static: false,
                resource_claims: false,
                do_not_disrupt: Default::default(),
                invalid: None,
            });
        }
    }

    fn node(&mut self, name: &str, zone: &str) {
        let labels = Labels::new(vec![(self.sym(ZONE), self.sym(zone)), (self.sym(HOSTNAME), self.sym(name))]);
        let name = self.sym(name);
        self.0.nodes.push(NodeRecord {
            name,
            labels,
            annotations: Labels::default(),
            taints: Vec::new(),
            provider_id: None,
            unschedulable: false,
            capacity: amounts(4000),
            allocatable: amounts(4000),
            ready: true,
            deleting: false,
            created: 0,
        });
    }

    /// How many pods are left over with new hosts in these zones, worst and best over the seeds.
    fn left_over(&self, zones: &str) -> (usize, usize) {
        let snapshot = Snapshot::new(Arc::new(self.0.clone()));
        let plan = plan(zones);
        let counts: Vec<usize> = (0..SEEDS).map(|seed| survive(&snapshot, &plan, seed).left_over.len()).collect();
        (counts.iter().copied().max().unwrap_or(0), counts.iter().copied().min().unwrap_or(0))
    }
}

fn amounts(cpu: i64) -> Resources {
    Resources::new([(ResourceId::Cpu, cpu), (ResourceId::Memory, 16 << 30), (ResourceId::Pods, 110)])
}

/// A claim for each letter, in the zone of that name.
fn plan(zones: &str) -> Plan {
    let claim = |zone| PlannedClaim {
        pool: PoolIx(0),
        offering: OfferingId(if zone == 'a' { 0 } else { 1 }),
        types: vec![TypeId(0)],
        open: Vec::new(),
        requirements: Vec::new(),
        price: 1.0,
        effective: 1.0,
        pods: Vec::new(),
        requests: Default::default(),
        min_values_relaxed: false,
    };
    Plan { claims: zones.chars().map(claim).collect(), ..Plan::default() }
}

#[test]
fn a_roomy_plan_survives_every_seed() {
    let mut bench = Bench::new();
    let shape = bench.shape("web", 1000);
    bench.pods(8, shape, None);
    assert_eq!(bench.left_over("ab"), (0, 0));
}

#[test]
fn a_plan_that_counts_on_pods_being_paired_up_is_found_out() {
    // Two hosts of 4 cores hold {3, 1} twice; where {1, 1} meet, one of the big ones has no place.
    let mut bench = Bench::new();
    for (app, cpu) in [("big", 3000), ("little", 1000)] {
        let shape = bench.shape(app, cpu);
        bench.pods(2, shape, None);
    }
    assert_eq!(bench.left_over("aa"), (1, 0));
}

#[test]
fn pods_that_the_plan_leaves_out_are_not_asked_for() {
    let mut bench = Bench::new();
    let shape = bench.shape("huge", 9000);
    bench.pods(1, shape, None);
    assert_eq!(bench.left_over("a"), (1, 1));
    let snapshot = Snapshot::new(Arc::new(bench.0));
    let refusals = vec![Refusal { target: Target::Pod, unfit: Unfit::NoPools }];
    let plan = Plan { unplaced: vec![Unplaced { pod: PodIx(0), refusals }], ..plan("a") };
    assert!(survive(&snapshot, &plan, 0).left_over.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let mut bench = Bench::new();
    for cpu in [700, 900, 1100, 1300] {
        let shape = bench.shape("web", cpu);
        bench.pods(4, shape, None);
    }
    let snapshot = Snapshot::new(Arc::new(bench.0));
    for seed in 0..SEEDS {
        assert_eq!(survive(&snapshot, &plan("aabb"), seed), survive(&snapshot, &plan("aabb"), seed));
    }
}

#[test]
fn taints_and_zones_of_new_hosts_keep_pods_away() {
    let mut bench = Bench::new();
    let (zone, b) = (bench.sym(ZONE), bench.sym("b"));
    let mut shape = bench.shape("web", 1000);
    shape.node_selector.push(Requirement::is(zone, b));
    bench.pods(1, shape.clone(), None);
    assert_eq!(bench.left_over("a"), (1, 1));
    assert_eq!(bench.left_over("ab"), (0, 0));

    let taint = Taint { key: bench.sym("team"), value: bench.sym("x"), effect: TaintEffect::NoSchedule };
    bench.0.pools[0].taints.push(taint);
    assert_eq!(bench.left_over("ab"), (1, 1));
    shape.tolerations.push(Toleration { key: Some(taint.key), exists: true, value: taint.value, effect: None });
    bench.0.pods.clear();
    bench.pods(1, shape, None);
    assert_eq!(bench.left_over("ab"), (0, 0));
}

#[test]
fn a_host_name_that_nobody_knows_yet_exists_and_is_none_of_the_known() {
    let mut bench = Bench::new();
    let (hostname, known) = (bench.sym(HOSTNAME), bench.sym("node-1"));
    for (op, left) in [
        (Op::Exists, 0),
        (Op::NotIn(Box::new([known])), 0),
        (Op::In(Box::new([known])), 1),
        (Op::DoesNotExist, 1),
        (Op::Gte(1), 1),
    ] {
        let mut shape = bench.shape("web", 1000);
        shape.node_selector.push(Requirement::new(hostname, op));
        bench.0.pods.clear();
        bench.pods(1, shape, None);
        assert_eq!(bench.left_over("a"), (left, left));
    }
}

#[test]
fn hard_spread_waits_for_the_zone_that_is_behind() {
    let mut bench = Bench::new();
    let mut shape = bench.shape("web", 1000);
    shape.spread.push(bench.spread(ZONE, "web"));
    bench.node("node-1", "a");
    bench.pods(2, shape.clone(), Some("node-1"));
    bench.pods(4, shape, None);
    // Alone, zone a is the only domain and takes two more; with b there it comes to three and three.
    assert_eq!(bench.left_over(""), (2, 2));
    assert_eq!(bench.left_over("b"), (0, 0));
}

#[test]
fn too_few_domains_hold_spread_back() {
    let mut bench = Bench::new();
    let mut shape = bench.shape("web", 100);
    shape.spread.push(Spread { min_domains: Some(2), ..bench.spread(ZONE, "web") });
    bench.pods(4, shape, None);
    assert_eq!(bench.left_over("aa"), (3, 3));
    assert_eq!(bench.left_over("ab"), (0, 0));
}

#[test]
fn anti_affinity_holds_in_both_directions() {
    let mut bench = Bench::new();
    let mut lonely = bench.shape("lonely", 100);
    lonely.anti_affinity.push(bench.term(HOSTNAME, "web"));
    let web = bench.shape("web", 100);
    bench.node("node-1", "a");
    bench.pods(1, lonely.clone(), Some("node-1"));
    bench.pods(1, web.clone(), None);
    assert_eq!(bench.left_over(""), (1, 1));
    bench.0.pods.clear();
    bench.pods(1, web, Some("node-1"));
    bench.pods(1, lonely, None);
    assert_eq!(bench.left_over(""), (1, 1));
    assert_eq!(bench.left_over("a"), (0, 0));
}

#[test]
fn affinity_starts_with_itself_and_follows_others() {
    let mut bench = Bench::new();
    let mut flock = bench.shape("flock", 2000);
    flock.affinity.push(bench.term(ZONE, "flock"));
    bench.pods(4, flock, None);
    assert_eq!(bench.left_over("aa"), (0, 0));
    // The first one picks a zone, the others must follow.
    assert_eq!(bench.left_over("ab"), (2, 2));

    let mut bench = Bench::new();
    let mut guest = bench.shape("guest", 100);
    guest.affinity.push(bench.term(HOSTNAME, "host"));
    bench.pods(1, guest, None);
    assert_eq!(bench.left_over("ab"), (1, 1));
    let host = bench.shape("host", 100);
    bench.pods(1, host, None);
    assert_eq!(bench.left_over("ab"), (0, 0));
}

#[test]
fn the_highest_priority_goes_first() {
    let mut bench = Bench::new();
    let shape = bench.shape("web", 3000);
    bench.pods(1, shape.clone(), None);
    bench.pods(1, PodShape { priority: 5, ..shape }, None);
    let snapshot = Snapshot::new(Arc::new(bench.0));
    for seed in 0..SEEDS {
        assert_eq!(survive(&snapshot, &plan("a"), seed).left_over, [PodIx(0)]);
    }
}

#[test]
fn daemons_and_host_ports_take_their_share() {
    let mut bench = Bench::new();
    let mut shape = bench.shape("web", 1000);
    shape.ports.push(HostPort { ip: None, port: 80, protocol: bench.sym("TCP") });
    bench.pods(2, shape, None);
    assert_eq!(bench.left_over("a"), (1, 1));
    let daemon = bench.shape("daemon", 3500);
    let mut snapshot = Snapshot::new(Arc::new(bench.0));
    assert_eq!(survive(&snapshot, &plan("aa"), 0).left_over.len(), 0);
    snapshot.daemons.push(Arc::new(daemon));
    assert_eq!(survive(&snapshot, &plan("aa"), 0).left_over.len(), 2);
}
