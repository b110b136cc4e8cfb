//! The functions that the host offers to guests: `longshore:policy`, by name.
//!
//! A column is a function without parameters that returns a list. It is lowered from the shared
//! array straight into the guest's memory. The guest pays fuel for every call and every byte.

mod cluster;
pub(crate) mod interface;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::bootstrap::interfaces as bootstrap;
use crate::guest_text::cut;
use interface::Interface;
use state::{Level, StoreData, charge};

/// The packages whose interfaces the host offers, and the version of each.
pub(crate) const PACKAGE: &str = "longshore:policy";
pub(crate) const CONSOLIDATION: &str = "longshore:consolidation";
pub(crate) const BOOTSTRAP: &str = "longshore:bootstrap";
pub(crate) const VERSION: &str = "0.1.0";

/// The longest log message kept; longer ones are cut.
const MAX_MESSAGE_BYTES: usize = 2 << 10;

/// An interface of a package in one version. Several versions of one can be offered side by side.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    package: &'static str,
    name: &'static str,
    version: &'static str,
    define: Define,
}

type Define = fn(&mut Interface) -> wasmtime::Result<()>;

/// Names of functions by interface, with its package and version.
pub(crate) type Offered = BTreeMap<String, Vec<&'static str>>;

/// Everything that the host offers, ready to link, and by name.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<(Linker<StoreData>, Offered)> {
    linker_of(engine, &ENTRIES)
}

fn linker_of(engine: &Engine, entries: &[Entry]) -> wasmtime::Result<(Linker<StoreData>, Offered)> {
    let mut linker = Linker::new(engine);
    let mut offered = Offered::new();
    for entry in entries {
        let full = format!("{}/{}@{}", entry.package, entry.name, entry.version);
        let mut names = Vec::new();
        let instance = linker.instance(&full)?;
        (entry.define)(&mut Interface {
            linker: instance,
            names: &mut names,
        })?;
        offered.insert(full, names);
    }
    Ok((linker, offered))
}

const fn entry(package: &'static str, name: &'static str, define: Define) -> Entry {
    Entry {
        package,
        name,
        version: VERSION,
        define,
    }
}

const ENTRIES: [Entry; 17] = [
    entry(PACKAGE, "chain", chain),
    entry(PACKAGE, "joined", joined),
    entry(PACKAGE, "labels", labels),
    entry(PACKAGE, "log", log),
    entry(PACKAGE, "node-pool", node_pool),
    entry(PACKAGE, "offerings", offerings),
    entry(PACKAGE, "request", request),
    entry(PACKAGE, "resources", resources),
    entry(PACKAGE, "signals", signals),
    entry(CONSOLIDATION, "node-pools", cluster::node_pools),
    entry(CONSOLIDATION, "nodes", cluster::nodes),
    entry(CONSOLIDATION, "owners", cluster::owners),
    entry(CONSOLIDATION, "proposals", cluster::proposals),
    entry(BOOTSTRAP, "built-in", bootstrap::built_in),
    entry(BOOTSTRAP, "cluster", bootstrap::cluster),
    entry(BOOTSTRAP, "kind", bootstrap::kind),
    entry(BOOTSTRAP, "machines", bootstrap::machines),
];

fn request(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked("now", |view| view.request.now)
}

fn node_pool(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked("name", |view| view.request.node_pool.clone())?;
    to.asked("labels", |view| view.request.pool.labels.clone())?;
    to.asked("annotations", |view| view.request.pool.annotations.clone())?;
    to.asked("weight", |view| view.request.pool.weight)
}

fn labels(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked("keys", |view| {
        view.request.columns.fixed.details.label_keys()
    })?;
    to.asked_by_name("values", |view, key| view.request.columns.label(key).0)?;
    to.asked_by_name("rows", |view, key| view.request.columns.label(key).1)
}

fn resources(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked("names", |view| {
        view.request.columns.fixed.details.resource_names()
    })?;
    to.asked_by_name("capacity", |view, name| view.request.columns.capacity(name))?;
    to.asked_by_name("allocatable", |view, name| {
        view.request.columns.allocatable(name)
    })
}

fn joined(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked_by_name_and_number("column", |view, name, otherwise| {
        view.request.columns.joined(view.signal(name), otherwise)
    })
}

fn log(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("write", |mut cx, (level, text): (Level, String)| {
        charge(&mut cx, text.len())?;
        let text = cut(text, MAX_MESSAGE_BYTES);
        cx.data_mut().say(level, text);
        Ok(())
    })
}

fn chain(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked("costs", |view| view.request.costs.clone())
}

fn offerings(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked("edition", |view| view.request.columns.fixed.edition.clone())?;
    to.asked("count", |view| view.request.columns.count() as u32)?;
    to.column("instance-type-names", |c| &c.fixed.instance_type_names)?;
    to.column("instance-types", |c| &c.fixed.instance_types)?;
    to.column("zone-names", |c| &c.fixed.zone_names)?;
    to.column("zones", |c| &c.fixed.zones)?;
    to.column("capacity-type-names", |c| &c.fixed.capacity_type_names)?;
    to.column("capacity-types", |c| &c.fixed.capacity_types)?;
    to.column("architecture-names", |c| &c.fixed.architecture_names)?;
    to.column("architectures", |c| &c.fixed.architectures)?;
    to.column("reservation-names", |c| &c.fixed.reservation_names)?;
    to.column("reservations", |c| &c.fixed.reservations)?;
    to.column("cpu-millicores", |c| &c.fixed.cpu_millicores)?;
    to.column("memory-mib", |c| &c.fixed.memory_mib)?;
    to.column("prices", |c| &c.moving.prices)?;
    to.column("available", |c| &c.moving.available)?;
    to.column("reservation-counts", |c| &c.moving.reservation_counts)
}

fn signals(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked_by_name("keys", |view, name| {
        let signal = view.signal(name);
        signal.map_or_else(Arc::default, |signal| signal.keys.clone())
    })?;
    to.asked_by_name("values", |view, name| {
        let signal = view.signal(name);
        signal.map_or_else(Arc::default, |signal| signal.values.clone())
    })?;
    to.asked_by_name("time", |view, name| {
        view.signal(name).map_or(f64::NAN, |signal| signal.time)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{HostConfig, engine};

    /// Functions of an interface in wit/, sorted.
    fn promised(entry: &Entry) -> Vec<String> {
        let package = entry.package.trim_start_matches("longshore:");
        let root = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let folder = format!("{root}/../../wit/{package}@{}", entry.version);
        let files = std::fs::read_dir(folder).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let text: String = files
            .filter(|path| path.is_file())
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        let start = text
            .find(&format!("\ninterface {} {{", entry.name))
            .unwrap();
        let body = &text[start..][..text[start..].find("\n}").unwrap()];
        let functions = body
            .lines()
            .filter_map(|line| line.trim().split_once(": func("));
        let mut names: Vec<String> = functions.map(|(name, _)| name.to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_host_offers_what_the_contract_promises_and_nothing_else() {
        let (_, offered) = linker(&engine(&HostConfig::default()).unwrap()).unwrap();
        assert_eq!(offered.len(), ENTRIES.len());
        for entry in &ENTRIES {
            let full = format!("{}/{}@{}", entry.package, entry.name, entry.version);
            let mut functions = offered[&full].clone();
            functions.sort_unstable();
            assert_eq!(functions, promised(entry), "{full}");
        }
    }

    /// `request` as another version might have it: whole seconds.
    fn whole_seconds(to: &mut Interface) -> wasmtime::Result<()> {
        to.asked("now", |view| view.request.now as u32)
    }

    #[test]
    fn two_versions_of_an_interface_are_served_side_by_side() {
        let engine = engine(&HostConfig::default()).unwrap();
        let next = Entry {
            version: "0.2.0",
            define: whole_seconds,
            ..entry(PACKAGE, "request", request)
        };
        let both = [entry(PACKAGE, "request", request), next];
        let (linker, offered) = linker_of(&engine, &both).unwrap();
        assert_eq!(offered.len(), 2);
        for (version, number) in [("0.1.0", "f64"), ("0.2.0", "u32")] {
            let made = |of: &str| {
                let text = format!(
                    "(component (import \"longshore:policy/request@{version}\" (instance $i (export \
                     \"now\" (func (result {of}))))) (core func $now (canon lower (func $i \"now\"))) \
                     (core module $m (import \"h\" \"now\" (func (result {core})))) (core instance \
                     (instantiate $m (with \"h\" (instance (export \"now\" (func $now)))))))",
                    core = if of == "f64" { "f64" } else { "i32" }
                );
                let bytes = wat::parse_str(text).unwrap();
                let component = wasmtime::component::Component::new(&engine, bytes).unwrap();
                linker.instantiate_pre(&component).is_ok()
            };
            assert!(made(number), "{version}");
            let other = if number == "f64" { "u32" } else { "f64" };
            assert!(!made(other), "{version} is not the other one");
        }
    }
}
