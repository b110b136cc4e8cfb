//! What a fleet has bought and was refused, and the reply that says so.

use super::super::launch::Place;
use super::request::{Market, Wanted};
use crate::wire::{Refusal, Xml, element, items, text};
use crate::world::World;

/// What a fleet has bought and was refused.
#[derive(Default)]
pub(super) struct Bought {
    pub instances: Vec<((usize, usize, Market), Place, Vec<String>)>,
    pub errors: Vec<(usize, usize, Market, Refusal)>,
}

impl Bought {
    pub(super) fn refuse(
        &mut self,
        (config, at): (usize, usize),
        market: Market,
        refusal: Refusal,
    ) {
        let known = |one: &(usize, usize, Market, Refusal)| {
            (one.0, one.1, &one.3) == (config, at, &refusal)
        };
        if !self.errors.iter().any(known) {
            self.errors.push((config, at, market, refusal));
        }
    }

    pub(super) fn add(&mut self, key: (usize, usize, Market), place: &Place, id: String) {
        match self
            .instances
            .iter_mut()
            .find(|(own, held, _)| *own == key && held == place)
        {
            Some((_, _, ids)) => ids.push(id),
            None => self.instances.push((key, place.clone(), vec![id])),
        }
    }
}

/// The inside of the reply.
pub(super) fn shown(world: &World, wanted: &Wanted, bought: &Bought, fleet: String) -> Vec<Xml> {
    let lifecycle = |market: Market, place: Option<&Place>| match (market, place) {
        (Market::Spot, _) => "spot".to_owned(),
        (Market::Reserved, Some(place)) => place
            .market
            .clone()
            .unwrap_or_else(|| "on-demand".to_owned()),
        _ => "on-demand".to_owned(),
    };
    let errors = bought.errors.iter().map(|(config, at, market, refusal)| {
        vec![
            chosen(world, wanted, (*config, *at), None),
            text("lifecycle", lifecycle(*market, None)),
            text("errorCode", &refusal.code),
            text("errorMessage", &refusal.message),
        ]
    });
    let instances = bought
        .instances
        .iter()
        .map(|((config, at, market), place, ids)| {
            vec![
                chosen(world, wanted, (*config, *at), Some(place)),
                text("lifecycle", lifecycle(*market, Some(place))),
                element("instanceIds", ids.iter().map(|id| text("item", id))),
                text("instanceType", &place.instance_type),
            ]
        });
    vec![
        text("fleetId", fleet),
        items("errorSet", errors),
        items("fleetInstanceSet", instances),
    ]
}

/// Template and override of a pool; of an instance, with where it was launched.
fn chosen(
    world: &World,
    wanted: &Wanted,
    (config, at): (usize, usize),
    place: Option<&Place>,
) -> Xml {
    let config = &wanted.configs[config];
    let one = &config.overrides[at];
    let name = config.name.clone();
    let name = name.or_else(|| {
        world
            .templates
            .get(&config.template)
            .map(|own| own.name.clone())
    });
    let mut specification = vec![text("launchTemplateId", &config.template)];
    specification.extend(name.map(|name| text("launchTemplateName", name)));
    // The number that `$Latest` stands for.
    specification.extend(config.version.as_ref().map(|_| text("version", 1)));
    let kind = place
        .map(|place| &place.instance_type)
        .or(one.instance_type.as_ref());
    let subnet = place.map(|place| &place.subnet).or(one.subnet.as_ref());
    let zone = place.map(|place| &place.zone).or(one.zone.as_ref());
    let image = one.image.as_ref();
    let mut inside = Vec::new();
    inside.extend(kind.map(|kind| text("instanceType", kind)));
    inside.extend(subnet.map(|subnet| text("subnetId", subnet)));
    inside.extend(zone.map(|zone| text("availabilityZone", zone)));
    inside.extend(one.max_price.map(|price| text("maxPrice", price)));
    inside.extend(one.weight.map(|weight| text("weightedCapacity", weight)));
    inside.extend(one.priority.map(|priority| text("priority", priority)));
    inside.extend(image.map(|image| text("imageId", image)));
    element(
        "launchTemplateAndOverrides",
        [
            element("launchTemplateSpecification", specification),
            element("overrides", inside),
        ],
    )
}
