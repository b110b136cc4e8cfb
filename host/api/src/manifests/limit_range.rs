//! LimitRanges: default requests of a namespace's containers. Existing pods have the defaults in
//! their spec, because admission adds them; pod templates do not.

use longshore_core::model::Resources;
use serde::Deserialize;

use super::builder::{LimitRange, ObjectsBuilder};
use super::diagnostic::{Fault, Path};
use super::object::{amount, resource};
use super::wire::{Amount, List, Map, Meta, Text, only_from_maps};

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireLimitRange<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<WireLimitRangeSpec<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
struct WireLimitRangeSpec<'a> {
    #[serde(borrow)]
    limits: List<WireLimit<'a>>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
struct WireLimit<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    default: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    default_request: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    max: Map<'a, Amount<'a>>,
    #[serde(borrow)]
    min: Map<'a, Amount<'a>>,
}

only_from_maps!(WireLimitRange<'a>, WireLimitRangeSpec<'a>, WireLimit<'a>);

/// Takes a LimitRange in. Entries for containers alone have defaults; where they give no default
/// for a request, it is the default for the limit, that is the maximum where there is none, or else
/// the minimum.
pub(super) fn read(wire: WireLimitRange<'_>, objects: &mut ObjectsBuilder) -> Result<(), Fault> {
    let namespace = objects.namespace(&wire.metadata);
    let names = &mut objects.world.names;
    let spec = wire.spec.unwrap_or_default();
    let spec_at = Path::Root.field("spec");
    let all_at = spec_at.field("limits");
    let mut requests = Resources::default();
    for (index, limit) in spec
        .limits
        .iter()
        .enumerate()
        .filter(|(_, limit)| &*limit.kind == "Container")
    {
        let at = all_at.index(index);
        // From the weakest to the strongest, and of several entries the last.
        for (field, amounts) in [
            ("min", &limit.min),
            ("max", &limit.max),
            ("default", &limit.default),
            ("defaultRequest", &limit.default_request),
        ] {
            for (name, value) in amounts.iter() {
                let value = amount(name, value, at.field(field).key(name))?;
                requests.set(resource(name, names), value);
            }
        }
    }
    objects.limit_ranges.push(LimitRange {
        namespace,
        requests,
    });
    Ok(())
}
