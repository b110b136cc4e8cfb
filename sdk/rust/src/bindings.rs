//! Generated from wit/policy@0.1.0. One module for the world that every scorer implements, one for
//! each ability beside it; the encoder joins the worlds of those that a component exports.
#![allow(missing_docs)]

pub use wit_bindgen;

pub mod scorer {
    wit_bindgen::generate!({
        path: "../../wit/policy@0.1.0",
        world: "scorer-policy",
        pub_export_macro: true,
        export_macro_name: "export_scorer_policy",
        default_bindings_module: "longshore_sdk::bindings::scorer",
        runtime_path: "longshore_sdk::bindings::wit_bindgen::rt",
    });
}

pub mod commitments {
    wit_bindgen::generate!({
        path: "../../wit/policy@0.1.0",
        inline: "package longshore:sdk; world commitments { export longshore:policy/commitments@0.1.0; }",
        world: "longshore:sdk/commitments",
        pub_export_macro: true,
        export_macro_name: "export_commitments_ability",
        default_bindings_module: "longshore_sdk::bindings::commitments",
        runtime_path: "longshore_sdk::bindings::wit_bindgen::rt",
    });
}

pub mod consolidation {
    wit_bindgen::generate!({
        path: "../../wit/policy@0.1.0",
        world: "consolidation-policy",
        pub_export_macro: true,
        export_macro_name: "export_consolidation_policy",
        default_bindings_module: "longshore_sdk::bindings::consolidation",
        runtime_path: "longshore_sdk::bindings::wit_bindgen::rt",
    });
}
