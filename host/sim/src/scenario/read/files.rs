//! Files that a scenario refers to: instance types and manifests.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use longshore_api::labels::kwok;
use longshore_core::model::{Catalogue, Op, Symbols};
use longshore_live::config::reader::Table;
use longshore_live::error::Failure;
use serde_json::Value;

use super::values::path;

/// The largest file that a scenario names, in bytes.
pub(super) const MAX_WORLD_BYTES: u64 = 256 << 20;

/// What can be bought.
///
/// # Errors
/// A file with faults of its own, which are printed with their places.
pub fn types(root: &mut Table, folder: &Path) -> Result<Arc<(Catalogue, Symbols)>, Failure> {
    let mut names = Symbols::default();
    let Some(typed) = root.text("instance-types") else {
        let catalogue = longshore_kwok::catalogue::built_in(&mut names);
        return Ok(Arc::new((catalogue, names)));
    };
    let file = path(folder, typed);
    let bytes = match longshore_files::read(&file, MAX_WORLD_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => {
            let message = format!("`instance-types`: cannot read {}: {error}", file.display());
            root.fault_at(
                "instance-types",
                message,
                "leave it out for the 144 types of Karpenter's KWOK provider".into(),
            );
            return Ok(Arc::default());
        }
    };
    let (catalogue, problems) =
        longshore_kwok::catalogue::parse(&file.display().to_string(), &bytes, &mut names);
    match problems.list.first() {
        None => Ok(Arc::new((catalogue, names))),
        Some(first) => Err(Failure::Unusable {
            source_name: first.location.source.clone(),
            problems,
        }),
    }
}

/// Names that offerings go by.
#[derive(Default)]
pub struct Offerings {
    /// Type, zone and capacity type of each.
    all: BTreeSet<[String; 3]>,
    pub zones: Vec<String>,
    pub types: Vec<String>,
    /// The families of the types, as nodes are labelled.
    pub families: Vec<String>,
    pub sizes: Vec<String>,
}

impl Offerings {
    pub fn of(types: &(Catalogue, Symbols)) -> Self {
        let (catalogue, names) = types;
        let text = |s: Option<_>| s.map_or("", |s| names.text(s)).to_owned();
        let offering = |o: &longshore_core::model::Offering| {
            let name = names
                .text(catalogue.instance_type(o.instance_type).name)
                .to_owned();
            [name, text(o.zone), text(o.capacity_type)]
        };
        let values = |label: &str| {
            let mut all = BTreeSet::new();
            let label = names.get(label);
            let rows = label.map_or(&[][..], |label| catalogue.index().types_with(label));
            for &(at, place) in rows {
                let row = &catalogue.types()[at as usize].requirements[place as usize];
                if let Op::In(values) = &row.op {
                    all.extend(values.iter().map(|value| names.text(*value).to_owned()));
                }
            }
            all.into_iter().collect()
        };
        Offerings {
            families: values(kwok::FAMILY),
            sizes: values(kwok::SIZE),
            ..Offerings::named(catalogue.offerings().iter().map(offering))
        }
    }

    pub fn named(all: impl IntoIterator<Item = [String; 3]>) -> Self {
        let all: BTreeSet<[String; 3]> = all.into_iter().collect();
        let some = |at: usize| {
            all.iter()
                .map(|o| o[at].clone())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect()
        };
        let (types, zones): (Vec<String>, Vec<String>) = (some(0), some(1));
        let parts = types.iter().filter_map(|name| name.split_once('.'));
        let families: BTreeSet<&str> = parts.clone().map(|(family, _)| family).collect();
        let sizes: BTreeSet<&str> = parts.map(|(_, size)| size).collect();
        let owned = |all: BTreeSet<&str>| all.into_iter().map(str::to_owned).collect();
        let (families, sizes) = (owned(families), owned(sizes));
        Offerings {
            all,
            zones,
            types,
            families,
            sizes,
        }
    }

    /// Whether a pattern `TYPE/ZONE/CAPACITY-TYPE` means any of them.
    pub fn any(&self, pattern: &str) -> bool {
        let parts: Vec<&str> = pattern.split('/').collect();
        let fits = |o: &[String; 3]| {
            parts
                .iter()
                .zip(o)
                .all(|(part, text)| *part == "*" || part == text)
        };
        parts.len() <= 3 && self.all.iter().any(fits)
    }
}

/// The objects of the files under `manifests`.
pub fn manifests(table: &mut Table, folder: &Path) -> Vec<Value> {
    let mut objects = Vec::new();
    for typed in table.texts("manifests").unwrap_or_default() {
        let file = path(folder, &typed);
        let read = longshore_files::read_text(&file, MAX_WORLD_BYTES)
            .map_err(|error| format!("cannot read {}: {error}", file.display()));
        let read = read.and_then(|text| {
            let parsed: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&text);
            parsed.map_err(|error| format!("{} is not YAML: {error}", file.display()))
        });
        match read {
            Ok(documents) => {
                objects.extend(documents.into_iter().filter(|document| !document.is_null()))
            }
            Err(why) => table.fault_at(
                "manifests",
                why,
                "each is a file of YAML documents, as for kubectl".into(),
            ),
        }
    }
    for object in &objects {
        if object["kind"].as_str().is_none() || object["metadata"]["name"].as_str().is_none() {
            let message = "a manifest has no `kind` or no `metadata.name`".into();
            table.fault_at(
                "manifests",
                message,
                "lists and generateName are not read here".into(),
            );
            break;
        }
    }
    objects
}
