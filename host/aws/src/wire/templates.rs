//! Launch templates.

use aws_sdk_ec2::types::{
    CapacityReservationPreference, CapacityReservationTarget,
    ConnectionTrackingSpecificationRequest, LaunchTemplateBlockDeviceMappingRequest,
    LaunchTemplateCapacityReservationSpecificationRequest, LaunchTemplateCpuOptionsRequest,
    LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateEnclaveOptionsRequest,
    LaunchTemplateHttpTokensState, LaunchTemplateIamInstanceProfileSpecificationRequest,
    LaunchTemplateInstanceMarketOptionsRequest, LaunchTemplateInstanceMetadataEndpointState,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceMetadataProtocolIpv6,
    LaunchTemplateInstanceMetadataTagsState,
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, LaunchTemplatePlacementRequest,
    LaunchTemplateTagSpecificationRequest, LaunchTemplatesMonitoringRequest, MarketType,
    NestedVirtualizationSpecification, RequestLaunchTemplateData, ResourceType, Tag, Tenancy,
    VolumeType,
};
use longshore_ec2::launch::{
    BlockDeviceMapping, LaunchTemplate, MetadataOptions, NetworkInterface, Placement,
    TagSpecification, TemplateData,
};
use longshore_ec2::tags;

use super::{filters, owned};
use crate::calls::Call;
use crate::clients::{Clients, pages};
use crate::error::{ApiError, Class};
use crate::records::{Filters, TemplateFacts};

/// Makes a template. One that is there already will do: its name follows from its content.
///
/// # Errors
/// The call failed. A dry run fails with [`Class::AsWished`] if it would have succeeded.
pub async fn create(
    clients: &Clients,
    template: &LaunchTemplate,
    dry_run: bool,
) -> Result<(), ApiError> {
    let tags = template.tags.iter().map(|one| {
        let pairs = one.tags.iter().map(|tag| (&tag.key, &tag.value));
        super::specification(one.resource_type, pairs)
    });
    let request = clients.ec2.create_launch_template();
    let request = request.launch_template_name(&template.name);
    let request = request.launch_template_data(data(&template.data));
    let request = request.set_tag_specifications(Some(tags.collect()));
    let request = request.set_dry_run(dry_run.then_some(true));
    match clients
        .send(Call::CreateLaunchTemplate, request.send())
        .await
    {
        Err(error) if error.class == Class::AsWished && !dry_run => {}
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let mut all = template.tags.iter().flat_map(|one| &one.tags);
    if let Some(class) = all.find(|tag| tag.key == tags::NODE_CLASS) {
        let bytes = decoded_len(&template.data.user_data);
        clients.observer().user_data(&class.value, bytes);
    }
    Ok(())
}

/// How many bytes a text in base64 stands for.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// Deletes a template by name. One that is gone will do.
///
/// # Errors
/// The call failed.
pub async fn delete(clients: &Clients, name: &str) -> Result<(), ApiError> {
    let request = clients
        .ec2
        .delete_launch_template()
        .launch_template_name(name);
    match clients
        .send(Call::DeleteLaunchTemplate, request.send())
        .await
    {
        Err(error) if error.class == Class::TemplateGone => Ok(()),
        result => result.map(drop),
    }
}

/// Templates that filters find.
///
/// # Errors
/// A page failed.
pub async fn find(clients: &Clients, query: &Filters) -> Result<Vec<TemplateFacts>, ApiError> {
    pages(Call::DescribeLaunchTemplates, |token| async move {
        let request = clients.ec2.describe_launch_templates();
        let request = request.set_filters(filters(query)).max_results(200);
        let request = request.set_next_token(token);
        let out = clients
            .send(Call::DescribeLaunchTemplates, request.send())
            .await?;
        let template = |one: &aws_sdk_ec2::types::LaunchTemplate| TemplateFacts {
            id: owned(one.launch_template_id()),
            name: owned(one.launch_template_name()),
        };
        let rows = out.launch_templates().iter().map(template).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

fn data(of: &TemplateData) -> RequestLaunchTemplateData {
    let list = |all: Vec<_>| Some(all).filter(|all| !all.is_empty());
    let disks = of.block_device_mappings.iter().map(disk).collect();
    let reservation = of.capacity_reservation.as_ref().map(|of| {
        let preference = CapacityReservationPreference::from(of.preference);
        let target = of.target.as_ref().map(|target| {
            CapacityReservationTarget::builder()
                .capacity_reservation_id(&target.id)
                .build()
        });
        LaunchTemplateCapacityReservationSpecificationRequest::builder()
            .capacity_reservation_preference(preference)
            .set_capacity_reservation_target(target)
            .build()
    });
    let cpu = of.cpu_options.as_ref().map(|of| {
        let nested = NestedVirtualizationSpecification::from(of.nested_virtualization);
        LaunchTemplateCpuOptionsRequest::builder()
            .nested_virtualization(nested)
            .build()
    });
    let profile = of.instance_profile.as_ref().map(|of| {
        LaunchTemplateIamInstanceProfileSpecificationRequest::builder()
            .name(&of.name)
            .build()
    });
    let market = of.market_options.as_ref().map(|of| {
        LaunchTemplateInstanceMarketOptionsRequest::builder()
            .market_type(MarketType::from(of.market_type))
            .build()
    });
    let monitoring = LaunchTemplatesMonitoringRequest::builder()
        .enabled(of.monitoring.enabled)
        .build();
    let enclaves = LaunchTemplateEnclaveOptionsRequest::builder()
        .enabled(of.enclave_options.enabled)
        .build();
    let user_data = Some(of.user_data.clone()).filter(|text| !text.is_empty());
    RequestLaunchTemplateData::builder()
        .set_block_device_mappings(list(disks))
        .set_capacity_reservation_specification(reservation)
        .set_cpu_options(cpu)
        .enclave_options(enclaves)
        .set_iam_instance_profile(profile)
        .image_id(&of.image_id)
        .set_instance_market_options(market)
        .metadata_options(metadata(&of.metadata_options))
        .monitoring(monitoring)
        .set_network_interfaces(Some(of.network_interfaces.iter().map(interface).collect()))
        .placement(placement(&of.placement))
        .set_tag_specifications(Some(of.tags.iter().map(specification).collect()))
        .set_user_data(user_data)
        .build()
}

fn disk(of: &BlockDeviceMapping) -> LaunchTemplateBlockDeviceMappingRequest {
    let small = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
    let ebs = of.ebs.as_ref().map(|of| {
        LaunchTemplateEbsBlockDeviceRequest::builder()
            .set_delete_on_termination(of.delete_on_termination)
            .set_encrypted(of.encrypted)
            .set_iops(of.iops.map(small))
            .set_kms_key_id(of.kms_key_id.clone())
            .set_snapshot_id(of.snapshot_id.clone())
            .set_throughput(of.throughput.map(small))
            .set_volume_initialization_rate(of.volume_initialization_rate)
            .set_volume_size(of.volume_size.map(small))
            .set_volume_type(of.volume_type.map(VolumeType::from))
            .build()
    });
    LaunchTemplateBlockDeviceMappingRequest::builder()
        .set_device_name(of.device_name.clone())
        .set_ebs(ebs)
        .build()
}

fn metadata(of: &MetadataOptions) -> LaunchTemplateInstanceMetadataOptionsRequest {
    let hops = i32::try_from(of.http_put_response_hop_limit).unwrap_or(i32::MAX);
    let ipv6 = of
        .http_protocol_ipv6
        .map(LaunchTemplateInstanceMetadataProtocolIpv6::from);
    let tags = LaunchTemplateInstanceMetadataTagsState::from(of.instance_metadata_tags);
    LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(LaunchTemplateInstanceMetadataEndpointState::from(
            of.http_endpoint,
        ))
        .set_http_protocol_ipv6(ipv6)
        .http_put_response_hop_limit(hops)
        .http_tokens(LaunchTemplateHttpTokensState::from(of.http_tokens))
        .instance_metadata_tags(tags)
        .build()
}

fn interface(of: &NetworkInterface) -> LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let tracking = of.connection_tracking.map(|of| {
        ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(of.tcp_established_timeout)
            .set_udp_stream_timeout(of.udp_stream_timeout)
            .set_udp_timeout(of.udp_timeout)
            .build()
    });
    let groups = Some(of.groups.clone()).filter(|groups| !groups.is_empty());
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .set_associate_public_ip_address(of.associate_public_ip_address)
        .set_connection_tracking_specification(tracking)
        .device_index(of.device_index)
        .set_groups(groups)
        .set_interface_type(of.interface_type.map(str::to_owned))
        .set_ipv4_prefix_count(of.ipv4_prefix_count)
        .set_ipv6_address_count(of.ipv6_address_count)
        .set_ipv6_prefix_count(of.ipv6_prefix_count)
        .set_network_card_index(of.network_card_index)
        .set_primary_ipv6(of.primary_ipv6)
        .build()
}

fn placement(of: &Placement) -> LaunchTemplatePlacementRequest {
    LaunchTemplatePlacementRequest::builder()
        .set_group_id(of.group_id.clone())
        .set_partition_number(of.partition_number)
        .tenancy(Tenancy::from(of.tenancy))
        .build()
}

fn specification(of: &TagSpecification) -> LaunchTemplateTagSpecificationRequest {
    let tag =
        |one: &longshore_ec2::launch::Tag| Tag::builder().key(&one.key).value(&one.value).build();
    LaunchTemplateTagSpecificationRequest::builder()
        .resource_type(ResourceType::from(of.resource_type))
        .set_tags(Some(of.tags.iter().map(tag).collect()))
        .build()
}
