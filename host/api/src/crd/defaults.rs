//! Defaults of fields of several resources.

/// Whether a field has its default and can be left out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The default of `expireAfter`: 30 × 24 h.
pub(super) fn month() -> String {
    "720h".to_owned()
}
