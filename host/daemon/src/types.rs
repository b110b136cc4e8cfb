//! `longshore types`: the catalogue as a list.

mod aws;
mod save;

use std::collections::BTreeSet;

use longshore_core::model::{ClusterObjects, Op, ResourceId, TypeId};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::args::{Output, TypesArgs};
use crate::input;
use crate::options;
use longshore_live::error::Failure;
use longshore_report::count;
use longshore_report::messages::amount;
use longshore_report::table::{Align, table};

/// Lists what can be bought.
pub fn run(args: &TypesArgs) -> Result<Answer, Failure> {
    if let Some(aws) = options::aws(args.provider, &args.aws)? {
        if let Some(file) = &args.save_world {
            return save::run(args, file);
        }
        let Some(world) = &args.aws.world else {
            return Err(Failure::Usage {
                message: "--provider aws needs a world".into(),
                hint: "name a file with region, zones and instance types: --world WORLD.yaml; \
                    --save-world FILE writes one of your account"
                    .into(),
            });
        };
        return aws::run(args, &aws, world);
    }
    if args.offerings || args.feature_gates.is_some() || args.save_world.is_some() {
        return Err(Failure::Usage {
            message: "--offerings, --save-world and --feature-gates mean nothing with --provider \
                kwok"
                .into(),
            hint: "add --provider aws, or leave them out".into(),
        });
    }
    let (world, problems) = input::catalogue_only(args.instance_types.as_deref())?;
    input::complain(&problems);
    Ok(Answer::ok(match args.output {
        Output::Text => text(&world),
        Output::Json => format!(
            "{:#}\n",
            Value::Array(types(&world).map(|id| object(&world, id)).collect())
        ),
    }))
}

fn types(world: &ClusterObjects) -> impl Iterator<Item = TypeId> {
    (0..world.catalogue.types().len() as u32).map(TypeId)
}

/// What a list of instance types shows, on every cloud.
const COLUMNS: [(&str, Align); 9] = [
    ("INSTANCE TYPE", Align::Left),
    ("ARCH", Align::Left),
    ("CPU", Align::Right),
    ("MEMORY", Align::Right),
    ("PODS", Align::Right),
    ("ZONES", Align::Right),
    ("ON-DEMAND", Align::Right),
    ("SPOT FROM", Align::Right),
    ("ALSO", Align::Left),
];

fn text(world: &ClusterObjects) -> String {
    let rows: Vec<Vec<String>> = types(world).map(|id| row(world, id)).collect();
    let offerings = world
        .catalogue
        .offerings()
        .iter()
        .filter(|offering| offering.available)
        .count();
    format!(
        "{}\n{}, {} available. Prices in USD per hour.\n",
        table(&COLUMNS, &rows),
        count(rows.len(), "instance type"),
        count(offerings, "offering")
    )
}

fn row(world: &ClusterObjects, id: TypeId) -> Vec<String> {
    let kind = world.catalogue.instance_type(id);
    let offerings = || {
        world
            .catalogue
            .offerings_of(id)
            .iter()
            .filter(|offering| offering.available)
    };
    let cheapest = |capacity_type: &str| {
        let prices = offerings()
            .filter(|offering| {
                offering
                    .capacity_type
                    .is_some_and(|sym| world.names.text(sym) == capacity_type)
            })
            .map(|offering| offering.price);
        prices
            .min_by(f64::total_cmp)
            .map_or("-".into(), |price| format!("{price:.4}"))
    };
    let zones: BTreeSet<_> = offerings().filter_map(|offering| offering.zone).collect();
    let others: Vec<String> = kind
        .capacity
        .iter()
        .filter(|(resource, _)| matches!(resource, ResourceId::Other(_)))
        .map(|(resource, value)| {
            format!(
                "{} {}",
                amount(resource, value),
                resource.name(&world.names)
            )
        })
        .collect();
    vec![
        world.names.text(kind.name).into(),
        label(world, id, "kubernetes.io/arch").unwrap_or("-").into(),
        amount(ResourceId::Cpu, kind.capacity.get(ResourceId::Cpu)),
        amount(ResourceId::Memory, kind.capacity.get(ResourceId::Memory)),
        kind.capacity.get(ResourceId::Pods).to_string(),
        zones.len().to_string(),
        cheapest("on-demand"),
        cheapest("spot"),
        others.join(", "),
    ]
}

/// The only value that a type allows for a label.
fn label<'w>(world: &'w ClusterObjects, id: TypeId, key: &str) -> Option<&'w str> {
    let key = world.names.get(key)?;
    let requirement = world
        .catalogue
        .instance_type(id)
        .requirements
        .iter()
        .find(|r| r.key == key)?;
    match &requirement.op {
        Op::In(values) if values.len() == 1 => Some(world.names.text(values[0])),
        _ => None,
    }
}

fn object(world: &ClusterObjects, id: TypeId) -> Value {
    let kind = world.catalogue.instance_type(id);
    let resources = |all: &longshore_core::model::Resources| -> Value {
        all.iter()
            .map(|(resource, value)| {
                (
                    resource.name(&world.names).to_owned(),
                    amount(resource, value).into(),
                )
            })
            .collect::<serde_json::Map<_, Value>>()
            .into()
    };
    let name = |sym| world.names.text(sym);
    let offerings = world.catalogue.offerings_of(id).iter().map(|offering| {
        json!({
            "zone": offering.zone.map(name),
            "capacityType": offering.capacity_type.map(name),
            "price": offering.price,
            "available": offering.available,
        })
    });
    json!({
        "name": name(kind.name),
        "arch": label(world, id, "kubernetes.io/arch"),
        "capacity": resources(&kind.capacity),
        "allocatable": resources(&kind.allocatable),
        "offerings": offerings.collect::<Vec<_>>(),
    })
}
