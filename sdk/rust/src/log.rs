//! Log lines of a policy. Each becomes a field of the round's report.

#[cfg(target_arch = "wasm32")]
use crate::bindings::plugin::longshore::policy::log as host;

/// Says something that only authors of policies want to know.
pub fn debug(message: &str) {
    write("debug", message);
}

/// Says something of interest.
pub fn info(message: &str) {
    write("info", message);
}

/// Says something that operators should look at some day.
pub fn warn(message: &str) {
    write("warn", message);
}

/// Says something that operators should look at now.
pub fn error(message: &str) {
    write("error", message);
}

#[cfg(target_arch = "wasm32")]
fn write(level: &str, message: &str) {
    let level = match level {
        "debug" => host::Level::Debug,
        "info" => host::Level::Info,
        "warn" => host::Level::Warn,
        _ => host::Level::Error,
    };
    host::write(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
fn write(level: &str, message: &str) {
    eprintln!("{level}: {message}");
}
