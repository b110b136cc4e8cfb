//! The target of this name for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longshore_fuzz::userdata_toml(bytes));
