//! Launch templates: what EC2 gets of an instance before it chooses type and zone.
//!
//! [`templates`] is a function of a [`Launch`]: a NodeClaim, its NodeClass, and the instance types
//! that it may get. Types share a template where everything in it is the same: image, user data,
//! network interfaces and reservation. A template's name is a digest of its content, so that equal
//! launches find the template that is there.
//!
//! Which types are left to choose from, and the request of a fleet, are the caller's.

mod devices;
mod interfaces;
mod template;

use std::collections::BTreeMap;

use longshore_userdata::{Boot, Cluster, Fault, Taint, render, resolve};

use crate::bootstrap::drift;
use crate::catalogue::class::Reservation;
use crate::catalogue::class_catalogue::ClassCatalogue;
use crate::catalogue::images::image_of;
use crate::catalogue::region::Region;
use crate::nodeclass::{EC2NodeClass, EC2NodeClassSpec};
use crate::tags;

pub use devices::root_bytes;
pub use template::{
    BlockDeviceMapping, CapacityReservation, CapacityReservationTarget, ConnectionTracking,
    CpuOptions, Ebs, Enabled, IamInstanceProfile, LaunchTemplate, MarketOptions, MetadataOptions,
    NetworkInterface, Placement, Tag, TagSpecification, TemplateData,
};

/// NodePool of a launch that is tried without launching anything.
pub const DRY_RUN_NODEPOOL: &str = "dry-run";

/// How capacity is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CapacityType {
    /// `on-demand`.
    OnDemand,
    /// `spot`.
    Spot,
    /// `reserved`.
    Reserved,
}

impl CapacityType {
    /// The value of the label `karpenter.sh/capacity-type`.
    pub fn as_str(self) -> &'static str {
        match self {
            CapacityType::OnDemand => "on-demand",
            CapacityType::Spot => "spot",
            CapacityType::Reserved => "reserved",
        }
    }
}

/// Whose hardware an instance runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tenancy {
    /// Shared with other accounts.
    #[default]
    Default,
    /// The account's own.
    Dedicated,
}

impl Tenancy {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Tenancy::Default => "default",
            Tenancy::Dedicated => "dedicated",
        }
    }
}

/// An instance type that may be launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its index in [`Region::types`].
    pub at: usize,
    /// For reserved capacity: the IDs of the reservations that it may be launched into.
    pub reservations: Vec<Box<str>>,
}

/// What a NodeClaim is launched with.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The region's columns.
    pub region: &'a Region,
    /// The NodeClass's catalogue.
    pub catalogue: &'a ClassCatalogue,
    /// The NodeClass: its status has images, security groups and the instance profile.
    pub node_class: &'a EC2NodeClass,
    /// The cluster to join.
    pub cluster: &'a Cluster,
    /// The NodeClaim's labels.
    pub labels: BTreeMap<String, String>,
    /// The NodeClaim's taints, startup taints last.
    pub taints: Vec<Taint>,
    /// How capacity is bought.
    pub capacity_type: CapacityType,
    /// Whose hardware it is.
    pub tenancy: Tenancy,
    /// Whether the NodeClaim's pods use EFA: by a request for `vpc.amazonaws.com/efa`, or by the
    /// driver `dra.net`.
    pub efa: bool,
    /// The partition of the placement group, from 1. Without it EC2 chooses one.
    pub partition: Option<i32>,
    /// Gate ReservedCapacity: capacity that is not meant for a reservation stays out of all.
    pub reserved_capacity: bool,
    /// Types to choose from.
    pub choices: Vec<Choice>,
    /// What a bootstrap policy renders; without it, and for types that it has no text for, nodes
    /// boot with the built-in user data.
    pub texts: Option<Texts<'a>>,
}

/// User data by instance type that a bootstrap policy said, before it is encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootTexts {
    /// Each text once.
    pub texts: Vec<String>,
    /// Index into `texts` for each of [`Region::types`].
    pub of: Vec<u32>,
}

impl BootTexts {
    /// As the makers of launch templates take it.
    pub fn texts(&self) -> Texts<'_> {
        Texts {
            texts: &self.texts,
            of: &self.of,
        }
    }
}

/// User data by instance type, before it is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// Each text once.
    pub texts: &'a [String],
    /// Index into `texts` for each of [`Region::types`].
    pub of: &'a [u32],
}

impl<'a> Texts<'a> {
    /// The text of the type with index `at`.
    fn get(&self, at: usize) -> Option<&'a str> {
        let text = *self.of.get(at)?;
        self.texts.get(text as usize).map(String::as_str)
    }
}

/// A launch template and the types that it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The request to EC2.
    pub request: LaunchTemplate,
    /// Indexes in [`Region::types`], in order.
    pub types: Vec<usize>,
    /// The reservation that instances are launched into.
    pub reservation: Option<Box<str>>,
    /// Annotation [`drift::DIGEST`] of NodeClaims that are launched from it.
    pub digest: String,
}

/// Why there are no launch templates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFault {
    /// No image of the NodeClass's status fits any of the types.
    #[error(
        "no image in the NodeClass's status fits any of the instance types; select images of their \
         architecture in spec.amiSelectorTerms, or have the NodePool require that of the images"
    )]
    NoImage,
    /// The user data of a type cannot be rendered.
    #[error("{0}; {hint}", hint = .0.hint)]
    UserData(#[from] Fault),
}

/// The launch templates for all types that an image fits, by name.
///
/// # Errors
/// No image fits, or user data cannot be rendered.
pub fn templates(launch: &Launch<'_>) -> Result<Vec<Template>, LaunchFault> {
    let mut all: BTreeMap<(String, Option<Box<str>>), Template> = BTreeMap::new();
    let status = launch.node_class.status.as_ref();
    let images = status.map_or(&[][..], |status| &status.amis);
    for choice in &launch.choices {
        let Launch { region, .. } = launch;
        let Some(image) = image_of(region, launch.catalogue, images, choice.at) else {
            continue;
        };
        let text = user_data(launch, choice.at)?;
        let data = of_type(launch, choice.at, &image.id, &text);
        for reservation in targets(launch, choice) {
            let mut data = data.clone();
            reserve(&mut data, launch, reservation);
            let name = data.name();
            let id = reservation.map(|reservation| reservation.id.clone());
            let template = all.entry((name.clone(), id.clone()));
            let template = template.or_insert_with(|| Template {
                request: LaunchTemplate {
                    name,
                    tags: vec![TagSpecification::new("launch-template", &tags(launch))],
                    data,
                },
                types: Vec::new(),
                reservation: id,
                digest: drift::digest(&text),
            });
            template.types.push(choice.at);
        }
    }
    if all.is_empty() {
        return Err(LaunchFault::NoImage);
    }
    let mut all: Vec<Template> = all.into_values().collect();
    for template in &mut all {
        template.types.sort_unstable();
        template.types.dedup();
    }
    Ok(all)
}

/// Reservations that a type is launched into, one template each; `None` for none.
fn targets<'a>(launch: &Launch<'a>, choice: &Choice) -> Vec<Option<&'a Reservation>> {
    if launch.capacity_type != CapacityType::Reserved {
        return vec![None];
    }
    let known = launch.catalogue.class().reservations.iter();
    known
        .filter(|reservation| choice.reservations.contains(&reservation.id))
        .map(Some)
        .collect()
}

/// Whether the node of a NodeClaim has drifted from its user data. `launch` is what the NodeClaim
/// would be launched with today, `at` the index of its instance type in [`Region::types`], `claim`
/// its annotations. User data that cannot be rendered is not compared.
pub fn bootstrap_drift(
    launch: &Launch<'_>,
    at: usize,
    claim: &BTreeMap<String, String>,
) -> drift::Drift {
    let none = BTreeMap::new();
    let class = launch.node_class.metadata.annotations.as_ref();
    drift::drift(class.unwrap_or(&none), claim, || user_data(launch, at).ok())
}

/// The template of a type, without a reservation.
fn of_type(launch: &Launch<'_>, at: usize, image: &str, user_data: &str) -> TemplateData {
    let spec = &launch.node_class.spec;
    let status = launch.node_class.status.as_ref();
    let profile = status.and_then(|status| status.instance_profile.clone());
    let tags = tags(launch);
    let mut tagged = vec![TagSpecification::new("network-interface", &tags)];
    if launch.capacity_type == CapacityType::Spot {
        tagged.push(TagSpecification::new("spot-instances-request", &tags));
    }
    TemplateData {
        block_device_mappings: devices::mappings(spec),
        capacity_reservation: None,
        cpu_options: cpu_options(spec),
        enclave_options: Enabled {
            enabled: spec.enclaves(),
        },
        instance_profile: profile.map(|name| IamInstanceProfile { name }),
        image_id: image.to_owned(),
        market_options: None,
        metadata_options: metadata(spec, launch.region.name()),
        monitoring: Enabled {
            enabled: spec.detailed_monitoring.unwrap_or(false),
        },
        network_interfaces: interfaces::of_type(launch, at),
        placement: placement(launch),
        tags: tagged,
        user_data: template::encoded(user_data),
    }
}

/// What the user data of a NodeClass's nodes is rendered from, before anything is known of the
/// instance type: its expressions are in it as written. Startup taints stand last.
pub fn boot(
    node_class: &EC2NodeClass,
    cluster: &Cluster,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
) -> Boot {
    let spec = &node_class.spec;
    let status = node_class.status.as_ref();
    let images = status.map_or(&[][..], |status| &status.amis);
    Boot {
        cluster: cluster.clone(),
        family: spec.family().into(),
        image_terms: spec.ami_selector_terms.iter().map(Into::into).collect(),
        images: images.iter().map(Into::into).collect(),
        labels,
        taints,
        kubelet: spec.kubelet().clone(),
        user_data: spec.user_data.clone(),
        raid0: spec.instance_store_policy.is_some(),
    }
}

/// The user data of a type, before it is encoded.
fn user_data(launch: &Launch<'_>, at: usize) -> Result<String, LaunchFault> {
    if let Some(text) = launch.texts.and_then(|texts| texts.get(at)) {
        return Ok(text.to_owned());
    }
    let machine = launch.catalogue.machine(at);
    let mut labels = launch.labels.clone();
    let capacity_type = launch.capacity_type.as_str().to_owned();
    labels.insert("karpenter.sh/capacity-type".to_owned(), capacity_type);
    let taints = launch.taints.clone();
    let mut boot = boot(launch.node_class, launch.cluster, labels, taints);
    let expressions = &launch.catalogue.class().expressions;
    expressions.write(&mut boot.kubelet, machine);
    resolve(&mut boot, machine.pods());
    Ok(render(&boot)?)
}

/// Tags of everything that is made for the launch.
fn tags(launch: &Launch<'_>) -> BTreeMap<String, String> {
    let mut tags = tags::of_class(launch.node_class, &launch.cluster.name);
    let pool = launch.labels.get(tags::NODEPOOL).cloned();
    tags.insert(tags::NODEPOOL.to_owned(), pool.unwrap_or_default());
    tags
}

fn cpu_options(spec: &EC2NodeClassSpec) -> Option<CpuOptions> {
    let nested = spec.cpu_options.as_ref()?.nested_virtualization?;
    Some(CpuOptions {
        nested_virtualization: nested.as_str(),
    })
}

fn metadata(spec: &EC2NodeClassSpec, region: &str) -> MetadataOptions {
    let options = &spec.metadata_options;
    // The isolated regions refuse the field.
    let isolated = region.starts_with("us-iso");
    MetadataOptions {
        http_endpoint: options.http_endpoint.as_str(),
        http_protocol_ipv6: (!isolated).then(|| options.http_protocol_ipv6.as_str()),
        http_put_response_hop_limit: options.http_put_response_hop_limit,
        http_tokens: options.http_tokens.as_str(),
        instance_metadata_tags: "disabled",
    }
}

fn placement(launch: &Launch<'_>) -> Placement {
    let group = launch.catalogue.group();
    let partitioned = group.is_some_and(|group| group.partitions > 0);
    Placement {
        group_id: group.map(|group| group.id.to_string()),
        partition_number: launch.partition.filter(|_| partitioned),
        tenancy: launch.tenancy.as_str(),
    }
}

/// Says which reservation instances are launched into, and of which market they are.
fn reserve(data: &mut TemplateData, launch: &Launch<'_>, reservation: Option<&Reservation>) {
    data.capacity_reservation = launch.reserved_capacity.then(|| CapacityReservation {
        preference: match reservation {
            Some(_) => "capacity-reservations-only",
            None => "none",
        },
        target: reservation.map(|reservation| CapacityReservationTarget {
            id: reservation.id.to_string(),
        }),
    });
    let market = reservation.and_then(|reservation| match &*reservation.kind {
        "capacity-block" => Some("capacity-block"),
        _ if reservation.interruptible => Some("interruptible-capacity-reservation"),
        _ => None,
    });
    data.market_options = market.map(|market_type| MarketOptions { market_type });
}
