//! A launch template.

use std::collections::BTreeMap;

use super::account::Tags;
use crate::time::Time;
use crate::wire::Params;

/// A launch template.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Template {
    pub id: String,
    pub name: String,
    pub created: Time,
    pub tags: Tags,
    pub description: Option<String>,
    /// `LaunchTemplateData`, names relative to it.
    pub data: BTreeMap<String, String>,
}

impl Template {
    /// Its data, to be read by name.
    pub fn params(&self) -> Params {
        Params::from(self.data.clone())
    }
}
