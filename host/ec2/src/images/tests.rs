use expect_test::{Expect, expect};

use super::*;
use crate::nodeclass::{Alias, AmiSelectorTerm};

fn image(id: &str, name: &str, architecture: &str, day: u32) -> Image {
    Image {
        id: format!("ami-{id}"),
        name: name.to_owned(),
        architecture: architecture.to_owned(),
        creation_date: format!("2026-01-{day:02}T00:00:00.000Z"),
        owner_id: "111122223333".to_owned(),
        ..Image::default()
    }
}

fn terms(json: &str) -> Vec<AmiSelectorTerm> {
    serde_json::from_str(json).unwrap()
}

fn context() -> Context<'static> {
    Context {
        account: "111122223333",
        now: "2026-06-01T00:00:00.000Z",
        ..Context::default()
    }
}

fn shown(found: Result<Selected, NotAnImage>, expected: Expect) {
    let text = match found {
        Err(error) => error.to_string(),
        Ok(found) => {
            let mut lines: Vec<String> = found
                .amis
                .iter()
                .map(|ami| {
                    let short = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
                    let requirements: Vec<String> = ami
                        .requirements
                        .iter()
                        .map(|one| {
                            let values = one.values.join(",");
                            format!("{} {} {values}", short(&one.key), one.operator.as_str())
                        })
                        .collect();
                    let mark = if ami.deprecated { " (deprecated)" } else { "" };
                    let requirements = requirements.join("; ");
                    format!("{}{mark}: {}", ami.id, requirements.trim_end())
                })
                .collect();
            lines.extend(found.missing.iter().map(|name| format!("missing {name}")));
            lines.join("\n")
        }
    };
    expected.assert_eq(&text);
}

#[test]
fn an_alias_has_parameters() {
    let names = |alias: &str, version: &str| {
        let alias = Alias::parse(alias).unwrap();
        match parameters(&alias, version) {
            Err(error) => error.to_string(),
            Ok(all) => {
                let line = |one: &Parameter| format!("{} {:?}", one.name, one.variants);
                all.iter().map(line).collect::<Vec<_>>().join("\n")
            }
        }
    };
    let mut out = String::new();
    for (alias, version) in [
        ("al2@latest", "1.32"),
        ("al2@v20240807", "1.32"),
        ("al2@latest", "1.33"),
        ("al2023@latest", "1.35"),
        ("al2023@v20240807", "1.35"),
        ("bottlerocket@latest", "1.35"),
        ("bottlerocket@v1.20.1", "1.35"),
        ("windows2022@latest", "1.35"),
        ("windows2025@latest", "1.34"),
        ("windows2025@latest", "1.35"),
    ] {
        out += &format!("{alias} {version}\n{}\n", names(alias, version));
    }
    expect![[r#"
        al2@latest 1.32
        /aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id [Standard]
        /aws/service/eks/optimized-ami/1.32/amazon-linux-2-arm64/recommended/image_id [Standard]
        /aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id [Nvidia, Neuron]
        al2@v20240807 1.32
        /aws/service/eks/optimized-ami/1.32/amazon-linux-2/amazon-eks-node-1.32-v20240807/image_id [Standard]
        /aws/service/eks/optimized-ami/1.32/amazon-linux-2-arm64/amazon-eks-arm64-node-1.32-v20240807/image_id [Standard]
        /aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20240807/image_id [Nvidia, Neuron]
        al2@latest 1.33
        there are no images of al2 for Kubernetes 1.33
        al2023@latest 1.35
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id [Standard]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/recommended/image_id [Standard]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/image_id [Nvidia]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia/recommended/image_id [Nvidia]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/recommended/image_id [Neuron]
        al2023@v20240807 1.35
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.35-v20240807/image_id [Standard]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.35-v20240807/image_id [Standard]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.35-v20240807/image_id [Nvidia]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.35-v20240807/image_id [Nvidia]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.35-v20240807/image_id [Neuron]
        bottlerocket@latest 1.35
        /aws/service/bottlerocket/aws-k8s-1.35/x86_64/latest/image_id [Standard, Neuron]
        /aws/service/bottlerocket/aws-k8s-1.35/arm64/latest/image_id [Standard]
        /aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/latest/image_id [Nvidia]
        /aws/service/bottlerocket/aws-k8s-1.35-nvidia/arm64/latest/image_id [Nvidia]
        bottlerocket@v1.20.1 1.35
        /aws/service/bottlerocket/aws-k8s-1.35/x86_64/1.20.1/image_id [Standard, Neuron]
        /aws/service/bottlerocket/aws-k8s-1.35/arm64/1.20.1/image_id [Standard]
        /aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/1.20.1/image_id [Nvidia]
        /aws/service/bottlerocket/aws-k8s-1.35-nvidia/arm64/1.20.1/image_id [Nvidia]
        windows2022@latest 1.35
        /aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.35/image_id [Windows("10.0.20348")]
        windows2025@latest 1.34
        there are no images of windows2025 for Kubernetes 1.34
        windows2025@latest 1.35
        /aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.35/image_id [Windows("10.0.26100")]
    "#]].assert_eq(&out);
}

#[test]
fn images_of_an_alias_have_variants() {
    let alias = Alias::parse("bottlerocket@latest").unwrap();
    let all = parameters(&alias, "1.35").unwrap();
    let mut context = context();
    context.alias = &all;
    for (parameter, id) in all.iter().zip(["ami-a", "ami-b", "ami-c"]) {
        context.values.insert(parameter.name.clone(), id.to_owned());
    }
    let images = [
        image("a", "standard", "x86_64", 1),
        image("b", "standard-arm", "arm64", 1),
        image("c", "nvidia", "x86_64", 2),
        image("d", "another", "x86_64", 3),
    ];
    shown(
        discover(
            &terms(r#"[{"alias":"bottlerocket@latest"}]"#),
            &images,
            &context,
        ),
        expect![[r#"
            ami-c: arch In amd64; instance-gpu-count Exists
            ami-a: arch In amd64; instance-accelerator-count Exists
            ami-a: arch In amd64; instance-gpu-count DoesNotExist ; instance-accelerator-count DoesNotExist
            ami-b: arch In arm64; instance-gpu-count DoesNotExist ; instance-accelerator-count DoesNotExist
            missing /aws/service/bottlerocket/aws-k8s-1.35-nvidia/arm64/latest/image_id"#]],
    );
}

#[test]
fn of_images_for_the_same_machines_the_best_is_kept() {
    let mut old = image("1", "a", "x86_64", 9);
    old.deprecation_time = Some("2026-02-01T00:00:00.000Z".to_owned());
    let images = [
        old,
        image("2", "a", "x86_64", 1),
        image("3", "b", "x86_64", 1),
        image("4", "a", "arm64", 1),
        image("5", "a", "i386", 5),
        image("6", "a", "arm64_mac", 5),
    ];
    let ids = r#"[{"id":"ami-1"},{"id":"ami-2"},{"id":"ami-3"},{"id":"ami-4"},{"id":"ami-5"},{"id":"ami-6"},{"id":"ami-7"}]"#;
    shown(
        discover(&terms(ids), &images, &context()),
        expect![[r#"
            ami-3: arch In amd64
            ami-4: arch In arm64"#]],
    );
    shown(
        discover(&terms(r#"[{"id":"ami-1"}]"#), &images, &context()),
        expect!["ami-1 (deprecated): arch In amd64"],
    );
}

#[test]
fn names_tags_and_owners_select() {
    let owned = |id: &str, name: &str, owner: &str, alias: Option<&str>, tags: &[(&str, &str)]| {
        let mut image = image(id, name, "x86_64", id.len() as u32);
        image.owner_id = owner.to_owned();
        image.owner_alias = alias.map(str::to_owned);
        let tags = tags.iter();
        image.tags = tags
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        image
    };
    let images = [
        owned(
            "mine",
            "my-image-1",
            "111122223333",
            None,
            &[("team", "blue")],
        ),
        owned(
            "theirs",
            "my-image-2",
            "999900001111",
            None,
            &[("team", "red"), ("x", "")],
        ),
        owned("amazons", "my-image-3", "137112412989", Some("amazon"), &[]),
    ];
    let mut out = String::new();
    for text in [
        r#"[{"name":"my-image-?"}]"#,
        r#"[{"name":"my-*","owner":"999900001111"}]"#,
        r#"[{"name":"my-*","owner":"self"}]"#,
        r#"[{"name":"my-*","owner":"amazon"}]"#,
        r#"[{"name":"*-image-2"}]"#,
        r#"[{"tags":{"team":"*"}}]"#,
        r#"[{"tags":{"team":"r*"}}]"#,
        r#"[{"tags":{"team":"red","x":"*"}}]"#,
        r#"[{"tags":{"team":"red"},"owner":"self"}]"#,
        r#"[{"tags":{"team":"red"},"name":"my-image-2"}]"#,
        r#"[{"owner":"self"}]"#,
        r#"[{"id":"ami-theirs","ssmParameter":"x"}]"#,
    ] {
        let found = discover(&terms(text), &images, &context()).unwrap();
        let ids: Vec<&str> = found.amis.iter().map(|ami| ami.id.as_str()).collect();
        out += &format!("{text} {ids:?}\n");
    }
    expect![[r#"
        [{"name":"my-image-?"}] ["ami-amazons"]
        [{"name":"my-*","owner":"999900001111"}] ["ami-theirs"]
        [{"name":"my-*","owner":"self"}] ["ami-mine"]
        [{"name":"my-*","owner":"amazon"}] ["ami-amazons"]
        [{"name":"*-image-2"}] []
        [{"tags":{"team":"*"}}] ["ami-theirs"]
        [{"tags":{"team":"r*"}}] ["ami-theirs"]
        [{"tags":{"team":"red","x":"*"}}] ["ami-theirs"]
        [{"tags":{"team":"red"},"owner":"self"}] []
        [{"tags":{"team":"red"},"name":"my-image-2"}] []
        [{"owner":"self"}] []
        [{"id":"ami-theirs","ssmParameter":"x"}] ["ami-theirs"]
    "#]]
    .assert_eq(&out);
}

#[test]
fn parameters_of_terms_hold_ids() {
    let images = [image("1", "a", "x86_64", 1)];
    let mut context = context();
    let mut with = |value: Option<&str>, expected: Expect| {
        context.values.clear();
        if let Some(value) = value {
            context.values.insert("/mine".to_owned(), value.to_owned());
        }
        let terms = terms(r#"[{"ssmParameter":"/mine"}]"#);
        shown(discover(&terms, &images, &context), expected);
    };
    with(Some("ami-1"), expect!["ami-1: arch In amd64"]);
    with(None, expect!["missing /mine"]);
    with(
        Some("x"),
        expect![[r#"the SSM parameter /mine holds "x", which is not the ID of an image"#]],
    );
}
