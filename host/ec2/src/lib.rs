//! EC2 without a network: what is computed from descriptions that EC2 gave. Records of its answers
//! go in; NodeClasses, instance types, prices, images and user data come out. No `aws-*` crate, no
//! I/O.

#![warn(missing_docs)]

pub mod bootstrap;
pub mod catalogue;
pub mod definitions;
pub mod expression;
pub mod facts;
pub mod hash;
pub mod images;
pub mod kubelet;
pub mod launch;
pub mod nodeclass;
pub mod repair;
pub mod tags;
pub mod userdata;
pub mod validation;
