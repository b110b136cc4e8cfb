//! Images: which of the images that EC2 describes a NodeClass' terms select, and in which order.
//!
//! [`parameters()`] says which SSM parameters hold the images of an alias. [`discover`] takes what
//! they held and the images that EC2 described, and gives `status.amis`. Asking SSM and EC2 is left
//! to the caller; so is choosing the image of an instance type, the first whose requirements fit.

mod parameters;
mod select;

use std::collections::BTreeMap;

pub use parameters::{Parameter, Unsupported, Variant, parameters};
pub use select::{Context, NotAnImage, Selected, discover};

/// An image as EC2's DescribeImages gives it. Only images in the state `available` belong here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// ID, such as `ami-0a1`.
    pub id: String,
    /// The name that its owner gave it.
    pub name: String,
    /// `x86_64`, `arm64` or another.
    pub architecture: String,
    /// When it was made, such as `2026-11-01T00:00:00.000Z`.
    pub creation_date: String,
    /// From when on its owner advises against it.
    pub deprecation_time: Option<String>,
    /// The account that owns it.
    pub owner_id: String,
    /// The owner's name, if it has one: `amazon`, `aws-marketplace`.
    pub owner_alias: Option<String>,
    /// Tags by key.
    pub tags: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests;
