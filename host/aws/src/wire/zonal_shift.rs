//! Zonal shifts of a cluster.

use crate::calls::Call;
use crate::clients::Clients;
use crate::error::ApiError;
use crate::records::ShiftFacts;

/// The shifts of a resource, whether they are applied or not.
///
/// # Errors
/// The call failed, or ARC does not manage the resource.
pub async fn of_resource(clients: &Clients, arn: &str) -> Result<Vec<ShiftFacts>, ApiError> {
    let request = clients.arc_zonal_shift.get_managed_resource();
    let request = request.resource_identifier(arn);
    let out = clients
        .send(Call::GetManagedResource, request.send())
        .await?;
    let shifts = out.zonal_shifts().iter().map(|one| ShiftFacts {
        zone_id: one.away_from().to_owned(),
        applied: one.applied_status().as_str() == "APPLIED",
        expires: Some(one.expiry_time().secs()),
    });
    // Those that AWS begins and ends by itself.
    let own = out.autoshifts().iter().map(|one| ShiftFacts {
        zone_id: one.away_from().to_owned(),
        applied: one.applied_status().as_str() == "APPLIED",
        expires: None,
    });
    Ok(shifts.chain(own).collect())
}
