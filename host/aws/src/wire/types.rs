//! Instance types, where they are offered, and spot prices.

use std::time::SystemTime;

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{
    GpuDeviceInfo, InferenceDeviceInfo, InstanceTypeInfo, LocationType, NetworkCardInfo,
    NeuronDeviceInfo,
};
use serde_json::{Value, json};

use super::filters;
use crate::calls::Call;
use crate::clients::{Clients, pages};
use crate::error::ApiError;
use crate::records::{Filters, SpotPrice};

/// The descriptions of instance types, as EC2 writes them in JSON: [`longshore_ec2::facts::read`]
/// reads and checks them. Virtual machines of x86_64 and arm64 alone.
///
/// # Errors
/// A page failed.
pub async fn descriptions(clients: &Clients) -> Result<Vec<Value>, ApiError> {
    let wanted: Filters = vec![
        (
            "supported-virtualization-type".to_owned(),
            vec!["hvm".to_owned()],
        ),
        (
            "processor-info.supported-architecture".to_owned(),
            vec!["x86_64".to_owned(), "arm64".to_owned()],
        ),
    ];
    let wanted = &wanted;
    pages(Call::DescribeInstanceTypes, |token| async move {
        let request = clients.ec2.describe_instance_types().max_results(100);
        let request = request.set_filters(filters(wanted)).set_next_token(token);
        let out = clients
            .send(Call::DescribeInstanceTypes, request.send())
            .await?;
        let rows = out.instance_types().iter().map(description).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

/// The parts of a description that are read.
fn description(one: &InstanceTypeInfo) -> Value {
    let texts = |all: Vec<&str>| json!(all);
    let processor = one.processor_info();
    let network = one.network_info();
    let ebs = one.ebs_info();
    let storage = one.instance_storage_info();
    json!({
        "InstanceType": one.instance_type().map(|of| of.as_str()),
        "ProcessorInfo": {
            "SupportedArchitectures": texts(processor.map_or(Vec::new(), |of| {
                of.supported_architectures().iter().map(|one| one.as_str()).collect()
            })),
            "Manufacturer": processor.and_then(|of| of.manufacturer()),
            "SustainedClockSpeedInGhz": processor.and_then(|of| of.sustained_clock_speed_in_ghz()),
            "SupportedFeatures": texts(processor.map_or(Vec::new(), |of| {
                of.supported_features().iter().map(|one| one.as_str()).collect()
            })),
        },
        "VCpuInfo": {
            "DefaultVCpus": one.v_cpu_info().and_then(|of| of.default_v_cpus()).unwrap_or(0),
        },
        "MemoryInfo": {
            "SizeInMiB": one.memory_info().and_then(|of| of.size_in_mib()).unwrap_or(0),
        },
        "SupportedUsageClasses": texts(
            one.supported_usage_classes().iter().map(|one| one.as_str()).collect(),
        ),
        "Hypervisor": one.hypervisor().map(|of| of.as_str()),
        "BareMetal": one.bare_metal(),
        "NitroEnclavesSupport": one.nitro_enclaves_support().map(|of| of.as_str()),
        "PlacementGroupInfo": {
            "SupportedStrategies": texts(one.placement_group_info().map_or(Vec::new(), |of| {
                of.supported_strategies().iter().map(|one| one.as_str()).collect()
            })),
        },
        "InstanceStorageInfo": storage.map(|of| json!({
            "TotalSizeInGB": of.total_size_in_gb(),
            "NvmeSupport": of.nvme_support().map(|of| of.as_str()),
            "Disks": of.disks().iter().map(|of| json!({"Count": of.count()})).collect::<Vec<_>>(),
        })),
        "EbsInfo": ebs.map(|of| json!({
            "EbsOptimizedSupport": of.ebs_optimized_support().map(|of| of.as_str()),
            "EbsOptimizedInfo": of.ebs_optimized_info().map(|of| json!({
                "MaximumBandwidthInMbps": of.maximum_bandwidth_in_mbps(),
            })),
        })),
        "NetworkInfo": network.map(|of| json!({
            "EnaSupport": of.ena_support().map(|of| of.as_str()),
            "EncryptionInTransitSupported": of.encryption_in_transit_supported(),
            "MaximumNetworkInterfaces": of.maximum_network_interfaces(),
            "DefaultNetworkCardIndex": of.default_network_card_index(),
            "NetworkCards": of.network_cards().iter().map(card).collect::<Vec<_>>(),
            "Ipv4AddressesPerInterface": of.ipv4_addresses_per_interface(),
            "EfaInfo": of.efa_info().map(|of| json!({
                "MaximumEfaInterfaces": of.maximum_efa_interfaces(),
            })),
        })),
        "GpuInfo": one.gpu_info().map(|of| json!({
            "Gpus": of.gpus().iter().map(gpu).collect::<Vec<_>>(),
        })),
        "InferenceAcceleratorInfo": one.inference_accelerator_info().map(|of| json!({
            "Accelerators": of.accelerators().iter().map(accelerator).collect::<Vec<_>>(),
        })),
        "NeuronInfo": one.neuron_info().map(|of| json!({
            "NeuronDevices": of.neuron_devices().iter().map(neuron).collect::<Vec<_>>(),
        })),
    })
}

fn card(one: &NetworkCardInfo) -> Value {
    json!({
        "NetworkCardIndex": one.network_card_index().unwrap_or(0),
        "MaximumNetworkInterfaces": one.maximum_network_interfaces().unwrap_or(0),
    })
}

fn gpu(one: &GpuDeviceInfo) -> Value {
    let memory = one
        .memory_info()
        .and_then(|of| of.size_in_mib())
        .unwrap_or(0);
    json!({
        "Name": one.name().unwrap_or_default(),
        "Manufacturer": one.manufacturer().unwrap_or_default(),
        "Count": one.count().unwrap_or(0),
        "MemoryInfo": {"SizeInMiB": memory},
    })
}

fn accelerator(one: &InferenceDeviceInfo) -> Value {
    json!({
        "Name": one.name().unwrap_or_default(),
        "Manufacturer": one.manufacturer().unwrap_or_default(),
        "Count": one.count().unwrap_or(0),
    })
}

fn neuron(one: &NeuronDeviceInfo) -> Value {
    json!({
        "Name": one.name().unwrap_or_default(),
        "Count": one.count().unwrap_or(0),
        "CoreInfo": {"Count": one.core_info().and_then(|of| of.count()).unwrap_or(0)},
    })
}

/// Types and the zones that offer them.
///
/// # Errors
/// A page failed.
pub async fn offerings(clients: &Clients) -> Result<Vec<(String, String)>, ApiError> {
    pages(Call::DescribeInstanceTypeOfferings, |token| async move {
        let request = clients.ec2.describe_instance_type_offerings();
        let request = request.location_type(LocationType::AvailabilityZone);
        let request = request.max_results(1000).set_next_token(token);
        let out = clients
            .send(Call::DescribeInstanceTypeOfferings, request.send())
            .await?;
        let pair = |one: &aws_sdk_ec2::types::InstanceTypeOffering| {
            Some((
                one.instance_type()?.as_str().to_owned(),
                one.location()?.to_owned(),
            ))
        };
        let rows = out
            .instance_type_offerings()
            .iter()
            .filter_map(pair)
            .collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}

/// Today's spot prices of Linux.
///
/// # Errors
/// A page failed.
pub async fn spot_prices(clients: &Clients, now: SystemTime) -> Result<Vec<SpotPrice>, ApiError> {
    pages(Call::DescribeSpotPriceHistory, |token| async move {
        let request = clients.ec2.describe_spot_price_history();
        let request = request.start_time(DateTime::from(now));
        let request = request.product_descriptions("Linux/UNIX");
        let request = request.product_descriptions("Linux/UNIX (Amazon VPC)");
        let request = request.max_results(1000).set_next_token(token);
        let out = clients
            .send(Call::DescribeSpotPriceHistory, request.send())
            .await?;
        let price = |one: &aws_sdk_ec2::types::SpotPrice| {
            let price: f64 = one.spot_price()?.parse().ok()?;
            Some(SpotPrice {
                instance_type: one.instance_type()?.as_str().to_owned(),
                zone: one.availability_zone()?.to_owned(),
                price: Some(price).filter(|price| price.is_finite() && *price > 0.0)?,
                at: one.timestamp().map_or(0, |at| at.secs()),
            })
        };
        let rows = out.spot_price_history().iter().filter_map(price).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}
