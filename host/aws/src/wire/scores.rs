//! Spot placement scores.

use aws_sdk_ec2::types::TargetCapacityUnitType;

use super::owned;
use crate::calls::Call;
use crate::clients::{Clients, pages};
use crate::error::ApiError;
use crate::records::ZoneScore;

/// How likely a request for so many spot instances of any of these types is to succeed, by zone of
/// the region. EC2 wants at least three types.
///
/// # Errors
/// A page failed.
pub async fn of_zones(
    clients: &Clients,
    types: &[String],
    target: i32,
) -> Result<Vec<ZoneScore>, ApiError> {
    pages(Call::GetSpotPlacementScores, |token| async move {
        let request = clients.ec2.get_spot_placement_scores();
        let request = request.set_instance_types(Some(types.to_vec()));
        let request = request
            .target_capacity(target)
            .target_capacity_unit_type(TargetCapacityUnitType::Units)
            .single_availability_zone(true)
            .region_names(clients.region());
        let request = request.max_results(100).set_next_token(token);
        let out = clients
            .send(Call::GetSpotPlacementScores, request.send())
            .await?;
        let row = |one: &aws_sdk_ec2::types::SpotPlacementScore| ZoneScore {
            zone_id: owned(one.availability_zone_id()),
            score: one.score().unwrap_or(0),
        };
        let rows = out.spot_placement_scores().iter().map(row).collect();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}
