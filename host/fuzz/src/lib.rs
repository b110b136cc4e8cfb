//! Fuzz targets for outside data: each target takes any bytes and panics if a reader breaks its
//! promise.

mod ec2;
mod inputs;
mod plan;
mod readers;

pub use ec2::{nodeclass, userdata_mime, userdata_toml, userdata_yaml};
pub use inputs::{Inputs, corpus};
pub use plan::plan;
pub use readers::{catalogue, config, durations, journal, json, manifests, quantities, watch};

/// A target: its name and the function that takes any bytes.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 13] = [
    ("manifests", manifests),
    ("catalogue", catalogue),
    ("plan", plan),
    ("quantities", quantities),
    ("durations", durations),
    ("json", json),
    ("watch", watch),
    ("config", config),
    ("journal", journal),
    ("nodeclass", nodeclass),
    ("userdata-mime", userdata_mime),
    ("userdata-toml", userdata_toml),
    ("userdata-yaml", userdata_yaml),
];
