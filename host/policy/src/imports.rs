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
use crate::columns::{INTERRUPTION_RATES, PLACEMENT_SCORES};
use crate::guest_text::cut;
use interface::Interface;
use state::{Level, State, charge};

/// The package whose interfaces the host offers, and its version.
pub(crate) const PACKAGE: &str = "longshore:policy";
pub(crate) const VERSION: &str = "0.1.0";

/// The longest log message kept; longer ones are cut.
const MAX_MESSAGE_BYTES: usize = 2 << 10;

/// Names of functions by interface.
pub(crate) type Offered = BTreeMap<&'static str, Vec<&'static str>>;

/// Everything that the host offers, ready to link, and by name.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<(Linker<State>, Offered)> {
    let mut linker = Linker::new(engine);
    let mut offered = Offered::new();
    for (name, define) in INTERFACES {
        let mut names = Vec::new();
        let instance = linker.instance(&format!("{PACKAGE}/{name}@{VERSION}"))?;
        define(&mut Interface {
            linker: instance,
            names: &mut names,
        })?;
        offered.insert(name, names);
    }
    Ok((linker, offered))
}

type Define = fn(&mut Interface) -> wasmtime::Result<()>;

const INTERFACES: [(&str, Define); 12] = [
    ("built-in", bootstrap::built_in),
    ("chain", chain),
    ("cluster", bootstrap::cluster),
    ("log", log),
    ("machines", bootstrap::machines),
    ("node-pools", cluster::node_pools),
    ("nodes", cluster::nodes),
    ("offerings", offerings),
    ("owners", cluster::owners),
    ("proposals", cluster::proposals),
    ("request", request),
    ("signals", signals),
];

fn request(to: &mut Interface) -> wasmtime::Result<()> {
    to.asked("node-pool", |view| view.request.node_pool.clone())?;
    to.asked("now", |view| view.request.now)
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
    to.asked("generation", |view| view.request.columns.generation)?;
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
    to.column("gpu-counts", |c| &c.fixed.gpu_counts)?;
    to.column("prices", |c| &c.moving.micros)?;
    to.column("available", |c| &c.moving.available)?;
    to.column("reservation-counts", |c| &c.moving.reservation_counts)?;
    to.of_signal("interruption-rates", INTERRUPTION_RATES, |c, seen| {
        c.interruption_rates(seen)
    })?;
    to.of_signal("placement-scores", PLACEMENT_SCORES, |c, seen| {
        c.placement_scores(seen)
    })
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
        view.signal(name).map_or(-1.0, |signal| signal.time)
    })?;
    to.asked("generation", |view| view.request.signals.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{HostConfig, engine};

    /// Functions of an interface in wit/, sorted.
    fn promised(interface: &str) -> Vec<String> {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/../../wit/policy@0.1.0";
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let text: String = files.collect();
        let start = text.find(&format!("\ninterface {interface} {{")).unwrap();
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
        assert_eq!(offered.len(), INTERFACES.len());
        for (interface, mut functions) in offered {
            functions.sort();
            assert_eq!(functions, promised(interface), "{interface}");
        }
    }
}
