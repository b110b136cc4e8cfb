//! A zonal shift: traffic is led away from a zone.

use crate::time::Time;

/// Traffic is shifted away from a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub id: String,
    pub zone_id: String,
    pub started: Time,
    pub expires: Time,
}
