//! The request of a fleet, and what its reply means.
//!
//! The token is the claim's UID or that of a launch group. After an attempt that ended without an
//! instance it is the same and a number: EC2 answers a token that it has seen with the first reply.
//! So the parameters must not change between two sendings of a token; a request that was sent once is
//! kept until its reply is known.

use std::collections::BTreeMap;

use longshore_cloud::{CloudError, Launch, OfferingName, Shortage, UNAVAILABLE_SECONDS};
use longshore_ec2::catalogue::{Region, Short};
use longshore_ec2::launch::{CapacityType, Template};

use super::Choice;
use super::order::{Order, has_price_overlay};
use crate::error::{Class, Wording, classify, launch_reason};
use crate::records::Tags;

/// Tag of an instance with the UID of its NodeClaim: by it an instance is found whose launch had no
/// reply.
pub const UID_TAG: &str = "longshore.dev/nodeclaim-uid";
/// Tag of an instance with the token of its launch group, in place of the other.
pub const GROUP_TAG: &str = "longshore.dev/launch-group";
/// Annotation of claims for which `spec.context` is left out.
const RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";

/// Overrides that a fleet takes.
const MAX_OVERRIDES: usize = 300;
/// Launch template configurations that a fleet takes; EC2 refuses more.
const MAX_CONFIGS: usize = 50;

/// Which market a fleet buys on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Market {
    /// On demand, also for ordinary reservations.
    OnDemand,
    /// Spot.
    Spot,
    /// A capacity block.
    CapacityBlock,
    /// An interruptible reservation.
    Interruptible,
}

/// A request for one instance, or for those of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// The idempotency token.
    pub token: String,
    /// How many instances are wanted.
    pub count: usize,
    /// The market.
    pub market: Market,
    /// How capacity is bought.
    pub capacity_type: CapacityType,
    /// Whether priorities decide instead of prices.
    pub prioritized: bool,
    /// `spec.context` of the NodeClass.
    pub context: Option<String>,
    /// The placement group.
    pub group: Option<Box<str>>,
    /// Its partition, from 1; 0 for any.
    pub partition: i64,
    /// Templates and what may be launched from each.
    pub configs: Vec<Config>,
    /// Tags of instance, volume and fleet.
    pub tags: Tags,
}

impl Fleet {
    /// What may be launched from a template; from all of them if it has no name.
    fn overrides_of(&self, template: &str) -> impl Iterator<Item = &Override> {
        let fits = move |config: &&Config| template.is_empty() || config.template == template;
        let configs = self.configs.iter().filter(fits);
        configs.flat_map(|config| &config.overrides)
    }
}

/// A launch template and its overrides.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The template's name.
    pub template: String,
    /// Annotation of the claim for the user data, see [`longshore_ec2::bootstrap::drift::DIGEST`].
    pub digest: String,
    /// What may be launched.
    pub overrides: Vec<Override>,
}

/// A type in a subnet.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The type.
    pub instance_type: String,
    /// The subnet.
    pub subnet: String,
    /// The subnet's zone.
    pub zone: String,
    /// The image.
    pub image: String,
    /// Its place in the planner's order: the least comes first. Without one, the price.
    pub priority: f64,
    /// The reservation that the template aims at.
    pub reservation: Option<Box<str>>,
}

/// What is asked for besides the choice.
#[derive(Clone, Debug)]
pub struct Asking<'a> {
    /// The claim. Of a group one of them, with the group's token for a UID.
    pub launch: &'a Launch,
    /// How many instances are wanted. No more are asked for than reservations have room for.
    pub count: usize,
    /// The number of the attempt, from 0.
    pub attempt: u32,
    /// Tags of the NodeClass and of the cluster.
    pub tags: Tags,
    /// `spec.context` of the NodeClass.
    pub context: Option<String>,
}

/// Makes the request. `subnet` chooses the subnet of a zone. Overrides beyond 300 are left out, the
/// dearest first, and so are those of templates beyond 50. Nothing if no offering has a template and
/// a subnet.
pub fn request(
    asking: &Asking<'_>,
    region: &Region,
    choice: &Choice,
    templates: &[Template],
    subnet: impl Fn(usize) -> Option<String>,
) -> Option<Fleet> {
    let ranks = Order::of(asking.launch).map(|order| order.ranks(region, choice));
    let (mut left, mut used) = (MAX_OVERRIDES, 0);
    let mut configs: Vec<Config> = templates
        .iter()
        .map(|template| Config {
            template: template.request.name.clone(),
            digest: template.digest.clone(),
            overrides: Vec::new(),
        })
        .collect();
    // Offerings of the best types come first, so that the others are those that find no room.
    for (number, chosen) in choice.offerings.iter().enumerate() {
        let held = chosen.reservation.as_ref().map(|held| &held.id);
        let fits = |template: &Template| {
            template.types.contains(&chosen.at) && template.reservation.as_ref() == held
        };
        let Some(at) = templates.iter().position(fits) else {
            continue;
        };
        let Some(subnet) = subnet(chosen.zone) else {
            continue;
        };
        if left == 0 {
            break;
        }
        // A policy may give each type user data of its own, and so a template.
        if configs[at].overrides.is_empty() {
            if used == MAX_CONFIGS {
                continue;
            }
            used += 1;
        }
        left -= 1;
        configs[at].overrides.push(Override {
            instance_type: region.types()[chosen.at].name.to_string(),
            subnet,
            zone: region.zones()[chosen.zone].name.to_string(),
            image: templates[at].request.data.image_id.clone(),
            priority: match &ranks {
                Some(ranks) => ranks[number] as f64,
                None => chosen.price,
            },
            reservation: held.cloned(),
        });
    }
    configs.retain(|config| !config.overrides.is_empty());
    if configs.is_empty() {
        return None;
    }
    let held = choice
        .offerings
        .iter()
        .find_map(|chosen| chosen.reservation.as_ref());
    let market = match held {
        Some(held) if &*held.kind == "capacity-block" => Market::CapacityBlock,
        Some(held) if held.interruptible => Market::Interruptible,
        _ if choice.capacity_type == CapacityType::Spot => Market::Spot,
        _ => Market::OnDemand,
    };
    let relaxed = asking.launch.annotations.get(RELAXED);
    let placement = templates.first().map(|one| &one.request.data.placement);
    let group = placement.and_then(|of| of.group_id.as_deref());
    Some(Fleet {
        token: token(&asking.launch.uid, asking.attempt),
        count: asking.count.min(room(choice)).max(1),
        market,
        capacity_type: choice.capacity_type,
        prioritized: ranks.is_some() || has_price_overlay(asking.launch),
        context: asking
            .context
            .clone()
            .filter(|_| relaxed.is_none_or(|relaxed| relaxed != "true")),
        group: group.map(Into::into),
        partition: choice.partition.map_or(0, i64::from),
        configs,
        tags: asking.tags.clone(),
    })
}

/// How many instances a choice can be launched as: those that its reservations have left.
pub(super) fn room(choice: &Choice) -> usize {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for chosen in &choice.offerings {
        let Some(held) = &chosen.reservation else {
            return usize::MAX;
        };
        left.insert(&held.id, usize::try_from(held.free).unwrap_or(usize::MAX));
    }
    left.into_values().fold(0, usize::saturating_add)
}

/// The token of an attempt.
pub fn token(uid: &str, attempt: u32) -> String {
    match attempt {
        0 => uid.to_owned(),
        _ => format!("{uid}-{attempt}"),
    }
}

/// The reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// Instances, with where they are.
    pub instances: Vec<Launched>,
    /// What could not be launched, and why.
    pub errors: Vec<Refused>,
}

/// An instance of the reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launched {
    /// Its ID.
    pub id: String,
    /// Its type.
    pub instance_type: String,
    /// Its zone.
    pub zone: String,
    /// Its subnet.
    pub subnet: String,
    /// Its image.
    pub image: String,
    /// The name of its template.
    pub template: String,
}

/// An error of the reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refused {
    /// The code.
    pub code: String,
    /// The message.
    pub message: String,
    /// The type that was asked for.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// The subnet.
    pub subnet: String,
    /// The name of the template.
    pub template: String,
}

/// What is known after a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum FleetOutcome {
    /// There are instances, at least one. If they are fewer than were wanted, why.
    Launched(Vec<Launched>, Option<CloudError>),
    /// A launch template is gone: they are made again, and another attempt is made.
    TemplateGone(Vec<String>),
    /// There is none.
    Failed(CloudError),
}

/// What a reply means. Errors beside all the instances that were wanted are for [`remember`] alone.
pub fn outcome(fleet: &Fleet, reply: &Reply) -> FleetOutcome {
    let there = reply.instances.iter().filter(|one| !one.id.is_empty());
    let all: Vec<Launched> = there.map(|one| complete(fleet, one)).collect();
    if all.is_empty() {
        return refused(fleet, reply);
    }
    let short = match refused(fleet, reply) {
        _ if all.len() >= fleet.count || reply.errors.is_empty() => None,
        FleetOutcome::Failed(why) => Some(why),
        _ => Some(CloudError::Other("launch templates are gone".to_owned())),
    };
    FleetOutcome::Launched(all, short)
}

/// What the errors of a reply mean.
fn refused(fleet: &Fleet, reply: &Reply) -> FleetOutcome {
    let class = |one: &Refused| classify(&one.code, &one.message);
    let gone = |one: &&Refused| class(one) == Class::TemplateGone;
    if reply.errors.iter().any(|one| gone(&one)) {
        let names = reply
            .errors
            .iter()
            .filter(gone)
            .map(|one| one.template.clone());
        let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            names = fleet
                .configs
                .iter()
                .map(|config| config.template.clone())
                .collect();
        }
        names.sort();
        names.dedup();
        return FleetOutcome::TemplateGone(names);
    }
    let short = |one: &&Refused| {
        let class = class(one);
        let full = Wording::of(&one.message) == Some(Wording::SpreadFull);
        full || matches!(
            class,
            Class::Capacity | Class::SubnetFull | Class::Quota | Class::SpotRole
        )
    };
    if reply.errors.is_empty() {
        let text = "the fleet has neither an instance nor an error".to_owned();
        return FleetOutcome::Failed(CloudError::Other(text));
    }
    // What stands first is the reason of all.
    let (capacity, others): (Vec<&Refused>, Vec<&Refused>) = reply.errors.iter().partition(short);
    let text = [errors(&others), errors(&capacity)].concat().join("; ");
    if others.is_empty() {
        let mut offerings: Vec<OfferingName> = capacity
            .into_iter()
            .filter_map(|one| shortage(fleet, one))
            .collect();
        offerings.sort();
        offerings.dedup();
        return FleetOutcome::Failed(CloudError::InsufficientCapacity(Shortage {
            message: text,
            offerings,
        }));
    }
    FleetOutcome::Failed(match others.first().map(|worst| class(worst)) {
        Some(Class::Throttled) => CloudError::Throttled(text),
        Some(Class::Unauthorized) => CloudError::Unauthorized(text),
        Some(Class::Invalid | Class::NotFound) => CloudError::Invalid(text),
        _ => CloudError::Other(text),
    })
}

/// The offering that is short for every launch of its capacity type. Nothing where only a subnet, a
/// reservation or a placement group is: the region remembers these.
fn shortage(fleet: &Fleet, one: &Refused) -> Option<OfferingName> {
    let class = classify(&one.code, &one.message);
    let general = matches!(class, Class::Capacity | Class::Quota)
        && fleet.group.is_none()
        && fleet.capacity_type != CapacityType::Reserved;
    (general && !one.instance_type.is_empty()).then(|| OfferingName {
        instance_type: one.instance_type.clone(),
        zone: one.zone.clone(),
        capacity_type: fleet.capacity_type.as_str().to_owned(),
    })
}

/// What the reply leaves out is what the request says.
fn complete(fleet: &Fleet, one: &Launched) -> Launched {
    let mut one = one.clone();
    let same = |own: &&Override| {
        own.instance_type == one.instance_type
            && (one.subnet.is_empty() || own.subnet == one.subnet)
            && (one.zone.is_empty() || own.zone == one.zone)
    };
    if let Some(own) = fleet.overrides_of(&one.template).find(same).cloned() {
        let fill = |text: &mut String, own: &str| {
            if text.is_empty() {
                own.clone_into(text);
            }
        };
        fill(&mut one.subnet, &own.subnet);
        fill(&mut one.zone, &own.zone);
        fill(&mut one.image, &own.image);
    }
    one
}

/// Each error once, with the reason that users of Karpenter know.
fn errors(all: &[&Refused]) -> Vec<String> {
    let text = |one: &&Refused| {
        let reason = launch_reason(&one.code, &one.message);
        let call = crate::calls::Call::CreateFleet;
        let error = crate::error::ApiError::new(call, &one.code, &one.message);
        let hint = match error.hint() {
            hint if hint.is_empty() => hint,
            hint => format!("; {hint}"),
        };
        format!("{reason}: {}: {}{hint}", one.code, one.message)
    };
    let mut texts: Vec<String> = all.iter().map(text).collect();
    texts.sort();
    texts.dedup();
    texts
}

/// Leaves out of the region what a reply says has no capacity.
pub fn remember(fleet: &Fleet, reply: &Reply, region: &mut Region, now: i64) {
    let until = now + UNAVAILABLE_SECONDS;
    let capacity_type = fleet.capacity_type.as_str();
    for one in &reply.errors {
        let reservation = reservation_of(fleet, one);
        if Wording::of(&one.message) == Some(Wording::SpreadFull) {
            let asked = fleet.configs.iter().flat_map(|config| &config.overrides);
            let mut types: Vec<&str> = asked
                .filter(|own| own.zone == one.zone)
                .map(|own| &*own.instance_type)
                .collect();
            types.sort_unstable();
            types.dedup();
            region.change_unavailable(|all| {
                for name in types {
                    let short = Short {
                        capacity_type: capacity_type.into(),
                        zone: (*one.zone).into(),
                        reservation: reservation.clone(),
                        group: fleet.group.clone(),
                        partition: 0,
                    };
                    all.mark(name, short, until);
                }
            });
            continue;
        }
        match (classify(&one.code, &one.message), &reservation) {
            (Class::SubnetFull, _) if !one.subnet.is_empty() => {
                region.change_unavailable(|all| all.mark_subnet(&one.subnet, until));
            }
            (Class::SpotRole, _) => {
                region.change_unavailable(|all| all.mark_capacity_type("spot", until));
            }
            (Class::Capacity, Some(id)) if one.code == "ReservationCapacityExceeded" => {
                region.set_free(id, 0);
            }
            (Class::Capacity | Class::Quota, _) => {
                // A reservation is short wherever it is used; other capacity within the group.
                let group = fleet.group.clone().filter(|_| reservation.is_none());
                let short = Short {
                    capacity_type: capacity_type.into(),
                    zone: (*one.zone).into(),
                    partition: if group.is_some() { fleet.partition } else { 0 },
                    reservation,
                    group,
                };
                region.change_unavailable(|all| all.mark(&one.instance_type, short, until));
            }
            _ => {}
        }
    }
}

fn reservation_of(fleet: &Fleet, one: &Refused) -> Option<Box<str>> {
    let same = |own: &&Override| own.instance_type == one.instance_type && own.zone == one.zone;
    let mut all = fleet.overrides_of(&one.template);
    all.find(same)?.reservation.clone()
}

/// Leaves out every override of a fleet that was refused whole for want of capacity, when the error
/// names no offering.
pub fn whole(fleet: &Fleet, code: &str, message: &str) -> Reply {
    let refused = |config: &Config, one: &Override| Refused {
        code: code.to_owned(),
        message: message.to_owned(),
        instance_type: one.instance_type.clone(),
        zone: one.zone.clone(),
        subnet: one.subnet.clone(),
        template: config.template.clone(),
    };
    Reply {
        instances: Vec::new(),
        errors: fleet
            .configs
            .iter()
            .flat_map(|config| config.overrides.iter().map(|one| refused(config, one)))
            .collect(),
    }
}
