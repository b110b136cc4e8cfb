//! Instances: describe, terminate, tag.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{Instance, Tag};

use super::{filters, owned, tags};
use crate::calls::Call;
use crate::clients::{Clients, pages};
use crate::error::ApiError;
use crate::records::{Filters, InstanceFacts, Tags};

/// Instances that filters find, whatever their state unless a filter says it.
///
/// # Errors
/// A page failed: what is missing must not be taken for gone.
pub async fn find(clients: &Clients, query: &Filters) -> Result<Vec<InstanceFacts>, ApiError> {
    pages(Call::DescribeInstances, |token| async move {
        let request = clients.ec2.describe_instances();
        let request = request.set_filters(filters(query)).max_results(1000);
        let request = request.set_next_token(token);
        let out = clients
            .send(Call::DescribeInstances, request.send())
            .await?;
        let all = out.reservations().iter().flat_map(|one| one.instances());
        let rows = all.map(facts).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

/// What terminating said of each instance: its state.
///
/// # Errors
/// The call failed for all of them. One that does not exist fails the others as well.
pub async fn terminate(
    clients: &Clients,
    ids: &[String],
) -> Result<BTreeMap<String, String>, ApiError> {
    let request = clients.ec2.terminate_instances();
    let request = request.set_instance_ids(Some(ids.to_vec()));
    let out = clients
        .send(Call::TerminateInstances, request.send())
        .await?;
    let state = |one: &aws_sdk_ec2::types::InstanceStateChange| {
        let state = one.current_state()?.name()?.as_str().to_owned();
        Some((one.instance_id()?.to_owned(), state))
    };
    Ok(out
        .terminating_instances()
        .iter()
        .filter_map(state)
        .collect())
}

/// Starts an instance anew.
///
/// # Errors
/// The call failed.
pub async fn reboot(clients: &Clients, id: &str) -> Result<(), ApiError> {
    let request = clients.ec2.reboot_instances().instance_ids(id);
    clients
        .send(Call::RebootInstances, request.send())
        .await
        .map(drop)
}

/// Sets tags of an instance.
///
/// # Errors
/// The call failed.
pub async fn tag(clients: &Clients, id: &str, tags: &Tags) -> Result<(), ApiError> {
    let tag = |(key, value): (&String, &String)| Tag::builder().key(key).value(value).build();
    let request = clients.ec2.create_tags().resources(id);
    let request = request.set_tags(Some(tags.iter().map(tag).collect()));
    clients
        .send(Call::CreateTags, request.send())
        .await
        .map(drop)
}

fn facts(one: &Instance) -> InstanceFacts {
    let placement = one.placement();
    let primary = one.network_interfaces().iter().find(|interface| {
        let attachment = interface.attachment();
        attachment.is_some_and(|of| {
            of.device_index() == Some(0) && of.network_card_index().unwrap_or(0) == 0
        })
    });
    let groups = primary.map_or(one.security_groups(), |interface| interface.groups());
    let preference = one
        .capacity_reservation_specification()
        .and_then(|of| of.capacity_reservation_preference());
    let reserved = preference.is_some_and(|of| of.as_str() == "capacity-reservations-only");
    InstanceFacts {
        id: owned(one.instance_id()),
        state: owned(one.state().and_then(|of| of.name()).map(|of| of.as_str())),
        instance_type: owned(one.instance_type().map(|of| of.as_str())),
        zone: owned(placement.and_then(|of| of.availability_zone())),
        zone_id: owned(placement.and_then(|of| of.availability_zone_id())),
        image: owned(one.image_id()),
        subnet: owned(one.subnet_id()),
        groups: groups
            .iter()
            .filter_map(|of| of.group_id())
            .map(str::to_owned)
            .collect(),
        tags: tags(one.tags()),
        spot: one.spot_instance_request_id().is_some(),
        reservation: one
            .capacity_reservation_id()
            .filter(|_| reserved)
            .map(str::to_owned),
        lifecycle: owned(one.instance_lifecycle().map(|of| of.as_str())),
        tenancy: owned(placement.and_then(|of| of.tenancy()).map(|of| of.as_str())),
        placement_group: owned(placement.and_then(|of| of.group_id())),
        partition: placement.and_then(|of| of.partition_number()).unwrap_or(0),
        profile: owned(
            one.iam_instance_profile()
                .and_then(|of| of.arn())
                .and_then(|arn| arn.rsplit('/').next()),
        ),
        launched: one.launch_time().map_or(0, |at| at.secs()),
    }
}
