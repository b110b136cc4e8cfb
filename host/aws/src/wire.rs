//! Calls of the SDK: plain records in, plain records out. Only these modules and
//! [`clients`](crate::clients) name types of the SDK.

pub mod cluster;
pub mod fleet;
pub mod instances;
pub mod network;
pub mod prices;
pub mod profiles;
pub mod queue;
pub mod scores;
pub mod status;
pub mod templates;
pub mod types;
pub mod zonal_shift;

use aws_sdk_ec2::types::{Filter, ResourceType, Tag, TagSpecification};

use crate::records::{Filters, Tags};

/// Filters of EC2.
fn filters(all: &Filters) -> Option<Vec<Filter>> {
    let filter = |(name, values): &(String, Vec<String>)| {
        let builder = Filter::builder().name(name);
        builder.set_values(Some(values.clone())).build()
    };
    (!all.is_empty()).then(|| all.iter().map(filter).collect())
}

/// Tags from an answer.
fn tags(all: &[Tag]) -> Tags {
    let pair = |tag: &Tag| {
        Some((
            tag.key()?.to_owned(),
            tag.value().unwrap_or_default().to_owned(),
        ))
    };
    all.iter().filter_map(pair).collect()
}

/// Tags of a kind of resource.
fn specification<'a>(
    kind: &str,
    tags: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> TagSpecification {
    let tag = |(key, value): (&String, &String)| Tag::builder().key(key).value(value).build();
    let tags = tags.into_iter().map(tag).collect();
    TagSpecification::builder()
        .resource_type(ResourceType::from(kind))
        .set_tags(Some(tags))
        .build()
}

fn owned(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}
