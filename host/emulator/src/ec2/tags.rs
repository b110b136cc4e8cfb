//! Tags in requests and replies, and their limits.

use std::collections::BTreeMap;

use crate::wire::{Refusal, Scope, Xml, items, text};

/// `tagSet`; nothing without tags.
pub(super) fn tag_set(tags: &BTreeMap<String, String>) -> Option<Xml> {
    let tag = |(key, value): (&String, &String)| vec![text("key", key), text("value", value)];
    (!tags.is_empty()).then(|| items("tagSet", tags.iter().map(tag)))
}

/// Tags for one type of resource among `TagSpecification.N`.
pub(super) fn tags_for(
    scope: &Scope,
    list: &str,
    resource: &str,
) -> Result<BTreeMap<String, String>, Refusal> {
    let mut tags = BTreeMap::new();
    for specification in scope.list(list) {
        let wanted = specification.get("ResourceType") == Some(resource);
        for tag in specification.list("Tag") {
            let pair = (tag.get("Key"), tag.get("Value").unwrap_or_default());
            let (Some(key), value, true) = (pair.0, pair.1, wanted) else {
                continue;
            };
            tag_allowed(key, value)?;
            if tags.insert(key.to_owned(), value.to_owned()).is_some() {
                let message = format!("Duplicate tag key '{key}' specified.");
                return Err(Refusal::new("InvalidParameterValue", message));
            }
        }
    }
    few_tags(tags.len())?;
    Ok(tags)
}

/// Most tags of a resource.
const MAX_TAGS: usize = 50;

/// A resource may have so many tags.
pub(super) fn few_tags(count: usize) -> Result<(), Refusal> {
    match count > MAX_TAGS {
        true => Err(Refusal::new(
            "TagLimitExceeded",
            format!("More than {MAX_TAGS} tags specified"),
        )),
        false => Ok(()),
    }
}

/// Keys have up to 127 characters and are not AWS's own, values up to 256.
pub(super) fn tag_allowed(key: &str, value: &str) -> Result<(), Refusal> {
    let refused = |message: String| Err(Refusal::new("InvalidParameterValue", message));
    if key.to_ascii_lowercase().starts_with("aws:") {
        return refused(format!(
            "Tag keys starting with 'aws:' are reserved for internal use: {key}"
        ));
    }
    if key.is_empty() || key.chars().count() > 127 {
        return refused(format!(
            "Tag key exceeds the maximum length of 127 characters: '{key}'"
        ));
    }
    if value.chars().count() > 256 {
        return refused(format!(
            "Tag value exceeds the maximum length of 256 characters: '{value}'"
        ));
    }
    Ok(())
}
