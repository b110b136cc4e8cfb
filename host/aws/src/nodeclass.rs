//! The status of an EC2NodeClass, from what AWS was found to have.
//!
//! [`status`] is a function of the object and what was [`Observed`]. What could not be asked leaves
//! what was known: a class stays ready while EC2 is slow, and while the process's credentials are not
//! accepted. What is not permitted makes its condition false and names the action that a policy has
//! to allow.
//!
//! Conditions are Karpenter's; each part is observed at its own pace ([`PACE`]).

use std::collections::{BTreeMap, BTreeSet};

use longshore_api::crd::{Condition, ConditionStatus, Time, Timestamp, condition, set_condition};
use longshore_ec2::catalogue::Region;
use longshore_ec2::images::{NotAnImage, Selected, Unsupported};
pub use longshore_ec2::nodeclass::FINALIZER;
pub use longshore_ec2::nodeclass::due::{PACE, Part};
use longshore_ec2::nodeclass::{
    CapacityReservation, EC2NodeClass, EC2NodeClassStatus, MatchCriteria, ReservationState,
    ReservationType, SecurityGroup, Subnet,
};
use longshore_ec2::validation::{self, Verdict};

use crate::error::{ApiError, Class, Wording};
use crate::records::{GroupFacts, PlacementFacts, ReservationFacts, SubnetFacts};

/// A capacity block counts as expiring this long before its end, in seconds: 40 minutes. EC2 takes
/// its instances back 30 minutes before the end.
pub const EXPIRING_SECONDS: i64 = 40 * 60;

/// What was found. `None` for what was not asked for.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Images.
    pub images: Option<Result<Selected, ImageFault>>,
    /// Capacity reservations; nothing without the gate ReservedCapacity.
    pub reservations: Option<Result<Vec<ReservationFacts>, ApiError>>,
    /// The placement group that is selected.
    pub placement: Option<Result<Option<PlacementFacts>, ApiError>>,
    /// Subnets.
    pub subnets: Option<Result<Vec<SubnetFacts>, ApiError>>,
    /// Security groups.
    pub groups: Option<Result<Vec<GroupFacts>, ApiError>>,
    /// The name of the instance profile.
    pub profile: Option<Result<String, ProfileFault>>,
    /// What the dry runs said.
    pub probe: Option<Probe>,
}

/// Why no images are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageFault {
    /// The alias has no images for the cluster's version.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A parameter holds something else.
    #[error(transparent)]
    NotAnImage(#[from] NotAnImage),
    /// A call failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Why there is no instance profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileFault {
    /// The role does not exist.
    #[error("the role {0} does not exist; create it or correct spec.role")]
    NoRole(String),
    /// A call failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// What the dry runs of a launch said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Nothing is against it, or the settings say not to ask.
    Passed,
    /// The class is valid, and could not be tried yet.
    Later(String),
    /// EC2 does not see the class's instance profile yet, which may be new.
    NoProfileYet(String),
    /// Nodes cannot be launched: reason and message.
    Failed(&'static str, String),
}

/// What a dry run that failed says. A class is at fault for a right that is missing and for user data
/// that is too large; all else is tried again.
pub fn probe_failed(error: &ApiError) -> Probe {
    use crate::calls::Call;
    if error.class == Class::AsWished {
        return Probe::Passed;
    }
    let reason = match (Wording::of(&error.message), error.call) {
        (Some(Wording::UserDataTooLarge), _) => "UserDataSizeLimitExceeded",
        (Some(Wording::ProfileUnknown | Wording::ProfileWithoutRole), _) => {
            return Probe::NoProfileYet(error.lasting());
        }
        _ if error.code != "UnauthorizedOperation" => return Probe::Later(error.lasting()),
        (_, Call::CreateLaunchTemplate) => "CreateLaunchTemplateAuthCheckFailed",
        (_, Call::CreateFleet) => "CreateFleetAuthCheckFailed",
        _ => "RunInstancesAuthCheckFailed",
    };
    Probe::Failed(reason, error.lasting())
}

/// Minor versions of Kubernetes 1 that nodes are known to join.
const KUBERNETES: std::ops::RangeInclusive<u16> = 26..=37;

/// What is said of a minor version of Kubernetes that nothing is known of.
pub fn unknown_kubernetes(minor: Option<u16>) -> Option<String> {
    let minor = minor.filter(|minor| !KUBERNETES.contains(minor))?;
    let (first, last) = (KUBERNETES.start(), KUBERNETES.end());
    Some(format!(
        "Kubernetes 1.{minor} is not one of the versions 1.{first} to 1.{last} that Longshore knows"
    ))
}

/// The conditions that Ready follows from, in Karpenter's order.
fn parts(object: &EC2NodeClass, observed: &Observed) -> Vec<&'static str> {
    let status = object.status.as_ref();
    let has = |type_| status.is_some_and(|own| condition(&own.conditions, type_).is_some());
    let reserved = observed.reservations.is_some() || has(RESERVATIONS);
    let mut all = vec![IMAGES, SUBNETS, GROUPS, PROFILE, PLACEMENT];
    if reserved {
        all.push(RESERVATIONS);
    }
    all.push(VALIDATION);
    all
}

pub(crate) const IMAGES: &str = "AMIsReady";
pub(crate) const SUBNETS: &str = "SubnetsReady";
pub(crate) const GROUPS: &str = "SecurityGroupsReady";
pub(crate) const PROFILE: &str = "InstanceProfileReady";
pub(crate) const PLACEMENT: &str = "PlacementGroupReady";
pub(crate) const RESERVATIONS: &str = "CapacityReservationsReady";
const VALIDATION: &str = "ValidationSucceeded";
const READY: &str = "Ready";

/// The next status of a class. `now` is in seconds since 1970.
pub fn status(
    object: &EC2NodeClass,
    observed: &Observed,
    region: &Region,
    now: i64,
) -> EC2NodeClassStatus {
    let mut writer = Writer {
        status: object.status.clone().unwrap_or_default(),
        generation: object.metadata.generation,
        now: Time(Timestamp::from_second(now).unwrap_or_default()),
    };
    writer.images(object, observed);
    writer.reservations(observed, now);
    writer.placement(object, observed);
    writer.subnets(observed);
    writer.groups(observed);
    writer.profile(observed);
    writer.validation(object, observed, region);
    writer.ready(&parts(object, observed));
    writer.status
}

struct Writer {
    status: EC2NodeClassStatus,
    generation: Option<i64>,
    now: Time,
}

impl Writer {
    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let now = self.now.clone();
        let conditions = &mut self.status.conditions;
        set_condition(conditions, type_, status, reason, message, now);
        if let Some(own) = conditions.iter_mut().find(|own| own.type_ == type_) {
            own.observed_generation = self.generation;
        }
    }

    fn is_true(&mut self, type_: &str) {
        self.set(type_, ConditionStatus::True, type_, "");
    }

    fn is_false(&mut self, type_: &str, reason: &str, message: &str) {
        self.set(type_, ConditionStatus::False, reason, message);
    }

    fn state(&self, type_: &str) -> Option<ConditionStatus> {
        condition(&self.status.conditions, type_).map(|own| own.status)
    }

    /// A part that was not asked for: what was known stands, and counts for this generation.
    fn stands(&mut self, type_: &str) {
        if self.state(type_).is_none() {
            self.set(
                type_,
                ConditionStatus::Unknown,
                "AwaitingReconciliation",
                "",
            );
        }
    }

    /// A part that could not be asked for.
    fn failed(&mut self, type_: &str, error: &ApiError) {
        match (error.class, self.state(type_)) {
            (Class::Unauthorized, _) if !error.concerns_credentials() => {
                self.is_false(type_, "Unauthorized", &error.lasting());
            }
            (_, Some(ConditionStatus::True)) => {}
            _ => {
                let message = error.lasting();
                self.set(type_, ConditionStatus::Unknown, "RequestFailed", &message);
            }
        }
    }

    fn images(&mut self, object: &EC2NodeClass, observed: &Observed) {
        match &observed.images {
            None => self.stands(IMAGES),
            Some(Ok(found)) if found.amis.is_empty() => {
                self.status.amis = Vec::new();
                let mut message = "spec.amiSelectorTerms select no image".to_owned();
                if !found.unusable.is_empty() {
                    let names = found.unusable.join(", ");
                    message += &format!(
                        " of an architecture that nodes can have: {names}; select images of \
                         x86_64 or arm64"
                    );
                } else if let [first, others @ ..] = &*found.missing {
                    let mut terms = object.spec.ami_selector_terms.iter();
                    if let Some(alias) = terms.find_map(|term| term.alias.as_deref()) {
                        message += &format!("; see that the version of {alias} exists");
                    }
                    message += &format!("; there is no SSM parameter {first}");
                    if !others.is_empty() {
                        message += &format!(", and {} more do not exist", others.len());
                    }
                } else if let Some(alias) = object.spec.alias() {
                    message += &format!("; see that the version {} exists", alias.version);
                } else {
                    message += "; see that IDs, names and tags are those of images in this region, \
                                and that the owner is right";
                }
                self.is_false(IMAGES, "AMINotFound", &message);
            }
            Some(Ok(found)) => {
                self.status.amis.clone_from(&found.amis);
                self.is_true(IMAGES);
            }
            Some(Err(ImageFault::Unsupported(fault))) => {
                self.status.amis = Vec::new();
                self.is_false(IMAGES, "UnsupportedAlias", &fault.to_string());
            }
            Some(Err(ImageFault::NotAnImage(fault))) => {
                self.status.amis = Vec::new();
                self.is_false(IMAGES, "AMINotFound", &fault.to_string());
            }
            Some(Err(ImageFault::Api(error))) => self.failed(IMAGES, error),
        }
    }

    fn reservations(&mut self, observed: &Observed, now: i64) {
        match &observed.reservations {
            None => {}
            Some(Err(error)) => self.failed(RESERVATIONS, error),
            Some(Ok(found)) => {
                self.status.capacity_reservations = reservations(found, now);
                self.is_true(RESERVATIONS);
            }
        }
    }

    fn placement(&mut self, object: &EC2NodeClass, observed: &Observed) {
        let Some(selector) = &object.spec.placement_group_selector else {
            return self.is_true(PLACEMENT);
        };
        let name = selector.name.as_deref().or(selector.id.as_deref());
        let name = name.unwrap_or_default();
        match &observed.placement {
            None => self.stands(PLACEMENT),
            Some(Err(error)) => self.failed(PLACEMENT, error),
            Some(Ok(Some(group))) if group.state == "available" => self.is_true(PLACEMENT),
            Some(Ok(Some(group))) => {
                let message = format!("placement group {name} is {}", group.state);
                self.is_false(PLACEMENT, "PlacementGroupNotFound", &message);
            }
            Some(Ok(None)) => {
                let message = format!(
                    "placement group {name} does not exist; create it or correct \
                     spec.placementGroupSelector"
                );
                self.is_false(PLACEMENT, "PlacementGroupNotFound", &message);
            }
        }
    }

    fn subnets(&mut self, observed: &Observed) {
        match &observed.subnets {
            None => self.stands(SUBNETS),
            Some(Err(error)) => self.failed(SUBNETS, error),
            Some(Ok(found)) if found.is_empty() => {
                self.status.subnets = Vec::new();
                let message = "spec.subnetSelectorTerms select no subnet; see that tags and IDs \
                               are those of subnets in this region";
                self.is_false(SUBNETS, "SubnetsNotFound", message);
            }
            Some(Ok(found)) => {
                self.status.subnets = subnets(found);
                self.is_true(SUBNETS);
            }
        }
    }

    fn groups(&mut self, observed: &Observed) {
        match &observed.groups {
            None => self.stands(GROUPS),
            Some(Err(error)) => self.failed(GROUPS, error),
            Some(Ok(found)) if found.is_empty() => {
                self.status.security_groups = Vec::new();
                let message = "spec.securityGroupSelectorTerms select no security group; see that \
                               tags, names and IDs are those of groups in this region";
                self.is_false(GROUPS, "SecurityGroupsNotFound", message);
            }
            Some(Ok(found)) => {
                self.status.security_groups = groups(found);
                self.is_true(GROUPS);
            }
        }
    }

    fn profile(&mut self, observed: &Observed) {
        match &observed.profile {
            None => self.stands(PROFILE),
            Some(Ok(name)) => {
                self.status.instance_profile = Some(name.clone());
                self.is_true(PROFILE);
            }
            Some(Err(fault @ ProfileFault::NoRole(_))) => {
                self.is_false(PROFILE, "RoleNotFound", &fault.to_string());
            }
            Some(Err(ProfileFault::Api(error))) => self.failed(PROFILE, error),
        }
    }

    fn validation(&mut self, object: &EC2NodeClass, observed: &Observed, region: &Region) {
        match validation::nodeclass(object, region) {
            Verdict::Invalid(invalid) => {
                let say = |fault: &validation::Fault| {
                    format!("spec.{} {}; {}", fault.field, fault.what, fault.hint)
                };
                let faults: Vec<String> = invalid.faults.iter().map(say).collect();
                let reason = invalid.reason.as_str();
                return self.is_false(VALIDATION, reason, &faults.join("; "));
            }
            Verdict::TypesUnknown => {
                let message = "no instance type is known yet";
                return self.set(VALIDATION, ConditionStatus::Unknown, "Pending", message);
            }
            Verdict::Valid => {}
        }
        let needed = [IMAGES, PROFILE, GROUPS, SUBNETS];
        for wanted in [ConditionStatus::False, ConditionStatus::Unknown] {
            let not = |type_: &&str| self.state(type_) == Some(wanted);
            let names: Vec<&str> = needed.into_iter().filter(not).collect();
            if !names.is_empty() {
                let message = format!("waits for {}", names.join(", "));
                return self.set(VALIDATION, wanted, "DependenciesNotReady", &message);
            }
        }
        match &observed.probe {
            None => self.stands(VALIDATION),
            Some(Probe::Passed) => {
                let spec = &object.spec;
                let user_data = spec.user_data.as_deref();
                let warnings = validation::warnings(spec.family(), spec.kubelet(), user_data);
                let unknown = unknown_kubernetes(region.settings.kubernetes);
                let warnings: Vec<String> = warnings.into_iter().chain(unknown).collect();
                let message = warnings.join("; ");
                self.set(VALIDATION, ConditionStatus::True, VALIDATION, &message);
            }
            Some(Probe::Failed(reason, message)) => self.is_false(VALIDATION, reason, message),
            Some(Probe::Later(message) | Probe::NoProfileYet(message)) => {
                if self.state(VALIDATION) != Some(ConditionStatus::True) {
                    self.set(VALIDATION, ConditionStatus::Unknown, "Pending", message);
                }
            }
        }
    }

    fn ready(&mut self, parts: &[&'static str]) {
        for (wanted, reason) in [
            (ConditionStatus::False, "UnhealthyDependents"),
            (ConditionStatus::Unknown, "ReconcilingDependents"),
        ] {
            let is =
                |type_: &&&str| self.state(type_).unwrap_or(ConditionStatus::Unknown) == wanted;
            let names: Vec<&str> = parts.iter().filter(is).copied().collect();
            if !names.is_empty() {
                let say = |name: &&str| {
                    let own = condition(&self.status.conditions, name);
                    format!("{name}={}", own.map_or("", |own| &own.reason))
                };
                let message = names.iter().map(say).collect::<Vec<_>>().join(", ");
                return self.set(READY, wanted, reason, &message);
            }
        }
        self.is_true(READY);
    }
}

/// Subnets, those with the most free addresses first.
fn subnets(found: &[SubnetFacts]) -> Vec<Subnet> {
    let mut all: Vec<&SubnetFacts> = found.iter().collect();
    all.sort_by(|a, b| b.free.cmp(&a.free).then_with(|| a.id.cmp(&b.id)));
    all.dedup_by(|a, b| a.id == b.id);
    let subnet = |one: &SubnetFacts| Subnet {
        id: one.id.clone(),
        zone: one.zone.clone(),
        zone_id: Some(one.zone_id.clone()).filter(|id| !id.is_empty()),
    };
    all.into_iter().map(subnet).collect()
}

fn groups(found: &[GroupFacts]) -> Vec<SecurityGroup> {
    let named: BTreeMap<&str, &str> = found.iter().map(|one| (&*one.id, &*one.name)).collect();
    let group = |(id, name): (&str, &str)| SecurityGroup {
        id: id.to_owned(),
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
    };
    named.into_iter().map(group).collect()
}

/// Reservations that are not over, by ID. One of a kind that is not known is left out.
fn reservations(found: &[ReservationFacts], now: i64) -> Vec<CapacityReservation> {
    let mut seen = BTreeSet::new();
    let one = |facts: &ReservationFacts| {
        let reservation_type = match &*facts.kind {
            "" | "default" => ReservationType::Default,
            "capacity-block" => ReservationType::CapacityBlock,
            _ => return None,
        };
        let instance_match_criteria = match &*facts.criteria {
            "open" => MatchCriteria::Open,
            "targeted" => MatchCriteria::Targeted,
            _ => return None,
        };
        let end = facts.end;
        if end.is_some_and(|end| end <= now) {
            return None;
        }
        let block = reservation_type == ReservationType::CapacityBlock;
        let expiring = block && end.is_some_and(|end| end - now <= EXPIRING_SECONDS);
        Some(CapacityReservation {
            availability_zone: facts.zone.clone(),
            end_time: end.and_then(|end| Some(Time(Timestamp::from_second(end).ok()?))),
            id: facts.id.clone(),
            instance_match_criteria,
            instance_type: facts.instance_type.clone(),
            interruptible: facts.interruptible,
            owner_id: facts.owner.clone(),
            reservation_type,
            state: match expiring {
                true => ReservationState::Expiring,
                false => ReservationState::Active,
            },
        })
    };
    let mut all: Vec<CapacityReservation> = found.iter().filter_map(one).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.retain(|one| seen.insert(one.id.clone()));
    all
}

/// Whether nodes may be launched from a class now, and why not.
///
/// # Errors
/// The class is not ready, is being deleted, or its status is about an older spec.
pub fn launchable(object: &EC2NodeClass) -> Result<(), String> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    if object.metadata.deletion_timestamp.is_some() {
        return Err(format!("EC2NodeClass {name} is being deleted"));
    }
    let conditions = object
        .status
        .as_ref()
        .map_or(&[][..], |own| &own.conditions);
    let Some(ready) = condition(conditions, READY) else {
        return Err(format!("EC2NodeClass {name} has no condition Ready yet"));
    };
    if ready.status != ConditionStatus::True {
        let Condition {
            status,
            reason,
            message,
            ..
        } = ready;
        let status = status.text();
        return Err(format!(
            "EC2NodeClass {name} is Ready={status}: {reason}: {message}"
        ));
    }
    let about = ready.observed_generation;
    if about.is_some() && about != object.metadata.generation {
        return Err(format!(
            "EC2NodeClass {name} has changed and is not checked yet"
        ));
    }
    Ok(())
}

/// What the end of a class waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// NodeClaims name it: the message of its Event.
    Waits(String),
    /// Its instance profiles and launch templates go, then the finalizer.
    CleansUp,
}

/// What to do about a class that is being deleted; `claims` are the NodeClaims that name it.
pub fn ending(claims: &[String]) -> Ending {
    match claims {
        [] => Ending::CleansUp,
        some => {
            let shown: Vec<&str> = some.iter().take(5).map(String::as_str).collect();
            let more = match some.len() - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Ending::Waits(format!(
                "waiting on NodeClaim termination for {}{more}",
                shown.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests;
