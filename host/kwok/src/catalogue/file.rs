//! The file format: a JSON list of types, as in `{"name": …, "offerings": [{"Price": …,
//! "Available": …, "Requirements": […]}], "architecture": …, "operatingSystems": […], "resources":
//! {…}}`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use longshore_api::json;
use longshore_api::labels::{self, capacity_type};
use longshore_api::manifests::{Diagnostic, Diagnostics, Location, explain, quoted};
use longshore_api::quantity::{Quantity, QuantityError};
use longshore_core::model::{Offering, Requirement, ResourceId, Resources, Symbols, TypeId};
use serde::Deserialize;

use super::labels::{Shape, shortest, type_requirements};
use super::row::{Row, row};

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "an instance type"
)]
struct WireType<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    offerings: Vec<WireOffering>,
    architecture: Cow<'a, str>,
    operating_systems: Vec<String>,
    resources: BTreeMap<String, Amount>,
    /// Ours: most volumes that a node can attach, by CSI driver.
    #[serde(default)]
    volume_attachment_limits: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an offering")]
struct WireOffering {
    #[serde(rename = "Price", alias = "price")]
    price: f64,
    #[serde(rename = "Available", alias = "available", default = "yes")]
    available: bool,
    #[serde(rename = "ReservationCapacity", alias = "reservationCapacity", default)]
    reservation_capacity: Option<i64>,
    #[serde(rename = "Requirements", alias = "requirements")]
    requirements: Vec<WireRequirement>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a requirement")]
struct WireRequirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// A quantity as a string or a bare number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a quantity such as 4 or 16Gi")]
enum Amount {
    Text(String),
    Whole(i64),
    Number(f64),
}

impl Amount {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Amount::Text(text) => Cow::Borrowed(text),
            Amount::Whole(number) => Cow::Owned(number.to_string()),
            Amount::Number(number) => Cow::Owned(number.to_string()),
        }
    }
}

/// Field, reason and hint.
type Fault = (String, String, &'static str);

/// The types of a file, and diagnostics of invalid ones.
pub(super) fn read(source: &str, bytes: &[u8], names: &mut Symbols) -> (Vec<Row>, Diagnostics) {
    let mut reader = Reader {
        source,
        bytes,
        rows: Vec::new(),
        seen: BTreeSet::new(),
        problems: Diagnostics::default(),
        names,
    };
    reader.file();
    (reader.rows, reader.problems)
}

struct Reader<'a> {
    source: &'a str,
    bytes: &'a [u8],
    rows: Vec<Row>,
    seen: BTreeSet<String>,
    problems: Diagnostics,
    names: &'a mut Symbols,
}

impl Reader<'_> {
    fn file(&mut self) {
        let bytes = self.bytes;
        let start = if bytes.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        let at = json::skip_space(bytes, start);
        if at == bytes.len() {
            return; // the empty catalogue is a problem of its own
        }
        if bytes[at] != b'[' {
            let hint =
                "expected a JSON list `[{\"name\": …}, …]`, as Karpenter's KWOK provider reads it";
            return self.refuse(
                at,
                None,
                "",
                (
                    String::new(),
                    "is not a list of instance types".to_owned(),
                    hint,
                ),
            );
        }
        let mut item = 0;
        let walked = json::walk(bytes, at, |_, start| {
            item += 1;
            Some(
                json::skip_value(bytes, start).inspect(|end| self.instance_type(start, *end, item)),
            )
        });
        match walked {
            Ok(end) => {
                let after = json::skip_space(bytes, end.unwrap_or(bytes.len()));
                if after < bytes.len() {
                    let what = "there is text after the list".to_owned();
                    self.refuse(after, None, "", (String::new(), what, "remove it"));
                }
            }
            Err(broken) => {
                let what = match broken.at_end {
                    true => "is not JSON: the text ends before the list does",
                    false => "is not JSON",
                };
                let fault = (
                    String::new(),
                    what.to_owned(),
                    "check commas, quotes and brackets before it",
                );
                self.refuse(broken.at, None, "", fault);
            }
        }
    }

    fn instance_type(&mut self, start: usize, end: usize, item: u32) {
        let Ok(text) = std::str::from_utf8(&self.bytes[start..end]) else {
            return self.refuse(
                start,
                Some(item),
                "",
                (String::new(), "is not UTF-8".to_owned(), "save it as UTF-8"),
            );
        };
        let wire: WireType<'_> = match serde_json::from_str(text) {
            Ok(wire) => wire,
            Err(_) => {
                let (field, what, hint) = explain::<WireType<'_>>(text);
                let name =
                    json::member(text.as_bytes(), 0, "name").map_or("", |range| &text[range]);
                let hint = if what.starts_with("unknown field") {
                    "remove it, or correct its spelling"
                } else {
                    hint
                };
                return self.refuse_at(
                    text,
                    start,
                    item,
                    name.trim_matches('"'),
                    (field, what, hint),
                );
            }
        };
        let name = wire.name.clone();
        match convert(&wire, self.names) {
            Err(fault) => self.refuse_at(text, start, item, &name, fault),
            Ok(_) if self.seen.contains(&*name) => {
                let fault = (
                    String::new(),
                    "is there twice".to_owned(),
                    "remove one; the first is used",
                );
                self.refuse_at(text, start, item, &name, fault);
            }
            Ok(row) => {
                self.seen.insert(name.into_owned());
                self.rows.push(row);
            }
        }
    }

    fn refuse_at(&mut self, text: &str, start: usize, item: u32, name: &str, fault: Fault) {
        let at = start + json::locate(text.as_bytes(), &fault.0);
        self.refuse(at, Some(item), name, fault);
    }

    fn refuse(&mut self, at: usize, item: Option<u32>, name: &str, (field, what, hint): Fault) {
        let line = Some(json::lines_before(self.bytes, at) + 1);
        self.problems.push(Diagnostic {
            location: Location {
                source: self.source.to_owned(),
                document: 1,
                item,
                line,
            },
            kind: "instance type".to_owned(),
            name: name.chars().take(100).collect(),
            field,
            what,
            hint: hint.to_owned(),
        });
    }
}

fn convert(wire: &WireType<'_>, names: &mut Symbols) -> Result<Row, Fault> {
    let fault = |field: &str, what: String, hint| Err((field.to_owned(), what, hint));
    if wire.name.is_empty() || !labels::is_label_value(&wire.name) {
        let what = format!("{} is not the name of an instance type", quoted(&wire.name));
        return fault(
            "name",
            what,
            "at most 63 letters, digits, `-`, `_` and `.`; it becomes a label",
        );
    }
    if !labels::is_label_value(&wire.architecture) || wire.architecture.is_empty() {
        return fault(
            "architecture",
            format!("{} is not an architecture", quoted(&wire.architecture)),
            "expected amd64 or arm64",
        );
    }
    if wire.operating_systems.is_empty() {
        return fault(
            "operatingSystems",
            "is empty".to_owned(),
            "name at least one, such as linux",
        );
    }
    if wire.offerings.is_empty() {
        return fault(
            "offerings",
            "is empty: the type cannot be bought".to_owned(),
            "give a price per zone and capacity type",
        );
    }
    let capacity = capacity(&wire.resources, names)?;
    for (resource, name) in [(ResourceId::Cpu, "cpu"), (ResourceId::Memory, "memory")] {
        if capacity.get(resource) == 0 {
            return fault(
                "resources",
                format!("{name} is missing or zero"),
                "every machine has cpu and memory",
            );
        }
    }
    if capacity.get(ResourceId::Pods) == 0 {
        return fault(
            "resources",
            "pods is missing or zero: no pod would fit".to_owned(),
            "say how many pods a node takes, such as 110",
        );
    }
    let short = |name: &str| {
        let text = wire.resources[name].text();
        shortest(
            &text,
            Quantity::parse(&text)
                .and_then(Quantity::milli_saturating)
                .unwrap_or(0),
        )
    };
    let systems: Vec<&str> = wire.operating_systems.iter().map(String::as_str).collect();
    let (cpu, memory) = (short("cpu"), short("memory"));
    let shape = Shape {
        name: &wire.name,
        arch: &wire.architecture,
        systems: &systems,
        cpu: &cpu,
        memory: &memory,
    };
    let requirements = type_requirements(&shape, names);
    let mut offerings = Vec::with_capacity(wire.offerings.len());
    for (index, wire) in wire.offerings.iter().enumerate() {
        let inside =
            |(field, what, hint): Fault| (format!("offerings[{index}].{field}"), what, hint);
        offerings.push(offering(wire, names).map_err(inside)?);
    }
    let limits = wire
        .volume_attachment_limits
        .iter()
        .map(|(driver, count)| (names.intern(driver), *count))
        .collect();
    Ok(row(
        &wire.name,
        requirements,
        capacity,
        limits,
        offerings,
        names,
    ))
}

fn capacity(resources: &BTreeMap<String, Amount>, names: &mut Symbols) -> Result<Resources, Fault> {
    let mut all = Resources::default();
    for (name, amount) in resources {
        let text = amount.text();
        let wrong = |error: QuantityError| {
            (
                format!("resources[{name}]"),
                format!("quantity {} {error}", quoted(&text)),
                "write it like 4 or 16Gi",
            )
        };
        let quantity = Quantity::parse(&text).map_err(wrong)?;
        let resource = ResourceId::named(name, names);
        let value = if resource == ResourceId::Cpu {
            quantity.milli()
        } else {
            quantity.whole()
        };
        all.set(resource, value.map_err(wrong)?);
    }
    Ok(all)
}

fn offering(wire: &WireOffering, names: &mut Symbols) -> Result<Offering, Fault> {
    let mut found = Offering {
        instance_type: TypeId(0),
        requirements: [].into(),
        zone: None,
        capacity_type: None,
        price: wire.price,
        available: wire.available,
        reservation: None,
    };
    let mut reservation = None;
    let mut requirements: Vec<Requirement> = Vec::with_capacity(wire.requirements.len());
    for (index, wire) in wire.requirements.iter().enumerate() {
        let fault =
            |field: &str, what, hint| Err((format!("Requirements[{index}]{field}"), what, hint));
        let key = labels::stable(&wire.key);
        if wire.operator != "In" {
            return fault(
                ".operator",
                format!("{} does not pin a value", quoted(&wire.operator)),
                "expected In with one value",
            );
        }
        let [value] = wire.values.as_slice() else {
            return fault(
                ".values",
                format!("has {} values", wire.values.len()),
                "an offering has one zone, one capacity type, …",
            );
        };
        let requirement = Requirement::is(names.intern(key), names.intern(value));
        if requirements
            .iter()
            .any(|other: &Requirement| other.key == requirement.key)
        {
            return fault(
                ".key",
                format!("{} is there twice", quoted(key)),
                "remove one",
            );
        }
        let value_symbol = names.intern(value);
        match key {
            labels::ZONE => found.zone = Some(value_symbol),
            labels::CAPACITY_TYPE if !capacity_type::ALL.contains(&value.as_str()) => {
                let what = format!("{} is not a capacity type", quoted(value));
                return fault(".values", what, "expected on-demand, spot or reserved");
            }
            labels::CAPACITY_TYPE => found.capacity_type = Some(value_symbol),
            key if key.ends_with("/capacity-reservation-id") => reservation = Some(value_symbol),
            _ => {}
        }
        requirements.push(requirement);
    }
    found.requirements = requirements.into();
    let has = |missing: bool, key: &str| match missing {
        true => Err((
            "Requirements".to_owned(),
            format!("{key} is missing"),
            "every offering has a zone and a capacity type",
        )),
        false => Ok(()),
    };
    has(found.zone.is_none(), labels::ZONE)?;
    has(found.capacity_type.is_none(), labels::CAPACITY_TYPE)?;
    let reserved = found
        .capacity_type
        .is_some_and(|c| names.text(c) == capacity_type::RESERVED);
    let free = reserved && wire.price == 0.0;
    if !wire.price.is_finite() || (wire.price <= 0.0 && !free) {
        let what = format!("{} is not a price", wire.price);
        let hint = "give USD per hour, above 0 (or 0 if reserved); set Available to false for \
            what cannot be had";
        return Err(("Price".to_owned(), what, hint));
    }
    found.reservation = match (reserved, reservation, wire.reservation_capacity) {
        (false, _, None) => None,
        (false, _, Some(_)) => {
            let what = "only reserved offerings have one".to_owned();
            return Err((
                "ReservationCapacity".to_owned(),
                what,
                "remove it, or set the capacity type to reserved",
            ));
        }
        (true, None, _) => {
            let what = "a reserved offering names no reservation".to_owned();
            return Err((
                "Requirements".to_owned(),
                what,
                "add karpenter.k8s.aws/capacity-reservation-id In [its id]",
            ));
        }
        (true, Some(_), None) => {
            let what = "is missing on a reserved offering".to_owned();
            return Err((
                "ReservationCapacity".to_owned(),
                what,
                "say how many instances are left in the reservation",
            ));
        }
        (true, Some(id), Some(left)) => match u32::try_from(left) {
            Ok(left) => Some((id, left)),
            Err(_) => {
                return Err((
                    "ReservationCapacity".to_owned(),
                    format!("{left} is out of range"),
                    "it starts at 0",
                ));
            }
        },
    };
    Ok(found)
}
