//! Subnets, security groups, images, parameters, reservations, placement groups.

use longshore_ec2::images::Image;

use super::{filters, owned, tags};
use crate::calls::Call;
use crate::clients::{Clients, pages};
use crate::error::{ApiError, Class};
use crate::records::{
    Filters, GroupFacts, ImageQuery, PlacementFacts, ReservationFacts, SubnetFacts,
};

/// Subnets that filters find.
///
/// # Errors
/// A page failed.
pub async fn subnets(clients: &Clients, query: &Filters) -> Result<Vec<SubnetFacts>, ApiError> {
    pages(Call::DescribeSubnets, |token| async move {
        let request = clients.ec2.describe_subnets();
        let request = request.set_filters(filters(query)).max_results(500);
        let request = request.set_next_token(token);
        let out = clients.send(Call::DescribeSubnets, request.send()).await?;
        let subnet = |one: &aws_sdk_ec2::types::Subnet| SubnetFacts {
            id: owned(one.subnet_id()),
            zone: owned(one.availability_zone()),
            zone_id: owned(one.availability_zone_id()),
            vpc: owned(one.vpc_id()),
            free: i64::from(one.available_ip_address_count().unwrap_or(0)),
        };
        let rows = out.subnets().iter().map(subnet).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

/// Security groups that filters find.
///
/// # Errors
/// A page failed.
pub async fn groups(clients: &Clients, query: &Filters) -> Result<Vec<GroupFacts>, ApiError> {
    pages(Call::DescribeSecurityGroups, |token| async move {
        let request = clients.ec2.describe_security_groups();
        let request = request.set_filters(filters(query)).max_results(500);
        let request = request.set_next_token(token);
        let out = clients
            .send(Call::DescribeSecurityGroups, request.send())
            .await?;
        let group = |one: &aws_sdk_ec2::types::SecurityGroup| GroupFacts {
            id: owned(one.group_id()),
            name: owned(one.group_name()),
            vpc: owned(one.vpc_id()),
        };
        let rows = out.security_groups().iter().map(group).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

/// Images that a query finds, deprecated ones as well.
///
/// # Errors
/// A page failed.
pub async fn images(clients: &Clients, query: &ImageQuery) -> Result<Vec<Image>, ApiError> {
    pages(Call::DescribeImages, |token| async move {
        let request = clients.ec2.describe_images().include_deprecated(true);
        let request = request
            .set_filters(filters(&query.filters))
            .max_results(1000);
        let owners = Some(query.owners.clone()).filter(|owners| !owners.is_empty());
        let request = request.set_owners(owners).set_next_token(token);
        let out = clients.send(Call::DescribeImages, request.send()).await?;
        let image = |one: &aws_sdk_ec2::types::Image| Image {
            id: owned(one.image_id()),
            name: owned(one.name()),
            architecture: owned(one.architecture().map(|of| of.as_str())),
            creation_date: owned(one.creation_date()),
            deprecation_time: one.deprecation_time().map(str::to_owned),
            owner_id: owned(one.owner_id()),
            owner_alias: one.image_owner_alias().map(str::to_owned),
            tags: tags(one.tags()),
        };
        let rows = out.images().iter().map(image).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

/// The value of a parameter; nothing if there is no such parameter.
///
/// # Errors
/// The call failed.
pub async fn parameter(clients: &Clients, name: &str) -> Result<Option<String>, ApiError> {
    let request = clients.ssm.get_parameter().name(name);
    match clients.send(Call::GetParameter, request.send()).await {
        Ok(out) => Ok(out
            .parameter()
            .and_then(|one| one.value())
            .map(str::to_owned)),
        Err(error) if error.class == Class::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reservations that are active and that filters find.
///
/// # Errors
/// A page failed.
pub async fn reservations(
    clients: &Clients,
    query: &Filters,
) -> Result<Vec<ReservationFacts>, ApiError> {
    pages(Call::DescribeCapacityReservations, |token| async move {
        let request = clients.ec2.describe_capacity_reservations();
        let request = request.set_filters(filters(query)).max_results(1000);
        let request = request.set_next_token(token);
        let out = clients
            .send(Call::DescribeCapacityReservations, request.send())
            .await?;
        let rows = out
            .capacity_reservations()
            .iter()
            .map(reservation)
            .collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

/// One reservation, whatever its state; nothing if there is none.
///
/// # Errors
/// The call failed.
pub async fn reservation_by_id(
    clients: &Clients,
    id: &str,
) -> Result<Option<ReservationFacts>, ApiError> {
    let request = clients.ec2.describe_capacity_reservations();
    let request = request.capacity_reservation_ids(id);
    match clients
        .send(Call::DescribeCapacityReservations, request.send())
        .await
    {
        Ok(out) => {
            let active = |one: &&aws_sdk_ec2::types::CapacityReservation| {
                one.state().is_some_and(|state| state.as_str() == "active")
            };
            Ok(out
                .capacity_reservations()
                .iter()
                .find(active)
                .map(reservation))
        }
        Err(error) if error.class == Class::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn reservation(one: &aws_sdk_ec2::types::CapacityReservation) -> ReservationFacts {
    ReservationFacts {
        id: owned(one.capacity_reservation_id()),
        owner: owned(one.owner_id()),
        instance_type: owned(one.instance_type()),
        zone: owned(one.availability_zone()),
        available: i64::from(one.available_instance_count().unwrap_or(0)),
        end: one.end_date().map(|date| date.secs()),
        criteria: owned(one.instance_match_criteria().map(|of| of.as_str())),
        kind: owned(one.reservation_type().map(|of| of.as_str())),
        interruptible: one.interruptible().unwrap_or(false),
    }
}

/// A placement group by ID or name; nothing if there is none.
///
/// # Errors
/// The call failed.
pub async fn placement_group(
    clients: &Clients,
    id: Option<&str>,
    name: Option<&str>,
) -> Result<Option<PlacementFacts>, ApiError> {
    let request = clients.ec2.describe_placement_groups();
    let request = request.set_group_ids(id.map(|id| vec![id.to_owned()]));
    let request = request.set_group_names(name.map(|name| vec![name.to_owned()]));
    let out = match clients
        .send(Call::DescribePlacementGroups, request.send())
        .await
    {
        Ok(out) => out,
        Err(error) if error.class == Class::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let group = |one: &aws_sdk_ec2::types::PlacementGroup| {
        let strategy = owned(one.strategy().map(|of| of.as_str()));
        PlacementFacts {
            id: owned(one.group_id()),
            name: owned(one.group_name()),
            partitions: match &*strategy {
                // Seven is the most that EC2 gives.
                "partition" => i64::from(one.partition_count().unwrap_or(7)).clamp(0, 7),
                _ => 0,
            },
            strategy,
            state: owned(one.state().map(|of| of.as_str())),
        }
    };
    Ok(out.placement_groups().first().map(group))
}
