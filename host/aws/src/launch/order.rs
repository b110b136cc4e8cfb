//! The planner's order of a claim's offerings, where it is not the order of prices.
//!
//! A scorer or a NodeOverlay can make a dearer offering the better one. EC2 knows nothing of that: it
//! compares its own prices. The daemon then writes the annotation [`LAUNCH_ORDER`], and the values of
//! the claim's requirement on the instance type stand best first.

use std::collections::BTreeMap;

use longshore_api::labels::{INSTANCE_TYPE, LAUNCH_ORDER, LAUNCH_ZONE, PRICE_OVERLAY};
use longshore_cloud::{Launch, Operator};
use longshore_ec2::launch::CapacityType;

use super::{Choice, Region};

/// An order.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    places: BTreeMap<&'a str, usize>,
    capacity_type: CapacityType,
    /// The zone that the planner counts on.
    zone: Option<&'a str>,
}

impl<'a> Order<'a> {
    /// The order of a claim, if it has one.
    pub fn of(launch: &'a Launch) -> Option<Self> {
        let word = launch.annotations.get(LAUNCH_ORDER)?;
        let kinds = [
            CapacityType::OnDemand,
            CapacityType::Spot,
            CapacityType::Reserved,
        ];
        let capacity_type = kinds.into_iter().find(|kind| kind.as_str() == word)?;
        let mut all = launch.requirements.iter();
        let types = all.find(|one| one.key == INSTANCE_TYPE && one.operator == Operator::In)?;
        let names = types.values.iter().map(String::as_str);
        Some(Order {
            places: names.zip(0..).collect(),
            capacity_type,
            zone: launch.annotations.get(LAUNCH_ZONE).map(String::as_str),
        })
    }

    /// The capacity type that is bought if it can be.
    pub fn capacity_type(&self) -> CapacityType {
        self.capacity_type
    }

    /// The place of an instance type: the least is the best.
    pub fn place(&self, instance_type: &str) -> usize {
        let place = self.places.get(instance_type);
        place.copied().unwrap_or(usize::MAX)
    }

    /// A number for each of a choice's offerings, from 0: types by their place, zones of a type by
    /// price after the one that the planner counts on. EC2 takes whole numbers.
    pub fn ranks(&self, region: &Region, choice: &Choice) -> Vec<usize> {
        let all = &choice.offerings;
        let mut sorted: Vec<usize> = (0..all.len()).collect();
        let place = |at: usize| self.place(&region.types()[all[at].at].name);
        let is_other_zone = |at: usize| {
            let zone = &region.zones()[all[at].zone].name;
            self.zone.is_some_and(|planned| planned != &**zone)
        };
        sorted.sort_by(|&a, &b| {
            let by_place = place(a).cmp(&place(b));
            let by_zone = is_other_zone(a).cmp(&is_other_zone(b));
            let by_price = all[a].price.total_cmp(&all[b].price);
            by_place.then(by_zone).then(by_price)
        });
        let mut ranks = vec![0; all.len()];
        for (rank, at) in sorted.into_iter().enumerate() {
            ranks[at] = rank;
        }
        ranks
    }
}

/// Whether a claim was made with prices that NodeOverlays have changed: it has the annotation,
/// whatever its value.
pub fn has_price_overlay(launch: &Launch) -> bool {
    launch.annotations.contains_key(PRICE_OVERLAY)
}
