//! The image that an instance type starts from.

use std::collections::BTreeMap;

use longshore_api::crd::Operator;

use crate::nodeclass::{Ami, AmiRequirement};

use super::class_catalogue::ClassCatalogue;
use super::region::Region;

/// The first of `images` whose requirements the labels of the type with index `at` meet.
pub fn image_of<'a>(
    region: &Region,
    catalogue: &ClassCatalogue,
    images: &'a [Ami],
    at: usize,
) -> Option<&'a Ami> {
    let mut labels: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let asked = |key: &str| {
        let mut all = images.iter().flat_map(|image| &image.requirements);
        all.any(|requirement| requirement.key == key)
    };
    if !images.is_empty() {
        catalogue.labels(region, at, &mut |key, values| {
            if !asked(key) {
                return;
            }
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            labels.insert(key, values);
        });
    }
    let meets = |image: &&Ami| image.requirements.iter().all(|one| met(one, &labels));
    images.iter().find(meets)
}

/// Whether a type that has these labels, each with its possible values, can meet a requirement.
fn met(requirement: &AmiRequirement, labels: &BTreeMap<&'static str, Vec<String>>) -> bool {
    let values = labels
        .get(requirement.key.as_str())
        .map_or(&[][..], Vec::as_slice);
    let listed = |value: &String| requirement.values.contains(value);
    let number = |value: &String| value.parse::<i64>().ok();
    let bound = requirement.values.first().and_then(number);
    let some = |holds: fn(i64, i64) -> bool| {
        let holds = |(value, bound)| holds(value, bound);
        values
            .iter()
            .filter_map(number)
            .any(|value| bound.map(|bound| (value, bound)).is_some_and(holds))
    };
    match requirement.operator {
        Operator::In => values.iter().any(listed),
        Operator::NotIn => values.is_empty() || !values.iter().all(listed),
        Operator::Exists => !values.is_empty(),
        Operator::DoesNotExist => values.is_empty(),
        Operator::Gt => some(|value, bound| value > bound),
        Operator::Lt => some(|value, bound| value < bound),
        Operator::Gte => some(|value, bound| value >= bound),
        Operator::Lte => some(|value, bound| value <= bound),
    }
}
