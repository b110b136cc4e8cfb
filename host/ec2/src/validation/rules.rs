//! The rules of EC2NodeClass's definition, for objects that no API server has checked: those of
//! files. Types, enumerations and missing fields are refused when the object is read.
//!
//! Some rules let a list through if one of its terms is right, because the definition's do. A test
//! compares every rule with the definition.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use longshore_api::manifests::quoted;

use super::fault::Fault;
use super::reserved_tags::tags;
use crate::nodeclass::{
    AmiSelectorTerm, BlockDevice, BlockDeviceMapping, CapacityReservationSelectorTerm,
    ConnectionTracking, EC2NodeClassSpec, InterfaceType, NetworkInterface, PlacementGroupSelector,
    SecurityGroupSelectorTerm, SubnetSelectorTerm,
};

/// Most terms of a selector, and most tags of a term.
const MAX_TERMS: usize = 30;
const MAX_TAGS: usize = 20;
const MAX_DEVICES: usize = 50;
const MAX_INTERFACES: usize = 150;
/// Most characters of an alias.
const MAX_ALIAS: usize = 30;

/// What an API server would refuse of a NodeClass, with fields below `spec`.
pub fn rules(spec: &EC2NodeClassSpec) -> Vec<Fault> {
    let mut faults = Faults::default();
    identity(spec, &mut faults);
    subnets(&spec.subnet_selector_terms, &mut faults);
    security_groups(&spec.security_group_selector_terms, &mut faults);
    images(spec, &mut faults);
    if let Some(terms) = &spec.capacity_reservation_selector_terms {
        reservations(terms, &mut faults);
    }
    if let Some(selector) = &spec.placement_group_selector {
        placement_group(selector, &mut faults);
    }
    interfaces(spec.network_interfaces(), &mut faults);
    devices(spec.block_device_mappings(), &mut faults);
    if let Some(tracking) = &spec.connection_tracking {
        connections(tracking, &mut faults);
    }
    let hops = spec.metadata_options.http_put_response_hop_limit;
    faults.range("metadataOptions.httpPutResponseHopLimit", hops, 1..=64);
    if let Some(count) = spec.ip_prefix_count {
        faults.range("ipPrefixCount", count.into(), 0..=i32::MAX.into());
    }
    faults.0.extend(tags(spec.tags()));
    faults.0
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn unless(
        &mut self,
        holds: bool,
        field: impl Into<String>,
        what: impl Into<String>,
        hint: &str,
    ) {
        if !holds {
            self.0.push(Fault::new(field, what, hint));
        }
    }

    fn range(&mut self, field: &str, number: i64, range: RangeInclusive<i64>) {
        let (least, most) = (*range.start(), *range.end());
        let what = format!("{number} is not from {least} to {most}");
        self.unless(
            range.contains(&number),
            field,
            what,
            "give a number in between",
        );
    }

    fn length(&mut self, field: &str, length: usize, most: usize) {
        let what = format!("has {length} entries, of at most {most}");
        self.unless(length <= most, field, what, "remove some");
    }

    fn selector_tags(&mut self, at: &str, tags: Option<&BTreeMap<String, String>>) {
        let Some(tags) = tags else { return };
        self.length(&format!("{at}.tags"), tags.len(), MAX_TAGS);
        for (key, value) in tags {
            self.unless(
                !key.is_empty() && !value.is_empty(),
                format!("{at}.tags[{key}]"),
                "has an empty key or value",
                "write * for any value",
            );
        }
    }

    fn id(&mut self, field: String, id: Option<&String>, kind: Id) {
        let Some(id) = id else { return };
        let what = format!("{} is not an id", quoted(id));
        self.unless(kind.fits(id), field, what, kind.hint);
    }
}

/// The form of an id: a prefix, then digits and small letters.
struct Id {
    prefix: &'static str,
    /// Whether it is the whole text. The definition lets some ids have other text around them.
    whole: bool,
    hint: &'static str,
}

const SUBNET: Id = Id {
    prefix: "subnet-",
    whole: false,
    hint: "write it like subnet-0123456789abcdef0",
};
const SECURITY_GROUP: Id = Id {
    prefix: "sg-",
    whole: false,
    hint: "write it like sg-0123456789abcdef0",
};
const IMAGE: Id = Id {
    prefix: "ami-",
    whole: false,
    hint: "write it like ami-0123456789abcdef0",
};
const RESERVATION: Id = Id {
    prefix: "cr-",
    whole: true,
    hint: "write it like cr-0123456789abcdef0",
};
const GROUP: Id = Id {
    prefix: "pg-",
    whole: true,
    hint: "write it like pg-0123456789abcdef0",
};

impl Id {
    fn fits(&self, text: &str) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
        if self.whole {
            let rest = text.strip_prefix(self.prefix);
            return rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_digit));
        }
        text.match_indices(self.prefix).any(|(at, _)| {
            let next = text.as_bytes().get(at + self.prefix.len());
            next.is_some_and(|byte| is_digit(*byte))
        })
    }
}

fn identity(spec: &EC2NodeClassSpec, faults: &mut Faults) {
    let (role, profile) = (&spec.role, &spec.instance_profile);
    faults.unless(
        role.is_some() != profile.is_some(),
        "role",
        match role {
            Some(_) => "stands beside an instanceProfile",
            None => "is missing, and so is instanceProfile",
        },
        "give one of role and instanceProfile",
    );
    for (field, name) in [("role", role), ("instanceProfile", profile)] {
        let named = name.as_ref().is_none_or(|name| !name.is_empty());
        faults.unless(named, field, "is empty", "give its name");
    }
}

fn subnets(terms: &[SubnetSelectorTerm], faults: &mut Faults) {
    let field = "subnetSelectorTerms";
    faults.unless(!terms.is_empty(), field, "is empty", "give one term");
    faults.length(field, terms.len(), MAX_TERMS);
    for (at, term) in terms.iter().enumerate() {
        let at = format!("{field}[{at}]");
        let selects = term.tags.is_some() || term.id.is_some();
        faults.unless(selects, &at, "selects nothing", "give tags or an id");
        faults.selector_tags(&at, term.tags.as_ref());
        faults.id(format!("{at}.id"), term.id.as_ref(), SUBNET);
    }
    let both = |term: &SubnetSelectorTerm| term.id.is_some() && term.tags.is_some();
    let what = "has nothing but terms with an id and tags";
    let hint = "give a term tags or an id, and not both";
    let none = terms.is_empty();
    faults.unless(none || !terms.iter().all(both), field, what, hint);
}

fn security_groups(terms: &[SecurityGroupSelectorTerm], faults: &mut Faults) {
    let field = "securityGroupSelectorTerms";
    faults.unless(!terms.is_empty(), field, "is empty", "give one term");
    faults.length(field, terms.len(), MAX_TERMS);
    for (at, term) in terms.iter().enumerate() {
        let at = format!("{field}[{at}]");
        let selects = term.tags.is_some() || term.id.is_some() || term.name.is_some();
        let hint = "give tags, an id or a name";
        faults.unless(selects, &at, "selects nothing", hint);
        faults.selector_tags(&at, term.tags.as_ref());
        faults.id(format!("{at}.id"), term.id.as_ref(), SECURITY_GROUP);
    }
    type Has = fn(&SecurityGroupSelectorTerm) -> bool;
    let ids: Has = |term| term.id.is_some() && (term.tags.is_some() || term.name.is_some());
    let names: Has = |term| term.name.is_some() && (term.tags.is_some() || term.id.is_some());
    for (over, what) in [
        (ids, "has nothing but terms with an id and more"),
        (names, "has nothing but terms with a name and more"),
    ] {
        let hint = "a term with an id or a name has nothing else";
        let none = terms.is_empty();
        faults.unless(none || !terms.iter().all(over), field, what, hint);
    }
}

fn reservations(terms: &[CapacityReservationSelectorTerm], faults: &mut Faults) {
    let field = "capacityReservationSelectorTerms";
    let hint = "give one term, or remove the field";
    faults.unless(!terms.is_empty(), field, "is empty", hint);
    faults.length(field, terms.len(), MAX_TERMS);
    for (at, term) in terms.iter().enumerate() {
        let at = format!("{field}[{at}]");
        let criteria = term.instance_match_criteria.is_some();
        let selects = term.tags.is_some() || term.id.is_some() || criteria;
        let hint = "give tags, an id or instanceMatchCriteria";
        faults.unless(selects, &at, "selects nothing", hint);
        faults.selector_tags(&at, term.tags.as_ref());
        faults.id(format!("{at}.id"), term.id.as_ref(), RESERVATION);
        if let Some(owner) = &term.owner_id {
            let fits = owner.len() == 12 && owner.bytes().all(|byte| byte.is_ascii_digit());
            let what = format!("{} is not an account", quoted(owner));
            faults.unless(
                fits,
                format!("{at}.ownerID"),
                what,
                "write its twelve digits",
            );
        }
    }
    let over = |term: &CapacityReservationSelectorTerm| {
        let more = term.tags.is_some() || term.owner_id.is_some();
        term.id.is_some() && (more || term.instance_match_criteria.is_some())
    };
    let what = "has nothing but terms with an id and more";
    let hint = "a term with an id has nothing else";
    let none = terms.is_empty();
    faults.unless(none || !terms.iter().all(over), field, what, hint);
}

fn placement_group(selector: &PlacementGroupSelector, faults: &mut Faults) {
    let field = "placementGroupSelector";
    let what = match (&selector.name, &selector.id) {
        (None, None) => "selects nothing",
        _ => "has a name and an id",
    };
    let one = selector.name.is_some() != selector.id.is_some();
    faults.unless(one, field, what, "give a name or an id");
    let named = selector.name.as_ref().is_none_or(|name| !name.is_empty());
    faults.unless(named, format!("{field}.name"), "is empty", "give its name");
    faults.id(format!("{field}.id"), selector.id.as_ref(), GROUP);
}

fn images(spec: &EC2NodeClassSpec, faults: &mut Faults) {
    let (field, terms) = ("amiSelectorTerms", &spec.ami_selector_terms);
    faults.unless(!terms.is_empty(), field, "is empty", "give one term");
    faults.length(field, terms.len(), MAX_TERMS);
    let aliased = terms.iter().any(|term| term.alias.is_some());
    faults.unless(
        !aliased || terms.len() == 1,
        field,
        "has a term beside an alias",
        "an alias is the only term",
    );
    faults.unless(
        aliased || spec.ami_family.is_some(),
        "amiFamily",
        "is missing",
        "give it, or an alias in amiSelectorTerms",
    );
    for (at, term) in terms.iter().enumerate() {
        image(term, &format!("{field}[{at}]"), faults);
    }
    if let (Some(alias), Some(family)) = (spec.alias(), spec.ami_family) {
        let names = [alias.family.as_str(), "Custom"];
        let what = format!("{} does not suit the alias", family.as_str());
        let hint = format!("remove it, or write {} or Custom", names[0]);
        faults.unless(names.contains(&family.as_str()), "amiFamily", what, &hint);
    }
}

fn image(term: &AmiSelectorTerm, at: &str, faults: &mut Faults) {
    let more = term.tags.is_some() || term.name.is_some() || term.owner.is_some();
    let selects = term.tags.is_some() || term.name.is_some() || term.ssm_parameter.is_some();
    faults.unless(
        selects || term.id.is_some() || term.alias.is_some(),
        at,
        "selects nothing",
        "give tags, an id, a name, an alias or an ssmParameter",
    );
    for (alone, other, what) in [
        (&term.id, &term.alias, "has an id and more"),
        (&term.alias, &term.id, "has an alias and more"),
    ] {
        let over = alone.is_some() && (more || other.is_some());
        let hint = "leave out alias, id, tags, name and owner beside it";
        faults.unless(!over, at, what, hint);
    }
    faults.selector_tags(at, term.tags.as_ref());
    faults.id(format!("{at}.id"), term.id.as_ref(), IMAGE);
    if let Some(text) = &term.alias {
        alias(text, format!("{at}.alias"), faults);
    }
}

/// The families that an alias may name. Those of Windows have no version but `latest`.
const ALIASES: [&str; 6] = [
    "al2",
    "al2023",
    "bottlerocket",
    "windows2019",
    "windows2022",
    "windows2025",
];

fn alias(text: &str, field: String, faults: &mut Faults) {
    let length = text.chars().count();
    let what = format!("has {length} characters, of at most {MAX_ALIAS}");
    faults.unless(length <= MAX_ALIAS, &field, what, "shorten it");
    let (family, rest) = text.split_once('@').unwrap_or_default();
    let fits = !rest.is_empty() && !rest.contains('\n') && ALIASES.contains(&family);
    let what = format!("{} is not a family, @ and a version", quoted(text));
    let hint = format!(
        "write it like al2023@latest; families: {}",
        ALIASES.join(", ")
    );
    faults.unless(fits, &field, what, &hint);
    let version = rest.split('@').next().unwrap_or_default();
    let what = format!("has the version {}", quoted(version));
    let hint = "Windows has no version but latest";
    let windows = fits && family.starts_with("windows");
    faults.unless(!windows || version == "latest", &field, what, hint);
}

fn interfaces(all: &[NetworkInterface], faults: &mut Faults) {
    let field = "networkInterfaces";
    faults.length(field, all.len(), MAX_INTERFACES);
    if all.len() > MAX_INTERFACES {
        return;
    }
    let first = |one: &NetworkInterface| {
        let place = (one.network_card_index, one.device_index);
        place == (0, 0) && one.interface_type == InterfaceType::Interface
    };
    faults.unless(
        all.is_empty() || all.iter().any(first),
        field,
        "has no device 0 of card 0 with the type interface",
        "add it",
    );
    let indexes = 0..=i64::from(i32::MAX);
    for (at, one) in all.iter().enumerate() {
        let (card, device) = (one.network_card_index, one.device_index);
        let at_card = format!("{field}[{at}].networkCardIndex");
        faults.range(&at_card, card.into(), indexes.clone());
        let at_device = format!("{field}[{at}].deviceIndex");
        faults.range(&at_device, device.into(), indexes.clone());
        let earlier = || {
            all[..at]
                .iter()
                .filter(|other| other.network_card_index == card)
        };
        let again = earlier().any(|other| other.device_index == device);
        faults.unless(!again, at_device, "is there twice", "give another index");
        let efa = |other: &NetworkInterface| other.interface_type == InterfaceType::EfaOnly;
        let second = efa(one) && earlier().any(efa);
        let what = "is the card's second efa-only interface";
        faults.unless(!second, format!("{field}[{at}]"), what, "a card has one");
    }
}

fn devices(all: &[BlockDeviceMapping], faults: &mut Faults) {
    let field = "blockDeviceMappings";
    faults.length(field, all.len(), MAX_DEVICES);
    let roots = all.iter().filter(|one| one.root_volume).count();
    let what = format!("has {roots} root volumes");
    faults.unless(roots <= 1, field, what, "a node has one");
    for (at, one) in all.iter().enumerate() {
        if let Some(volume) = &one.ebs {
            self::volume(volume, &format!("{field}[{at}].ebs"), faults);
        }
    }
}

fn volume(volume: &BlockDevice, at: &str, faults: &mut Faults) {
    let snapshot = volume.snapshot_id.as_deref();
    faults.unless(
        snapshot.is_some() || volume.volume_size.is_some(),
        at,
        "has no size",
        "give a volumeSize or a snapshotID",
    );
    if let Some(rate) = volume.volume_initialization_rate {
        let field = format!("{at}.volumeInitializationRate");
        faults.range(&field, rate.into(), 100..=300);
        let from_snapshot = snapshot.is_some_and(|id| !id.is_empty());
        let what = "stands without a snapshotID";
        faults.unless(from_snapshot, field, what, "give one, or remove it");
    }
    if let Some(size) = &volume.volume_size {
        let what = format!("{} is not a size of a volume", quoted(&size.0));
        let hint = match size.0.strip_suffix("Ti").map(str::parse::<u32>) {
            Some(Ok(11..58)) => "write it in Gi: the definition refuses this number of Ti",
            _ => "write 1Gi to 59000Gi, 1G to 64000G, 1Ti to 58Ti or 1T to 64T",
        };
        faults.unless(
            is_volume_size(&size.0),
            format!("{at}.volumeSize"),
            what,
            hint,
        );
    }
}

/// Whether the definition's pattern allows a size. It refuses 18Ti and others that end in 8 or 9,
/// and allows Ti and T without a number, which is refused elsewhere.
fn is_volume_size(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    if digits.is_empty() {
        return matches!(unit, "Ti" | "T");
    }
    let number: u32 = match digits.parse() {
        Ok(number) if !digits.starts_with('0') => number,
        _ => return false,
    };
    match unit {
        "Gi" => number <= 59_000,
        "G" => number <= 64_000,
        "Ti" => number < 10 || number == 58 || number < 58 && number % 10 <= 7,
        "T" => number <= 64,
        _ => false,
    }
}

fn connections(tracking: &ConnectionTracking, faults: &mut Faults) {
    let field = "connectionTracking";
    let all = [
        (
            "tcpEstablishedTimeout",
            tracking.tcp_established_timeout,
            60..=432_000,
        ),
        ("udpStreamTimeout", tracking.udp_stream_timeout, 60..=180),
        ("udpTimeout", tracking.udp_timeout, 30..=60),
    ];
    let any = all.iter().any(|(_, seconds, _)| seconds.is_some());
    faults.unless(any, field, "is empty", "give a timeout, or remove it");
    for (name, seconds, range) in all {
        if let Some(seconds) = seconds {
            faults.range(&format!("{field}.{name}"), seconds.into(), range);
        }
    }
}
