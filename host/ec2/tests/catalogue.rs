//! Descriptions, worlds and NodeClasses as they are read: what becomes of them, and what faults say.

#![allow(clippy::unwrap_used, reason = "a test ends where its input is wrong")]

use std::sync::Arc;

use expect_test::expect;
use longshore_core::model::{Op, ResourceId, Symbols};
use longshore_ec2::catalogue::{ClassCatalogue, CoreCatalogues, NODE_CLASS, world};
use longshore_ec2::facts;

const DESCRIPTION: &str = r#"{"InstanceType":"m5.large","ProcessorInfo":{"SupportedArchitectures":["x86_64"]},
    "VCpuInfo":{"DefaultVCpus":2},"MemoryInfo":{"SizeInMiB":8192},"NetworkInfo":{"MaximumNetworkInterfaces":3,
    "Ipv4AddressesPerInterface":10},"Next":{"Year":[1]}}"#;

fn names(text: &str) -> (Vec<String>, String) {
    let (types, problems) = facts::read("types.json", text.as_bytes());
    let names = types.iter().map(|t| t.name.to_string()).collect();
    (names, problems.to_string())
}

#[test]
fn a_list_an_answer_and_an_object_by_name_are_the_same() {
    let one = vec!["m5.large".to_owned()];
    for text in [
        format!("[{DESCRIPTION}]"),
        format!("{{\"InstanceTypes\": [{DESCRIPTION}]}}"),
        format!("\u{feff} {{\"m5.large\": {DESCRIPTION}}}"),
    ] {
        assert_eq!(names(&text), (one.clone(), String::new()), "{text}");
    }
}

#[test]
fn faults_have_place_reason_and_hint_and_the_others_stay() {
    let without = |key: &str| DESCRIPTION.replace(key, "Other");
    let text = [
        DESCRIPTION.to_owned(),
        DESCRIPTION.to_owned(),
        without("VCpuInfo"),
        without("InstanceType"),
        DESCRIPTION.replace("8192", "-1"),
        DESCRIPTION.replace("8192", "\"8192\""),
        DESCRIPTION.replace(":10", ":99999999999"),
        DESCRIPTION.replace("m5.large", "m5 large"),
        without("ProcessorInfo"),
        DESCRIPTION.replace("[\"x86_64\"]", "[]"),
        DESCRIPTION.replace("8192", "0"),
        DESCRIPTION.replace(":3,", ":true,"),
    ]
    .join(",\n");
    let (types, problems) = names(&format!("[{text}]"));
    assert_eq!(types, ["m5.large"]);
    expect![[r#"
        types.json:7 (document 1, item 3): instance type m5.large: missing field `VCpuInfo`; add it
        types.json:10 (document 1, item 4): instance type: missing field `InstanceType`; add it
        types.json:14 (document 1, item 5): instance type m5.large: MemoryInfo.SizeInMiB: -1 is not a number from 0 to 2147483647; give the number that EC2 answers
        types.json:17 (document 1, item 6): instance type m5.large: MemoryInfo.SizeInMiB: invalid type: string "8192", expected i64; write a whole number without quotes
        types.json:21 (document 1, item 7): instance type m5.large: NetworkInfo.Ipv4AddressesPerInterface: 99999999999 is not a number from 0 to 2147483647; give the number that EC2 answers
        types.json:22 (document 1, item 8): instance type m5 large: InstanceType: is not the name of an instance type; at most 63 letters, digits, `-`, `_` and `.`; it becomes a label
        types.json:25 (document 1, item 9): instance type m5.large: missing field `ProcessorInfo`; add it
        types.json:28 (document 1, item 10): instance type m5.large: ProcessorInfo.SupportedArchitectures: is empty; name at least one, such as x86_64
        types.json:32 (document 1, item 11): instance type m5.large: MemoryInfo.SizeInMiB: is zero; every machine has cpu and memory
        types.json:35 (document 1, item 12): instance type m5.large: NetworkInfo.MaximumNetworkInterfaces: invalid type: boolean `true`, expected i64; write a whole number without quotes
        types.json: instance type m5.large: is there twice; remove one; the first is used
    "#]].assert_eq(&problems);
}

#[test]
fn texts_that_are_no_descriptions_say_so() {
    let all = ["", "7", "[", "[{}]", "{\"InstanceTypes\": 3}", "[1]"].map(|text| names(text).1);
    expect![[r#"
        types.json: has no usable instance type: nothing can be bought; expected what `aws ec2 describe-instance-types` prints
        --
        types.json:1 (document 1): instance type: is neither a list nor an object of instance types; expected what `aws ec2 describe-instance-types` prints, as JSON
        types.json: has no usable instance type: nothing can be bought; expected what `aws ec2 describe-instance-types` prints
        --
        types.json:1 (document 1): instance type: is not JSON: the text ends too early; check commas, quotes and brackets before it
        types.json: has no usable instance type: nothing can be bought; expected what `aws ec2 describe-instance-types` prints
        --
        types.json:1 (document 1, item 1): instance type: missing field `InstanceType`; add it
        types.json: has no usable instance type: nothing can be bought; expected what `aws ec2 describe-instance-types` prints
        --
        types.json:1 (document 1): instance type: is not JSON; check commas, quotes and brackets before it
        types.json: has no usable instance type: nothing can be bought; expected what `aws ec2 describe-instance-types` prints
        --
        types.json:1 (document 1, item 1): instance type: invalid type: integer `1`, expected an instance type; write it as `key: value`
        types.json: has no usable instance type: nothing can be bought; expected what `aws ec2 describe-instance-types` prints
    "#]].assert_eq(&all.join("--\n"));
}

const TYPE: &str = r#"{"InstanceType":"m5.large","ProcessorInfo":{"SupportedArchitectures":["x86_64"]},
"VCpuInfo":{"DefaultVCpus":2},"MemoryInfo":{"SizeInMiB":8192},"NetworkInfo":{"MaximumNetworkInterfaces":3,
"Ipv4AddressesPerInterface":10},"SupportedUsageClasses":["on-demand","spot"]}"#;

const CLASS: &str = "nodeClass:
  apiVersion: karpenter.k8s.aws/v1
  kind: EC2NodeClass
  metadata: {name: default}
  spec:
    role: r
    amiSelectorTerms: [{alias: al2023@latest}]
    subnetSelectorTerms: [{tags: {a: b}}]
    securityGroupSelectorTerms: [{tags: {a: b}}]
";

fn text(more: &str) -> String {
    format!(
        "region: us-east-1\nzones: {{us-east-1a: use1-az1, us-east-1b: use1-az2}}\ninstanceTypes:\n\
         - {}\n{CLASS}{more}",
        TYPE.replace('\n', " ")
    )
}

fn said(text: &str) -> String {
    match world::read("world.yaml", text.as_bytes(), None) {
        Ok((_, problems)) => format!("read\n{problems}"),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn a_class_without_subnets_has_one_in_every_zone() {
    let (world, problems) = world::read("world.yaml", text("").as_bytes(), None).unwrap();
    assert!(problems.list.is_empty(), "{problems}");
    let class = world.class.unwrap();
    let zones: Vec<_> = class.subnets.iter().map(|s| (&*s.zone, &*s.id)).collect();
    assert_eq!(
        zones,
        [("us-east-1a", "use1-az1"), ("us-east-1b", "use1-az2")]
    );
    assert_eq!(world.region.on_demand(0), Some(0.096));
    assert_eq!(
        world.region.spot(0, 1),
        Some(0.096),
        "no spot price is known yet"
    );
}

#[test]
fn given_prices_are_the_whole_truth() {
    let text = text("prices: {spot: {m5.large: {us-east-1a: 0.03}}}\n");
    let (world, _) = world::read("world.yaml", text.as_bytes(), None).unwrap();
    let mut region = world.region;
    assert_eq!((region.spot(0, 0), region.spot(0, 1)), (Some(0.03), None));
    let before = region.revisions();
    region.set_spot("m5.large", "us-east-1b", Some(0.04));
    assert_eq!(region.spot(0, 1), Some(0.04));
    region.set_spot("m5.large", "us-east-1b", Some(0.04));
    assert_eq!(
        region.revisions().prices,
        before.prices + 1,
        "the same price is no change"
    );
    assert_eq!(region.revisions().types, before.types);
}

#[test]
fn worlds_that_cannot_be_used_say_where_why_and_what_to_do() {
    let kubelet = |settings: &str| {
        text("").replace(
            "    role: r\n",
            &format!("    role: r\n    kubelet: {{{settings}}}\n"),
        )
    };
    let all = [
        String::new(),
        "region: a\n---\nregion: b\n".to_owned(),
        text("zone: us-east-1c\n"),
        text("").replace("region: us-east-1\n", ""),
        text("").replace(
            "zones: {us-east-1a: use1-az1, us-east-1b: use1-az2}",
            "zones: {}",
        ),
        text("").replace("instanceTypes:", "instanceTypes: []\nrefuse:"),
        text("").replace("\"SizeInMiB\":8192", "\"SizeInMiB\":-8192"),
        text("prices: {onDemand: {m5.large: -1}}\n"),
        text("prices: {spot: {m5.large: {us-east-1a: .inf}}}\n"),
        text("prices: {spots: {}}\n"),
        text("freeReservations: {cr-1: -1}\n"),
        text("placementGroups: [{GroupId: pg-1, Strategy: partition, PartitionCount: 8}]\n"),
        text("unavailable: [{instanceType: m5.large}]\n"),
        text("offeredIn: {m5.large: [us-east-1z]}\n"),
        text("").replace("    role: r\n", "    role: r\n    roles: r\n"),
        text("").replace("    role: r\n", "    role: r\n    amiFamily: AL3\n"),
        kubelet("maxPods: -1"),
        kubelet("maxPods: \"vcpus * 4\""),
        kubelet("podsPerCore: many"),
        kubelet("kubeReserved: {gpu: 1}"),
        kubelet("kubeReserved: {memory: -1Gi}"),
        kubelet("systemReserved: {memory: 1Gibi}"),
        kubelet("evictionHard: {memory.available: 101%}"),
        kubelet("evictionHard: {nodefs.available: [5]}"),
        kubelet("evictionHard: 5"),
        text("").replace(
            "    role: r\n",
            "    role: r\n    blockDeviceMappings: [{ebs: {volumeSize: big}}]\n",
        ),
    ];
    let said: Vec<String> = all.iter().map(|text| said(text)).collect();
    expect![[r#"
        world.yaml: has 0 documents where one is expected; a world is one object: region, zones, nodeClass, instanceTypes

        --
        world.yaml: has 2 documents where one is expected; a world is one object: region, zones, nodeClass, instanceTypes

        --
        world.yaml:14 (document 1): zone: is not a known field; remove it, or correct its spelling

        --
        world.yaml:1 (document 1): missing field `region`; add it

        --
        world.yaml:2 (document 1): zones: has 0 zones; name 1 to 64 zones with their ids

        --
        world.yaml: has no usable instance type: nothing can be bought; expected what `aws ec2 describe-instance-types` prints

        --
        world.yaml (document 1, item 1): instance type m5.large: MemoryInfo.SizeInMiB: -8192 is not a number from 0 to 2147483647; give the number that EC2 answers
        world.yaml: has no usable instance type: nothing can be bought; expected what `aws ec2 describe-instance-types` prints

        --
        world.yaml:14 (document 1): prices.onDemand[m5.large]: -1 is not a price; give USD per hour

        --
        world.yaml:14 (document 1): prices.spot.m5.large.us-east-1a: invalid type: string ".inf", expected f64; write a number without quotes

        --
        world.yaml:14 (document 1): prices.spots: is not a known field; remove it, or correct its spelling

        --
        world.yaml:14 (document 1): freeReservations.cr-1: invalid value: integer `-1`, expected u32

        --
        world.yaml:14 (document 1): placementGroups[0].PartitionCount: 8 is not a number of partitions; EC2 allows 1 to 7

        --
        world.yaml:14 (document 1): unavailable[0]: missing field `zone`; add it

        --
        read
        world.yaml:14 (document 1): offeredIn.m5.large: names the zone `us-east-1z`, which is not in `zones`; add or correct it

        --
        world.yaml:11 (document 1): nodeClass.spec.roles: is not a known field; remove it, or correct its spelling; kubectl apply refuses it

        --
        world.yaml:11 (document 1): nodeClass.spec.amiFamily: unknown variant `AL3`, expected one of `AL2`, `AL2023`, `Bottlerocket`, `Custom`, `Windows2019`, `Windows2022`, `Windows2025`

        --
        world.yaml:11 (document 1): nodeClass.spec.kubelet.maxPods: is negative; write 0 or more

        --
        read

        --
        world.yaml:11 (document 1): nodeClass.spec.kubelet.podsPerCore: is not a whole number of 32 bits; write a whole number of 32 bits

        --
        world.yaml:11 (document 1): nodeClass.spec.kubelet.kubeReserved[gpu]: is not a text; write a text

        --
        world.yaml:11 (document 1): nodeClass.spec.kubelet.kubeReserved[memory]: is negative; write it like 100m or 1Gi

        --
        world.yaml:11 (document 1): nodeClass.spec.kubelet.systemReserved[memory]: column 1: a number ends in letters; write 12, 1.5 or 0x1f; unsigned integers are not supported

        --
        world.yaml:11 (document 1): nodeClass.spec.kubelet.evictionHard[memory.available]: `101%` is neither a percentage nor an amount; write it like 5% or 500Mi

        --
        world.yaml:11 (document 1): nodeClass.spec.kubelet.evictionHard[nodefs.available]: is not a text; write a text

        --
        world.yaml:11 (document 1): nodeClass.spec.kubelet.evictionHard: is not a map; write a map

        --
        world.yaml:11 (document 1): nodeClass.spec.blockDeviceMappings[0].ebs.volumeSize: does not start with a number; write it like 100Gi
    "#]].assert_eq(&said.join("\n--\n"));
}

const RESERVED: &str = r#"{"region": "us-east-1", "zones": {"us-east-1a": "use1-az1"},
    "freeReservations": {"cr-1": 2},
    "instanceTypes": [{"InstanceType": "m5.large", "SupportedUsageClasses": ["on-demand", "spot"],
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}, "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 8192},
        "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10}}],
    "nodeClass": {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "one"},
        "spec": {"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        "status": {"capacityReservations": [{"id": "cr-1", "availabilityZone": "us-east-1a",
            "instanceType": "m5.large", "instanceMatchCriteria": "open",
            "ownerID": "012345678901"}]}}}"#;

#[test]
fn each_class_has_rows_of_its_own() {
    let (world, _) = world::read("world", RESERVED.as_bytes(), None).unwrap();
    let one = world.class.unwrap();
    let mut two = one.clone();
    two.name = "two".into();
    two.kubelet.max_pods = Some(5);
    two.reservations.clear();
    let mut names = Symbols::default();
    let mut all = CoreCatalogues::new(&world.region, &mut names);
    for class in [one, two] {
        all.add(Arc::new(ClassCatalogue::new(&world.region, class).unwrap()));
    }
    let catalogue = all.finish();
    let key = names.get(NODE_CLASS).unwrap();
    let rows: Vec<_> = catalogue
        .types()
        .iter()
        .map(|kind| {
            let class = kind.requirements.iter().find(|r| r.key == key).unwrap();
            let Op::In(values) = &class.op else {
                panic!("a row is of one class");
            };
            let pods = kind.allocatable.get(ResourceId::Pods);
            (names.text(values[0]), pods, kind.offerings.len())
        })
        .collect();
    // On demand, spot, and for one of them a reservation.
    assert_eq!(rows, [("one", 29, 3), ("two", 5, 2)]);
    let reserved = catalogue
        .offerings()
        .iter()
        .find_map(|o| o.reservation)
        .unwrap();
    assert_eq!((names.text(reserved.0), reserved.1), ("cr-1", 2));
}

#[test]
fn classes_that_are_alike_share_their_rows() {
    let (world, _) = world::read("world", RESERVED.as_bytes(), None).unwrap();
    let one = world.class.unwrap();
    let named = |name: &str| {
        let mut class = one.clone();
        class.name = name.into();
        class
    };
    let mut other = named("other");
    other.kubelet.max_pods = Some(5);
    let mut names = Symbols::default();
    let mut all = CoreCatalogues::new(&world.region, &mut names);
    for class in [named("a"), other, named("b")] {
        all.add(Arc::new(ClassCatalogue::new(&world.region, class).unwrap()));
    }
    let catalogue = all.finish();
    let key = names.get(NODE_CLASS).unwrap();
    let classes: Vec<Vec<&str>> = catalogue
        .types()
        .iter()
        .map(|kind| {
            let class = kind.requirements.iter().find(|r| r.key == key).unwrap();
            let Op::In(values) = &class.op else {
                panic!("a row is of some classes");
            };
            values.iter().map(|value| names.text(*value)).collect()
        })
        .collect();
    assert_eq!(classes, [vec!["a", "b"], vec!["other"]]);
}

#[test]
fn a_type_that_no_image_fits_is_named_and_not_offered() {
    let world = |architecture: &str| {
        let amis = format!(
            r#""status": {{"amis": [{{"id": "ami-1", "requirements": [{{"key": "kubernetes.io/arch",
                "operator": "In", "values": ["{architecture}"]}}]}}], "#
        );
        let text = RESERVED.replace(r#""status": {"#, &amis);
        world::read("world", text.as_bytes(), None).unwrap().0
    };
    let rows = |architecture: &str| {
        let world = world(architecture);
        let class = ClassCatalogue::new(&world.region, world.class.unwrap()).unwrap();
        let mut names = Symbols::default();
        let mut all = CoreCatalogues::new(&world.region, &mut names);
        all.add(Arc::new(class));
        let catalogue = all.finish();
        let available = catalogue.offerings().iter().filter(|one| one.available);
        let why = catalogue.types()[0].incompatible;
        (available.count(), why.map(|why| names.text(why).to_owned()))
    };
    assert_eq!(rows("amd64"), (3, None));
    let why = "no image in the NodeClass's status fits them".to_owned();
    assert_eq!(rows("arm64"), (0, Some(why)));
}
