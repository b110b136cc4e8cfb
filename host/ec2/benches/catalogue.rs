//! How long the catalogue of 10 NodeClasses takes from EC2's descriptions, how much memory it
//! holds, and what a changed price costs: `cargo bench -p longshore-ec2 --bench catalogue`.
#![allow(clippy::print_stdout, missing_docs)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark looks at the clock, and ends where its input is wrong"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longshore_core::model::Symbols;
use longshore_ec2::catalogue::class::Class;
use longshore_ec2::catalogue::{ClassCatalogue, CoreCatalogues, Region, Zone, world};
use longshore_ec2::facts;
use serde_json::json;

const TYPES: usize = 1300;
const ZONES: usize = 6;
const CLASSES: usize = 10;
const ROUNDS: usize = 15;
const GOAL: Duration = Duration::from_millis(50);
const GOAL_MB: f64 = 60.0;
const GOAL_PRICE: Duration = Duration::from_millis(1);

/// Counts the bytes that are in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this function.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn main() {
    let text = descriptions();
    let classes = classes();
    println!(
        "{TYPES} types ({:.1} MB of JSON), {ZONES} zones, 2 capacity types, {CLASSES} NodeClasses",
        text.len() as f64 / 1e6
    );
    measure("descriptions to facts", || facts::read("bench", &text));
    let (types, _) = facts::read("bench", &text);
    measure("facts to a region with prices", || region(&types));
    let base = region(&types);
    measure("columns of 10 NodeClasses", || columns(&base, &classes));
    let all = measure("all of it, from descriptions", || {
        let (types, _) = facts::read("bench", &text);
        let region = region(&types);
        let columns = columns(&region, &classes);
        (region, columns)
    });
    verdict("  goal 50 ms", all <= GOAL);

    let before = IN_USE.load(Ordering::Relaxed);
    let (types, _) = facts::read("bench", &text);
    let mut region = region(&types);
    let columns = columns(&region, &classes);
    let held = megabytes(before);
    println!("{:<44}{held:>9.1} MB", "memory of it");
    verdict("  goal 60 MB", held <= GOAL_MB);
    drop(types);

    let offerings = || {
        let (mut count, mut sum) = (0, 0.0);
        for class in &columns {
            for at in 0..region.types().len() {
                class.offerings(&region, at, &mut |offering| {
                    count += 1;
                    sum += offering.price.unwrap_or(0.0);
                });
            }
        }
        (count, sum)
    };
    println!("{:<44}{:>9}", "offerings", offerings().0);
    measure("visit all offerings", offerings);

    let mut price = 0.01;
    let changed = measure("a changed spot price", || {
        price += 0.001;
        // A copy holds the old column, as a round does.
        let held = region.clone();
        region.set_spot("m5.large", "us-east-1c", Some(price));
        held
    });
    verdict("  goal 1 ms", changed <= GOAL_PRICE);

    let plan = || {
        let mut names = Symbols::default();
        let mut all = CoreCatalogues::new(&region, &mut names);
        columns
            .iter()
            .for_each(|class| all.add(Arc::new(class.clone())));
        (all.finish(), names)
    };
    measure("core's catalogue of 10 NodeClasses", plan);
    let before = IN_USE.load(Ordering::Relaxed);
    let made = plan();
    println!("{:<44}{:>9.1} MB", "memory of it", megabytes(before));
    drop(made);
}

fn megabytes(before: usize) -> f64 {
    (IN_USE.load(Ordering::Relaxed) - before) as f64 / 1e6
}

fn verdict(goal: &str, reached: bool) {
    println!(
        "{goal:<44}{:>12}",
        if reached { "reached" } else { "MISSED" }
    );
}

/// Runs something several times and prints the fastest.
fn measure<T>(what: &str, mut run: impl FnMut() -> T) -> Duration {
    let once = |run: &mut dyn FnMut() -> T| {
        let begun = Instant::now();
        let made = black_box(run());
        let took = begun.elapsed();
        drop(made);
        took
    };
    let fastest = (0..ROUNDS)
        .map(|_| once(&mut run))
        .min()
        .unwrap_or_default();
    println!("{what:<44}{:>9.3} ms", fastest.as_secs_f64() * 1e3);
    fastest
}

/// The first types of moto's table, as one answer of DescribeInstanceTypes.
fn descriptions() -> Vec<u8> {
    let packed = include_bytes!("../data/instance_types.json.gz");
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(packed.as_slice());
    unpacked.read_to_string(&mut text).unwrap();
    let all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    let some: Vec<_> = all.into_iter().map(|(_, one)| one).take(TYPES).collect();
    assert_eq!(some.len(), TYPES);
    serde_json::to_vec(&json!({ "InstanceTypes": some })).unwrap()
}

fn region(types: &std::sync::Arc<[facts::TypeFacts]>) -> Region {
    let zones = (0..ZONES).map(|at| Zone {
        name: format!("us-east-1{}", (b'a' + at as u8) as char).into(),
        id: format!("use1-az{}", at + 1).into(),
    });
    let mut region = Region::new("us-east-1", zones.collect(), types.clone());
    region.replace_spot(|name, zone| Some((name.len() * zone.len()) as f64 / 100.0));
    region
}

/// NodeClasses of several families, with settings of their own.
fn classes() -> Vec<Class> {
    let aliases = [
        "al2023@latest",
        "bottlerocket@latest",
        "al2@latest",
        "windows2022@latest",
    ];
    let class = |at: usize| {
        let object = json!({
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": format!("class-{at}")},
            "spec": {
                "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}],
                "amiSelectorTerms": [{"alias": aliases[at % aliases.len()]}],
                "kubelet": {"maxPods": 20 + at, "systemReserved": {"cpu": format!("{at}00m")}},
            },
        });
        Class::of(&serde_json::from_value(object).unwrap()).unwrap()
    };
    (0..CLASSES).map(class).collect()
}

fn columns(region: &Region, classes: &[Class]) -> Vec<ClassCatalogue> {
    let one = |class: &Class| {
        let mut class = class.clone();
        class.subnets = world::every_zone(region);
        ClassCatalogue::new(region, class).unwrap()
    };
    classes.iter().map(one).collect()
}
