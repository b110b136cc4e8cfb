//! DescribeInstanceStatus: checks and planned events.

use super::filters::Filters;
use super::instances::state;
use super::paging::Page;
use crate::action::{Context, Found};
use crate::time::Time;
use crate::wire::{Scope, Xml, element, items, text};
use crate::world::account::Tags;
use crate::world::{Instance, InstanceState, World};

pub(super) fn describe(world: &World, context: &Context, scope: &Scope) -> Found {
    let ids = scope.texts("InstanceId");
    let all = scope.flag("IncludeAllInstances")?;
    let filters = Filters::read(
        scope,
        &[
            "instance-status.status",
            "system-status.status",
            "event.code",
            "availability-zone",
            "instance-state-name",
        ],
    )?;
    let page = Page::read(scope, 1000, 5, 1000)?;
    let none = Tags::new();
    let rows = world.instances.iter_at(context.as_of).filter(|(id, one)| {
        (ids.is_empty() || ids.contains(id))
            && (all || one.state == InstanceState::Running)
            && filters.fit(&none, |field| match field {
                "instance-status.status" => vec![status(one, one.instance_impaired)],
                "system-status.status" => vec![status(one, one.system_impaired)],
                "event.code" => one
                    .planned
                    .iter()
                    .map(|event| event.code.as_str())
                    .collect(),
                "availability-zone" => vec![one.zone.as_str()],
                _ => vec![one.state.name()],
            })
    });
    Ok(page.cut("instanceStatusSet", rows, |one| {
        let events = one.planned.iter().enumerate().map(|(at, event)| {
            vec![
                text(
                    "instanceEventId",
                    format!("instance-event-{}-{at}", &one.id[2..]),
                ),
                text("code", &event.code),
                text("description", "The instance is scheduled for maintenance"),
                text("notBefore", event.not_before.iso()),
            ]
        });
        let mut entry = vec![
            text("instanceId", &one.id),
            text("availabilityZone", &one.zone),
            text("availabilityZoneId", &one.zone_id),
            state("instanceState", one.state),
            check("instanceStatus", one, one.instance_impaired),
            check("systemStatus", one, one.system_impaired),
        ];
        if !one.planned.is_empty() {
            entry.push(items("eventsSet", events));
        }
        entry
    }))
}

fn status(one: &Instance, impaired: Option<Time>) -> &'static str {
    match (one.state, impaired) {
        (InstanceState::Running, Some(_)) => "impaired",
        (InstanceState::Running, None) => "ok",
        _ => "not-applicable",
    }
}

fn check(name: &'static str, one: &Instance, impaired: Option<Time>) -> Xml {
    let status = status(one, impaired);
    let mut detail = vec![
        text("name", "reachability"),
        text(
            "status",
            if status == "impaired" {
                "failed"
            } else {
                "passed"
            },
        ),
    ];
    detail.extend(impaired.map(|since| text("impairedSince", since.iso())));
    let mut all = vec![text("status", status)];
    if status != "not-applicable" {
        all.push(items("details", [detail]));
    }
    element(name, all)
}
