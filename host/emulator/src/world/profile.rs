//! An instance profile.

use super::account::Tags;
use crate::time::Time;

/// An instance profile.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Profile {
    pub id: String,
    pub path: String,
    pub created: Time,
    pub role: Option<String>,
    pub tags: Tags,
}
