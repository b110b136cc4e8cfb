//! Selection: the images that terms select, those that are of use, in order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use longshore_api::crd::Operator;

use super::{Image, Parameter, Variant};
use crate::nodeclass::{Ami, AmiRequirement, AmiSelectorTerm};

const ARCH: &str = "kubernetes.io/arch";
const OS: &str = "kubernetes.io/os";
const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";

/// What selection depends on besides terms and images.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// The account that asks, which `self` stands for.
    pub account: &'a str,
    /// The time, as in [`Image::deprecation_time`].
    pub now: &'a str,
    /// The parameters of the alias, if a term has one ([`super::parameters()`]).
    pub alias: &'a [Parameter],
    /// What parameters held, by name or ARN. One that does not exist is absent.
    pub values: BTreeMap<String, String>,
}

/// The images that terms select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// For `status.amis`.
    pub amis: Vec<Ami>,
    /// Parameters that do not exist. If all of an alias are here, the alias is of no use.
    pub missing: Vec<String>,
    /// Images that were left out for their architecture: `ami-1 (i386)`.
    pub unusable: Vec<String>,
}

/// A parameter that holds something else than an image's ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the SSM parameter {parameter} holds {value:?}, which is not the ID of an image")]
pub struct NotAnImage {
    /// The parameter's name.
    pub parameter: String,
    /// What it holds.
    pub value: String,
}

/// Selects images. Of those with the same requirements one is kept: one that is not deprecated, then
/// the newest, then the one with the greater name. The newest stand first, then by ID. Images of
/// architectures that no instance type has are left out.
pub fn discover(
    terms: &[AmiSelectorTerm],
    images: &[Image],
    context: &Context<'_>,
) -> Result<Selected, NotAnImage> {
    let mut selected = Selected::default();
    // What is known of images by ID: those of an alias have variants.
    let mut variants: BTreeMap<&str, Vec<Variant>> = BTreeMap::new();
    let mut ids: BTreeSet<&str> = BTreeSet::new();
    let value = |name: &str, missing: &mut Vec<String>| match context.values.get(name) {
        None => {
            missing.push(name.to_owned());
            Ok(None)
        }
        Some(id) if id.starts_with("ami-") => Ok(Some(id.as_str())),
        Some(other) => Err(NotAnImage {
            parameter: name.to_owned(),
            value: other.clone(),
        }),
    };
    for parameter in context.alias {
        if let Some(id) = value(&parameter.name, &mut selected.missing)? {
            ids.insert(id);
            variants.entry(id).or_default().extend(&parameter.variants);
        }
    }
    for term in terms {
        if let Some(id) = &term.id {
            ids.insert(id);
        } else if let Some(name) = &term.ssm_parameter {
            ids.extend(value(name, &mut selected.missing)?);
        }
    }
    let others: Vec<&AmiSelectorTerm> = terms
        .iter()
        .filter(|term| term.id.is_none() && term.ssm_parameter.is_none() && term.alias.is_none())
        .collect();
    let mut best: BTreeMap<Vec<(String, Vec<String>)>, (&Image, Ami)> = BTreeMap::new();
    for image in images {
        let by_id = ids.contains(image.id.as_str());
        if !by_id
            && !others
                .iter()
                .any(|term| matches(term, image, context.account))
        {
            continue;
        }
        let Some(architecture) = architecture(&image.architecture) else {
            let left_out = format!("{} ({})", image.id, image.architecture);
            selected.unusable.push(left_out);
            continue;
        };
        let of_image = variants
            .get(image.id.as_str())
            .map_or(&[][..], Vec::as_slice);
        let sets = match of_image {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        };
        for variant in sets {
            let ami = ami(image, architecture, variant, context.now);
            let identity = ami.requirements.iter();
            let identity = identity
                .map(|one| {
                    (
                        format!("{} {}", one.key, one.operator.as_str()),
                        one.values.clone(),
                    )
                })
                .collect();
            match best.get(&identity) {
                Some((old, kept))
                    if better(old, kept.deprecated, image, ami.deprecated).is_ge() => {}
                _ => drop(best.insert(identity, (image, ami))),
            }
        }
    }
    let mut all: Vec<(&Image, Ami)> = best.into_values().collect();
    all.sort_by(|(a, _), (b, _)| {
        let newest = b.creation_date.cmp(&a.creation_date);
        newest.then_with(|| a.id.cmp(&b.id))
    });
    selected.amis = all.into_iter().map(|(_, ami)| ami).collect();
    Ok(selected)
}

/// How `old` compares with `new`: greater is better.
fn better(old: &Image, old_deprecated: bool, new: &Image, new_deprecated: bool) -> Ordering {
    new_deprecated
        .cmp(&old_deprecated)
        .then_with(|| old.creation_date.cmp(&new.creation_date))
        .then_with(|| old.name.cmp(&new.name))
}

fn architecture(word: &str) -> Option<&'static str> {
    match word {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}

fn ami(image: &Image, architecture: &str, variant: Option<Variant>, now: &str) -> Ami {
    let is = |key: &str, value: &str| AmiRequirement {
        key: key.to_owned(),
        operator: Operator::In,
        values: vec![value.to_owned()],
    };
    let has = |key: &str, operator: Operator| AmiRequirement {
        key: key.to_owned(),
        operator,
        values: Vec::new(),
    };
    let mut requirements = vec![is(ARCH, architecture)];
    requirements.extend(match variant {
        None => Vec::new(),
        Some(Variant::Standard) => vec![
            has(ACCELERATOR_COUNT, Operator::DoesNotExist),
            has(GPU_COUNT, Operator::DoesNotExist),
        ],
        Some(Variant::Nvidia) => vec![has(GPU_COUNT, Operator::Exists)],
        Some(Variant::Neuron) => vec![has(ACCELERATOR_COUNT, Operator::Exists)],
        Some(Variant::Windows(build)) => vec![is(OS, "windows"), is(WINDOWS_BUILD, build)],
    });
    requirements.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
    Ami {
        id: image.id.clone(),
        deprecated: image
            .deprecation_time
            .as_deref()
            .is_some_and(|time| time <= now),
        name: Some(image.name.clone()),
        requirements,
    }
}

/// Whether a term with a name, tags or an owner selects an image. A term with a name looks at images
/// of the own account and of Amazon, unless it names an owner. A term with tags alone looks at all.
fn matches(term: &AmiSelectorTerm, image: &Image, account: &str) -> bool {
    let owned_by = |owner: &str| match owner {
        "self" => image.owner_id == account,
        owner => image.owner_id == owner || image.owner_alias.as_deref() == Some(owner),
    };
    let owner = match (&term.owner, &term.name) {
        (Some(owner), _) => owned_by(owner),
        (None, Some(_)) => owned_by("self") || owned_by("amazon"),
        (None, None) => true,
    };
    let tags = term.tags.iter().flatten().all(|(key, wanted)| {
        image
            .tags
            .get(key)
            .is_some_and(|value| wanted == "*" || like(wanted, value))
    });
    let named = term
        .name
        .as_ref()
        .is_none_or(|pattern| like(pattern, &image.name));
    let says = term.name.is_some() || term.tags.as_ref().is_some_and(|tags| !tags.is_empty());
    says && owner && tags && named
}

/// Whether a text has a form with `*` for any characters and `?` for one, as EC2's filters do.
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut here) = (0, 0);
    // Where the last star was, and where its match ends.
    let mut star: Option<(usize, usize)> = None;
    while here < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, here));
                at += 1;
            }
            Some(c) if *c == '?' || *c == text[here] => {
                at += 1;
                here += 1;
            }
            _ => match &mut star {
                Some((from, end)) => {
                    *end += 1;
                    (at, here) = (*from + 1, *end);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}
