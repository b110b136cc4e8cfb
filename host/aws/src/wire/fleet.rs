//! Fleets, and the dry runs that try whether one could be launched.

use std::time::Duration;

use aws_sdk_ec2::config::Config;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::config::timeout::TimeoutConfig;
use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::types::{
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest,
    FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest,
    FleetOnDemandAllocationStrategy, FleetReservationType, FleetType, InstanceType,
    LaunchTemplateAndOverridesResponse, LaunchTemplateSpecification, OnDemandOptionsRequest,
    ReservedCapacityOptionsRequest, SpotAllocationStrategy, SpotOptionsRequest,
    TargetCapacitySpecificationRequest,
};

use super::{owned, specification};
use crate::calls::Call;
use crate::clients::{Clients, Turn};
use crate::error::{ApiError, Class};
use crate::launch::fleet::{Config as FleetConfig, Fleet, Launched, Market, Refused, Reply};
use crate::records::Tags;

/// Sends a fleet's request once, in a turn of [`Call::CreateFleet`]. The SDK would send it again as
/// it is after an answer that was lost or a refusal; here the caller decides.
///
/// # Errors
/// The call failed. With [`Class::Unknown`] there may be instances all the same.
pub async fn create(clients: &Clients, fleet: &Fleet, turn: Turn<'_>) -> Result<Reply, ApiError> {
    let request = request(clients, fleet).client_token(&fleet.token);
    let sent = request.customize().config_override(once()).send();
    clients.send_in(turn, sent).await.map(|out| reply(&out))
}

/// Whether a fleet could be launched.
///
/// # Errors
/// It could not, or that is not known.
pub async fn dry_run(clients: &Clients, fleet: &Fleet) -> Result<(), ApiError> {
    let request = request(clients, fleet).dry_run(true);
    let sent = request.customize().config_override(once()).send();
    match clients.send(Call::CreateFleet, sent).await {
        Err(error) if error.class == Class::AsWished => Ok(()),
        result => result.map(drop),
    }
}

/// Whether an instance could be run from a template in a subnet.
///
/// # Errors
/// It could not, or that is not known.
pub async fn run_dry(
    clients: &Clients,
    template: &str,
    instance_type: &str,
    subnet: &str,
    tags: &Tags,
) -> Result<(), ApiError> {
    let template = LaunchTemplateSpecification::builder()
        .launch_template_name(template)
        .version("$Latest")
        .build();
    let request = clients.ec2.run_instances().dry_run(true);
    let request = request.min_count(1).max_count(1).launch_template(template);
    let request = request.instance_type(InstanceType::from(instance_type));
    // The template has network interfaces: the subnet belongs to the first of them.
    let interface = aws_sdk_ec2::types::InstanceNetworkInterfaceSpecification::builder()
        .device_index(0)
        .subnet_id(subnet)
        .build();
    let request = request.network_interfaces(interface);
    // Karpenter's policies allow a launch that tags all that it makes, and no other.
    let tagged = ["instance", "volume", "network-interface"];
    let tagged = tagged.map(|kind| specification(kind, tags));
    let request = request.set_tag_specifications(Some(tagged.to_vec()));
    match clients.send(Call::RunInstances, request.send()).await {
        Err(error) if error.class == Class::AsWished => Ok(()),
        result => result.map(drop),
    }
}

fn once() -> aws_sdk_ec2::config::Builder {
    let timeouts = TimeoutConfig::builder()
        .operation_attempt_timeout(Call::CreateFleet.timeout())
        .operation_timeout(Call::CreateFleet.timeout() + Duration::from_secs(5))
        .build();
    Config::builder()
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
}

fn request(clients: &Clients, fleet: &Fleet) -> CreateFleetFluentBuilder {
    let default = match fleet.market {
        Market::OnDemand => DefaultTargetCapacityType::OnDemand,
        Market::Spot => DefaultTargetCapacityType::Spot,
        Market::CapacityBlock => DefaultTargetCapacityType::CapacityBlock,
        Market::Interruptible => DefaultTargetCapacityType::ReservedCapacity,
    };
    let count = i32::try_from(fleet.count).unwrap_or(i32::MAX);
    let target = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(count)
        .default_target_capacity_type(default)
        .build();
    let request = clients.ec2.create_fleet();
    let request = request.r#type(FleetType::Instant);
    let request = request.target_capacity_specification(target);
    let request =
        request.set_launch_template_configs(Some(fleet.configs.iter().map(config).collect()));
    let request = request.set_context(fleet.context.clone());
    let tagged = ["instance", "volume", "fleet"];
    let tagged = tagged.map(|kind| specification(kind, &fleet.tags));
    let request = request.set_tag_specifications(Some(tagged.to_vec()));
    match fleet.market {
        Market::OnDemand => {
            let strategy = match fleet.prioritized {
                true => FleetOnDemandAllocationStrategy::Prioritized,
                false => FleetOnDemandAllocationStrategy::LowestPrice,
            };
            let options = OnDemandOptionsRequest::builder().allocation_strategy(strategy);
            request.on_demand_options(options.build())
        }
        Market::Spot => {
            let strategy = match fleet.prioritized {
                true => SpotAllocationStrategy::CapacityOptimizedPrioritized,
                false => SpotAllocationStrategy::PriceCapacityOptimized,
            };
            let options = SpotOptionsRequest::builder().allocation_strategy(strategy);
            request.spot_options(options.build())
        }
        Market::CapacityBlock => request,
        Market::Interruptible => {
            let options = ReservedCapacityOptionsRequest::builder()
                .reservation_types(FleetReservationType::InterruptibleCapacityReservation);
            request.reserved_capacity_options(options.build())
        }
    }
}

fn config(of: &FleetConfig) -> FleetLaunchTemplateConfigRequest {
    let template = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&of.template)
        .version("$Latest")
        .build();
    let one = |of: &crate::launch::fleet::Override| {
        FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(InstanceType::from(&*of.instance_type))
            .subnet_id(&of.subnet)
            .availability_zone(&of.zone)
            .image_id(&of.image)
            .priority(of.priority)
            .build()
    };
    FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(of.overrides.iter().map(one).collect()))
        .build()
}

fn reply(out: &CreateFleetOutput) -> Reply {
    let template = |of: Option<&LaunchTemplateAndOverridesResponse>| {
        owned(
            of.and_then(|of| of.launch_template_specification())
                .and_then(|of| of.launch_template_name()),
        )
    };
    let mut reply = Reply::default();
    for one in out.instances() {
        let both = one.launch_template_and_overrides();
        let overrides = both.and_then(|of| of.overrides());
        let own = one.instance_type().map(|of| of.as_str());
        let asked = overrides
            .and_then(|of| of.instance_type())
            .map(|of| of.as_str());
        let zone = one.availability_zone();
        let subnet = one.subnet_id();
        for id in one.instance_ids() {
            reply.instances.push(Launched {
                id: id.clone(),
                instance_type: owned(own.or(asked)),
                zone: owned(zone.or(overrides.and_then(|of| of.availability_zone()))),
                subnet: owned(subnet.or(overrides.and_then(|of| of.subnet_id()))),
                image: owned(overrides.and_then(|of| of.image_id())),
                template: template(both),
            });
        }
    }
    for one in out.errors() {
        let both = one.launch_template_and_overrides();
        let overrides = both.and_then(|of| of.overrides());
        reply.errors.push(Refused {
            code: owned(one.error_code()),
            message: owned(one.error_message()),
            instance_type: owned(
                overrides
                    .and_then(|of| of.instance_type())
                    .map(|of| of.as_str()),
            ),
            zone: owned(overrides.and_then(|of| of.availability_zone())),
            subnet: owned(overrides.and_then(|of| of.subnet_id())),
            template: template(both),
        });
    }
    reply
}
