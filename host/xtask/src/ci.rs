//! What differs where changes are gated.

/// Whether this is an unattended run that gates changes. A test that cannot run there is a failure.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
