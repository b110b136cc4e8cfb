//! Requests and replies: query protocol and JSON in, XML and JSON out, errors as each service
//! writes them.

mod error;
mod form;
mod request;
mod route;
mod xml;

pub use error::Refusal;
pub(crate) use form::{Params, Scope};
pub use request::{Reply, Request};
pub(crate) use route::{Call, Service, route};
pub(crate) use xml::{Xml, document, element, flag, items, text};
