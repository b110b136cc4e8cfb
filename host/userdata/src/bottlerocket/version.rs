//! The version of Bottlerocket that a node boots.

use super::super::boot::Boot;

/// Major, minor and patch.
pub(super) type Version = (u64, u64, u64);

/// The image's version: from the alias, else from a term's name, else from the name of the image
/// that a term names by ID, else from the name of any Bottlerocket image that was found. `latest`
/// is above all. `None` if nothing says.
pub(super) fn version(boot: &Boot) -> Option<Version> {
    let terms = &boot.image_terms;
    if let Some(alias) = terms.iter().find_map(|term| term.alias.as_deref()) {
        let version = alias.split_once('@').map_or("", |(_, version)| version);
        return match version {
            "latest" => Some((u64::MAX, 0, 0)),
            version => numbers(version.strip_prefix('v').unwrap_or(version)),
        };
    }
    let of_image = |id: Option<&str>| {
        let images = boot
            .images
            .iter()
            .filter(|image| id.is_none_or(|id| image.id == id));
        let names = images.filter_map(|image| image.name.as_deref());
        names
            .filter(|name| name.contains("bottlerocket"))
            .find_map(in_name)
    };
    let named = terms.iter().find_map(|term| in_name(term.name.as_deref()?));
    let by_id = || {
        terms
            .iter()
            .find_map(|term| of_image(Some(term.id.as_deref()?)))
    };
    named.or_else(by_id).or_else(|| of_image(None))
}

/// The version in an image's name, such as `bottlerocket-aws-k8s-1.31-x86_64-v1.46.0-abc`.
fn in_name(name: &str) -> Option<Version> {
    name.match_indices('v')
        .find_map(|(at, _)| numbers(&name[at + 1..]))
}

/// Three numbers with points between them, at the start of a text.
fn numbers(text: &str) -> Option<Version> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let mut parts = text[..end].split('.').map(str::parse::<u64>);
    let mut next = || parts.next().and_then(Result::ok);
    Some((next()?, next()?, next()?))
}
