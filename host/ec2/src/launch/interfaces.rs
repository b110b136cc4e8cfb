//! Network interfaces of a launch template.

use std::net::IpAddr;

use super::Launch;
use super::template::{ConnectionTracking, NetworkInterface};
use crate::nodeclass::InterfaceType;

/// The interfaces of a type: those that the NodeClass lists; else one EFA interface on each of its
/// cards if the pods use EFA; else one. There is always one, and security groups are on it.
pub(super) fn of_type(launch: &Launch<'_>, at: usize) -> Vec<NetworkInterface> {
    let spec = &launch.node_class.spec;
    let listed = spec.network_interfaces();
    let efa = match launch.efa && listed.is_empty() {
        true => launch.region.types()[at]
            .network
            .efa_interfaces
            .unwrap_or(0),
        false => 0,
    };
    if !listed.is_empty() {
        let interface = |of: &crate::nodeclass::NetworkInterface| {
            let plain = NetworkInterface {
                device_index: of.device_index,
                network_card_index: Some(of.network_card_index),
                interface_type: Some(of.interface_type.as_str()),
                groups: groups(launch),
                ..NetworkInterface::default()
            };
            match of.interface_type {
                InterfaceType::EfaOnly => plain,
                InterfaceType::Interface => addressed(launch, plain),
            }
        };
        return listed.iter().map(interface).collect();
    }
    if efa > 0 {
        let interface = |card: i64| {
            let plain = NetworkInterface {
                // The first has the instance's address; the others stand behind it.
                device_index: i32::from(card > 0),
                network_card_index: i32::try_from(card).ok(),
                interface_type: Some("efa"),
                groups: groups(launch),
                ..NetworkInterface::default()
            };
            addressed(launch, plain)
        };
        return (0..efa).map(interface).collect();
    }
    let plain = NetworkInterface {
        groups: groups(launch),
        ..NetworkInterface::default()
    };
    vec![addressed(launch, plain)]
}

/// An interface with addresses, as the NodeClass and the cluster's IP family have it.
fn addressed(launch: &Launch<'_>, plain: NetworkInterface) -> NetworkInterface {
    let spec = &launch.node_class.spec;
    let prefixes = spec.ip_prefix_count;
    let v6 = is_ipv6(launch);
    NetworkInterface {
        associate_public_ip_address: spec.associate_public_ip_address,
        connection_tracking: spec
            .connection_tracking
            .as_ref()
            .map(|tracking| ConnectionTracking {
                tcp_established_timeout: tracking.tcp_established_timeout,
                udp_stream_timeout: tracking.udp_stream_timeout,
                udp_timeout: tracking.udp_timeout,
            }),
        ipv4_prefix_count: prefixes.filter(|_| !v6),
        ipv6_prefix_count: prefixes.filter(|_| v6),
        ipv6_address_count: v6.then_some(1),
        primary_ipv6: v6.then_some(true),
        ..plain
    }
}

/// Whether the cluster's DNS has an IPv6 address.
fn is_ipv6(launch: &Launch<'_>) -> bool {
    let address: Option<IpAddr> = launch.cluster.kube_dns_ip.parse().ok();
    address.is_some_and(|address| address.is_ipv6())
}

/// IDs of the NodeClass's security groups.
fn groups(launch: &Launch<'_>) -> Vec<String> {
    let status = launch.node_class.status.as_ref();
    let groups = status.map_or(&[][..], |status| &status.security_groups);
    groups.iter().map(|group| group.id.clone()).collect()
}
