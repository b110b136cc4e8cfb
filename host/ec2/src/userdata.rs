//! User data of nodes: what `longshore-userdata` renders, from NodeClasses and from files.

mod nodes;

pub use longshore_userdata::{
    Boot, Cluster, Family, Fault, Image, ImageTerm, MOST_BYTES, Taint, duration, render, resolve,
};
pub use nodes::{Node, Rendered, nodes, read_nodes};

use crate::nodeclass::{Ami, AmiFamily, AmiSelectorTerm};

/// A taint of a NodePool or a NodeClaim as user data has it: without the time at which it was added.
pub fn taint(taint: &longshore_api::crd::Taint) -> Taint {
    Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    }
}

impl From<AmiFamily> for Family {
    fn from(family: AmiFamily) -> Self {
        match family {
            AmiFamily::AL2 => Family::AL2,
            AmiFamily::AL2023 => Family::AL2023,
            AmiFamily::Bottlerocket => Family::Bottlerocket,
            AmiFamily::Custom => Family::Custom,
            AmiFamily::Windows2019 => Family::Windows2019,
            AmiFamily::Windows2022 => Family::Windows2022,
            AmiFamily::Windows2025 => Family::Windows2025,
        }
    }
}

impl From<&AmiSelectorTerm> for ImageTerm {
    fn from(term: &AmiSelectorTerm) -> Self {
        ImageTerm {
            alias: term.alias.clone(),
            name: term.name.clone(),
            id: term.id.clone(),
        }
    }
}

impl From<&Ami> for Image {
    fn from(image: &Ami) -> Self {
        Image {
            id: image.id.clone(),
            name: image.name.clone(),
        }
    }
}
