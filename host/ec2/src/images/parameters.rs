//! SSM parameters of images that Amazon publishes.

use crate::nodeclass::{Alias, AmiFamily};

/// What an image is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// Instances without accelerators.
    Standard,
    /// Instances with GPUs.
    Nvidia,
    /// Instances with AWS' own accelerators.
    Neuron,
    /// Windows, of a build.
    Windows(&'static str),
}

/// A parameter that holds an image's ID, and what the image is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter's name.
    pub name: String,
    /// One image may serve several variants.
    pub variants: Vec<Variant>,
}

/// An alias that has no images for a version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are no images of {family} for Kubernetes {version}")]
pub struct Unsupported {
    /// The family, as in the alias.
    pub family: &'static str,
    /// The version of Kubernetes.
    pub version: String,
}

/// The parameters of an alias in a cluster of a Kubernetes version such as `1.35`. A parameter that
/// does not exist is skipped by whoever asks. Fails for AL2 from 1.33 on and for Windows Server 2025
/// before 1.35.
pub fn parameters(alias: &Alias<'_>, kubernetes: &str) -> Result<Vec<Parameter>, Unsupported> {
    let minor = kubernetes
        .split('.')
        .nth(1)
        .and_then(|minor| minor.parse::<u32>().ok());
    let unsupported = |family| {
        Err(Unsupported {
            family,
            version: kubernetes.to_owned(),
        })
    };
    match alias.family {
        AmiFamily::AL2 if minor.is_some_and(|minor| minor >= 33) => unsupported("al2"),
        AmiFamily::Windows2025 if minor.is_some_and(|minor| minor < 35) => {
            unsupported("windows2025")
        }
        AmiFamily::AL2 => Ok(al2(alias, kubernetes)),
        AmiFamily::AL2023 => Ok(al2023(alias, kubernetes)),
        AmiFamily::Bottlerocket => Ok(bottlerocket(alias, kubernetes)),
        AmiFamily::Windows2019 => Ok(windows("2019", "10.0.17763", kubernetes)),
        AmiFamily::Windows2022 => Ok(windows("2022", "10.0.20348", kubernetes)),
        AmiFamily::Windows2025 => Ok(windows("2025", "10.0.26100", kubernetes)),
        AmiFamily::Custom => Ok(Vec::new()),
    }
}

fn parameter(name: String, variants: &[Variant]) -> Parameter {
    Parameter {
        name,
        variants: variants.to_vec(),
    }
}

fn al2(alias: &Alias<'_>, kubernetes: &str) -> Vec<Parameter> {
    let of = |suffix: &str, node: &str, variants: &[Variant]| {
        let release = match alias.is_latest() {
            true => "recommended".to_owned(),
            false => format!("amazon-eks-{node}-{kubernetes}-{}", alias.version),
        };
        let name = format!(
            "/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2{suffix}/{release}/image_id"
        );
        parameter(name, variants)
    };
    vec![
        of("", "node", &[Variant::Standard]),
        of("-arm64", "arm64-node", &[Variant::Standard]),
        of("-gpu", "gpu-node", &[Variant::Nvidia, Variant::Neuron]),
    ]
}

fn al2023(alias: &Alias<'_>, kubernetes: &str) -> Vec<Parameter> {
    let of = |architecture: &str, variant: Variant, word: &str| {
        let release = match alias.is_latest() {
            true => "recommended".to_owned(),
            false => format!(
                "amazon-eks-node-al2023-{architecture}-{word}-{kubernetes}-{}",
                alias.version
            ),
        };
        let name = format!(
            "/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{architecture}/{word}/\
             {release}/image_id"
        );
        parameter(name, &[variant])
    };
    vec![
        of("x86_64", Variant::Standard, "standard"),
        of("arm64", Variant::Standard, "standard"),
        of("x86_64", Variant::Nvidia, "nvidia"),
        of("arm64", Variant::Nvidia, "nvidia"),
        of("x86_64", Variant::Neuron, "neuron"),
    ]
}

fn bottlerocket(alias: &Alias<'_>, kubernetes: &str) -> Vec<Parameter> {
    let version = alias.version.strip_prefix('v').unwrap_or(alias.version);
    let of = |suffix: &str, architecture: &str, variants: &[Variant]| {
        let name = format!(
            "/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{architecture}/{version}/\
             image_id"
        );
        parameter(name, variants)
    };
    vec![
        of("", "x86_64", &[Variant::Standard, Variant::Neuron]),
        of("", "arm64", &[Variant::Standard]),
        of("-nvidia", "x86_64", &[Variant::Nvidia]),
        of("-nvidia", "arm64", &[Variant::Nvidia]),
    ]
}

fn windows(year: &str, build: &'static str, kubernetes: &str) -> Vec<Parameter> {
    let name = format!(
        "/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-\
         {kubernetes}/image_id"
    );
    vec![parameter(name, &[Variant::Windows(build)])]
}
