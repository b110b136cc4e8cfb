//! Expressions on a small catalogue, as text.

use std::fmt::Write as _;
use std::rc::Rc;

use expect_test::expect;

use super::{Columns, Numbers, OneNumber, OneText, Program, Table, Texts};

/// Four offerings: an m7g.large on demand and spot, a g6.xlarge with a GPU in another zone, and one of
/// which little is known.
struct Four {
    pulls: usize,
}

const TYPES: [&str; 3] = ["m7g.large", "g6.xlarge", "?"];
const NONE: &[(&str, f64)] = &[];

impl Columns for Four {
    fn count(&self) -> usize {
        4
    }

    fn numbers(&mut self, of: &Numbers) -> Vec<f64> {
        self.pulls += 1;
        let signal = |name: &str| match name {
            "risk" => [("m7g.large", 0.5), ("g6.xlarge", 2.0)].as_slice(),
            _ => NONE,
        };
        match of {
            Numbers::Price => vec![0.08, 0.03, 0.8, 1.0],
            Numbers::Cost => vec![0.07, 0.03, f64::INFINITY, 1.0],
            Numbers::CpuMillicores => vec![2000.0, 2000.0, 4000.0, 1000.0],
            Numbers::MemoryMib => vec![8192.0, 8192.0, 16384.0, 1024.0],
            Numbers::ReservationCount => vec![0.0, 0.0, 3.0, 0.0],
            Numbers::Capacity(name) | Numbers::Allocatable(name) => match name.as_str() {
                "nvidia.com/gpu" => vec![0.0, 0.0, 1.0, 0.0],
                _ => vec![0.0; 4],
            },
            Numbers::Signal { name, otherwise } => {
                let known = |row: &usize| {
                    let of = TYPES[[0, 0, 1, 2][*row]];
                    let found = signal(name).iter().find(|(key, _)| *key == of);
                    found.map_or(*otherwise, |(_, value)| *value)
                };
                [0, 1, 2, 3].iter().map(known).collect()
            }
        }
    }

    fn texts(&mut self, of: &Texts) -> Rc<Table> {
        self.pulls += 1;
        let (table, rows): (&[&str], [u32; 4]) = match of {
            Texts::InstanceType => (&TYPES, [0, 0, 1, 2]),
            Texts::Zone => (&["eu-1a", "eu-1b", ""], [0, 0, 1, 2]),
            Texts::CapacityType => (&["on-demand", "spot"], [0, 1, 0, 0]),
            Texts::Architecture => (&["arm64", "amd64", ""], [0, 0, 1, 2]),
            Texts::Reservation => (&["", "cr-1"], [0, 0, 1, 0]),
            Texts::Label(key) if key == "team/zone" => (&["eu-1b", "eu-1a"], [0, 1, 0, 1]),
            Texts::Label(key) if key == "generation" => (&["7", "6", ""], [0, 0, 1, 2]),
            Texts::Label(_) => (&[""], [0; 4]),
        };
        Rc::new(Table {
            texts: table.iter().map(|text| (*text).into()).collect(),
            rows: rows.into(),
        })
    }

    fn available(&mut self) -> Vec<bool> {
        vec![true, true, false, true]
    }

    fn number(&mut self, of: &OneNumber) -> f64 {
        match of {
            OneNumber::Now => 1.8e9,
            OneNumber::Weight => 10.0,
        }
    }

    fn text(&mut self, of: &OneText) -> String {
        let text = match of {
            OneText::NodePool => "batch",
            OneText::Label(key) if key == "team" => "ml",
            OneText::Label(_) | OneText::Annotation(_) => "",
        };
        text.to_owned()
    }
}

fn said(texts: &[&str]) -> String {
    let mut out = String::new();
    for text in texts {
        let _ = match Program::compile(text) {
            Ok(program) => {
                let rows = program.evaluate(&mut Four { pulls: 0 });
                writeln!(out, "{text} = {rows:?}")
            }
            Err(refused) => writeln!(out, "{text}: {refused}; {}", refused.hint),
        };
    }
    out
}

#[test]
fn numbers_follow_from_columns() {
    expect![[r#"
        price = [0.08, 0.03, 0.8, 1.0]
        0.5 = [0.5, 0.5, 0.5, 0.5]
        price * 0.5 + 1 = [1.04, 1.015, 1.4, 1.5]
        1 - price = [0.92, 0.97, 0.19999999999999996, 0.0]
        -price = [-0.08, -0.03, -0.8, -1.0]
        7 / 2 = [3.5, 3.5, 3.5, 3.5]
        7 % 4 + int(7 / 2) = [6.0, 6.0, 6.0, 6.0]
        price / 0 = [inf, inf, inf, inf]
        price + cost = [0.15000000000000002, 0.06, inf, 2.0]
        price + price * price = [0.0864, 0.0309, 1.4400000000000002, 2.0]
        min(price, cost, 0.5) = [0.07, 0.03, 0.5, 0.5]
        max(price, 0.5) = [0.5, 0.5, 0.8, 1.0]
        resources["nvidia.com/gpu"] * 2 = [0.0, 0.0, 2.0, 0.0]
        resources.cpu + allocatable['nvidia.com/gpu'] = [0.0, 0.0, 1.0, 0.0]
        cpu_millicores / 1000 + memory_mib / 1024 = [10.0, 10.0, 20.0, 2.0]
        signal('risk', 0.25) * price = [0.04, 0.015, 1.6, 0.25]
        signal('absent', 0.25) = [0.25, 0.25, 0.25, 0.25]
        double(labels.generation) * 2 = [14.0, 14.0, 12.0, NaN]
        size(instance_type) + zone.size() = [14.0, 14.0, 14.0, 1.0]
        node_pool.weight + now / 1e9 = [11.8, 11.8, 11.8, 11.8]
    "#]]
    .assert_eq(&said(&[
        "price",
        "0.5",
        "price * 0.5 + 1",
        "1 - price",
        "-price",
        "7 / 2",
        "7 % 4 + int(7 / 2)",
        "price / 0",
        "price + cost",
        "price + price * price",
        "min(price, cost, 0.5)",
        "max(price, 0.5)",
        "resources[\"nvidia.com/gpu\"] * 2",
        "resources.cpu + allocatable['nvidia.com/gpu']",
        "cpu_millicores / 1000 + memory_mib / 1024",
        "signal('risk', 0.25) * price",
        "signal('absent', 0.25)",
        "double(labels.generation) * 2",
        "size(instance_type) + zone.size()",
        "node_pool.weight + now / 1e9",
    ]));
}

#[test]
fn conditions_choose() {
    expect![[r#"
        capacity_type == 'spot' ? 1 : 0 = [0.0, 1.0, 0.0, 0.0]
        capacity_type == 'spot' ? price : cost = [0.07, 0.03, inf, 1.0]
        'spot' != capacity_type ? price : 0 = [0.08, 0.0, 0.8, 1.0]
        zone == '' ? 1 : 0 = [0.0, 0.0, 0.0, 1.0]
        zone == labels['team/zone'] ? 1 : 0 = [0.0, 1.0, 1.0, 0.0]
        zone < labels['team/zone'] ? 1 : 0 = [1.0, 0.0, 0.0, 1.0]
        zone >= 'eu-1b' ? 1 : 0 = [0.0, 0.0, 1.0, 0.0]
        instance_type.startsWith('m7g.') || instance_type.endsWith('.xlarge') ? 1 : 0 = [1.0, 1.0, 1.0, 0.0]
        !instance_type.contains('7g') && zone != '' ? 1 : 0 = [0.0, 0.0, 1.0, 0.0]
        instance_type in ['m7g.large', 'c7g.large'] ? 1 : 0 = [1.0, 1.0, 0.0, 0.0]
        node_pool.name in ['batch'] && node_pool.labels.team == 'ml' ? price : 0 = [0.08, 0.03, 0.8, 1.0]
        has(labels.generation) ? double(labels.generation) : 0 = [7.0, 7.0, 6.0, 0.0]
        has(resources['nvidia.com/gpu']) && has(price) ? 1 : 0 = [0.0, 0.0, 1.0, 0.0]
        has(double(labels.generation)) ? 1 : 0 = [1.0, 1.0, 1.0, 0.0]
        cpu_millicores in [1000, 4000] ? 1 : 0 = [0.0, 0.0, 1.0, 1.0]
        price < 0.05 ? 1 : price <= 0.08 ? 2 : 3 = [2.0, 1.0, 3.0, 3.0]
        available ? price : infinity = [0.08, 0.03, inf, 1.0]
        available == (capacity_type == 'spot') ? 1 : 0 = [0.0, 1.0, 1.0, 0.0]
        (available ? zone == 'eu-1a' : true) ? 1 : 0 = [1.0, 1.0, 1.0, 0.0]
        (capacity_type == 'spot' ? 1 : 0) + (zone == '' ? 2 : 0) = [0.0, 1.0, 0.0, 2.0]
        (capacity_type == 'spot' ? 1 : 2) * (capacity_type == 'on-demand' ? 3 : 4) + price = [6.08, 4.03, 6.8, 7.0]
        0.0 / 0.0 == 0.0 / 0.0 ? 1 : 0 = [0.0, 0.0, 0.0, 0.0]
        true ? price : cost = [0.08, 0.03, 0.8, 1.0]
    "#]].assert_eq(&said(&[
        "capacity_type == 'spot' ? 1 : 0",
        "capacity_type == 'spot' ? price : cost",
        "'spot' != capacity_type ? price : 0",
        "zone == '' ? 1 : 0",
        "zone == labels['team/zone'] ? 1 : 0",
        "zone < labels['team/zone'] ? 1 : 0",
        "zone >= 'eu-1b' ? 1 : 0",
        "instance_type.startsWith('m7g.') || instance_type.endsWith('.xlarge') ? 1 : 0",
        "!instance_type.contains('7g') && zone != '' ? 1 : 0",
        "instance_type in ['m7g.large', 'c7g.large'] ? 1 : 0",
        "node_pool.name in ['batch'] && node_pool.labels.team == 'ml' ? price : 0",
        "has(labels.generation) ? double(labels.generation) : 0",
        "has(resources['nvidia.com/gpu']) && has(price) ? 1 : 0",
        "has(double(labels.generation)) ? 1 : 0",
        "cpu_millicores in [1000, 4000] ? 1 : 0",
        "price < 0.05 ? 1 : price <= 0.08 ? 2 : 3",
        "available ? price : infinity",
        "available == (capacity_type == 'spot') ? 1 : 0",
        "(available ? zone == 'eu-1a' : true) ? 1 : 0",
        "(capacity_type == 'spot' ? 1 : 0) + (zone == '' ? 2 : 0)",
        "(capacity_type == 'spot' ? 1 : 2) * (capacity_type == 'on-demand' ? 3 : 4) + price",
        "0.0 / 0.0 == 0.0 / 0.0 ? 1 : 0",
        "true ? price : cost",
    ]));
}

#[test]
fn faults_have_column_reason_and_hint() {
    let many = vec!["price"; 258].join("+");
    let mut found = said(&[
        "",
        "pric * 2",
        "colour",
        "capacity-type == 'spot' ? 1 : 0",
        "capacity_type",
        "capacity_type == 'spot'",
        "capacity_type == 1 ? 1 : 0",
        "capacity_type == spot ? 1 : 0",
        "price ? 1 : 0",
        "true ? 1 : 'a'",
        "true ? zone : zone",
        "price + zone",
        "zone + 'a' == 'ba' ? 1 : 0",
        "price && true ? 1 : 0",
        "true < false ? 1 : 0",
        "labels",
        "labels == '' ? 1 : 0",
        "labels[zone] == '' ? 1 : 0",
        "price['a']",
        "price.size",
        "node_pool == 'a' ? 1 : 0",
        "node_pool.nam == 'a' ? 1 : 0",
        "signal('a')",
        "signal(zone, 1)",
        "signal('a', price)",
        "has(labels)",
        "haz(price)",
        "min(1)",
        "int('5')",
        "zone.startswith('a') ? 1 : 0",
        "zone.startsWith(zone) ? 1 : 0",
        "zone.matches('a') ? 1 : 0",
        "zone in [labels.a] ? 1 : 0",
        "zone in [1] ? 1 : 0",
        "available in [true] ? 1 : 0",
        "price in [cost] ? 1 : 0",
        "price * (",
        "12u",
    ]);
    let refused = Program::compile(&many).unwrap_err();
    let _ = writeln!(found, "{}…: {refused}; {}", &many[..12], refused.hint);
    expect![[r#"
        : column 1: the expression ends too early; add a value
        pric * 2: column 1: pric is not a known name; did you mean `price`?
        colour: column 1: colour is not a known name; a text stands in quotes; known names are price, cost, instance_type, zone, capacity_type, architecture, reservation, reservation_count, available, cpu_millicores, memory_mib, labels, resources, allocatable, node_pool, now, infinity
        capacity-type == 'spot' ? 1 : 0: column 1: capacity is not a known name; did you mean `capacity_type`?
        capacity_type: column 1: gives a text; give a number, such as price * 0.9
        capacity_type == 'spot': column 1: gives a boolean; write what it costs in both cases: condition ? number : number
        capacity_type == 1 ? 1 : 0: column 15: cannot compare a text and a number; read a number from a text with double(…)
        capacity_type == spot ? 1 : 0: column 18: spot is not a known name; a text stands in quotes; known names are price, cost, instance_type, zone, capacity_type, architecture, reservation, reservation_count, available, cpu_millicores, memory_mib, labels, resources, allocatable, node_pool, now, infinity
        price ? 1 : 0: column 1: is a number where a boolean is expected; give values of one type
        true ? 1 : 'a': column 12: is a text where a number is expected; read a number from a text with double(…)
        true ? zone : zone: column 15: a choice between texts is not supported; choose between numbers or booleans
        price + zone: column 7: is a text where a number is expected; read a number from a text with double(…)
        zone + 'a' == 'ba' ? 1 : 0: column 6: texts cannot be joined; compare a text with ==, in, startsWith, endsWith or contains
        price && true ? 1 : 0: column 1: is a number where a boolean is expected; give values of one type
        true < false ? 1 : 0: column 6: booleans have no order; compare booleans with == or !=
        labels: column 1: gives a map; give a number, such as price * 0.9
        labels == '' ? 1 : 0: column 8: is a map where a value is expected; take one of it by its key, as labels["…"]
        labels[zone] == '' ? 1 : 0: column 8: a key is not a text in quotes; write it in quotes, as labels["kubernetes.io/arch"]
        price['a']: column 7: a number has no keys; labels, resources, allocatable, node_pool.labels and node_pool.annotations have keys
        price.size: column 7: a number has no field size; labels, resources, allocatable and node_pool have fields
        node_pool == 'a' ? 1 : 0: column 11: is a NodePool where a value is expected; take name, weight, labels["…"] or annotations["…"] of it
        node_pool.nam == 'a' ? 1 : 0: column 11: nam is not a known field of node_pool; did you mean `name`?
        signal('a'): column 1: signal takes a name and a number; write signal("name", otherwise), with a number for offerings that it does not know
        signal(zone, 1): column 1: signal takes a name and a number, both in quotes or digits; write signal("name", otherwise), with a number for offerings that it does not know
        signal('a', price): column 1: signal takes a name and a number, both in quotes or digits; write signal("name", otherwise), with a number for offerings that it does not know
        has(labels): column 1: is a map where a text or a number is expected; take one of it by its key, as labels["…"]
        haz(price): column 1: haz is not a known function; did you mean `has`?
        min(1): column 1: min and max take two and more numbers; add a number
        int('5'): column 1: int does not take these values; double takes a number or a text, int a number, size a text
        zone.startswith('a') ? 1 : 0: column 6: startswith is not a known function of a text; did you mean `startsWith`?
        zone.startsWith(zone) ? 1 : 0: column 6: startsWith does not take these values; call it on a text, with a text in quotes
        zone.matches('a') ? 1 : 0: column 6: regular expressions are not supported; use startsWith, endsWith, contains, or `in` with a list
        zone in [labels.a] ? 1 : 0: column 10: a list cannot hold a column; write values in the list, and compare columns with ==
        zone in [1] ? 1 : 0: column 10: is a number where a text is expected; give values of one type
        available in [true] ? 1 : 0: column 15: is a boolean where a text or a number before `in` is expected; give values of one type
        price in [cost] ? 1 : 0: column 11: a list cannot hold a column; write values in the list, and compare columns with ==
        price * (: column 10: the expression ends too early; add a value
        12u: column 1: a number ends in letters; write 12, 1.5 or 0x1f; unsigned integers are not supported
        price+price+…: column 1542: has more than 256 operators; split it into two policies: the second goes on from `cost`
    "#]].assert_eq(&found);
}

#[test]
fn a_source_is_asked_for_once() {
    let program = Program::compile("price * price + (zone == 'a' && zone != 'b' ? price : 1)");
    let mut four = Four { pulls: 0 };
    program.unwrap().evaluate(&mut four);
    assert_eq!(four.pulls, 2);
}

/// The price expressions of Karpenter's RFC of NodeOverlay, and what it says that they come to; the
/// rest by hand. A line: base price, expression, USD per hour.
#[test]
fn price_expressions_of_karpenter_give_the_same_cents() {
    struct Price(f64);
    impl Columns for Price {
        fn count(&self) -> usize {
            1
        }
        fn numbers(&mut self, _: &Numbers) -> Vec<f64> {
            vec![self.0]
        }
        fn texts(&mut self, _: &Texts) -> Rc<Table> {
            Rc::default()
        }
        fn available(&mut self) -> Vec<bool> {
            vec![true]
        }
        fn number(&mut self, _: &OneNumber) -> f64 {
            0.0
        }
        fn text(&mut self, _: &OneText) -> String {
            String::new()
        }
    }
    for line in include_str!("node_overlay.tsv").lines() {
        if line.starts_with('#') {
            continue;
        }
        let [price, expression, usd] =
            <[&str; 3]>::try_from(line.split('\t').collect::<Vec<_>>()).unwrap();
        let program = Program::compile(expression).unwrap();
        let found = program.evaluate(&mut Price(price.parse().unwrap()))[0];
        let expected: f64 = usd.parse().unwrap();
        assert!((found - expected).abs() < 1e-12, "{line}: {found}");
    }
}

#[test]
fn what_an_expression_reads_is_named_as_it_stands_there() {
    for text in [
        "cost",
        "price",
        "cpu_millicores",
        "memory_mib",
        "reservation_count",
        "resources[\"nvidia.com/gpu\"]",
        "allocatable[\"memory\"]",
        "signal(\"carbon\", 450)",
        "now",
        "node_pool.weight",
    ] {
        assert_eq!(reads(text), text);
    }
    for text in [
        "instance_type",
        "zone",
        "capacity_type",
        "architecture",
        "reservation",
        "labels[\"a/b\"]",
        "node_pool.name",
        "node_pool.labels[\"a/b\"]",
        "node_pool.annotations[\"a\"]",
    ] {
        assert_eq!(reads(&format!("{text} == 'a' ? 1 : 2")), text);
    }
    assert_eq!(
        reads("available ? cost + cost : price"),
        "available, cost, price"
    );
}

fn reads(text: &str) -> String {
    let program = Program::compile(text).unwrap();
    let names: Vec<String> = program.sources().map(ToString::to_string).collect();
    names.join(", ")
}
