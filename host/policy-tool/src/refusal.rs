//! Why a core module is no policy, in the words of whoever wrote it: what it is, which export is
//! missing, which import is one too many, and what to do. The encoder has refused it before.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use wasmparser::{Parser, Payload};
use wit_component::metadata;
use wit_parser::{
    LiftLowerAbi, ManglingAndAbi, Resolve, WasmExport, WasmExportKind, WasmImport, WorldId,
    WorldItem,
};

/// What WebAssembly begins with, and the version of a module and of a component behind it.
const MAGIC: &[u8] = b"\0asm";
const MODULE: &[u8] = &[1, 0, 0, 0];
/// The names of exports that hosts and tools agree on.
const NAMES: ManglingAndAbi = ManglingAndAbi::Legacy(LiftLowerAbi::Sync);
/// Where a module carries its world.
const WORLD_SECTION: &str = "component-type";
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// Refuses what is no core module.
pub fn check_form(bytes: &[u8]) -> Result<()> {
    match bytes.strip_prefix(MAGIC) {
        Some(rest) if rest.starts_with(MODULE) => Ok(()),
        Some(_) => bail!(
            "it is a component already, and a core module is wanted; `longshore policy check` says \
             whether it is a policy"
        ),
        None if is_text(bytes) => bail!(
            "it is text, and a core module is wanted; `wat2wasm` and `wasm-tools parse` make one of it"
        ),
        None => bail!(
            "it is no WebAssembly, which begins with the bytes 00 61 73 6d; name what the compiler \
             made for wasm32"
        ),
    }
}

fn is_text(bytes: &[u8]) -> bool {
    let begin = bytes.trim_ascii_start();
    begin.starts_with(b"(") || begin.starts_with(b";;")
}

/// Whether a module says which world it is made for.
pub fn carries_world(module: &[u8]) -> bool {
    Parser::new(0).parse_all(module).any(|part| {
        let Ok(Payload::CustomSection(section)) = part else {
            return false;
        };
        section.name().starts_with(WORLD_SECTION)
    })
}

/// Whether a module exports what every policy does. Bindings that nothing exports leave a world without
/// exports behind.
pub fn exports_policy(module: &[u8]) -> bool {
    let names = Names::of(module).unwrap_or_default();
    names.exports.iter().any(|name| name.ends_with("#describe"))
}

/// Names that a module imports and exports.
#[derive(Default)]
struct Names<'a> {
    imports: Vec<(&'a str, &'a str)>,
    exports: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(module: &'a [u8]) -> Option<Self> {
        let mut names = Names::default();
        for part in Parser::new(0).parse_all(module) {
            match part.ok()? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import.ok()?;
                        names.imports.push((import.module, import.name));
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        names.exports.insert(export.ok()?.name);
                    }
                }
                _ => {}
            }
        }
        Some(names)
    }
}

/// What a world wants and gives, by names of core modules.
#[derive(Default)]
struct Wanted {
    /// What to call it.
    world: String,
    exports: Vec<String>,
    imports: BTreeSet<(String, String)>,
}

impl Wanted {
    fn of(resolve: &Resolve, world: WorldId, name: Option<&str>) -> Self {
        let world = &resolve.worlds[world];
        let mut wanted = Wanted {
            // What is carried is merged, which loses the name.
            world: name.map_or("its world".to_owned(), |name| format!("world {name}")),
            ..Wanted::default()
        };
        let functions = |item: &WorldItem| match item {
            WorldItem::Interface { id, .. } => {
                let all = resolve.interfaces[*id].functions.values();
                all.cloned().map(|func| (true, func)).collect()
            }
            WorldItem::Function(func) => vec![(false, func.clone())],
            WorldItem::Type { .. } => Vec::new(),
        };
        for (key, item) in &world.exports {
            for (inside, func) in functions(item) {
                let export = WasmExport::Func {
                    interface: inside.then_some(key),
                    func: &func,
                    kind: WasmExportKind::Normal,
                };
                wanted.exports.push(resolve.wasm_export_name(NAMES, export));
            }
        }
        for (key, item) in &world.imports {
            for (inside, func) in functions(item) {
                let import = WasmImport::Func {
                    interface: inside.then_some(key),
                    func: &func,
                };
                wanted
                    .imports
                    .insert(resolve.wasm_import_name(NAMES, import));
            }
        }
        wanted
    }
}

/// Lines that say what is missing and what is too much, for a module that carries its world; `world` is
/// the name if it is known, and `answered` the module that answers WASI preview 1. Nothing where the
/// encoder's own words say more.
pub fn reasons(module: &[u8], world: Option<&str>, answered: Option<&[u8]>) -> Option<String> {
    let (_, bindgen) = metadata::decode(module).ok()?;
    let wanted = Wanted::of(&bindgen.resolve, bindgen.world, world);
    let names = Names::of(module)?;
    // The ABI has a second scheme of names. No toolchain generates it by default.
    if names.exports.iter().any(|name| name.starts_with("cm32p2")) {
        return None;
    }
    let answered = match answered {
        Some(adapter) => Names::of(adapter)?.exports,
        None => BTreeSet::new(),
    };
    let imports = names.imports.iter().filter_map(|&(module, name)| {
        let is_known = wanted
            .imports
            .contains(&(module.to_owned(), name.to_owned()));
        let is_answered = module == PREVIEW1 && answered.contains(name);
        let hint = || import_hint(&wanted, module, name, !answered.is_empty());
        (!is_known && !is_answered).then(|| format!("it imports {module} {name}: {}", hint()))
    });
    let missing = wanted.exports.iter();
    let missing = missing.filter(|name| !names.exports.contains(name.as_str()));
    let exports = missing.map(|name| {
        let hint = export_hint(&names, name);
        format!("{} wants the export {name}: {hint}", wanted.world)
    });
    let lines: Vec<String> = imports.chain(exports).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// What to do about an import that no host answers.
fn import_hint(wanted: &Wanted, module: &str, name: &str, preview1: bool) -> String {
    match (module, name) {
        ("env", "abort") => "AssemblyScript's; `asc … --use abort=` leaves it out".to_owned(),
        ("env", _) => "the linker found no definition of it; define it, or leave out what calls \
                       it"
        .to_owned(),
        (PREVIEW1, _) if !preview1 => {
            "a policy has no WASI; --preview1 answers it with constants, or \
                                       build without WASI"
                .to_owned()
        }
        (PREVIEW1, _) => "--preview1 has no answer to it; leave out what calls it".to_owned(),
        _ if module.starts_with("__wbindgen") || module == "wbg" => {
            "wasm-bindgen's, which is for JavaScript; build for wasm32-unknown-unknown without it"
                .to_owned()
        }
        _ => {
            let of_module = wanted.imports.iter().filter(|(of, _)| of == module);
            let functions: Vec<&str> = of_module.map(|(_, name)| name.as_str()).collect();
            if !functions.is_empty() {
                return format!("that interface has {}", functions.join(", "));
            }
            let interfaces: BTreeSet<&str> =
                wanted.imports.iter().map(|(of, _)| of.as_str()).collect();
            let interfaces: Vec<&str> = interfaces.into_iter().collect();
            format!(
                "{} has no such interface; it has {}",
                wanted.world,
                interfaces.join(", ")
            )
        }
    }
}

/// What to do about an export that is missing: something of nearly its name may be there.
fn export_hint(names: &Names<'_>, wanted: &str) -> String {
    let function = wanted.rsplit('#').next().unwrap_or(wanted);
    let is_near = |name: &&&str| {
        let before = name.strip_suffix(function);
        before.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric()))
            && !name.starts_with("cabi_post_")
    };
    match names.exports.iter().find(is_near) {
        Some(near) => format!("it exports {near}; rename that"),
        None => "names and types of exports are in policy-abi.md".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::component::wrap;

    const MEMORY: &str = r#"(memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0))"#;
    const PLUGIN: &str = r#"(func (export "longshore:policy/plugin@0.1.0#describe") (result i32) unreachable)
        (func (export "longshore:policy/plugin@0.1.0#configure") (param i32 i32) (result i32) unreachable)"#;
    const SCORER: &str =
        r#"(func (export "longshore:policy/scorer@0.1.0#score") (result i32) unreachable)"#;

    fn contract() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/policy@0.1.0")
    }

    /// What is said of a module of these parts, imports first.
    fn said_in(world: &str, parts: &[&str], preview1: bool) -> String {
        let module = wat::parse_str(format!("(module {})", parts.join("\n"))).unwrap();
        let wit = contract();
        match wrap(module, Some((&wit, world)), preview1) {
            Ok(_) => "a component".to_owned(),
            Err(error) => format!("{error:#}").replace(&wit.display().to_string(), "WIT"),
        }
    }

    fn said(parts: &[&str]) -> String {
        said_in("scorer-policy", parts, false)
    }

    #[test]
    fn the_export_that_is_missing_is_named_and_what_has_nearly_its_name() {
        assert_eq!(said(&[MEMORY, PLUGIN, SCORER]), "a component");
        assert_eq!(
            said(&[MEMORY, PLUGIN]),
            "world scorer-policy wants the export longshore:policy/scorer@0.1.0#score: names and types \
             of exports are in policy-abi.md"
        );
        let near = r#"(func (export "scorer_score") (result i32) unreachable)"#;
        assert_eq!(
            said(&[MEMORY, PLUGIN, near]),
            "world scorer-policy wants the export longshore:policy/scorer@0.1.0#score: it exports \
             scorer_score; rename that"
        );
        assert_eq!(
            said_in("commitments-policy", &[MEMORY, PLUGIN, SCORER], false),
            "world commitments-policy wants the export longshore:policy/commitments@0.1.0#pools: names \
             and types of exports are in policy-abi.md"
        );
    }

    #[test]
    fn an_import_that_nobody_answers_is_named_with_what_leaves_it_out() {
        let abort = r#"(import "env" "abort" (func (param i32 i32 i32 i32)))"#;
        assert_eq!(
            said(&[abort, MEMORY, PLUGIN]),
            "it imports env abort: AssemblyScript's; `asc … --use abort=` leaves it out\n\
             world scorer-policy wants the export longshore:policy/scorer@0.1.0#score: names and types \
             of exports are in policy-abi.md"
        );
        let import = |module: &str, name: &str| {
            let import = format!("(import \"{module}\" \"{name}\" (func))");
            said(&[&import, MEMORY, PLUGIN, SCORER])
        };
        assert_eq!(
            import("env", "pow"),
            "it imports env pow: the linker found no definition of it; define it, or leave out what \
             calls it"
        );
        assert_eq!(
            import("longshore:policy/chain@0.1.0", "cost"),
            "it imports longshore:policy/chain@0.1.0 cost: that interface has costs"
        );
        let elsewhere = import("longshore:policy/chain@0.2.0", "costs");
        assert!(
            elsewhere.starts_with(
                "it imports longshore:policy/chain@0.2.0 costs: world scorer-policy has no such \
                 interface; it has longshore:policy/chain@0.1.0, "
            ),
            "{elsewhere}"
        );
    }

    #[test]
    fn wasi_is_answered_if_it_is_asked_for_and_there_is_an_answer() {
        let exit = r#"(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))"#;
        let socket = r#"(import "wasi_snapshot_preview1" "sock_open" (func (param i32)))"#;
        assert_eq!(
            said(&[exit, MEMORY, PLUGIN, SCORER]),
            "it imports wasi_snapshot_preview1 proc_exit: a policy has no WASI; --preview1 answers it \
             with constants, or build without WASI"
        );
        let answered = |import| said_in("scorer-policy", &[import, MEMORY, PLUGIN, SCORER], true);
        assert_eq!(answered(exit), "a component");
        assert_eq!(
            answered(socket),
            "it imports wasi_snapshot_preview1 sock_open: --preview1 has no answer to it; leave out \
             what calls it"
        );
    }

    #[test]
    fn a_world_that_is_not_there_is_answered_with_those_that_are() {
        assert_eq!(
            said_in("scorer", &[MEMORY, PLUGIN, SCORER], false),
            "WIT has no world scorer; it has imports, scorer-policy, commitments-policy"
        );
        let module = || wat::parse_str("(module)").unwrap();
        let of = |folder: &std::path::Path| {
            let error = wrap(module(), Some((folder, "scorer-policy")), false).unwrap_err();
            let above = contract().parent().unwrap().display().to_string();
            format!("{error:#}").replace(&above, "WIT")
        };
        assert_eq!(
            of(contract().parent().unwrap()),
            "WIT is no package of WIT; name a folder in it: WIT/bootstrap@0.1.0, \
             WIT/consolidation@0.1.0, WIT/policy@0.1.0"
        );
        assert_eq!(
            of(&contract().with_file_name("nothing")),
            "WIT/nothing is no folder; the contract's WIT is wanted, as wit/policy@0.1.0"
        );
        assert_eq!(
            format!("{:#}", wrap(module(), None, false).unwrap_err()),
            "it does not say for which world it is made; name the contract's WIT and the world: --wit \
             wit/policy@0.1.0 scorer-policy"
        );
    }

    #[test]
    fn what_is_no_core_module_is_said_to_be_what_it_is() {
        let said = |bytes: &[u8]| {
            let wit = contract();
            let wrapped = wrap(bytes.to_vec(), Some((&wit, "scorer-policy")), false);
            format!("{:#}", wrapped.unwrap_err())
        };
        assert_eq!(
            said(b" (module)"),
            "it is text, and a core module is wanted; `wat2wasm` and `wasm-tools parse` make one of it"
        );
        assert_eq!(
            said(b"\0asm\x0d\0\x01\0"),
            "it is a component already, and a core module is wanted; `longshore policy check` says \
             whether it is a policy"
        );
        assert_eq!(
            said(b"\x7fELF"),
            "it is no WebAssembly, which begins with the bytes 00 61 73 6d; name what the compiler made \
             for wasm32"
        );
    }
}
