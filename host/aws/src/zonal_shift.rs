//! Zonal shifts: zones that Application Recovery Controller takes traffic away from.
//!
//! Nothing is launched in such a zone, and no instance there is described, tagged, rebooted or
//! terminated: EC2's own plane may be what fails. What was known of these instances stays. ARC names
//! zones by ID (`use1-az1`), for their names differ from account to account.

use std::collections::BTreeSet;
use std::time::Duration;

use longshore_cloud::CloudError;

use crate::calls::Call;
use crate::error::{ApiError, Class};
use crate::provider::Ec2;
use crate::records::ShiftFacts;
use crate::wire;

/// How often shifts are asked for.
pub const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// What has changed since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Zones that traffic is shifted away from now, as [`Ec2::zone_text`] names them.
    pub begun: Vec<String>,
    /// Zones whose shift is over.
    pub ended: Vec<String>,
}

/// IDs of zones that traffic is shifted away from at `now`, in seconds since 1970.
pub fn away(shifts: &[ShiftFacts], now: i64) -> BTreeSet<&str> {
    let holds = |shift: &&ShiftFacts| shift.applied && shift.expires.is_none_or(|end| end > now);
    shifts
        .iter()
        .filter(holds)
        .map(|shift| &*shift.zone_id)
        .collect()
}

impl Ec2 {
    /// Asks which zones traffic is shifted away from.
    ///
    /// # Errors
    /// The call failed, or EKS does not know the cluster: what was known holds until it expires.
    /// Where zonal shift is not known for the cluster, nothing holds any more.
    pub async fn refresh_shifts(&self) -> Result<Changes, ApiError> {
        let inner = self.inner();
        if inner.arn.is_empty() {
            let what = "EKS does not know the cluster, so it has no ARN";
            return Err(ApiError {
                class: Class::Invalid,
                ..ApiError::new(Call::GetManagedResource, "", what)
            });
        }
        let answer = wire::zonal_shift::of_resource(&inner.clients, &inner.arn).await;
        let mut state = self.state();
        let answer = answer.map(|shifts| state.shifts = shifts);
        // Zonal shift was switched off for the cluster.
        if matches!(&answer, Err(error) if error.class == Class::NotFound) {
            state.shifts.clear();
        }
        let shifts = state.shifts.clone();
        let shifted = away(&shifts, self.now());
        let before: BTreeSet<String> = state
            .region
            .shifted()
            .iter()
            .map(|id| (**id).into())
            .collect();
        state.region.set_shifted(shifted.iter().copied());
        drop(state);
        let begun = shifted.iter().filter(|id| !before.contains(**id));
        let ended = before.iter().filter(|id| !shifted.contains(&***id));
        if let Err(error) = answer {
            for id in ended {
                let zone = self.zone_text(id);
                tracing::info!(zone, "the zonal shift is over");
            }
            return Err(error);
        }
        Ok(Changes {
            begun: begun.map(|id| self.zone_text(id)).collect(),
            ended: ended.map(|id| self.zone_text(id)).collect(),
        })
    }

    /// Zones that traffic is shifted away from, for people.
    pub fn shifted_zones(&self) -> Vec<String> {
        let region = self.region();
        region
            .shifted()
            .iter()
            .map(|id| self.zone_text(id))
            .collect()
    }

    /// A zone for people: `us-east-1a (use1-az6)`, or its ID alone if no subnet is known there.
    pub fn zone_text(&self, id: &str) -> String {
        let state = self.state();
        let names = state.region.zones().iter().map(|zone| &*zone.name);
        let mut own = names.filter(|name| state.zone_id(name) == Some(id));
        match own.next() {
            Some(name) => format!("{name} ({id})"),
            None => id.to_owned(),
        }
    }

    /// Whether traffic is shifted away from the zone of an instance, by its provider ID.
    pub fn is_shifted(&self, provider_id: &str) -> bool {
        let zone = crate::instances::parse_provider_id(provider_id);
        zone.is_some_and(|(zone, _)| self.state().is_shifted(zone))
    }

    /// Whether instances of a zone may be described and changed.
    pub(crate) fn may_touch(&self, zone: &str) -> Result<(), CloudError> {
        match self.state().is_shifted(zone) {
            false => Ok(()),
            true => Err(CloudError::Other(format!(
                "traffic is shifted away from zone {zone}, so its instances are left alone until \
                 the shift ends"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_shifted_while_a_shift_is_applied_and_has_not_expired() {
        let shift = |zone: &str, applied, expires| ShiftFacts {
            zone_id: zone.to_owned(),
            applied,
            expires,
        };
        let all = [
            shift("use1-az1", true, Some(101)),
            shift("use1-az2", true, Some(100)),
            shift("use1-az3", false, Some(200)),
            shift("use1-az4", true, None),
            shift("use1-az1", false, None),
        ];
        let shifted: Vec<&str> = away(&all, 100).into_iter().collect();
        assert_eq!(shifted, ["use1-az1", "use1-az4"]);
    }
}
