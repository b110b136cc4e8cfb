//! Parameters of JSON protocols.

use serde::de::DeserializeOwned;

use crate::wire::Refusal;

/// Reads the parameters of a call. What the emulator does not read is refused.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| {
        Refusal::new(
            "SerializationException",
            format!("the request cannot be read: {error}"),
        )
    })
}

/// The error of an action that a service does not have, or that the emulator lacks.
pub(crate) fn unknown(action: &str) -> Refusal {
    Refusal::new(
        "UnknownOperationException",
        format!("the operation {action} is not known here"),
    )
}
