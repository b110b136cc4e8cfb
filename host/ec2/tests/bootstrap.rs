//! What a node reads in its user data is what the catalogue counts with; what of user data is
//! refused.

#![allow(
    clippy::unwrap_used,
    reason = "a test ends where its vectors are broken"
)]

use std::io::Read as _;

use expect_test::expect;
use longshore_ec2::bootstrap::{check_text, read_back};
use longshore_ec2::catalogue::{ClassCatalogue, world};
use longshore_ec2::userdata::{Boot, Cluster, Family, MOST_BYTES, Taint, render, resolve};
use serde_json::Value;

fn boot(family: Family) -> Boot {
    Boot {
        cluster: Cluster {
            name: "demo".to_owned(),
            endpoint: "https://demo.eks.example".to_owned(),
            ca_bundle: "Y2EtYnVuZGxl".to_owned(),
            cidr: "10.100.0.0/16".to_owned(),
            kube_dns_ip: "10.100.0.10".to_owned(),
        },
        family,
        image_terms: Vec::new(),
        images: Vec::new(),
        labels: [("team".to_owned(), "a".to_owned())].into(),
        taints: vec![Taint {
            key: "dedicated".to_owned(),
            value: "gpu".to_owned(),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        }],
        kubelet: Default::default(),
        user_data: None,
        raid0: false,
    }
}

/// For every type and every recorded NodeClass: the number of pods, what is reserved and where
/// eviction starts, read back from the node's own user data, give the catalogue's allocatable.
#[test]
fn allocatable_by_a_nodes_own_user_data_is_what_the_catalogue_counts_with() {
    let mut types = Vec::new();
    flate2::read::GzDecoder::new(&include_bytes!("../data/instance_types.json.gz")[..])
        .read_to_end(&mut types)
        .unwrap();
    let (mut compared, mut wrong, mut families) = (0, Vec::new(), Vec::new());
    for line in include_str!("../vectors/types-variants.jsonl").lines() {
        let variant: Value = serde_json::from_str(line).unwrap();
        let text = variant["world"].to_string();
        let (world, _) = world::read("world", text.as_bytes(), Some(("types", &types))).unwrap();
        let class = world.class.unwrap();
        let family = Family::from(class.family);
        // What a custom image does with its user data is not known.
        if family == Family::Custom {
            continue;
        }
        families.push(family);
        let spec = &variant["world"]["nodeClass"]["spec"];
        let class = ClassCatalogue::new(&world.region, class).unwrap();
        for at in 0..world.region.types().len() {
            let machine = class.machine(at);
            let mut boot = boot(family);
            boot.kubelet = spec["kubelet"].as_object().cloned().unwrap_or_default();
            resolve(&mut boot, machine.capacity[3].unwrap().units());
            let said = read_back(family, &render(&boot).unwrap()).unwrap();
            let booted = class.booted(&world.region, at, &said.kubelet);
            let numbers = |machine: &longshore_ec2::catalogue::machine::Machine| {
                machine.allocatable().map(|amount| amount.map(|a| a.milli))
            };
            if numbers(&booted) != numbers(machine) {
                wrong.push((
                    variant["variant"].clone(),
                    world.region.types()[at].name.clone(),
                ));
            }
            compared += 1;
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}: {:?}",
        wrong.len(),
        &wrong[..wrong.len().min(10)]
    );
    assert!(compared > 10_000 && families.contains(&Family::Bottlerocket));
}

#[test]
fn the_built_in_passes_its_own_check() {
    for family in [
        Family::AL2,
        Family::AL2023,
        Family::Bottlerocket,
        Family::Custom,
        Family::Windows2019,
        Family::Windows2022,
        Family::Windows2025,
    ] {
        let mut boot = boot(family);
        resolve(&mut boot, 29);
        let text = render(&boot).unwrap();
        let said = check_text(&boot, text.as_bytes()).unwrap_or_else(|e| panic!("{family:?}: {e}"));
        if family != Family::Custom {
            assert_eq!(said.kubelet.max_pods, Some(29), "{family:?}");
        }
    }
}

#[test]
fn texts_with_which_a_node_would_not_join_are_refused() {
    let mut out = String::new();
    let mut refuse = |family: Family, from: &str, to: &str| {
        let mut boot = boot(family);
        resolve(&mut boot, 29);
        let text = render(&boot).unwrap();
        assert!(text.contains(from), "{family:?} {from:?}: {text}");
        let said = check_text(&boot, text.replace(from, to).as_bytes());
        out.push_str(&format!("{family:?}: {}\n", said.expect_err(from)));
    };
    for (family, from, to) in [
        (Family::AL2, "\n--//--\n", ""),
        (Family::AL2, "MIME-Version", "NIME-Version"),
        (Family::AL2, "/etc/eks/bootstrap.sh", "true"),
        (Family::AL2, "'demo'", "'other'"),
        (Family::AL2, "--b64-cluster-ca", "--ca"),
        (
            Family::AL2,
            "https://demo.eks.example'",
            "https://demo.eks.example",
        ),
        (Family::AL2, "--max-pods=29", "--max-pods=many"),
        (Family::AL2, "dedicated=gpu:NoSchedule,", ""),
        (Family::AL2023, "application/node.eks.aws", "text/plain"),
        (
            Family::AL2023,
            "kind: NodeConfig",
            "kind: NodeConfiguration",
        ),
        (Family::AL2023, "spec:", "spec: ["),
        (Family::AL2023, "cidr:", "other:"),
        (Family::AL2023, "certificateAuthority: ", "ca: "),
        (Family::AL2023, "NoExecute", "NoSchedule"),
        (Family::Bottlerocket, "api-server = ", "api-server "),
        (Family::Bottlerocket, "api-server = ", "apiserver = "),
        (
            Family::Bottlerocket,
            "cluster-name = 'demo'",
            "cluster-name = 'demos'",
        ),
        (Family::Bottlerocket, "node-taints", "node-paints"),
        (Family::Windows2022, "</powershell>", ""),
        (Family::Windows2022, "-EKSClusterName", "-Name"),
        (Family::Windows2022, "-APIServerEndpoint", "-Endpoint"),
        (Family::Windows2022, "'demo'", "'demo"),
        (Family::Custom, "", "\0"),
    ] {
        refuse(family, from, to);
    }
    let boot = boot(Family::Custom);
    for bytes in [vec![b'a'; MOST_BYTES + 1], vec![b'a', 0xff]] {
        out.push_str(&format!("{}\n", check_text(&boot, &bytes).unwrap_err()));
    }
    assert!(check_text(&boot, &vec![b'a'; MOST_BYTES]).is_ok());
    expect![[r#"
        AL2: the MIME archive ends inside part 1; end it with a line `--BOUNDARY--`
        AL2: is neither a MIME archive nor a script: it begins with `NIME-Version: 1.0` and not with `#!`
        AL2: nothing calls /etc/eks/bootstrap.sh; a node would not join
        AL2: the cluster's name is `other`; a node would join elsewhere
        AL2: the cluster's CA is missing; a node would not join
        AL2: the call of bootstrap.sh has a quote that is not closed
        AL2: --max-pods=many is not a number
        AL2: the taint dedicated:NoSchedule is missing; pods would start too early
        AL2023: no part is a NodeConfig (application/node.eks.aws)
        AL2023: its NodeConfig has another kind than NodeConfig
        AL2023: its NodeConfig is not YAML: is not YAML: while parsing a flow mapping, did not find expected ',' or '}'
        AL2023: spec.cluster.cidr is missing or another; AL2023 cannot boot without it
        AL2023: the cluster's CA is missing; a node would not join
        AL2023: the taint karpenter.sh/unregistered:NoExecute is missing; pods would start too early
        Bottlerocket: is not TOML: line 3: key with no value, expected `=`
        Bottlerocket: settings.kubernetes.apiserver is not a setting of Bottlerocket, which would refuse all of the user data
        Bottlerocket: the cluster's name is `demos`; a node would join elsewhere
        Bottlerocket: settings.kubernetes.node-paints is not a setting of Bottlerocket, which would refuse all of the user data
        Windows2022: has no <powershell> with a </powershell> after it; nothing would run
        Windows2022: nothing calls Start-EKSBootstrap.ps1 with -EKSClusterName; a node would not join
        Windows2022: the API server's URL is missing; a node would not join
        Windows2022: the call of Start-EKSBootstrap.ps1 has a quote that is not closed
        Custom: has a NUL character
        16385 bytes; EC2 takes at most 16384 before they are encoded
        not UTF-8 from byte 1 on
    "#]].assert_eq(&out);
}

#[test]
fn a_merged_text_that_ec2_would_refuse_has_place_reason_and_hint() {
    let mut boot = boot(Family::AL2);
    boot.user_data = Some(format!("#!/bin/sh\n{}", "#".repeat(MOST_BYTES - 300)));
    let fault = render(&boot).unwrap_err();
    expect!["userData: makes a text of 16587 bytes (16094 are yours); EC2 takes at most 16384; shorten it, or let a short script fetch the rest"].assert_eq(&format!("{fault}; {}", fault.hint));
}
