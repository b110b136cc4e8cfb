//! The score request.

/// When it is asked, in seconds since 1970. The only time there is.
pub fn now() -> f64 {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::plugin::longshore::policy::request::now();
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::now()
}
