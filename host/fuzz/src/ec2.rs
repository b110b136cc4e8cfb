//! Readers of EC2NodeClasses and of user data.

use longshore_ec2::userdata::{Boot, Cluster, Family, Fault, nodes, render, resolve};
use longshore_ec2::{hash, nodeclass as class, validation};

/// Any bytes are read as EC2NodeClasses, hashed and checked, and as nodes to render.
pub fn nodeclass(bytes: &[u8]) {
    let (classes, problems) = class::read("a", bytes);
    let _ = problems.to_string();
    for class in classes {
        assert!(
            class
                .metadata
                .name
                .as_ref()
                .is_some_and(|name| !name.is_empty())
        );
        let _ = hash::nodeclass_hash(&class, None);
        let _ = validation::kubelet(class.spec.kubelet());
        let _ = validation::rules(&class.spec);
    }
    let (hashed, problems) = hash::hashes("a", bytes, Some("Y2E="));
    let _ = problems.to_string();
    assert!(hashed.iter().all(|one| one.hash.parse::<u64>().is_ok()));
    let (rendered, problems) = nodes("a", bytes);
    let _ = problems.to_string();
    assert!(
        rendered
            .iter()
            .all(|one| one.error.is_empty() || one.user_data.is_empty())
    );
}

/// Any text is merged into an archive of MIME, or refused. The part that joins stands last.
pub fn userdata_mime(bytes: &[u8]) {
    if let Some(Ok(text)) = rendered(Family::AL2, bytes) {
        assert!(text.starts_with("MIME-Version: 1.0\n") && text.ends_with("\n--//--\n"));
        let join = text.rfind("\n/etc/eks/bootstrap.sh 'demo'");
        assert!(join.is_some_and(|at| text[at..].matches("--//\n").count() == 0));
    }
}

/// Any text is merged as settings, or refused. What was merged is TOML, joins the cluster, and
/// stays the same if it is merged again.
pub fn userdata_toml(bytes: &[u8]) {
    if let Some(Ok(text)) = rendered(Family::Bottlerocket, bytes) {
        assert!(text.contains("\napi-server = 'https://demo.eks.example'\n"));
        let again = rendered(Family::Bottlerocket, text.as_bytes());
        assert_eq!(again, Some(Ok(text)));
    }
}

/// Any text is merged with a NodeConfig, or refused. Ours stands last.
pub fn userdata_yaml(bytes: &[u8]) {
    if let Some(Ok(text)) = rendered(Family::AL2023, bytes) {
        let ours = text.rfind("# Karpenter Generated NodeConfig\n");
        assert!(ours.is_some_and(|at| text[at..].ends_with("\n--//--\n")));
    }
}

fn rendered(family: Family, bytes: &[u8]) -> Option<Result<String, Fault>> {
    let user_data = std::str::from_utf8(bytes).ok()?.to_owned();
    let mut boot = Boot {
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
        labels: Default::default(),
        taints: Vec::new(),
        kubelet: Default::default(),
        user_data: Some(user_data),
        raid0: true,
    };
    resolve(&mut boot, 29);
    Some(render(&boot))
}
