//! `minValues`: how many values of a label the types of a launch must have between them.

use std::collections::BTreeSet;

use longshore_cloud::{CloudError, Launch};
use longshore_ec2::catalogue::{ClassCatalogue, Region};

use super::Chosen;

/// Fails if the types of a choice have too few values of a label that the claim admits.
pub(super) fn check(
    region: &Region,
    catalogue: &ClassCatalogue,
    launch: &Launch,
    choice: &[Chosen],
) -> Result<(), CloudError> {
    if launch.min_values.is_empty() {
        return Ok(());
    }
    let types: BTreeSet<usize> = choice.iter().map(|one| one.at).collect();
    let mut found: BTreeSet<(&str, String)> = BTreeSet::new();
    for at in types {
        catalogue.labels(region, at, &mut |key, values| {
            if let Some((key, _)) = launch.min_values.get_key_value(key) {
                let admitted = values
                    .iter()
                    .filter(|value| launch.admits(key, Some(value)));
                found.extend(admitted.map(|value| (&**key, (*value).to_owned())));
            }
        });
    }
    for (key, least) in &launch.min_values {
        let count = found.iter().filter(|(of, _)| of == key).count();
        if count < *least {
            let what = format!(
                "the offerings for NodeClaim {} have {count} values of {key}, and its minValues \
                 asks for {least}",
                launch.name
            );
            return Err(CloudError::InsufficientCapacity(what.into()));
        }
    }
    Ok(())
}
