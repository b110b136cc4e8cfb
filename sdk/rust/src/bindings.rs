//! Generated from wit/. One module for what every policy imports and exports, one for
//! each ability beside it; the encoder joins the worlds of those that a component exports. No two
//! of them export the same interface: its macro would be defined twice.
#![allow(missing_docs)]

pub use wit_bindgen;

pub mod plugin {
    wit_bindgen::generate!({
        path: "../../wit/policy@0.1.0",
        inline: "package longshore:sdk-plugin; world plugin { include longshore:policy/imports@0.1.0; export longshore:policy/plugin@0.1.0; }",
        world: "longshore:sdk-plugin/plugin",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_plugin_ability",
        default_bindings_module: "longshore_sdk::bindings::plugin",
        runtime_path: "longshore_sdk::bindings::wit_bindgen::rt",
    });
}

pub mod scorer {
    wit_bindgen::generate!({
        path: "../../wit/policy@0.1.0",
        inline: "package longshore:sdk-scorer; world scorer { export longshore:policy/scorer@0.1.0; }",
        world: "longshore:sdk-scorer/scorer",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_scorer_ability",
        default_bindings_module: "longshore_sdk::bindings::scorer",
        runtime_path: "longshore_sdk::bindings::wit_bindgen::rt",
    });
}

pub mod commitments {
    wit_bindgen::generate!({
        path: "../../wit/policy@0.1.0",
        inline: "package longshore:sdk-commitments; world commitments { export longshore:policy/commitments@0.1.0; }",
        world: "longshore:sdk-commitments/commitments",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_commitments_ability",
        default_bindings_module: "longshore_sdk::bindings::commitments",
        runtime_path: "longshore_sdk::bindings::wit_bindgen::rt",
    });
}

pub mod consolidation {
    wit_bindgen::generate!({
        path: "../../wit/consolidation@0.1.0",
        inline: "package longshore:sdk-consolidation; world consolidation { import longshore:consolidation/nodes@0.1.0; import longshore:consolidation/node-pools@0.1.0; import longshore:consolidation/owners@0.1.0; import longshore:consolidation/proposals@0.1.0; export longshore:consolidation/consolidation@0.1.0; }",
        world: "longshore:sdk-consolidation/consolidation",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_consolidation_ability",
        default_bindings_module: "longshore_sdk::bindings::consolidation",
        runtime_path: "longshore_sdk::bindings::wit_bindgen::rt",
    });
}

pub mod bootstrap {
    wit_bindgen::generate!({
        path: "../../wit/bootstrap@0.1.0",
        inline: "package longshore:sdk-bootstrap; world bootstrap { import longshore:bootstrap/cluster@0.1.0; import longshore:bootstrap/machines@0.1.0; import longshore:bootstrap/built-in@0.1.0; import longshore:bootstrap/kind@0.1.0; export longshore:bootstrap/bootstrap@0.1.0; }",
        world: "longshore:sdk-bootstrap/bootstrap",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_bootstrap_ability",
        default_bindings_module: "longshore_sdk::bindings::bootstrap",
        runtime_path: "longshore_sdk::bindings::wit_bindgen::rt",
    });
}
