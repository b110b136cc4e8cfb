//! `longshore types --provider aws`: EC2's instance types under an EC2NodeClass.

use std::path::Path;

use longshore_ec2::catalogue::machine::RESOURCES;
use longshore_ec2::catalogue::requirements::architecture;
use longshore_ec2::catalogue::{ClassCatalogue, Region, answer};
use longshore_ec2::validation::Fault;

use super::COLUMNS;
use crate::answer::Answer;
use crate::args::{Output, TypesArgs};
use crate::input;
use crate::options::{Aws, gates};
use longshore_live::bootstrap::NodesOf;
use longshore_live::error::Failure;
use longshore_report::count;
use longshore_report::messages::size;
use longshore_report::table::table;

/// Lists what can be bought of EC2.
pub fn run(args: &TypesArgs, aws: &Aws, world: &Path) -> Result<Answer, Failure> {
    // None changes the list: reservations are listed if the NodeClass's status has them.
    gates(
        "--feature-gates",
        args.feature_gates.as_deref().unwrap_or_default(),
    )?;
    let (region, class) = read(args, aws, world)?;
    Ok(Answer::ok(match args.output {
        Output::Text => text(&region, &class),
        Output::Json => json(&region, &class, args.offerings),
    }))
}

fn read(args: &TypesArgs, aws: &Aws, file: &Path) -> Result<(Region, ClassCatalogue), Failure> {
    let (world, problems) = input::aws::world(aws, file, args.instance_types.as_deref())?;
    input::complain(&problems);
    let (Some(class), Some(object)) = (world.class, world.object) else {
        return Err(Failure::Input {
            file: file.to_owned(),
            reason: "has no nodeClass".into(),
            hint: "add an EC2NodeClass: what a node has for pods depends on it".into(),
        });
    };
    let fault = |fault: Fault| Failure::Input {
        file: file.to_owned(),
        reason: format!("nodeClass.spec.{}: {}", fault.field, fault.what),
        hint: fault.hint,
    };
    let class = ClassCatalogue::new(&world.region, class);
    let mut class = class.map_err(|refused| fault(input::aws::class_fault(refused)))?;
    if let Some(mut boots) = input::aws::Boots::new(aws, world.cluster, world.kubernetes)? {
        let nodes = [NodesOf::default()];
        for note in boots.ask(&world.region, &mut class, &object, &nodes)? {
            eprintln!("note: {note}");
        }
    }
    Ok((world.region, class))
}

fn json(region: &Region, class: &ClassCatalogue, offerings: bool) -> String {
    let all: Vec<_> = answer::types(region, class, offerings).collect();
    // Plain maps, lists, texts and numbers always serialize.
    serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
}

fn text(region: &Region, class: &ClassCatalogue) -> String {
    let (mut available, mut rows) = (0, Vec::new());
    for at in 0..region.types().len() {
        rows.push(row(region, class, at, &mut available));
    }
    format!(
        "{}\n{}, {} available. CPU and memory are what pods can have. Prices in {} per hour.\n",
        table(&COLUMNS, &rows),
        count(rows.len(), "instance type"),
        count(available, "offering"),
        if region.name().starts_with("cn-") {
            "CNY"
        } else {
            "USD"
        },
    )
}

fn row(region: &Region, class: &ClassCatalogue, at: usize, available: &mut usize) -> Vec<String> {
    let facts = &region.types()[at];
    let allocatable = class.machine(at).allocatable();
    let shown = |row: usize| allocatable[row].map_or("-".into(), |amount| amount.to_string());
    let (mut zones, mut on_demand, mut spot) = (0u64, f64::NAN, f64::NAN);
    class.offerings(region, at, &mut |offering| {
        if !offering.available {
            return;
        }
        *available += 1;
        zones |= 1 << offering.zone;
        let price = offering.price.unwrap_or(f64::NAN);
        match offering.capacity_type {
            // `min` of a number and none is the number.
            "on-demand" => on_demand = on_demand.min(price),
            "spot" => spot = spot.min(price),
            _ => {}
        }
    });
    let price = |price: f64| match price.is_nan() {
        true => "-".into(),
        false => format!("{price:.4}"),
    };
    let also = |row: usize| {
        let amount = allocatable[row].filter(|amount| amount.milli > 0)?;
        Some(format!("{amount} {}", RESOURCES[row]))
    };
    vec![
        facts.name.to_string(),
        architecture(facts).unwrap_or("-").into(),
        shown(0),
        allocatable[1].map_or("-".into(), |amount| size(amount.units())),
        shown(3),
        zones.count_ones().to_string(),
        price(on_demand),
        price(spot),
        (4..10).filter_map(also).collect::<Vec<_>>().join(", "),
    ]
}
