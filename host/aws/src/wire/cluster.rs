//! The cluster as EKS describes it.

use crate::calls::Call;
use crate::clients::Clients;
use crate::error::ApiError;
use crate::records::ClusterFacts;

/// The cluster of a name.
///
/// # Errors
/// The call failed, or there is no such cluster.
pub async fn describe(clients: &Clients, name: &str) -> Result<ClusterFacts, ApiError> {
    let request = clients.eks.describe_cluster().name(name);
    let out = clients.send(Call::DescribeCluster, request.send()).await?;
    let missing = || ApiError::new(Call::DescribeCluster, "", "the reply has no cluster");
    let cluster = out.cluster().ok_or_else(missing)?;
    let network = cluster.kubernetes_network_config();
    let v4 = network.and_then(|of| of.service_ipv4_cidr());
    let v6 = network.and_then(|of| of.service_ipv6_cidr());
    let text = |of: Option<&str>| of.unwrap_or_default().to_owned();
    Ok(ClusterFacts {
        endpoint: text(cluster.endpoint()),
        ca_bundle: text(cluster.certificate_authority().and_then(|of| of.data())),
        cidr: text(v4.or(v6)),
        version: text(cluster.version()),
        arn: text(cluster.arn()),
    })
}
