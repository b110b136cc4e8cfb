//! The built-in types against what Karpenter prints, and files with every mistake we could think
//! of.

use expect_test::expect;
use longshore_api::quantity::Quantity;
use longshore_core::model::{Catalogue, Op, ResourceId, Symbols};
use longshore_kwok::catalogue::{built_in, parse};

/// `name cpu memory pods ephemeral-storage zones spot on-demand`, recorded from Karpenter 1.14.1.
const RECORDED: &str = include_str!("built_in.txt");

#[test]
fn built_in_types_are_karpenters() {
    let mut names = Symbols::default();
    let catalogue = built_in(&mut names);
    let milli = |text: &str| Quantity::parse(text).unwrap().milli().unwrap();
    assert_eq!(catalogue.types().len(), RECORDED.lines().count());
    for (line, found) in RECORDED.lines().zip(catalogue.types()) {
        let [name, cpu, memory, pods, disk, zones, spot, on_demand] =
            line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(names.text(found.name), name);
        let has = |resource| found.capacity.get(resource);
        assert_eq!(has(ResourceId::Cpu), milli(cpu), "{name}");
        assert_eq!(has(ResourceId::Memory), milli(memory) / 1000, "{name}");
        assert_eq!(has(ResourceId::Pods), milli(pods) / 1000, "{name}");
        assert_eq!(
            has(ResourceId::EphemeralStorage),
            milli(disk) / 1000,
            "{name}"
        );
        assert_eq!(
            found.allocatable.get(ResourceId::Cpu),
            milli(cpu) - 100,
            "{name}"
        );
        assert_eq!(
            found.allocatable.get(ResourceId::Memory),
            milli(memory) / 1000 - (10 << 20),
            "{name}"
        );
        let rows =
            &catalogue.offerings()[found.offerings.start as usize..found.offerings.end as usize];
        assert_eq!(rows.len(), 2 * zones.parse::<usize>().unwrap());
        for row in rows {
            let wanted = if names.text(row.capacity_type.unwrap()) == "spot" {
                spot
            } else {
                on_demand
            };
            let wanted: f64 = wanted.parse().unwrap();
            // Karpenter adds up in the order of a Go map, so that its own last bit differs from run
            // to run.
            assert!(
                (row.price - wanted).abs() <= wanted * 2.0 * f64::EPSILON,
                "{name}: {} {wanted}",
                row.price
            );
        }
    }
}

fn text(catalogue: &Catalogue, names: &Symbols) -> String {
    let mut out = String::new();
    for found in catalogue.types() {
        out += names.text(found.name);
        for requirement in &found.requirements {
            if let Op::In(values) = &requirement.op {
                let values: Vec<_> = values.iter().map(|value| names.text(*value)).collect();
                out += &format!("\n  {} {}", names.text(requirement.key), values.join(","));
            }
        }
        for row in
            &catalogue.offerings()[found.offerings.start as usize..found.offerings.end as usize]
        {
            let label = |symbol: Option<_>| symbol.map_or("-", |symbol| names.text(symbol));
            let reserved = row
                .reservation
                .map(|(id, left)| format!(" {left} of {}", names.text(id)));
            let gone = if row.available { "" } else { " gone" };
            let (zone, kind) = (label(row.zone), label(row.capacity_type));
            out += &format!(
                "\n  {zone} {kind} {}{}{gone}",
                row.price,
                reserved.unwrap_or_default()
            );
        }
        out += "\n";
    }
    out
}

#[test]
fn a_file_gives_types_with_karpenters_labels() {
    let mut names = Symbols::default();
    let file = br#"[{"name":"m5.large","architecture":"amd64","operatingSystems":["linux","windows"],
      "resources":{"cpu":"2","memory":"8192Mi","pods":29,"ephemeral-storage":"20Gi","nvidia.com/gpu":"1"},
      "volumeAttachmentLimits":{"ebs.csi.aws.com":25},
      "offerings":[
        {"Price":0.096,"Available":false,"Requirements":[
          {"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]},
          {"key":"failure-domain.beta.kubernetes.io/zone","operator":"In","values":["us-east-1b"]}]},
        {"Price":0.01,"Available":true,"ReservationCapacity":3,"Requirements":[
          {"key":"karpenter.sh/capacity-type","operator":"In","values":["reserved"]},
          {"key":"karpenter.k8s.aws/capacity-reservation-id","operator":"In","values":["cr-1"]},
          {"key":"topology.kubernetes.io/zone","operator":"In","values":["us-east-1a"]}]}]}]"#;
    let (catalogue, problems) = parse("types.json", file, &mut names);
    assert_eq!(problems.to_string(), "");
    assert_eq!(catalogue.types()[0].volume_limits.len(), 1);
    expect![[r#"
        m5.large
          node.kubernetes.io/instance-type m5.large
          kubernetes.io/arch amd64
          kubernetes.io/os linux,windows
          karpenter.kwok.sh/instance-family m5
          karpenter.kwok.sh/instance-size large
          karpenter.kwok.sh/instance-cpu 2
          karpenter.kwok.sh/instance-memory 8Gi
          us-east-1a reserved 0.01 3 of cr-1
          us-east-1b on-demand 0.096 gone
    "#]]
    .assert_eq(&text(&catalogue, &names));
}

/// A good type, with one thing replaced.
fn with(from: &str, to: &str) -> String {
    let good = r#"[{"name":"a.b","offerings":[{"Price":1,"Available":true,"Requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},{"key":"topology.kubernetes.io/zone","operator":"In","values":["z"]}]}],"architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":"4","memory":"8Gi","pods":"10"}}]"#;
    assert!(good.contains(from), "{from}");
    good.replacen(from, to, 1)
}

#[test]
fn mistakes_in_a_file_are_reported_with_place_reason_and_hint() {
    let spot = r#""values":["spot"]"#;
    let cases = [
        String::new(),
        "[]".to_owned(),
        "{}".to_owned(),
        "types: []".to_owned(),
        "[{\"name\": \"a.b\"".to_owned(),
        "[1, 2]".to_owned(),
        format!("{} x", with("a.b", "a.b")),
        with(r#""Price":1"#, r#""Price":0"#),
        with(r#""Price":1"#, r#""Price":-0.1"#),
        with(r#""Price":1"#, r#""Price":1e999"#),
        with(r#""Price":1"#, r#""Price":"NaN""#),
        with(r#""Price":1"#, r#""Pice":1"#),
        with(r#""name":"a.b""#, r#""name":"a.b","vcpus":4"#),
        with(r#""name":"a.b""#, r#""name":"a b""#),
        with(r#""name":"a.b","#, ""),
        with(
            r#""operatingSystems":["linux"]"#,
            r#""operatingSystems":[]"#,
        ),
        with(
            r#""operatingSystems":["linux"]"#,
            r#""operatingSystems":"linux""#,
        ),
        with(r#""cpu":"4""#, r#""cpu":"-4""#),
        with(r#""cpu":"4","#, ""),
        with(r#","pods":"10""#, ""),
        with(r#""8Gi""#, r#""8GB""#),
        with(r#""8Gi""#, "[8]"),
        with(spot, r#""values":["sport"]"#),
        with(spot, r#""values":["spot","on-demand"]"#),
        with(spot, r#""values":["reserved"]"#),
        with("topology.kubernetes.io/zone", "zone"),
        with(r#""operator":"In""#, r#""operator":"NotIn""#),
        with(r#""Available":true"#, r#""ReservationCapacity":1"#),
        with("topology.kubernetes.io/zone", "karpenter.sh/capacity-type"),
        format!(
            "{},{}",
            with("a.b", "a.b").trim_end_matches(']'),
            with("a.b", "a.b").trim_start_matches('[')
        ),
    ];
    let mut report = String::new();
    for case in &cases {
        let (_, problems) = parse("types.json", case.as_bytes(), &mut Symbols::default());
        assert!(!problems.is_empty(), "{case}");
        report += &problems.list[0].to_string();
        report += "\n";
    }
    expect![[r#"
        types.json: the catalogue is empty: nothing can be bought; give instance types, or leave the file out for the built-in ones
        types.json: the catalogue is empty: nothing can be bought; give instance types, or leave the file out for the built-in ones
        types.json:1 (document 1): instance type: is not a list of instance types; expected a JSON list `[{"name": …}, …]`, as Karpenter's KWOK provider reads it
        types.json:1 (document 1): instance type: is not a list of instance types; expected a JSON list `[{"name": …}, …]`, as Karpenter's KWOK provider reads it
        types.json:1 (document 1): instance type: is not JSON: the text ends before the list does; check commas, quotes and brackets before it
        types.json:1 (document 1, item 1): instance type: invalid type: integer `1`, expected an instance type; write it as `key: value`
        types.json:1 (document 1): instance type: there is text after the list; remove it
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Price: 0 is not a price; give USD per hour, above 0 (or 0 if reserved); set Available to false for what cannot be had
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Price: -0.1 is not a price; give USD per hour, above 0 (or 0 if reserved); set Available to false for what cannot be had
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Price: number out of range; write a smaller number
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Price: invalid type: string "NaN", expected f64; write a number without quotes
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Pice: unknown field `Pice`, expected one of `Price`, `price`, `Available`, `available`, `ReservationCapacity`, `reservationCapacity`, `Requirements`, `requirements`; remove it, or correct its spelling
        types.json:1 (document 1, item 1): instance type a.b: vcpus: unknown field `vcpus`, expected one of `name`, `offerings`, `architecture`, `operatingSystems`, `resources`, `volumeAttachmentLimits`; remove it, or correct its spelling
        types.json:1 (document 1, item 1): instance type a b: name: `a b` is not the name of an instance type; at most 63 letters, digits, `-`, `_` and `.`; it becomes a label
        types.json:1 (document 1, item 1): instance type: missing field `name`; add it
        types.json:1 (document 1, item 1): instance type a.b: operatingSystems: is empty; name at least one, such as linux
        types.json:1 (document 1, item 1): instance type a.b: operatingSystems: invalid type: string "linux", expected a sequence; write a list: `[…]`, or entries that start with `-`
        types.json:1 (document 1, item 1): instance type a.b: resources[cpu]: quantity `-4` is negative; write it like 4 or 16Gi
        types.json:1 (document 1, item 1): instance type a.b: resources: cpu is missing or zero; every machine has cpu and memory
        types.json:1 (document 1, item 1): instance type a.b: resources: pods is missing or zero: no pod would fit; say how many pods a node takes, such as 110
        types.json:1 (document 1, item 1): instance type a.b: resources[memory]: quantity `8GB` has an unknown suffix (expected m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent like e3); write it like 4 or 16Gi
        types.json:1 (document 1, item 1): instance type a.b: resources.memory: expected a quantity such as 4 or 16Gi; write it like 500m, 2 or 4Gi
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Requirements[0].values: `sport` is not a capacity type; expected on-demand, spot or reserved
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Requirements[0].values: has 2 values; an offering has one zone, one capacity type, …
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Requirements: a reserved offering names no reservation; add karpenter.k8s.aws/capacity-reservation-id In [its id]
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Requirements: topology.kubernetes.io/zone is missing; every offering has a zone and a capacity type
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Requirements[0].operator: `NotIn` does not pin a value; expected In with one value
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].ReservationCapacity: only reserved offerings have one; remove it, or set the capacity type to reserved
        types.json:1 (document 1, item 1): instance type a.b: offerings[0].Requirements[1].key: `karpenter.sh/capacity-type` is there twice; remove one
        types.json:1 (document 1, item 2): instance type a.b: is there twice; remove one; the first is used
    "#]].assert_eq(&report);
}
