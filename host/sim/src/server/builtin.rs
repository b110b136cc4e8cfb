//! What the server adds to objects of built-in kinds and refuses of them.

use serde_json::Value;

use super::Sub;
use super::refusal::Refused;
use super::state::State;
use crate::object::Resource;

/// Completes and checks a new object.
pub fn admit(_: &mut State, _: Resource, _: &mut Value) -> Result<(), Refused> {
    Ok(())
}

/// Completes and checks a changed object.
pub fn change(_: Resource, _: &mut Value, _: &Value, _: Sub) -> Result<(), Refused> {
    Ok(())
}
