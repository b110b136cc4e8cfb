//! EKS: DescribeCluster.

use serde_json::{Value, json};

use crate::action::Context;
use crate::wire::Refusal;
use crate::world::World;

pub(crate) fn answer(world: &World, context: &Context, path: &str) -> Result<Value, Refusal> {
    if context.action != "DescribeCluster" {
        return Err(crate::json::unknown(path).status(404));
    }
    let name = path.trim_start_matches("/clusters/");
    let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
    let (account, cluster) = (&world.account, &world.account.cluster);
    if name != cluster.name {
        let message = format!("No cluster found for name: {name}.");
        return Err(Refusal::new("ResourceNotFoundException", message));
    }
    let subnets: Vec<_> = account.subnets.keys().collect();
    let groups: Vec<_> = account.groups.keys().collect();
    Ok(json!({"cluster": {
        "name": cluster.name,
        "arn": account.arn("eks", &format!("cluster/{}", cluster.name)),
        "createdAt": 1_760_000_000.0,
        "version": cluster.version,
        "endpoint": cluster.endpoint,
        "roleArn": account.arn("iam", &format!("role/eks-{}", cluster.name)),
        "resourcesVpcConfig": {
            "subnetIds": subnets,
            "securityGroupIds": groups,
            "vpcId": account.vpc,
            "endpointPublicAccess": true,
            "endpointPrivateAccess": false,
            "publicAccessCidrs": ["0.0.0.0/0"],
        },
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": cluster.cidr, "ipFamily": "ipv4"},
        "status": "ACTIVE",
        "certificateAuthority": {"data": cluster.ca_bundle},
        "platformVersion": "eks.1",
        "tags": {},
    }}))
}
